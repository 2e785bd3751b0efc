//! From optimized logical plans to physical ones: fragments go to our executor, the rest to
//! DataFusion's operators.
//!
//! Where this stands on the road of a query: after DataFusion's logical rules. `lower` puts
//! fragments into the plan here, so that every way to a physical plan (a statement, EXPLAIN,
//! EXPLAIN ANALYZE) goes through it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use crate::sql::plan::lower::lower;
use crate::sql::run::exec::Engine;
use crate::sql::run::node::FragmentNode;

/// Plans fragments for our executor and the rest for DataFusion's operators.
#[derive(Debug)]
pub(crate) struct Planner(pub(crate) Arc<Engine>);

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let plan = lower(plan.clone(), session)?;
        let fragments = FragmentPlanner(Arc::clone(&self.0));
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(fragments)])
            .create_physical_plan(&plan, session)
            .await
    }
}

struct FragmentPlanner(Arc<Engine>);

#[async_trait]
impl ExtensionPlanner for FragmentPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<FragmentNode>() else { return Ok(None) };
        node.planned(&self.0, session, context).map(Some)
    }
}
