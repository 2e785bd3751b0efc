//! Sides and hash tables of the joins that keep their place: DataFusion chooses them.
//!
//! Its rule (`JoinSelection`, 55.2) computes what is known of a join's inputs from the leaves up,
//! anew for each join above them. It is shown each of these joins alone, over leaves that stand for
//! the inputs and ask them once.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};

use crate::sql::rules::wrapped::PhysicalRule;
use crate::sql::run::leaf::leaf_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// A join as the rule chooses its sides.
pub(super) fn selected(
    join: Plan,
    rule: &PhysicalRule,
    config: &ConfigOptions,
) -> DataFusionResult<Plan> {
    let inputs = join.children().into_iter().map(Input::of).collect();
    let alone = replace_children_if_necessary(join, inputs)?;
    let chosen = rule.optimize(alone, config)?;
    let restored = chosen.transform_up(|node| {
        Ok(match node.downcast_ref::<Input>() {
            Some(input) => Transformed::yes(Arc::clone(&input.plan)),
            None => Transformed::no(node),
        })
    })?;
    Ok(restored.data)
}

/// A leaf that stands for an input of a join.
#[derive(Debug)]
struct Input {
    plan: Plan,
    properties: Arc<PlanProperties>,
    statistics: OnceLock<Arc<Statistics>>,
}

impl Input {
    fn of(plan: &Plan) -> Plan {
        Arc::new(Input {
            plan: Arc::clone(plan),
            properties: Arc::clone(plan.properties()),
            statistics: OnceLock::new(),
        })
    }
}

impl DisplayAs for Input {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Input {
    fn name(&self) -> &'static str {
        "Input"
    }

    leaf_methods!(no expressions);

    fn execute(
        &self,
        _: usize,
        _: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        internal_err!("an input of a join that is still being planned cannot run")
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        if args.partition().is_some() {
            return StatisticsContext::new().compute(self.plan.as_ref(), args);
        }
        if let Some(known) = self.statistics.get() {
            return Ok(Arc::clone(known));
        }
        let known = StatisticsContext::new().compute(self.plan.as_ref(), args)?;
        Ok(Arc::clone(self.statistics.get_or_init(|| known)))
    }
}
