//! Which windows need no sorted rows: those with one value for each partition, and a small state,
//! where nothing above them asks for the order in which the sort leaves the rows.

use std::sync::Arc;

use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlanProperties, replace_children_if_necessary};

use super::one_value::{function, has_one_value, windows};

type Plan = Arc<dyn ExecutionPlan>;

/// Takes the sorts of such windows away, and puts what `hashed` makes of a window in its place.
/// `order_matters` tells whether the order of a plan's rows is asked for.
pub(super) fn without_sorts(
    plan: Plan,
    order_matters: bool,
    hashed: fn(Plan) -> Plan,
) -> DataFusionResult<Plan> {
    if let Some(input) = sorted_for_window(&plan).filter(|_| !order_matters) {
        let input = without_sorts(input, false, hashed)?;
        return Ok(hashed(replace_children_if_necessary(plan, vec![input])?));
    }
    let needed = plan.required_input_ordering();
    let kept = plan.maintains_input_order();
    let in_order = takes_rows_in_order(plan.as_ref());
    let children = plan.children().into_iter().enumerate().map(|(at, child)| {
        let is_needed = needed.get(at).is_some_and(Option::is_some);
        let is_kept = kept.get(at).copied().unwrap_or(true);
        let matters = in_order || is_needed || (order_matters && is_kept);
        without_sorts(Arc::clone(child), matters, hashed)
    });
    let children = children.collect::<DataFusionResult<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// Whether somebody may ask for the order of a statement's rows. An ORDER BY that the sort for the
/// window serves, too, has left no trace, unless rows of several partitions come out: they have no
/// order.
pub(super) fn may_be_ordered(plan: &Plan) -> bool {
    plan.output_partitioning().partition_count() == 1
}

/// What is below the sort for a window, where the window does not need it.
fn sorted_for_window(plan: &Plan) -> Option<Plan> {
    plan.downcast_ref::<WindowAggExec>()?;
    let [child] = plan.children()[..] else { return None };
    let sort = child.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none())?;
    let fits = windows(plan).iter().all(has_one_value)
        && windows(plan).iter().filter_map(function).all(has_small_state);
    // Otherwise the sort also brings the rows together.
    let partitions = child.output_partitioning().partition_count();
    let is_same = sort.input().output_partitioning().partition_count() == partitions;
    (fits && is_same).then(|| Arc::clone(sort.input()))
}

/// Functions whose states are a few numbers, or one text: those of all partitions are held at once.
const SMALL_STATES: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

fn has_small_state(function: &AggregateFunctionExpr) -> bool {
    !function.is_distinct() && SMALL_STATES.contains(&function.fun().name())
}

/// Functions that take rows in the order in which a subquery has them.
const KEEP_ORDER: &[&str] = &["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// Whether an operator goes by the order of its input though it does not ask for one.
fn takes_rows_in_order(plan: &dyn ExecutionPlan) -> bool {
    let by_order = |plan: &AggregateExec| {
        plan.aggr_expr().iter().any(|function| {
            !function.order_bys().is_empty() || KEEP_ORDER.contains(&function.fun().name())
        })
    };
    plan.fetch().is_some()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<PartialSortExec>()
        || plan.downcast_ref::<AggregateExec>().is_some_and(by_order)
}
