//! Rows that wait until something is known of all of them: in memory, or in files once there is no
//! room.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::SpillManager;
use futures::StreamExt;

use super::coalesce::most_held;

/// Rows are written to files of at least this many bytes, or a 64th of the memory limit if that is
/// less.
const LEAST_SPILLED: usize = 4 << 20;

/// Rows that wait, such as those of a partition that is not complete.
pub(in crate::sql) struct Held {
    holder: &'static str,
    pub(in crate::sql) memory: MemoryReservation,
    /// The bytes of all batches. A buffer that several of them share counts once.
    counter: RecordBatchMemoryCounter,
    /// The bytes for which there was no room.
    uncounted: usize,
    least_spilled: usize,
    rows: Rows,
}

impl Held {
    pub(in crate::sql) fn new(
        holder: &'static str,
        spills: SpillManager,
        can_spill: bool,
        context: &TaskContext,
    ) -> Held {
        let memory = MemoryConsumer::new(holder).with_can_spill(can_spill);
        Held {
            holder,
            least_spilled: most_held(context).saturating_mul(4).min(LEAST_SPILLED),
            memory: memory.register(context.memory_pool()),
            counter: RecordBatchMemoryCounter::new(),
            uncounted: 0,
            rows: Rows {
                spills: spills.with_compression_type(context.session_config().spill_compression()),
                files: VecDeque::new(),
                batches: VecDeque::new(),
                reading: None,
            },
        }
    }

    /// Adds rows, if there is room for them.
    pub(in crate::sql) fn push(&mut self, batch: RecordBatch) -> DataFusionResult<()> {
        self.memory.try_grow(self.counter.count_batch(&batch))?;
        self.rows.batches.push_back(batch);
        Ok(())
    }

    /// Adds rows, and writes all of them to a file where there is no room.
    pub(in crate::sql) fn push_or_spill(&mut self, batch: RecordBatch) -> DataFusionResult<()> {
        let bytes = self.counter.count_batch(&batch);
        self.rows.batches.push_back(batch);
        if self.memory.try_grow(bytes).is_err() {
            self.uncounted += bytes;
            if self.memory.size() + self.uncounted > self.least_spilled {
                self.spill()?;
            }
        }
        Ok(())
    }

    pub(in crate::sql) fn spill(&mut self) -> DataFusionResult<()> {
        let Rows { spills, files, batches, .. } = &mut self.rows;
        if !batches.is_empty() {
            let file =
                spills.spill_record_batch_and_finish(batches.make_contiguous(), self.holder)?;
            files.extend(file);
            batches.clear();
        }
        self.free();
        Ok(())
    }

    /// Gives the next rows back, in the order in which they came.
    pub(in crate::sql) async fn next(&mut self) -> DataFusionResult<Option<RecordBatch>> {
        let batch = self.rows.next().await?;
        if batch.is_none() {
            self.free();
        }
        Ok(batch)
    }

    /// All rows, to be read beside those that are given back.
    pub(in crate::sql) fn rows(&self) -> Rows {
        let Rows { spills, files, batches, .. } = &self.rows;
        let (files, batches) = (files.clone(), batches.clone());
        Rows { spills: spills.clone(), files, batches, reading: None }
    }

    /// Gives back all rows, which are in memory.
    pub(in crate::sql) fn take_batches(&mut self) -> Vec<RecordBatch> {
        Vec::from(std::mem::take(&mut self.rows.batches))
    }

    pub(in crate::sql) fn schema(&self) -> &SchemaRef {
        self.rows.spills.schema()
    }

    pub(in crate::sql) fn free(&mut self) {
        self.counter = RecordBatchMemoryCounter::new();
        self.uncounted = 0;
        self.memory.free();
    }
}

/// Rows in files, and those that came after them.
pub(in crate::sql) struct Rows {
    spills: SpillManager,
    files: VecDeque<Arc<dyn SpillFile>>,
    batches: VecDeque<RecordBatch>,
    /// The rest of a file.
    reading: Option<SendableRecordBatchStream>,
}

impl Rows {
    pub(in crate::sql) async fn next(&mut self) -> DataFusionResult<Option<RecordBatch>> {
        loop {
            if let Some(rows) = &mut self.reading {
                if let Some(batch) = rows.next().await {
                    return batch.map(Some);
                }
                self.reading = None;
            }
            let Some(file) = self.files.pop_front() else { break };
            self.reading = Some(self.spills.read_spill_as_stream_unbuffered(file, None)?);
        }
        Ok(self.batches.pop_front())
    }
}
