//! Collects segments with their statistics, and writes them as a chunk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{COLUMN, Chunk, MAGIC, PARTITIONS, SECTION_BYTES, SEGMENTS, SegmentEntry, section_crc};
use crate::bytes::Writer;
use crate::error::Result;
use crate::manifest::codec::write_envelope;
use crate::manifest::columns::{ColumnStats, encode_column};
use crate::manifest::{ChunkRef, Id};
use crate::model::ColumnId;

/// Collects segments for a new chunk.
#[derive(Debug, Default)]
pub(crate) struct ChunkBuilder {
    segments: Vec<SegmentEntry>,
    columns: BTreeMap<ColumnId, BTreeMap<usize, ColumnStats>>,
}

impl ChunkBuilder {
    /// The number of segments so far.
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds a segment with the statistics of its columns.
    pub(crate) fn push(
        &mut self,
        segment: SegmentEntry,
        stats: impl IntoIterator<Item = (ColumnId, ColumnStats)>,
    ) {
        let at = self.segments.len();
        self.segments.push(segment);
        for (column, stats) in stats {
            self.columns.entry(column).or_default().insert(at, stats);
        }
    }

    /// Adds all segments of a chunk.
    pub(crate) fn append(&mut self, chunk: &Chunk) -> Result<()> {
        let start = self.segments.len();
        chunk.append_segments(&mut self.segments)?;
        for column in chunk.columns() {
            let target = self.columns.entry(column).or_default();
            for (i, stats) in chunk.column_stats(column)?.into_iter().flatten().enumerate() {
                if let Some(stats) = stats {
                    target.insert(start + i, stats);
                }
            }
        }
        Ok(())
    }

    /// Adds all segments of another builder.
    pub(crate) fn absorb(&mut self, other: ChunkBuilder) {
        let start = self.segments.len();
        self.segments.extend(other.segments);
        for (column, stats) in other.columns {
            let shifted = stats.into_iter().map(|(at, stats)| (start + at, stats));
            self.columns.entry(column).or_default().extend(shifted);
        }
    }

    /// The stored form under the identifier `id`, and a root's reference to it.
    pub(crate) fn encode(&self, id: Id) -> (Vec<u8>, ChunkRef) {
        let paths: Vec<&Arc<str>> =
            self.segments.iter().map(|segment| &segment.partition).collect();
        let (first, last) = (paths.iter().min(), paths.iter().max());
        let mut distinct: Vec<&Arc<str>> = paths.clone();
        distinct.sort();
        distinct.dedup();
        let mut sections = vec![
            (SEGMENTS, ColumnId(0), self.encode_segments(&distinct)),
            (PARTITIONS, ColumnId(0), encode_partitions(&distinct)),
        ];
        for (column, stats) in &self.columns {
            sections.push((COLUMN, *column, encode_column(self.segments.len(), stats)));
        }
        let bytes = assemble(id, self.segments.len(), &sections);
        let path =
            |path: Option<&&Arc<str>>| path.map_or_else(|| Arc::from(""), |path| Arc::clone(path));
        let reference = ChunkRef {
            id,
            length: bytes.len() as u64,
            crc: crc32fast::hash(&bytes),
            segments: self.segments.len() as u32,
            rows: self.segments.iter().map(|segment| segment.rows).sum(),
            first_partition: path(first),
            last_partition: path(last),
        };
        (bytes, reference)
    }

    fn encode_segments(&self, partitions: &[&Arc<str>]) -> Writer {
        let mut out = Writer::new();
        for segment in &self.segments {
            out.put(&segment.file);
            out.put(&segment.uuid);
            out.u64(segment.offset);
            out.u64(segment.length);
            out.u64(segment.rows);
            out.u32(segment.footer_crc);
            out.u32(partitions.binary_search(&&segment.partition).unwrap_or(0) as u32);
            out.u64(0);
        }
        out
    }
}

fn encode_partitions(partitions: &[&Arc<str>]) -> Writer {
    let mut out = Writer::new();
    out.count(partitions.len());
    for partition in partitions {
        out.blob(partition.as_bytes());
    }
    out
}

fn assemble(id: Id, segments: usize, sections: &[(u32, ColumnId, Writer)]) -> Vec<u8> {
    let mut out = Writer::new();
    write_envelope(MAGIC, 0, &mut out);
    out.put(&id);
    out.count(segments);
    out.count(sections.len());
    let mut offset = (out.len() + sections.len() * SECTION_BYTES + 4).next_multiple_of(8);
    for (kind, column, payload) in sections {
        out.u32(*kind);
        out.u32(column.0);
        out.u64(offset as u64);
        out.u64(payload.len() as u64);
        out.u32(section_crc(payload.as_slice(), &id, *kind, *column));
        out.u32(0);
        offset = (offset + payload.len()).next_multiple_of(8);
    }
    let crc = crc32fast::hash(out.as_slice());
    out.u32(crc);
    for (_, _, payload) in sections {
        out.align(8);
        out.put(payload.as_slice());
    }
    out.into_vec()
}
