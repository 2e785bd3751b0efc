//! The stored form of a root: reading.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::{
    ARRANGED, CHUNK_REF_BYTES, ChunkRef, History, MAGIC, MAX_BYTES, Root, SECTIONS, TABLE,
    TableOptions, WriteVolume,
};
use crate::bytes::Cursor;
use crate::encoding::Profile;
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::codec::{read_envelope, unseal};
use crate::manifest::{Id, Ledger, arrangement, layout};
use crate::model::stored::read_type;
use crate::model::{Column, ColumnId, Schema};

impl Root {
    /// Reads the stored form of `generation`.
    pub fn parse(bytes: &[u8], generation: u64) -> Result<Root> {
        let root = Root::parse_with_any_total(bytes, generation)?;
        root.check_total()?;
        Ok(root)
    }

    /// The same, but the number of rows may be wrong, for a repair.
    pub(in crate::manifest) fn parse_with_any_total(bytes: &[u8], generation: u64) -> Result<Root> {
        let mut cursor = Cursor::new(unseal(bytes)?);
        let may_read = read_envelope(MAGIC, "table root", &mut cursor)?;
        let found = cursor.u64()?;
        if found != generation {
            return Err(cursor.corrupt(format!(
                "the root of generation {found} is in place of generation {generation}"
            )));
        }
        let mut sections: [Option<&[u8]>; SECTIONS] = [None; SECTIONS];
        for _ in 0..cursor.count(8, limits::MAX_COLUMNS)? {
            let kind = cursor.u32()?;
            let payload = cursor.blob(MAX_BYTES as usize)?;
            let known = kind.checked_sub(TABLE).and_then(|at| sections.get_mut(at as usize));
            if known.is_some_and(|slot| slot.replace(payload).is_some()) {
                return Err(cursor.corrupt(format!("section {kind} occurs twice")));
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
            write_volume,
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
        let write_volume = write_volume.map(parse_traffic).transpose()?.unwrap_or_default();
        let chunks = parse_chunks(chunks)?;
        let unknown = may_read & !ARRANGED;
        Ok(Root {
            generation,
            table,
            schema,
            options,
            arrangement,
            history,
            ledger,
            write_volume,
            rows,
            chunks,
            unknown,
        })
    }

    /// Refuses a number of rows that is not the sum of the chunks' rows.
    pub(crate) fn check_total(&self) -> Result<()> {
        let counted = self.chunks.iter().try_fold(0u64, |sum, chunk| sum.checked_add(chunk.rows));
        if counted != Some(self.rows) {
            let rows = self.rows;
            let what = format!("the root has {rows} rows, but its chunks do not add up to that");
            return Err(Error::corrupt(0, what));
        }
        Ok(())
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

fn parse_traffic(payload: &[u8]) -> Result<WriteVolume> {
    let mut cursor = Cursor::new(payload);
    let write_volume = WriteVolume { loaded: cursor.u64()?, written: cursor.u64()? };
    cursor.finish()?;
    Ok(write_volume)
}

fn parse_required(payload: &[u8], schema: &mut Schema) -> Result<()> {
    let mut cursor = Cursor::new(payload);
    // They are in the order of the columns, so one pass over these finds all.
    let mut next = 0;
    for _ in 0..cursor.count(4, limits::MAX_COLUMNS)? {
        let id = ColumnId(cursor.u32()?);
        let found = schema.columns().iter().skip(next).position(|column| column.id == id);
        let Some(ahead) = found else {
            return Err(
                cursor.corrupt(format!("required column {} is unknown or out of order", id.0))
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
    let mut ids = HashSet::with_capacity(count);
    for _ in 0..count {
        let id = cursor.uuid()?;
        if !ids.insert(id) {
            // Its segments would be rows of the table once more for each time.
            return Err(cursor.corrupt(format!("chunk {} is listed twice", Uuid::from_bytes(id))));
        }
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

fn read_profile(cursor: &mut Cursor<'_>) -> Result<Profile> {
    match cursor.u8()? {
        0 => Ok(Profile::Fast),
        1 => Ok(Profile::Balanced),
        2 => Ok(Profile::Small),
        other => Err(Error::Unsupported(format!("profile number {other}, from a newer version?"))),
    }
}
