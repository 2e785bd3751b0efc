//! The stored form of a table's arrangement in a root.
//!
//! ```text
//! partition keys u32 · { name · expression · type · columns u32 · { name · id u32 }… }…
//! sort keys u32 · { column id u32 · flags u8: 1 descending, 2 nulls first }…
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use crate::bytes::{Cursor, Writer};
use crate::error::Result;
use crate::limits;
use crate::model::stored::{read_type, write_type};
use crate::model::{Arrangement, ColumnId, PartitionKey, Schema, SortKey};

const DESCENDING: u8 = 1;
const NULLS_FIRST: u8 = 2;

pub(super) fn encode(arrangement: &Arrangement) -> Writer {
    let mut out = Writer::new();
    out.count(arrangement.partition_by.len());
    for key in &arrangement.partition_by {
        out.blob(key.name.as_bytes());
        out.blob(key.expression.as_bytes());
        write_type(&key.data_type, &mut out);
        out.count(key.columns.len());
        for (name, id) in &key.columns {
            out.blob(name.as_bytes());
            out.u32(id.0);
        }
    }
    out.count(arrangement.sort_by.len());
    for key in &arrangement.sort_by {
        out.u32(key.column.0);
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.u8(flag(key.descending, DESCENDING) | flag(key.nulls_first, NULLS_FIRST));
    }
    out
}

/// Reads the stored form; refuses columns that are not in the schema.
pub(super) fn parse(payload: &[u8], schema: &Schema) -> Result<Arrangement> {
    let mut cursor = Cursor::new(payload);
    let ids: HashSet<ColumnId> = schema.columns().iter().map(|column| column.id).collect();
    let known = |id: u32, cursor: &Cursor<'_>| {
        if ids.contains(&ColumnId(id)) {
            return Ok(ColumnId(id));
        }
        Err(cursor
            .corrupt(format!("rows are arranged by column {id}, which the table does not have")))
    };
    let mut partition_by = Vec::new();
    for _ in 0..cursor.count(9, limits::MAX_PARTITION_KEYS)? {
        let name = Arc::from(cursor.text(limits::MAX_NAME_BYTES)?);
        let expression = Arc::from(cursor.text(limits::MAX_EXPRESSION_BYTES)?);
        let data_type = read_type(&mut cursor)?;
        let mut columns = Vec::new();
        for _ in 0..cursor.count(8, limits::MAX_EXPRESSION_COLUMNS)? {
            let name = Arc::from(cursor.text(limits::MAX_NAME_BYTES)?);
            columns.push((name, known(cursor.u32()?, &cursor)?));
        }
        partition_by.push(PartitionKey { name, expression, columns, data_type });
    }
    let mut sort_by = Vec::new();
    for _ in 0..cursor.count(5, limits::MAX_SORT_KEYS)? {
        let column = known(cursor.u32()?, &cursor)?;
        let flags = cursor.u8()?;
        if flags & !(DESCENDING | NULLS_FIRST) != 0 {
            return Err(cursor.corrupt(format!("flags {flags:#x} of a sort key")));
        }
        let (descending, nulls_first) = (flags & DESCENDING != 0, flags & NULLS_FIRST != 0);
        sort_by.push(SortKey { column, descending, nulls_first });
    }
    cursor.finish()?;
    Ok(Arrangement { partition_by, sort_by })
}
