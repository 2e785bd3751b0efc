//! What a statement does, once it is planned.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::error::Result;
#[cfg(feature = "cluster")]
use crate::sql::run::stream::BatchStream;
use crate::sql::syntax::rewrite;
use crate::sql::write::Write;
use crate::sql::write::base::Base;
use crate::sql::write::modify::Modify;

/// What a statement does.
#[derive(Debug)]
pub(in crate::sql) enum Planned {
    /// Answers with the rows of this plan.
    Answer(Arc<dyn ExecutionPlan>),
    /// Writes to a table.
    Write(Box<Write>),
    /// Deletes or changes rows of a table.
    Modify(Box<Modify>),
    /// Drops a table of the store.
    Drop(String),
    /// Drops a table of a cluster.
    DropInCluster {
        name: String,
        #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "there is no cluster"))]
        if_exists: bool,
    },
    /// Keeps a view in the store. Where there is one of this name, it is `replaced` or left as it
    /// is; without a word of that, it is an error.
    KeepView { name: String, statement: String, replaced: Option<bool> },
    /// Drops a view of the store.
    DropView(String),
    /// Makes a temporary table.
    KeepRows(Box<Write>),
    /// Drops several tables or views, all of which are there.
    DropAll(Vec<Dropped>),
}

/// What is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sql) enum Dropped {
    /// A table of the store.
    Table(String),
    /// A view of the store.
    View(String),
    /// A temporary view, a temporary table or an external one.
    OfSession(String),
}

impl Dropped {
    pub(super) fn name(&self) -> &str {
        match self {
            Dropped::Table(name) | Dropped::View(name) | Dropped::OfSession(name) => name,
        }
    }
}

impl Planned {
    /// The table of the store that is written.
    pub(super) fn written(&self) -> Option<&str> {
        match self {
            Planned::Answer(_)
            | Planned::DropInCluster { .. }
            | Planned::KeepView { .. }
            | Planned::DropView(_)
            | Planned::KeepRows(_)
            | Planned::DropAll(_) => None,
            Planned::Write(write) => Some(&write.table),
            Planned::Modify(modify) => Some(&modify.table),
            Planned::Drop(table) => Some(table),
        }
    }

    /// What it was planned on, of a table that it changes or replaces.
    pub(super) fn base(&self) -> Option<&Base> {
        match self {
            Planned::Write(write) => write.base.as_ref(),
            Planned::Modify(modify) => Some(&modify.base),
            Planned::Answer(_)
            | Planned::Drop(_)
            | Planned::DropInCluster { .. }
            | Planned::KeepView { .. }
            | Planned::DropView(_)
            | Planned::KeepRows(_)
            | Planned::DropAll(_) => None,
        }
    }

    /// The same with other names for some columns of the answer.
    pub(super) fn with_names(self, names: &HashMap<String, String>) -> Result<Planned> {
        match self {
            Planned::Answer(plan) => Ok(Planned::Answer(rewrite::restore(plan, names)?)),
            other => Ok(other),
        }
    }
}

/// What became of a statement over a cluster.
#[cfg(feature = "cluster")]
pub(super) enum OverCluster {
    /// It does not write, or not to a cluster.
    NotWritten(Planned),
    Done(BatchStream),
    /// Its table is not the one for which it was planned: it is to be planned once more.
    Changed,
}
