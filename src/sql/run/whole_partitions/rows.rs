//! The rows of windows: where their partitions end, those that wait, and where they go.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::arrow::compute::partition;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};

use crate::error::Result;
use crate::sql::run::coalesce::{MAX_BUFFERS, compact, most_held};
use crate::sql::run::generate::Output;

/// Rows are written to files of at least this many bytes, or a 64th of the memory limit if that is
/// less.
const LEAST_SPILLED: usize = 4 << 20;

/// Where rows go.
pub(super) struct Out {
    pub(super) schema: SchemaRef,
    /// See [`most_held`].
    pub(super) small: usize,
    /// The most bytes of values that are copied to rows of one batch: the memory limit. Operators
    /// above make batches of as many rows again.
    pub(super) most_copied: usize,
    pub(super) baseline: BaselineMetrics,
}

impl Out {
    pub(super) fn new(schema: SchemaRef, baseline: BaselineMetrics, context: &TaskContext) -> Out {
        let small = most_held(context);
        Out { schema, small, most_copied: small.saturating_mul(256), baseline }
    }

    /// Emits rows with the values of functions.
    pub(super) async fn emit(
        &self,
        rows: &RecordBatch,
        values: Vec<ArrayRef>,
        to: &Output,
    ) -> Result<()> {
        let columns = rows.columns().iter().cloned().chain(values).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(DataFusionError::from)?;
        // Values of many partitions have a buffer each, and operators above count all of them.
        let batch = compact(batch, self.small, MAX_BUFFERS)?;
        to.emit(batch.record_output(&self.baseline)).await;
        Ok(())
    }
}

/// Finds where partitions end.
pub(super) struct Cut {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The keys of the last row before.
    last: Option<Vec<ArrayRef>>,
}

impl Cut {
    pub(super) fn new(keys: &[Arc<dyn PhysicalExpr>]) -> Cut {
        Cut { keys: keys.to_vec(), last: None }
    }

    /// The partitions of a batch of rows that are in the order of the keys, and whether the first
    /// one has begun before it.
    pub(super) fn cut(
        &mut self,
        batch: &RecordBatch,
    ) -> DataFusionResult<(Vec<Range<usize>>, bool)> {
        let rows = batch.num_rows();
        if self.keys.is_empty() {
            let goes_on = self.last.replace(Vec::new()).is_some();
            return Ok((std::iter::once(0..rows).collect(), goes_on));
        }
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        let keys = keys.collect::<DataFusionResult<Vec<_>>>()?;
        let last_row = UInt32Array::from(vec![(rows - 1) as u32]);
        let last = keys.iter().map(|key| Ok(take(key, &last_row, None)?));
        let before = self.last.replace(last.collect::<DataFusionResult<_>>()?);
        let goes_on = match before {
            Some(before) => {
                let both = before.iter().zip(&keys);
                let both = both.map(|(last, key)| Ok(concat(&[last, &key.slice(0, 1)])?));
                partition(&both.collect::<DataFusionResult<Vec<_>>>()?)?.len() == 1
            }
            None => false,
        };
        Ok((partition(&keys)?.ranges(), goes_on))
    }
}

/// The rows of the partition that is not complete.
pub(super) struct Held {
    pub(super) spills: SpillManager,
    pub(super) memory: MemoryReservation,
    /// The bytes of all batches. A buffer that several of them share counts once.
    counter: RecordBatchMemoryCounter,
    /// The bytes for which there was no room.
    uncounted: usize,
    least_spilled: usize,
    pub(super) batches: Vec<RecordBatch>,
    /// Rows that came before those in memory.
    pub(super) files: VecDeque<Arc<dyn SpillFile>>,
}

impl Held {
    pub(super) fn new(spills: SpillManager, can_spill: bool, context: &TaskContext) -> Held {
        let memory = MemoryConsumer::new("Window").with_can_spill(can_spill);
        Held {
            least_spilled: most_held(context).saturating_mul(4).min(LEAST_SPILLED),
            spills: spills.with_compression_type(context.session_config().spill_compression()),
            memory: memory.register(context.memory_pool()),
            counter: RecordBatchMemoryCounter::new(),
            uncounted: 0,
            batches: Vec::new(),
            files: VecDeque::new(),
        }
    }

    /// Adds rows, if there is room for them.
    pub(super) fn push(&mut self, batch: RecordBatch) -> DataFusionResult<()> {
        self.memory.try_grow(self.counter.count_batch(&batch))?;
        self.batches.push(batch);
        Ok(())
    }

    /// Adds rows, and writes all of them to a file where there is no room.
    pub(super) fn push_or_spill(&mut self, batch: RecordBatch) -> DataFusionResult<()> {
        let bytes = self.counter.count_batch(&batch);
        self.batches.push(batch);
        if self.memory.try_grow(bytes).is_err() {
            self.uncounted += bytes;
            if self.memory.size() + self.uncounted > self.least_spilled {
                self.spill()?;
            }
        }
        Ok(())
    }

    pub(super) fn spill(&mut self) -> DataFusionResult<()> {
        if !self.batches.is_empty() {
            let file = self.spills.spill_record_batch_and_finish(&self.batches, "Window")?;
            self.files.extend(file);
            self.batches.clear();
        }
        self.free();
        Ok(())
    }

    pub(super) fn free(&mut self) {
        self.counter = RecordBatchMemoryCounter::new();
        self.uncounted = 0;
        self.memory.free();
    }
}
