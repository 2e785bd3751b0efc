//! First groups by their key, kept while grouping, where keys are equal to themselves.
//!
//! DataFusion's physical rule `LimitAggregation` (55.2) makes an aggregate keep the groups that a
//! limit above it will let through. It looks groups up by `==`, so that a NaN is never found again,
//! and a thread panics. Where a float takes part, the aggregate keeps all groups.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The rule, where no float takes part.
#[derive(Debug)]
pub(in crate::sql) struct TopKOfExactKeys(
    pub(in crate::sql) Arc<dyn PhysicalOptimizerRule + Send + Sync>,
);

impl PhysicalOptimizerRule for TopKOfExactKeys {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let limited = self.0.optimize(Arc::clone(&plan), config)?;
        let of_floats = limited.exists(|node| {
            let aggregate = node
                .downcast_ref::<AggregateExec>()
                .filter(|known| known.limit_options().is_some());
            Ok(aggregate.is_some_and(|known| {
                known.schema().fields().iter().any(|field| field.data_type().is_floating())
            }))
        })?;
        Ok(if of_floats { plan } else { limited })
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
