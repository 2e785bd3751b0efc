//! What a statement would read and change, without doing so.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use super::{Session, views_are_of_one_node};
use crate::error::{Error, Result};
use crate::maintain::ModifyOptions;
use crate::sql::names::catalog::files_refused;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::report::forecast;
use crate::sql::run::statistics::TableForecast;
use crate::sql::session::Statement;
use crate::sql::session::kept::Template;
use crate::sql::session::planned::{Dropped, Planned};
use crate::sql::session::statement::StatementPlanner;

/// What a statement would read and change.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    /// What each of the store's own operators would read.
    pub reads: Vec<TableForecast>,
    /// What would be changed, of statements that write.
    pub change: Option<PlannedChange>,
}

/// What a statement would change.
#[derive(Clone, Debug)]
pub struct PlannedChange {
    /// The table or view.
    pub table: String,
    /// `insert`, `create`, `delete`, `update`, `drop`, `create view` or `drop view`.
    pub action: &'static str,
    /// Rows that would be added, deleted or changed, where that is known before.
    pub rows: Option<u64>,
    /// Segments that would be written anew.
    pub segments_rewritten: u64,
    /// Segments that would go as a whole.
    pub segments_removed: u64,
    /// Bytes of the segments that would be written anew, as they are.
    pub bytes_rewritten: u64,
}

impl DryRun {
    fn of_view(table: String, action: &'static str) -> DryRun {
        let change = PlannedChange {
            table,
            action,
            rows: None,
            segments_rewritten: 0,
            segments_removed: 0,
            bytes_rewritten: 0,
        };
        DryRun { reads: Vec::new(), change: Some(change) }
    }
}

impl Session {
    /// Plans a statement, and says what it would read and change. Settings and temporary views are
    /// the session's own, and are made. The rows that a DELETE or UPDATE would change are looked
    /// for; nothing else is read but statistics, and samples of tables that are joined.
    pub fn dry_run(&self, statement: &Statement, parameters: &Parameters) -> Result<DryRun> {
        let planned = self.plan(statement, parameters, None)?;
        let reads = |plan: &Arc<dyn ExecutionPlan>| forecast(plan);
        let of_store = self.tables.store().filter(|_| !self.tables.has_cluster());
        if let Some((name, store)) = planned.written().zip(of_store) {
            store.table(name)?.check_writable()?;
        }
        match planned {
            Planned::Answer(plan) => Ok(DryRun { reads: reads(&plan)?, change: None }),
            Planned::Write(write) => {
                let change = PlannedChange {
                    table: write.table.clone(),
                    action: if write.create.is_some() { "create" } else { "insert" },
                    rows: write.rows.is_none().then_some(0),
                    segments_rewritten: 0,
                    segments_removed: 0,
                    bytes_rewritten: 0,
                };
                let reads = write.rows.as_ref().map_or(Ok(Vec::new()), reads)?;
                Ok(DryRun { reads, change: Some(change) })
            }
            Planned::Modify(_) | Planned::DropInCluster { .. } if self.tables.has_cluster() => {
                Err(Error::Unsupported(
                    "--dry-run of DELETE, UPDATE and DROP TABLE over a cluster; a SELECT with the \
                     same condition counts the rows"
                        .into(),
                ))
            }
            Planned::DropInCluster { name, .. } => Err(self.tables.missing(&name)),
            Planned::Modify(modify) => {
                let Some(store) = self.tables.store() else {
                    return Err(Error::Unsupported("this session has no store".into()));
                };
                let options = ModifyOptions {
                    threads: self.threads,
                    memory_limit: Some(self.memory),
                    cancelled: self.own.canceller.flag(),
                    ..ModifyOptions::default()
                };
                let (report, deletes) = modify.foresee(store, &options)?;
                let change = PlannedChange {
                    table: modify.table.clone(),
                    action: if deletes { "delete" } else { "update" },
                    rows: Some(report.rows),
                    segments_rewritten: report.rewritten,
                    segments_removed: report.removed,
                    bytes_rewritten: report.bytes_rewritten,
                };
                Ok(DryRun { reads: Vec::new(), change: Some(change) })
            }
            Planned::Drop(table) => {
                let Some(store) = self.tables.store() else {
                    return Err(Error::Unsupported("this session has no store".into()));
                };
                let snapshot = store.table(&table)?.snapshot()?;
                let change = PlannedChange {
                    action: "drop",
                    rows: Some(snapshot.rows()),
                    segments_rewritten: 0,
                    segments_removed: snapshot.segments()?.len() as u64,
                    bytes_rewritten: 0,
                    table,
                };
                Ok(DryRun { reads: Vec::new(), change: Some(change) })
            }
            Planned::KeepView { name, .. } => Ok(DryRun::of_view(name, "create view")),
            Planned::DropView(name) => Ok(DryRun::of_view(name, "drop view")),
            Planned::KeepRows(write) => {
                let reads = write.rows.as_ref().map_or(Ok(Vec::new()), reads)?;
                Ok(DryRun { reads, change: None })
            }
            Planned::DropAll(dropped) => {
                let names: Vec<&str> = dropped.iter().map(Dropped::name).collect();
                Ok(DryRun::of_view(names.join(", "), "drop"))
            }
        }
    }

    /// Plans a statement, unless it writes and the session does not.
    /// It notes in `template` what can be kept.
    pub(super) fn plan(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        template: Option<&Template>,
    ) -> Result<Planned> {
        if let Some(store) = self.tables.store().filter(|_| !statement.needs_no_store()) {
            super::check_store_exists(store)?;
        }
        if let Some(copy) = statement.copy_target() {
            if self.refuses_writes() {
                return Err(Error::InvalidInput(
                    "this session is read-only: COPY … TO writes no file".into(),
                ));
            }
            if self.tables.refuses_files() {
                return Err(files_refused(&copy.file));
            }
        }
        self.tables.begin_statement();
        self.plan_pinned(statement, parameters, template)
    }

    /// The same, where names that are pinned mean what they are pinned to.
    pub(super) fn plan_pinned(
        &self,
        statement: &Statement,
        parameters: &Parameters,
        template: Option<&Template>,
    ) -> Result<Planned> {
        self.own.workers.expect_levels(statement.parsed.levels);
        let planner = StatementPlanner {
            context: &self.context,
            tables: &self.tables,
            prepared: &self.prepared,
            template,
            view: statement.parsed.view.as_ref(),
            of_view: None,
        };
        // It is large, and is handed on many times, each of which may copy it to the stack.
        let planning = Box::pin(planner.plan(&statement.parsed.statement, parameters));
        match self.own.workers.run(&self.own.canceller, planning)?? {
            Planned::KeepView { .. } | Planned::DropView(_) if self.tables.has_cluster() => {
                Err(views_are_of_one_node())
            }
            Planned::KeepView { .. } if self.refuses_writes() => Err(Error::InvalidInput(
                "this session is read-only, and makes no view of the store; CREATE TEMP VIEW makes \
                 one that ends with the session"
                    .into(),
            )),
            Planned::Write(_)
            | Planned::Modify(_)
            | Planned::Drop(_)
            | Planned::DropInCluster { .. }
            | Planned::DropView(_)
            | Planned::DropAll(_)
                if self.refuses_writes() =>
            {
                Err(Error::InvalidInput("this session is read-only: no statement writes".into()))
            }
            Planned::Modify(_) if self.tables.skips_damaged() => Err(Error::InvalidInput(
                "DELETE and UPDATE do not run with --skip-damaged: a subquery that misses rows \
                 would change others"
                    .into(),
            )),
            planned => Ok(planned),
        }
    }
}
