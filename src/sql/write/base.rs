//! What a statement that writes was planned on: it is right for its table as long as this holds
//! once the writer's lock is held.
//!
//! Where this stands on the road of a query: between planning and writing. Another writer may
//! commit in between. A statement whose rows, or whose subqueries, are read from the table that it
//! changes is planned once more then, under the lock (`session::execution`).

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::LogicalPlan;

use crate::error::Result;
use crate::model::{Arrangement, Schema};
use crate::sql::run::provider::StoreProvider;
use crate::store::{Snapshot, TableWriter};

/// What a statement was planned on, of the table that it writes.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Base {
    /// The columns and the arrangement, unless they do not matter.
    table: Option<(Schema, Arrangement)>,
    reads: Reads,
}

/// What a statement reads of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sql) enum Reads {
    Nothing,
    Generation(u64),
    /// Some generation, by the name of an attached store.
    Some,
}

impl Base {
    /// A statement that changes a table, whose columns it knows.
    pub(in crate::sql) fn of(snapshot: &Snapshot, reads: Reads) -> Base {
        let arrangement = snapshot.root().arrangement.clone();
        Base { table: Some((snapshot.schema().clone(), arrangement)), reads }
    }

    /// A statement that replaces a table.
    pub(in crate::sql) fn of_replaced(reads: Reads) -> Base {
        Base { table: None, reads }
    }

    /// The same of a statement that reads this, too.
    pub(in crate::sql) fn and(self, reads: Reads) -> Base {
        Base { reads: self.reads.and(reads), ..self }
    }

    /// Whether nothing of the table is read.
    pub(in crate::sql) fn reads_nothing(&self) -> bool {
        self.reads == Reads::Nothing
    }

    /// Whether this is the table on which the statement was planned.
    pub(in crate::sql) fn holds(&self, writer: &TableWriter) -> bool {
        let is_read = match self.reads {
            Reads::Nothing => true,
            Reads::Generation(read) => writer.base().is_some_and(|root| root.generation == read),
            Reads::Some => false,
        };
        let is_same = |(schema, arrangement): &(Schema, Arrangement)| {
            writer.schema() == schema && writer.arrangement() == *arrangement
        };
        is_read && self.table.as_ref().is_none_or(is_same)
    }
}

impl Reads {
    fn and(self, other: Reads) -> Reads {
        match (self, other) {
            (Reads::Nothing, read) | (read, Reads::Nothing) => read,
            (read, other) if read == other => read,
            _ => Reads::Some,
        }
    }

    /// What a plan reads of a table, also in views and subqueries. Generations of the past stay as
    /// they are, and do not count.
    pub(in crate::sql) fn of(plan: &LogicalPlan, table: &str) -> Result<Reads> {
        let mut reads = Reads::Nothing;
        add(plan, table, &mut reads)?;
        Ok(reads)
    }
}

fn add(plan: &LogicalPlan, table: &str, reads: &mut Reads) -> DataFusionResult<()> {
    let visited = plan.apply_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(TreeNodeRecursion::Continue) };
        if let Some(view) = scan.source.get_logical_plan() {
            add(&view, table, reads)?;
            return Ok(TreeNodeRecursion::Continue);
        }
        let provider = source_as_provider(&scan.source).ok();
        let provider = provider.as_ref().and_then(|it| it.downcast_ref::<StoreProvider>());
        let Some(provider) = provider else { return Ok(TreeNodeRecursion::Continue) };
        let snapshot = provider.table.snapshot();
        let is_old = !scan.table_name.table().eq_ignore_ascii_case(snapshot.table_name())
            && scan.table_name.table().contains('@');
        if snapshot.table_name() == table && !is_old {
            let of_scan = match provider.table.attached() {
                None => Reads::Generation(snapshot.generation()),
                Some(_) => Reads::Some,
            };
            *reads = reads.and(of_scan);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map(drop)
}
