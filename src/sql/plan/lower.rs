//! From logical plans to fragments: the largest parts of an optimized plan that [`crate::query`]
//! can run are replaced by [`FragmentNode`]s, and everything above them stays DataFusion's.
//!
//! Where this stands on the road of a query: after all of DataFusion's logical rules, before
//! physical planning. A candidate is an aggregate, or a sort of which only the first rows are
//! wanted, over projections and filters of one table of the store (`source`); projections are
//! inlined, filters become conditions, and what is computed becomes expressions over stored columns
//! (`expression`, `traits`). A candidate that is not taken leaves its reason at the scan, where
//! EXPLAIN shows it.

mod aggregate;
mod expression;
mod source;
mod top;
mod traits;

use std::sync::Arc;

use datafusion::catalog::{Session, default_table_source::provider_as_source};
use datafusion::common::tree_node::{Transformed, TreeNodeRewriter};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};

use crate::sql::rules::dependencies;
use crate::sql::rules::opaque;
use crate::sql::run::node::FragmentNode;
use crate::sql::run::provider::Conditions;
use crate::sql::run::provider::store_provider;
use crate::sql::run::settings::Settings;
use crate::sql::types::zeros;
use expression::Compiler;
use source::Source;

/// Why a candidate is not taken, for EXPLAIN.
type Refusal = String;

/// An optimized plan with fragments in it; that of EXPLAIN has them in the plan explained.
pub(crate) fn lower(plan: LogicalPlan, session: &dyn Session) -> DataFusionResult<LogicalPlan> {
    let native = Settings::of(session.config_options()).native;
    let mut lowering = Lowering {
        native,
        props: session.execution_props(),
        scans_changed: false,
        refusals: Vec::new(),
    };
    let plan = plan.rewrite_with_subqueries(&mut lowering)?.data;
    if !lowering.scans_changed {
        return Ok(plan);
    }
    // Columns that only the filters needed are no longer asked for.
    let plan = dependencies::forget(plan)?.data;
    Ok(OptimizeProjections::new().rewrite(plan, &OptimizerContext::new())?.data)
}

struct Lowering<'a> {
    native: bool,
    props: &'a ExecutionProps,
    /// Whether filters have become part of scans.
    scans_changed: bool,
    /// For each node from the root to the current one, why the nearest candidate at or above it was
    /// not taken.
    refusals: Vec<Option<Arc<str>>>,
}

impl TreeNodeRewriter for Lowering<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
        let inherited = match &plan {
            // What lies above a subquery says nothing about it.
            LogicalPlan::Subquery(_) => None,
            _ => self.refusals.last().cloned().flatten(),
        };
        let lowered = if self.native { self.candidate(&plan) } else { None };
        match lowered {
            Some(Ok(node)) => {
                self.refusals.push(None);
                Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
            }
            Some(Err(refusal)) => {
                self.refusals.push(Some(refusal.into()));
                self.split_distinct(plan)
            }
            None => {
                let plan = if self.native { self.filtered(plan) } else { plan };
                let noted = self.noted(plan, inherited.as_ref());
                self.refusals.push(inherited);
                match noted {
                    Transformed { data, transformed: false, .. } => self.split_distinct(data),
                    noted => Ok(noted),
                }
            }
        }
    }

    fn f_up(&mut self, plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
        self.refusals.pop();
        match plan {
            LogicalPlan::Sort(sort) => {
                Ok(zeros::one_zero_in_sort(sort)?.update_data(LogicalPlan::Sort))
            }
            LogicalPlan::Filter(filter) => {
                Ok(opaque::without_bounds(filter)?.update_data(LogicalPlan::Filter))
            }
            LogicalPlan::Projection(_) => opaque::without_other_bounds(plan),
            other => Ok(Transformed::no(other)),
        }
    }
}

impl Lowering<'_> {
    /// The fragment that can stand for `plan`, or why there is none; `None` where nobody would
    /// expect one.
    fn candidate(&self, plan: &LogicalPlan) -> Option<Result<FragmentNode, Refusal>> {
        let lowered = match plan {
            LogicalPlan::Aggregate(aggregate) => aggregate::lower(aggregate, plan, self.props),
            LogicalPlan::Sort(sort) => top::lower(sort, sort.fetch?, plan, self.props),
            _ => return None,
        };
        Some(lowered.and_then(|node| match node.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(node),
        }))
    }

    /// A filter and the scan below it as one scan, which decodes only what passes.
    fn filtered(&mut self, plan: LogicalPlan) -> LogicalPlan {
        let LogicalPlan::Filter(Filter { input, predicate, .. }) = &plan else { return plan };
        let LogicalPlan::TableScan(scan) = input.as_ref() else { return plan };
        let Some(provider) = store_provider(scan).filter(|provider| !provider.is_filtered()) else {
            return plan;
        };
        let Ok(source) = Source::of(&plan) else { return plan };
        let mut compiler = Compiler::new(&source, self.props);
        let Ok(conditions) = compiler.conditions() else { return plan };
        let filtered = provider.filtered(Conditions { columns: compiler.columns(), conditions });
        let mut scan = scan.clone();
        scan.source = provider_as_source(Arc::new(filtered));
        // The equality of plans does not see the source: without its filter in sight, a scan would
        // be taken for another one.
        let parts = split_conjunction(predicate)
            .into_iter()
            .filter(|part| !scan.filters.contains(part))
            .cloned();
        scan.filters = parts.chain(scan.filters.iter().cloned()).collect();
        self.scans_changed = true;
        LogicalPlan::TableScan(scan)
    }

    /// A scan that will say in EXPLAIN why what stands above it was not taken.
    fn noted(&self, plan: LogicalPlan, why: Option<&Arc<str>>) -> Transformed<LogicalPlan> {
        let (LogicalPlan::TableScan(scan), Some(why)) = (&plan, why) else {
            return Transformed::no(plan);
        };
        let Some(provider) = store_provider(scan) else { return Transformed::no(plan) };
        let mut scan = scan.clone();
        scan.source = provider_as_source(Arc::new(provider.refused(Arc::clone(why))));
        Transformed::yes(LogicalPlan::TableScan(scan))
    }

    /// DataFusion's rule that splits an aggregate of distinct values into two. It runs here rather
    /// than among the logical rules, so that it concerns only what was not taken; the inner half
    /// may still be.
    fn split_distinct(&self, plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
        let distinct = |expr: &Expr| match source::without_alias(expr) {
            Expr::AggregateFunction(function) => function.params.distinct,
            _ => false,
        };
        match plan {
            LogicalPlan::Aggregate(mut aggregate) if aggregate.aggr_expr.iter().any(distinct) => {
                let schema = aggregate.input.schema();
                let exprs = aggregate
                    .aggr_expr
                    .into_iter()
                    .map(|expr| zeros::one_zero_in_distinct(expr, schema));
                aggregate.aggr_expr = exprs.collect::<DataFusionResult<_>>()?;
                let plan = LogicalPlan::Aggregate(aggregate);
                SingleDistinctToGroupBy::new().rewrite(plan, &OptimizerContext::new())
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

#[cfg(test)]
mod tests;
