//! Lowers logical plans to fragments: the largest parts of an optimized plan that [`crate::query`]
//! can run are replaced by [`FragmentNode`]s, and everything above them stays DataFusion's.
//!
//! Where this stands on the road of a query: after all of DataFusion's logical rules, before
//! physical planning. A candidate is an aggregate, or a sort that returns only its first rows,
//! over projections and filters of one table of the store (`source`). Projections are
//! inlined, filters become conditions, and computed columns become expressions over stored columns
//! (`expression`, `traits`). Sums over one integer expression are made of one sum (`sums`). If a
//! candidate is not taken, EXPLAIN shows the reason at its scan, and its estimates of distinct
//! values are counted (`estimates`). If the statement ran out of memory before, what holds the
//! values of groups becomes what spills (`spilled`); else quantiles of the same values have one
//! state (`quantiles`).

mod aggregate;
mod estimates;
mod expression;
mod quantiles;
#[cfg(feature = "cluster")]
pub(in crate::sql) mod sent;
mod source;
pub(in crate::sql) mod spilled;
mod sums;
mod top;
mod traits;

use std::sync::Arc;

use datafusion::catalog::{Session, default_table_source::provider_as_source};
use datafusion::common::tree_node::{Transformed, TreeNodeRewriter};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};

use crate::sql::functions::distinct_rows;
use crate::sql::rules::dependencies;
use crate::sql::rules::opaque;
use crate::sql::run::node::FragmentNode;
use crate::sql::run::provider::Conditions;
use crate::sql::run::provider::store_provider;
use crate::sql::run::settings::Settings;
use crate::sql::types::zeros;
use expression::Compiler;
use source::{Input, Refusal};

/// Puts fragments into an optimized plan; for EXPLAIN, into the plan that is explained.
pub(crate) fn lower(plan: LogicalPlan, session: &dyn Session) -> DataFusionResult<LogicalPlan> {
    let native = Settings::of(session.config_options()).native;
    let mut lowering = Lowering {
        native,
        spills: !session.config_options().optimizer.prefer_hash_join,
        props: session.execution_props(),
        scans_changed: false,
        refusals: Vec::new(),
    };
    let plan = plan.rewrite_with_subqueries(&mut lowering)?.data;
    if !lowering.scans_changed {
        return Ok(plan);
    }
    // Columns that only the filters needed are no longer read.
    let plan = dependencies::forget(plan)?.data;
    Ok(OptimizeProjections::new().rewrite(plan, &OptimizerContext::new())?.data)
}

/// The conditions of a plan that is a filtered scan of a table of the store; `None` of another.
pub(in crate::sql) fn scan_conditions(
    plan: &LogicalPlan,
    props: &ExecutionProps,
) -> Option<Conditions> {
    let source = Input::new(plan).ok()?;
    let mut compiler = Compiler::new(&source, props);
    let conditions = compiler.conditions().ok()?;
    Some(Conditions { columns: compiler.columns(), conditions })
}

struct Lowering<'a> {
    native: bool,
    /// Whether aggregates that hold the values of groups are made to spill.
    spills: bool,
    props: &'a ExecutionProps,
    /// Whether filters were moved into scans.
    scans_changed: bool,
    /// For each node from the root to the current one, why the nearest candidate at or above it was
    /// not taken.
    refusals: Vec<Option<Arc<str>>>,
}

impl TreeNodeRewriter for Lowering<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
        let inherited = match &plan {
            // What is above a subquery says nothing about the subquery.
            LogicalPlan::Subquery(_) => None,
            _ => self.refusals.last().cloned().flatten(),
        };
        let lowered = if self.native { self.candidate(&plan) } else { None };
        match lowered {
            Some(Ok(lowered)) => {
                self.refusals.push(None);
                Ok(Transformed::yes(lowered))
            }
            Some(Err(refusal)) => {
                self.refusals.push(Some(refusal.into()));
                if let LogicalPlan::Aggregate(aggregate) = &plan
                    && let Some(counted) = estimates::counted(aggregate)?
                {
                    // The aggregate is the next one.
                    return Ok(Transformed::yes(counted));
                }
                self.split_distinct(plan)
            }
            None => {
                let plan = if self.native { self.merge_filter(plan) } else { plan };
                let with_refusal = self.with_refusal(plan, inherited.as_ref());
                self.refusals.push(inherited);
                match with_refusal {
                    Transformed { data, transformed: false, .. } => self.split_distinct(data),
                    with_refusal => Ok(with_refusal),
                }
            }
        }
    }

    fn f_up(&mut self, plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
        self.refusals.pop();
        match plan {
            LogicalPlan::Sort(sort) => {
                let first = top::first_of_sorted(&sort);
                let is_first = first.is_some();
                let sorted = zeros::one_zero_in_sort(first.unwrap_or(sort))?;
                let changed = is_first || sorted.transformed;
                Ok(Transformed::new_transformed(LogicalPlan::Sort(sorted.data), changed))
            }
            LogicalPlan::Limit(limit) => Ok(match top::first_of_any(&limit) {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(LogicalPlan::Limit(limit)),
            }),
            LogicalPlan::Filter(filter) => {
                Ok(opaque::hide_wrong_bounds(filter)?.update_data(LogicalPlan::Filter))
            }
            LogicalPlan::Projection(_) => opaque::hide_reordering_casts(plan),
            other => Ok(Transformed::no(other)),
        }
    }
}

impl Lowering<'_> {
    /// The fragment that can replace `plan`, perhaps under a projection, or why there is none;
    /// `None` for a plan that is no candidate.
    fn candidate(&self, plan: &LogicalPlan) -> Option<Result<LogicalPlan, Refusal>> {
        let LogicalPlan::Aggregate(aggregate) = plan else {
            let top = top::candidate(plan)?;
            return Some(extension(top::lower(top, plan, self.props)));
        };
        let Some(shared) = sums::shared(aggregate) else {
            return Some(extension(aggregate::lower(aggregate, plan, self.props)));
        };
        let plan = LogicalPlan::Aggregate(shared.aggregate.clone());
        let lowered = extension(aggregate::lower(&shared.aggregate, &plan, self.props));
        lowered.map(|lowered| shared.over(lowered)).transpose()
    }

    /// Merges a filter into the scan below it, which then decodes only the rows that pass; also one
    /// above a projection, where the planner has put what its conditions have in common.
    fn merge_filter(&mut self, plan: LogicalPlan) -> LogicalPlan {
        let LogicalPlan::Filter(Filter { input, predicate, .. }) = &plan else { return plan };
        let (scan, projection) = match input.as_ref() {
            LogicalPlan::TableScan(scan) => (scan, None),
            LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                LogicalPlan::TableScan(scan) => (scan, Some(projection)),
                _ => return plan,
            },
            _ => return plan,
        };
        let Some(provider) = store_provider(scan).filter(|provider| !provider.is_filtered()) else {
            return plan;
        };
        let Some(conditions) = scan_conditions(&plan, self.props) else { return plan };
        let predicate = match projection {
            None => predicate.clone(),
            Some(_) => match Input::new(input).and_then(|input| input.resolve(predicate)) {
                Ok(resolved) => resolved,
                Err(_) => return plan,
            },
        };
        let mut scan = scan.clone();
        scan.source = provider_as_source(Arc::new(provider.filtered(conditions)));
        // Plan equality ignores a scan's source. Without the filter among its filters, the scan
        // would be taken for another one.
        let parts = split_conjunction_owned(predicate)
            .into_iter()
            .filter(|part| !scan.filters.contains(part));
        scan.filters = parts.chain(scan.filters.iter().cloned()).collect();
        self.scans_changed = true;
        let scan = LogicalPlan::TableScan(scan);
        let Some(projection) = projection else { return scan };
        let mut projection = projection.clone();
        projection.input = Arc::new(scan);
        LogicalPlan::Projection(projection)
    }

    /// Marks a scan so that EXPLAIN says there why the plan above it was not taken.
    fn with_refusal(&self, plan: LogicalPlan, why: Option<&Arc<str>>) -> Transformed<LogicalPlan> {
        let (LogicalPlan::TableScan(scan), Some(why)) = (&plan, why) else {
            return Transformed::no(plan);
        };
        let Some(provider) = store_provider(scan) else { return Transformed::no(plan) };
        let mut scan = scan.clone();
        scan.source = provider_as_source(Arc::new(provider.refused(Arc::clone(why))));
        Transformed::yes(LogicalPlan::TableScan(scan))
    }

    /// Runs DataFusion's rule that splits an aggregate of distinct values into two. It runs here,
    /// not among the logical rules, so that it applies only to aggregates that were not taken; the
    /// inner half may still be.
    fn split_distinct(&self, plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
        let distinct = |expr: &Expr| match source::without_alias(expr) {
            Expr::AggregateFunction(function) => function.params.distinct,
            _ => false,
        };
        let split = match plan {
            LogicalPlan::Aggregate(mut aggregate) if aggregate.aggr_expr.iter().any(distinct) => {
                let schema = aggregate.input.schema();
                let exprs = aggregate
                    .aggr_expr
                    .into_iter()
                    .map(|expr| zeros::one_zero_in_distinct(expr, schema));
                aggregate.aggr_expr = exprs.collect::<DataFusionResult<_>>()?;
                let plan = LogicalPlan::Aggregate(aggregate);
                SingleDistinctToGroupBy::new().rewrite(plan, &OptimizerContext::new())?
            }
            other => Transformed::no(other),
        };
        let LogicalPlan::Aggregate(aggregate) = split.data else { return Ok(split) };
        if self.spills
            && let Some(spilling) = spilled::rewritten(&aggregate)?
        {
            return Ok(Transformed::yes(spilling));
        }
        let counted = distinct_rows::count_rows(aggregate)?;
        Ok(match quantiles::shared(&counted.data)? {
            Some(shared) => Transformed::yes(shared),
            None => counted.update_data(LogicalPlan::Aggregate),
        })
    }
}

/// The node of a fragment that the executor can run.
fn extension(node: Result<FragmentNode, Refusal>) -> Result<LogicalPlan, Refusal> {
    let node = node?;
    match node.refusal() {
        Some(refusal) => Err(refusal),
        None => Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) })),
    }
}

#[cfg(test)]
mod tests;
