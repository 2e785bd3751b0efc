//! A left side that does not fit, in parts: each part is put in order by itself, and all rows of
//! the right side are looked up in it. The rows of both sides wait in files.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::SpillMetrics;
use futures::StreamExt;

use super::bounds::Ranges;
use super::probe::Left;
use crate::sql::run::coalesce::{compact, most_held};
use crate::sql::run::generate::generate;
use crate::sql::run::held::{Held, Rows};

/// A part may take this many times `most_held`: half of all memory for all partitions.
const SHARES: usize = 128;

/// All rows of one side, in a file.
pub(super) struct Waiting(Mutex<Held>);

impl Waiting {
    pub(super) async fn gathered(
        mut rows: SendableRecordBatchStream,
        spills: SpillMetrics,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<Waiting> {
        let spills = SpillManager::new(context.runtime_env(), spills, rows.schema());
        let mut held = Held::new("Range join", spills, true, &context);
        let small = most_held(&context);
        while let Some(batch) = rows.next().await {
            held.push_or_spill(compact(batch?, small, usize::MAX)?)?;
        }
        // The parts take the memory.
        held.spill()?;
        Ok(Waiting(Mutex::new(held)))
    }

    fn rows(&self) -> Rows {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rows()
    }

    /// The rows once more.
    pub(super) fn stream(&self, schema: SchemaRef) -> SendableRecordBatchStream {
        let mut rows = self.rows();
        generate(schema, move |output| async move {
            while let Some(batch) = rows.next().await? {
                output.emit(batch).await;
            }
            Ok(())
        })
    }
}

/// The rows of the left side, a part at a time.
pub(super) struct Parts {
    rows: Rows,
    schema: SchemaRef,
    ranges: Ranges,
    /// The first rows of the next parts, those that come first at the end.
    next: Vec<RecordBatch>,
    /// The bytes of a part, unless one batch takes more.
    most: usize,
    context: Arc<TaskContext>,
}

impl Parts {
    /// For one of several partitions, which run at the same time.
    pub(super) fn new(
        left: &Waiting,
        schema: SchemaRef,
        ranges: Ranges,
        partitions: usize,
        context: Arc<TaskContext>,
    ) -> Parts {
        let most = most_held(&context).saturating_mul(SHARES) / partitions.max(1);
        Parts { rows: left.rows(), schema, ranges, next: Vec::new(), most, context }
    }

    pub(super) async fn next(&mut self) -> DataFusionResult<Option<Left>> {
        let memory = MemoryConsumer::new("Range join").register(self.context.memory_pool());
        let mut batches = Vec::new();
        loop {
            let batch = match self.next.pop() {
                Some(batch) => batch,
                None => match self.rows.next().await? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let bytes = Left::bytes_of(&batch);
            if batches.is_empty() {
                let Err(error) = memory.try_grow(bytes) else {
                    batches.push(batch);
                    continue;
                };
                let (first, rest) = match batch.num_rows() {
                    0 | 1 => return Err(error),
                    rows => (batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2)),
                };
                self.next.extend([compact(rest, 0, usize::MAX)?, compact(first, 0, usize::MAX)?]);
                continue;
            }
            if memory.size() + bytes > self.most || memory.try_grow(bytes).is_err() {
                self.next.push(batch);
                break;
            }
            batches.push(batch);
        }
        match batches.is_empty() {
            true => Ok(None),
            false => Left::of(&self.schema, &batches, &self.ranges, memory).map(Some),
        }
    }
}
