//! From a planned statement to its answer: starts plans, has rows stored, and waits for the writers
//! of other processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryConsumer;
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
use crate::sql::names::parameters::Parameters;
use crate::sql::run::cancel::Canceller;
use crate::sql::run::settings::Settings;
use crate::sql::run::statistics::task_context;
use crate::sql::run::stream::{BatchStream, Frugal};
use crate::sql::write::modify::Modify;
use crate::sql::write::{Write, empty_answer};

/// The most memory that an ingest takes if no limit is lower.
const WRITE_BYTES: u64 = 1 << 30;

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
            self.widest.take_rows(0);
            let started = Instant::now();
            let planned = self.plan(statement, parameters)?;
            let written = planned.written().map(str::to_owned);
            let done = self.run_planned(planned, statement, parameters, timed, started);
            match (done, written) {
                (Err(Error::Busy(_)), Some(table)) if !wait.most.is_zero() => {
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

    fn run_planned(
        &self,
        planned: Planned,
        statement: &Statement,
        parameters: &Parameters,
        timed: bool,
        started: Instant,
    ) -> Result<BatchStream> {
        match planned {
            Planned::Answer(plan) => self.answer(plan, statement, parameters, timed, started),
            Planned::Write(write) => {
                let start = |plan| self.answer(plan, statement, parameters, timed, started);
                self.write(*write, start, timed, started)
            }
            Planned::Modify(modify) => self.modify(*modify, timed, started),
            Planned::Drop(table) => {
                let store = self.tables.store().ok_or_else(no_store)?;
                self.tables.release(&table);
                drop_table(store, &table)?;
                self.start(empty_answer(), &Canceller::default(), timed, started)
            }
        }
    }

    /// Starts a plan. Planning began at `started`.
    fn start(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        canceller: &Canceller,
        timed: bool,
        started: Instant,
    ) -> Result<BatchStream> {
        let context = task_context(&self.context, timed || plan.is::<AnalyzeExec>());
        let starting = async { execute_stream(Arc::clone(&plan), context) };
        let stream = self.workers.run(canceller, starting)??;
        let (workers, canceller) = (Arc::clone(&self.workers), canceller.clone());
        let (elapsed, temp_dir) = (started.elapsed(), self.temp_dir.clone());
        let progress = self.progress.clone();
        Ok(BatchStream::new(stream, plan, workers, canceller, progress, elapsed, temp_dir))
    }

    /// Starts the plan of a statement's rows, which is planned once more if it needs more memory
    /// than there is.
    fn answer(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        statement: &Statement,
        parameters: &Parameters,
        timed: bool,
        started: Instant,
    ) -> Result<BatchStream> {
        let thrift = frugal::Thrift::new(&self.context, &plan);
        let answer = self.start(plan, &self.canceller, timed, started)?;
        // The standard input cannot be read twice.
        if self.tables.reads_stdin() {
            return Ok(answer);
        }
        Ok(answer.or(self.frugally(statement, parameters, timed, thrift)))
    }

    /// How to answer a statement with less memory.
    fn frugally(
        &self,
        statement: &Statement,
        values: &Parameters,
        timed: bool,
        mut thrift: frugal::Thrift,
    ) -> Frugal {
        let (context, memory) = (self.context.clone(), self.memory);
        let (tables, prepared) = (Arc::clone(&self.tables), Arc::clone(&self.prepared));
        let (workers, canceller) = (Arc::clone(&self.workers), self.canceller.clone());
        let statement = workers.on_stack(|| statement.parsed.statement.clone());
        let values = values.clone();
        // A writer keeps its memory.
        let kept = context.runtime_env().memory_pool.reserved() as u64;
        let free = usize::try_from(kept + self.memory / 4).unwrap_or(usize::MAX);
        Box::new(move || {
            let context = thrift
                .session(&context, memory)
                .ok_or_else(|| Error::Unsupported("no plan takes less memory".into()))?;
            frugal::wait_for_memory(&context, free);
            let (context, tables, prepared) = (&context, &*tables, &*prepared);
            let planner = StatementPlanner { context, tables, prepared };
            workers.run(&canceller, frugal::start(planner, &statement, &values, timed))?
        })
    }

    /// Half of the memory is for the writer, half for the query that gives the rows.
    /// `start` starts the plan of the latter.
    fn write(
        &self,
        write: Write,
        start: impl Fn(Arc<dyn ExecutionPlan>) -> Result<BatchStream>,
        timed: bool,
        started: Instant,
    ) -> Result<BatchStream> {
        let store = self.tables.store().ok_or_else(no_store)?;
        self.tables.release(&write.table);
        let share = self.memory / 2;
        let reservation =
            MemoryConsumer::new("Write").register(&self.context.runtime_env().memory_pool);
        reservation.try_grow(share.min(WRITE_BYTES) as usize)?;
        let limit = Some(share).filter(|share| *share < WRITE_BYTES);
        // If the table is partitioned by expressions, these decide where rows go.
        let expressions = SqlExpressions::stopped_by(self.canceller.flag());
        let arrange = Arrange { compile: Some(Arc::new(expressions)), ..Arrange::default() };
        let options = LoadOptions {
            arrange,
            threads: self.threads,
            memory_limit: limit,
            ..LoadOptions::default()
        };
        let answer = write.run(store, &options, start)?;
        drop(reservation);
        // The answer about committed rows is delivered even if the session has been cancelled.
        let answer = self.start(answer, &Canceller::default(), timed, started)?;
        Ok(answer.of_committed())
    }

    fn modify(&self, modify: Modify, timed: bool, started: Instant) -> Result<BatchStream> {
        let store = self.tables.store().ok_or_else(no_store)?;
        let memory_limit = Some(self.memory);
        let cancelled = self.canceller.clone();
        self.tables.release(&modify.table);
        let recorder = Arc::<Recorder>::default();
        self.progress.begin_walk(Arc::clone(&recorder));
        let (threads, cancelled) = (self.threads, cancelled.flag());
        let options = ModifyOptions { threads, memory_limit, cancelled, recorder };
        let answer = modify.run(store, &options);
        self.progress.end();
        let answer = answer?;
        let answer = self.start(answer, &Canceller::default(), timed, started)?;
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
