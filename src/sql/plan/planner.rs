//! From optimized logical plans to physical ones: fragments go to our executor, the rest to
//! DataFusion's operators.
//!
//! Where this stands on the road of a query: after DataFusion's logical rules. `share` takes out
//! what stands at several places, and `lower` puts fragments into the plan here, so that every way
//! to a physical plan (a statement, EXPLAIN, EXPLAIN ANALYZE) goes through them.

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
use crate::sql::plan::share::{Divided, divide};
use crate::sql::run::asof::AsofNode;
use crate::sql::run::node::FragmentNode;
use crate::sql::run::settings::Settings;
use crate::sql::run::shared::SharedNode;
use crate::sql::run::summary::SummaryNode;
use crate::sql::run::wide_rows::watch_widths;

/// Plans fragments for our executor and the rest for DataFusion's operators.
#[derive(Debug)]
pub(crate) struct Planner {
    /// Whether what stands at several places is computed once.
    pub(crate) shares: bool,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(NodePlanner)]);
        // Without the executor, DataFusion's own operators answer, for others to compare with.
        if !Settings::of(session.config_options()).native {
            let plan = lower(plan.clone(), session)?;
            return watch_widths(planner.create_physical_plan(&plan, session).await?);
        }
        let Divided { plan, parts } = match self.shares {
            true => divide(plan.clone())?,
            false => Divided { plan: plan.clone(), parts: Vec::new() },
        };
        for (part, plan) in parts {
            let plan = lower(plan, session)?;
            part.set_plan(watch_widths(planner.create_physical_plan(&plan, session).await?)?);
        }
        watch_widths(planner.create_physical_plan(&lower(plan, session)?, session).await?)
    }
}

struct NodePlanner;

#[async_trait]
impl ExtensionPlanner for NodePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(shared) = node.as_any().downcast_ref::<SharedNode>() {
            return shared.planned().map(Some);
        }
        if let Some(summary) = node.as_any().downcast_ref::<SummaryNode>() {
            return summary.planned(inputs).map(Some);
        }
        if let Some(asof) = node.as_any().downcast_ref::<AsofNode>() {
            return asof.planned(inputs).map(Some);
        }
        let Some(node) = node.as_any().downcast_ref::<FragmentNode>() else { return Ok(None) };
        node.planned(session, context).map(Some)
    }
}
