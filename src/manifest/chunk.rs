//! A chunk: up to 4,096 segments and their statistics, column by column.
//!
//! ```text
//! header     envelope · chunk uuid 16 · segments u32 · sections u32
//!            directory { kind u32 · column u32 · offset u64 · length u64 · crc u32 · zero u32 }… · crc32 of all before
//! section 1  segments: { file 16 · uuid 16 · offset u64 · length u64 · rows u64 · footer crc u32 · partition u32 ·
//!            flags u32 · zero u32 }…
//! section 2  partitions: count u32 · { length u32 · path }…
//! section 3  one for each column, see `columns.rs`
//! ```
//!
//! Sections start at multiples of 8. Their checksums also cover chunk uuid, kind and column, so
//! that a misplaced section is caught; a reader of one column checks and parses only the header,
//! the segments and that column's section: tables of 2,000 columns open fast.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{read_envelope, write_envelope};
use super::columns::{ColumnStats, encode_column, parse_column};
use super::commit::Listed;
use super::{ChunkRef, Id, layout};
use crate::bytes::{Cursor, Writer, checksum_holds};
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::ColumnId;

const MAGIC: &[u8; 8] = b"STYCHNK\0";
const SEGMENTS: u32 = 1;
const PARTITIONS: u32 = 2;
const COLUMN: u32 = 3;
const SECTION_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 72;
/// Where the number of rows is in them.
const ROWS_AT: usize = 48;
/// Flag of a segment with a deletion vector: defined, and refused by this version.
const DELETIONS: u32 = 1;

/// One segment of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Names the file.
    pub file: Id,
    /// The partition whose directory holds the file; empty without partitions.
    pub partition: Arc<str>,
    /// Where the segment starts in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Identity of its contents.
    pub uuid: Id,
    /// CRC32 of its footer.
    pub footer_crc: u32,
    /// Its rows.
    pub rows: u64,
}

/// Collects segments for a new chunk.
#[derive(Debug, Default)]
pub struct ChunkBuilder {
    segments: Vec<SegmentEntry>,
    columns: BTreeMap<ColumnId, BTreeMap<usize, ColumnStats>>,
}

impl ChunkBuilder {
    /// Segments so far.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds a segment with the statistics of its columns.
    pub fn push(
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

    /// Adds everything that a chunk lists.
    pub fn append(&mut self, chunk: &Chunk) -> Result<()> {
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

    /// Adds everything that another builder holds.
    pub fn absorb(&mut self, other: ChunkBuilder) {
        let start = self.segments.len();
        self.segments.extend(other.segments);
        for (column, stats) in other.columns {
            let shifted = stats.into_iter().map(|(at, stats)| (start + at, stats));
            self.columns.entry(column).or_default().extend(shifted);
        }
    }

    /// The stored form under the name `id`, and what a root says of it.
    pub fn encode(&self, id: Id) -> (Vec<u8>, ChunkRef) {
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

fn section_crc(payload: &[u8], id: &Id, kind: u32, column: ColumnId) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(payload);
    hasher.update(id);
    hasher.update(&kind.to_le_bytes());
    hasher.update(&column.0.to_le_bytes());
    hasher.finalize()
}

#[derive(Clone, Copy, Debug)]
struct Section {
    kind: u32,
    column: ColumnId,
    offset: u64,
    length: u64,
    crc: u32,
}

/// An open chunk: its header is parsed, the rest on demand.
#[derive(Debug)]
pub struct Chunk {
    bytes: Arc<Mapped>,
    id: Id,
    segments: usize,
    sections: Vec<Section>,
}

impl Chunk {
    /// Opens the chunk that a root names.
    pub fn open(bytes: Arc<Mapped>, expected: &ChunkRef) -> Result<Chunk> {
        let all = bytes.as_slice();
        let mut cursor = Cursor::new(all);
        read_envelope(MAGIC, "manifest chunk", &mut cursor)?;
        let id = cursor.uuid()?;
        let segments = cursor.count(SEGMENT_BYTES, limits::MAX_CHUNK_SEGMENTS)?;
        let count = cursor.count(SECTION_BYTES, limits::MAX_COLUMNS.saturating_mul(2))?;
        let directory = cursor.take(count * SECTION_BYTES)?;
        let header = cursor.position();
        if !checksum_holds(crc32fast::hash(all.get(..header).unwrap_or_default()), cursor.u32()?) {
            return Err(Error::corrupt(header as u64, "checksum of the header does not match"));
        }
        if id != expected.id
            || segments != expected.segments as usize
            || all.len() as u64 != expected.length
        {
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
        Ok(Chunk { bytes, id, segments, sections })
    }

    /// How many segments there are.
    pub fn count(&self) -> usize {
        self.segments
    }

    /// The segments, in the order of their rows; parsed anew each time.
    pub fn segments(&self) -> Result<Vec<SegmentEntry>> {
        let mut entries = Vec::with_capacity(self.segments);
        self.append_segments(&mut entries)?;
        Ok(entries)
    }

    /// Adds the segments to others.
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
        cursor.finish()
    }

    /// The rows of each segment.
    fn rows(&self) -> Result<Vec<u64>> {
        let mut cursor = Cursor::new(self.required(SEGMENTS)?);
        let one = |_| {
            cursor.take(ROWS_AT)?;
            let rows = cursor.u64()?;
            cursor.take(SEGMENT_BYTES - ROWS_AT - 8)?;
            check_rows(rows, &cursor)
        };
        (0..self.segments).map(one).collect()
    }

    /// The columns that some segment has, by id.
    pub fn columns(&self) -> impl Iterator<Item = ColumnId> {
        self.sections.iter().filter(|section| section.kind == COLUMN).map(|section| section.column)
    }

    /// What is known of a column, segment by segment; `None` for segments that lack it, or if all
    /// do.
    pub fn column_stats(&self, column: ColumnId) -> Result<Option<Vec<Option<ColumnStats>>>> {
        let Some((payload, base)) = self.section(COLUMN, column)? else { return Ok(None) };
        parse_column(payload, &self.rows()?).map(Some).map_err(|error| error.at("", base))
    }

    /// Every segment with the statistics of its columns.
    pub fn listed(&self) -> Result<Vec<Listed>> {
        let mut all: Vec<Listed> =
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

    /// Checks the whole file against the root, and that every section parses.
    pub fn verify(&self, expected: &ChunkRef) -> Result<()> {
        if !checksum_holds(crc32fast::hash(self.bytes.as_slice()), expected.crc) {
            return Err(Error::corrupt(0, "checksum of the chunk does not match the root"));
        }
        let rows =
            self.segments()?.iter().try_fold(0u64, |sum, segment| sum.checked_add(segment.rows));
        if rows != Some(expected.rows) {
            return Err(Error::corrupt(
                0,
                format!("rows do not add up to the {} that the root counts", expected.rows),
            ));
        }
        for column in self.columns() {
            self.column_stats(column)?;
        }
        Ok(())
    }

    fn section(&self, kind: u32, column: ColumnId) -> Result<Option<(&[u8], u64)>> {
        let Ok(at) = self.sections.binary_search_by_key(&(kind, column), |s| (s.kind, s.column))
        else {
            return Ok(None);
        };
        let section = self.sections[at];
        let range = usize::try_from(section.offset).ok().zip(usize::try_from(section.length).ok());
        let payload = range
            .and_then(|(offset, length)| {
                self.bytes.as_slice().get(offset..offset.checked_add(length)?)
            })
            .ok_or_else(|| Error::corrupt(section.offset, "a section reaches beyond the file"))?;
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

fn check_rows(rows: u64, cursor: &Cursor<'_>) -> Result<u64> {
    if rows > limits::SEGMENT_ROWS as u64 {
        return Err(cursor.corrupt(format!("a segment of {rows} rows")));
    }
    Ok(rows)
}

fn parse_segment(cursor: &mut Cursor<'_>, partitions: &[Arc<str>]) -> Result<SegmentEntry> {
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
        return Err(cursor.corrupt("a segment reaches beyond any file"));
    }
    let rows = check_rows(rows, cursor)?;
    let Some(partition) = partitions.get(partition as usize).cloned() else {
        return Err(cursor.corrupt("a segment names a partition that is not listed"));
    };
    Ok(SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Bound, Stats};
    use crate::model::{DataType, Scalar};

    fn entry(i: u8, partition: &str) -> SegmentEntry {
        SegmentEntry {
            file: [i; 16],
            partition: Arc::from(partition),
            offset: 64,
            length: 1000,
            uuid: [i + 100; 16],
            footer_crc: 77,
            rows: 10,
        }
    }

    fn ints(min: i128, max: i128) -> ColumnStats {
        let bound = |v| Some(Bound { value: Scalar::Int(v), exact: true });
        let stats = Stats {
            rows: 10,
            nulls: 1,
            min: bound(min),
            max: bound(max),
            sum: Some(min + max),
            ..Stats::default()
        };
        ColumnStats { data_type: DataType::Int32, stats }
    }

    fn text(value: &str) -> ColumnStats {
        let bound = Some(Bound { value: Scalar::Bytes(value.as_bytes().into()), exact: true });
        let stats = Stats {
            rows: 10,
            min: bound.clone(),
            max: bound,
            distinct: Some(1),
            ..Stats::default()
        };
        ColumnStats { data_type: DataType::Utf8, stats }
    }

    fn sample() -> ChunkBuilder {
        let mut builder = ChunkBuilder::default();
        builder.push(entry(1, "b"), [(ColumnId(0), ints(-5, 9)), (ColumnId(7), text("short"))]);
        builder.push(entry(2, ""), [(ColumnId(0), ints(3, 4))]);
        builder.push(entry(3, "a/c"), [(ColumnId(7), text("much too long"))]);
        builder
    }

    fn open(bytes: &[u8], reference: &ChunkRef) -> Result<Chunk> {
        Chunk::open(Arc::new(Mapped::of_bytes(bytes)), reference)
    }

    type Everything = (Vec<SegmentEntry>, Vec<Option<Vec<Option<ColumnStats>>>>);

    /// All that a chunk says.
    fn everything(bytes: &[u8], reference: &ChunkRef) -> Result<Everything> {
        let chunk = open(bytes, reference)?;
        let columns =
            (0..9).map(|id| chunk.column_stats(ColumnId(id))).collect::<Result<Vec<_>>>()?;
        Ok((chunk.segments()?, columns))
    }

    #[test]
    fn round_trips() {
        let (bytes, reference) = sample().encode([9; 16]);
        assert_eq!((reference.segments, reference.rows), (3, 30));
        assert_eq!((&*reference.first_partition, &*reference.last_partition), ("", "b"));
        let chunk = open(&bytes, &reference).unwrap();
        chunk.verify(&reference).unwrap();
        assert_eq!(chunk.segments().unwrap(), [entry(1, "b"), entry(2, ""), entry(3, "a/c")]);
        let known = chunk.column_stats(ColumnId(0)).unwrap().unwrap();
        assert_eq!(known, [Some(ints(-5, 9)), Some(ints(3, 4)), None]);
        let known = chunk.column_stats(ColumnId(7)).unwrap().unwrap();
        assert_eq!(known[0], Some(text("short")));
        let cut = &known[2].as_ref().unwrap().stats;
        let bound = |text: &[u8]| Some(Bound { value: Scalar::Bytes(text.into()), exact: false });
        assert_eq!((&cut.min, &cut.max), (&bound(b"much too"), &bound(b"much top")));
        assert!(chunk.column_stats(ColumnId(1)).unwrap().is_none());
    }

    #[test]
    fn merging_keeps_everything() {
        let (bytes, reference) = sample().encode([9; 16]);
        let chunk = open(&bytes, &reference).unwrap();
        let mut merged = ChunkBuilder::default();
        merged.append(&chunk).unwrap();
        assert_eq!(merged.encode([9; 16]).0, bytes);
        merged.absorb(sample());
        let (bytes, reference) = merged.encode([8; 16]);
        let (segments, columns) = everything(&bytes, &reference).unwrap();
        let first = columns[0].as_ref().unwrap();
        assert_eq!((segments.len(), &first[..3]), (6, &first[3..]));
    }

    #[test]
    fn damage_is_an_error_or_changes_nothing() {
        let (bytes, reference) = sample().encode([9; 16]);
        let whole = everything(&bytes, &reference).unwrap();
        for at in 0..bytes.len() {
            assert!(everything(&bytes[..at], &reference).is_err());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                if let Ok(found) = everything(&flipped, &reference) {
                    assert_eq!(found, whole, "byte {at} bit {bit}");
                }
                assert!(
                    open(&flipped, &reference).and_then(|chunk| chunk.verify(&reference)).is_err()
                );
            }
        }
    }

    /// Sections with any bytes behind a right checksum parse or fail, and nothing else.
    #[test]
    fn wild_sections_do_no_harm() {
        let (bytes, reference) = sample().encode([9; 16]);
        let segments = open(&bytes, &reference).unwrap().rows().unwrap();
        let section = open(&bytes, &reference).unwrap();
        let (payload, _) = section.section(COLUMN, ColumnId(7)).unwrap().unwrap();
        for at in 0..payload.len() {
            assert!(parse_column(&payload[..at], &segments).is_err());
            for value in [0, 1, 0x40, 0x7F, 0xFF] {
                let mut changed = payload.to_vec();
                changed[at] = value;
                let _ = parse_column(&changed, &segments);
            }
        }
    }

    #[test]
    fn deletion_vectors_are_refused() {
        let mut bytes = vec![0; SEGMENT_BYTES];
        bytes[64] = 1;
        let parsed = parse_segment(&mut Cursor::new(&bytes), &[Arc::from("")]);
        assert!(matches!(parsed, Err(Error::Unsupported(_))));
    }
}
