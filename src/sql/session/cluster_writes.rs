//! Statements of a session that write to tables of a cluster.
//!
//! Where this stands on the road of a query: behind planning, in the place of `execution`, which
//! writes to a store. Rows of INSERT and CREATE TABLE are those of a load over the cluster
//! (`cluster::inserts`); DELETE and UPDATE run where the rows are (`cluster::changes`), and of a
//! table in copies on a copy that is made here. A statement whose table is another one by the time
//! that machines are asked is planned once more: nothing is stored by then.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;

use super::execution::Run;
use super::planned::{OverCluster, Planned};
use super::{Engine, Session};
use crate::error::{Error, Result};
use crate::ingest::load::{LoadOptions, load_batches};
use crate::maintain::ModifyOptions;
use crate::model::Schema;
use crate::query::Recorder;
use crate::sql::cluster::changes::{SentChange, begin_drop};
use crate::sql::cluster::description::Placement;
use crate::sql::cluster::inserts::ClusterWrite;
use crate::sql::cluster::nodes::{CHANGED, Nodes};
use crate::sql::run::provider::StoreProvider;
use crate::sql::work::cancel::Canceller;
use crate::sql::write::modify::Modify;
use crate::sql::write::{Write, already_exists, empty_answer, row_count_answer};

/// How often a statement is planned once more.
const MOST_TIMES: u32 = 16;

/// The number of rows that were added or changed; `None` of a statement that says none.
type Rows = Option<u64>;

impl Session {
    /// Runs a statement that writes to a cluster; `times` says how often it was planned before.
    pub(super) fn write_over_cluster(
        &self,
        planned: Planned,
        run: &Run,
        times: u32,
    ) -> Result<OverCluster> {
        let Some(engine) = &self.over_cluster else { return Ok(OverCluster::NotWritten(planned)) };
        let Some(nodes) = engine.nodes() else { return Ok(OverCluster::NotWritten(planned)) };
        let done = match planned {
            Planned::Write(write) => self.insert_over_cluster(&nodes, *write, run),
            Planned::Modify(modify) => self.modify_over_cluster(engine, &nodes, &modify),
            Planned::DropInCluster { name, if_exists } => {
                self.drop_over_cluster(&nodes, &name, if_exists).map(|()| Some(None))
            }
            planned => return Ok(OverCluster::NotWritten(planned)),
        };
        let can_repeat = times < MOST_TIMES && !self.tables.reads_stdin() && !self.tables.is_fed();
        let rows: Rows = match done {
            Ok(Some(rows)) => rows,
            Ok(None) if can_repeat => return Ok(OverCluster::Changed),
            Err(Error::Busy(what)) if can_repeat && what.contains(CHANGED) => {
                return Ok(OverCluster::Changed);
            }
            Ok(None) => {
                let what =
                    "the table is not the one for which the statement was planned; try again";
                return Err(Error::Busy(what.into()));
            }
            Err(error) => return Err(error),
        };
        let answer = rows.map_or_else(|| Ok(empty_answer()), row_count_answer)?;
        // The answer about committed rows is delivered even if the session has been cancelled.
        let answer = self.start(answer, &Canceller::default(), run)?;
        Ok(OverCluster::Done(answer.of_committed()))
    }

    /// Stores the rows of a statement. `None` if the table has other columns by now.
    fn insert_over_cluster(
        &self,
        nodes: &Arc<Nodes>,
        write: Write,
        run: &Run,
    ) -> Result<Option<Rows>> {
        let pins = self.tables.pins();
        let (options, _memory) = self.load_options()?;
        let cancelled = self.own.canceller.flag();
        let mut rows = ClusterWrite::begin(nodes, &write.table, &self.own.temp_dir)?;
        let create = write.create;
        if let Some(create) = create
            && rows.exists()?
        {
            return already_exists(&write.table, create).map(|()| Some(None));
        }
        let (round, writer) = rows.rows(create.map(|_| &write.columns))?;
        if create.is_none() && *writer.schema() != write.columns {
            return Ok(None);
        }
        let stored = write.store(writer, &options, |plan| self.answer(plan, pins, run))?;
        rows.finish(round, self.wait_of_nodes(), &cancelled)?;
        Ok(Some(create.is_none().then_some(stored)))
    }

    /// Deletes or changes rows. `None` if the table is another one by now.
    fn modify_over_cluster(
        &self,
        engine: &Engine,
        nodes: &Arc<Nodes>,
        modify: &Modify,
    ) -> Result<Option<Rows>> {
        let Some(change) = &modify.remote else {
            return Err(Error::Unsupported(
                "a change of a table that is not of the cluster".into(),
            ));
        };
        let wait = self.wait_of_nodes();
        let (placement, _) = nodes.description.placed(&modify.table);
        if placement == Placement::Copies {
            return self.modify_copies(nodes, modify, wait);
        }
        let zone = self.context.state_ref().read().config_options().execution.time_zone.clone();
        let is_exact = !modify.base.reads_nothing();
        let sent = SentChange::new(change, is_exact, zone.as_deref(), &engine.functions())?;
        let workers = &self.own.workers;
        let begun = workers.run(&self.own.canceller, sent.begin(nodes, wait))??;
        let rows = begun.rows;
        let then = match change.set {
            Some(_) => "the same statement would change these rows once more",
            None if is_exact => {
                "the same statement would choose rows by those that are left, because it reads the \
                 table that it deletes from"
            }
            None => "the same statement goes on with the others",
        };
        // From here on, it is not stopped in the middle.
        workers.run(&Canceller::default(), begun.commit("changed their rows", then))??;
        Ok(Some(Some(rows)))
    }

    /// The same of a table in copies.
    fn modify_copies(
        &self,
        nodes: &Arc<Nodes>,
        modify: &Modify,
        wait: Option<Duration>,
    ) -> Result<Option<Rows>> {
        let cancelled = self.own.canceller.flag();
        let recorder = Arc::<Recorder>::default();
        let (threads, memory_limit) = (self.threads, Some(self.memory));
        let options =
            ModifyOptions { threads, memory_limit, cancelled: Arc::clone(&cancelled), recorder };
        let mut copies = ClusterWrite::begin(nodes, &modify.table, &self.own.temp_dir)?;
        let changed = copies.change_copies(wait, &cancelled, |table, writer| {
            match modify.base.holds(&writer) {
                true => modify.change(table, writer, &options).map(Some),
                false => Ok(None),
            }
        })?;
        Ok(changed.map(Some))
    }

    fn drop_over_cluster(&self, nodes: &Nodes, name: &str, if_exists: bool) -> Result<()> {
        let workers = &self.own.workers;
        let begin = begin_drop(nodes, name, self.wait_of_nodes());
        let Some(begun) = workers.run(&self.own.canceller, begin)?? else {
            return match () {
                () if self.tables.stored_name(name)?.is_some() => {
                    Err(Error::InvalidInput(format!(
                        "{name} is a table of this store, and not of the cluster; run the \
                         statement without --cluster"
                    )))
                }
                () if if_exists => Ok(()),
                () => Err(self.tables.missing(name)),
            };
        };
        let then = "the same statement drops it on the others";
        workers.run(&Canceller::default(), begun.commit("dropped their table", then))?
    }

    /// How long machines wait for other writers; `None` for as long as they do otherwise.
    fn wait_of_nodes(&self) -> Option<Duration> {
        Some(self.lock_wait().most).filter(|wait| !wait.is_zero())
    }

    /// The name and the columns of a table of the cluster, to which rows are to be added.
    pub(super) fn columns_in_cluster(&self, name: &str) -> Result<(String, Schema)> {
        if self.refuses_writes() {
            return Err(Error::InvalidInput(
                "this session is read-only: nothing is written".into(),
            ));
        }
        self.tables.begin_statement();
        let found = self.own.workers.run(&self.own.canceller, self.tables.find(name))?;
        let columns = found.map(|found| {
            let found = found?;
            let of_cluster = found.downcast_ref::<StoreProvider>().filter(|it| !it.table.is_here());
            let snapshot = of_cluster?.table.snapshot();
            Some((snapshot.table_name().to_owned(), snapshot.schema().clone()))
        });
        self.tables.end_statement();
        columns?.ok_or_else(|| self.tables.missing(name))
    }

    /// Stores rows that a program has, in a table of the cluster with these columns, which is a new
    /// one if it `creates` it; returns how many.
    pub(super) fn rows_over_cluster(
        &self,
        table: &str,
        columns: &Schema,
        creates: bool,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<u64> {
        let nodes = self.over_cluster.as_ref().and_then(Engine::nodes);
        let Some(nodes) = nodes else { return Err(self.tables.missing(table)) };
        let (options, _memory) = self.load_options()?;
        let cancelled = self.own.canceller.flag();
        let options = LoadOptions { cancelled: Arc::clone(&cancelled), ..options };
        let mut rows = ClusterWrite::begin(&nodes, table, &self.own.temp_dir)?;
        let (round, writer) = rows.rows(creates.then_some(columns))?;
        if writer.schema() != columns {
            return Err(Error::InvalidInput(format!(
                "the columns of table '{table}' have changed meanwhile; try again"
            )));
        }
        let stored = load_batches(writer, batches, &options)?.rows_stored;
        rows.finish(round, self.wait_of_nodes(), &cancelled)?;
        Ok(stored)
    }
}
