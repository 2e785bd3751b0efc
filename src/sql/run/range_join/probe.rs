//! The rows of the right side, one batch after the other, and those of the left side that they are
//! joined to.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::SchemaRef;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{JoinSide, exec_err, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;

use super::bounds::Ranges;
use super::index::{Index, Search};
use crate::sql::functions::key_numbers::KeysAsNumbers;

/// The left side.
#[derive(Debug)]
pub(super) struct Left {
    rows: RecordBatch,
    index: Index,
    /// Given back with the rows.
    _memory: MemoryReservation,
}

impl Left {
    /// Collects all rows, and puts them in order.
    pub(super) async fn collected(
        mut rows: SendableRecordBatchStream,
        ranges: &Ranges,
        memory: MemoryReservation,
    ) -> DataFusionResult<Left> {
        let (schema, mut batches) = (rows.schema(), Vec::new());
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            memory.try_grow(Left::bytes_of(&batch))?;
            batches.push(batch);
        }
        Left::of(&schema, &batches, ranges, memory)
    }

    /// The bytes that rows take: as they come, in one piece, and in the index.
    pub(super) fn bytes_of(rows: &RecordBatch) -> usize {
        // The buffers of a batch from a file are parts of one, which counts once.
        2 * get_record_batch_memory_size(rows) + rows.num_rows() * Index::BYTES_OF_ROW
    }

    /// Puts rows in order.
    pub(super) fn of(
        schema: &SchemaRef,
        batches: &[RecordBatch],
        ranges: &Ranges,
        memory: MemoryReservation,
    ) -> DataFusionResult<Left> {
        let rows = arrow_select::concat::concat_batches(schema, batches)?;
        if u32::try_from(rows.num_rows()).is_err() {
            return exec_err!("the left side of a join by ranges has more than 2^32 rows");
        }
        let index = match ranges.points_left {
            true => Index::of_points(numbers(&ranges.point, &rows, ranges)?.known().collect()),
            false => {
                let (low, high) =
                    (numbers(&ranges.low, &rows, ranges)?, numbers(&ranges.high, &rows, ranges)?);
                let both = low.all().zip(high.all()).zip(0..);
                let known = both.filter_map(|((low, high), row)| Some((low?, high?, row)));
                Index::of_ranges(known.collect())
            }
        };
        Ok(Left { rows, index, _memory: memory })
    }
}

/// The keys of rows, and which of them are null.
struct KeysOfRows {
    numbers: Vec<u128>,
    array: ArrayRef,
}

fn numbers(
    key: &PhysicalExprRef,
    rows: &RecordBatch,
    ranges: &Ranges,
) -> DataFusionResult<KeysOfRows> {
    let Some(keys) = KeysAsNumbers::ascending(&ranges.data_type) else {
        return internal_err!("keys of {} are no numbers", ranges.data_type);
    };
    let array = key.evaluate(rows)?.into_array(rows.num_rows())?;
    Ok(KeysOfRows { numbers: keys.encode(&array)?, array })
}

impl KeysOfRows {
    fn get(&self, row: usize) -> Option<u128> {
        self.numbers.get(row).copied().filter(|_| self.array.is_valid(row))
    }

    fn all(&self) -> impl Iterator<Item = Option<u128>> + '_ {
        (0..self.numbers.len()).map(|row| self.get(row))
    }

    fn known(&self) -> impl Iterator<Item = (u128, u32)> + '_ {
        self.all().zip(0..).filter_map(|(key, row)| Some((key?, row)))
    }
}

/// A batch of the right side, and the row that is looked for.
struct Right {
    rows: RecordBatch,
    /// Where the range of a row begins and where it ends: at its point, if it has one.
    lows: KeysOfRows,
    highs: Option<KeysOfRows>,
    row: usize,
    search: Option<Search>,
}

/// What joins the rows of one partition of the right side.
pub(super) struct Probe {
    left: Arc<Left>,
    right: SendableRecordBatchStream,
    ranges: Ranges,
    filter: JoinFilter,
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    /// How many pairs of rows are tested at once.
    size: usize,
    batch: Option<Right>,
}

impl Probe {
    pub(super) fn new(
        left: Arc<Left>,
        right: SendableRecordBatchStream,
        ranges: Ranges,
        filter: JoinFilter,
        schema: SchemaRef,
        projection: Option<Vec<usize>>,
        size: usize,
    ) -> Probe {
        Probe { left, right, ranges, filter, schema, projection, size, batch: None }
    }

    /// The next rows, if there are any.
    pub(super) async fn next(
        &mut self,
        metrics: &BaselineMetrics,
    ) -> DataFusionResult<Option<RecordBatch>> {
        loop {
            let right = match self.batch.take() {
                Some(right) => right,
                None => match self.right.next().await {
                    Some(rows) => self.opened(rows?)?,
                    None => return Ok(None),
                },
            };
            let _timer = metrics.elapsed_compute().timer();
            let (joined, right) = self.joined(right)?;
            self.batch = right;
            if joined.num_rows() > 0 {
                return Ok(Some(joined));
            }
        }
    }

    fn opened(&self, rows: RecordBatch) -> DataFusionResult<Right> {
        let (lows, highs) = match self.ranges.points_left {
            true => (&self.ranges.low, Some(&self.ranges.high)),
            false => (&self.ranges.point, None),
        };
        let of = |key| numbers(key, &rows, &self.ranges);
        let (lows, highs) = (of(lows)?, highs.map(of).transpose()?);
        Ok(Right { rows, lows, highs, row: 0, search: None })
    }

    /// The next pairs of a batch that meet the condition, and the rest of the batch.
    fn joined(&self, mut right: Right) -> DataFusionResult<(RecordBatch, Option<Right>)> {
        let (mut left_rows, mut right_rows) = (Vec::new(), Vec::new());
        while left_rows.len() < self.size && right.row < right.rows.num_rows() {
            let Some(search) = &mut right.search else {
                let low = right.lows.get(right.row);
                let high = right.highs.as_ref().map_or(low, |highs| highs.get(right.row));
                match low.zip(high) {
                    Some((low, high)) => right.search = Some(self.left.index.search(low, high)),
                    None => right.row += 1,
                }
                continue;
            };
            match self.left.index.next(search) {
                Some(row) => {
                    left_rows.push(row);
                    right_rows.push(right.row as u32);
                }
                None => (right.search, right.row) = (None, right.row + 1),
            }
        }
        let pairs = (UInt32Array::from(left_rows), UInt32Array::from(right_rows));
        let joined = self.passing(&right.rows, pairs)?;
        let is_open = right.row < right.rows.num_rows();
        Ok((joined, is_open.then_some(right)))
    }

    /// The rows of those pairs that meet the condition.
    fn passing(
        &self,
        right: &RecordBatch,
        pairs: (UInt32Array, UInt32Array),
    ) -> DataFusionResult<RecordBatch> {
        let take = |side: JoinSide, column: usize, pairs: &(UInt32Array, UInt32Array)| {
            let (rows, at) = match side {
                JoinSide::Left => (&self.left.rows, &pairs.0),
                JoinSide::Right | JoinSide::None => (right, &pairs.1),
            };
            arrow_select::take::take(rows.column(column), at, None)
        };
        let of_condition = self.filter.column_indices().iter();
        let columns = of_condition.map(|known| take(known.side, known.index, &pairs));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.0.len()));
        let schema = Arc::clone(self.filter.schema());
        let tested = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let passes = self.filter.expression().evaluate(&tested)?.into_array(pairs.0.len())?;
        let passes = passes.as_boolean();
        let filter = |rows: &UInt32Array| -> DataFusionResult<UInt32Array> {
            Ok(arrow_select::filter::filter(rows, passes)?.as_primitive().clone())
        };
        let pairs = (filter(&pairs.0)?, filter(&pairs.1)?);
        let of_left = self.left.rows.num_columns();
        let all = 0..of_left + right.num_columns();
        let chosen = self.projection.clone().unwrap_or_else(|| all.collect());
        let columns = chosen.into_iter().map(|column| match column.checked_sub(of_left) {
            None => take(JoinSide::Left, column, &pairs),
            Some(column) => take(JoinSide::Right, column, &pairs),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.0.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
