//! One partition of a scan at work: blocks from the queue, filtered and decoded slice by slice.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::physical_plan::metrics::BaselineMetrics;

use super::first_of_groups::LeftOut;
use super::queue::{Queue, Work};
use super::request::Scan;
use crate::error::{Error, Result};
use crate::limits::VECTOR;
use crate::query::Recorder;
use crate::query::filter::{Filter, MaskBuilder};
use crate::query::open::{BlockRef, OpenBlock};
use crate::query::slice::Slice;
use crate::query::stats::{Statistic, Tally};
use crate::query::walk::{FilteredBlock, slice_rows};
use crate::sql::run::coalesce::{Coalescer, in_parts};
use crate::sql::run::generate::Output;

/// What the partitions share.
#[derive(Debug, Default)]
pub(super) struct SharedScan {
    queue: Mutex<Queue>,
    produced: AtomicU64,
}

/// One partition at work.
pub(super) struct Worker {
    pub(super) scan: Arc<Scan>,
    pub(super) shared: Arc<SharedScan>,
    /// The sequence of blocks that it takes from.
    pub(super) lane: usize,
    pub(super) baseline: BaselineMetrics,
    pub(super) recorder: Arc<Recorder>,
    pub(super) timed: bool,
    /// See [`most_held`].
    pub(super) most_held: usize,
}

/// The counters of a block, which are not lost when the reader goes away in the middle of it.
struct Counted<'a> {
    recorder: &'a Recorder,
    /// How many the scan has; there may be more by now.
    conditions: usize,
    tally: Tally,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.tally.counters.fold_conditions(self.conditions);
        self.recorder.update(|sum| sum.add(&self.tally.counters));
    }
}

impl Worker {
    pub(super) async fn run(self, mut left_out: LeftOut, output: Output) -> Result<()> {
        while !self.is_satisfied() {
            let work = {
                let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.next(&self.scan, self.lane, &self.recorder, self.timed)?
            };
            let Some(work) = work else { break };
            self.block(&work, &mut left_out, &output).await?;
            let rows = work.segment.segment.block_range(work.block);
            self.recorder.pass(rows.end - rows.start);
        }
        Ok(())
    }

    fn is_satisfied(&self) -> bool {
        self.scan.limit.is_some_and(|limit| self.shared.produced.load(Ordering::Relaxed) >= limit)
    }

    /// Filters one block and decodes what is left of every column, slice by slice.
    async fn block(&self, work: &Work, left_out: &mut LeftOut, output: &Output) -> Result<()> {
        let place = BlockRef { segment: 0, block: work.block };
        let block = OpenBlock::new(&work.segment, &self.scan.columns, place);
        let conditions = &work.current.conditions;
        let (columns, on_dictionaries) = (&self.scan.columns, &work.on_dictionaries);
        let filter = Filter { conditions, columns, on_dictionaries };
        let tally = Tally::new(conditions.len(), self.timed);
        let mut counted =
            Counted { recorder: &self.recorder, conditions: self.scan.conditions.len(), tally };
        if left_out.skips(work, &block).map_err(|error| block.in_file(error))? {
            block.count_pruned(Statistic::Threshold, None, &mut counted.tally.counters);
            return Ok(());
        }
        let filtered = FilteredBlock::new(block, &filter, &work.prefetch, &mut counted.tally)?;
        let Some(filtered) = filtered else { return Ok(()) };
        filtered.block.count_read(&mut counted.tally.counters);
        counted.tally.counters.scan.time = counted.tally.clock.lap();
        let (mut left, mut step) = (0..filtered.block.rows, slice_rows(&filtered.block));
        let mut coalescer = Coalescer::new(&self.scan.schema, self.most_held);
        let mut mask = MaskBuilder::default();
        while !left.is_empty() && !self.is_satisfied() {
            let (rows, others) = self.scan.order.cut(&left, step);
            let tested = counted.tally.counters.conditions.clone();
            let batch = {
                let _timer = self.baseline.elapsed_compute().timer();
                counted.tally.clock.lap();
                self.slice(&filtered, (&mut mask, left_out), rows, &mut counted.tally)
            };
            filtered.block.count_opened(&mut counted.tally.counters);
            let batch = match batch {
                // Huge values: a vector of them fits. The rows will be tested, and counted, again.
                Err(Error::LimitExceeded(_)) if step > VECTOR => {
                    step = (step / 2).next_multiple_of(VECTOR);
                    counted.tally.counters.conditions = tested;
                    left_out.forget();
                    continue;
                }
                batch => batch?,
            };
            left = others;
            self.check(work, left.is_empty())?;
            let Some(batch) = batch else { continue };
            let passed = batch.num_rows() as u64;
            counted.tally.counters.output.rows_in += passed;
            counted.tally.counters.output.rows_out += passed;
            counted.tally.counters.output.time += counted.tally.clock.lap();
            for full in coalescer.push(batch)? {
                self.emit(full, output).await?;
            }
        }
        filtered.note_passed();
        for last in coalescer.finish()? {
            self.emit(last, output).await?;
        }
        Ok(())
    }

    /// Refuses what was decoded of a block if the file was cut in the meantime.
    fn check(&self, work: &Work, done: bool) -> Result<()> {
        let segment = &work.segment.segment;
        match done && work.block + 1 == segment.blocks() {
            true => segment.check_length(),
            false => segment.check(),
        }
    }

    async fn emit(&self, batch: RecordBatch, output: &Output) -> Result<()> {
        for part in in_parts(batch) {
            let part = part?;
            self.baseline.record_output(part.num_rows());
            self.baseline.output_batches().add(1);
            output.emit(part).await;
        }
        Ok(())
    }

    /// What is left of some rows; `None` of none.
    fn slice(
        &self,
        filtered: &FilteredBlock<'_>,
        (mask, left_out): (&mut MaskBuilder, &mut LeftOut),
        rows: Range<usize>,
        tally: &mut Tally,
    ) -> Result<Option<RecordBatch>> {
        let Some(mut slice) = filtered.slice(rows, mask, tally)? else { return Ok(None) };
        left_out.narrow(&mut slice).map_err(|error| filtered.block.in_file(error))?;
        if slice.len() == 0 {
            return Ok(None);
        }
        let claimed = self.claim(&mut slice);
        let batch = self.decoded(&slice);
        if batch.is_err() {
            self.shared.produced.fetch_sub(claimed, Ordering::Relaxed);
        }
        batch.map(Some)
    }

    /// Counts the rows of a slice as produced, and leaves no more of them selected than a limit
    /// asks for: what comes after might fail for rows that nobody wants.
    fn claim(&self, slice: &mut Slice<'_, '_>) -> u64 {
        let rows = slice.len() as u64;
        let before = self.shared.produced.fetch_add(rows, Ordering::Relaxed);
        let wanted = self.scan.limit.map_or(rows, |limit| limit.saturating_sub(before));
        if wanted < rows {
            let first = match slice.selected() {
                Some(selected) => selected.iter().take(wanted as usize).copied().collect(),
                None => (0..wanted as u32).collect(),
            };
            slice.select(first);
        }
        rows
    }

    fn decoded(&self, slice: &Slice<'_, '_>) -> Result<RecordBatch> {
        let answer = 0..self.scan.schema.fields().len();
        let arrays = match slice.len() {
            0 => self
                .scan
                .schema
                .fields()
                .iter()
                .map(|field| new_empty_array(field.data_type()))
                .collect(),
            _ => answer.map(|at| slice.array(at)).collect::<Result<Vec<ArrayRef>>>()?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(slice.len()));
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.scan.schema), arrays, &options)
                .map_err(|error| {
                    Error::corrupt(0, format!("decoded columns do not fit together: {error}"))
                })?;
        self.scan.order.turned(batch)
    }
}
