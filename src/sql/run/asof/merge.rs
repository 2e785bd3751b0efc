//! One pass over two ordered sides, which joins each row of the left one with the last row of the
//! right one that stands before it and has the same keys.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{Schema, SchemaRef, SortOptions};
use arrow_select::interleave::interleave;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::StreamExt;

use super::order::{Compared, KEY_ORDER};
use crate::error::Result;
use crate::sql::run::generate::Output;

/// So many batches of the right side are held for the rows of one batch of the left side.
const MOST_HELD: usize = 16;

/// Turns the compared columns of one side into bytes that have their order.
pub(super) struct Rank {
    columns: Vec<usize>,
    /// For the columns that are equal, if there are any.
    keys: Option<RowConverter>,
    /// For all columns.
    all: RowConverter,
}

/// A batch, and where its rows stand.
struct Ranked {
    rows: RecordBatch,
    keys: Option<Rows>,
    all: Rows,
    /// Where a compared value is null, so that nothing is joined.
    nulls: Option<NullBuffer>,
}

impl Rank {
    pub(super) fn new(
        schema: &Schema,
        compared: &Compared,
        last: SortOptions,
    ) -> DataFusionResult<Rank> {
        let field = |(at, column): (usize, &Column)| {
            let options = if at + 1 == compared.len() { last } else { KEY_ORDER };
            let data_type = schema.field(column.index()).data_type().clone();
            SortField::new_with_options(data_type, options)
        };
        let mut fields: Vec<SortField> = compared.iter().enumerate().map(field).collect();
        let all = RowConverter::new(fields.clone())?;
        fields.pop();
        let keys = (!fields.is_empty()).then(|| RowConverter::new(fields)).transpose()?;
        Ok(Rank { columns: compared.iter().map(Column::index).collect(), keys, all })
    }

    fn of(&self, rows: RecordBatch) -> DataFusionResult<Ranked> {
        let arrays: Vec<ArrayRef> =
            self.columns.iter().map(|column| Arc::clone(rows.column(*column))).collect();
        let all = self.all.convert_columns(&arrays)?;
        let of_keys = arrays.get(..arrays.len().saturating_sub(1)).unwrap_or_default();
        let keys = self.keys.as_ref().map(|keys| keys.convert_columns(of_keys)).transpose()?;
        let nulls = arrays.iter().fold(None, |nulls, array| {
            NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref())
        });
        Ok(Ranked { rows, keys, all, nulls })
    }
}

impl Ranked {
    fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// The bytes of the keys of a row; none if there are no keys.
    fn key(&self, row: usize) -> &[u8] {
        self.keys.as_ref().map_or(&[], |keys| keys.row(row).data())
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn bytes(&self) -> usize {
        self.all.size() + self.keys.as_ref().map_or(0, Rows::size)
    }
}

/// The right side, as far as it has been passed.
pub(super) struct Right {
    stream: SendableRecordBatchStream,
    rank: Rank,
    /// Batches that have been joined with rows that are not out yet, and the one that is passed.
    held: Vec<RecordBatch>,
    /// The last of them.
    current: Option<Ranked>,
    /// The next row of it.
    at: usize,
    is_over: bool,
    /// The last row that was passed: its batch among those held, and its place there.
    last: Option<(usize, usize)>,
    /// The bytes of its keys.
    last_key: Vec<u8>,
    memory: MemoryReservation,
}

impl Right {
    pub(super) fn new(
        stream: SendableRecordBatchStream,
        rank: Rank,
        memory: MemoryReservation,
    ) -> Right {
        let (held, current, last, last_key) = (Vec::new(), None, None, Vec::new());
        Right { stream, rank, held, current, at: 0, is_over: false, last, last_key, memory }
    }

    /// Passes the rows before one of the left side, or beside it, as far as they are here.
    /// Whether there may be more of them.
    fn pass(&mut self, left: &Ranked, row: usize, takes_equal: bool) -> bool {
        let Some(current) = &self.current else { return !self.is_over };
        let place = left.all.row(row);
        let start = self.at;
        while self.at < current.len() {
            let passed = current.all.row(self.at);
            if passed > place || passed == place && !takes_equal {
                break;
            }
            self.at += 1;
        }
        if self.at > start {
            self.last = Some((self.held.len() - 1, self.at - 1));
            self.last_key.clear();
            self.last_key.extend_from_slice(current.key(self.at - 1));
        }
        self.at == current.len() && !self.is_over
    }

    /// The last row that was passed, if it has the keys of one of the left side.
    fn found(&self, left: &Ranked, row: usize) -> Option<(usize, usize)> {
        self.last.filter(|_| !left.is_null(row) && self.last_key == left.key(row))
    }

    async fn next_batch(&mut self) -> DataFusionResult<()> {
        while let Some(rows) = self.stream.next().await {
            let rows = rows?;
            if rows.num_rows() == 0 {
                continue;
            }
            let ranked = self.rank.of(rows)?;
            self.held.push(ranked.rows.clone());
            self.at = 0;
            self.current = Some(ranked);
            return self.count();
        }
        self.is_over = true;
        Ok(())
    }

    fn count(&self) -> DataFusionResult<()> {
        let held: usize = self.held.iter().map(RecordBatch::get_array_memory_size).sum();
        self.memory.try_resize(held + self.current.as_ref().map_or(0, Ranked::bytes))
    }

    /// Gives up the batches that are behind.
    fn forget(&mut self) -> DataFusionResult<()> {
        let newest = self.held.len().saturating_sub(1);
        let behind = self.last.map_or(newest, |(batch, _)| batch);
        self.held.drain(..behind);
        self.last = self.last.map(|(batch, row)| (batch - behind, row));
        self.count()
    }
}

/// What joins two sides.
pub(super) struct Merge {
    pub(super) left_rank: Rank,
    pub(super) right: Right,
    /// Whether a row is joined with one of its own time.
    pub(super) takes_equal: bool,
    pub(super) is_outer: bool,
    pub(super) schema: SchemaRef,
}

impl Merge {
    pub(super) async fn run(
        &mut self,
        mut left: SendableRecordBatchStream,
        output: &Output,
        baseline: &BaselineMetrics,
    ) -> Result<()> {
        while let Some(rows) = left.next().await {
            let left = self.left_rank.of(rows?)?;
            // The first row that is not out, and those that it and the next ones are joined with.
            let (mut first, mut found) = (0, Vec::new());
            for row in 0..left.len() {
                while self.right.pass(&left, row, self.takes_equal) {
                    if self.right.held.len() >= MOST_HELD {
                        self.emit(&left.rows, first, &mut found, output, baseline).await?;
                        first = row;
                    }
                    self.right.next_batch().await?;
                }
                found.push(self.right.found(&left, row));
            }
            self.emit(&left.rows, first, &mut found, output, baseline).await?;
        }
        Ok(())
    }

    /// Hands out rows of the left side, from `first` on, with those that were found for them.
    async fn emit(
        &mut self,
        left: &RecordBatch,
        first: usize,
        found: &mut Vec<Option<(usize, usize)>>,
        output: &Output,
        baseline: &BaselineMetrics,
    ) -> DataFusionResult<()> {
        let rows = {
            let _timer = baseline.elapsed_compute().timer();
            self.joined(left, first, found)?
        };
        found.clear();
        self.right.forget()?;
        if rows.num_rows() > 0 {
            output.emit(rows.record_output(baseline)).await;
        }
        Ok(())
    }

    fn joined(
        &self,
        left: &RecordBatch,
        first: usize,
        found: &[Option<(usize, usize)>],
    ) -> DataFusionResult<RecordBatch> {
        // Behind the batches that are held stands one with a row of nulls.
        let none = self.is_outer.then_some((self.right.held.len(), 0));
        let pairs = found.iter().enumerate();
        let (rows, others): (Vec<u32>, Vec<(usize, usize)>) = pairs
            .filter_map(|(at, found)| Some((u32::try_from(first + at).ok()?, found.or(none)?)))
            .unzip();
        let count = rows.len();
        let rows = UInt32Array::from(rows);
        let of_left = left.columns().iter();
        let of_left = of_left.map(|column| arrow_select::take::take(column, &rows, None));
        let mut columns = of_left.collect::<std::result::Result<Vec<_>, _>>()?;
        for at in 0..self.schema.fields().len().saturating_sub(columns.len()) {
            let field = self.schema.fields().get(left.num_columns() + at);
            let field = field.ok_or_else(|| internal_datafusion_err!("a join lacks a column"))?;
            let nulls = new_null_array(field.data_type(), 1);
            let held = self.right.held.iter().map(|batch| batch.column(at));
            let held: Vec<&dyn Array> =
                held.chain([&nulls]).map(|column| column.as_ref()).collect();
            columns.push(interleave(&held, &others)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
