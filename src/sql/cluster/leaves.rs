//! What machines do with their parts of a table, as leaves of a plan: scans, states of groups, and
//! first rows.
//!
//! ```text
//! MergeStates                     the groups of all states
//!   Gather                        in the partitions of the plan
//!     NetworkCoalesce             streams of all machines
//!       RemotePart …              the states of a part's groups, on its machine
//! ```

use std::sync::Arc;

use datafusion::common::config::ExecutionOptions;
use datafusion::common::internal_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_distributed::{DistributedLeafExec, NetworkCoalesceExec};

use super::codec::{encoded, encoded_scan};
use super::gather::GatherExec;
use super::merge::MergeExec;
use crate::error::Error;
use crate::query::Output;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::leaf::leaf_properties;
use crate::sql::run::parts::{Part, Share};
use crate::sql::run::scan::ScanExec;
use crate::sql::run::table::StoreTable;
use crate::sql::run::task::{RemoteExec, Task, TaskKind};
use crate::sql::types::zeros;

type Plan = Arc<dyn ExecutionPlan>;

/// The rows of a scan on these machines, each of which reads one of the parts.
pub(super) fn rows(
    node: &Plan,
    scan: &ScanExec,
    parts: Vec<Part>,
    options: &ExecutionOptions,
) -> DataFusionResult<DistributedLeafExec> {
    let partitions = options.target_partitions;
    let of = scan.scan();
    let Some(logical) = &of.logical else { return internal_err!("a scan without a logical plan") };
    let kind = TaskKind::Rows {
        partitions: u32::try_from(partitions).unwrap_or(1),
        filtered: !of.conditions.is_empty(),
        limit: of.limit,
    };
    let properties = leaf_properties(
        EquivalenceProperties::new(Arc::clone(&of.schema)),
        partitions,
        EmissionType::Incremental,
    );
    leaf(node, &of.table, parts, (kind, encoded_scan(logical)?), &properties, options)
}

/// Groups of the states of all machines, or the first of all rows that are the first on each.
pub(super) fn groups_or_first(
    node: &Plan,
    exec: &FragmentExec,
    options: &ExecutionOptions,
) -> DataFusionResult<Plan> {
    let (fragment, table, logical) = exec.parts();
    let Some(parts) = table.parts() else { return Ok(Arc::clone(node)) };
    if exec.is_in_manifest() {
        return Ok(Arc::clone(node));
    }
    let Some(logical) = logical else {
        return internal_err!("a fragment without a logical plan");
    };
    let plan = encoded(logical)?;
    if let Output::Top { limit, skip, .. } = &fragment.output {
        let Some(order) = node.output_ordering().cloned() else {
            return Err(
                Error::Unsupported("first rows of no order on several machines".into()).into()
            );
        };
        let all =
            gathered(node, table, parts, (TaskKind::First, plan), node.properties(), options)?;
        let order = zeros::one_zero_in_order(order, &all.schema())?;
        let first: Plan =
            Arc::new(SortPreservingMergeExec::new(order, all).with_fetch(Some(*limit)));
        return Ok(match skip {
            0 => first,
            skip => Arc::new(GlobalLimitExec::new(first, *skip, None)),
        });
    }
    let Some(states) = fragment.with_states() else {
        return internal_err!("groups without states");
    };
    let rows = EquivalenceProperties::new(Arc::clone(&states.schema));
    let properties = leaf_properties(rows, 1, EmissionType::Final);
    let all = gathered(node, table, parts, (TaskKind::States, plan), &properties, options)?;
    let all: Plan = Arc::new(GatherExec::new(all, 1));
    Ok(Arc::new(MergeExec::new(fragment, all)))
}

/// What all machines give of their parts.
fn gathered(
    node: &Plan,
    table: &StoreTable,
    parts: &[Part],
    what: (TaskKind, bytes::Bytes),
    properties: &Arc<PlanProperties>,
    options: &ExecutionOptions,
) -> DataFusionResult<Plan> {
    let leaf = leaf(node, table, two_or_more(parts), what, properties, options)?;
    let tasks = leaf.variants().len();
    Ok(Arc::new(NetworkCoalesceExec::try_new(Arc::new(leaf), tasks, 1)?))
}

/// The parts, or both halves of one: what runs as one task would be taken for one that runs here.
pub(super) fn two_or_more(parts: &[Part]) -> Vec<Part> {
    match parts {
        [part] if part.share.is_none() => {
            let half = |number| Part { share: Some(Share { number, of: 2 }), ..part.clone() };
            vec![half(0), half(1)]
        }
        parts => parts.to_vec(),
    }
}

/// What stands for an operator on the machines of some parts.
fn leaf(
    node: &Plan,
    table: &StoreTable,
    parts: Vec<Part>,
    (kind, plan): (TaskKind, bytes::Bytes),
    properties: &Arc<PlanProperties>,
    options: &ExecutionOptions,
) -> DataFusionResult<DistributedLeafExec> {
    let shown: Arc<str> = Line(node.as_ref()).to_string().into();
    let zone: Option<Arc<str>> = options.time_zone.as_deref().map(Arc::from);
    let remote = |part: Part| -> Plan {
        let (state, share, without) = (part.state, part.share, part.without.clone());
        let (table, zone, plan) = (table.name().into(), zone.clone(), plan.clone());
        let task = Task { table, state, share, without, kind, zone, plan };
        Arc::new(RemoteExec::new(part, task, Arc::clone(&shown), Arc::clone(properties)))
    };
    let all: Vec<Plan> = parts.into_iter().map(remote).collect();
    let Some(first) = all.first().cloned() else { return internal_err!("a table of no parts") };
    DistributedLeafExec::try_new(first, all)
}

struct Line<'a>(&'a dyn ExecutionPlan);

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}
