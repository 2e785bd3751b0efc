//! What machines do with their parts of a table, as leaves of a plan: scans, states of groups, and
//! first rows.

use std::sync::Arc;

use arrow_schema::{FieldRef, SortOptions};
use datafusion::common::config::ExecutionOptions;
use datafusion::common::internal_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_distributed::{DistributedLeafExec, NetworkCoalesceExec};

use super::codec::{encoded, encoded_scan};
use super::merge::MergeExec;
use crate::error::Error;
use crate::expr::Expression;
use crate::query::{ByColumn, FirstGroups, Fragment, Output};
use crate::sql::convert::listed;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::homes::Home;
use crate::sql::run::leaf::leaf_properties;
use crate::sql::run::parts::{Part, Share};
use crate::sql::run::scan::ScanExec;
use crate::sql::run::table::StoreTable;
use crate::sql::run::task::{RemoteExec, Task, TaskKind};
use crate::sql::types::zeros;

type Plan = Arc<dyn ExecutionPlan>;

/// A scan whose parts are read by their machines, one part each.
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
    let columns = of.schema.fields().iter().map(|field| Some(&**field.name()));
    let homes = Home::of(&of.table, columns);
    leaf(node, &of.table, parts, (kind, encoded_scan(logical)?, homes), &properties, options)
}

/// A group-by in which no group has rows on two machines: each machine runs the whole fragment.
/// `None` if the fragment has no group-by, or a group may have rows on two machines.
pub(super) fn groups(
    node: &Plan,
    exec: &FragmentExec,
    options: &ExecutionOptions,
) -> DataFusionResult<Option<DistributedLeafExec>> {
    let Some(OfMachines { fragment, table, parts, plan }) = of_machines(exec)? else {
        return Ok(None);
    };
    let Output::Aggregate { keys, .. } = &fragment.output else { return Ok(None) };
    let column = |key: &Expression| Some(&*fragment.columns.get(key.as_column()?)?.name);
    let homes = Home::of(table, keys.iter().map(column));
    if homes.is_empty() {
        return Ok(None);
    }
    let what = (TaskKind::Groups, plan, homes);
    leaf(node, table, parts.to_vec(), what, node.properties(), options).map(Some)
}

/// A grouping over several machines: each computes the states of its groups.
pub(super) struct States {
    /// What is made of the states of all machines.
    fragment: Arc<Fragment>,
    /// The first groups, if each machine sends the states of these alone; `None` if it sends all.
    pub(super) first: Option<FirstGroups>,
    /// The states of the groups of its rows, on each machine.
    pub(super) leaf: Arc<DistributedLeafExec>,
    /// The columns by which states are shuffled.
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The task of a machine that merges them.
    merge: Task,
}

impl States {
    /// `None` if the fragment is no grouping, or runs on this machine.
    pub(super) fn of(
        node: &Plan,
        exec: &FragmentExec,
        options: &ExecutionOptions,
    ) -> DataFusionResult<Option<States>> {
        let Some(OfMachines { fragment, table, parts, plan }) = of_machines(exec)? else {
            return Ok(None);
        };
        let Output::Aggregate { keys, .. } = &fragment.output else { return Ok(None) };
        let Some(states) = fragment.with_states() else {
            return internal_err!("groups without states");
        };
        let rows = EquivalenceProperties::new(Arc::clone(&states.schema));
        let properties = leaf_properties(rows, 1, EmissionType::Final);
        let parts = two_or_more(parts);
        let what = (TaskKind::States, plan, Arc::default());
        let leaf = leaf(node, table, parts, what, &properties, options)?;
        let of_first = leaf.variants().first().and_then(|plan| plan.downcast_ref::<RemoteExec>());
        let Some(of_first) = of_first else { return internal_err!("a leaf of no machine") };
        let merge = Task { kind: TaskKind::Merge, ..of_first.task.clone() };
        let key = |(at, field): (usize, &FieldRef)| {
            Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>
        };
        let keys = states.schema.fields().iter().take(keys.len()).enumerate().map(key).collect();
        let (mut fragment, leaf) = (Arc::clone(fragment), Arc::new(leaf));
        let first_of_keys = states.first_groups().cloned();
        if let (Some(of_keys), Output::Aggregate { first, .. }) =
            (&first_of_keys, &mut Arc::make_mut(&mut fragment).output)
        {
            *first = Some(of_keys.clone());
        }
        Ok(Some(States { fragment, first: first_of_keys, leaf, keys, merge }))
    }

    /// The operator that merges states into groups. Of the first ones, no others come out: of
    /// these, a machine may have rows and send no states.
    pub(super) fn merged(&self, states: Plan) -> DataFusionResult<Plan> {
        let merged: Plan = Arc::new(MergeExec::new(&self.fragment, states, self.merge.clone()));
        let Some(first) = &self.first else { return Ok(merged) };
        let fields = self.fragment.schema.fields();
        let key = |by: &ByColumn| {
            let column = Column::new(fields.get(by.column)?.name(), by.column);
            let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
            Some(PhysicalSortExpr::new(Arc::new(column), options))
        };
        let keys = first.order.iter().map(key).collect::<Option<Vec<_>>>();
        let Some(order) = keys.and_then(LexOrdering::new) else {
            return internal_err!("an order of no keys");
        };
        Ok(Arc::new(SortExec::new(order, merged).with_fetch(Some(first.limit))))
    }
}

/// The first of all rows that are the first on each machine.
pub(super) fn first(
    node: &Plan,
    exec: &FragmentExec,
    options: &ExecutionOptions,
) -> DataFusionResult<Plan> {
    let Some(OfMachines { fragment, table, parts, plan }) = of_machines(exec)? else {
        return Ok(Arc::clone(node));
    };
    let Output::Top { limit, skip, .. } = &fragment.output else {
        return internal_err!("first rows of groups");
    };
    let Some(order) = node.output_ordering().cloned() else {
        return Err(Error::Unsupported("first rows of no order on several machines".into()).into());
    };
    let what = (TaskKind::First, plan, Arc::default());
    let leaf = leaf(node, table, two_or_more(parts), what, node.properties(), options)?;
    let tasks = leaf.variants().len();
    let all: Plan = Arc::new(NetworkCoalesceExec::try_new(Arc::new(leaf), tasks, 1)?);
    let order = zeros::one_zero_in_order(order, &all.schema())?;
    let first: Plan = Arc::new(SortPreservingMergeExec::new(order, all).with_fetch(Some(*limit)));
    Ok(match skip {
        0 => first,
        skip => Arc::new(GlobalLimitExec::new(first, *skip, None)),
    })
}

/// A fragment that several machines run.
struct OfMachines<'a> {
    fragment: &'a Arc<Fragment>,
    table: &'a StoreTable,
    parts: &'a [Part],
    /// What each of them is sent.
    plan: bytes::Bytes,
}

/// `None` if it runs here.
fn of_machines(exec: &FragmentExec) -> DataFusionResult<Option<OfMachines<'_>>> {
    let (fragment, table, logical) = exec.parts();
    let Some(parts) = table.parts().filter(|_| !exec.is_in_manifest()) else { return Ok(None) };
    let Some(logical) = logical else {
        return internal_err!("a fragment without a logical plan");
    };
    Ok(Some(OfMachines { fragment, table, parts, plan: encoded(logical)? }))
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
    (kind, plan, homes): (TaskKind, bytes::Bytes, Arc<[Home]>),
    properties: &Arc<PlanProperties>,
    options: &ExecutionOptions,
) -> DataFusionResult<DistributedLeafExec> {
    let zone: Option<Arc<str>> = options.time_zone.as_deref().map(Arc::from);
    let remote = |part: Part, shown: String| -> Plan {
        let (state, share, without) = (part.state, part.share, part.without.clone());
        let (table, zone, plan) = (table.name().into(), zone.clone(), plan.clone());
        let task = Task { table, state, share, without, kind, zone, plan };
        let (properties, homes) = (Arc::clone(properties), Arc::clone(&homes));
        Arc::new(RemoteExec::new(part, task, shown.into(), properties, homes))
    };
    let Some(one) = parts.first().cloned() else { return internal_err!("a table of no parts") };
    let nodes = listed(parts.iter().map(|part| &*part.node.name));
    let line = Line(node.as_ref()).to_string();
    let all = remote(one, format!("{line}, nodes=[{nodes}]"));
    let of_node = |part: Part| {
        let shown = format!("{line}, node={}", part.node.name);
        remote(part, shown)
    };
    DistributedLeafExec::try_new(all, parts.into_iter().map(of_node).collect::<Vec<_>>())
}

struct Line<'a>(&'a dyn ExecutionPlan);

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}
