//! The reading end: parses descriptors, and checks their lengths against the payload.

use std::cell::{OnceCell, RefCell};

use super::ALIGN;
use super::chunked::{Buffer, Chunk};
use super::codec::{CODEC_ZSTD, ratio_is_possible};
use crate::budget::Budget;
use crate::bytes::Cursor;
use crate::error::{Error, Result};
use crate::limits;

/// The reading end: a cursor over a block's descriptor, and the block's payload.
#[derive(Debug)]
pub struct Source<'a> {
    /// The descriptor.
    pub cursor: Cursor<'a>,
    payload: &'a [u8],
    /// Offset of the next buffer in the payload.
    next: u64,
    depth: usize,
    buffers: usize,
    /// Bytes of decoded words in the streams so far.
    words: usize,
    verify: bool,
    /// What the streams allocate later is charged to it.
    budget: &'a Budget,
}

impl<'a> Source<'a> {
    /// A source over a block's head (its descriptor only) and its payload.
    pub fn new(head: &'a [u8], payload: &'a [u8]) -> Self {
        Source {
            cursor: Cursor::new(head),
            payload,
            next: 0,
            depth: 0,
            buffers: 0,
            words: 0,
            verify: false,
            budget: Budget::UNLIMITED,
        }
    }

    /// The same source, whose streams charge to `budget` what they unpack and keep.
    #[must_use]
    pub(crate) fn within(self, budget: &'a Budget) -> Self {
        Source { budget, ..self }
    }

    /// What streams charge to.
    pub(in crate::encoding) fn budget(&self) -> &'a Budget {
        self.budget
    }

    /// The same source, which verifies the checksums of every buffer as it is parsed if `verify` is
    /// set: at the first touch of a block.
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

    /// Counts `values` words of `bytes` bytes each for a stream that is about to be parsed; refuses
    /// more than a block may have, since a few stored bytes can claim any number.
    pub(in crate::encoding) fn count_words(&mut self, values: usize, bytes: usize) -> Result<()> {
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
        // Buffers are in order and do not overlap, so that no byte of the payload is unpacked
        // twice.
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
            budget: self.budget,
            last: RefCell::default(),
        };
        if self.verify {
            buffer.verify()?;
        }
        Ok(buffer)
    }
}
