//! Sorts of which only the first rows are wanted, kept where windows stand below.
//!
//! Where this stands on the road of a query: around the physical rule that decides what has to be sorted and spread over
//! threads. DataFusion's (55.2) takes such a sort away where it finds late that a window below gives the order anyway, and
//! forgets the limit with it, or hands it down below the window. Where the rule has done so, it runs once more
//! over a plan that knows nothing of the orders below such sorts, so that each has to stay where it is.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::null_rows::NullRowsExec;

type Plan = Arc<dyn ExecutionPlan>;

/// A limit of that many rows over that many windows: the rule neither adds windows nor takes any away.
type Limit = (usize, usize);

/// The rule, by which no limit is lost.
#[derive(Debug)]
pub(super) struct KeepLimits(pub(super) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for KeepLimits {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        let mut limits = HashSet::new();
        note_limits(&plan, &|node| node.is::<SortExec>(), &mut limits);
        let arranged = self.0.optimize(Arc::clone(&plan), config)?;
        if limits.is_empty() {
            return Ok(arranged);
        }
        let mut kept = HashSet::new();
        // That one only says what the sort below it has to do.
        note_limits(&arranged, &|node| !node.is::<OutputRequirementExec>(), &mut kept);
        if limits.is_subset(&kept) {
            return Ok(arranged);
        }
        self.0.optimize(plan.transform_up(over_no_order)?.data, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Notes the limits over windows that some kind of node has, and gives the number of windows.
fn note_limits(node: &Plan, counts: &dyn Fn(&Plan) -> bool, limits: &mut HashSet<Limit>) -> usize {
    let below: usize = node.children().into_iter().map(|child| note_limits(child, counts, limits)).sum();
    if let Some(limit) = node.fetch().filter(|_| below > 0 && counts(node)) {
        limits.insert((limit, below));
    }
    below + usize::from(node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>())
}

fn over_no_order(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    let Some(sort) = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some()) else {
        return Ok(Transformed::no(node));
    };
    let input = Arc::new(NullRowsExec::new(Arc::clone(sort.input())));
    replace_children_if_necessary(node, vec![input]).map(Transformed::yes)
}
