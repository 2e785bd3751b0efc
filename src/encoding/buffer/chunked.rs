//! Buffers as they are read: chunks are verified and decompressed one by one.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::codec::{CODEC_LZ4, CODEC_NONE, unzstd};
use crate::budget::{Budget, Charge};
use crate::bytes::checksum_holds;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) raw: Range<usize>,
    pub(super) stored: Range<usize>,
    pub(super) crc: u32,
    pub(super) unpacked: OnceCell<(Vec<u8>, Charge)>,
}

/// A buffer of a block, whose chunks are decompressed on demand.
#[derive(Debug)]
pub struct Buffer<'a> {
    pub(super) codec: u8,
    pub(super) raw_len: usize,
    pub(super) payload: &'a [u8],
    pub(super) offset: usize,
    pub(super) chunks: Vec<Chunk>,
    /// Unpacked chunks are charged to it for as long as they are kept.
    pub(super) budget: &'a Budget,
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

    /// What unpacking is charged to.
    pub(crate) fn budget(&self) -> &'a Budget {
        self.budget
    }

    /// `none`, `lz4` or `zstd`.
    pub fn codec_name(&self) -> &'static str {
        match self.codec {
            CODEC_NONE => "none",
            CODEC_LZ4 => "lz4",
            _ => "zstd",
        }
    }

    /// The bytes in the payload, if they are not compressed.
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
    /// keeps the unpacked chunks for the next call.
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
        // The copy lives no longer than the call that asks for it, but there must be room for it.
        let _room = self.budget.charge(range.len())?;
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
            let charge = self.budget.charge(raw_len)?;
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
            let _ = chunk.unpacked.set((unpacked, charge));
        }
        Ok(chunk.unpacked.get().map_or(&[], |(unpacked, _)| unpacked))
    }
}
