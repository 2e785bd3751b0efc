//! Whole segments on their way from one table into another, with their bytes, the columns that they
//! need and their entries of the ledger: how a load over several machines, and a partition that
//! moves, come to a machine.
//!
//! Nothing is decoded: the bytes of a segment are those that the sender has, and its statistics
//! come with it.
//!
//! ```text
//! before      is there u8 · { generation u64 · root }: the columns and the arrangement that the
//!             table is to have; none if there is to be no table
//! ledger      u64: a digest of the entries that the table's ledger is to have
//! after       generation u64 · root, whose chunks have only the segments that come, and whose
//!             ledger has only their entries
//! chunks      chunks u32 · { uuid 16 · bytes }…
//! ```
//!
//! The bytes of the segments follow, in the order of the chunks, and their XXH3-128.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::budget::Budget;
use crate::bytes::{Cursor, Writer};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::ingest::load::{LoadOptions, pipeline_options, thread_pool};
use crate::ingest::sources::counted::hasher;
use crate::ingest::tiers;
use crate::ingest::widening::check_widening;
use crate::limits;
use crate::manifest::commit::SegmentWithStats;
use crate::manifest::{Chunk, ChunkBuilder, Id, Ledger, Root, layout};
use crate::model::Schema;
use crate::store::{Changes, Commit, LoadedSource, NewSegment, Snapshot, Table, TableWriter};

/// The longest root or chunk.
pub(super) const MOST_BYTES: usize = 1 << 30;
/// Bytes that are read and written at a time.
pub(super) const PIECE: usize = 1 << 20;

/// Segments that come to a table.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    /// What the table is before; `None` if there is none.
    pub(crate) before: Option<Root>,
    /// The digest of the entries that its ledger has ([`ledger_digest`]).
    pub(crate) ledger: u64,
    /// What it has afterwards, with the new entries of the ledger only.
    pub(crate) after: Root,
    /// The segments that come.
    pub(crate) segments: Vec<SegmentWithStats>,
}

/// Segments that are in the table's files, and not committed. They are gone if it is dropped.
#[derive(Debug)]
pub(crate) struct Arrived {
    writer: TableWriter,
    changes: Changes,
}

impl Transfer {
    /// Rows of all segments.
    pub(crate) fn rows(&self) -> u64 {
        self.segments.iter().map(|(segment, _)| segment.rows).sum()
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|(segment, _)| segment.length).sum()
    }

    /// The stored form, without the bytes of segments.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut after, mut chunks) = (self.after.clone(), Vec::new());
        after.chunks.clear();
        for part in self.segments.chunks(limits::MAX_CHUNK_SEGMENTS) {
            let mut builder = ChunkBuilder::default();
            for (segment, stats) in part {
                builder.push(segment.clone(), stats.clone());
            }
            let (bytes, reference) = builder.encode(layout::new_id());
            chunks.push((reference.id, bytes));
            after.chunks.push(reference);
        }
        after.rows = self.rows();
        let mut out = Writer::new();
        out.u8(u8::from(self.before.is_some()));
        self.before.iter().for_each(|before| write_root(before, &mut out));
        out.u64(self.ledger);
        write_root(&after, &mut out);
        out.count(chunks.len());
        for (id, bytes) in chunks {
            out.put(&id);
            out.blob(&bytes);
        }
        out.into_vec()
    }

    /// Reads the stored form.
    pub(crate) fn read(from: &mut Cursor<'_>) -> Result<Transfer> {
        let before = if from.u8()? > 0 { Some(read_root(from)?) } else { None };
        let ledger = from.u64()?;
        let (after, mut segments) = (read_root(from)?, Vec::new());
        let count = from.count(size_of::<Id>(), limits::MAX_ROOT_CHUNKS)?;
        if count != after.chunks.len() {
            return Err(from.corrupt("there are other chunks than the root has"));
        }
        for reference in &after.chunks {
            let (id, bytes) = (from.uuid()?, from.blob(MOST_BYTES)?);
            if id != reference.id {
                return Err(from.corrupt("there are other chunks than the root has"));
            }
            let chunk = Chunk::open(Arc::new(Mapped::from_bytes(bytes)), reference)?;
            chunk.verify(reference)?;
            segments.extend(chunk.segments_with_stats()?);
        }
        Ok(Transfer { before, ledger, after, segments })
    }

    /// Opens the table, which must be what the sender takes it for: it may have got rows, but
    /// no file may have been loaded into it, if this is to be told apart from such.
    pub(crate) fn open(&self, table: &Table) -> Result<TableWriter> {
        let create = self.before.is_none().then(|| (Schema::default(), self.after.options));
        let writer = table.writer(create)?;
        check_before(table, self.before.as_ref(), &writer)?;
        let has_sources = !self.after.ledger.recent.is_empty();
        if has_sources && ledger_digest(&writer.sources()?) != self.ledger {
            return Err(Error::InvalidInput(format!(
                "something else was loaded into table {} in the meantime; try again",
                table.name()
            )));
        }
        Ok(writer)
    }

    /// Writes the segments, whose bytes come from `bytes`, into files of a table. Their hash is
    /// compared. Small segments at the end of the table become larger ones, as in a load.
    pub(crate) fn arrive(
        self,
        writer: TableWriter,
        bytes: &mut dyn Read,
        options: &LoadOptions,
    ) -> Result<Arrived> {
        let (files, mut hasher) = (writer.data_files(), hasher());
        let mut new = Vec::with_capacity(self.segments.len());
        let mut piece = vec![0; PIECE];
        let broken = |error: std::io::Error| Error::io("the request", error);
        for (entry, stats) in self.segments {
            let mut file = files.create_in(&entry.partition)?;
            let mut left = entry.length;
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
                let piece = piece.get_mut(..most).unwrap_or_default();
                bytes.read_exact(piece).map_err(broken)?;
                hasher.write(piece);
                file.write_all(piece)?;
                left -= most as u64;
            }
            file.sync()?;
            let stats = stats.into_iter().map(|(id, known)| (id, known.data_type, known.stats));
            let segment = NewSegment {
                file: file.uuid(),
                offset: 0,
                length: entry.length,
                uuid: entry.uuid,
                footer_crc: entry.footer_crc,
                rows: entry.rows,
                stats: stats.collect(),
            };
            drop(file);
            writer.check_new(&segment)?;
            new.push((entry.partition, segment));
        }
        let mut hash = [0; size_of::<Id>()];
        bytes.read_exact(&mut hash).map_err(broken)?;
        if hash != hasher.finish_128().to_le_bytes() {
            return Err(Error::InvalidInput("the segments have changed on their way".into()));
        }
        // As those of a load are.
        new.sort_by(|(a, _), (b, _)| a.cmp(b));
        let after = self.after;
        let before =
            self.before.unwrap_or_else(|| Root { schema: Schema::default(), ..after.clone() });
        check_widening(
            &before.arrangement,
            |column| writer.column_stats_by_segment(column),
            &before.schema,
            &after.schema,
            new.iter().map(|(_, segment)| segment),
        )?;
        let loaded = new.iter().map(|(_, segment)| segment.length).sum();
        let edits = match new.is_empty() {
            true => Vec::new(),
            false => {
                let pipeline = pipeline_options(after.options, options);
                let pool = thread_pool(options.threads)?;
                tiers::append(&writer, new, &after.schema, &after.arrangement, &pool, &pipeline)?
            }
        };
        let changes = Changes {
            schema: after.schema,
            arrangement: after.arrangement,
            edits,
            sources: after.ledger.recent,
            loaded,
            ..writer.changes()
        };
        Ok(Arrived { writer, changes })
    }
}

impl Arrived {
    /// Puts the segments in force.
    pub(crate) fn commit(mut self) -> Result<Commit> {
        self.writer.commit_changes(self.changes)
    }
}

/// The bytes of segments of a snapshot, in pieces, and then their hash.
pub(crate) fn pieces<'s>(
    snapshot: &'s Snapshot,
    segments: &'s [SegmentWithStats],
    cancelled: &'s AtomicBool,
) -> impl Iterator<Item = Result<Vec<u8>>> + 's {
    let ranges = segments.iter().map(|(entry, _)| {
        let end = entry.offset.saturating_add(entry.length);
        Ok((snapshot.map(entry)?, entry.offset, end))
    });
    streamed(ranges, cancelled)
}

/// The bytes of ranges of files, from their starts to their ends, in pieces, and then the hash of
/// all.
pub(super) fn streamed<'s>(
    mut ranges: impl Iterator<Item = Result<(Arc<Mapped>, u64, u64)>> + 's,
    cancelled: &'s AtomicBool,
) -> impl Iterator<Item = Result<Vec<u8>>> + 's {
    let (mut current, mut hasher) = (None, Some(hasher()));
    let mut next = move || -> Result<Option<Vec<u8>>> {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        loop {
            let Some((mapped, at, end)) = &mut current else {
                match ranges.next() {
                    Some(range) => {
                        current = Some(range?);
                        continue;
                    }
                    None => {
                        let hash = hasher.take();
                        return Ok(hash.map(|it| it.finish_128().to_le_bytes().to_vec()));
                    }
                }
            };
            if *at == *end {
                current = None;
                continue;
            }
            let to = (*end).min(at.saturating_add(PIECE as u64));
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let piece = mapped.bytes(place(*at)..place(to), Budget::UNLIMITED)?.to_vec();
            // Zeros may be in the place of pages that are gone.
            mapped.check()?;
            *at = to;
            hasher.iter_mut().for_each(|hasher| hasher.write(&piece));
            return Ok(Some(piece));
        }
    };
    let mut has_failed = false;
    std::iter::from_fn(move || {
        let piece = if has_failed { None } else { next().transpose() };
        has_failed = matches!(piece, Some(Err(_)));
        piece
    })
}

/// What tells a ledger from others.
pub(crate) fn ledger_digest(sources: &[LoadedSource]) -> u64 {
    let mut hasher = hasher();
    for source in sources {
        hasher.write(source.path.as_bytes());
        hasher.write(&source.load);
        hasher.write(&source.generation.to_le_bytes());
        hasher.write(&[u8::from(source.done)]);
    }
    hasher.finish_128() as u64
}

/// A root for others: without chunks, and with all entries of the ledger in it.
pub(crate) fn root_for_others(root: &Root, sources: Vec<LoadedSource>) -> Root {
    let ledger = Ledger { files: Vec::new(), recent: sources };
    Root { ledger, chunks: Vec::new(), rows: 0, ..root.clone() }
}

pub(crate) fn write_root(root: &Root, out: &mut Writer) {
    out.u64(root.generation);
    out.blob(&root.encode());
}

pub(crate) fn read_root(from: &mut Cursor<'_>) -> Result<Root> {
    let generation = from.u64()?;
    Root::parse(from.blob(MOST_BYTES)?, generation)
}

/// Refuses a table that is not what the sender takes it for. It may have got rows.
fn check_before(table: &Table, before: Option<&Root>, writer: &TableWriter) -> Result<()> {
    let name = table.name();
    let what = match (before, writer.is_new()) {
        (None, true) => return Ok(()),
        (None, false) => "has come into being",
        (Some(_), true) => "is not there any more",
        (Some(before), false) => {
            let same = writer.schema() == &before.schema
                && writer.arrangement() == before.arrangement
                && writer.base().is_some_and(|root| root.table == before.table);
            match same {
                true => return Ok(()),
                false => "has got other columns, or another order",
            }
        }
    };
    Err(Error::InvalidInput(format!("table {name} {what} in the meantime; try again")))
}
