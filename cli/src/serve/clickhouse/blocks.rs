//! ClickHouse's compressed blocks, with which it compresses what it sends and stores (`compress=1`,
//! `decompress=1`):
//!
//! ```text
//! block = checksum:u128 method:u8 size:u32 unpacked:u32 payload
//! ```
//!
//! The checksum is CityHash128 of version 1.0.2, its two halves swapped, over all that follows.
//! `size` counts from the method on, so it is nine more than the payload. The method is 0x02 for
//! none, 0x82 for LZ4 and 0x90 for zstd.

use std::io::{self, Read};

use super::refusals::{invalid, too_large, unsupported};
use crate::errors::Failure;

/// The bytes before the payload that `size` counts.
const HEAD: usize = 9;
const CHECKSUM: usize = 16;
/// Blocks that are written hold this many bytes, except for the last.
const BLOCK: usize = 1 << 20;
/// Larger blocks are refused. ClickHouse's own are a megabyte by default.
const MOST_BYTES: usize = 64 << 20;
/// A byte of LZ4 stands for this many, at most.
const MOST_LZ4_RATIO: usize = 255;
/// The level at which ClickHouse compresses with zstd.
const ZSTD_LEVEL: i32 = 1;

/// How a block is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    None,
    Lz4,
    Zstd,
}

impl Method {
    fn byte(self) -> u8 {
        match self {
            Method::None => 0x02,
            Method::Lz4 => 0x82,
            Method::Zstd => 0x90,
        }
    }

    fn of_byte(byte: u8) -> Result<Method, Failure> {
        match byte {
            0x02 => Ok(Method::None),
            0x82 => Ok(Method::Lz4),
            0x90 => Ok(Method::Zstd),
            other => Err(unsupported(format!(
                "a block is compressed by method {other:#04x}, which cannot be read"
            ))
            .hint("send it compressed with LZ4 or zstd, or not at all")),
        }
    }
}

/// Compresses bytes into blocks.
pub(crate) struct BlockWriter {
    method: Method,
    pending: Vec<u8>,
}

impl BlockWriter {
    /// Starts without bytes.
    pub(crate) fn new(method: Method) -> Self {
        BlockWriter { method, pending: Vec::new() }
    }

    /// Takes bytes, and appends the blocks that are full.
    pub(crate) fn write(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        while self.pending.len() + bytes.len() >= BLOCK {
            let (taken, rest) = bytes.split_at(BLOCK - self.pending.len());
            bytes = rest;
            if self.pending.is_empty() {
                write_block(self.method, taken, out)?;
            } else {
                self.pending.extend_from_slice(taken);
                write_block(self.method, &self.pending, out)?;
                self.pending.clear();
            }
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends what is left as a block, so that the other side has all bytes up to here.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        if !self.pending.is_empty() {
            write_block(self.method, &self.pending, out)?;
            self.pending.clear();
        }
        Ok(())
    }
}

fn write_block(method: Method, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    let start = out.len();
    out.resize(start + CHECKSUM + HEAD, 0);
    match method {
        Method::None => out.extend_from_slice(bytes),
        Method::Lz4 => {
            let payload = out.len();
            out.resize(payload + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
            let length = lz4_flex::block::compress_into(bytes, &mut out[payload..])
                .map_err(|error| Failure::failed(format!("cannot compress with LZ4: {error}")))?;
            out.truncate(payload + length);
        }
        Method::Zstd => {
            let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL)
                .map_err(|error| Failure::failed(format!("cannot compress with zstd: {error}")))?;
            out.extend_from_slice(&packed);
        }
    }
    let size = out.len() - start - CHECKSUM;
    let head = &mut out[start + CHECKSUM..];
    head[0] = method.byte();
    // Both are at most a few megabytes.
    head[1..5].copy_from_slice(&(size as u32).to_le_bytes());
    head[5..9].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    let checksum = checksum(&out[start + CHECKSUM..]);
    out[start..start + CHECKSUM].copy_from_slice(&checksum);
    Ok(())
}

pub(super) fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    cityhash_rs::cityhash_102_128(bytes).rotate_left(64).to_le_bytes()
}

/// Reads the bytes in blocks. Errors of the blocks are errors of the reader.
pub(crate) struct BlockReader<R> {
    input: R,
    /// The block after its checksum.
    packed: Vec<u8>,
    bytes: Vec<u8>,
    /// How many of these bytes were handed out.
    read: usize,
    /// The number of blocks before the current one.
    blocks: u64,
}

impl<R: Read> BlockReader<R> {
    /// Starts before the first block.
    pub(crate) fn new(input: R) -> Self {
        BlockReader { input, packed: Vec::new(), bytes: Vec::new(), read: 0, blocks: 0 }
    }

    /// Reads the next block. There is none at the end of the input.
    fn next_block(&mut self) -> Result<bool, Failure> {
        self.bytes.clear();
        self.read = 0;
        let head = self.read_packed(CHECKSUM + HEAD)?;
        if head == 0 {
            return Ok(false);
        }
        if head < CHECKSUM + HEAD {
            return Err(self.cut_short());
        }
        let expected: Vec<u8> = self.packed.drain(..CHECKSUM).collect();
        let number = |at: usize| {
            let bytes = self.packed.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default()) as usize
        };
        let (size, unpacked) = (number(1), number(5));
        if size < HEAD {
            return Err(invalid(format!("block {} says that it has {size} bytes", self.blocks))
                .hint("the body should be in ClickHouse's compressed blocks"));
        }
        if size.max(unpacked) > MOST_BYTES {
            let message = format!(
                "block {} has {size} bytes, and {unpacked} when it is unpacked",
                self.blocks
            );
            return Err(too_large(message).hint(format!(
                "the body should be in ClickHouse's compressed blocks of at most {MOST_BYTES} bytes"
            )));
        }
        if self.read_packed(size - HEAD)? < size - HEAD {
            return Err(self.cut_short());
        }
        if checksum(&self.packed)[..] != expected[..] {
            return Err(invalid(format!("the checksum of block {} does not match", self.blocks))
                .hint("the body was damaged on its way, or is not in ClickHouse's blocks"));
        }
        self.unpack(unpacked)?;
        self.packed.clear();
        self.blocks += 1;
        Ok(true)
    }

    /// Appends this many bytes of the input to the block, or fewer at its end, without believing
    /// that they are there.
    fn read_packed(&mut self, length: usize) -> Result<usize, Failure> {
        let read = self.input.by_ref().take(length as u64).read_to_end(&mut self.packed);
        read.map_err(|error| invalid(format!("the body cannot be read: {error}")))
    }

    fn cut_short(&self) -> Failure {
        invalid(format!("the body ends within block {}", self.blocks))
            .hint("it was cut off, or is not in ClickHouse's compressed blocks")
    }

    fn unpack(&mut self, unpacked: usize) -> Result<(), Failure> {
        let method = Method::of_byte(self.packed.first().copied().unwrap_or_default())?;
        let payload = self.packed.get(HEAD..).unwrap_or_default();
        let length = match method {
            Method::None => {
                self.bytes.extend_from_slice(payload);
                Some(payload.len())
            }
            // What is packed in few bytes may be long, but not of any length.
            Method::Lz4 if unpacked / MOST_LZ4_RATIO > payload.len() => None,
            Method::Lz4 => {
                self.bytes.resize(unpacked, 0);
                lz4_flex::block::decompress_into(payload, &mut self.bytes).ok()
            }
            Method::Zstd => {
                self.bytes.resize(unpacked, 0);
                zstd::bulk::decompress_to_buffer(payload, &mut self.bytes[..]).ok()
            }
        };
        if length != Some(unpacked) {
            let message = format!("block {} cannot be unpacked to {unpacked} bytes", self.blocks);
            return Err(invalid(message));
        }
        Ok(())
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.bytes.len() {
            let next = self.next_block();
            if !next.map_err(|failure| io::Error::other(failure.message.into_string()))? {
                return Ok(0);
            }
        }
        let rest = &self.bytes[self.read..];
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    fn read(blocks: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        BlockReader::new(blocks).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn written(method: Method, bytes: &[u8]) -> Vec<u8> {
        let mut writer = BlockWriter::new(method);
        let mut out = Vec::new();
        for part in bytes.chunks(300_001) {
            writer.write(part, &mut out).unwrap();
        }
        writer.flush(&mut out).unwrap();
        out
    }

    /// Blocks from the files of a table of ClickHouse 26.9.
    const STORED: [(Method, &str, &[u8]); 3] = [
        (
            Method::None,
            "82562e2d597899f7fd64d2cd9203c952020f000000060000000568656c6c6f",
            b"\x05hello",
        ),
        (
            Method::Lz4,
            "3b79fc9cfbf0c27fe6fd740747a23203821a0000002a0000007f2968656c6c6f2006000b5068656c6c6f",
            b"\x29hello hello hello hello hello hello hello",
        ),
        (
            Method::Zstd,
            "f8d216dc16c9d4815a34b0b2238fb5ce901f0000002a00000028b52ffd202a6d0000382968656c6c6f200100421623",
            b"\x29hello hello hello hello hello hello hello",
        ),
    ];

    #[test]
    fn blocks_that_clickhouse_stored() {
        for (method, hex, bytes) in STORED {
            let stored = bytes_of(hex);
            assert_eq!(read(&stored).unwrap(), bytes);
            if method == Method::None {
                assert_eq!(written(method, bytes), stored);
            }
        }
        let all: Vec<u8> = STORED.iter().flat_map(|(_, hex, _)| bytes_of(hex)).collect();
        let bytes: Vec<u8> = STORED.iter().flat_map(|(_, _, bytes)| bytes.to_vec()).collect();
        assert_eq!(read(&all).unwrap(), bytes);
    }

    #[test]
    fn bytes_of_any_number_come_back() {
        let bytes: Vec<u8> =
            (0..3 * BLOCK as u32 + 7).map(|at| ((at / 7) ^ (at >> 11)) as u8).collect();
        for method in [Method::None, Method::Lz4, Method::Zstd] {
            for length in [0, 1, 7, 8, 15, 16, 17, 100, BLOCK - 1, BLOCK, BLOCK + 1, bytes.len()] {
                let blocks = written(method, &bytes[..length]);
                assert!(read(&blocks).unwrap() == bytes[..length], "{method:?} {length}");
            }
            assert!(written(method, &[]).is_empty());
        }
    }

    #[test]
    fn every_damaged_bit_and_every_cut_is_an_error() {
        for (_, hex, _) in STORED {
            let stored = bytes_of(hex);
            for bit in 0..8 * stored.len() {
                let mut damaged = stored.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&damaged).is_err(), "bit {bit}");
            }
            for length in 1..stored.len() {
                assert!(read(&stored[..length]).is_err(), "{length} bytes");
            }
        }
    }

    /// With a checksum that fits, sizes are believed only as far as bytes are there.
    #[test]
    fn sizes_are_checked_against_the_bytes() {
        for (method, size, unpacked, payload) in [
            (0x82, 9 + 4, 64 << 20, b"abcd".as_slice()),
            (0x90, 9 + 4, 64 << 20, b"abcd"),
            (0x02, 9 + 4, 5, b"abcd"),
            (0x02, 9 + 4, 3, b"abcd"),
            (0x82, 9 + 4, u32::MAX, b"abcd"),
            (0x77, 9 + 4, 4, b"abcd"),
            (0x02, 0, 0, b""),
            (0x02, u32::MAX, 4, b"abcd"),
        ] {
            let mut block = vec![method];
            block.extend_from_slice(&u32::to_le_bytes(size));
            block.extend_from_slice(&u32::to_le_bytes(unpacked));
            block.extend_from_slice(payload);
            let mut all = checksum(&block).to_vec();
            all.extend_from_slice(&block);
            assert!(read(&all).is_err(), "{method:#x} {size} {unpacked}");
        }
    }
}
