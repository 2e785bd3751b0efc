//! The writing end: collects descriptors and buffers, which are cut into chunks.

use std::ops::Range;

use super::codec::compress;
use super::{ALIGN, Compression, Cuts};
use crate::bytes::Writer;
use crate::encoding::Options;
use crate::limits;

/// A position in a [`Sink`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(super) head: usize,
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

    /// The current position, to measure from, and to roll back to when another encoding turns out
    /// smaller.
    pub fn mark(&self) -> Mark {
        Mark { head: self.head.len(), payload: self.payload.len() }
    }

    /// Bytes written since `mark`.
    pub fn bytes_since(&self, mark: Mark) -> usize {
        self.len().saturating_sub(mark.head + mark.payload)
    }

    /// Discards everything written since `mark`.
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
