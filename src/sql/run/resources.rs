//! What groups and first rows take while they are made: the session's threads and memory; and how
//! they come out, in slices of a size that operators above like.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::physical_plan::metrics::BaselineMetrics;
use rayon::ThreadPool;

use crate::error::{Error, Result};
use crate::query::slice::SLICE_ROWS;
use crate::query::{self, Recorder};
use crate::sql::run::coalesce::{Coalescer, most_held};
use crate::sql::run::generate::Output;
use crate::sql::run::settings::Settings;
use crate::sql::run::statistics::Timed;
use crate::sql::work::handle::OfSession;

/// Those of one execution. Memory is given back with them.
pub(in crate::sql) struct Resources {
    session: Arc<OfSession>,
    pub(in crate::sql) baseline: BaselineMetrics,
    recorder: Arc<Recorder>,
    pub(in crate::sql) timed: bool,
    /// See [`most_held`].
    most_held: usize,
    limits: query::GroupLimits,
    known_rows: bool,
    cancelled: Box<dyn Fn() -> bool + Send + Sync>,
    reserve: Box<dyn Fn(usize) -> Result<()> + Send + Sync>,
    release: Box<dyn Fn(usize) + Send + Sync>,
}

impl Resources {
    pub(in crate::sql) fn new(
        name: &str,
        can_spill: bool,
        session: &Arc<OfSession>,
        recorder: &Arc<Recorder>,
        baseline: BaselineMetrics,
        context: &TaskContext,
    ) -> Resources {
        let settings = Settings::of(context.session_config().options());
        let (most, pool) = (settings.group_memory, Arc::clone(context.memory_pool()));
        let finite = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => usize::MAX,
        };
        let memory = MemoryConsumer::new(name).with_can_spill(can_spill).register(&pool);
        let memory = Arc::new(memory);
        let canceller = Arc::clone(session);
        let (reserved, counted) = (Arc::clone(&memory), Arc::clone(recorder));
        let reserve = move |bytes: usize| -> Result<()> {
            if reserved.size().saturating_add(bytes) > most {
                return Err(Error::LimitExceeded(format!(
                    "groups or rows that cannot be spilled take more than sty.group_memory, {most} \
                     bytes"
                )));
            }
            // What fills the pool here can be spilled; what decoding lacks then ends the statement.
            if let MemoryLimit::Finite(all) = pool.memory_limit()
                && pool.reserved().saturating_add(bytes) > all - all / 8
            {
                return Err(Error::LimitExceeded(format!(
                    "memory: a larger --memory-limit or fewer --threads may do (a fragment needs \
                     {bytes} more bytes; an eighth of all {all} bytes is kept for decoding)"
                )));
            }
            reserved.try_grow(bytes)?;
            counted.update(|sum| sum.memory = sum.memory.max(reserved.size() as u64));
            Ok(())
        };
        Resources {
            session: Arc::clone(session),
            baseline,
            recorder: Arc::clone(recorder),
            timed: context.session_config().get_extension::<Timed>().is_some(),
            most_held: most_held(context),
            limits: query::GroupLimits::within(most.min(finite)),
            known_rows: settings.known_rows,
            cancelled: Box::new(move || canceller.canceller.is_cancelled()),
            reserve: Box::new(reserve),
            release: Box::new(move |bytes| memory.shrink(bytes)),
        }
    }

    /// The threads, which are the statement's until it ends.
    pub(in crate::sql) fn threads(&self) -> Result<Arc<ThreadPool>> {
        self.session.workers.pool()
    }

    pub(in crate::sql) fn context<'a>(
        &'a self,
        threads: &'a ThreadPool,
        states: bool,
    ) -> query::Context<'a> {
        query::Context {
            pool: threads,
            cancelled: &*self.cancelled,
            reserve: &*self.reserve,
            release: &*self.release,
            temp_dir: &self.session.temp_dir,
            limits: self.limits,
            known_rows: self.known_rows,
            states,
            recorder: &self.recorder,
            timed: self.timed,
        }
    }

    pub(in crate::sql) fn coalescer(&self, schema: &SchemaRef) -> Coalescer {
        Coalescer::new(schema, self.most_held)
    }

    /// Hands out a batch.
    pub(in crate::sql) async fn out(&self, batch: &RecordBatch, output: &Output) {
        for start in (0..batch.num_rows()).step_by(SLICE_ROWS) {
            let slice = batch.slice(start, SLICE_ROWS.min(batch.num_rows() - start));
            self.baseline.record_output(slice.num_rows());
            self.baseline.output_batches().add(1);
            output.emit(slice).await;
        }
    }
}

/// Rows in the promised schema, names and all.
pub(in crate::sql) fn checked(
    promised: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(promised), columns, &options).map_err(|error| {
        Error::Unsupported(format!("a fragment's answer has not the promised form: {error}"))
    })
}
