//! Keeps conditions that read no column above an aggregate that has a row even for no input.
//!
//! DataFusion's logical rule `push_down_filter` (55.2) pushes a condition below an aggregate if all
//! of its columns are group keys, and so also if it has no columns: `(SELECT count(*) FROM t HAVING
//! (SELECT false))` then counts nothing, and has a row where it should have none. Such conditions
//! stay above an aggregate without keys, or with an empty grouping set.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;

use crate::sql::rules::wrapped::{self, LogicalRule};

/// Wraps the rule that needs it; returns other rules as they are.
pub(in crate::sql) fn keep_above_empty_groups(rule: LogicalRule) -> LogicalRule {
    match rule.name() {
        "push_down_filter" => wrapped::logical(rule, rewrite),
        _ => rule,
    }
}

fn rewrite(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> DataFusionResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else { return rule.rewrite(plan, config) };
    if !has_row_for_none(below_filters(&filter.input)) {
        return rule.rewrite(plan, config);
    }
    let Some((conditions, input)) = filtered(&plan) else {
        return rule.rewrite(plan, config);
    };
    let (constant, others): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(|condition| condition.column_refs().is_empty());
    match (conjunction(constant), conjunction(others)) {
        (None, _) => rule.rewrite(plan, config),
        (Some(_), None) => Ok(Transformed::no(plan)),
        (Some(constant), Some(others)) => {
            let below = LogicalPlan::Filter(Filter::try_new(others, Arc::clone(input))?);
            rule.rewrite(below, config)?
                .map_data(|below| Filter::try_new(constant, below.into()).map(LogicalPlan::Filter))
        }
    }
}

fn below_filters(plan: &LogicalPlan) -> &LogicalPlan {
    if let LogicalPlan::Filter(filter) = plan { below_filters(&filter.input) } else { plan }
}

/// The conditions of filters above each other, which the rule unites, and their input.
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
