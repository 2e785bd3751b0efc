//! Hides what is known about rows where rows of nulls join them.
//!
//! Where this stands on the road of a query: a physical rule before DataFusion decides what has to
//! be sorted. An outer join adds rows of nulls to a side, and grouping sets turn keys into nulls.
//! DataFusion (55.2) takes what it knows about the rows below for true above, too: that a column is
//! constant, that two columns are equal, or in what order the rows are. `ORDER BY one, a` then
//! sorts by `a` alone where `one` is 1 or null, and the orders of windows and groups suffer in the
//! same way. Here a [`NullRowsExec`] in between passes rows on and declares nothing about them.
//!
//! The node also goes below windows over rows with equal or constant columns: for a partition by
//! several such columns, DataFusion does not recognise the order that it has made itself, and
//! refuses the plan. `kept_limits` puts it below first rows over windows, and
//! `chosen_rows` above limits that no sort may pass.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(in crate::sql) struct ForgetAtNullRows;

impl PhysicalOptimizerRule for ForgetAtNullRows {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        Ok(plan.transform_up(with_hidden_properties)?.data)
    }

    fn name(&self) -> &'static str {
        "forget_at_null_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_hidden_properties(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    if nulls_keys(&node) {
        return Ok(hide_properties(&node).map_or_else(|| Transformed::no(node), Transformed::yes));
    }
    let misled: &[bool] = match join_type(&node) {
        Some(JoinType::Left) => &[false, true],
        Some(JoinType::Right) => &[true, false],
        Some(JoinType::Full) => &[true, true],
        None if is_window_over_equals(&node) => &[true],
        _ => return Ok(Transformed::no(node)),
    };
    let mut changed = false;
    let mut inputs = Vec::with_capacity(misled.len());
    for (input, misled) in node.children().into_iter().zip(misled) {
        let hidden = if *misled { hide_properties(input) } else { None };
        changed |= hidden.is_some();
        inputs.push(hidden.unwrap_or_else(|| Arc::clone(input)));
    }
    match changed {
        true => replace_children_if_necessary(node, inputs).map(Transformed::yes),
        false => Ok(Transformed::no(node)),
    }
}

fn join_type(node: &Plan) -> Option<JoinType> {
    let hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let nested = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type());
    hash.or_else(nested).or_else(merge)
}

fn is_window_over_equals(node: &Plan) -> bool {
    let bounded = node
        .downcast_ref::<BoundedWindowAggExec>()
        .map(|window| (window.window_expr(), window.input()));
    let whole = || {
        node.downcast_ref::<WindowAggExec>().map(|window| (window.window_expr(), window.input()))
    };
    let Some(([window, ..], input)) = bounded.or_else(whole) else { return false };
    window.partition_by().len() > 1 && !input.equivalence_properties().eq_group().is_empty()
}

/// Whether a node is an aggregate in which some grouping set lacks a key.
fn nulls_keys(node: &Plan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate
        .is_some_and(|aggregate| aggregate.group_expr().groups().iter().flatten().any(|null| *null))
}

/// Puts the node over a plan, if there is something to hide.
fn hide_properties(input: &Plan) -> Option<Plan> {
    let known = input.equivalence_properties();
    let nothing = known.eq_group().is_empty() && known.oeq_class().is_empty();
    (!nothing).then(|| Arc::new(NullRowsExec::new(Arc::clone(input))) as Plan)
}

/// Passes rows on unchanged, and declares no equalities, constants or orders.
#[derive(Debug)]
pub(in crate::sql) struct NullRowsExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl NullRowsExec {
    pub(in crate::sql) fn new(input: Plan) -> NullRowsExec {
        let below = input.properties();
        let nothing = EquivalenceProperties::new(input.schema());
        let properties = PlanProperties::new(
            nothing,
            below.partitioning.clone(),
            below.emission_type,
            below.boundedness,
        )
        .with_evaluation_type(below.evaluation_type)
        .with_scheduling_type(below.scheduling_type);
        NullRowsExec { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for NullRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for NullRowsExec {
    fn name(&self) -> &'static str {
        "NullRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        match <[Plan; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(NullRowsExec::new(input))),
            Err(children) => internal_err!("{} over {} inputs", self.name(), children.len()),
        }
    }

    /// This node does no work that more threads could share.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
