//! The inner rows of a full join that have no pair that passes.
//!
//! DataFusion (55.2) gives each outer row with all inner rows of its key, in the same order for
//! each outer row. So the place of an inner row among those of its key tells it from the others,
//! and where the first one of them is another, so is the key. Whether a row has a pair is known
//! once the last outer row of its key has come: until then, rows wait if the first one has not
//! passed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
    new_null_array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};

use crate::sql::run::coalesce::compact;
use crate::sql::run::generate::Output;
use crate::sql::run::held::Held;

/// The inner rows of one key at a time.
pub(super) struct Unpaired {
    /// Of pairs: the outer columns, their number, the inner columns, their number.
    schema: SchemaRef,
    /// How many outer columns there are.
    of_outer: usize,
    /// The number of the outer row that the last pair has.
    outer: Option<u64>,
    /// The number of the first inner row of its key.
    first: Option<u64>,
    /// Whether inner rows of the key have a pair that passed, by their places.
    paired: Vec<bool>,
    /// The place of the next pair's inner row.
    place: usize,
    /// The inner columns of rows that may have no pair, and the places of these rows.
    held: Held,
    of_held: SchemaRef,
    memory: MemoryReservation,
}

impl Unpaired {
    pub(super) fn new(
        schema: SchemaRef,
        of_outer: usize,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
        context: &TaskContext,
    ) -> Unpaired {
        let place = Arc::new(Field::new("#place", DataType::UInt64, false));
        let inner = schema.fields().iter().skip(of_outer + 1).cloned();
        let of_held = Arc::new(Schema::new(inner.chain([place]).collect::<Vec<_>>()));
        let metrics = SpillMetrics::new(metrics, partition);
        let spills = SpillManager::new(context.runtime_env(), metrics, Arc::clone(&of_held));
        let memory = MemoryConsumer::new("Full join").register(context.memory_pool());
        Unpaired {
            schema,
            of_outer,
            outer: None,
            first: None,
            paired: Vec::new(),
            place: 0,
            held: Held::new("Full join", spills, true, context),
            of_held,
            memory,
        }
    }

    /// Takes note of a batch of pairs, and of outer rows that are alone. Gives out the rows that
    /// have no pair for sure.
    pub(super) async fn add(
        &mut self,
        batch: &RecordBatch,
        passes: &[bool],
        to: &Output,
    ) -> DataFusionResult<()> {
        let outer = batch.column(self.of_outer).as_primitive::<UInt64Type>();
        let inner = batch.column(batch.num_columns() - 1).as_primitive::<UInt64Type>();
        // Rows of this batch that have no pair, and those of the last key that may have none.
        let (mut alone, mut waiting) = (Vec::new(), Vec::new());
        for (row, passes) in passes.iter().enumerate().filter(|(row, _)| inner.is_valid(*row)) {
            if self.outer != Some(outer.value(row)) {
                self.outer = Some(outer.value(row));
                self.place = 0;
                if self.first != Some(inner.value(row)) {
                    self.first = Some(inner.value(row));
                    alone.extend(self.without_pair(&mut waiting).map(|(row, _)| row));
                    self.emit_held(to).await?;
                    self.paired.clear();
                }
            }
            match self.paired.get_mut(self.place) {
                Some(paired) => *paired |= passes,
                None => {
                    if !passes {
                        waiting.push((row as u32, self.place as u64));
                    }
                    self.paired.push(*passes);
                }
            }
            self.place += 1;
        }
        if !alone.is_empty() {
            let columns = self.inner_columns(batch, alone)?;
            to.emit(self.with_nulls(columns)?).await;
        }
        self.hold(batch, waiting)
    }

    /// Gives out those of the last key.
    pub(super) async fn end(&mut self, to: &Output) -> DataFusionResult<()> {
        self.emit_held(to).await
    }

    /// Those of the rows of a key that have had no pair that passes.
    fn without_pair(&self, waiting: &mut Vec<(u32, u64)>) -> impl Iterator<Item = (u32, u64)> {
        waiting.retain(|(_, place)| !self.is_paired(*place));
        std::mem::take(waiting).into_iter()
    }

    fn is_paired(&self, place: u64) -> bool {
        self.paired.get(place as usize).is_some_and(|paired| *paired)
    }

    /// Keeps rows of a batch until all outer rows of their key have come.
    fn hold(&mut self, batch: &RecordBatch, mut waiting: Vec<(u32, u64)>) -> DataFusionResult<()> {
        // DataFusion holds more than a byte of each inner row of the key.
        self.memory.resize(self.paired.capacity());
        let (rows, places): (Vec<u32>, Vec<u64>) = self.without_pair(&mut waiting).unzip();
        if rows.is_empty() {
            return Ok(());
        }
        let mut columns = self.inner_columns(batch, rows)?;
        columns.push(Arc::new(UInt64Array::from(places)));
        let rows = RecordBatch::try_new(Arc::clone(&self.of_held), columns)?;
        // Without the texts of the other rows.
        self.held.push_or_spill(compact(rows, 0, usize::MAX)?)
    }

    /// Gives out the rows of the key that were kept, and have no pair.
    async fn emit_held(&mut self, to: &Output) -> DataFusionResult<()> {
        while let Some(rows) = self.held.next().await? {
            let places = rows.column(rows.num_columns() - 1).as_primitive::<UInt64Type>();
            let is_alone = |place: &u64| Some(!self.is_paired(*place));
            let is_alone: BooleanArray = places.values().iter().map(is_alone).collect();
            let mut rows = filter_record_batch(&rows, &is_alone)?;
            rows.remove_column(rows.num_columns() - 1);
            if rows.num_rows() > 0 {
                to.emit(self.with_nulls(rows.columns().to_vec())?).await;
            }
        }
        Ok(())
    }

    /// The inner columns of some rows, and their number.
    fn inner_columns(
        &self,
        batch: &RecordBatch,
        rows: Vec<u32>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let rows = UInt32Array::from(rows);
        let columns = batch.columns().iter().skip(self.of_outer + 1);
        columns.map(|column| Ok(take(column, &rows, None)?)).collect()
    }

    /// Rows without the outer columns.
    fn with_nulls(&self, inner: Vec<ArrayRef>) -> DataFusionResult<RecordBatch> {
        let rows = inner.first().map_or(0, Array::len);
        let outer = self.schema.fields().iter().take(self.of_outer + 1);
        let nulls = outer.map(|field| new_null_array(field.data_type(), rows));
        let columns = nulls.chain(inner).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(DataFusionError::from)
    }
}
