//! Windows whose frames reach the end of their partition.
//!
//! Where this stands on the road of a query: one of the last physical rules puts a
//! [`WholePartitionsExec`] in the place of DataFusion's `WindowAggExec` (55.2), which holds the
//! rows of all partitions and all results, and counts neither. Here, too, rows come in the order of
//! the keys of partitions, but a partition goes out as soon as its last row has come.
//!
//! Where each function has one value for all rows of a partition (`sum(x) OVER (PARTITION BY g)`),
//! rows are [`aggregated`] as they come, as for GROUP BY; those of the partition that is not
//! complete wait in memory, or in a file once there is no room. If nothing above needs their order,
//! they are not sorted at all ([`unordered`], [`hashed`]). Other functions get the rows of a
//! partition [`together`]: those of some (`ntile`, `last_value`) wait as well ([`passes`]), but a
//! frame from each row to the end needs them in memory. Windows that need few rows at a time are
//! [`split`] off.

mod aggregated;
mod hashed;
mod merge;
pub(in crate::sql::run) mod one_value;
mod passes;
mod rows;
mod split;
mod together;
mod unordered;

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    SpillManager, replace_children_if_necessary,
};

use self::aggregated::Aggregated;
use self::hashed::{Hashed, numbered, partitions_of};
use self::one_value::{function, has_one_value, windows};
use self::passes::Passes;
use self::rows::Out;
use self::together::Together;
use crate::sql::run::cut::Cut;
use crate::sql::run::generate::generate;
use crate::sql::run::held::Held;
use crate::sql::run::unary::replacing_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// Puts our operator in the place of DataFusion's.
#[derive(Debug)]
pub(in crate::sql) struct PartitionByPartition;

impl PhysicalOptimizerRule for PartitionByPartition {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> DataFusionResult<Plan> {
        let order_matters = unordered::may_be_ordered(&plan);
        // A statement that begins again for lack of memory sorts.
        let plan = match options.optimizer.prefer_hash_join {
            true => unordered::without_sorts(plan, order_matters, WholePartitionsExec::hashed)?,
            false => plan,
        };
        let apart = |node: Plan| {
            Ok(match split::by_kind(&node)? {
                Some(both) => Transformed::yes(both),
                None => Transformed::no(node),
            })
        };
        let plan = plan.transform_up(apart)?.data;
        let rewritten = plan.transform_down(|node| {
            Ok(match node.is::<WindowAggExec>() {
                true => Transformed::yes(Arc::new(WholePartitionsExec::new(node)) as Plan),
                false => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "partition_by_partition"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// How the rows of windows are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// In any order, until all have come.
    Hashed,
    /// In the order of partitions, each with one value.
    Aggregated,
    /// In the order of partitions, those of one at a time, in files where there is no room.
    Waiting,
    /// In the order of partitions, those of one at a time in memory.
    Together,
}

/// Computes windows over whole partitions.
#[derive(Debug)]
pub(in crate::sql) struct WholePartitionsExec {
    /// DataFusion's operator, which knows the properties of the rows.
    replaced: Plan,
    mode: Mode,
    metrics: ExecutionPlanMetricsSet,
}

impl WholePartitionsExec {
    fn new(replaced: Plan) -> WholePartitionsExec {
        let metrics = ExecutionPlanMetricsSet::new();
        let one_value = windows(&replaced).iter().all(has_one_value);
        let mode = match one_value {
            true => Mode::Aggregated,
            false if passes::fit(windows(&replaced)) => Mode::Waiting,
            false => Mode::Together,
        };
        WholePartitionsExec { replaced, mode, metrics }
    }

    /// One over rows in any order.
    fn hashed(replaced: Plan) -> Plan {
        Arc::new(WholePartitionsExec { mode: Mode::Hashed, ..WholePartitionsExec::new(replaced) })
    }

    /// Whether it holds what must fit in memory, and would not over sorted rows.
    pub(in crate::sql) fn is_hashed(&self) -> bool {
        self.mode == Mode::Hashed
    }

    fn windows(&self) -> &[Arc<dyn WindowExpr>] {
        windows(&self.replaced)
    }
}

impl DisplayAs for WholePartitionsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.windows().iter().map(|window| window.name()).collect();
        let mode = match self.mode {
            Mode::Hashed => "hashed",
            Mode::Aggregated => "aggregated",
            Mode::Waiting => "waiting",
            Mode::Together => "together",
        };
        write!(f, "{}: wdw=[{}], rows={mode}", self.name(), names.join(", "))
    }
}

impl ExecutionPlan for WholePartitionsExec {
    fn name(&self) -> &'static str {
        "WholePartitionsExec"
    }

    replacing_methods!();

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        let replaced = replace_children_if_necessary(Arc::clone(&self.replaced), children)?;
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(WholePartitionsExec { replaced, mode: self.mode, metrics }))
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        match self.mode {
            Mode::Hashed => vec![None],
            Mode::Aggregated | Mode::Waiting | Mode::Together => {
                self.replaced.required_input_ordering()
            }
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let [input] = self.children()[..] else {
            return internal_err!("{} has one input", self.name());
        };
        let windows = self.windows().to_vec();
        let rows = make_cooperative(input.execute(partition, Arc::clone(&context))?);
        let spills = SpillManager::new(
            context.runtime_env(),
            SpillMetrics::new(&self.metrics, partition),
            match self.mode {
                Mode::Hashed => numbered(&input.schema()),
                Mode::Aggregated | Mode::Waiting | Mode::Together => input.schema(),
            },
        );
        let held = Held::new("Window", spills, self.mode != Mode::Together, &context);
        let keys = windows.first().map_or(&[][..], |window| window.partition_by());
        let cut = Cut::new(keys);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let out = Out::new(self.schema(), baseline, &context);
        Ok(match self.mode {
            Mode::Hashed => {
                let partitions = partitions_of(keys, &input.schema())?;
                let functions = Aggregated::functions(windows.iter().filter_map(function))?;
                let state = Aggregated::state(&context);
                let hashed = Hashed { windows, functions, partitions, state, held, out };
                generate(self.schema(), |output| hashed.run(rows, output))
            }
            Mode::Aggregated => {
                let functions = Aggregated::functions(windows.iter().filter_map(function))?;
                let state = Aggregated::state(&context);
                let partitions = Aggregated { windows, functions, state, cut, held, out };
                generate(self.schema(), |output| partitions.run(rows, output))
            }
            Mode::Waiting | Mode::Together => {
                let is_waiting = self.mode == Mode::Waiting;
                let passes = is_waiting.then(|| Passes::of(&windows, &context)).flatten();
                let partitions = Together { windows, passes, cut, held, out };
                generate(self.schema(), |output| partitions.run(rows, output))
            }
        })
    }
}
