//! The root of a generation: schema, options, and the list of chunks.
//!
//! ```text
//! envelope · generation u64 · sections u32 · { kind u32 · length u32 · payload }… · crc32 of all before
//!   1 table    table uuid 16 · block rows u32 · segment rows u32 · profile u8 · rows u64
//!   2 schema   next column id u32 · columns u32 · { id u32 · name · type }…
//!   3 chunks   chunks u32 · { uuid 16 · length u64 · crc u32 · segments u32 · rows u64 · first · last partition }…
//!   4 required columns u32 · { id u32 }…, in the order of the schema: every row has a value there; left out if none
//!   5 arrangement  see `arrangement.rs`; left out if there is none
//!   6 history  committed u64: milliseconds since 1970 · keep u64: for so many milliseconds older generations stay
//!   7 ledger   see `ledger.rs`; left out if nothing was loaded
//!   8 traffic  loaded u64: bytes of segments as loads wrote them · written u64: bytes of all files ever written
//! ```
//!
//! Sections of other kinds are skipped: what must not be skipped is announced by a must-understand
//! feature.

use std::sync::Arc;

use super::codec::{read_envelope, seal, unseal, write_envelope};
use super::ledger::Ledger;
use super::{Id, arrangement, layout};
use crate::bytes::{Cursor, Writer};
use crate::encoding::Profile;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::stored::{read_type, write_type};
use crate::model::{Arrangement, Column, ColumnId, Schema};

const MAGIC: &[u8; 8] = b"STYROOT\0";
/// May-read feature: there is an arrangement.
const ARRANGED: u64 = 1;
/// The longest root that is read: 2²⁰ chunks and then some.
pub(super) const MAX_BYTES: u64 = 256 << 20;
const TABLE: u32 = 1;
const SCHEMA: u32 = 2;
const CHUNKS: u32 = 3;
const REQUIRED: u32 = 4;
const ARRANGEMENT: u32 = 5;
const HISTORY: u32 = 6;
const LEDGER: u32 = 7;
const TRAFFIC: u32 = 8;
const SECTIONS: usize = 8;
/// Bytes of a chunk reference without partitions.
const CHUNK_REF_BYTES: usize = 48;

/// What a table was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Rows of a block.
    pub block_rows: u32,
    /// The most rows of a segment.
    pub segment_rows: u32,
    /// The balance of size and speed.
    pub profile: Profile,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            block_rows: limits::BLOCK_ROWS as u32,
            segment_rows: limits::SEGMENT_ROWS as u32,
            profile: Profile::default(),
        }
    }
}

impl TableOptions {
    /// Refuses sizes outside the format's limits.
    pub fn check(&self) -> Result<()> {
        let (block, segment) = (self.block_rows as usize, self.segment_rows as usize);
        if block == 0 || !block.is_multiple_of(limits::VECTOR) || block > limits::MAX_BLOCK_ROWS {
            return Err(Error::InvalidInput(format!(
                "{block} rows a block: must be a multiple of {} up to {}",
                limits::VECTOR,
                limits::MAX_BLOCK_ROWS
            )));
        }
        if segment == 0 || segment > limits::SEGMENT_ROWS {
            return Err(Error::InvalidInput(format!(
                "{segment} rows a segment: 1 to {}",
                limits::SEGMENT_ROWS
            )));
        }
        Ok(())
    }
}

/// One generation of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    /// Rising by one with each commit, from 1.
    pub generation: u64,
    /// Identity of the table.
    pub table: Id,
    /// Its columns.
    pub schema: Schema,
    /// What it was created with.
    pub options: TableOptions,
    /// Where new rows go.
    pub arrangement: Arrangement,
    /// When it was committed and for how long generations stay.
    pub history: History,
    /// What was loaded from where.
    pub ledger: Ledger,
    /// What was written for the table since it was made.
    pub traffic: Traffic,
    /// Rows of all segments.
    pub rows: u64,
    /// The chunks, in the order of their rows.
    pub chunks: Vec<ChunkRef>,
    /// Features that a reader need not know and a writer does: none are to be written by this
    /// version if it is not 0.
    pub unknown: u64,
}

/// What a root says of time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Since 1970, when this generation was committed; 0 if unknown.
    pub committed: u64,
    /// For so long after another has taken its place, a generation stays readable.
    pub keep: u64,
}

/// Bytes that went into a table's files since it was made, this generation's among them; 0 if
/// unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Segments as loads wrote them, before any was merged with others.
    pub loaded: u64,
    /// All files: segments, what they were merged, sorted and rewritten to, temporary ones,
    /// manifests. What a load or compaction wrote that ended without a commit is not in it.
    pub written: u64,
}

impl Traffic {
    /// Bytes written for each byte that was loaded, over the table's life: what RocksDB calls
    /// W-Amp. `None` where nothing was loaded.
    pub fn amplification(&self) -> Option<f64> {
        (self.loaded > 0).then(|| self.written as f64 / self.loaded as f64)
    }
}

/// What a root says of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    /// Names the file.
    pub id: Id,
    /// Its length in bytes.
    pub length: u64,
    /// CRC32 of the whole file.
    pub crc: u32,
    /// Segments listed in it.
    pub segments: u32,
    /// Their rows.
    pub rows: u64,
    /// The first partition path of its segments; empty without partitions.
    pub first_partition: Arc<str>,
    /// The last one.
    pub last_partition: Arc<str>,
}

impl Root {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        // A writer that does not know of arrangements would put rows where queries do not look for
        // them.
        let may_read = if self.arrangement.is_none() { 0 } else { ARRANGED };
        write_envelope(MAGIC, may_read, &mut out);
        out.u64(self.generation);
        let mut sections = vec![
            (TABLE, self.encode_table()),
            (SCHEMA, self.encode_schema()),
            (CHUNKS, self.encode_chunks()),
        ];
        sections.extend(self.encode_required().map(|required| (REQUIRED, required)));
        if !self.arrangement.is_none() {
            sections.push((ARRANGEMENT, arrangement::encode(&self.arrangement)));
        }
        if self.history != History::default() {
            let mut out = Writer::new();
            out.u64(self.history.committed);
            out.u64(self.history.keep);
            sections.push((HISTORY, out));
        }
        if self.ledger != Ledger::default() {
            sections.push((LEDGER, self.ledger.encode()));
        }
        if self.traffic != Traffic::default() {
            let mut out = Writer::new();
            out.u64(self.traffic.loaded);
            out.u64(self.traffic.written);
            sections.push((TRAFFIC, out));
        }
        out.count(sections.len());
        for (kind, payload) in sections {
            out.u32(kind);
            out.blob(payload.as_slice());
        }
        seal(out)
    }

    fn encode_table(&self) -> Writer {
        let mut out = Writer::new();
        out.put(&self.table);
        out.u32(self.options.block_rows);
        out.u32(self.options.segment_rows);
        out.u8(profile_number(self.options.profile));
        out.u64(self.rows);
        out
    }

    fn encode_schema(&self) -> Writer {
        let mut out = Writer::new();
        out.u32(self.schema.next_id());
        out.count(self.schema.columns().len());
        for column in self.schema.columns() {
            out.u32(column.id.0);
            out.blob(column.name.as_bytes());
            write_type(&column.data_type, &mut out);
        }
        out
    }

    fn encode_chunks(&self) -> Writer {
        let mut out = Writer::new();
        out.count(self.chunks.len());
        for chunk in &self.chunks {
            out.put(&chunk.id);
            out.u64(chunk.length);
            out.u32(chunk.crc);
            out.u32(chunk.segments);
            out.u64(chunk.rows);
            out.blob(chunk.first_partition.as_bytes());
            out.blob(chunk.last_partition.as_bytes());
        }
        out
    }

    fn encode_required(&self) -> Option<Writer> {
        let columns: Vec<&Column> =
            self.schema.columns().iter().filter(|column| !column.nullable).collect();
        let mut out = Writer::new();
        out.count(columns.len());
        columns.iter().for_each(|column| out.u32(column.id.0));
        (!columns.is_empty()).then_some(out)
    }

    /// Reads the stored form of `generation`.
    pub fn parse(bytes: &[u8], generation: u64) -> Result<Root> {
        read_envelope(MAGIC, "table root", &mut Cursor::new(bytes))?;
        let mut cursor = Cursor::new(unseal(bytes)?);
        let may_read = read_envelope(MAGIC, "table root", &mut cursor)?;
        let found = cursor.u64()?;
        if found != generation {
            return Err(cursor.corrupt(format!(
                "the root of generation {found} stands in place of {generation}"
            )));
        }
        let mut sections: [Option<&[u8]>; SECTIONS] = [None; SECTIONS];
        for _ in 0..cursor.count(8, limits::MAX_COLUMNS)? {
            let kind = cursor.u32()?;
            let payload = cursor.blob(MAX_BYTES as usize)?;
            let known = kind.checked_sub(TABLE).and_then(|at| sections.get_mut(at as usize));
            if known.is_some_and(|slot| slot.replace(payload).is_some()) {
                return Err(cursor.corrupt(format!("section {kind} stands twice")));
            }
        }
        cursor.finish()?;
        let [
            Some(table),
            Some(schema),
            Some(chunks),
            required,
            arrangement,
            history,
            ledger,
            traffic,
        ] = sections
        else {
            return Err(cursor.corrupt("a section is missing"));
        };
        let (table, options, rows) = parse_table(table)?;
        let mut schema = parse_schema(schema)?;
        if let Some(required) = required {
            parse_required(required, &mut schema)?;
        }
        let arrangement = arrangement
            .map(|payload| arrangement::parse(payload, &schema))
            .transpose()?
            .unwrap_or_default();
        let history = history.map(parse_history).transpose()?.unwrap_or_default();
        let ledger = ledger.map(Ledger::parse).transpose()?.unwrap_or_default();
        let traffic = traffic.map(parse_traffic).transpose()?.unwrap_or_default();
        let chunks = parse_chunks(chunks)?;
        let unknown = may_read & !ARRANGED;
        let root = Root {
            generation,
            table,
            schema,
            options,
            arrangement,
            history,
            ledger,
            traffic,
            rows,
            chunks,
            unknown,
        };
        let counted = root.chunks.iter().try_fold(0u64, |sum, chunk| sum.checked_add(chunk.rows));
        if counted != Some(rows) {
            return Err(cursor.corrupt(format!(
                "the root counts {rows} rows, its chunks do not add up to them"
            )));
        }
        Ok(root)
    }
}

fn parse_table(payload: &[u8]) -> Result<(Id, TableOptions, u64)> {
    let mut cursor = Cursor::new(payload);
    let table = cursor.uuid()?;
    let (block_rows, segment_rows) = (cursor.u32()?, cursor.u32()?);
    let options = TableOptions { block_rows, segment_rows, profile: read_profile(&mut cursor)? };
    options.check().map_err(|error| cursor.corrupt(error.to_string()))?;
    let rows = cursor.u64()?;
    cursor.finish()?;
    Ok((table, options, rows))
}

fn parse_schema(payload: &[u8]) -> Result<Schema> {
    let mut cursor = Cursor::new(payload);
    let next_id = cursor.u32()?;
    let count = cursor.count(9, limits::MAX_COLUMNS)?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        let id = ColumnId(cursor.u32()?);
        let name = Arc::from(cursor.text(limits::MAX_NAME_BYTES)?);
        columns.push(Column { id, name, data_type: read_type(&mut cursor)?, nullable: true });
    }
    cursor.finish()?;
    Schema::from_parts(columns, next_id).map_err(|error| cursor.corrupt(error.to_string()))
}

fn parse_history(payload: &[u8]) -> Result<History> {
    let mut cursor = Cursor::new(payload);
    let history = History { committed: cursor.u64()?, keep: cursor.u64()? };
    cursor.finish()?;
    Ok(history)
}

fn parse_traffic(payload: &[u8]) -> Result<Traffic> {
    let mut cursor = Cursor::new(payload);
    let traffic = Traffic { loaded: cursor.u64()?, written: cursor.u64()? };
    cursor.finish()?;
    Ok(traffic)
}

fn parse_required(payload: &[u8], schema: &mut Schema) -> Result<()> {
    let mut cursor = Cursor::new(payload);
    // In the order of the columns, so that one walk over them finds all.
    let mut next = 0;
    for _ in 0..cursor.count(4, limits::MAX_COLUMNS)? {
        let id = ColumnId(cursor.u32()?);
        let found = schema.columns().iter().skip(next).position(|column| column.id == id);
        let Some(ahead) = found else {
            return Err(
                cursor.corrupt(format!("required column {} is none, or out of order", id.0))
            );
        };
        schema.require(next + ahead);
        next += ahead + 1;
    }
    cursor.finish()
}

fn parse_chunks(payload: &[u8]) -> Result<Vec<ChunkRef>> {
    let mut cursor = Cursor::new(payload);
    let count = cursor.count(CHUNK_REF_BYTES, limits::MAX_ROOT_CHUNKS)?;
    let mut chunks = Vec::with_capacity(count);
    for _ in 0..count {
        let id = cursor.uuid()?;
        let (length, crc, segments, rows) =
            (cursor.u64()?, cursor.u32()?, cursor.u32()?, cursor.u64()?);
        let mut partition = || -> Result<Arc<str>> {
            let text = cursor.text(limits::MAX_NAME_BYTES)?;
            layout::check_partition(text).map_err(|error| cursor.corrupt(error.to_string()))?;
            Ok(Arc::from(text))
        };
        let (first_partition, last_partition) = (partition()?, partition()?);
        chunks.push(ChunkRef { id, length, crc, segments, rows, first_partition, last_partition });
    }
    cursor.finish()?;
    Ok(chunks)
}

fn profile_number(profile: Profile) -> u8 {
    match profile {
        Profile::Fast => 0,
        Profile::Balanced => 1,
        Profile::Small => 2,
    }
}

fn read_profile(cursor: &mut Cursor<'_>) -> Result<Profile> {
    match cursor.u8()? {
        0 => Ok(Profile::Fast),
        1 => Ok(Profile::Balanced),
        2 => Ok(Profile::Small),
        other => Err(Error::Unsupported(format!("profile number {other}, from a newer version?"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DataType, PartitionKey, SortKey};

    fn sample() -> Root {
        let utc = DataType::Timestamp {
            unit: crate::model::TimeUnit::Microsecond,
            zone: Some(Arc::from("UTC")),
        };
        let mut schema =
            Schema::from_names([("id", DataType::Int64), ("when", utc), ("name", DataType::Utf8)])
                .unwrap();
        schema.require(0);
        schema.require(2);
        let chunk = ChunkRef {
            id: [7; 16],
            length: 1000,
            crc: 0xABCD,
            segments: 3,
            rows: 30,
            first_partition: Arc::from(""),
            last_partition: Arc::from("year=2015"),
        };
        let year = PartitionKey {
            name: Arc::from("year"),
            expression: Arc::from("date_part('year', \"when\")"),
            columns: vec![(Arc::from("when"), ColumnId(1))],
            data_type: DataType::Int32,
        };
        let by_name = SortKey { column: ColumnId(2), descending: true, nulls_first: true };
        Root {
            generation: 3,
            table: [1; 16],
            schema,
            options: TableOptions::default(),
            arrangement: Arrangement { partition_by: vec![year], sort_by: vec![by_name] },
            history: History { committed: 1_700_000_000_000, keep: 60_000 },
            ledger: super::super::ledger::tests::sample(),
            traffic: Traffic { loaded: 1000, written: 2345 },
            rows: 30,
            chunks: vec![chunk],
            unknown: 0,
        }
    }

    #[test]
    fn round_trips_and_refuses_damage() {
        let root = sample();
        let bytes = root.encode();
        assert_eq!(Root::parse(&bytes, 3).unwrap(), root);
        assert!(Root::parse(&bytes, 4).is_err());
        for at in 0..bytes.len() {
            assert!(Root::parse(&bytes[..at], 3).is_err());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(Root::parse(&flipped, 3).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    /// The same with the checksum put right: what a careless or hostile writer could make.
    #[test]
    fn no_wild_bytes_behind_a_right_checksum() {
        let body = sample().encode();
        let body = &body[..body.len() - 4];
        let sealed = |bytes: &[u8]| [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
        for at in 0..body.len() {
            let _ = Root::parse(&sealed(&body[..at]), 3);
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut changed = body.to_vec();
                changed[at] = value;
                let _ = Root::parse(&sealed(&changed), 3);
            }
        }
    }

    #[test]
    fn newer_files_are_refused_and_unknown_sections_skipped() {
        let bytes = sample().encode();
        let body = &bytes[..bytes.len() - 4];
        let sealed = |bytes: &[u8]| [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat();
        for at in [8, 16] {
            let mut newer = body.to_vec();
            newer[at] += 1;
            assert!(matches!(Root::parse(&sealed(&newer), 3), Err(Error::Unsupported(_))));
        }
        let mut extended = body.to_vec();
        extended[48] += 1;
        extended.extend_from_slice(&[99, 0, 0, 0, 2, 0, 0, 0, 5, 5]);
        assert_eq!(Root::parse(&sealed(&extended), 3).unwrap(), sample());
    }
}
