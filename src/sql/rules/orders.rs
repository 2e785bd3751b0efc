//! Sorts inputs that do not declare the order which their operator needs.
//!
//! Where this stands on the road of a query: a physical rule before DataFusion's last check, which
//! refuses such plans. DataFusion (55.2) pushes the sort of a UNION ALL down to its inputs, and may
//! express it there by another column that is equal in that input, as in `SELECT b AS c, b AS d`;
//! the union then does not know that it has the required order. Such an input is sorted once more.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary,
};

#[derive(Debug)]
pub(in crate::sql) struct SortUnsortedInputs;

impl PhysicalOptimizerRule for SortUnsortedInputs {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(with_sorted_inputs)?.data)
    }

    fn name(&self) -> &'static str {
        "sort_what_is_not"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_sorted_inputs(
    node: Arc<dyn ExecutionPlan>,
) -> DataFusionResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs = Vec::with_capacity(node.children().len());
    let mut changed = false;
    for (input, required) in node.children().into_iter().zip(node.required_input_ordering()) {
        let mut input = Arc::clone(input);
        if let Some(required) = required {
            let required = required.into_single();
            if !input.equivalence_properties().ordering_satisfy_requirement(required.clone())? {
                let is_partitioned = input.output_partitioning().partition_count() > 1;
                let sort = SortExec::new(LexOrdering::from(required), input);
                input = Arc::new(sort.with_preserve_partitioning(is_partitioned));
                changed = true;
            }
        }
        inputs.push(input);
    }
    if changed {
        replace_children_if_necessary(node, inputs).map(Transformed::yes)
    } else {
        Ok(Transformed::no(node))
    }
}
