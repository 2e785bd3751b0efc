//! Keeps the limits of top-k sorts above window functions.
//!
//! Where this stands on the road of a query: around DataFusion's physical rule
//! `EnsureRequirements`, which decides what has to be sorted and spread over threads. That rule
//! (55.2) removes such a sort if it finds late that a window below gives the order anyway; the
//! limit is lost with it, or moves below the window. When that happens, the rule runs once more
//! over a plan that hides the orders below such sorts, so that each sort has to stay where it is.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::sql::rules::null_rows::NullRowsExec;
use crate::sql::rules::wrapped::{self, PhysicalRule};

type Plan = Arc<dyn ExecutionPlan>;

/// How often each limit over windows occurs in a plan. A limit is known by its number of rows and
/// the number of windows below it, since the rule neither adds nor removes windows.
#[derive(Default)]
struct Limits(HashMap<(usize, usize), usize>);

/// Wraps the rule, so that it loses no limit.
pub(in crate::sql) fn keep_limits(rule: PhysicalRule) -> PhysicalRule {
    wrapped::physical(rule, optimize)
}

fn optimize(rule: &PhysicalRule, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
    let limits = Limits::in_plan(&plan);
    let planned = rule.optimize(Arc::clone(&plan), config)?;
    if limits.are_all_in(&planned) {
        return Ok(planned);
    }
    let planned = rule.optimize(plan.transform_up(with_hidden_order)?.data, config)?;
    if limits.are_all_in(&planned) {
        return Ok(planned);
    }
    internal_err!("a limit over window functions is lost in the plan")
}

impl Limits {
    fn in_plan(plan: &Plan) -> Limits {
        let mut limits = Limits::default();
        limits.count(plan);
        limits
    }

    fn are_all_in(&self, plan: &Plan) -> bool {
        let there = Limits::in_plan(plan).0;
        self.0.iter().all(|(limit, count)| there.get(limit).is_some_and(|there| there >= count))
    }

    /// Counts the limits of a plan. Returns its number of windows and the last limit that its rows
    /// came through, since nodes above a limit may repeat it: a projection, or the merge of sorted
    /// threads.
    fn count(&mut self, node: &Plan) -> (usize, Option<usize>) {
        let below: Vec<_> = node.children().into_iter().map(|child| self.count(child)).collect();
        let windows = below.iter().map(|(windows, _)| windows).sum();
        let last = if let [(_, last)] = below[..] { last } else { None };
        if is_window(node) {
            return (windows + 1, None);
        }
        // This node only states what the sort below it has to do.
        if node.is::<OutputRequirementExec>() {
            return (windows, last);
        }
        let Some(limit) = node.fetch() else {
            return (
                windows,
                last.filter(|_| matches!(node.cardinality_effect(), CardinalityEffect::Equal)),
            );
        };
        if windows > 0 && (node.is::<SortExec>() || last != Some(limit)) {
            *self.0.entry((limit, windows)).or_default() += 1;
        }
        (windows, Some(limit))
    }
}

fn is_window(node: &Plan) -> bool {
    node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>()
}

fn with_hidden_order(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    let limited = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some());
    let Some(sort) = limited else { return Ok(Transformed::no(node)) };
    if !sort.input().exists(|below| Ok(is_window(below)))? {
        return Ok(Transformed::no(node));
    }
    let input = Arc::new(NullRowsExec::new(Arc::clone(sort.input())));
    replace_children_if_necessary(node, vec![input]).map(Transformed::yes)
}
