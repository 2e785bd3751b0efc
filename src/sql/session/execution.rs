//! From a planned statement to its answer: starts plans, has rows stored, and waits for other
//! writers.
//!
//! A statement that changes a table holds the writer's lock before it writes, and is right for the
//! table that it finds then: if another writer has committed since it was planned, and it has read
//! that table, it is planned once more under the lock. So no writer comes in between, and a steady
//! stream of other writers does not keep it from coming to its end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion::catalog::SchemaProvider as _;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};

#[cfg(feature = "cluster")]
use super::planned::OverCluster;
use super::planned::{Dropped, Planned};
use super::statement::StatementPlanner;
use super::{Session, Statement, frugal};
use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::arrange::Arrange;
use crate::ingest::load::LoadOptions;
use crate::maintain::{ModifyOptions, drop_table};
use crate::query::Recorder;
use crate::sql::keys::expressions::SqlExpressions;
use crate::sql::names::catalog::{Pins, Tables};
use crate::sql::names::lock;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::settings::Settings;
use crate::sql::run::statistics::task_context;
use crate::sql::run::stream::{BatchStream, Begun, Held};
use crate::sql::work::cancel::Canceller;
use crate::sql::work::workers::Working;
use crate::sql::write::modify::Modify;
use crate::sql::write::{Write, empty_answer};
use crate::store::TableWriter;

/// A statement that runs.
pub(super) struct Run<'a> {
    pub(super) statement: &'a Statement,
    pub(super) parameters: &'a Parameters,
    pub(super) timed: bool,
    /// When planning began.
    started: Instant,
    running: Arc<Running>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        session: &Session,
        statement: &'a Statement,
        parameters: &'a Parameters,
    ) -> Run<'a> {
        let (tables, _working) = (Arc::clone(&session.tables), session.own.workers.keep());
        let running = Arc::new(Running { tables, _working });
        Run { statement, parameters, timed: false, started: Instant::now(), running }
    }
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
    /// Runs a statement. Where it has waited for another writer, or one has changed the table that
    /// it reads and writes, it is planned once more: what it reads and what its names mean is as
    /// that writer has left it.
    pub(super) fn run_statement(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        timed: bool,
    ) -> Result<BatchStream> {
        self.memory_used.begin();
        let mut wait = self.lock_wait();
        let (mut held, mut gathers) = (None, true);
        #[cfg(feature = "cluster")]
        let mut times = 0;
        loop {
            self.own.widest.take();
            let run = Run { timed, ..Run::new(self, statement, parameters) };
            let planned = self.plan_or_find(statement, parameters)?;
            #[cfg(feature = "cluster")]
            let planned = match self.write_over_cluster(planned, &run, times)? {
                OverCluster::NotWritten(planned) => planned,
                OverCluster::Done(answer) => return Ok(answer),
                OverCluster::Changed => {
                    times += 1;
                    continue;
                }
            };
            let written = planned.written().map(str::to_owned);
            let is_there = planned.base().is_some();
            let planned = match planned {
                Planned::Write(write) if gathers && held.is_none() && self.gathers(&write) => {
                    match self.gather(*write, &run, &wait)? {
                        Some(answer) => return Ok(answer),
                        // It is planned anew; should the table change once more, under its lock.
                        None => gathers = false,
                    }
                    continue;
                }
                planned => planned,
            };
            let done = match self.writer_for(&planned, held.take()) {
                Ok((writer, true)) => self.run_planned(planned, writer, &run),
                Ok((writer, false)) => {
                    // To plan it once more would give the same.
                    if let Some(table) =
                        written.filter(|it| self.tables.kept_generation(it).is_some())
                    {
                        self.own.workers.on_stack(|| drop(planned));
                        return Err(changed_since(&table));
                    }
                    held = writer;
                    self.own.workers.on_stack(|| drop(planned));
                    continue;
                }
                Err(error) => {
                    self.own.workers.on_stack(|| drop(planned));
                    Err(error)
                }
            };
            match (done, written) {
                (Err(Error::Busy(_)), Some(table)) if !wait.most.is_zero() => {
                    drop(run);
                    held = self.wait_for_writer(&table, is_there, &mut wait)?;
                }
                (done, _) => return done,
            }
        }
    }

    /// How to wait for other writers.
    pub(super) fn lock_wait(&self) -> LockWait {
        let most = Settings::of(self.context.state_ref().read().config_options()).wait;
        LockWait { most, ..self.wait.clone() }
    }

    /// The writer of the table that a statement changes, and whether the statement is right for
    /// what is there now. `held` is the one under whose lock it was planned.
    fn writer_for(
        &self,
        planned: &Planned,
        held: Option<TableWriter>,
    ) -> Result<(Option<TableWriter>, bool)> {
        let Some((table, base)) = planned.written().zip(planned.base()) else {
            return Ok((None, true));
        };
        let (writer, is_under_lock) = match held.filter(|held| held.table_name() == table) {
            Some(writer) => (writer, true),
            None => (self.tables.store().ok_or_else(no_store)?.table(table)?.writer(None)?, false),
        };
        let is_right = match (self.tables.kept_generation(table), planned) {
            // What is changed are the rows that statements before have seen.
            (Some(kept), Planned::Modify(_)) => {
                writer.base().is_some_and(|root| root.generation == kept) && base.holds(&writer)
            }
            (Some(_), _) => base.holds(&writer),
            (None, _) => is_under_lock || base.holds(&writer),
        };
        Ok((Some(writer), is_right))
    }

    /// Waits for the writer of a table; returns the next one, if the table is there to be changed.
    fn wait_for_writer(
        &self,
        table: &str,
        is_there: bool,
        wait: &mut LockWait,
    ) -> Result<Option<TableWriter>> {
        let since = Instant::now();
        let store = self.tables.store().ok_or_else(no_store)?;
        let table = store.clone().with_wait(wait.clone()).table(table)?;
        let writer = match is_there.then(|| table.writer(None)) {
            Some(Ok(writer)) => Some(writer),
            // The other one has dropped it.
            Some(Err(Error::NotFound(_))) => None,
            Some(Err(error)) => return Err(error),
            None => table.wait_for_writer().map(|()| None)?,
        };
        let left = wait.most.saturating_sub(since.elapsed());
        // Another writer may have come first, and then the time is over.
        wait.most = left.max(Duration::from_nanos(1));
        Ok(writer)
    }

    fn run_planned(
        &self,
        planned: Planned,
        writer: Option<TableWriter>,
        run: &Run,
    ) -> Result<BatchStream> {
        match planned {
            Planned::Answer(plan) => {
                let pins = Arc::new(Mutex::new(self.tables.pins()));
                let anew = self.anew(run, Arc::clone(&pins));
                Ok(self.answer_of(plan, pins, run)?.or_anew(anew))
            }
            Planned::Write(write) => self.write(*write, writer, run),
            Planned::Modify(modify) => self.modify(*modify, writer, run),
            Planned::Drop(table) => {
                let store = self.tables.store().ok_or_else(no_store)?;
                self.release(&table);
                drop_table(store, &table)?;
                self.start(empty_answer(), &Canceller::default(), run)
            }
            Planned::DropInCluster { name, .. } => Err(self.tables.missing(&name)),
            Planned::KeepView { name, statement, replaced } => {
                let store = self.tables.store().ok_or_else(no_store)?;
                store.keep_view(&name, &statement, replaced)?;
                self.start(empty_answer(), &Canceller::default(), run)
            }
            Planned::KeepRows(write) => self.keep_rows(*write, run),
            Planned::DropAll(dropped) => {
                dropped.into_iter().try_for_each(|one| self.drop_one(one))?;
                self.start(empty_answer(), &Canceller::default(), run)
            }
            Planned::DropView(name) => {
                self.tables.store().ok_or_else(no_store)?.drop_view(&name)?;
                self.start(empty_answer(), &Canceller::default(), run)
            }
        }
    }

    /// Drops one of several tables or views. It waits for a writer of a table, because others are
    /// gone by then.
    fn drop_one(&self, dropped: Dropped) -> Result<()> {
        match dropped {
            Dropped::Table(table) => {
                let store = self.tables.store().ok_or_else(no_store)?;
                self.release(&table);
                drop_table(&store.clone().with_wait(self.lock_wait()), &table)
            }
            Dropped::View(name) => {
                self.tables.store().ok_or_else(no_store)?.drop_view(&name).map(drop)
            }
            Dropped::OfSession(name) => Ok(self.tables.deregister_table(&name).map(drop)?),
        }
    }

    /// Starts a plan.
    pub(super) fn start(
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
    pub(super) fn answer(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        pins: Pins,
        run: &Run,
    ) -> Result<BatchStream> {
        self.answer_of(plan, Arc::new(Mutex::new(pins)), run)
    }

    /// The same, of a statement whose names may come to mean something else.
    fn answer_of(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        pins: Arc<Mutex<Pins>>,
        run: &Run,
    ) -> Result<BatchStream> {
        let thrift = frugal::Thrift::new(&self.context, &plan);
        let answer = self.start(plan, &self.own.canceller, run)?;
        // The standard input cannot be read twice.
        if self.tables.reads_stdin() {
            return Ok(answer);
        }
        Ok(answer.or(self.frugally(run, pins, thrift)))
    }

    /// How to answer a statement with less memory. It reads the same generations of tables.
    fn frugally(&self, run: &Run, pins: Arc<Mutex<Pins>>, mut thrift: frugal::Thrift) -> Begun {
        let (context, memory, timed) = (self.context.clone(), self.memory, run.timed);
        let (tables, prepared) = (Arc::clone(&self.tables), Arc::clone(&self.prepared));
        let (own, values) = (Arc::clone(&self.own), run.parameters.clone());
        let parsed = Arc::clone(&run.statement.parsed);
        // A writer keeps its memory.
        let kept = context.runtime_env().memory_pool.reserved() as u64;
        let free = usize::try_from(kept + self.memory / 4).unwrap_or(usize::MAX);
        Box::new(move || {
            let context = thrift
                .session(&context, memory)
                .ok_or_else(|| Error::Unsupported("no plan takes less memory".into()))?;
            frugal::wait_for_memory(&context, free);
            tables.pin(lock(&pins).clone());
            let (context, tables, prepared) = (&context, &*tables, &*prepared);
            let planner = StatementPlanner::new(context, tables, prepared);
            // It is large, and this may be deep in the stack of a writer.
            let starting = Box::pin(frugal::start(planner, &parsed.statement, &values, timed));
            own.workers.run(&own.canceller, starting)?
        })
    }

    fn write(&self, write: Write, writer: Option<TableWriter>, run: &Run) -> Result<BatchStream> {
        let store = self.tables.store().ok_or_else(no_store)?;
        // They go with the rows, before the commit.
        let pins = self.tables.pins();
        self.release(&write.table);
        let (options, reservation) = self.load_options()?;
        let answer = write.run(store, writer, &options, |plan| self.answer(plan, pins, run))?;
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

    fn modify(
        &self,
        modify: Modify,
        writer: Option<TableWriter>,
        run: &Run,
    ) -> Result<BatchStream> {
        let store = self.tables.store().ok_or_else(no_store)?;
        let writer = writer.map_or_else(|| store.table(&modify.table)?.writer(None), Ok)?;
        self.release(&modify.table);
        let recorder = Arc::<Recorder>::default();
        self.progress.begin_walk(Arc::clone(&recorder));
        let (threads, cancelled) = (self.threads, self.own.canceller.flag());
        let memory_limit = Some(self.memory);
        let options = ModifyOptions { threads, memory_limit, cancelled, recorder };
        let answer = modify.run(store, writer, &options);
        self.progress.end();
        let answer = self.start(answer?, &Canceller::default(), run)?;
        Ok(answer.of_committed())
    }
}

#[cold]
fn changed_since(table: &str) -> Error {
    Error::Busy(format!(
        "{table} was changed by another since it was first read, and is to be read as it was then; \
         end the block and try again"
    ))
}

#[cold]
pub(super) fn no_store() -> Error {
    Error::InvalidInput(
        "there is no store to write to; name one before the statements: sty query STORE 'CREATE \
         TABLE …'"
            .into(),
    )
}
