//! Keeps limits below the sorts that are written above them.
//!
//! Where this stands on the road of a query: a physical rule before DataFusion decides what has to
//! be sorted. That rule (55.2) sorts below a limit over rows in no order, and takes the first of
//! the sorted ones: `SELECT n FROM (SELECT n FROM t LIMIT 5) ORDER BY n DESC` gives the greatest of
//! all rows, and never ends where a recursive query gives rows without end. SQL allows any five,
//! but the limit says that no more are to be read. Here a [`NullRowsExec`], which no sort goes
//! below, stands over such limits wherever a node above needs an order.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::sql::rules::null_rows::NullRowsExec;

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(in crate::sql) struct ChooseRowsFirst;

impl PhysicalOptimizerRule for ChooseRowsFirst {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        // Whether each of the nodes around the present one needs an order, or one above it does.
        let sorted = RefCell::new(Vec::new());
        let enter = |node: Plan| {
            let around = sorted.borrow().last().is_some_and(|is_sorted| *is_sorted);
            sorted.borrow_mut().push(around || needs_order(&node));
            Ok(Transformed::no(node))
        };
        let leave = |node: Plan| {
            sorted.borrow_mut().pop();
            let is_limit = node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>();
            let around = sorted.borrow().last().is_some_and(|is_sorted| *is_sorted);
            if !is_limit || !around || node.output_ordering().is_some() {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(NullRowsExec::new(node)) as Plan))
        };
        Ok(plan.transform_down_up(enter, leave)?.data)
    }

    fn name(&self) -> &'static str {
        "choose_rows_first"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn needs_order(node: &Plan) -> bool {
    node.is::<SortExec>() || node.required_input_ordering().iter().any(Option::is_some)
}
