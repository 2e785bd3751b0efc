//! An answer as a plain iterator of batches over DataFusion's asynchronous stream, and how to stop
//! it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
#[cfg(feature = "cluster")]
use datafusion_distributed::{DistributedMetricsFormat, rewrite_distributed_plan_with_metrics};
use futures::StreamExt;

use crate::disk::temporary::{self, is_full};
use crate::error::{Error, Result};
use crate::sql::run::progress::StatementProgress;
use crate::sql::run::report::Statistics;
use crate::sql::work::cancel::Canceller;
use crate::sql::work::workers::Workers;

/// The answer to one statement, batch by batch. Batches are made as they are asked for, up to what
/// operators hold ready; dropping the stream stops the scan.
pub struct BatchStream {
    schema: SchemaRef,
    stream: Option<SendableRecordBatchStream>,
    plan: Arc<dyn ExecutionPlan>,
    held: Held,
    planning: Duration,
    execution: Duration,
    rows: u64,
    /// How to answer with less memory, as long as no row has come.
    frugal: Option<Frugal>,
    /// Whether the statement has written.
    committed: bool,
    /// Whether all of it is out.
    ended: bool,
}

/// What an answer holds of its session until it is dropped.
pub(in crate::sql) struct Held {
    pub(in crate::sql) workers: Arc<Workers>,
    pub(in crate::sql) canceller: Canceller,
    /// What is told as long as the statement runs.
    pub(in crate::sql) progress: StatementProgress,
    /// Where operators spill.
    pub(in crate::sql) temp_dir: PathBuf,
    /// What keeps the threads and the tables of the statement.
    #[expect(dead_code, reason = "it is held")]
    pub(in crate::sql) running: Arc<dyn Send + Sync>,
}

/// Plans and starts a statement once more, so that it needs less memory.
pub(crate) type Frugal =
    Box<dyn FnMut() -> Result<(SendableRecordBatchStream, Arc<dyn ExecutionPlan>)> + Send>;

impl BatchStream {
    pub(in crate::sql) fn new(
        stream: SendableRecordBatchStream,
        plan: Arc<dyn ExecutionPlan>,
        planning: Duration,
        held: Held,
    ) -> Self {
        held.progress.begin(&plan);
        let (schema, stream) = (stream.schema(), Some(stream));
        BatchStream {
            schema,
            stream,
            plan,
            held,
            planning,
            execution: Duration::ZERO,
            rows: 0,
            frugal: None,
            committed: false,
            ended: false,
        }
    }

    /// The same answer; whenever it needs more memory than there is, it is begun anew in this way.
    pub(crate) fn or(mut self, frugal: Frugal) -> Self {
        self.frugal = Some(frugal);
        self
    }

    /// The same answer, of a statement that has written.
    pub(crate) fn of_committed(mut self) -> Self {
        self.committed = true;
        self
    }

    /// Whether the statement has written: what it has stored stays, whatever becomes of the answer.
    pub fn has_committed(&self) -> bool {
        self.committed
    }

    /// An error of a full disk with the folder of temporary files: DataFusion does not name it.
    fn located(&self, error: Error) -> Error {
        match error {
            Error::Io { path, source } if path.as_os_str() == "query" && is_full(&source) => {
                temporary::failed(&self.held.temp_dir, "write", source)
            }
            error => error,
        }
    }

    /// Begins once more, in the way that needs less memory. Returns the error if there is none.
    fn begin_frugally(&mut self, error: Error) -> Result<()> {
        if self.frugal.is_none() || !matches!(error, Error::LimitExceeded(_)) {
            return Err(error);
        }
        // Gives the memory back.
        self.end();
        let Some(Ok((stream, plan))) = self.frugal.as_mut().map(|frugal| frugal()) else {
            return Err(error);
        };
        self.held.progress.begin(&plan);
        (self.stream, self.plan) = (Some(stream), plan);
        Ok(())
    }

    /// From now on, the statement does not begin once more. Deep ones are dropped by recursion.
    fn go_on_as_it_is(&mut self) {
        if let Some(frugal) = self.frugal.take() {
            self.held.workers.on_stack(|| drop(frugal));
        }
    }

    /// Ends what runs. Deep expressions are dropped by recursion.
    fn end(&mut self) {
        let nothing = Arc::new(EmptyExec::new(Arc::clone(&self.schema)));
        let (stream, plan) = (self.stream.take(), std::mem::replace(&mut self.plan, nothing));
        self.held.progress.end();
        self.held.workers.on_stack(|| drop((stream, plan)));
    }

    /// Ends the statement, and says what it has done and how long it took.
    #[doc(hidden)]
    pub fn statistics(&mut self) -> Statistics {
        // What operators were about to do is counted when they are dropped.
        self.stream = None;
        let measured = self.measured();
        Statistics::of(&self.plan, &measured, self.planning, self.execution, self.rows)
    }

    /// The plan with what other machines have counted, who tell it at the end.
    #[cfg(feature = "cluster")]
    fn measured(&self) -> Arc<dyn ExecutionPlan> {
        let plan = || Arc::clone(&self.plan);
        if !self.ended {
            return plan();
        }
        let format = DistributedMetricsFormat::PerTask;
        let measuring = rewrite_distributed_plan_with_metrics(plan(), format);
        let measured = self.held.workers.run(&self.held.canceller, measuring);
        measured.ok().and_then(Result::ok).unwrap_or_else(plan)
    }

    #[cfg(not(feature = "cluster"))]
    fn measured(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.plan)
    }

    /// Names and types of the answer. Without columns (`SET`, `CREATE VIEW`) there is nothing to
    /// print.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The physical plan with what its operators have counted so far, as `EXPLAIN ANALYZE` shows
    /// it.
    pub fn explain(&self) -> String {
        datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(
            self.plan.as_ref(),
        )
        .indent(false)
        .to_string()
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut()?;
        let started = Instant::now();
        let item = self.held.workers.run(&self.held.canceller, stream.next());
        self.execution += started.elapsed();
        let item = match item {
            Ok(Some(Ok(batch))) => {
                self.rows += batch.num_rows() as u64;
                if self.rows > 0 {
                    self.go_on_as_it_is();
                }
                return Some(Ok(batch));
            }
            Ok(Some(Err(error))) => match self.begin_frugally(self.located(error.into())) {
                Ok(()) => return self.next(),
                Err(error) => Some(Err(error)),
            },
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => Some(Err(error)),
        };
        self.stream = None;
        item
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        self.end();
        self.go_on_as_it_is();
    }
}

impl std::fmt::Debug for BatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}
