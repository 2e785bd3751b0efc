//! HAVING beside WITH TOTALS.
//!
//! Where this stands on the road of a query: an analyzer rule. WITH TOTALS is a grouping set
//! without keys by now, whose group has all rows. As in ClickHouse (`totals_mode`
//! after_having_exclusive), the totals are those of the groups that pass HAVING, and HAVING does
//! not judge the totals themselves: here the condition goes below the aggregate, as a semi join
//! with the groups that pass.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinConstraint, JoinType, NullEquality, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    Aggregate, Expr, GroupingSet, Join, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::syntax::marks;
use crate::sql::walks::{any_node, node_has_part, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct TotalsOfPassingGroups;

impl AnalyzerRule for TotalsOfPassingGroups {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, |node| condition(node).is_some()) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match condition(&node) {
            Some((condition, aggregate, keys)) => {
                Ok(Transformed::yes(of_passing_groups(condition, aggregate, keys)?))
            }
            None => Ok(Transformed::no(node)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "totals_of_passing_groups"
    }
}

/// The HAVING of a filter beside WITH TOTALS, its aggregate, and the keys of that.
fn condition(node: &LogicalPlan) -> Option<(Expr, &Aggregate, &[Expr])> {
    let LogicalPlan::Filter(filter) = node else { return None };
    let condition = marks::having_of_totals(&filter.predicate)?;
    let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else { return None };
    match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
            Some((condition, aggregate, sets.first()?))
        }
        _ => None,
    }
}

fn of_passing_groups(
    condition: Expr,
    aggregate: &Aggregate,
    keys: &[Expr],
) -> DataFusionResult<LogicalPlan> {
    let rows = &aggregate.input;
    let varies = |node: &LogicalPlan| {
        matches!(node, LogicalPlan::Limit(_)) || node_has_part(node, Expr::is_volatile_node)
    };
    if any_node(rows, varies) || keys.iter().any(Expr::is_volatile) {
        return plan_err!(
            "WITH TOTALS beside HAVING reads its rows twice, and random ones, or those of a LIMIT, \
             might differ; keep them in a table first: CREATE TABLE t AS SELECT …"
        );
    }
    let groups = LogicalPlanBuilder::from(rows.as_ref().clone())
        .aggregate(keys.iter().cloned(), aggregate.aggr_expr.iter().cloned())?
        .filter(condition)?;
    let columns = groups.schema().columns().into_iter().take(keys.len());
    let names: Vec<String> = (0..keys.len()).map(|at| format!("key{at}")).collect();
    let named = columns.zip(&names).map(|(column, name)| Expr::Column(column).alias(name));
    let passing = groups.project(named.collect::<Vec<_>>())?.alias("sty__passing")?.build()?;
    let columns = passing.schema().columns().into_iter().map(Expr::Column);
    let on = columns.zip(keys.iter().cloned()).collect();
    let (left, right) = (Arc::new(passing), Arc::clone(rows));
    let equality = NullEquality::NullEqualsNull;
    let join = Join::try_new(
        left,
        right,
        on,
        None,
        JoinType::RightSemi,
        JoinConstraint::On,
        equality,
        false,
    )?;
    let (sets, aggregates) = (aggregate.group_expr.clone(), aggregate.aggr_expr.clone());
    let rows = Arc::new(LogicalPlan::Join(join));
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(rows, sets, aggregates)?))
}
