//! What all leaves of physical plans of ours have in common: scans, fragments and texts have no
//! children, and properties that are known when they are made.

use std::sync::Arc;

use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{Partitioning, PlanProperties};

/// The properties of a leaf that ends.
pub(in crate::sql) fn leaf_properties(
    rows: EquivalenceProperties,
    partitions: usize,
    emission: EmissionType,
) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(partitions);
    Arc::new(PlanProperties::new(rows, partitioning, emission, Boundedness::Bounded))
}

/// The methods of an `ExecutionPlan` that are the same for all leaves with a field `properties`;
/// with `no expressions`, also that of those which have none.
macro_rules! leaf_methods {
    () => {
        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn with_new_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn ExecutionPlan>>,
        ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }
    };
    (no expressions) => {
        leaf_methods!();

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
        ) -> DataFusionResult<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }
    };
}

pub(in crate::sql) use leaf_methods;
