//! Conditions that read no column stay above an aggregate which has a row for no rows.
//!
//! DataFusion's logical rule `push_down_filter` (55.2) takes every condition below an aggregate
//! whose columns are all group keys, and so those without columns too: `(SELECT count(*) FROM t
//! HAVING (SELECT false))` then counts nothing, and has a row where it should have none. Of an
//! aggregate without keys, or with an empty grouping set, such conditions are kept.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule, for other conditions.
#[derive(Debug)]
pub(in crate::sql) struct AboveEmptyGroups(Arc<dyn OptimizerRule + Send + Sync>);

impl AboveEmptyGroups {
    /// In place of the rule that needs it; other rules as they are.
    pub(in crate::sql) fn around(
        rule: Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        if rule.name() == "push_down_filter" { Arc::new(AboveEmptyGroups(rule)) } else { rule }
    }
}

impl OptimizerRule for AboveEmptyGroups {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>> {
        if !matches!(&plan, LogicalPlan::Filter(filter) if has_row_for_none(below_filters(&filter.input)))
        {
            return self.0.rewrite(plan, config);
        }
        let Some((conditions, input)) = filtered(&plan) else {
            return self.0.rewrite(plan, config);
        };
        let (constant, others): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| condition.column_refs().is_empty());
        match (conjunction(constant), conjunction(others)) {
            (None, _) => self.0.rewrite(plan, config),
            (Some(_), None) => Ok(Transformed::no(plan)),
            (Some(constant), Some(others)) => {
                let below = LogicalPlan::Filter(Filter::try_new(others, Arc::clone(input))?);
                self.0.rewrite(below, config)?.map_data(|below| {
                    Filter::try_new(constant, below.into()).map(LogicalPlan::Filter)
                })
            }
        }
    }
}

fn below_filters(plan: &LogicalPlan) -> &LogicalPlan {
    if let LogicalPlan::Filter(filter) = plan { below_filters(&filter.input) } else { plan }
}

/// The conditions of filters over each other, which the rule unites, and what they filter.
fn filtered(plan: &LogicalPlan) -> Option<(Vec<Expr>, &Arc<LogicalPlan>)> {
    let LogicalPlan::Filter(Filter { predicate, input, .. }) = plan else { return None };
    let own = split_conjunction_owned(predicate.clone());
    match filtered(input) {
        Some((below, input)) => Some((below.into_iter().chain(own).collect(), input)),
        None => Some((own, input)),
    }
}

fn has_row_for_none(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    match aggregate.group_expr.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        _ => false,
    }
}
