//! Reads a chunk: the header when it is opened, everything else on demand.

use std::sync::Arc;

use super::{
    COLUMN, DELETIONS, MAGIC, PARTITIONS, ROWS_AT, SECTION_BYTES, SEGMENT_BYTES, SEGMENTS,
    SegmentEntry, section_crc,
};
use crate::budget::Budget;
use crate::bytes::{Cursor, checksum_holds};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::codec::read_envelope;
use crate::manifest::columns::{ColumnStats, parse_column};
use crate::manifest::commit::SegmentWithStats;
use crate::manifest::{ChunkRef, Id, layout};
use crate::model::ColumnId;

/// What a chunk is refused for that is not the one that was committed.
const NOT_AS_NAMED: &str = "checksum of the chunk does not match the root";

#[derive(Clone, Copy, Debug)]
struct Section {
    kind: u32,
    column: ColumnId,
    offset: u64,
    length: u64,
    crc: u32,
}

/// An open chunk: the header has been parsed, the rest is parsed on demand.
#[derive(Debug)]
pub struct Chunk {
    bytes: Arc<Mapped>,
    id: Id,
    segments: usize,
    sections: Vec<Section>,
}

impl Chunk {
    /// Opens the chunk that a root refers to.
    pub fn open(bytes: Arc<Mapped>, expected: &ChunkRef) -> Result<Chunk> {
        // Before any of it is read: a file may claim to be of any length.
        if bytes.len() as u64 != expected.length {
            let what =
                format!("it has {} bytes, and the root says {}", bytes.len(), expected.length);
            return Err(Error::corrupt(0, what));
        }
        let all = whole(&bytes)?;
        let mut cursor = Cursor::new(all);
        let envelope = read_envelope(MAGIC, "manifest chunk", &mut cursor);
        envelope.map_err(|error| damaged_or_newer(all, expected, error))?;
        let id = cursor.uuid()?;
        let segments = cursor.count(SEGMENT_BYTES, limits::MAX_CHUNK_SEGMENTS)?;
        let count = cursor.count(SECTION_BYTES, limits::MAX_COLUMNS.saturating_mul(2))?;
        let directory = cursor.take(count * SECTION_BYTES)?;
        let header = cursor.position();
        if !checksum_holds(crc32fast::hash(all.get(..header).unwrap_or_default()), cursor.u32()?) {
            return Err(Error::corrupt(header as u64, "checksum of the header does not match"));
        }
        if id != expected.id || segments != expected.segments as usize {
            return Err(Error::corrupt(40, "this is not the chunk that the root names"));
        }
        let mut cursor = Cursor::new(directory);
        let mut sections = Vec::with_capacity(count);
        for _ in 0..count {
            let (kind, column) = (cursor.u32()?, ColumnId(cursor.u32()?));
            sections.push(Section {
                kind,
                column,
                offset: cursor.u64()?,
                length: cursor.u64()?,
                crc: cursor.u32()?,
            });
            cursor.u32()?;
        }
        if !sections.is_sorted_by(|a, b| (a.kind, a.column) < (b.kind, b.column)) {
            return Err(Error::corrupt(0, "sections are not in order"));
        }
        check_disjoint(&sections)?;
        bytes.check()?;
        Ok(Chunk { bytes, id, segments, sections })
    }

    /// The number of segments.
    pub fn count(&self) -> usize {
        self.segments
    }

    /// The segments, in the order of their rows; every call parses them.
    pub fn segments(&self) -> Result<Vec<SegmentEntry>> {
        let mut entries = Vec::with_capacity(self.segments);
        self.append_segments(&mut entries)?;
        Ok(entries)
    }

    /// Appends the segments to `to`.
    pub fn append_segments(&self, to: &mut Vec<SegmentEntry>) -> Result<()> {
        let mut cursor = Cursor::new(self.required(PARTITIONS)?);
        let mut partitions: Vec<Arc<str>> = Vec::new();
        for _ in 0..cursor.count(4, limits::MAX_CHUNK_SEGMENTS)? {
            let path = cursor.text(limits::MAX_NAME_BYTES)?;
            layout::check_partition(path).map_err(|error| cursor.corrupt(error.to_string()))?;
            partitions.push(Arc::from(path));
        }
        let mut cursor = Cursor::new(self.required(SEGMENTS)?);
        for _ in 0..self.segments {
            to.push(parse_segment(&mut cursor, &partitions)?);
        }
        self.bytes.check()?;
        cursor.finish()
    }

    /// The rows of each segment.
    pub(super) fn rows(&self) -> Result<Vec<u64>> {
        let mut cursor = Cursor::new(self.required(SEGMENTS)?);
        let one = |_| {
            cursor.take(ROWS_AT)?;
            let rows = cursor.u64()?;
            cursor.take(SEGMENT_BYTES - ROWS_AT - 8)?;
            check_rows(rows, &cursor)
        };
        (0..self.segments).map(one).collect()
    }

    /// The columns that some segment has, in ascending order of their ids.
    pub fn columns(&self) -> impl Iterator<Item = ColumnId> {
        self.sections.iter().filter(|section| section.kind == COLUMN).map(|section| section.column)
    }

    /// Statistics of a column, segment by segment; `None` for segments that lack it, or if all do.
    pub fn column_stats(&self, column: ColumnId) -> Result<Option<Vec<Option<ColumnStats>>>> {
        let Some((payload, base)) = self.section(COLUMN, column)? else { return Ok(None) };
        let known = parse_column(payload, &self.rows()?).map_err(|error| error.in_file("", base));
        // Zeros in place of pages that are gone may have been refused, or believed.
        self.bytes.check().and(known.map(Some))
    }

    /// The offset in the file of the section of a column, if there is one.
    pub(crate) fn column_place(&self, column: ColumnId) -> Option<u64> {
        let found = self.sections.iter().find(|s| s.kind == COLUMN && s.column == column);
        found.map(|section| section.offset)
    }

    /// Every segment with the statistics of its columns.
    pub fn segments_with_stats(&self) -> Result<Vec<SegmentWithStats>> {
        let mut all: Vec<SegmentWithStats> =
            self.segments()?.into_iter().map(|segment| (segment, Vec::new())).collect();
        for column in self.columns() {
            for ((_, stats), known) in
                all.iter_mut().zip(self.column_stats(column)?.into_iter().flatten())
            {
                stats.extend(known.map(|known| (column, known)));
            }
        }
        Ok(all)
    }

    /// Verifies the whole file against the root's checksum, and parses every section.
    pub fn verify(&self, expected: &ChunkRef) -> Result<()> {
        if !checksum_holds(crc32fast::hash(whole(&self.bytes)?), expected.crc) {
            return Err(Error::corrupt(0, NOT_AS_NAMED));
        }
        self.segments()?;
        for column in self.columns() {
            self.column_stats(column)?;
        }
        Ok(())
    }

    pub(super) fn section(&self, kind: u32, column: ColumnId) -> Result<Option<(&[u8], u64)>> {
        let Ok(at) = self.sections.binary_search_by_key(&(kind, column), |s| (s.kind, s.column))
        else {
            return Ok(None);
        };
        let section = self.sections[at];
        let all = whole(&self.bytes)?;
        let range = usize::try_from(section.offset).ok().zip(usize::try_from(section.length).ok());
        let payload = range
            .and_then(|(offset, length)| all.get(offset..offset.checked_add(length)?))
            .ok_or_else(|| Error::corrupt(section.offset, "a section extends beyond the file"))?;
        if !checksum_holds(section_crc(payload, &self.id, kind, column), section.crc) {
            return Err(Error::corrupt(
                section.offset,
                format!("checksum of section {kind}/{} does not match", column.0),
            ));
        }
        Ok(Some((payload, section.offset)))
    }

    fn required(&self, kind: u32) -> Result<&[u8]> {
        let section = self.section(kind, ColumnId(0))?;
        section
            .map(|(payload, _)| payload)
            .ok_or_else(|| Error::corrupt(0, format!("section {kind} is missing")))
    }
}

fn whole(bytes: &Mapped) -> Result<&[u8]> {
    bytes.bytes(0..bytes.len(), Budget::UNLIMITED)
}

/// What an envelope is refused for. Only a whole file tells that it is newer; where the checksum of
/// its header is, is not known then.
fn damaged_or_newer(all: &[u8], expected: &ChunkRef, error: Error) -> Error {
    match checksum_holds(crc32fast::hash(all), expected.crc) {
        true => error,
        false => Error::corrupt(0, NOT_AS_NAMED),
    }
}

/// Refuses sections that share bytes: a short file would unfold to any number of statistics.
fn check_disjoint(sections: &[Section]) -> Result<()> {
    let mut places: Vec<(u64, u64)> = sections
        .iter()
        .filter(|section| section.length > 0)
        .map(|section| (section.offset, section.offset.saturating_add(section.length)))
        .collect();
    places.sort_unstable();
    match places.iter().zip(places.iter().skip(1)).find(|(before, next)| before.1 > next.0) {
        Some((_, next)) => Err(Error::corrupt(next.0, "two sections share bytes")),
        None => Ok(()),
    }
}

fn check_rows(rows: u64, cursor: &Cursor<'_>) -> Result<u64> {
    if rows > limits::SEGMENT_ROWS as u64 {
        return Err(cursor.corrupt(format!("a segment of {rows} rows")));
    }
    Ok(rows)
}

pub(super) fn parse_segment(
    cursor: &mut Cursor<'_>,
    partitions: &[Arc<str>],
) -> Result<SegmentEntry> {
    let (file, uuid) = (cursor.uuid()?, cursor.uuid()?);
    let (offset, length, rows) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let (footer_crc, partition, flags) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    cursor.u32()?;
    if flags & DELETIONS != 0 {
        return Err(Error::Unsupported(
            "a segment has a deletion vector; a newer build is needed to read it".into(),
        ));
    }
    if flags != 0 {
        return Err(Error::Unsupported(format!(
            "segment flags {flags:#x}; a newer build is needed"
        )));
    }
    if offset.checked_add(length).is_none() {
        return Err(cursor.corrupt("a segment extends beyond any file"));
    }
    let rows = check_rows(rows, cursor)?;
    let Some(partition) = partitions.get(partition as usize).cloned() else {
        return Err(cursor.corrupt("a segment names a partition that is not listed"));
    };
    Ok(SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows })
}
