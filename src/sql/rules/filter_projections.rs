//! Moves the projection of a filter out of it, where a projection is above the filter.
//!
//! Where this stands on the road of a query: a physical rule before DataFusion's last
//! `ProjectionPushdown`. That rule (55.2) swaps a filter that returns only some of its columns with
//! the projection above it, as if the projection read the filter's input. It fails, or confuses two
//! columns that have one name. Here the filter returns all of its columns again, and a projection
//! above it selects. DataFusion's rule then merges the two projections.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(in crate::sql) struct SelectAboveFilters;

impl PhysicalOptimizerRule for SelectAboveFilters {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        Ok(plan.transform_up(split_filter)?.data)
    }

    fn name(&self) -> &'static str {
        "select_above_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn split_filter(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    let filter = node
        .downcast_ref::<ProjectionExec>()
        .and_then(|above| above.input().downcast_ref::<FilterExec>());
    let Some((filter, selected)) =
        filter.and_then(|filter| Some((filter, filter.projection().as_ref()?)))
    else {
        return Ok(Transformed::no(node));
    };
    let whole = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    let schema = whole.schema();
    let column = |at: &usize| {
        let name = schema.field(*at).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, *at)), alias: name.clone() }
    };
    let select =
        ProjectionExec::try_new(selected.iter().map(column).collect::<Vec<_>>(), Arc::new(whole))?;
    replace_children_if_necessary(node, vec![Arc::new(select)]).map(Transformed::yes)
}
