//! The streams of all machines in the partitions that a plan has for them.
//!
//! A plan is made for a number of partitions, and there are as many streams as machines give.
//! And nobody looks through this operator for a limit: what is above a scan may need more rows than
//! it gives.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::stream::select_all;

use crate::sql::run::leaf::leaf_properties;
use crate::sql::run::unary::unary_methods;

/// Gives its input in a number of partitions, each of which has the streams of some of them, batch
/// by batch as they come.
#[derive(Debug)]
pub(super) struct GatherExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GatherExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, partitions: usize) -> GatherExec {
        let rows = EquivalenceProperties::new(input.schema());
        let properties = leaf_properties(rows, partitions.max(1), EmissionType::Incremental);
        GatherExec { input, properties }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> DataFusionResult<GatherExec> {
        Ok(GatherExec::new(input, self.properties.partitioning.partition_count()))
    }
}

impl DisplayAs for GatherExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gather")
    }
}

impl ExecutionPlan for GatherExec {
    fn name(&self) -> &'static str {
        "Gather"
    }

    unary_methods!(no expressions);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let (all, step) = (
            self.input.output_partitioning().partition_count(),
            self.properties.partitioning.partition_count(),
        );
        let streams = (partition..all)
            .step_by(step)
            .map(|from| self.input.execute(from, Arc::clone(&context)))
            .collect::<DataFusionResult<Vec<_>>>()?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), select_all(streams))))
    }
}
