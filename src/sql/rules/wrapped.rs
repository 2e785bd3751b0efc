//! Logical rules made of functions, and DataFusion's rules with code of ours around them.
//!
//! Where this stands on the road of a query: in the place of the rule that is wrapped. A wrapped
//! rule keeps its name and its other properties; only what it does to a plan goes through us.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::Error;
use crate::sql::work::handle::SessionHandle;

pub(in crate::sql) type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
pub(in crate::sql) type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// What a logical rule does to a plan, or to one node of it.
type Rewrite = fn(LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>>;

#[derive(Debug)]
struct Rewriting {
    name: &'static str,
    order: Option<ApplyOrder>,
    rewrite: Rewrite,
}

/// A logical rule that rewrites each node of a plan, from the root.
pub(in crate::sql) fn each_node(name: &'static str, rewrite: Rewrite) -> LogicalRule {
    Arc::new(Rewriting { name, order: Some(ApplyOrder::TopDown), rewrite })
}

/// A logical rule that rewrites a plan as a whole.
pub(in crate::sql) fn whole_plan(name: &'static str, rewrite: Rewrite) -> LogicalRule {
    Arc::new(Rewriting { name, order: None, rewrite })
}

impl OptimizerRule for Rewriting {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.order
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}

struct Wrapped<R, F> {
    rule: R,
    run: F,
}

/// Wraps a logical rule: `run` gets the rule with each plan that the rule would get.
pub(in crate::sql) fn logical<F>(rule: LogicalRule, run: F) -> LogicalRule
where
    F: Fn(
            &LogicalRule,
            LogicalPlan,
            &dyn OptimizerConfig,
        ) -> DataFusionResult<Transformed<LogicalPlan>>
        + Send
        + Sync
        + 'static,
{
    Arc::new(Wrapped { rule, run })
}

/// Wraps a logical rule so that planning ends before it once its session is cancelled.
pub(in crate::sql) fn stoppable(rule: LogicalRule) -> LogicalRule {
    logical(rule, move |rule, plan, config| {
        let options = config.options();
        match SessionHandle::of(&options).is_some_and(|it| it.canceller.is_cancelled()) {
            true => Err(Error::Cancelled.into()),
            false => rule.rewrite(plan, config),
        }
    })
}

/// Wraps a physical rule: `run` gets the rule with each plan that the rule would get.
pub(in crate::sql) fn physical<F>(rule: PhysicalRule, run: F) -> PhysicalRule
where
    F: Fn(
            &PhysicalRule,
            Arc<dyn ExecutionPlan>,
            &ConfigOptions,
        ) -> DataFusionResult<Arc<dyn ExecutionPlan>>
        + Send
        + Sync
        + 'static,
{
    Arc::new(Wrapped { rule, run })
}

impl<R: fmt::Debug, F> fmt::Debug for Wrapped<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wrapped").field(&self.rule).finish()
    }
}

impl<F> OptimizerRule for Wrapped<LogicalRule, F>
where
    F: Fn(
        &LogicalRule,
        LogicalPlan,
        &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>>,
{
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>> {
        (self.run)(&self.rule, plan, config)
    }
}

impl<F> PhysicalOptimizerRule for Wrapped<PhysicalRule, F>
where
    F: Fn(
            &PhysicalRule,
            Arc<dyn ExecutionPlan>,
            &ConfigOptions,
        ) -> DataFusionResult<Arc<dyn ExecutionPlan>>
        + Send
        + Sync
        + 'static,
{
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        (self.run)(&self.rule, plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}
