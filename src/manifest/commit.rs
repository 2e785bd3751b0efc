//! Commit: chunks, root, then `CURRENT`, each durable before the next.
//!
//! The caller has made the data files durable. A crash before the rename of `CURRENT` leaves the
//! old generation in force, a crash after it the new one; there is no state between. Only when
//! [`commit`] has returned is the new generation reported.
//!
//! A change is a list of edits of the table's list of segments. Chunks that no edit touches are
//! shared with the generation before; those that one touches are written anew, together with small
//! neighbours.

use std::sync::Arc;

use super::ledger::{self, Ledger, LedgerRef};
use super::{
    Chunk, ChunkBuilder, ChunkRef, ColumnStats, History, Root, SegmentEntry, Source, TableDir,
    TableOptions, Traffic, codec, layout,
};
use crate::disk::{Disk, durable};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Arrangement, ColumnId, Schema};

/// Chunks are not merged beyond this many bytes: it bounds what an append to a large table writes.
pub const MERGE_BYTES: u64 = 512 << 10;
/// So many chunks of about one size are merged into one.
const FAN_IN: usize = 4;
/// A chunk that is written anew takes in a neighbour of at most so many times its size.
const NEIGHBOUR: u64 = 4;

/// A segment to be listed, with the statistics of its columns.
pub type Listed = (SegmentEntry, Vec<(ColumnId, ColumnStats)>);

/// Segments that take the place of others.
#[derive(Clone, Debug, Default)]
pub struct Edit<T = Listed> {
    /// The first segment to be removed, or before which to insert: its place among all of the
    /// base's segments.
    pub at: usize,
    /// Segments to be removed.
    pub remove: usize,
    /// Segments to stand there, in the order of their rows.
    pub insert: Vec<T>,
}

/// What the next generation is made of.
#[derive(Debug)]
pub struct Change<'a> {
    /// The generation in force, `None` for a new table.
    pub base: Option<&'a Root>,
    /// The columns from now on.
    pub schema: Schema,
    /// The options of a new table; an old one keeps its own.
    pub options: TableOptions,
    /// How rows are arranged from now on.
    pub arrangement: Arrangement,
    /// When, and how long generations stay.
    pub history: History,
    /// By rising place, none within another.
    pub edits: Vec<Edit>,
    /// What was loaded from where.
    pub sources: Vec<Source>,
    /// What was written since the base, without what this commit writes.
    pub traffic: Traffic,
}

/// What a commit did.
#[derive(Debug)]
pub struct Committed {
    /// The generation now in force.
    pub root: Root,
    /// Bytes of metadata written.
    pub bytes: u64,
    /// The segments that the generation before had and this one has not.
    pub removed: Vec<SegmentEntry>,
}

/// Commits a change.
pub fn commit(disk: &dyn Disk, dir: &TableDir, change: Change<'_>) -> Result<Committed> {
    let generation = change.base.map_or(1, |base| base.generation + 1);
    let (pieces, removed) =
        edited(disk, dir, change.base.map_or(&[], |base| &base.chunks), change.edits)?;
    let mut bytes = 0;
    let mut chunks = Vec::with_capacity(pieces.len());
    for piece in settled(disk, dir, pieces)? {
        match piece {
            Piece::Kept(reference) => chunks.push(reference),
            Piece::New { builder, .. } => {
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
        change.sources.into_iter().map(|source| Source { generation, ..source }).collect();
    let old = change.base.map_or_else(Ledger::default, |base| base.ledger.clone());
    let ledger = extended(disk, dir, old, sources, &mut bytes)?;
    let before = change.base.map_or_else(Traffic::default, |base| base.traffic);
    let mut root = Root {
        generation,
        table: change.base.map_or_else(layout::new_id, |base| base.table),
        schema: change.schema,
        options: change.base.map_or(change.options, |base| base.options),
        arrangement: change.arrangement,
        history: change.history,
        ledger,
        traffic: Traffic {
            loaded: before.loaded.saturating_add(change.traffic.loaded),
            written: before.written.saturating_add(change.traffic.written),
        },
        rows,
        chunks,
        unknown: 0,
    };
    let current = codec::write_current(generation);
    // A root counts itself: its length does not depend on the numbers, but on whether there are
    // any.
    root.traffic.written = root.traffic.written.max(1);
    bytes += (root.encode().len() + current.len()) as u64;
    root.traffic.written =
        before.written.saturating_add(change.traffic.written).saturating_add(bytes);
    let encoded = root.encode();
    durable::write_new(disk, &dir.root(generation), &encoded)?;
    disk.sync_dir(&dir.manifest())?;
    durable::replace(disk, &dir.current(), &current)?;
    Ok(Committed { root, bytes, removed })
}

/// A part of the new list of segments.
enum Piece {
    /// A chunk as it is.
    Kept(ChunkRef),
    /// A chunk to be written, and about how long.
    New {
        builder: ChunkBuilder,
        bytes: u64,
        /// Whether it replaces a chunk, instead of adding to the table.
        rewritten: bool,
    },
}

impl Piece {
    fn size(&self) -> (u64, u64) {
        match self {
            Piece::Kept(chunk) => (u64::from(chunk.segments), chunk.length),
            Piece::New { builder, bytes, .. } => (builder.len() as u64, *bytes),
        }
    }

    /// Its segments and their statistics, to be written with others.
    fn into_builder(self, disk: &dyn Disk, dir: &TableDir) -> Result<ChunkBuilder> {
        match self {
            Piece::New { builder, .. } => Ok(builder),
            Piece::Kept(reference) => {
                let mut builder = ChunkBuilder::default();
                let read = builder.append(&open(disk, dir, &reference)?);
                read.map_err(|error| error.at(dir.chunk(&reference.id), 0))?;
                Ok(builder)
            }
        }
    }
}

/// The list after the edits, and the segments that were taken out.
fn edited(
    disk: &dyn Disk,
    dir: &TableDir,
    chunks: &[ChunkRef],
    edits: Vec<Edit>,
) -> Result<(Vec<Piece>, Vec<SegmentEntry>)> {
    let (mut pieces, mut removed) = (Vec::new(), Vec::new());
    let mut edits = edits.into_iter().peekable();
    let (mut start, mut to_remove) = (0, 0);
    for reference in chunks {
        let end = start + reference.segments as usize;
        while to_remove == 0
            && let Some(edit) = edits.next_if(|edit| edit.at == start && edit.remove == 0)
        {
            add(&mut pieces, edit.insert, false);
        }
        if to_remove == 0 && edits.peek().is_none_or(|edit| edit.at >= end) {
            pieces.push(Piece::Kept(reference.clone()));
            start = end;
            continue;
        }
        let chunk = open(disk, dir, reference)?;
        let old = chunk.listed().map_err(|error| error.at(dir.chunk(&reference.id), 0))?;
        let mut new = Vec::with_capacity(old.len());
        for (at, listed) in (start..).zip(old) {
            while to_remove == 0
                && let Some(edit) = edits.next_if(|edit| edit.at == at)
            {
                new.extend(edit.insert);
                to_remove = edit.remove;
            }
            if to_remove > 0 {
                to_remove -= 1;
                removed.push(listed.0);
            } else {
                new.push(listed);
            }
        }
        add(&mut pieces, new, true);
        start = end;
    }
    for edit in edits {
        to_remove += edit.remove + usize::from(edit.at != start);
        add(&mut pieces, edit.insert, false);
    }
    if to_remove > 0 {
        return Err(Error::InvalidInput(
            "an edit names segments that the table does not have".into(),
        ));
    }
    Ok((pieces, removed))
}

/// Adds segments as pieces of at most [`MERGE_BYTES`].
fn add(pieces: &mut Vec<Piece>, segments: Vec<Listed>, rewritten: bool) {
    let (mut builder, mut bytes) = (ChunkBuilder::default(), 0);
    for (segment, stats) in segments {
        let more = segment_bytes(stats.len());
        if !builder.is_empty()
            && (bytes + more > MERGE_BYTES || builder.len() == limits::MAX_CHUNK_SEGMENTS)
        {
            pieces.push(Piece::New { builder: std::mem::take(&mut builder), bytes, rewritten });
            bytes = 0;
        }
        bytes += more;
        builder.push(segment, stats);
    }
    if !builder.is_empty() {
        pieces.push(Piece::New { builder, bytes, rewritten });
    }
}

/// The pieces with small neighbours merged: in the middle those of pieces that are written anew
/// anyway, at the end in tiers.
fn settled(disk: &dyn Disk, dir: &TableDir, pieces: Vec<Piece>) -> Result<Vec<Piece>> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let merged = out.last().is_some_and(|before| belong_together(before, &piece));
        match out.pop_if(|_| merged) {
            Some(before) => out.push(merge([before, piece], disk, dir)?),
            None => out.push(piece),
        }
    }
    let appended = matches!(out.last(), Some(Piece::New { rewritten: false, .. }));
    if let Some(last) = out.pop_if(|_| appended) {
        let sizes: Vec<(u64, u64)> = out.iter().map(Piece::size).collect();
        let merged = tail_to_merge(&sizes, last.size());
        let tail = out.split_off(out.len() - merged);
        out.push(merge(tail.into_iter().chain([last]), disk, dir)?);
    }
    Ok(out)
}

/// Whether two neighbours become one: at least one of them is written anew in place of another
/// chunk, and the other is not so much larger that it would be written time and again.
fn belong_together(a: &Piece, b: &Piece) -> bool {
    let is_rewritten = |piece: &Piece| matches!(piece, Piece::New { rewritten: true, .. });
    let ((n, x), (m, y)) = (a.size(), b.size());
    let fits = n + m <= limits::MAX_CHUNK_SEGMENTS as u64 && x + y <= MERGE_BYTES;
    fits && match (is_rewritten(a), is_rewritten(b)) {
        (true, true) => true,
        (true, false) => y <= x.saturating_mul(NEIGHBOUR),
        (false, true) => x <= y.saturating_mul(NEIGHBOUR),
        (false, false) => false,
    }
}

/// One piece of several, in order.
fn merge(
    pieces: impl IntoIterator<Item = Piece>,
    disk: &dyn Disk,
    dir: &TableDir,
) -> Result<Piece> {
    let (mut whole, mut bytes, mut any) = (ChunkBuilder::default(), 0, false);
    for piece in pieces {
        bytes += piece.size().1;
        any |= matches!(piece, Piece::New { rewritten: true, .. });
        whole.absorb(piece.into_builder(disk, dir)?);
    }
    Ok(Piece::New { builder: whole, bytes, rewritten: any })
}

/// The ledger with new entries; what no longer fits into the root is written to a file.
fn extended(
    disk: &dyn Disk,
    dir: &TableDir,
    mut ledger: Ledger,
    new: Vec<Source>,
    written: &mut u64,
) -> Result<Ledger> {
    ledger.add(new);
    let overflow = ledger.overflow();
    if overflow.is_empty() {
        return Ok(ledger);
    }
    let sizes: Vec<(u64, u64)> =
        ledger.files.iter().map(|file| (u64::from(file.sources), file.length)).collect();
    let bytes = overflow.iter().map(|source| source.path.len() as u64 + 93).sum();
    let merged = tail_to_merge(&sizes, (overflow.len() as u64, bytes));
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
pub fn sources(disk: &dyn Disk, dir: &TableDir, root: &Root) -> Result<Vec<Source>> {
    let mut all = Vec::new();
    for file in &root.ledger.files {
        all.extend(read_ledger(disk, dir, file)?);
    }
    all.extend_from_slice(&root.ledger.recent);
    Ok(all)
}

/// The entries of a file of the ledger.
fn read_ledger(disk: &dyn Disk, dir: &TableDir, reference: &LedgerRef) -> Result<Vec<Source>> {
    let path = dir.ledger(&reference.id);
    let bytes = disk.read(&path, ledger::MAX_BYTES)?;
    ledger::parse_file(&bytes, reference).map_err(|error| error.at(path, 0))
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

/// How many chunks at the end to merge with a new one of `new` (segments, bytes): whenever four of
/// about one size (within a factor of four) stand at the end, they become one, and so on, so that a
/// table of n small appends has O(log n) chunks and each entry was written O(log n) times. What
/// would exceed [`MERGE_BYTES`] or 4,096 segments stays.
pub fn tail_to_merge(old: &[(u64, u64)], new: (u64, u64)) -> usize {
    let (mut segments, mut bytes) = new;
    let mut merged = 0;
    loop {
        let left = &old[..old.len() - merged];
        let level = segments.max(1).ilog(FAN_IN as u64);
        let alike =
            left.iter().rev().take_while(|(n, _)| (*n).max(1).ilog(FAN_IN as u64) <= level).count();
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
                let sum = tail
                    .iter()
                    .fold((1, per_segment), |a: (u64, u64), b: &(u64, u64)| (a.0 + b.0, a.1 + b.1));
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
