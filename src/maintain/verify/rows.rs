//! Checks what needs several columns of each row: whether rows are in the order of the table's sort
//! keys, and whether they belong to the partition that their segment is in.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_row::{OwnedRow, RowConverter, SortField};
use arrow_schema::{Field, Schema as ArrowSchema, SortOptions};

use super::report::{Damage, DamageKind, VerifyOptions};
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::partition::Partitions;
use crate::limits::VECTOR;
use crate::model::{ColumnId, SortKey};
use crate::segment::{Column, Segment};
use crate::store::{SegmentEntry, Snapshot};

/// Rows decoded at a time.
const SLICE_ROWS: usize = 8 * VECTOR;

/// What was found; numbers of segments are filled in by the caller.
#[derive(Debug, Default)]
pub(super) struct CheckedRows {
    pub(super) wrong: Vec<Damage>,
    pub(super) unchecked: Vec<String>,
}

/// Checks the rows of a segment; at most one wrong row of each kind is named.
pub(super) fn check(
    snapshot: &Snapshot,
    options: &VerifyOptions,
    entry: &SegmentEntry,
    segment: &Segment,
) -> CheckedRows {
    let mut checked = CheckedRows::default();
    let arrangement = &snapshot.root().arrangement;
    if !arrangement.sort_by.is_empty() {
        let wrong = unsorted(segment, &arrangement.sort_by);
        let what = "rows are not in the table's sort order";
        checked.wrong.extend(named(snapshot, entry, wrong, DamageKind::Order, what));
    }
    if arrangement.partition_by.is_empty() {
        return checked;
    }
    match misplaced(snapshot, options, entry, segment) {
        // The expression needs a compiler that the caller does not have, or is not on the list of
        // what readers evaluate.
        Err(Error::NotFound(what) | Error::Unsupported(what) | Error::InvalidInput(what)) => {
            checked.unchecked.push(format!("partitions: {what}"));
        }
        wrong => {
            let what = format!("a row does not belong to partition '{}'", entry.partition);
            checked.wrong.extend(named(snapshot, entry, wrong, DamageKind::Partition, &what));
        }
    }
    checked
}

/// The damage for a wrong row and the column that shows it.
fn named(
    snapshot: &Snapshot,
    entry: &SegmentEntry,
    found: Result<Option<(u64, ColumnId, u64)>>,
    kind: DamageKind,
    what: &str,
) -> Option<Damage> {
    let damage = |error| Damage { kind, ..Damage::of_table(error) };
    match found {
        Ok(None) => None,
        Ok(Some((row, id, offset))) => {
            let columns = snapshot.schema().columns();
            let column = columns.iter().find(|column| column.id == id);
            let error = Error::corrupt(entry.offset.saturating_add(offset), what);
            Some(Damage {
                column: column.map(|column| Arc::clone(&column.name)),
                rows: Some(row..row + 1),
                ..damage(error.in_file(snapshot.path(entry), 0))
            })
        }
        Err(error) => {
            let error = error.in_file(snapshot.path(entry), entry.offset);
            Some(Damage::of_table(error))
        }
    }
}

/// The offset in the segment of the block that holds a row.
fn offset_of(column: &Column, segment: &Segment, row: u64) -> u64 {
    let block = (row / segment.block_rows().max(1)) as usize;
    column.record().blocks.get(block).map_or(0, |place| place.offset)
}

/// Calls `each` with the first row and the values of some columns, a few vectors at a time, until
/// it finds something.
fn find<T>(
    segment: &Segment,
    columns: &[Arc<Column>],
    mut each: impl FnMut(u64, Vec<ArrayRef>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    for b in 0..segment.blocks() {
        let range = segment.block_range(b);
        let rows = (range.end - range.start) as usize;
        let blocks = columns.iter().map(|column| column.block(b)).collect::<Result<Vec<_>>>()?;
        let (mut start, mut step) = (0, SLICE_ROWS);
        while start < rows {
            let slice = start..rows.min(start + step);
            let values = blocks.iter().map(|block| block.decode(slice.clone()));
            let values = match values.collect::<Result<Vec<_>>>() {
                Err(Error::LimitExceeded(_)) if slice.len() > VECTOR => {
                    step = (slice.len() / 2).next_multiple_of(VECTOR);
                    continue;
                }
                decoded => decoded?,
            };
            let found = each(range.start + start as u64, values)?;
            if found.is_some() {
                return Ok(found);
            }
            start = slice.end;
        }
    }
    Ok(None)
}

/// The first row that is out of order, and the most significant key. A key column that the segment
/// lacks is null in all rows, and does not affect the order.
fn unsorted(segment: &Segment, keys: &[SortKey]) -> Result<Option<(u64, ColumnId, u64)>> {
    let (mut columns, mut fields, mut first) = (Vec::new(), Vec::new(), None);
    for key in keys {
        let Some(column) = segment.column(key.column)? else { continue };
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        let arrow = column.data_type().to_arrow();
        fields.push(SortField::new_with_options(arrow, options));
        columns.push(column);
        first = first.or(Some(key.column));
    }
    let Some(id) = first else { return Ok(None) };
    let converter = RowConverter::new(fields).or_corrupt()?;
    let mut last: Option<OwnedRow> = None;
    let found = find(segment, &columns, |start, values| {
        let rows = converter.convert_columns(&values).or_corrupt()?;
        let count = rows.num_rows();
        let edge = last.as_ref().is_some_and(|last| count > 0 && last.row() > rows.row(0));
        last = count.checked_sub(1).map(|end| rows.row(end).owned());
        let inside = (1..count).find(|row| rows.row(row - 1) > rows.row(*row));
        Ok(edge.then_some(start).or(inside.map(|row| start + row as u64)))
    })?;
    Ok(found.zip(columns.first()).map(|(row, column)| (row, id, offset_of(column, segment, row))))
}

/// The first row that is not of the segment's partition, and a column of a key.
fn misplaced(
    snapshot: &Snapshot,
    options: &VerifyOptions,
    entry: &SegmentEntry,
    segment: &Segment,
) -> Result<Option<(u64, ColumnId, u64)>> {
    let (schema, keys) = (snapshot.schema(), &snapshot.root().arrangement.partition_by);
    let mut ids: Vec<ColumnId> =
        keys.iter().flat_map(|key| &key.columns).map(|(_, id)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut columns = Vec::with_capacity(ids.len());
    let mut stored = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(column) = segment.column(id)? {
            columns.push(column);
            stored.push(id);
        }
    }
    let mut partitions = Partitions::new(keys.clone(), Arc::clone(&options.compile));
    let fields = columns.iter().enumerate();
    let fields =
        fields.map(|(at, column)| Field::new(at.to_string(), column.data_type().to_arrow(), true));
    let arrow = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let mut wrong = |start: u64, values: Vec<ArrayRef>, rows: usize| {
        let with_rows = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&arrow), values, &with_rows);
        let numbers = partitions.number_rows(&batch.or_corrupt()?, &stored, schema)?;
        let other = numbers.iter().position(|number| partitions.path(*number) != entry.partition);
        Ok(other.map(|row| start + row as u64))
    };
    let found = match columns.is_empty() {
        // Every row has the value that the keys have of nulls.
        true => wrong(0, Vec::new(), segment.rows().min(1) as usize)?,
        false => find(segment, &columns, |start, values| {
            let rows = values.first().map_or(0, |values| values.len());
            wrong(start, values, rows)
        })?,
    };
    Ok(found.map(|row| {
        let offset = columns.first().map_or(0, |column| offset_of(column, segment, row));
        (row, stored.first().copied().unwrap_or(ColumnId(u32::MAX)), offset)
    }))
}
