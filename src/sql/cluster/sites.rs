//! Where operators of a plan run: on the machine that was asked, or on those that have the rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use datafusion_distributed::NetworkBoundaryExt;
use url::Url;

use super::joins::At;
use crate::sql::run::parts::{Node, Part};

/// A machine for each task.
pub(super) type Machines = Arc<[Arc<Node>]>;

/// By what rows are spread.
pub(super) type Keys = Vec<Arc<dyn PhysicalExpr>>;

/// An operator with all below it.
pub(super) struct Placed {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) site: Site,
}

/// Where an operator runs.
pub(super) enum Site {
    /// On the machine that was asked.
    Here,
    /// Each of these has a part of its rows.
    Parts(Machines),
    /// Each of these could have all of its rows: the plan has the scan, and it is not yet said who
    /// reads it.
    Copies(Machines),
}

impl Placed {
    pub(super) fn machines(&self) -> Machines {
        match &self.site {
            Site::Here => Arc::default(),
            Site::Parts(machines) | Site::Copies(machines) => Arc::clone(machines),
        }
    }

    /// Whether each row is on the machine and in the partition of these keys' hash.
    pub(super) fn is_hashed(&self, keys: &Keys) -> bool {
        let by = self.plan.output_partitioning();
        matches!((&self.site, by), (Site::Parts(_), Partitioning::Hash(by, _)) if by == keys)
            && !has_own_hash(&self.plan)
    }

    /// Where it is, for a join with something else.
    pub(super) fn at(&self, other: &Placed) -> At {
        match (&self.site, &other.site) {
            (Site::Here, _) => At::Here,
            (Site::Parts(machines), _) => At::Parts(machines.len()),
            (Site::Copies(have), Site::Parts(need))
                if need.iter().all(|node| have.contains(node)) =>
            {
                At::Copies
            }
            (Site::Copies(_), _) => At::Anywhere,
        }
    }
}

/// What runs on the machine that was asked.
pub(super) fn here(plan: Arc<dyn ExecutionPlan>) -> Placed {
    Placed { plan, site: Site::Here }
}

/// Whether rows are spread by a hash over the threads of each machine.
fn has_own_hash(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_hash =
        |spread: &RepartitionExec| matches!(spread.partitioning(), Partitioning::Hash(..));
    plan.downcast_ref::<RepartitionExec>().is_some_and(is_hash)
        || !plan.is_network_boundary() && plan.children().into_iter().any(has_own_hash)
}

/// The machines of parts.
pub(super) fn machines(parts: &[Part]) -> Machines {
    parts.iter().map(|part| Arc::clone(&part.node)).collect()
}

/// Those of two lists that has more different machines: tasks without a part of a table go to the
/// machines of their input (`distribute::route`), which chooses in the same way.
pub(super) fn most_machines(left: Machines, right: Machines) -> Machines {
    let count = |all: &Machines| different(all.iter().map(|node| &node.url));
    if count(&right) > count(&left) { right } else { left }
}

/// The number of different machines.
pub(super) fn different<'a>(urls: impl Iterator<Item = &'a Url>) -> usize {
    urls.collect::<BTreeSet<_>>().len()
}
