//! Commit: chunk, root, then `CURRENT`, each durable before the next.
//!
//! The caller has made the data files durable. A crash before the rename of `CURRENT` leaves the old generation in
//! force, a crash after it the new one; there is no state between. Only when [`commit`] has returned is the new
//! generation reported.

use std::sync::Arc;

use super::{
    Chunk, ChunkBuilder, ChunkRef, ColumnStats, Root, SegmentEntry, TableDir, TableOptions, codec, layout,
};
use crate::disk::{Disk, durable};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{ColumnId, Schema};

/// Chunks are not merged beyond this many bytes: it bounds what an append to a large table writes.
pub const MERGE_BYTES: u64 = 512 << 10;
/// So many chunks of about one size are merged into one.
const FAN_IN: usize = 4;

/// A segment to be listed, with the statistics of its columns.
pub type Listed = (SegmentEntry, Vec<(ColumnId, ColumnStats)>);

/// What the next generation is made of.
#[derive(Debug)]
pub struct Change<'a> {
    /// The generation in force, `None` for a new table.
    pub base: Option<&'a Root>,
    /// The columns from now on.
    pub schema: Schema,
    /// The options of a new table; an old one keeps its own.
    pub options: TableOptions,
    /// The new segments, in the order of their rows.
    pub segments: Vec<Listed>,
}

/// Commits a change. Returns the new root and the bytes of metadata written.
pub fn commit(disk: &dyn Disk, dir: &TableDir, change: Change<'_>) -> Result<(Root, u64)> {
    let added = change.segments.iter().try_fold(0u64, |sum, (segment, _)| sum.checked_add(segment.rows));
    let old_rows = change.base.map_or(0, |base| base.rows);
    let rows = added.and_then(|added| old_rows.checked_add(added));
    let rows = rows.ok_or_else(|| Error::LimitExceeded("a table has at most 2⁶⁴ rows".into()))?;
    let mut chunks = change.base.map_or_else(Vec::new, |base| base.chunks.clone());
    let mut written = 0;
    for (bytes, reference, merged) in new_chunks(disk, dir, &chunks, change.segments)? {
        chunks.truncate(chunks.len() - merged);
        durable::write_new(disk, &dir.chunk(&reference.id), &bytes)?;
        written += bytes.len() as u64;
        chunks.push(reference);
    }
    if chunks.len() > limits::MAX_ROOT_CHUNKS {
        return Err(Error::LimitExceeded(format!("{} chunks in one table; compact it", chunks.len())));
    }
    let root = Root {
        generation: change.base.map_or(1, |base| base.generation + 1),
        table: change.base.map_or_else(layout::new_id, |base| base.table),
        schema: change.schema,
        options: change.base.map_or(change.options, |base| base.options),
        rows,
        chunks,
    };
    let (bytes, current) = (root.encode(), codec::write_current(root.generation));
    durable::write_new(disk, &dir.root(root.generation), &bytes)?;
    disk.sync_dir(&dir.manifest())?;
    durable::replace(disk, &dir.current(), &current)?;
    written += (bytes.len() + current.len()) as u64;
    Ok((root, written))
}

/// The chunks to write: bytes, reference, and how many of the chunks before it the (first) one replaces.
fn new_chunks(
    disk: &dyn Disk,
    dir: &TableDir,
    old: &[ChunkRef],
    segments: Vec<Listed>,
) -> Result<Vec<(Vec<u8>, ChunkRef, usize)>> {
    let mut out = Vec::new();
    let mut builder = ChunkBuilder::default();
    let mut bytes = 0;
    for (segment, stats) in segments {
        let more = segment_bytes(stats.len());
        if !builder.is_empty() && (bytes + more > MERGE_BYTES || builder.len() == limits::MAX_CHUNK_SEGMENTS) {
            out.push(builder);
            (builder, bytes) = (ChunkBuilder::default(), 0);
        }
        bytes += more;
        builder.push(segment, stats);
    }
    if !builder.is_empty() {
        out.push(builder);
    }
    let mut merged = 0;
    if let [only] = out.as_mut_slice() {
        let new = (only.len() as u64, bytes);
        let sizes: Vec<(u64, u64)> = old.iter().map(|chunk| (u64::from(chunk.segments), chunk.length)).collect();
        merged = tail_to_merge(&sizes, new);
        if merged > 0 {
            let mut whole = ChunkBuilder::default();
            for reference in &old[old.len() - merged..] {
                whole.append(&open(disk, dir, reference)?).map_err(|e| e.at(dir.chunk(&reference.id), 0))?;
            }
            whole.absorb(std::mem::take(only));
            *only = whole;
        }
    }
    let encode = |(i, builder): (usize, ChunkBuilder)| {
        let (bytes, reference) = builder.encode(layout::new_id());
        (bytes, reference, if i == 0 { merged } else { 0 })
    };
    Ok(out.into_iter().enumerate().map(encode).collect())
}

/// About the bytes that a segment takes in a chunk.
fn segment_bytes(columns: usize) -> u64 {
    72 + 60 * columns as u64
}

/// Opens a chunk of the table.
pub fn open(disk: &dyn Disk, dir: &TableDir, reference: &ChunkRef) -> Result<Chunk> {
    let path = dir.chunk(&reference.id);
    let bytes = Arc::new(disk.map(&path)?);
    Chunk::open(bytes, reference).map_err(|error| error.at(path, 0))
}

/// How many chunks at the end to merge with a new one of `new` (segments, bytes): whenever four of about one size
/// (within a factor of four) stand at the end, they become one, and so on, so that a table of n small appends has
/// O(log n) chunks and each entry was written O(log n) times. What would exceed [`MERGE_BYTES`] or 4,096 segments
/// stays.
pub fn tail_to_merge(old: &[(u64, u64)], new: (u64, u64)) -> usize {
    let (mut segments, mut bytes) = new;
    let mut merged = 0;
    loop {
        let left = &old[..old.len() - merged];
        let level = segments.max(1).ilog(FAN_IN as u64);
        let alike = left.iter().rev().take_while(|(n, _)| (*n).max(1).ilog(FAN_IN as u64) <= level).count();
        if alike + 1 < FAN_IN {
            return merged;
        }
        let mut taken = 0;
        for (n, length) in left.iter().rev().take(alike) {
            if segments + n > limits::MAX_CHUNK_SEGMENTS as u64 || bytes + length > MERGE_BYTES {
                break;
            }
            (segments, bytes, taken) = (segments + n, bytes + length, taken + 1);
        }
        if taken == 0 {
            return merged;
        }
        merged += taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_appends_merge_in_tiers() {
        for per_segment in [330, 3_000, 120_000] {
            let (mut chunks, mut total, mut most) = (Vec::new(), 0, 0);
            for _ in 0..20_000u64 {
                let merged = tail_to_merge(&chunks, (1, per_segment));
                let tail = chunks.split_off(chunks.len() - merged);
                let sum =
                    tail.iter().fold((1, per_segment), |a: (u64, u64), b: &(u64, u64)| (a.0 + b.0, a.1 + b.1));
                chunks.push(sum);
                assert!(sum.1 <= MERGE_BYTES && sum.0 <= limits::MAX_CHUNK_SEGMENTS as u64);
                total += sum.1;
                most = most.max(sum.1);
            }
            let full = 20_000 * per_segment / MERGE_BYTES;
            assert!((chunks.len() as u64) < 2 * full + 40, "{} chunks of {per_segment}", chunks.len());
            assert!(
                total < 20_000 * per_segment * 12,
                "each entry is written {} times",
                total / 20_000 / per_segment
            );
            assert!(most <= MERGE_BYTES);
        }
    }
}
