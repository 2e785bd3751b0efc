//! Converts text in other encodings to UTF-8 while it is read ahead.

use std::io::{self, Read};
use std::str::FromStr;

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};

use super::read_ahead::ReadAhead;
use super::stream::Bytes;
use crate::error::Error;

/// Bytes decoded at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// A text encoding: one of the encodings of the web, by any of its names (`latin1` means
/// windows-1252 there, which has printable characters where ISO 8859-1 has control codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEncoding(&'static Encoding);

impl TextEncoding {
    /// The encoding that a byte-order mark shows.
    pub(super) fn from_byte_order_mark(head: &[u8]) -> Option<Self> {
        Encoding::for_bom(head).map(|(encoding, _)| TextEncoding(encoding))
    }

    /// Whether no conversion is needed.
    pub(super) fn is_utf8(self) -> bool {
        self.0 == UTF_8
    }

    /// Whether the byte of a line feed is one wherever it stands, so that a text can be read from
    /// any line on.
    pub(super) fn has_plain_lines(self) -> bool {
        self.is_utf8() || self.0.is_single_byte()
    }
}

impl FromStr for TextEncoding {
    type Err = Error;

    fn from_str(label: &str) -> Result<Self, Error> {
        Encoding::for_label(label.as_bytes()).map(TextEncoding).ok_or_else(|| {
            Error::InvalidInput(format!(
                "unknown encoding '{label}'; known are utf-8, latin1, windows-1250 … 1258, \
                 iso-8859-2 … 16, utf-16le, utf-16be, shift_jis, euc-jp, gbk, big5, euc-kr, koi8-r \
                 and their other names"
            ))
        })
    }
}

/// `bytes` converted to UTF-8.
pub(super) fn transcode(bytes: Bytes, encoding: TextEncoding) -> io::Result<Bytes> {
    Ok(Box::new(ReadAhead::start(Box::new(Transcoder::new(bytes, encoding)))?))
}

/// A reader that converts another encoding to UTF-8.
pub(super) struct Transcoder<R> {
    bytes: R,
    decoder: Decoder,
    name: &'static str,
    raw: Vec<u8>,
    /// Start of the part of `raw` that is not decoded yet.
    at: usize,
    out: Vec<u8>,
    given: usize,
    over: bool,
}

impl<R: Read> Transcoder<R> {
    pub(super) fn new(bytes: R, encoding: TextEncoding) -> Self {
        Transcoder {
            bytes,
            decoder: encoding.0.new_decoder_with_bom_removal(),
            name: encoding.0.name(),
            raw: Vec::new(),
            at: 0,
            out: Vec::new(),
            given: 0,
            over: false,
        }
    }

    /// Decodes until there is output or the input ends.
    fn refill(&mut self) -> io::Result<()> {
        self.given = 0;
        self.out.clear();
        while self.out.is_empty() && !self.over {
            if self.at >= self.raw.len() {
                self.raw.resize(BLOCK_BYTES, 0);
                let n = self.bytes.read(&mut self.raw)?;
                self.raw.truncate(n);
                self.at = 0;
            }
            let last = self.raw.is_empty();
            // Enough for the longest output of these bytes.
            self.out.resize(3 * BLOCK_BYTES + 16, 0);
            let rest = self.raw.get(self.at..).unwrap_or_default();
            let (result, read, written) =
                self.decoder.decode_to_utf8_without_replacement(rest, &mut self.out, last);
            self.at += read;
            self.out.truncate(written);
            match result {
                DecoderResult::InputEmpty => self.over = last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    let name = self.name;
                    return Err(io::Error::other(format!(
                        "the text is not valid {name}; try another --encoding"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Transcoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given >= self.out.len() {
            match self.refill() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
                other => other?,
            }
        }
        let mut rest = self.out.get(self.given..).unwrap_or_default();
        let n = rest.read(buffer)?;
        self.given += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(label: &str, bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        // Byte by byte, so that characters are split.
        let one_by_one = bytes
            .chunks(1)
            .fold(Box::new(io::empty()) as Box<dyn Read>, |all, byte| Box::new(all.chain(byte)));
        Transcoder::new(one_by_one, label.parse().unwrap()).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn encodings() {
        assert_eq!(decoded("latin1", b"caf\xe9,\x80").unwrap(), "café,€");
        assert_eq!(decoded("utf-16le", b"\xff\xfea\0\xe9\0\x3d\xd8\0\xde").unwrap(), "aé😀");
        assert_eq!(decoded("UTF-16BE", b"\0a\0\xe9").unwrap(), "aé");
        assert_eq!(decoded("shift_jis", b"\x83\x65").unwrap(), "テ");
        assert_eq!(decoded("latin1", b"").unwrap(), "");
        for (label, bytes) in
            [("utf-16le", &b"\0\xd8a\0"[..]), ("utf-16le", b"a\0b"), ("euc-jp", b"a\xff")]
        {
            assert!(
                decoded(label, bytes).unwrap_err().to_string().contains("--encoding"),
                "{label}"
            );
        }
        assert!("latin-one".parse::<TextEncoding>().is_err());
    }

    #[test]
    fn long_texts_come_whole() {
        let text = "é€x".repeat(100_000);
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut out = String::new();
        Transcoder::new(&bytes[..], "utf-16le".parse().unwrap()).read_to_string(&mut out).unwrap();
        assert!(out == text);
    }
}
