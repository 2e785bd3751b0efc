//! Groups of the states that machines send.

use std::fmt;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result as DataFusionResult;
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
use crate::query::{Fragment, Output, Recorder};
use crate::sql::run::generate::{self, generate};
use crate::sql::run::resources::{Resources, checked};
use crate::sql::run::statistics::with_counters;
use crate::sql::run::task::Task;
use crate::sql::run::unary::unary_methods;
use crate::sql::work::handle::SessionHandle;

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
    /// What all runs have counted.
    recorder: Arc<Recorder>,
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
            recorder: Arc::default(),
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
        let Some(session) = SessionHandle::of(context.session_config().options()) else {
            return internal_err!("groups of no session");
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let (name, recorder) = ("MergeStates", &self.recorder);
        let has_keys = matches!(
            &self.fragment.output,
            Output::Aggregate { keys, .. } if !keys.is_empty()
        );
        let resources = Resources::new(name, has_keys, session, recorder, baseline, &context);
        let (input, fragment) =
            (self.input.execute(partition, context)?, Arc::clone(&self.fragment));
        Ok(generate(Arc::clone(&self.fragment.schema), move |output| async move {
            merge(&fragment, input, &resources, &output).await
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let (metrics, counters) = (self.metrics.clone_inner(), self.recorder.counters());
        Some(match counters.spilled_bytes {
            0 => metrics,
            _ => with_counters(&metrics, &counters),
        })
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
    resources: &Resources,
    output: &generate::Output,
) -> Result<()> {
    let Output::Aggregate { keys, aggregates, first } = &fragment.output else {
        return Err(Error::Unsupported("states of what is no aggregate".into()));
    };
    let (threads, compute) = (resources.threads()?, resources.baseline.elapsed_compute());
    let context = resources.context(&threads, false);
    let mut groups = MergedGroups::new(keys, aggregates, &context)?;
    while let Some(batch) = input.next().await {
        let batch = batch?;
        let _timer = compute.timer();
        groups.add(&batch)?;
    }
    let mut groups = {
        let _timer = compute.timer();
        groups.finish(first.as_ref())?
    };
    let mut coalescer = resources.coalescer(&fragment.schema);
    loop {
        let timer = compute.timer();
        let Some(batches) = groups.next()? else { break };
        drop(timer);
        for columns in batches {
            let rows = columns.first().map_or(0, |column| column.len());
            for full in coalescer.push(checked(&fragment.schema, columns, rows)?)? {
                resources.out(&full, output).await;
            }
        }
    }
    for last in coalescer.finish()? {
        resources.out(&last, output).await;
    }
    let (bytes, files) = groups.spilled();
    context.recorder.update(|sum| {
        sum.spilled_bytes += bytes;
        sum.spill_files += files;
    });
    Ok(())
}
