//! The last rule of planning in a cluster: what each machine does with its part comes in the place
//! of scans and fragments of tables that are on several (`leaves`), and so do operators above them
//! that can run where the rows are (`stages`).

use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundaryExt, RouteTasksEvent, RouteTasksEventResponse, Stage,
};
use url::Url;

use super::sites::different;
use super::stages::Stages;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::scan::ScanExec;
use crate::sql::run::task::RemoteExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct Distribute(pub(in crate::sql) Functions);

/// What the functions of plans are on all machines; known once the engine is made.
pub(in crate::sql) type Functions = Arc<OnceLock<Arc<TaskContext>>>;

impl PhysicalOptimizerRule for Distribute {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        let is_distributed = plan.exists(|node| {
            let scan = node.downcast_ref::<ScanExec>().map(|scan| &scan.scan().table);
            let fragment = node.downcast_ref::<FragmentExec>().map(|exec| exec.parts().1);
            Ok(scan.or(fragment).is_some_and(|table| table.parts().is_some()))
        })?;
        if !is_distributed {
            return Ok(plan);
        }
        let functions = self.0.get().map(|functions| &**functions);
        let plan = Stages::new(config, functions).whole(&plan)?;
        // The whole plan is run as one partition.
        match plan.output_partitioning().partition_count() {
            0 | 1 => Ok(plan),
            _ => Ok(Arc::new(CoalescePartitionsExec::new(plan))),
        }
    }

    fn name(&self) -> &str {
        "Distribute"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Routes each task to its machine: that of its part of a table, or else one of those from which
/// the input of most machines comes.
pub(in crate::sql) fn route(
    event: RouteTasksEvent<'_>,
) -> Option<DataFusionResult<RouteTasksEventResponse>> {
    let (mut urls, mut of_input): (_, Vec<Url>) = (None, Vec::new());
    let found = event.plan.apply(|node| {
        if let Some(Stage::Remote(input)) = node.as_network_boundary().map(|it| it.input_stage())
            && different(input.workers.iter()) > different(of_input.iter())
        {
            of_input = input.workers.clone();
        }
        let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let of = |plan: &Plan| Some(plan.downcast_ref::<RemoteExec>()?.part.node.url.clone());
        urls = leaf.variants().iter().map(of).collect::<Option<Vec<_>>>();
        Ok(TreeNodeRecursion::Stop)
    });
    let in_turn = |from: Vec<Url>| from.into_iter().cycle().take(event.task_count).collect();
    match found {
        Err(error) => Some(Err(error)),
        Ok(_) => {
            let urls = urls.or_else(|| (!of_input.is_empty()).then(|| in_turn(of_input)));
            Some(Ok(RouteTasksEventResponse::new(urls?)))
        }
    }
}
