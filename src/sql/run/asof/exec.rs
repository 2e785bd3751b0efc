//! The operator of ASOF JOIN.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{EmissionType, ExecutionPlanProperties};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};

use super::merge::{self, Merge, Rank};
use super::order::{Compared, KEY_ORDER, Match};
use crate::sql::run::generate::generate;

type Plan = Arc<dyn ExecutionPlan>;

/// The rows of the left side, each with one of the right side.
#[derive(Debug)]
pub(super) struct AsofJoinExec {
    left: Plan,
    right: Plan,
    left_columns: Compared,
    right_columns: Compared,
    which: Match,
    /// Whether rows of the left side without another one stay.
    is_outer: bool,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl AsofJoinExec {
    pub(super) fn new(
        [left, right]: [Plan; 2],
        [left_columns, right_columns]: [Compared; 2],
        which: Match,
        is_outer: bool,
        schema: arrow_schema::SchemaRef,
    ) -> AsofJoinExec {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            // The columns of the left side come first.
            left.output_partitioning().clone(),
            EmissionType::Incremental,
            left.boundedness(),
        ));
        let metrics = ExecutionPlanMetricsSet::new();
        AsofJoinExec {
            left,
            right,
            left_columns,
            right_columns,
            which,
            is_outer,
            metrics,
            properties,
        }
    }

    fn sides(&self) -> [&Compared; 2] {
        [&self.left_columns, &self.right_columns]
    }
}

fn as_expr(column: &Column) -> Arc<dyn PhysicalExpr> {
    Arc::new(column.clone())
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join_type = if self.is_outer { "Left" } else { "Inner" };
        write!(f, "{}: join_type={join_type}, match={:?}, on=[", self.name(), self.which)?;
        for (at, (left, right)) in self.left_columns.iter().zip(&self.right_columns).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}({left}, {right})")?;
        }
        write!(f, "]")
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &'static str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        for column in self.sides().into_iter().flatten() {
            if visit(&as_expr(column))? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        let columns = self.sides().map(Clone::clone);
        let (which, is_outer) = (self.which, self.is_outer);
        match <[Plan; 2]>::try_from(children) {
            Ok(sides) => {
                Ok(Arc::new(AsofJoinExec::new(sides, columns, which, is_outer, self.schema())))
            }
            Err(children) => internal_err!("{} over {} inputs", self.name(), children.len()),
        }
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let keys = |columns: &Compared| match columns.split_last() {
            Some((_, keys)) => keys.iter().map(as_expr).collect(),
            None => Vec::new(),
        };
        let keys = self.sides().map(keys);
        match keys.iter().any(Vec::is_empty) {
            true => InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2]),
            false => InputDistributionRequirements::co_partitioned(
                keys.into_iter().map(Distribution::KeyPartitioned).collect(),
            ),
        }
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let ordered = |columns: &Compared| {
            let last = columns.len().saturating_sub(1);
            let keys = columns.iter().enumerate().map(|(at, column)| {
                let options = if at == last { self.which.order() } else { KEY_ORDER };
                PhysicalSortExpr::new(as_expr(column), options)
            });
            LexOrdering::new(keys).map(OrderingRequirements::from)
        };
        self.sides().into_iter().map(ordered).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let counts =
            [&self.left, &self.right].map(|side| side.output_partitioning().partition_count());
        if counts[0] != counts[1] {
            return internal_err!("{} over {counts:?} partitions", self.name());
        }
        let left = make_cooperative(self.left.execute(partition, Arc::clone(&context))?);
        let right = make_cooperative(self.right.execute(partition, Arc::clone(&context))?);
        let rank = |side: &Plan, columns| Rank::new(&side.schema(), columns, self.which.order());
        let memory = MemoryConsumer::new(self.name()).register(context.memory_pool());
        let mut merge = Merge {
            left_rank: rank(&self.left, &self.left_columns)?,
            right: merge::Right::new(right, rank(&self.right, &self.right_columns)?, memory),
            takes_equal: self.which.takes_equal(),
            is_outer: self.is_outer,
            schema: self.schema(),
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        Ok(generate(
            self.schema(),
            |output| async move { merge.run(left, &output, &baseline).await },
        ))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
