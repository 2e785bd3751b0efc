//! Commit: writes chunks, the root, then `CURRENT`, each durable before the next.
//!
//! The caller has made the data files durable. A crash before the rename of `CURRENT` leaves the
//! old generation in force, a crash after it the new one; there is no state in between. A new
//! generation is reported only once [`commit`] has returned, or as [`Error::Unconfirmed`] if it is
//! in force and the disk failed to make that durable. Any other error says that the old one is in
//! force, unless the disk cannot even be read any more.
//!
//! A change is a list of edits of the table's list of segments. Chunks that no edit touches are
//! shared with the previous generation; the others are rewritten, together with small neighbours.

use std::sync::Arc;

use super::ledger::{self, Ledger, LedgerRef};
use super::tiers::TierPolicy;
use super::{
    Chunk, ChunkBuilder, ChunkRef, ColumnStats, History, LoadedSource, Root, SegmentEntry,
    TableDir, TableOptions, WriteVolume, codec, layout, presence,
};
use crate::disk::{Disk, Io, durable, missing_is_damage};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Arrangement, ColumnId, Schema};

/// Chunks are not merged beyond this many bytes, which bounds what an append to a large table
/// writes.
pub(crate) const MERGE_BYTES: u64 = 512 << 10;
/// This many chunks of about the same size are merged into one.
const TIERS: TierPolicy = TierPolicy {
    fan_in: 4,
    max_count: limits::MAX_CHUNK_SEGMENTS as u64,
    max_bytes: MERGE_BYTES,
    full_bytes: u64::MAX,
};
/// Chunks of more bytes are mapped.
const MAX_READ: u64 = 8 << 20;
/// A rewritten chunk is merged with a neighbour of at most this many times its size.
const NEIGHBOUR_RATIO: u64 = 4;

/// A segment, with the statistics of its columns.
pub(crate) type SegmentWithStats = (SegmentEntry, Vec<(ColumnId, ColumnStats)>);

/// Replaces some segments of a table by others.
#[derive(Clone, Debug, Default)]
pub struct Edit<T = SegmentWithStats> {
    /// Index, among all segments of the base, of the first segment to remove, or before which to
    /// insert.
    pub at: usize,
    /// The number of segments to remove.
    pub remove: usize,
    /// Segments to insert there, in the order of their rows.
    pub insert: Vec<T>,
}

/// The difference between the generation in force and the next one.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    /// The generation in force, `None` for a new table.
    pub base: Option<&'a Root>,
    /// The new columns.
    pub schema: Schema,
    /// The options of a new table; an existing one keeps its own.
    pub options: TableOptions,
    /// The new arrangement.
    pub arrangement: Arrangement,
    /// When it is committed, and how long generations are kept.
    pub history: History,
    /// Edits in ascending order of their indices, without overlap.
    pub edits: Vec<Edit>,
    /// The sources that were loaded.
    pub sources: Vec<LoadedSource>,
    /// Bytes written since the base, without those that this commit writes.
    pub write_volume: WriteVolume,
}

/// The result of a commit.
#[derive(Debug)]
pub(crate) struct Committed {
    /// The generation now in force.
    pub root: Root,
    /// Bytes of metadata written.
    pub bytes: u64,
    /// Segments of the previous generation that are not in this one.
    pub removed: Vec<SegmentEntry>,
}

pub(crate) fn commit(disk: &dyn Disk, dir: &TableDir, change: Change<'_>) -> Result<Committed> {
    let generation = change.base.map_or(1, |base| base.generation + 1);
    let (next, removed) =
        apply_edits(disk, dir, change.base.map_or(&[], |base| &base.chunks), change.edits)?;
    let mut bytes = 0;
    let mut chunks = Vec::with_capacity(next.len());
    for chunk in merge_small_chunks(disk, dir, next)? {
        match chunk {
            NextChunk::Kept(reference) => chunks.push(reference),
            NextChunk::New { builder, .. } => {
                let (encoded, reference) = builder.encode(layout::new_id());
                durable::write_new(disk, &dir.chunk(&reference.id), &encoded)?;
                bytes += reference.length;
                chunks.push(reference);
            }
        }
    }
    if chunks.len() > limits::MAX_ROOT_CHUNKS {
        return Err(Error::LimitExceeded(format!(
            "{} chunks in one table; compact it",
            chunks.len()
        )));
    }
    let rows = chunks.iter().try_fold(0u64, |sum, chunk| sum.checked_add(chunk.rows));
    let rows = rows.ok_or_else(|| Error::LimitExceeded("a table has at most 2⁶⁴ rows".into()))?;
    let sources =
        change.sources.into_iter().map(|source| LoadedSource { generation, ..source }).collect();
    let old = change.base.map_or_else(Ledger::default, |base| base.ledger.clone());
    let ledger = extend_ledger(disk, dir, old, sources, &mut bytes)?;
    let before = change.base.map_or_else(WriteVolume::default, |base| base.write_volume);
    let mut root = Root {
        generation,
        table: change.base.map_or_else(layout::new_id, |base| base.table),
        schema: change.schema,
        options: change.base.map_or(change.options, |base| base.options),
        arrangement: change.arrangement,
        history: change.history,
        ledger,
        write_volume: WriteVolume {
            loaded: before.loaded.saturating_add(change.write_volume.loaded),
            written: before.written.saturating_add(change.write_volume.written),
        },
        rows,
        chunks,
        unknown: 0,
    };
    let current = codec::write_current(generation);
    // A root counts its own bytes. Its length does not depend on the counts, except on whether they
    // are zero.
    root.write_volume.written = root.write_volume.written.max(1);
    bytes += (root.encode().len() + current.len()) as u64;
    root.write_volume.written =
        before.written.saturating_add(change.write_volume.written).saturating_add(bytes);
    put_root(disk, dir, &root)?;
    Ok(Committed { root, bytes, removed })
}

/// Puts a root in force whose other files are durable: writes it, swaps `CURRENT`, and makes that
/// durable. Where the disk fails, what is in force is looked up and not guessed: a rename may fail
/// and have happened nevertheless.
pub(crate) fn put_root(disk: &dyn Disk, dir: &TableDir, root: &Root) -> Result<()> {
    let (generation, current) = (root.generation, dir.current());
    durable::write_new(disk, &dir.root(generation), &root.encode())?;
    disk.sync_dir(&dir.manifest())?;
    let failed = match durable::swap(disk, &current, &codec::write_current(generation)) {
        Ok(()) => match disk.sync_dir(dir.path()) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        },
        Err(error) => match presence::current(disk, dir) {
            Ok(Some(in_force)) if in_force == generation => error,
            _ => return Err(error),
        },
    };
    Err(Error::Unconfirmed { generation, current, source: Box::new(failed) })
}

/// A chunk of the next generation.
enum NextChunk {
    /// A chunk of the base, unchanged.
    Kept(ChunkRef),
    /// A chunk to be written, with its estimated length.
    New {
        builder: ChunkBuilder,
        bytes: u64,
        /// Whether it replaces a chunk of the base, instead of only adding segments.
        rewritten: bool,
    },
}

impl NextChunk {
    /// The number of segments, and bytes.
    fn size(&self) -> (u64, u64) {
        match self {
            NextChunk::Kept(chunk) => (u64::from(chunk.segments), chunk.length),
            NextChunk::New { builder, bytes, .. } => (builder.len() as u64, *bytes),
        }
    }

    /// A builder with its segments and their statistics, to be merged with others.
    fn into_builder(self, disk: &dyn Disk, dir: &TableDir) -> Result<ChunkBuilder> {
        match self {
            NextChunk::New { builder, .. } => Ok(builder),
            NextChunk::Kept(reference) => {
                let mut builder = ChunkBuilder::default();
                let read = builder.append(&open(disk, dir, &reference)?);
                read.map_err(|error| error.in_file(dir.chunk(&reference.id), 0))?;
                Ok(builder)
            }
        }
    }
}

/// The chunks after the edits, and the segments that were removed.
fn apply_edits(
    disk: &dyn Disk,
    dir: &TableDir,
    chunks: &[ChunkRef],
    edits: Vec<Edit>,
) -> Result<(Vec<NextChunk>, Vec<SegmentEntry>)> {
    let (mut next, mut removed) = (Vec::new(), Vec::new());
    let mut edits = edits.into_iter().peekable();
    let (mut start, mut to_remove) = (0, 0);
    for reference in chunks {
        let end = start + reference.segments as usize;
        while to_remove == 0
            && let Some(edit) = edits.next_if(|edit| edit.at == start && edit.remove == 0)
        {
            push_chunks(&mut next, edit.insert, false);
        }
        if to_remove == 0 && edits.peek().is_none_or(|edit| edit.at >= end) {
            next.push(NextChunk::Kept(reference.clone()));
            start = end;
            continue;
        }
        let chunk = open(disk, dir, reference)?;
        let old = chunk
            .segments_with_stats()
            .map_err(|error| error.in_file(dir.chunk(&reference.id), 0))?;
        let mut new = Vec::with_capacity(old.len());
        for (at, segment) in (start..).zip(old) {
            while to_remove == 0
                && let Some(edit) = edits.next_if(|edit| edit.at == at)
            {
                new.extend(edit.insert);
                to_remove = edit.remove;
            }
            if to_remove > 0 {
                to_remove -= 1;
                removed.push(segment.0);
            } else {
                new.push(segment);
            }
        }
        push_chunks(&mut next, new, true);
        start = end;
    }
    for edit in edits {
        to_remove += edit.remove + usize::from(edit.at != start);
        push_chunks(&mut next, edit.insert, false);
    }
    if to_remove > 0 {
        return Err(Error::InvalidInput(
            "an edit names segments that the table does not have".into(),
        ));
    }
    Ok((next, removed))
}

/// Appends segments as chunks of at most [`MERGE_BYTES`].
fn push_chunks(next: &mut Vec<NextChunk>, segments: Vec<SegmentWithStats>, rewritten: bool) {
    let (mut builder, mut bytes) = (ChunkBuilder::default(), 0);
    for (segment, stats) in segments {
        let more = segment_bytes(stats.len());
        if !builder.is_empty()
            && (bytes + more > MERGE_BYTES || builder.len() == limits::MAX_CHUNK_SEGMENTS)
        {
            next.push(NextChunk::New { builder: std::mem::take(&mut builder), bytes, rewritten });
            bytes = 0;
        }
        bytes += more;
        builder.push(segment, stats);
    }
    if !builder.is_empty() {
        next.push(NextChunk::New { builder, bytes, rewritten });
    }
}

/// Merges small neighbours: in the middle only with chunks that are rewritten anyway, at the end in
/// tiers.
fn merge_small_chunks(
    disk: &dyn Disk,
    dir: &TableDir,
    chunks: Vec<NextChunk>,
) -> Result<Vec<NextChunk>> {
    let mut out: Vec<NextChunk> = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let merged = out.last().is_some_and(|before| should_merge(before, &chunk));
        match out.pop_if(|_| merged) {
            Some(before) => out.push(merge([before, chunk], disk, dir)?),
            None => out.push(chunk),
        }
    }
    let appended = matches!(out.last(), Some(NextChunk::New { rewritten: false, .. }));
    if let Some(last) = out.pop_if(|_| appended) {
        out.push(last);
        let sizes: Vec<(u64, u64)> = out.iter().map(NextChunk::size).collect();
        let tail = out.split_off(out.len() - TIERS.tail_to_merge(&sizes));
        out.push(merge(tail, disk, dir)?);
    }
    Ok(out)
}

/// Whether two neighbours are merged: at least one of them is rewritten anyway, and the other is
/// not so much larger that small edits would rewrite it again and again.
fn should_merge(a: &NextChunk, b: &NextChunk) -> bool {
    let is_rewritten = |chunk: &NextChunk| matches!(chunk, NextChunk::New { rewritten: true, .. });
    let ((n, x), (m, y)) = (a.size(), b.size());
    let fits = n + m <= limits::MAX_CHUNK_SEGMENTS as u64 && x + y <= MERGE_BYTES;
    fits && match (is_rewritten(a), is_rewritten(b)) {
        (true, true) => true,
        (true, false) => y <= x.saturating_mul(NEIGHBOUR_RATIO),
        (false, true) => x <= y.saturating_mul(NEIGHBOUR_RATIO),
        (false, false) => false,
    }
}

/// Merges chunks, in order.
fn merge(
    chunks: impl IntoIterator<Item = NextChunk>,
    disk: &dyn Disk,
    dir: &TableDir,
) -> Result<NextChunk> {
    let (mut builder, mut bytes, mut rewritten) = (ChunkBuilder::default(), 0, false);
    for chunk in chunks {
        bytes += chunk.size().1;
        rewritten |= matches!(chunk, NextChunk::New { rewritten: true, .. });
        builder.absorb(chunk.into_builder(disk, dir)?);
    }
    Ok(NextChunk::New { builder, bytes, rewritten })
}

/// The ledger with new entries; entries that no longer fit into the root are written to files.
fn extend_ledger(
    disk: &dyn Disk,
    dir: &TableDir,
    mut ledger: Ledger,
    new: Vec<LoadedSource>,
    written: &mut u64,
) -> Result<Ledger> {
    ledger.add(new);
    let overflow = ledger.take_overflow();
    if overflow.is_empty() {
        return Ok(ledger);
    }
    let bytes = overflow.iter().map(|source| source.path.len() as u64 + 93).sum();
    let sizes = ledger.files.iter().map(|file| (u64::from(file.sources), file.length));
    let sizes: Vec<(u64, u64)> = sizes.chain([(overflow.len() as u64, bytes)]).collect();
    // The last of them is not a file yet.
    let merged = TIERS.tail_to_merge(&sizes) - 1;
    let mut sources = Vec::new();
    for file in ledger.files.split_off(ledger.files.len() - merged) {
        sources.extend(read_ledger(disk, dir, &file)?);
    }
    sources.extend(overflow);
    for part in sources.chunks(ledger::FILE_SOURCES) {
        let (encoded, reference) = ledger::encode_file(part);
        durable::write_new(disk, &dir.ledger(&reference.id), &encoded)?;
        *written += reference.length;
        ledger.files.push(reference);
    }
    Ok(ledger)
}

/// All entries of a generation's ledger, oldest first.
pub(crate) fn sources(disk: &dyn Disk, dir: &TableDir, root: &Root) -> Result<Vec<LoadedSource>> {
    let mut all = Vec::new();
    for file in &root.ledger.files {
        all.extend(read_ledger(disk, dir, file)?);
    }
    all.extend_from_slice(&root.ledger.recent);
    Ok(all)
}

/// The entries of a file of the ledger.
pub(crate) fn read_ledger(
    disk: &dyn Disk,
    dir: &TableDir,
    reference: &LedgerRef,
) -> Result<Vec<LoadedSource>> {
    let path = dir.ledger(&reference.id);
    let bytes = disk.read(&path, ledger::MAX_BYTES);
    let bytes = bytes.map_err(|error| missing_is_damage(error, &path))?;
    ledger::parse_file(&bytes, reference).map_err(|error| error.in_file(path, 0))
}

/// An estimate of the bytes that a segment takes in a chunk.
fn segment_bytes(columns: usize) -> u64 {
    72 + 60 * columns as u64
}

pub(crate) fn open(disk: &dyn Disk, dir: &TableDir, reference: &ChunkRef) -> Result<Chunk> {
    let path = dir.chunk(&reference.id);
    // All of it is read anyway, once, for its checksums. The memory of a long one is the system's.
    let io = if reference.length > MAX_READ { Io::Mmap } else { Io::Read };
    let bytes = disk.map(&path, io).map_err(|error| missing_is_damage(error, &path))?;
    Chunk::open(Arc::new(bytes), reference).map_err(|error| error.in_file(path, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_appends_merge_in_tiers() {
        for per_segment in [330, 3_000, 120_000] {
            let (mut chunks, mut total, mut most) = (Vec::new(), 0, 0);
            for _ in 0..20_000u64 {
                chunks.push((1, per_segment));
                let tail = chunks.split_off(chunks.len() - TIERS.tail_to_merge(&chunks));
                let sum = tail
                    .iter()
                    .fold((0, 0), |a: (u64, u64), b: &(u64, u64)| (a.0 + b.0, a.1 + b.1));
                chunks.push(sum);
                assert!(sum.1 <= MERGE_BYTES && sum.0 <= limits::MAX_CHUNK_SEGMENTS as u64);
                total += sum.1;
                most = most.max(sum.1);
            }
            let full = 20_000 * per_segment / MERGE_BYTES;
            assert!(
                (chunks.len() as u64) < 2 * full + 40,
                "{} chunks of {per_segment}",
                chunks.len()
            );
            assert!(
                total < 20_000 * per_segment * 12,
                "each entry is written {} times",
                total / 20_000 / per_segment
            );
            assert!(most <= MERGE_BYTES);
        }
    }
}
