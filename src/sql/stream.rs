//! An answer as a plain iterator of batches over DataFusion's asynchronous stream, and how to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use futures::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::convert::from_datafusion;
use super::statistics::Statistics;
use crate::error::{Error, Result};

/// The worker threads. Dropping them waits for nothing: a task in the middle of a block ends by itself.
#[derive(Debug)]
pub(crate) struct Workers(Option<Runtime>);

impl Workers {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("sty-worker")
            .build()
            .map(|runtime| Workers(Some(runtime)))
            .map_err(|source| Error::io("worker threads", source))
    }

    /// Runs `work` on this thread, and what it spawns on the workers, unless the session is cancelled first.
    pub(crate) fn run<T>(&self, canceller: &Canceller, work: impl Future<Output = T>) -> Result<T> {
        let Some(runtime) = &self.0 else { return Err(Error::Cancelled) };
        runtime.block_on(async {
            let (work, stop) = (std::pin::pin!(work), std::pin::pin!(canceller.cancelled()));
            match select(stop, work).await {
                Either::Left(_) => Err(Error::Cancelled),
                Either::Right((done, _)) => Ok(done),
            }
        })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Stops what a session is doing, from any thread (a signal handler's, a timer's): the statement in progress, and
/// every later one, ends with [`Error::Cancelled`] until [`Canceller::reset`].
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    inner: Arc<Stop>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Arc<AtomicBool>,
    wake: Notify,
}

impl Canceller {
    /// Asks to stop; work ends at the next block boundary.
    pub fn cancel(&self) {
        self.inner.stopped.store(true, Ordering::Release);
        self.inner.wake.notify_waiters();
    }

    /// Takes the request back, so that a shell can go on.
    pub fn reset(&self) {
        self.inner.stopped.store(false, Ordering::Release);
    }

    /// Whether stopping has been asked for.
    pub fn is_cancelled(&self) -> bool {
        self.inner.stopped.load(Ordering::Acquire)
    }

    /// What is set when stopping is asked for.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.stopped)
    }

    async fn cancelled(&self) {
        loop {
            // Registered before the flag is read, so that no wake-up is lost.
            let mut woken = std::pin::pin!(self.inner.wake.notified());
            woken.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            woken.await;
        }
    }
}

/// The answer to one statement, batch by batch. Batches are made as they are asked for, up to what operators hold
/// ready; dropping the stream stops the scan.
pub struct BatchStream {
    schema: SchemaRef,
    stream: Option<SendableRecordBatchStream>,
    plan: Arc<dyn ExecutionPlan>,
    workers: Arc<Workers>,
    canceller: Canceller,
    planning: Duration,
    execution: Duration,
    rows: u64,
}

impl BatchStream {
    pub(crate) fn new(
        stream: SendableRecordBatchStream,
        plan: Arc<dyn ExecutionPlan>,
        workers: Arc<Workers>,
        canceller: Canceller,
        planning: Duration,
    ) -> Self {
        let (schema, stream) = (stream.schema(), Some(stream));
        BatchStream { schema, stream, plan, workers, canceller, planning, execution: Duration::ZERO, rows: 0 }
    }

    /// Ends the statement, and says what it has done and how long it took.
    pub fn statistics(&mut self) -> Statistics {
        // What operators were about to do is counted when they are dropped.
        self.stream = None;
        Statistics::of(&self.plan, self.planning, self.execution, self.rows)
    }

    /// Names and types of the answer. Without columns (`SET`, `CREATE VIEW`) there is nothing to print.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The physical plan with what its operators have counted so far, as `EXPLAIN ANALYZE` shows it.
    pub fn explain(&self) -> String {
        datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(self.plan.as_ref())
            .indent(false)
            .to_string()
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut()?;
        let started = Instant::now();
        let item = self.workers.run(&self.canceller, stream.next());
        self.execution += started.elapsed();
        let item = match item {
            Ok(Some(Ok(batch))) => {
                self.rows += batch.num_rows() as u64;
                return Some(Ok(batch));
            }
            Ok(Some(Err(error))) => Some(Err(from_datafusion(error))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        };
        self.stream = None;
        item
    }
}

impl std::fmt::Debug for BatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}
