//! The rows of one partition as sorted runs: in memory as long as they fit, then in files.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_row::Rows;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SpillManager;
use futures::StreamExt;

use super::gather::part_of;
use super::merge::{FileRun, Runs, write_run};
use super::runs::{ChunkSize, Held, Keys, MemoryRun, Place};
use crate::sql::run::coalesce::compact;

/// Collects the rows of one partition.
pub(super) struct Collector {
    keys: Arc<Keys>,
    spills: SpillManager,
    size: ChunkSize,
    memory: MemoryReservation,
    /// Texts are copied if they hold more than this many bytes, and use less than half of them.
    small: usize,
    held: Vec<Held>,
    /// The bytes of all batches in `held`. A buffer that several of them share counts once.
    counter: RecordBatchMemoryCounter,
    files: Vec<FileRun>,
}

impl Collector {
    pub(super) fn new(
        keys: Arc<Keys>,
        spills: SpillManager,
        size: ChunkSize,
        memory: MemoryReservation,
        small: usize,
    ) -> Self {
        let (held, counter, files) = (Vec::new(), RecordBatchMemoryCounter::new(), Vec::new());
        Collector { keys, spills, size, memory, small, held, counter, files }
    }

    /// Takes all rows of a stream.
    pub(super) async fn collect(
        mut self,
        mut rows: SendableRecordBatchStream,
    ) -> DataFusionResult<Runs> {
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.push(compact(batch, self.small, usize::MAX)?).await?;
            }
        }
        // The operators below free their memory before the rows are sorted.
        drop(rows);
        if !self.files.is_empty() {
            self.spill().await?;
            let memory = vec![self.memory];
            return Ok(Runs { in_files: self.files, memory, ..Runs::default() });
        }
        let mut runs = Runs::default();
        if !self.held.is_empty() {
            runs.in_memory.push(MemoryRun::sorted(self.held, Some(self.memory)).await);
        }
        Ok(runs)
    }

    async fn push(&mut self, batch: RecordBatch) -> DataFusionResult<()> {
        let mut parts = vec![batch];
        while let Some(batch) = parts.pop() {
            let keys = self.keys.of(&batch)?;
            let mut taken = self.take(&batch, &keys);
            if taken.is_err() {
                self.spill().await?;
                taken = self.take(&batch, &keys);
            }
            match taken {
                Ok(()) => self.held.push(Held::new(batch, keys)),
                Err(error) if batch.num_rows() == 1 => return Err(error),
                Err(_) => {
                    self.counter = RecordBatchMemoryCounter::new();
                    let half = batch.num_rows() / 2;
                    parts.push(part_of(&batch, half..batch.num_rows())?);
                    parts.push(part_of(&batch, 0..half)?);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, batch: &RecordBatch, keys: &Rows) -> DataFusionResult<()> {
        // The sort has places to copy from, and the standard library's stable sort allocates half
        // as many again.
        let order = size_of::<Place>() * batch.num_rows() * 5 / 2;
        self.memory.try_grow(self.counter.count_batch(batch) + keys.size() + order)
    }

    /// Writes what is held to a file of its own.
    async fn spill(&mut self) -> DataFusionResult<()> {
        let held = std::mem::take(&mut self.held);
        self.counter = RecordBatchMemoryCounter::new();
        if !held.is_empty() {
            let run = MemoryRun::sorted(held, None).await;
            self.files.extend(write_run(run, &self.keys, &self.spills, self.size).await?);
        }
        self.memory.free();
        Ok(())
    }
}
