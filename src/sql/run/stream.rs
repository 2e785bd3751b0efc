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
    frugal: Option<Begun>,
    /// How to answer of tables that have changed since it was planned, as long as no row has come.
    anew: Option<Begun>,
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

/// Plans and starts a statement once more.
pub(crate) type Begun =
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
            anew: None,
            committed: false,
            ended: false,
        }
    }

    /// The same answer; whenever it needs more memory than there is, it is begun anew in this way.
    pub(crate) fn or(mut self, frugal: Begun) -> Self {
        self.frugal = Some(frugal);
        self
    }

    /// The same answer; whenever other machines have tables other than those for which it was
    /// planned, it is begun anew in this way.
    pub(crate) fn or_anew(mut self, anew: Option<Begun>) -> Self {
        self.anew = anew;
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

    /// Begins once more, in the way that mends an error. Returns the error if there is none.
    fn begin_once_more(&mut self, error: Error) -> Result<()> {
        let has_way = match error {
            Error::LimitExceeded(_) => self.frugal.is_some(),
            Error::Busy(_) => self.anew.is_some(),
            _ => false,
        };
        if !has_way {
            return Err(error);
        }
        // Gives the memory back.
        self.end();
        let way = match error {
            Error::Busy(_) => &mut self.anew,
            _ => &mut self.frugal,
        };
        let Some(Ok((stream, plan))) = way.as_mut().map(|begin| begin()) else {
            return Err(error);
        };
        // The columns are known already.
        if stream.schema() != self.schema {
            self.held.workers.on_stack(|| drop((stream, plan)));
            return Err(error);
        }
        self.held.progress.begin(&plan);
        (self.stream, self.plan) = (Some(stream), plan);
        Ok(())
    }

    /// From now on, the statement does not begin once more. Deep ones are dropped by recursion.
    fn go_on_as_it_is(&mut self) {
        let ways = (self.frugal.take(), self.anew.take());
        if ways.0.is_some() || ways.1.is_some() {
            self.held.workers.on_stack(|| drop(ways));
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
            Ok(Some(Err(error))) => match self.begin_once_more(self.located(error.into())) {
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

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::stream;

    use super::*;
    use crate::{Parameters, Session, SessionOptions};

    /// What a plan gives: some rows of a number, and perhaps what ends it.
    fn giving(
        schema: &SchemaRef,
        rows: &[i64],
        error: Option<Error>,
    ) -> (SendableRecordBatchStream, Arc<dyn ExecutionPlan>) {
        let plan = Arc::new(EmptyExec::new(Arc::clone(schema)));
        let numbers = Arc::new(Int64Array::from(rows.to_vec()));
        let batch = RecordBatch::try_new(Arc::clone(schema), vec![numbers]).unwrap();
        let rows = (batch.num_rows() > 0).then_some(Ok(batch));
        let items = rows.into_iter().chain(error.map(|error| Err(error.into())));
        let items = stream::iter(items.collect::<Vec<_>>());
        (Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), items)), plan)
    }

    fn changed() -> Option<Error> {
        Some(Error::Busy("t has changed; try again".into()))
    }

    #[test]
    fn a_statement_begins_anew_as_long_as_no_row_has_come() {
        let session = Session::new(&SessionOptions::default()).unwrap();
        let statement = session.parse("SELECT 1::BIGINT AS one").unwrap().remove(0);
        // The plans, one after the other, and what comes out.
        let run = |plans: Vec<(Vec<i64>, Option<Error>)>| {
            let mut answer = session.execute(&statement, &Parameters::default()).unwrap();
            let schema = answer.schema();
            let mut plans = plans.into_iter();
            let mut next = move || {
                let (rows, error) = plans.next()?;
                Some(giving(&schema, &rows, error))
            };
            answer.stream = next().map(|(stream, _)| stream);
            let none = || Error::Unsupported("often enough".into());
            let mut answer = answer.or_anew(Some(Box::new(move || next().ok_or_else(none))));
            let mut rows = 0;
            let failed = answer.try_for_each(|batch| batch.map(|batch| rows += batch.num_rows()));
            (rows, failed)
        };
        let (rows, failed) =
            run(vec![(vec![], changed()), (vec![], changed()), (vec![1, 2], None)]);
        assert!(rows == 2 && failed.is_ok(), "{rows} {failed:?}");
        // Rows that are out would come twice.
        let (rows, failed) = run(vec![(vec![1], changed()), (vec![1, 2], None)]);
        assert!(rows == 1 && matches!(failed, Err(Error::Busy(_))), "{rows} {failed:?}");
        // It has an end.
        let (rows, failed) = run(vec![(vec![], changed()), (vec![], changed())]);
        assert!(rows == 0 && matches!(failed, Err(Error::Busy(_))), "{rows} {failed:?}");
        // Other failures stay.
        let gone = Some(Error::Unreachable("node b is gone".into()));
        let (_, failed) = run(vec![(vec![], gone), (vec![1], None)]);
        assert!(matches!(failed, Err(Error::Unreachable(_))), "{failed:?}");
    }
}
