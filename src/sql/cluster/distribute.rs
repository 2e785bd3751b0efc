//! The last rule of planning in a cluster: what each machine does with its part comes in the place
//! of scans and fragments of tables that are on several.
//!
//! ```text
//! MergeStates                     the groups of all states
//!   Gather                        in the partitions of the plan
//!     NetworkCoalesce             streams of all machines
//!       RemotePart …              the states of a part's groups, on its machine
//! ```

use std::sync::Arc;

use datafusion::common::config::{ConfigOptions, ExecutionOptions};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_distributed::{
    DistributedLeafExec, NetworkCoalesceExec, RouteTasksEvent, RouteTasksEventResponse,
};

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

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct Distribute;

impl PhysicalOptimizerRule for Distribute {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        let options = &config.execution;
        let placed = plan.transform_up(|node| {
            if let Some(scan) = node.downcast_ref::<ScanExec>() {
                return rows(&node, scan, options);
            }
            if let Some(fragment) = node.downcast_ref::<FragmentExec>() {
                return groups_or_first(&node, fragment, options);
            }
            Ok(Transformed::no(node))
        })?;
        let plan = placed.data;
        // The whole plan is run as one partition.
        match placed.transformed && plan.output_partitioning().partition_count() > 1 {
            true => Ok(Arc::new(CoalescePartitionsExec::new(plan))),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "Distribute"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of a scan, from all machines.
fn rows(
    node: &Plan,
    scan: &ScanExec,
    options: &ExecutionOptions,
) -> DataFusionResult<Transformed<Plan>> {
    let partitions = options.target_partitions;
    let of = scan.scan();
    let Some(parts) = of.table.parts() else { return Ok(Transformed::no(Arc::clone(node))) };
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
    let all =
        gathered(node, &of.table, parts, (kind, encoded_scan(logical)?), &properties, options)?;
    // A limit is one of those above, too.
    let partitions = node.output_partitioning().partition_count();
    Ok(Transformed::yes(Arc::new(GatherExec::new(all, partitions))))
}

/// Groups of the states of all machines, or the first of all rows that are the first on each.
fn groups_or_first(
    node: &Plan,
    exec: &FragmentExec,
    options: &ExecutionOptions,
) -> DataFusionResult<Transformed<Plan>> {
    let (fragment, table, logical) = exec.parts();
    let Some(parts) = table.parts() else { return Ok(Transformed::no(Arc::clone(node))) };
    if exec.is_in_manifest() {
        return Ok(Transformed::no(Arc::clone(node)));
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
        return Ok(Transformed::yes(match skip {
            0 => first,
            skip => Arc::new(GlobalLimitExec::new(first, *skip, None)),
        }));
    }
    let Some(states) = fragment.with_states() else {
        return internal_err!("groups without states");
    };
    let rows = EquivalenceProperties::new(Arc::clone(&states.schema));
    let properties = leaf_properties(rows, 1, EmissionType::Final);
    let all = gathered(node, table, parts, (TaskKind::States, plan), &properties, options)?;
    let all: Plan = Arc::new(GatherExec::new(all, 1));
    Ok(Transformed::yes(Arc::new(MergeExec::new(fragment, all))))
}

/// What all machines give of their parts.
fn gathered(
    node: &Plan,
    table: &StoreTable,
    parts: &[Part],
    (kind, plan): (TaskKind, bytes::Bytes),
    properties: &Arc<PlanProperties>,
    options: &ExecutionOptions,
) -> DataFusionResult<Plan> {
    let shown: Arc<str> = Line(node.as_ref()).to_string().into();
    let zone: Option<Arc<str>> = options.time_zone.as_deref().map(Arc::from);
    let remote = |part: Part| -> Plan {
        let (state, share, without) = (part.state, part.share, part.without.clone());
        let (table, zone, plan) = (table.name().into(), zone.clone(), plan.clone());
        let task = Task { table, state, share, without, kind, zone, plan };
        Arc::new(RemoteExec::new(part, task, Arc::clone(&shown), Arc::clone(properties)))
    };
    let all: Vec<Plan> = match parts {
        // What runs as one task would be taken for one that runs here.
        [part] if part.share.is_none() => {
            let half = |number| Part { share: Some(Share { number, of: 2 }), ..part.clone() };
            vec![remote(half(0)), remote(half(1))]
        }
        parts => parts.iter().cloned().map(remote).collect(),
    };
    let (tasks, Some(first)) = (all.len(), all.first().cloned()) else {
        return internal_err!("a table of no parts");
    };
    let leaf = Arc::new(DistributedLeafExec::try_new(first, all)?);
    Ok(Arc::new(NetworkCoalesceExec::try_new(leaf, tasks, 1)?))
}

/// Routes each task to its machine.
pub(in crate::sql) fn route(
    event: RouteTasksEvent<'_>,
) -> Option<DataFusionResult<RouteTasksEventResponse>> {
    let mut urls = None;
    let found = event.plan.apply(|node| {
        let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let of = |plan: &Plan| Some(plan.downcast_ref::<RemoteExec>()?.part.node.url.clone());
        urls = leaf.variants().iter().map(of).collect::<Option<Vec<_>>>();
        Ok(TreeNodeRecursion::Stop)
    });
    match (found, urls) {
        (Err(error), _) => Some(Err(error)),
        (Ok(_), urls) => Some(Ok(RouteTasksEventResponse::new(urls?))),
    }
}

struct Line<'a>(&'a dyn ExecutionPlan);

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}
