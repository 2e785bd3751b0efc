//! Decompression: recognised by the first bytes, done ahead on a thread of its own.
//!
//! An input may consist of several compressed streams, one after the other.

use std::io::{self, BufRead, BufReader, Read};

use super::read_ahead::{BLOCK_BYTES, ReadAhead};
use super::stream::Bytes;

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    /// As in a zip archive, which says so itself.
    Deflate,
    Zstd,
    Bzip2,
    Lz4,
}

/// The compression that the first bytes show, or the name of an unsupported one.
pub(super) fn recognise(head: &[u8]) -> Result<Compression, &'static str> {
    match head {
        [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
        // A zstd frame, or a skippable one before it.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Compression::Zstd),
        // After the level comes a block, or the end of an empty stream; plain text may start with
        // the same letters.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
        | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Ok(Compression::Bzip2),
        [0x04, 0x22, 0x4d, 0x18, ..] => Ok(Compression::Lz4),
        [0x02, 0x21, 0x4c, 0x18, ..] => Err("lz4 of its legacy format"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Err("xz"),
        [b'P', b'K', 3, 4, ..] => Err("zip"),
        _ => Ok(Compression::None),
    }
}

/// The decompressed bytes, decompressed a few blocks ahead.
pub(super) fn decompress(bytes: Bytes, compression: Compression) -> io::Result<Bytes> {
    if compression == Compression::None {
        return Ok(bytes);
    }
    Ok(Box::new(ReadAhead::start(decompress_in_place(bytes, compression)?)?))
}

/// The decompressed bytes, each as soon as it is asked for and there.
pub(super) fn decompress_in_place(bytes: Bytes, compression: Compression) -> io::Result<Bytes> {
    let buffered = BufReader::with_capacity(BLOCK_BYTES, bytes);
    Ok(match compression {
        Compression::None => Box::new(buffered),
        Compression::Gzip => Box::new(GzipMembers::new(buffered)),
        Compression::Deflate => Box::new(flate2::bufread::DeflateDecoder::new(buffered)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered)),
        Compression::Lz4 => Box::new(Lz4Frames::new(buffered)),
    })
}

/// Consecutive gzip members. Zeros may follow them: tapes and tar archives are padded with these,
/// and `gzip -d` passes over them, too.
struct GzipMembers<R> {
    /// `None` after the last one.
    member: Option<flate2::bufread::GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    fn new(inner: R) -> Self {
        GzipMembers { member: Some(flate2::bufread::GzDecoder::new(inner)) }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let n = member.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            // The member has ended.
            let Some(member) = self.member.take() else { break };
            let mut inner = member.into_inner();
            match inner.fill_buf()?.first() {
                None => break,
                Some(0x1f) => self.member = Some(flate2::bufread::GzDecoder::new(inner)),
                Some(_) => {
                    skip_zeros(&mut inner)?;
                    break;
                }
            }
        }
        Ok(0)
    }
}

/// Reads zeros up to the end; anything else is an error.
fn skip_zeros(bytes: &mut impl BufRead) -> io::Result<()> {
    loop {
        let read = bytes.fill_buf()?;
        if read.is_empty() {
            return Ok(());
        }
        if read.iter().any(|byte| *byte != 0) {
            let what = "behind the end of the gzip stream there are bytes that are none of gzip";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let count = read.len();
        bytes.consume(count);
    }
}

/// Consecutive LZ4 frames.
struct Lz4Frames<R: Read> {
    frames: lz4_flex::frame::FrameDecoder<Frame<R>>,
}

/// The bytes of a frame, which must not end early: the decoder accepts an end between any two
/// blocks. After the end mark of a frame it reads no further.
struct Frame<R> {
    inner: R,
    inside: bool,
}

impl<R: Read> Read for Frame<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        if n == 0 && self.inside && !buffer.is_empty() {
            // Not `UnexpectedEof`, which the decoder ignores.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an lz4 frame is cut off"));
        }
        self.inside |= n > 0;
        Ok(n)
    }
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(inner: R) -> Self {
        Lz4Frames { frames: lz4_flex::frame::FrameDecoder::new(Frame { inner, inside: false }) }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.frames.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            // The frame has ended.
            let frame = self.frames.get_mut();
            frame.inside = false;
            if frame.inner.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}
