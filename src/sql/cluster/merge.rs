//! Groups of the states that machines send.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

use crate::error::{Error, Result};
use crate::query::merged_groups::MergedGroups;
use crate::query::slice::SLICE_ROWS;
use crate::query::{Fragment, Output};
use crate::sql::run::generate::{self, generate};
use crate::sql::run::task::Task;
use crate::sql::run::unary::unary_methods;

/// Merges states of the same groups, and gives the groups: each partition those of its input, which
/// has all of their states.
#[derive(Debug)]
pub(super) struct MergeExec {
    /// What the states are of.
    fragment: Arc<Fragment>,
    input: Arc<dyn ExecutionPlan>,
    /// What another machine is told that does this.
    task: Task,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MergeExec {
    pub(super) fn new(
        fragment: &Arc<Fragment>,
        input: Arc<dyn ExecutionPlan>,
        task: Task,
    ) -> MergeExec {
        let rows = EquivalenceProperties::new(Arc::clone(&fragment.schema));
        // The keys are the first columns of the states, and of the groups.
        let partitioning = input.output_partitioning().clone();
        let properties =
            PlanProperties::new(rows, partitioning, EmissionType::Final, Boundedness::Bounded);
        MergeExec {
            fragment: Arc::clone(fragment),
            input,
            task,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> DataFusionResult<MergeExec> {
        Ok(MergeExec::new(&self.fragment, input, self.task.clone()))
    }

    pub(super) fn task(&self) -> &Task {
        &self.task
    }
}

impl DisplayAs for MergeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergeStates")
    }
}

impl ExecutionPlan for MergeExec {
    fn name(&self) -> &'static str {
        "MergeStates"
    }

    unary_methods!(no expressions);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let fragment = Arc::clone(&self.fragment);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let memory = MemoryConsumer::new("MergeStates").register(context.memory_pool());
        Ok(generate(Arc::clone(&self.fragment.schema), move |output| async move {
            merge(&fragment, input, memory, &baseline, &output).await
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        let mut known = Statistics::new_unknown(&self.fragment.schema);
        if matches!(&self.fragment.output, Output::Aggregate { keys, .. } if keys.is_empty()) {
            known.num_rows = Precision::Exact(1);
        }
        Ok(Arc::new(known))
    }
}

async fn merge(
    fragment: &Fragment,
    mut input: SendableRecordBatchStream,
    memory: MemoryReservation,
    baseline: &BaselineMetrics,
    output: &generate::Output,
) -> Result<()> {
    let Output::Aggregate { keys, aggregates, .. } = &fragment.output else {
        return Err(Error::Unsupported("states of what is no aggregate".into()));
    };
    let mut groups = MergedGroups::new(keys, aggregates)?;
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let _timer = baseline.elapsed_compute().timer();
        groups.add(&batch)?;
        memory.try_resize(groups.memory())?;
    }
    for batch in groups.finish(&fragment.schema) {
        let batch = batch?;
        for start in (0..batch.num_rows()).step_by(SLICE_ROWS) {
            let slice = batch.slice(start, SLICE_ROWS.min(batch.num_rows() - start));
            baseline.record_output(slice.num_rows());
            output.emit(slice).await;
        }
    }
    Ok(())
}
