//! From a planned statement to its answer: starts plans, has rows stored, and waits for the writers
//! of other processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};

use super::planned::Planned;
use super::statement::StatementPlanner;
use super::{Session, Statement, frugal};
use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::arrange::Arrange;
use crate::ingest::load::LoadOptions;
use crate::maintain::{ModifyOptions, drop_table};
use crate::query::Recorder;
use crate::sql::keys::expressions::SqlExpressions;
use crate::sql::names::catalog::Tables;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::settings::Settings;
use crate::sql::run::statistics::task_context;
use crate::sql::run::stream::{BatchStream, Frugal, Held};
use crate::sql::work::cancel::Canceller;
use crate::sql::work::workers::Working;
use crate::sql::write::modify::Modify;
use crate::sql::write::{Write, empty_answer};

/// A statement that runs.
struct Run<'a> {
    statement: &'a Statement,
    parameters: &'a Parameters,
    timed: bool,
    /// When planning began.
    started: Instant,
    running: Arc<Running>,
}

/// Keeps what a statement needs until the last of it is dropped: the threads of its session, and
/// the tables that it has opened.
struct Running {
    tables: Arc<Tables>,
    _working: Working,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tables.end_statement();
    }
}

/// The most memory that an ingest takes if no limit is lower; and that of one among several.
const WRITE_BYTES: u64 = 1 << 30;
const SHARED_WRITE_BYTES: u64 = 128 << 20;

impl Session {
    /// Runs a statement. Where it has waited for the writer of another process, it is planned once
    /// more: what it reads and what its names mean is as that writer has left it.
    pub(super) fn run_statement(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        timed: bool,
    ) -> Result<BatchStream> {
        let most = Settings::of(self.context.state_ref().read().config_options()).wait;
        let mut wait = LockWait { most, ..self.wait.clone() };
        loop {
            self.own.widest.take();
            let (tables, _working) = (Arc::clone(&self.tables), self.own.workers.keep());
            let running = Arc::new(Running { tables, _working });
            let run = Run { statement, parameters, timed, started: Instant::now(), running };
            let planned = self.plan_or_find(statement, parameters)?;
            let written = planned.written().map(str::to_owned);
            let done = self.run_planned(planned, &run);
            match (done, written) {
                (Err(Error::Busy(_)), Some(table)) if !wait.most.is_zero() => {
                    drop(run);
                    let since = Instant::now();
                    let store = self.tables.store().ok_or_else(no_store)?;
                    store.clone().with_wait(wait.clone()).table(&table)?.wait_for_writer()?;
                    let left = wait.most.saturating_sub(since.elapsed());
                    // Another writer may have come first, and then the time is over.
                    wait.most = left.max(Duration::from_nanos(1));
                }
                (done, _) => return done,
            }
        }
    }

    fn run_planned(&self, planned: Planned, run: &Run) -> Result<BatchStream> {
        match planned {
            Planned::Answer(plan) => self.answer(plan, run),
            Planned::Write(write) => self.write(*write, run),
            Planned::Modify(modify) => self.modify(*modify, run),
            Planned::Drop(table) => {
                let store = self.tables.store().ok_or_else(no_store)?;
                self.release(&table);
                drop_table(store, &table)?;
                self.start(empty_answer(), &Canceller::default(), run)
            }
        }
    }

    /// Starts a plan.
    fn start(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        canceller: &Canceller,
        run: &Run,
    ) -> Result<BatchStream> {
        let context = task_context(&self.context, run.timed || plan.is::<AnalyzeExec>());
        let starting = async { execute_stream(Arc::clone(&plan), context) };
        let stream = self.own.workers.run(canceller, starting)??;
        let held = Held {
            workers: Arc::clone(&self.own.workers),
            canceller: canceller.clone(),
            progress: self.progress.clone(),
            temp_dir: self.own.temp_dir.clone(),
            running: Arc::clone(&run.running) as _,
        };
        Ok(BatchStream::new(stream, plan, run.started.elapsed(), held))
    }

    /// Starts the plan of a statement's rows, which is planned once more if it needs more memory
    /// than there is.
    fn answer(&self, plan: Arc<dyn ExecutionPlan>, run: &Run) -> Result<BatchStream> {
        let thrift = frugal::Thrift::new(&self.context, &plan);
        let answer = self.start(plan, &self.own.canceller, run)?;
        // The standard input cannot be read twice.
        if self.tables.reads_stdin() {
            return Ok(answer);
        }
        Ok(answer.or(self.frugally(run, thrift)))
    }

    /// How to answer a statement with less memory. It reads the same generations of tables.
    fn frugally(&self, run: &Run, mut thrift: frugal::Thrift) -> Frugal {
        let (context, memory, timed) = (self.context.clone(), self.memory, run.timed);
        let (tables, prepared) = (Arc::clone(&self.tables), Arc::clone(&self.prepared));
        let (own, values) = (Arc::clone(&self.own), run.parameters.clone());
        let statement = own.workers.on_stack(|| run.statement.parsed.statement.clone());
        let pins = tables.pins();
        // A writer keeps its memory.
        let kept = context.runtime_env().memory_pool.reserved() as u64;
        let free = usize::try_from(kept + self.memory / 4).unwrap_or(usize::MAX);
        Box::new(move || {
            let context = thrift
                .session(&context, memory)
                .ok_or_else(|| Error::Unsupported("no plan takes less memory".into()))?;
            frugal::wait_for_memory(&context, free);
            tables.pin(pins.clone());
            let (context, tables, prepared) = (&context, &*tables, &*prepared);
            let planner = StatementPlanner { context, tables, prepared, template: None };
            let starting = frugal::start(planner, &statement, &values, timed);
            own.workers.run(&own.canceller, starting)?
        })
    }

    fn write(&self, write: Write, run: &Run) -> Result<BatchStream> {
        let store = self.tables.store().ok_or_else(no_store)?;
        self.release(&write.table);
        let (options, reservation) = self.load_options()?;
        let answer = write.run(store, &options, |plan| self.answer(plan, run))?;
        drop(reservation);
        // The answer about committed rows is delivered even if the session has been cancelled.
        let answer = self.start(answer, &Canceller::default(), run)?;
        Ok(answer.of_committed())
    }

    /// How a statement stores rows, and the memory for it: half of the statement's, and an eighth
    /// where statements run beside each other, whose writers would leave nothing to queries.
    pub(super) fn load_options(&self) -> Result<(LoadOptions, MemoryReservation)> {
        let share = self.memory / if self.shares_memory { 8 } else { 2 };
        let most = if self.shares_memory { SHARED_WRITE_BYTES } else { WRITE_BYTES };
        let memory = MemoryConsumer::new("Write").register(&self.context.runtime_env().memory_pool);
        memory.try_grow(share.min(most) as usize)?;
        // If the table is partitioned by expressions, these decide where rows go.
        let expressions = SqlExpressions::stopped_by(self.own.canceller.flag());
        let options = LoadOptions {
            arrange: Arrange { compile: Some(Arc::new(expressions)), ..Arrange::default() },
            threads: self.threads,
            memory_limit: Some(share.min(most)).filter(|limit| *limit < WRITE_BYTES),
            ..LoadOptions::default()
        };
        Ok((options, memory))
    }

    fn modify(&self, modify: Modify, run: &Run) -> Result<BatchStream> {
        let store = self.tables.store().ok_or_else(no_store)?;
        self.release(&modify.table);
        let recorder = Arc::<Recorder>::default();
        self.progress.begin_walk(Arc::clone(&recorder));
        let (threads, cancelled) = (self.threads, self.own.canceller.flag());
        let memory_limit = Some(self.memory);
        let options = ModifyOptions { threads, memory_limit, cancelled, recorder };
        let answer = modify.run(store, &options);
        self.progress.end();
        let answer = self.start(answer?, &Canceller::default(), run)?;
        Ok(answer.of_committed())
    }
}

#[cold]
fn no_store() -> Error {
    Error::InvalidInput(
        "there is no store to write to; name one before the statements: sty query STORE 'CREATE \
         TABLE …'"
            .into(),
    )
}
