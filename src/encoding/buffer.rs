//! Buffers: the byte runs that an encoding leaves in a block, and the two ends of the pipe that
//! carries them.
//!
//! ```text
//! descriptor (in the block's head)                    payload (behind the head, 16-byte aligned)
//! ┌───────┬────────┬────────┬───┬──────────────────┐  ┌─────────┬─────────┬─────┐
//! │ codec │ raw    │ offset │ n │ n × raw, stored, │→ │ chunk 0 │ chunk 1 │ …   │
//! │ u8    │ len u64│ u64    │u32│     crc32 (u32)  │  └─────────┴─────────┴─────┘
//! └───────┴────────┴────────┴───┴──────────────────┘
//! ```
//!
//! A buffer is cut at vector boundaries into chunks of at most 256 KiB (a single larger vector
//! makes a larger chunk), each compressed and checksummed by itself, so that a few rows need a few
//! chunks. Uncompressed chunks lie back to back, so such a buffer is one slice of the mapping.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::ops::Range;

use super::{Options, Profile};
use crate::bytes::{Cursor, Writer, checksum_holds};
use crate::error::{Error, Result};
use crate::limits;

/// Alignment of a buffer in its block, and of blocks in their segment.
pub const ALIGN: usize = 16;

const CODEC_NONE: u8 = 0;
const CODEC_LZ4: u8 = 1;
const CODEC_ZSTD: u8 = 2;

/// Where a buffer may be cut into chunks.
#[derive(Clone, Copy, Debug)]
pub enum Cuts<'a> {
    /// Every vector has this many bytes (the last may be shorter).
    Every(usize),
    /// Vector `i` starts at byte `starts[i]`; the first is 0.
    At(&'a [u32]),
}

/// Whether to compress a buffer on top of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Bytes that hardly repeat (packed codes): only the small profile tries.
    Packed,
    /// Bytes that often repeat (plain values, text): tried unless the profile is fast.
    Plain,
    /// Bytes laid out for entropy coding: always zstd when it saves anything.
    Entropy,
}

/// A place in a [`Sink`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    head: usize,
    payload: usize,
}

/// Collects what encoders write for one block.
#[derive(Debug, Default)]
pub struct Sink {
    head: Writer,
    payload: Writer,
}

impl Sink {
    /// An empty sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// The descriptor under construction.
    pub fn head(&mut self) -> &mut Writer {
        &mut self.head
    }

    /// Bytes so far, head and payload: what an encoding costs.
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place reached, to measure from and to go back to when another encoding turns out
    /// smaller.
    pub fn mark(&self) -> Mark {
        Mark { head: self.head.len(), payload: self.payload.len() }
    }

    /// Bytes written since `mark`.
    pub fn bytes_since(&self, mark: Mark) -> usize {
        self.len().saturating_sub(mark.head + mark.payload)
    }

    /// Takes back everything written since `mark`.
    pub fn rollback(&mut self, mark: Mark) {
        self.head.truncate(mark.head);
        self.payload.truncate(mark.payload);
    }

    /// Head and payload, to be framed by `block`.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.head.into_vec(), self.payload.into_vec())
    }

    /// Appends a buffer to the payload and its descriptor to the head.
    pub fn buffer(
        &mut self,
        bytes: &[u8],
        cuts: Cuts<'_>,
        compression: Compression,
        options: &Options,
    ) {
        let chunks = cut(bytes.len(), cuts);
        let (codec, stored) = compress(bytes, &chunks, compression, options);
        self.payload.align(ALIGN);
        self.head.u8(codec);
        self.head.u64(bytes.len() as u64);
        self.head.u64(self.payload.len() as u64);
        self.head.count(chunks.len());
        for (i, chunk) in chunks.iter().enumerate() {
            let out = stored.get(i).map_or(&bytes[chunk.clone()], Vec::as_slice);
            self.head.count(chunk.len());
            self.head.count(out.len());
            self.head.u32(crc32fast::hash(out));
            self.payload.put(out);
        }
    }
}

/// Chunk ranges of a buffer of `len` bytes.
fn cut(len: usize, cuts: Cuts<'_>) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut close = |start: &mut usize, end: usize| {
        if end > *start {
            chunks.push(*start..end);
            *start = end;
        }
    };
    match cuts {
        Cuts::Every(vector) => {
            let step = (limits::CHUNK_BYTES / vector.max(1)).max(1) * vector.max(1);
            while start < len {
                let end = (start + step).min(len);
                close(&mut start, end);
            }
        }
        Cuts::At(starts) => {
            let mut last = 0;
            for boundary in starts.iter().map(|&s| s as usize).chain([len]) {
                if boundary - start > limits::CHUNK_BYTES {
                    close(&mut start, last);
                }
                last = boundary;
            }
            close(&mut start, len);
        }
    }
    chunks
}

/// The codec and, unless it is none, the stored chunks.
fn compress(
    bytes: &[u8],
    chunks: &[Range<usize>],
    compression: Compression,
    options: &Options,
) -> (u8, Vec<Vec<u8>>) {
    let none = (CODEC_NONE, Vec::new());
    // (codec, stored size allowed in 1/16 of the raw size)
    let (codec, most) = match (compression, options.profile) {
        (Compression::Entropy, _) => (CODEC_ZSTD, 16),
        (_, Profile::Small) => (CODEC_ZSTD, 15),
        (Compression::Plain, Profile::Balanced) if options.heavy => (CODEC_ZSTD, 14),
        (Compression::Plain, Profile::Balanced) => (CODEC_LZ4, 12),
        _ => return none,
    };
    if bytes.len() < 64 {
        return none;
    }
    let level = options.zstd_level();
    let pack = |chunk: &Range<usize>| match codec {
        CODEC_LZ4 => Some(lz4_flex::block::compress(&bytes[chunk.clone()])),
        _ => zstd(&bytes[chunk.clone()], level).ok(),
    };
    let stored: Option<Vec<Vec<u8>>> = chunks.iter().map(pack).collect();
    match stored {
        Some(stored) if stored.iter().map(Vec::len).sum::<usize>() < bytes.len() / 16 * most => {
            (codec, stored)
        }
        _ => none,
    }
}

/// The reading end: a cursor over a block's descriptor, beside the block's payload.
#[derive(Debug)]
pub struct Source<'a> {
    /// The descriptor.
    pub cursor: Cursor<'a>,
    payload: &'a [u8],
    /// Where the next buffer lies.
    next: u64,
    depth: usize,
    buffers: usize,
    /// Bytes of decoded words in the streams so far.
    words: usize,
    verify: bool,
}

impl<'a> Source<'a> {
    /// Over a block's head (its descriptor only) and its payload.
    pub fn new(head: &'a [u8], payload: &'a [u8]) -> Self {
        Source {
            cursor: Cursor::new(head),
            payload,
            next: 0,
            depth: 0,
            buffers: 0,
            words: 0,
            verify: false,
        }
    }

    /// The same source, comparing the checksums of every buffer as it is parsed: the first touch of
    /// a block.
    #[must_use]
    pub fn verifying(self, verify: bool) -> Self {
        Source { verify, ..self }
    }

    /// Parses a child stream, one level deeper; refuses nesting beyond the limit.
    pub fn child<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= limits::MAX_ENCODING_DEPTH {
            return Err(self.cursor.corrupt("encodings nest too deep"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Counts `values` words of `bytes` bytes of a stream that is about to be parsed; refuses more
    /// than a block may have, however few bytes say so.
    pub(super) fn count_words(&mut self, values: usize, bytes: usize) -> Result<()> {
        self.words = self.words.saturating_add(values.saturating_mul(bytes));
        if self.words > limits::MAX_STREAM_BYTES {
            return Err(self.cursor.corrupt("streams of a block have too many words"));
        }
        Ok(())
    }

    /// Parses a buffer descriptor; its lengths are checked against the payload, its contents are
    /// not read.
    pub fn buffer(&mut self) -> Result<Buffer<'a>> {
        self.buffers += 1;
        if self.buffers > limits::MAX_BUFFERS {
            return Err(self.cursor.corrupt("too many buffers"));
        }
        let codec = self.cursor.u8()?;
        if codec > CODEC_ZSTD {
            return Err(Error::Unsupported(format!("codec number {codec}, from a newer version?")));
        }
        let raw_len = self.cursor.u64()?;
        let offset = self.cursor.u64()?;
        // In order and apart, so that no byte of the payload is unpacked twice.
        if offset != self.next {
            return Err(self
                .cursor
                .corrupt(format!("buffer at {offset} instead of {}", self.next)));
        }
        let n = self.cursor.count(12, usize::MAX)?;
        let (mut raw_at, mut at) = (0u64, offset);
        let mut chunks = Vec::with_capacity(n);
        for _ in 0..n {
            let (raw, stored, crc) = (self.cursor.u32()?, self.cursor.u32()?, self.cursor.u32()?);
            if !ratio_is_possible(codec, raw, stored) || raw as usize > limits::MAX_CHUNK_BYTES {
                return Err(self
                    .cursor
                    .corrupt(format!("chunk of {raw} bytes stored in {stored}")));
            }
            chunks.push(Chunk {
                raw: raw_at as usize..(raw_at + u64::from(raw)) as usize,
                stored: at as usize..(at + u64::from(stored)) as usize,
                crc,
                unpacked: OnceCell::new(),
            });
            raw_at += u64::from(raw);
            at = at
                .checked_add(u64::from(stored))
                .filter(|&at| at <= self.payload.len() as u64)
                .ok_or_else(|| {
                    self.cursor.corrupt(format!(
                        "buffer ends behind the payload of {} bytes",
                        self.payload.len()
                    ))
                })?;
        }
        if raw_at != raw_len || offset > self.payload.len() as u64 {
            return Err(self.cursor.corrupt("chunks do not add up to their buffer"));
        }
        self.next = at.next_multiple_of(ALIGN as u64);
        let buffer = Buffer {
            codec,
            raw_len: raw_len as usize,
            payload: self.payload,
            offset: offset as usize,
            chunks,
        };
        if self.verify {
            buffer.verify()?;
        }
        Ok(buffer)
    }
}

/// Whether a chunk can be as long as it claims: LZ4 and zstd stay within these ratios, so that a
/// few bytes never make a reader allocate gigabytes.
fn ratio_is_possible(codec: u8, raw: u32, stored: u32) -> bool {
    match codec {
        CODEC_NONE => raw == stored,
        CODEC_LZ4 => u64::from(raw) <= u64::from(stored) * 255,
        _ => u64::from(raw) <= u64::from(stored) << 15,
    }
}

#[derive(Debug)]
struct Chunk {
    raw: Range<usize>,
    stored: Range<usize>,
    crc: u32,
    unpacked: OnceCell<Vec<u8>>,
}

/// A buffer of a block, unpacked chunk by chunk as it is asked for.
#[derive(Debug)]
pub struct Buffer<'a> {
    codec: u8,
    raw_len: usize,
    payload: &'a [u8],
    offset: usize,
    chunks: Vec<Chunk>,
}

impl<'a> Buffer<'a> {
    /// Uncompressed bytes.
    pub fn len(&self) -> usize {
        self.raw_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw_len == 0
    }

    /// Bytes in the file.
    pub fn stored_len(&self) -> usize {
        self.chunks.iter().map(|c| c.stored.len()).sum()
    }

    /// `none`, `lz4` or `zstd`.
    pub fn codec_name(&self) -> &'static str {
        match self.codec {
            CODEC_NONE => "none",
            CODEC_LZ4 => "lz4",
            _ => "zstd",
        }
    }

    /// The bytes in place, when they are not compressed.
    pub fn in_place(&self) -> Option<&'a [u8]> {
        (self.codec == CODEC_NONE)
            .then(|| self.payload.get(self.offset..self.offset + self.raw_len))
            .flatten()
    }

    /// Compares every chunk with its checksum.
    pub fn verify(&self) -> Result<()> {
        for chunk in &self.chunks {
            let stored = self.stored(chunk)?;
            if !checksum_holds(crc32fast::hash(stored), chunk.crc) {
                return Err(Error::corrupt(
                    chunk.stored.start as u64,
                    "checksum of a chunk does not match",
                ));
            }
        }
        Ok(())
    }

    /// All bytes, unpacked.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        self.range(0..self.raw_len)
    }

    /// A range of the uncompressed bytes; touches and unpacks only the chunks that overlap it, and
    /// keeps what it unpacked for the next call.
    pub fn range(&self, range: Range<usize>) -> Result<Cow<'_, [u8]>> {
        if range.start > range.end || range.end > self.raw_len {
            return Err(Error::corrupt(
                self.offset as u64,
                format!(
                    "bytes {}..{} wanted of a buffer of {}",
                    range.start, range.end, self.raw_len
                ),
            ));
        }
        if let Some(all) = self.in_place() {
            return Ok(Cow::Borrowed(&all[range]));
        }
        if range.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        let first = self.chunks.partition_point(|c| c.raw.end <= range.start);
        let last = self.chunks.partition_point(|c| c.raw.start < range.end);
        let part = |chunk: &'_ Chunk| {
            range.start.max(chunk.raw.start) - chunk.raw.start
                ..range.end.min(chunk.raw.end) - chunk.raw.start
        };
        let chunks = &self.chunks[first..last];
        if let [chunk] = chunks {
            return Ok(Cow::Borrowed(&self.unpacked(chunk)?[part(chunk)]));
        }
        let mut out = Vec::with_capacity(range.len());
        for chunk in chunks {
            out.extend_from_slice(&self.unpacked(chunk)?[part(chunk)]);
        }
        Ok(Cow::Owned(out))
    }

    fn stored(&self, chunk: &Chunk) -> Result<&'a [u8]> {
        self.payload
            .get(chunk.stored.clone())
            .ok_or_else(|| Error::corrupt(self.offset as u64, "chunk lies outside its block"))
    }

    fn unpacked<'c>(&self, chunk: &'c Chunk) -> Result<&'c [u8]> {
        if chunk.unpacked.get().is_none() {
            let stored = self.stored(chunk)?;
            let raw_len = chunk.raw.len();
            let unpacked = match self.codec {
                CODEC_NONE => Ok(stored.to_vec()),
                CODEC_LZ4 => {
                    lz4_flex::block::decompress(stored, raw_len).map_err(|e| e.to_string())
                }
                _ => unzstd(stored, raw_len).map_err(|e| e.to_string()),
            }
            .ok()
            .filter(|unpacked| unpacked.len() == raw_len)
            .ok_or_else(|| {
                Error::corrupt(chunk.stored.start as u64, "chunk does not unpack to its length")
            })?;
            let _ = chunk.unpacked.set(unpacked);
        }
        Ok(chunk.unpacked.get().map_or(&[], Vec::as_slice))
    }
}

thread_local! {
    /// Making a context costs as much as unpacking a small chunk with it.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    /// And more for packing one.
    static PACKER: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> = const { RefCell::new(None) };
}

/// The same bytes whatever was packed before.
fn zstd(bytes: &[u8], level: i32) -> std::io::Result<Vec<u8>> {
    PACKER.with_borrow_mut(|context| {
        let (_, packer) = match context {
            Some(known) if known.0 == level => known,
            _ => context.insert((level, zstd::bulk::Compressor::new(level)?)),
        };
        packer.compress(bytes)
    })
}

fn unzstd(stored: &[u8], raw_len: usize) -> std::io::Result<Vec<u8>> {
    UNPACKER.with_borrow_mut(|context| match context {
        Some(context) => context.decompress(stored, raw_len),
        None => context.insert(zstd::bulk::Decompressor::new()?).decompress(stored, raw_len),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_chunked_buffers_are_the_bytes_written() {
        let bytes: Vec<u8> = (0..1_000_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for profile in [Profile::Fast, Profile::Balanced, Profile::Small] {
            let options = Options::new(profile);
            let mut sink = Sink::new();
            sink.buffer(&bytes, Cuts::Every(4096), Compression::Plain, &options);
            let starts: Vec<u32> = (0..40).map(|i| i * 100_000).collect();
            sink.buffer(&bytes, Cuts::At(&starts), Compression::Entropy, &options);
            let (head, payload) = sink.into_parts();
            let mut source = Source::new(&head, &payload);
            for _ in 0..2 {
                let buffer = source.buffer().unwrap();
                buffer.verify().unwrap();
                assert_eq!(&*buffer.bytes().unwrap(), &bytes[..]);
                for range in [0..1, 262_143..262_145, 999_999..3_000_001, 4_000_000..4_000_000] {
                    assert_eq!(&*buffer.range(range.clone()).unwrap(), &bytes[range]);
                }
                assert!(buffer.range(0..4_000_001).is_err());
            }
        }
    }

    #[test]
    fn buffers_neither_overlap_nor_leave_gaps() {
        let mut sink = Sink::new();
        let start = |sink: &Sink| sink.mark().head + 9;
        for length in [5, 0, 40] {
            sink.buffer(
                &vec![7; length],
                Cuts::Every(8),
                Compression::Plain,
                &Options::new(Profile::Fast),
            );
        }
        let second = start(&sink);
        sink.buffer(b"more", Cuts::Every(8), Compression::Plain, &Options::new(Profile::Fast));
        let (head, payload) = sink.into_parts();
        let read = |head: &[u8]| -> Result<Vec<usize>> {
            let mut source = Source::new(head, &payload);
            (0..4).map(|_| Ok(source.buffer()?.len())).collect()
        };
        assert_eq!(read(&head).unwrap(), [5, 0, 40, 4]);
        assert_eq!(head[second], 64);
        for offset in [0, 16, 48, 63, 65, 80] {
            let mut moved = head.clone();
            moved[second] = offset;
            assert!(read(&moved).is_err(), "{offset}");
        }
    }
}
