//! Buffers rows for the segments of many partitions.
//!
//! Batches are kept as they arrive, with a partition number for each row, until they reach the
//! memory budget. Then the partitions with most rows are cut into segments until half of the budget
//! is free; the remaining rows are copied together and stay. So memory is bounded whatever the
//! number of partitions, no partition needs a file or a buffer of its own, and a partition that
//! receives few rows at a time still gets segments as large as the budget allows.
//!
//! Ten thousand partitions cost no buffers, no open files, and one `syncfs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, FieldRef};
use arrow_select::interleave::interleave;
use rayon::prelude::*;

use super::columns::{SegmentLimits, VECTOR_BYTES, join, stored_type, value_bytes, widened};
use crate::block::null_array;
use crate::error::{ArrowResult, Result};
use crate::limits::VECTOR;
use crate::model::{ColumnId, DataType};
use crate::segment::writer::{InputColumn, SegmentInput};

/// All buffered columns, each as one array per batch, all of one type.
type UnifiedColumns = Vec<(ColumnId, DataType, Vec<ArrayRef>)>;

/// Bookkeeping per row: its partition, and its location while segments are cut.
const ROW_BYTES: usize = 36;
/// What an error of Arrow says about rows.
const UNDIVIDED: &str = "rows could not be divided among partitions";

/// Copies views into buffers that hold nothing else.
fn own_texts(array: &ArrayRef) -> ArrayRef {
    if let Some(views) = array.as_string_view_opt() {
        return Arc::new(views.gc());
    }
    match array.as_binary_view_opt() {
        Some(views) => Arc::new(views.gc()),
        None => Arc::clone(array),
    }
}

/// The buffered rows.
#[derive(Debug)]
pub(crate) struct PartitionedRows {
    limits: SegmentLimits,
    /// Budget for the bytes of values.
    max_bytes: usize,
    waiting: Vec<WaitingBatch>,
    bytes: usize,
    /// Rows of each partition.
    rows: Vec<usize>,
}

#[derive(Debug)]
struct WaitingBatch {
    columns: Vec<(ColumnId, FieldRef, ArrayRef)>,
    partitions: Vec<u32>,
}

impl PartitionedRows {
    /// An empty buffer with a budget of `max_bytes` bytes of values.
    pub(crate) fn new(limits: SegmentLimits, max_bytes: usize) -> Self {
        PartitionedRows { limits, max_bytes, waiting: Vec::new(), bytes: 0, rows: Vec::new() }
    }

    /// Adds a batch in stored layouts (`columns::to_stored_layouts`), with the ids of its columns
    /// and the partitions of its rows. Returns whether it is time to [`PartitionedRows::cut`].
    pub(crate) fn push(
        &mut self,
        batch: &RecordBatch,
        ids: &[ColumnId],
        partitions: Vec<u32>,
    ) -> bool {
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
        let columns =
            columns.map(|((field, id), array)| (*id, Arc::clone(field), Arc::clone(array)));
        self.waiting.push(WaitingBatch { columns: columns.collect(), partitions });
        self.bytes >= self.max_bytes
    }

    /// Cuts segments from all rows, or from at least half of the buffered bytes. `sink` receives
    /// them in groups of about one full segment.
    pub(crate) fn cut(
        &mut self,
        all: bool,
        sink: &mut dyn FnMut(PendingSegments) -> Result<()>,
    ) -> Result<()> {
        let total: usize = self.rows.iter().sum();
        if total == 0 {
            return Ok(());
        }
        let row_bytes = (self.bytes / total).max(1);
        // A segment of less than a vector is read as a whole.
        let is_vector = self.limits.bytes / row_bytes < VECTOR;
        let bytes = self.limits.bytes.min(if is_vector { VECTOR_BYTES } else { usize::MAX });
        let full = self.limits.rows.min(bytes / row_bytes).max(1);
        let chosen = self.choose(all, full, total, self.max_bytes / 2 / row_bytes);
        let mut locations: Vec<Vec<(usize, usize)>> =
            chosen.iter().map(|rows| Vec::with_capacity(*rows)).collect();
        let mut left = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate() {
            for (row, partition) in waiting.partitions.iter().enumerate() {
                let partition = *partition as usize;
                match (locations.get_mut(partition), chosen.get(partition)) {
                    (Some(locations), Some(chosen)) if locations.len() < *chosen => {
                        locations.push((at, row))
                    }
                    _ => left.push((at, row)),
                }
            }
        }
        let columns = Arc::new(self.unified_columns()?);
        let start = || PendingSegments {
            columns: Arc::clone(&columns),
            block_rows: self.limits.block_rows,
            rows: vec![],
            segments: vec![],
        };
        let mut group = start();
        for (partition, locations) in locations.iter().enumerate() {
            for rows in locations.chunks(full) {
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
        self.retain(&left, &columns)
    }

    /// How many rows of each partition to cut, so that at most `max_waiting` of `total` rows stay.
    fn choose(&self, all: bool, full: usize, total: usize, max_waiting: usize) -> Vec<usize> {
        if all {
            return self.rows.clone();
        }
        // Whole segments first; then the partitions with most rows.
        let mut chosen: Vec<usize> = self.rows.iter().map(|rows| rows / full * full).collect();
        let mut left = total - chosen.iter().sum::<usize>();
        let uncut = |chosen: &[usize], at: usize| {
            self.rows.get(at).copied().unwrap_or(0) - chosen.get(at).copied().unwrap_or(0)
        };
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(uncut(&chosen, *at)), *at));
        for at in order {
            if left <= max_waiting {
                break;
            }
            left -= uncut(&chosen, at);
            if let (Some(chosen), Some(rows)) = (chosen.get_mut(at), self.rows.get(at)) {
                *chosen = *rows;
            }
        }
        chosen
    }

    /// Every buffered column under one type, an array for each batch.
    fn unified_columns(&self) -> Result<UnifiedColumns> {
        let mut types: BTreeMap<ColumnId, (&str, DataType)> = BTreeMap::new();
        for (id, field, _) in self.waiting.iter().flat_map(|waiting| &waiting.columns) {
            let new = stored_type(field)?;
            let (_, known) = types.entry(*id).or_insert((field.name(), DataType::Null));
            *known = join(field.name(), known, &new)?;
        }
        let mut columns = Vec::with_capacity(types.len());
        for (id, (name, data_type)) in types {
            let mut arrays = Vec::with_capacity(self.waiting.len());
            for waiting in &self.waiting {
                let found = waiting.columns.iter().find(|(known, ..)| *known == id);
                arrays.push(match found {
                    Some((.., array)) => widened(name, array, &data_type)?,
                    None => null_array(waiting.partitions.len(), &data_type),
                });
            }
            let layout = arrays.first().map(|array| array.data_type().clone());
            if arrays.iter().any(|array| Some(array.data_type()) != layout.as_ref()) {
                let to = data_type.to_arrow();
                for array in &mut arrays {
                    *array = arrow_cast::cast(array, &to).or_invalid_with(UNDIVIDED)?;
                }
            }
            columns.push((id, data_type, arrays));
        }
        Ok(columns)
    }

    /// Copies the remaining rows out of the batches, which hold many more.
    fn retain(&mut self, remaining: &[(usize, usize)], columns: &UnifiedColumns) -> Result<()> {
        let partition = |(at, row): &(usize, usize)| {
            self.waiting
                .get(*at)
                .and_then(|waiting| waiting.partitions.get(*row))
                .copied()
                .unwrap_or(0)
        };
        let partitions: Vec<u32> = remaining.iter().map(partition).collect();
        self.rows.fill(0);
        for number in &partitions {
            if let Some(rows) = self.rows.get_mut(*number as usize) {
                *rows += 1;
            }
        }
        let mut names: BTreeMap<ColumnId, String> = BTreeMap::new();
        for (id, field, _) in self.waiting.iter().flat_map(|waiting| &waiting.columns) {
            names.entry(*id).or_insert_with(|| field.name().clone());
        }
        let gathered = columns
            .iter()
            .filter(|_| !remaining.is_empty())
            .map(|column| gather(column, remaining));
        let mut gathered = gathered.collect::<Result<Vec<_>>>()?;
        // Views would keep the texts of all rows alive.
        gathered.iter_mut().for_each(|(.., array)| *array = own_texts(array));
        self.waiting.clear();
        self.bytes = gathered.iter().map(|(.., array)| value_bytes(array)).sum::<usize>()
            + remaining.len() * ROW_BYTES;
        if !remaining.is_empty() {
            let column = |(id, data_type, array): (ColumnId, DataType, ArrayRef)| {
                let name = names.get(&id).map_or("", String::as_str);
                let field = Field::new(name, array.data_type().clone(), true);
                (id, Arc::new(data_type.marked(field)), array)
            };
            let columns = gathered.into_iter().map(column).collect();
            self.waiting.push(WaitingBatch { columns, partitions });
        }
        Ok(())
    }
}

/// Segments to be built, given by the locations of their rows in the buffered batches.
#[derive(Debug)]
pub(crate) struct PendingSegments {
    columns: Arc<UnifiedColumns>,
    block_rows: usize,
    /// Locations, as (batch, row).
    rows: Vec<(usize, usize)>,
    /// Partition and row count of each segment.
    segments: Vec<(u32, usize)>,
}

impl PendingSegments {
    /// The partition of each segment, in order.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|(partition, _)| *partition)
    }

    /// Copies the rows out, in parallel on the current rayon pool. Returns the segments with their
    /// partitions.
    pub(crate) fn gather(self) -> Result<Vec<(u32, SegmentInput)>> {
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

/// The values at `rows`, given as (batch, row), in order.
fn gather(
    (id, data_type, arrays): &(ColumnId, DataType, Vec<ArrayRef>),
    rows: &[(usize, usize)],
) -> Result<(ColumnId, DataType, ArrayRef)> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    Ok((*id, data_type.clone(), interleave(&arrays, rows).or_invalid_with(UNDIVIDED)?))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Int32Array, Int64Array, StringArray};

    use super::*;

    const LIMITS: SegmentLimits = SegmentLimits { rows: 100, bytes: 1 << 20, block_rows: 1024 };

    /// Collects partition and ids of each segment.
    fn collect(cut: PendingSegments, out: &mut Vec<(u32, Vec<i64>)>) -> Result<()> {
        for (partition, input) in cut.gather().unwrap() {
            // The type is narrow until it is widened.
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
        for (max_bytes, partitions) in [(1_000, 3u32), (20_000, 3), (20_000, 500), (1 << 30, 7)] {
            let mut rows = PartitionedRows::new(LIMITS, max_bytes);
            let (mut out, mut pushed, mut most_waiting) = (Vec::new(), Vec::new(), 0);
            for batch in 0..40i64 {
                let values: Vec<i64> = (batch * 50..batch * 50 + 50).collect();
                let of: Vec<u32> =
                    values.iter().map(|v| (*v * v % 7919) as u32 % partitions).collect();
                // The type of a column widens, and another column comes and goes.
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
            // A text column that some batches lack becomes views, which take more memory.
            assert!(most_waiting < max_bytes / 4 * 5 + 1_000, "{most_waiting} of {max_bytes}");
            for partition in 0..partitions {
                let found: Vec<i64> = out
                    .iter()
                    .filter(|(p, _)| *p == partition)
                    .flat_map(|(_, ids)| ids.clone())
                    .collect();
                let expected: Vec<i64> =
                    pushed.iter().filter(|(p, _)| *p == partition).map(|(_, id)| *id).collect();
                assert_eq!(found, expected, "budget {max_bytes}, partition {partition}");
            }
            assert!(out.iter().all(|(_, ids)| ids.len() <= 100));
        }
    }
}
