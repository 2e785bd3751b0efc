//! Rows on their way into the segments of many partitions.
//!
//! Batches wait as they came, each row with the number of its partition, until they hold as many
//! bytes as may wait. Then the partitions with most rows are cut into segments until half of the
//! room is free; the rows of the others are copied together and wait on. So memory is bounded
//! however many partitions there are, none has a file or a buffer of its own, and a partition that
//! gets few rows at a time still gets segments as large as the room allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_select::interleave::interleave;
use rayon::prelude::*;

use super::columns::{SegmentLimits, join, stored_type, value_bytes, widened};
use crate::block::null_array;
use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType};
use crate::segment::writer::{InputColumn, SegmentInput};

/// A column of all that waits: an array for each batch, of one type.
type Unified = Vec<(ColumnId, DataType, Vec<ArrayRef>)>;

/// What is kept of each row beside its values: its partition, and where it is while it is cut.
const ROW_BYTES: usize = 36;

/// Texts in buffers that hold nothing else.
fn own_texts(array: &ArrayRef) -> ArrayRef {
    if let Some(views) = array.as_string_view_opt() {
        return Arc::new(views.gc());
    }
    match array.as_binary_view_opt() {
        Some(views) => Arc::new(views.gc()),
        None => Arc::clone(array),
    }
}

/// Rows that wait.
#[derive(Debug)]
pub struct PartitionedRows {
    limits: SegmentLimits,
    /// Bytes of values that may wait.
    room: usize,
    waiting: Vec<Waiting>,
    bytes: usize,
    /// Rows of each partition.
    rows: Vec<usize>,
}

#[derive(Debug)]
struct Waiting {
    columns: Vec<(ColumnId, Arc<str>, ArrayRef)>,
    partitions: Vec<u32>,
}

impl PartitionedRows {
    /// Nothing waits yet; `room` is bytes of values.
    pub fn new(limits: SegmentLimits, room: usize) -> Self {
        PartitionedRows { limits, room, waiting: Vec::new(), bytes: 0, rows: Vec::new() }
    }

    /// Adds a batch, in layouts that `columns::readable` leaves as they are, whose columns have
    /// these ids and whose rows are in these partitions. Says whether it is time to
    /// [`PartitionedRows::cut`].
    pub fn push(&mut self, batch: &RecordBatch, ids: &[ColumnId], partitions: Vec<u32>) -> bool {
        for number in &partitions {
            let at = *number as usize;
            if at >= self.rows.len() {
                self.rows.resize(at + 1, 0);
            }
            if let Some(rows) = self.rows.get_mut(at) {
                *rows += 1;
            }
        }
        self.bytes +=
            batch.columns().iter().map(value_bytes).sum::<usize>() + partitions.len() * ROW_BYTES;
        let fields = batch.schema_ref().fields().iter();
        let columns = fields.zip(ids).zip(batch.columns());
        let columns = columns
            .map(|((field, id), array)| (*id, Arc::from(field.name().as_str()), Arc::clone(array)));
        self.waiting.push(Waiting { columns: columns.collect(), partitions });
        self.bytes >= self.room
    }

    /// Takes out segments: all rows, or at least half of what waits. `sink` gets them in groups
    /// that are about as large as one full segment.
    pub fn cut(&mut self, all: bool, sink: &mut dyn FnMut(Cut) -> Result<()>) -> Result<()> {
        let total: usize = self.rows.iter().sum();
        if total == 0 {
            return Ok(());
        }
        let row_bytes = (self.bytes / total).max(1);
        let full = self.limits.rows.min(self.limits.bytes / row_bytes).max(1);
        let chosen = self.choose(all, full, total, self.room / 2 / row_bytes);
        let mut places: Vec<Vec<(usize, usize)>> =
            chosen.iter().map(|rows| Vec::with_capacity(*rows)).collect();
        let mut left = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate() {
            for (row, partition) in waiting.partitions.iter().enumerate() {
                let partition = *partition as usize;
                match (places.get_mut(partition), chosen.get(partition)) {
                    (Some(places), Some(chosen)) if places.len() < *chosen => {
                        places.push((at, row))
                    }
                    _ => left.push((at, row)),
                }
            }
        }
        let columns = Arc::new(self.unified()?);
        let start = || Cut {
            columns: Arc::clone(&columns),
            block_rows: self.limits.block_rows,
            rows: vec![],
            segments: vec![],
        };
        let mut group = start();
        for (partition, places) in places.iter().enumerate() {
            for rows in places.chunks(full) {
                if !group.rows.is_empty() && group.rows.len() + rows.len() > full {
                    sink(std::mem::replace(&mut group, start()))?;
                }
                group.rows.extend_from_slice(rows);
                group.segments.push((partition as u32, rows.len()));
            }
        }
        if !group.rows.is_empty() {
            sink(group)?;
        }
        self.keep(&left, &columns)
    }

    /// How many rows of each partition to cut: of `total`, so that at most `most` wait on.
    fn choose(&self, all: bool, full: usize, total: usize, most: usize) -> Vec<usize> {
        if all {
            return self.rows.clone();
        }
        // Whole segments first; then the partitions with most rows.
        let mut chosen: Vec<usize> = self.rows.iter().map(|rows| rows / full * full).collect();
        let mut left = total - chosen.iter().sum::<usize>();
        let rest = |chosen: &[usize], at: usize| {
            self.rows.get(at).copied().unwrap_or(0) - chosen.get(at).copied().unwrap_or(0)
        };
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(rest(&chosen, *at)), *at));
        for at in order {
            if left <= most {
                break;
            }
            left -= rest(&chosen, at);
            if let (Some(chosen), Some(rows)) = (chosen.get_mut(at), self.rows.get(at)) {
                *chosen = *rows;
            }
        }
        chosen
    }

    /// Every column of what waits under one type, an array for each batch.
    fn unified(&self) -> Result<Unified> {
        let mut types: BTreeMap<ColumnId, (Arc<str>, DataType)> = BTreeMap::new();
        for (id, name, array) in self.waiting.iter().flat_map(|waiting| &waiting.columns) {
            let new = stored_type(name, array)?;
            let (_, known) = types.entry(*id).or_insert_with(|| (Arc::clone(name), DataType::Null));
            *known = join(name, known, &new)?;
        }
        let mut columns = Vec::with_capacity(types.len());
        for (id, (name, data_type)) in types {
            let mut arrays = Vec::with_capacity(self.waiting.len());
            for waiting in &self.waiting {
                let found = waiting.columns.iter().find(|(known, ..)| *known == id);
                arrays.push(match found {
                    Some((.., array)) => widened(&name, array, &data_type)?,
                    None => null_array(waiting.partitions.len(), &data_type),
                });
            }
            let layout = arrays.first().map(|array| array.data_type().clone());
            if arrays.iter().any(|array| Some(array.data_type()) != layout.as_ref()) {
                let to = data_type.to_arrow();
                for array in &mut arrays {
                    *array = arrow_cast::cast(array, &to).map_err(failed)?;
                }
            }
            columns.push((id, data_type, arrays));
        }
        Ok(columns)
    }

    /// Copies the rows that wait on out of the batches, which hold many more.
    fn keep(&mut self, left: &[(usize, usize)], columns: &Unified) -> Result<()> {
        let partition = |(at, row): &(usize, usize)| {
            self.waiting
                .get(*at)
                .and_then(|waiting| waiting.partitions.get(*row))
                .copied()
                .unwrap_or(0)
        };
        let partitions: Vec<u32> = left.iter().map(partition).collect();
        self.rows.fill(0);
        for number in &partitions {
            if let Some(rows) = self.rows.get_mut(*number as usize) {
                *rows += 1;
            }
        }
        let mut names: BTreeMap<ColumnId, Arc<str>> = BTreeMap::new();
        for (id, name, _) in self.waiting.iter().flat_map(|waiting| &waiting.columns) {
            names.entry(*id).or_insert_with(|| Arc::clone(name));
        }
        let gathered =
            columns.iter().filter(|_| !left.is_empty()).map(|column| gather(column, left));
        let mut gathered = gathered.collect::<Result<Vec<_>>>()?;
        // Views would hold on to the texts of all rows.
        gathered.iter_mut().for_each(|(.., array)| *array = own_texts(array));
        self.waiting.clear();
        self.bytes = gathered.iter().map(|(.., array)| value_bytes(array)).sum::<usize>()
            + left.len() * ROW_BYTES;
        if !left.is_empty() {
            let name = |id| names.get(&id).cloned().unwrap_or_else(|| Arc::from(""));
            let columns =
                gathered.into_iter().map(|(id, _, array)| (id, name(id), array)).collect();
            self.waiting.push(Waiting { columns, partitions });
        }
        Ok(())
    }
}

/// The rows of some segments, still where they waited.
#[derive(Debug)]
pub struct Cut {
    columns: Arc<Unified>,
    block_rows: usize,
    /// By batch and row.
    rows: Vec<(usize, usize)>,
    /// How many of them are whose.
    segments: Vec<(u32, usize)>,
}

impl Cut {
    /// The partition of each segment, in order.
    pub fn partitions(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|(partition, _)| *partition)
    }

    /// Copies the rows out, in parallel on the current rayon pool: the segments, each with its
    /// partition.
    pub fn gather(self) -> Result<Vec<(u32, SegmentInput)>> {
        let gathered = self
            .columns
            .par_iter()
            .map(|column| gather(column, &self.rows))
            .collect::<Result<Vec<_>>>()?;
        let mut start = 0;
        let mut cut = Vec::with_capacity(self.segments.len());
        for (partition, rows) in self.segments {
            let column = |(id, data_type, array): &(ColumnId, DataType, ArrayRef)| InputColumn {
                id: *id,
                data_type: data_type.clone(),
                arrays: vec![array.slice(start, rows)],
            };
            let columns = gathered.iter().map(column).collect();
            cut.push((partition, SegmentInput { rows, block_rows: self.block_rows, columns }));
            start += rows;
        }
        Ok(cut)
    }
}

/// The values of rows, given by batch and row, in order.
fn gather(
    (id, data_type, arrays): &(ColumnId, DataType, Vec<ArrayRef>),
    rows: &[(usize, usize)],
) -> Result<(ColumnId, DataType, ArrayRef)> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    Ok((*id, data_type.clone(), interleave(&arrays, rows).map_err(failed)?))
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::InvalidInput(format!("rows could not be brought into their partitions: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Int32Array, Int64Array, StringArray};

    use super::*;

    const LIMITS: SegmentLimits = SegmentLimits { rows: 100, bytes: 1 << 20, block_rows: 1024 };

    /// What comes out: partition, rows, first value, sorted by partition; every row is checked to
    /// be where it belongs.
    fn collect(cut: Cut, out: &mut Vec<(u32, Vec<i64>)>) -> Result<()> {
        for (partition, input) in cut.gather().unwrap() {
            // Before the type widened, it is narrow.
            let ids = arrow_cast::cast(&input.columns[0].arrays[0], &arrow_schema::DataType::Int64)
                .unwrap();
            let ids: Vec<i64> = ids.as_primitive::<Int64Type>().values().to_vec();
            assert_eq!(ids.len(), input.rows);
            out.push((partition, ids));
        }
        Ok(())
    }

    #[test]
    fn every_row_comes_out_once_in_its_partition_and_in_order() {
        for (room, partitions) in [(1_000, 3u32), (20_000, 3), (20_000, 500), (1 << 30, 7)] {
            let mut rows = PartitionedRows::new(LIMITS, room);
            let (mut out, mut pushed, mut most_waiting) = (Vec::new(), Vec::new(), 0);
            for batch in 0..40i64 {
                let values: Vec<i64> = (batch * 50..batch * 50 + 50).collect();
                let of: Vec<u32> =
                    values.iter().map(|v| (*v * v % 7919) as u32 % partitions).collect();
                // The type widens on the way, and a column comes and goes.
                let ids: ArrayRef = match batch {
                    0..10 => Arc::new(values.iter().map(|v| *v as i32).collect::<Int32Array>()),
                    _ => Arc::new(Int64Array::from(values.clone())),
                };
                let text: ArrayRef =
                    Arc::new(StringArray::from_iter_values(values.iter().map(|v| v.to_string())));
                let (columns, numbers) = match batch % 2 {
                    0 => (vec![("id", ids)], vec![ColumnId(0)]),
                    _ => (vec![("text", text), ("id", ids)], vec![ColumnId(1), ColumnId(0)]),
                };
                pushed.extend(of.iter().copied().zip(values));
                let record = RecordBatch::try_from_iter(columns).unwrap();
                if rows.push(&record, &numbers, of) {
                    rows.cut(false, &mut |cut| collect(cut, &mut out)).unwrap();
                }
                most_waiting = most_waiting.max(rows.bytes);
            }
            rows.cut(true, &mut |cut| collect(cut, &mut out)).unwrap();
            assert!(rows.waiting.is_empty() && rows.bytes == 0);
            // A text that was missing in some batches becomes views, which take more room.
            assert!(most_waiting < room / 4 * 5 + 1_000, "{most_waiting} of {room}");
            for partition in 0..partitions {
                let found: Vec<i64> = out
                    .iter()
                    .filter(|(p, _)| *p == partition)
                    .flat_map(|(_, ids)| ids.clone())
                    .collect();
                let expected: Vec<i64> =
                    pushed.iter().filter(|(p, _)| *p == partition).map(|(_, id)| *id).collect();
                assert_eq!(found, expected, "room {room}, partition {partition}");
            }
            assert!(out.iter().all(|(_, ids)| ids.len() <= 100));
        }
    }
}
