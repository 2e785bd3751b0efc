//! Which operators run where the rows are, and what goes over the network.
//!
//! A plan is made as for one machine. From its leaves up, each operator that can run on other
//! machines stays with the rows of its input; above it, rows come to the machine that was asked.
//! Of the sides of a join, those go over the network that cost the least (`joins`). States of few
//! groups are merged here, and those of many on the machine of their keys' hash.
//!
//! ```text
//! MergeStates                     the groups of all states
//!   Gather                        in the partitions of the plan
//!     NetworkCoalesce             streams of all machines
//!       RemotePart …              the states of a part's groups, on its machine
//!
//! Gather
//!   NetworkCoalesce               rows of the join, of all machines
//!     HashJoin
//!       CoalescePartitions
//!         NetworkBroadcast        the small side: from each machine to each
//!           Broadcast
//!             RemotePart …
//!       RemotePart …              the large side stays where it is
//! ```

use std::sync::Arc;

use datafusion::common::config::{ConfigOptions, ExecutionOptions};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary,
};
use datafusion_distributed::{
    BroadcastExec, NetworkBroadcastExec, NetworkCoalesceExec, NetworkShuffleExec,
};

use super::colocated::{are_colocated, has_whole_groups};
use super::gather::GatherExec;
use super::joins::{Allowed, At, Side, Way, rebuilt, way};
use super::leaves::{States, first, groups, rows, two_or_more};
use super::sendable::{are_aggregates_known, is_sendable};
use super::sites::{Keys, Machines, Placed, Site, here, machines, most_machines};
use crate::query::Output;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::parts::{Node, Part};
use crate::sql::run::scan::ScanExec;
use crate::sql::run::settings::Settings;
use crate::sql::run::task::RemoteExec;

type Plan = Arc<dyn ExecutionPlan>;

/// What is taken for the bytes of a row's value of no fixed width, and for those of rows of which
/// nothing is known.
const TEXT_BYTES: usize = 32;
const UNKNOWN_BYTES: f64 = 1e15;

/// Places the operators of a plan.
pub(super) struct Stages<'a> {
    execution: &'a ExecutionOptions,
    /// What has no more bytes comes to the machine that was asked.
    least: f64,
    /// The functions that mean the same everywhere; `None` if only leaves run on other machines.
    functions: Option<&'a TaskContext>,
    estimates: StatisticsContext,
}

impl<'a> Stages<'a> {
    pub(super) fn new(config: &'a ConfigOptions, functions: Option<&'a TaskContext>) -> Self {
        let execution = &config.execution;
        // What functions and casts make of times is told by a setting of the session.
        let functions = functions.filter(|_| execution.time_zone.is_none());
        let least = Settings::of(config).gather_bytes as f64;
        Stages { execution, least, functions, estimates: StatisticsContext::new() }
    }

    /// A plan that runs on the machine that was asked, and on others below.
    pub(super) fn whole(&self, plan: &Plan) -> DataFusionResult<Plan> {
        self.gathered(self.place(plan, false)?, plan)
    }

    /// Places an operator. With `merges`, one above it merges the sorted streams of its partitions.
    fn place(&self, node: &Plan, merges: bool) -> DataFusionResult<Placed> {
        if let Some(scan) = node.downcast_ref::<ScanExec>() {
            return self.scan(node, scan);
        }
        if let Some(fragment) = node.downcast_ref::<FragmentExec>() {
            let plan = fragment.parts().2;
            let is_known = plan
                .zip(self.functions)
                .is_some_and(|(plan, functions)| are_aggregates_known(plan, functions));
            if is_known && let Some(leaf) = groups(node, fragment, self.execution)? {
                let site = Site::Parts(leaf.variants().iter().filter_map(machine).collect());
                return Ok(Placed { plan: Arc::new(leaf), site });
            }
            return match States::of(node, fragment, self.execution)? {
                Some(states) => self.merged(node, states, is_known),
                None if matches!(fragment.parts().0.output, Output::Aggregate { .. }) => {
                    Ok(here(Arc::clone(node)))
                }
                None => first(node, fragment, self.execution).map(here),
            };
        }
        if let Some(allowed) = Allowed::of(&**node).filter(|_| self.sends(node)) {
            return self.join(node, allowed);
        }
        if let Some(groups) = self.groups(node)? {
            return Ok(groups);
        }
        match node.children().as_slice() {
            [] => Ok(here(Arc::clone(node))),
            [input] => self.above(node, input, merges),
            inputs => {
                let inputs = inputs.iter().map(|input| self.whole(input));
                over(node, inputs.collect::<DataFusionResult<_>>()?).map(here)
            }
        }
    }

    fn scan(&self, node: &Plan, scan: &ScanExec) -> DataFusionResult<Placed> {
        let of = scan.scan();
        let Some(parts) = of.table.parts() else { return Ok(here(Arc::clone(node))) };
        if let [Part { copies, .. }] = &**parts
            && !copies.is_empty()
            && of.limit.is_none()
        {
            return Ok(Placed { plan: Arc::clone(node), site: Site::Copies(Arc::clone(copies)) });
        }
        let parts = two_or_more(parts);
        let site = Site::Parts(machines(&parts));
        Ok(Placed { plan: Arc::new(rows(node, scan, parts, self.execution)?), site })
    }

    /// Groups whose states are merged here, or by all machines if there are many.
    fn merged(&self, node: &Plan, states: States, is_known: bool) -> DataFusionResult<Placed> {
        let machines = states.leaf.variants().iter().filter_map(machine).collect();
        let plan = Arc::clone(&states.leaf) as Plan;
        let leaf = Placed { plan, site: Site::Parts(machines) };
        let is_small = || !is_known || self.bytes(node) <= self.least;
        if states.keys.is_empty() || states.first.is_some() || is_small() {
            let all = GatherExec::new(coalesced(leaf)?, 1);
            return states.merged(Arc::new(all)).map(here);
        }
        let site = Site::Parts(leaf.machines());
        let plan = states.merged(self.shuffled(leaf, states.keys.clone())?)?;
        Ok(Placed { plan, site })
    }

    /// An operator of one input.
    fn above(&self, node: &Plan, input: &Plan, merges: bool) -> DataFusionResult<Placed> {
        let is_row_by_row = node.is::<ProjectionExec>()
            || node.is::<FilterExec>()
            || node.is::<CooperativeExec>()
            || is_round_robin(node);
        let is_merge = node.is::<SortPreservingMergeExec>();
        let passes_order = merges && is_row_by_row && self.sends(node);
        let below = self.place(input, is_merge || passes_order)?;
        if matches!(below.site, Site::Here) {
            return over(node, vec![below.plan]).map(here);
        }
        if is_round_robin(node) {
            return Ok(below);
        }
        if is_row_by_row && self.sends(node) {
            let plan = over(node, vec![below.plan])?;
            return Ok(Placed { plan, ..below });
        }
        let below = self.in_parts(below)?;
        let sort = node.downcast_ref::<SortExec>().filter(|_| self.sends(node));
        if let Some(sort) = sort.filter(|sort| !sort.preserve_partitioning()) {
            let plan: Plan = Arc::new(sorted(sort, below.plan));
            let all = coalesced(Placed { plan, site: below.site })?;
            let merge = SortPreservingMergeExec::new(sort.expr().clone(), all);
            return Ok(here(Arc::new(merge.with_fetch(sort.fetch()))));
        }
        if sort.is_some() && merges || is_partial(node) && self.sends(node) {
            let plan = over(node, vec![below.plan])?;
            return Ok(Placed { plan, ..below });
        }
        let input = match is_merge && below.plan.output_ordering().is_some() {
            // The order is that of each stream.
            true => coalesced(below)?,
            false => self.gathered(below, input)?,
        };
        over(node, vec![input]).map(here)
    }

    /// Groups whose states go to the machine of their keys' hash, if there are many.
    fn groups(&self, node: &Plan) -> DataFusionResult<Option<Placed>> {
        let aggregate = node.downcast_ref::<AggregateExec>();
        let is_final = |it: &&AggregateExec| *it.mode() == AggregateMode::FinalPartitioned;
        let Some(aggregate) = aggregate.filter(is_final) else { return Ok(None) };
        let Some(hash) = aggregate.input().downcast_ref::<RepartitionExec>() else {
            return Ok(None);
        };
        let Partitioning::Hash(keys, _) = hash.partitioning() else { return Ok(None) };
        if !self.sends(node) || self.bytes(hash.input()) <= self.least {
            return Ok(None);
        }
        let below = self.place(hash.input(), false)?;
        if matches!(below.site, Site::Here) {
            let spread = over(aggregate.input(), vec![below.plan])?;
            return Ok(Some(here(over(node, vec![spread])?)));
        }
        let below = self.in_parts(below)?;
        let machines = below.machines();
        let spread = match has_whole_groups(&below, keys) {
            true => over(aggregate.input(), vec![below.plan])?,
            false => self.hashed(below, keys.clone(), machines.len())?,
        };
        let plan = over(node, vec![spread])?;
        Ok(Some(Placed { plan, site: Site::Parts(machines) }))
    }

    fn join(&self, node: &Plan, allowed: Allowed) -> DataFusionResult<Placed> {
        let [left, right] = node.children()[..] else { return internal_err!("a join of no two") };
        // How rows are spread over the threads of one machine.
        let (below_left, below_right) = (as_they_come(left), as_they_come(right));
        let mut on_left = self.place(below_left, false)?;
        let mut on_right = self.place(below_right, false)?;
        if let (Site::Copies(_), Site::Copies(_)) = (&on_left.site, &on_right.site) {
            match allowed.left_to_each {
                true => on_right = self.in_parts(on_right)?,
                false => on_left = self.in_parts(on_left)?,
            }
        }
        let join = node.downcast_ref::<HashJoinExec>();
        let (keys_left, keys_right): (Vec<_>, Vec<_>) =
            join.map(|join| join.on().iter().cloned().unzip()).unwrap_or_default();
        if are_colocated((&on_left, &keys_left), (&on_right, &keys_right)) {
            let machines = on_left.machines();
            if join.is_none_or(|join| *join.partition_mode() != PartitionMode::Partitioned) {
                return self.collecting(node, on_left.plan, on_right.plan, machines);
            }
            let (left, right) = (self.spread(on_left.plan, keys_left)?, on_right.plan);
            let right = self.spread(right, keys_right)?;
            let plan = rebuilt(node, left, right, PartitionMode::Partitioned)?;
            return Ok(Placed { plan, site: Site::Parts(machines) });
        }
        let side = |placed: &Placed, other: &Placed, below: &Plan, keys: &Keys| Side {
            at: placed.at(other),
            bytes: self.bytes(below),
            is_hashed: placed.is_hashed(keys),
        };
        let of_left = side(&on_left, &on_right, below_left, &keys_left);
        let of_right = side(&on_right, &on_left, below_right, &keys_right);
        match way(allowed, of_left, of_right, self.least) {
            Way::Gather => {
                let gathered_left = self.gathered(on_left, below_left)?;
                let gathered_right = self.gathered(on_right, below_right)?;
                let left = instead(left, below_left, gathered_left)?;
                let right = instead(right, below_right, gathered_right)?;
                over(node, vec![left, right]).map(here)
            }
            Way::LeftToEach => {
                let right = self.in_parts(on_right)?;
                let machines = right.machines();
                let left = self.on_each(on_left, &machines, of_left.at)?;
                self.collecting(node, left, right.plan, machines)
            }
            Way::RightToEach => {
                let left = self.in_parts(on_left)?;
                let machines = left.machines();
                let right = self.on_each(on_right, &machines, of_right.at)?;
                self.collecting(node, left.plan, right, machines)
            }
            Way::Shuffle => {
                let (left, right) = (self.in_parts(on_left)?, self.in_parts(on_right)?);
                // Rows that were shuffled stay on their machines.
                let machines = match (of_left.is_hashed, of_right.is_hashed) {
                    (true, _) => left.machines(),
                    (_, true) => right.machines(),
                    _ => most_machines(left.machines(), right.machines()),
                };
                let left = self.hashed(left, keys_left, machines.len())?;
                let right = self.hashed(right, keys_right, machines.len())?;
                let plan = rebuilt(node, left, right, PartitionMode::Partitioned)?;
                Ok(Placed { plan, site: Site::Parts(machines) })
            }
        }
    }

    /// A join that collects its left side, on each of some machines.
    fn collecting(
        &self,
        node: &Plan,
        left: Plan,
        right: Plan,
        machines: Machines,
    ) -> DataFusionResult<Placed> {
        let left = Arc::new(CoalescePartitionsExec::new(left));
        let plan = rebuilt(node, left, right, PartitionMode::CollectLeft)?;
        Ok(Placed { plan, site: Site::Parts(machines) })
    }

    /// All rows of a side, on each of some machines.
    fn on_each(&self, side: Placed, machines: &Machines, at: At) -> DataFusionResult<Plan> {
        if at == At::Copies {
            return self.read_by(side.plan, |part| {
                let of = |node| Part { node: Arc::clone(node), ..part.clone() };
                machines.iter().map(of).collect()
            });
        }
        let side = self.in_parts(side)?;
        let producers = side.machines().len();
        let broadcast = Arc::new(BroadcastExec::new(side.plan, 1));
        Ok(Arc::new(NetworkBroadcastExec::try_new(broadcast, producers)?))
    }

    /// Rows on the machine of their keys' hash, of this many.
    fn hashed(&self, side: Placed, keys: Keys, machines: usize) -> DataFusionResult<Plan> {
        match side.is_hashed(&keys) && side.machines().len() == machines {
            true => Ok(side.plan),
            false => self.shuffled(side, keys),
        }
    }

    /// Rows that go to the machine and partition of their keys' hash.
    fn shuffled(&self, side: Placed, keys: Keys) -> DataFusionResult<Plan> {
        let producers = side.machines().len();
        let hash = self.spread(side.plan, keys)?;
        Ok(Arc::new(NetworkShuffleExec::try_new(hash, producers)?))
    }

    /// Rows in the partition of their keys' hash.
    fn spread(&self, plan: Plan, keys: Keys) -> DataFusionResult<Plan> {
        let hash = Partitioning::Hash(keys, self.execution.target_partitions);
        Ok(Arc::new(RepartitionExec::try_new(plan, hash)?))
    }

    /// What some machines could do, as what one of them does.
    fn in_parts(&self, placed: Placed) -> DataFusionResult<Placed> {
        if !matches!(placed.site, Site::Copies(_)) {
            return Ok(placed);
        }
        let mut read = Vec::new();
        let plan = self.read_by(placed.plan, |part| {
            read = two_or_more(std::slice::from_ref(part));
            read.clone()
        })?;
        Ok(Placed { plan, site: Site::Parts(machines(&read)) })
    }

    /// Says which machines read what of the scan of a table of copies.
    fn read_by(
        &self,
        plan: Plan,
        mut parts: impl FnMut(&Part) -> Vec<Part>,
    ) -> DataFusionResult<Plan> {
        let said = plan.transform_up(|node| {
            let Some(scan) = node.downcast_ref::<ScanExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some([copy]) = scan.scan().table.parts().map(|parts| &**parts) else {
                return internal_err!("a table of copies in parts");
            };
            let leaf = rows(&node, scan, parts(copy), self.execution)?;
            Ok(Transformed::yes(Arc::new(leaf) as Plan))
        })?;
        Ok(said.data)
    }

    /// The rows of all machines here, in the partitions of the operator for which they stand.
    fn gathered(&self, placed: Placed, stands_for: &Plan) -> DataFusionResult<Plan> {
        if matches!(placed.site, Site::Here) {
            return Ok(placed.plan);
        }
        let by = stands_for.output_partitioning();
        let all = coalesced(self.in_parts(placed)?)?;
        let all = Arc::new(GatherExec::new(all, by.partition_count()));
        // Operators above may rely on it, and machines may have their rows in other partitions. On
        // a column that has gone nobody does.
        match by {
            Partitioning::Hash(by_keys, _)
                if !by_keys.iter().any(|key| key.is::<UnKnownColumn>()) =>
            {
                Ok(Arc::new(RepartitionExec::try_new(all, by.clone())?))
            }
            _ => Ok(all),
        }
    }

    fn sends(&self, node: &Plan) -> bool {
        self.functions.is_some_and(|functions| is_sendable(&**node, functions))
    }

    /// About how many bytes the rows of an operator have.
    fn bytes(&self, node: &Plan) -> f64 {
        let known = self.estimates.compute(&**node, &StatisticsArgs::new());
        let rows = known.ok().and_then(|known| known.num_rows.get_value().copied());
        let width = |field: &arrow_schema::FieldRef| {
            field.data_type().primitive_width().unwrap_or(TEXT_BYTES)
        };
        let width: usize = node.schema().fields().iter().map(width).sum();
        rows.map_or(UNKNOWN_BYTES, |rows| rows as f64 * width.max(1) as f64)
    }
}

fn over(node: &Plan, inputs: Vec<Plan>) -> DataFusionResult<Plan> {
    replace_children_if_necessary(Arc::clone(node), inputs)
}

/// A sort of each partition of its own.
fn sorted(sort: &SortExec, input: Plan) -> SortExec {
    let new = SortExec::new(sort.expr().clone(), input).with_fetch(sort.fetch());
    new.with_preserve_partitioning(true)
}

/// The machine of a leaf.
fn machine(plan: &Plan) -> Option<Arc<Node>> {
    Some(Arc::clone(&plan.downcast_ref::<RemoteExec>()?.part.node))
}

/// The streams of all machines.
fn coalesced(placed: Placed) -> DataFusionResult<Plan> {
    let producers = placed.machines().len();
    Ok(Arc::new(NetworkCoalesceExec::try_new(placed.plan, producers, 1)?))
}

fn is_partial(node: &Plan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| *aggregate.mode() == AggregateMode::Partial)
}

fn is_round_robin(node: &Plan) -> bool {
    let repartition = node.downcast_ref::<RepartitionExec>();
    repartition.is_some_and(|it| matches!(it.partitioning(), Partitioning::RoundRobinBatch(_)))
}

/// Without what spreads rows over threads, or brings them together.
fn as_they_come(node: &Plan) -> &Plan {
    let together = node.downcast_ref::<CoalescePartitionsExec>();
    if let Some(together) = together.filter(|together| together.fetch().is_none()) {
        return as_they_come(together.input());
    }
    match node.downcast_ref::<RepartitionExec>() {
        Some(spread) => as_they_come(spread.input()),
        None => node,
    }
}

/// The operators above one, above another in its place.
fn instead(node: &Plan, below: &Plan, new: Plan) -> DataFusionResult<Plan> {
    if Arc::ptr_eq(node, below) {
        return Ok(new);
    }
    match node.children().as_slice() {
        [input] => over(node, vec![instead(input, below, new)?]),
        _ => internal_err!("{} has no single input", node.name()),
    }
}
