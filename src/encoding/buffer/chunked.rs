//! Buffers as they are read: chunks are verified and decompressed one by one.
//!
//! Unpacked chunks are kept for as long as their block is open, unless memory is short: then a
//! buffer keeps the one that was asked for last, and callers get copies.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
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
    /// The chunk that was unpacked last while memory was short.
    pub(super) last: RefCell<Option<Box<LastChunk>>>,
}

#[derive(Debug)]
pub(super) struct LastChunk {
    number: usize,
    unpacked: Vec<u8>,
    _charge: Charge,
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
    /// keeps the unpacked chunks for the next call if there is memory.
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
        if let [chunk] = chunks
            && let Some(unpacked) = self.kept(chunk)?
        {
            return Ok(Cow::Borrowed(&unpacked[part(chunk)]));
        }
        // The copy lives no longer than the call that asks for it, but there must be room for it.
        let _room = self.budget.charge(range.len())?;
        let mut out = Vec::with_capacity(range.len());
        for (number, chunk) in chunks.iter().enumerate() {
            match self.kept(chunk)? {
                Some(unpacked) => out.extend_from_slice(&unpacked[part(chunk)]),
                None => self.unpack_for_now(first + number, chunk, |unpacked| {
                    out.extend_from_slice(&unpacked[part(chunk)]);
                })?,
            }
        }
        Ok(Cow::Owned(out))
    }

    fn stored(&self, chunk: &Chunk) -> Result<&'a [u8]> {
        self.payload
            .get(chunk.stored.clone())
            .ok_or_else(|| Error::corrupt(self.offset as u64, "chunk lies outside its block"))
    }

    /// A chunk that is kept from now on; `None` if there is too little memory to keep it.
    fn kept<'c>(&self, chunk: &'c Chunk) -> Result<Option<&'c [u8]>> {
        if chunk.unpacked.get().is_none() {
            if self.budget.is_tight() {
                return Ok(None);
            }
            let Ok(charge) = self.budget.charge(chunk.raw.len()) else { return Ok(None) };
            let _ = chunk.unpacked.set((self.unpack(chunk)?, charge));
        }
        Ok(chunk.unpacked.get().map(|(unpacked, _)| unpacked.as_slice()))
    }

    /// Lends the bytes of a chunk, which are kept until those of another one are needed.
    fn unpack_for_now(
        &self,
        number: usize,
        chunk: &Chunk,
        mut lend: impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|last| last.number != number) {
            *last = None;
            let charge = self.budget.charge(chunk.raw.len())?;
            let unpacked = self.unpack(chunk)?;
            *last = Some(Box::new(LastChunk { number, unpacked, _charge: charge }));
        }
        if let Some(last) = &*last {
            lend(&last.unpacked);
        }
        Ok(())
    }

    fn unpack(&self, chunk: &Chunk) -> Result<Vec<u8>> {
        let (stored, raw_len) = (self.stored(chunk)?, chunk.raw.len());
        let unpacked = match self.codec {
            CODEC_NONE => Ok(stored.to_vec()),
            CODEC_LZ4 => lz4_flex::block::decompress(stored, raw_len).map_err(|e| e.to_string()),
            _ => unzstd(stored, raw_len).map_err(|e| e.to_string()),
        };
        unpacked.ok().filter(|unpacked| unpacked.len() == raw_len).ok_or_else(|| {
            Error::corrupt(chunk.stored.start as u64, "chunk does not unpack to its length")
        })
    }
}
