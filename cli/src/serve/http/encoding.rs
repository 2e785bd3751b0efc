//! How bodies and replies are compressed: as HTTP has it, or in ClickHouse's own blocks.

use std::io::{self, Read, Write as _};

use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::errors::Failure;
use crate::serve::clickhouse::blocks::{BlockReader, BlockWriter, Method};

/// A body of Zstandard looks back at most 8 MiB (RFC 9659): what it claims is allocated.
const MOST_WINDOW_LOG: u32 = 23;

/// A kind of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    None,
    Gzip,
    /// Zlib's format, as HTTP has it.
    Deflate,
    Zstd,
    /// Frames of LZ4.
    Lz4,
    /// ClickHouse's own.
    Blocks,
}

impl Encoding {
    /// The kind that a Content-Encoding names.
    pub(crate) fn named(name: &str) -> Option<Encoding> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Encoding::None,
            "gzip" | "x-gzip" => Encoding::Gzip,
            "deflate" => Encoding::Deflate,
            "zstd" => Encoding::Zstd,
            "lz4" => Encoding::Lz4,
            _ => return None,
        })
    }

    /// The best kind that an Accept-Encoding names.
    pub(crate) fn accepted(names: &str) -> Encoding {
        let is_taken = |name: &str| {
            names.split(',').any(|given| {
                let (given, weight) = given.split_once(';').unwrap_or((given, ""));
                let is_refused = matches!(weight.trim(), "q=0" | "q=0.0");
                given.trim().eq_ignore_ascii_case(name) && !is_refused
            })
        };
        let known = [
            ("zstd", Encoding::Zstd),
            ("lz4", Encoding::Lz4),
            ("gzip", Encoding::Gzip),
            ("deflate", Encoding::Deflate),
        ];
        let best = known.into_iter().find(|(name, _)| is_taken(name));
        best.map_or(Encoding::None, |(_, encoding)| encoding)
    }

    /// What Content-Encoding says of a reply. ClickHouse's own blocks have no name there.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Encoding::None | Encoding::Blocks => None,
            Encoding::Gzip => Some("gzip"),
            Encoding::Deflate => Some("deflate"),
            Encoding::Zstd => Some("zstd"),
            Encoding::Lz4 => Some("lz4"),
        }
    }

    /// The bytes of a body as they were before.
    pub(crate) fn decode<'a>(
        self,
        body: impl Read + Send + 'a,
    ) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Encoding::None => Box::new(body),
            Encoding::Gzip => Box::new(MultiGzDecoder::new(body)),
            Encoding::Deflate => Box::new(ZlibDecoder::new(body)),
            Encoding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(body)?;
                decoder.window_log_max(MOST_WINDOW_LOG)?;
                Box::new(decoder)
            }
            Encoding::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(body)),
            Encoding::Blocks => Box::new(BlockReader::new(body)),
        })
    }
}

/// Compresses a reply.
pub(crate) enum Encoder {
    None,
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Vec<u8>>>),
    Blocks(BlockWriter),
}

impl Encoder {
    pub(crate) fn new(encoding: Encoding) -> io::Result<Encoder> {
        Ok(match encoding {
            Encoding::None => Encoder::None,
            Encoding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Encoding::Deflate => {
                Encoder::Deflate(ZlibEncoder::new(Vec::new(), Compression::fast()))
            }
            Encoding::Zstd => Encoder::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
            Encoding::Lz4 => Encoder::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(Vec::new()))),
            Encoding::Blocks => Encoder::Blocks(BlockWriter::new(Method::Lz4)),
        })
    }

    /// Moves bytes, compressed, to the end of others. Some may be kept for later.
    pub(crate) fn encode(&mut self, bytes: &mut Vec<u8>, out: &mut Vec<u8>) -> io::Result<()> {
        let done = match self {
            Encoder::None => {
                if out.is_empty() {
                    std::mem::swap(bytes, out);
                } else {
                    out.append(bytes);
                }
                return Ok(());
            }
            Encoder::Gzip(encoder) => {
                encoder.write_all(bytes)?;
                encoder.get_mut()
            }
            Encoder::Deflate(encoder) => {
                encoder.write_all(bytes)?;
                encoder.get_mut()
            }
            Encoder::Zstd(encoder) => {
                encoder.write_all(bytes)?;
                encoder.get_mut()
            }
            Encoder::Lz4(encoder) => {
                encoder.write_all(bytes)?;
                encoder.get_mut()
            }
            Encoder::Blocks(encoder) => {
                encoder.write(bytes, out).map_err(as_io)?;
                bytes.clear();
                return Ok(());
            }
        };
        out.append(done);
        bytes.clear();
        Ok(())
    }

    /// Adds what was kept, and the end.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Encoder::None => {}
            Encoder::Gzip(encoder) => out.append(&mut encoder.finish()?),
            Encoder::Deflate(encoder) => out.append(&mut encoder.finish()?),
            Encoder::Zstd(encoder) => out.append(&mut encoder.finish()?),
            Encoder::Lz4(encoder) => {
                out.append(&mut encoder.finish().map_err(io::Error::other)?);
            }
            Encoder::Blocks(mut encoder) => encoder.flush(out).map_err(as_io)?,
        }
        Ok(())
    }
}

fn as_io(failure: Failure) -> io::Error {
    io::Error::other(failure.message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let all = [
            Encoding::None,
            Encoding::Gzip,
            Encoding::Deflate,
            Encoding::Zstd,
            Encoding::Lz4,
            Encoding::Blocks,
        ];
        for encoding in all {
            let (mut encoder, mut out) = (Encoder::new(encoding).unwrap(), Vec::new());
            for piece in text.chunks(70_000) {
                encoder.encode(&mut piece.to_vec(), &mut out).unwrap();
            }
            encoder.finish(&mut out).unwrap();
            let mut back = Vec::new();
            encoding.decode(&out[..]).unwrap().read_to_end(&mut back).unwrap();
            assert!(back == text, "{encoding:?}");
        }
    }

    #[test]
    fn the_best_that_is_taken_is_chosen() {
        assert_eq!(Encoding::accepted("gzip;q=1.0, zstd"), Encoding::Zstd);
        assert_eq!(Encoding::accepted("zstd;q=0, gzip"), Encoding::Gzip);
        assert_eq!(Encoding::accepted("br"), Encoding::None);
    }
}
