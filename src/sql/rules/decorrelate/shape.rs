//! Which correlated subqueries DataFusion itself turns into the right join.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery, check_subquery_expr};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use super::has_candidate;
use super::outer::{outer_columns, subquery_of};
use crate::sql::walks::{any_node, has_part, node_has_part};

/// Whether DataFusion's rules turn a correlated subquery of `plan` into the right join.
pub(super) fn suits_datafusion(plan: &LogicalPlan, expr: &Expr, subquery: &Subquery) -> bool {
    let resolved = |(_, column): &(_, Column)| {
        plan.inputs().iter().any(|input| input.schema().has_column(column))
    };
    if !outer_columns(&subquery.subquery).iter().all(resolved)
        || !has_plain_shape(&subquery.subquery)
        || (matches!(expr, Expr::ScalarSubquery(_))
            && any_node(&subquery.subquery, keeps_value_from_join))
    {
        return false;
    }
    // DataFusion handles a scalar subquery that is such an aggregate itself.
    let inner = match expr {
        Expr::ScalarSubquery(_) => below_aggregate(&subquery.subquery),
        _ => &subquery.subquery,
    };
    if has_row_for_no_input(inner) {
        return false;
    }
    let mut pull_up = PullUpCorrelatedExpr::new();
    pull_up = match expr {
        Expr::Exists(_) => pull_up.with_exists_sub_query(true),
        Expr::ScalarSubquery(_) => pull_up.with_need_handle_count_bug(true),
        _ => pull_up,
    };
    if check_subquery_expr(plan, &subquery.subquery, expr).is_err() {
        return false;
    }
    let Ok(pulled) = subquery.subquery.as_ref().clone().rewrite(&mut pull_up) else { return false };
    pull_up.can_pull_up && tells_columns_apart(expr, &pulled.data, &pull_up)
}

/// Whether the columns of a subquery that a join would read have names of their own: DataFusion
/// (55.2) forgets their tables, and takes the first column of a name.
fn tells_columns_apart(expr: &Expr, pulled: &LogicalPlan, pull_up: &PullUpCorrelatedExpr) -> bool {
    let schema = pulled.schema();
    let member = match expr {
        Expr::InSubquery(_) => schema.columns().into_iter().next(),
        _ => None,
    };
    let conditions = &pull_up.join_filters;
    let of_conditions = conditions.iter().flat_map(|condition| condition.column_refs());
    let mut read = of_conditions.filter(|column| schema.has_column(column)).chain(&member);
    read.all(|column| {
        schema.fields().iter().filter(|field| *field.name() == column.name).count() == 1
    })
}

/// Whether conditions can be pulled up through all nodes of a subquery without further care.
fn has_plain_shape(plan: &LogicalPlan) -> bool {
    let mut plain = true;
    let visited = plan.apply(|node| {
        plain &= match node {
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
            // Below an alias, columns may have other names, so conditions on outer rows cannot be
            // pulled up through it.
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Values(_) => true,
            _ => outer_columns(node).is_empty(),
        };
        // When conditions are pulled up, those of nested subqueries stay behind.
        plain &= !passes_on_outer_columns(node) && !would_take_subquery_along(node);
        Ok(if plain && !outer_columns(node).is_empty() {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Jump
        })
    });
    plain && visited.is_ok()
}

/// Whether a condition on the outer row has a subquery in it. DataFusion (55.2) would pull it up
/// into the condition of a join, where it does not look for subqueries any more.
fn would_take_subquery_along(node: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = node else { return false };
    split_conjunction(&filter.predicate).into_iter().any(|condition| {
        has_part(condition, |part| matches!(part, Expr::OuterReferenceColumn(..)))
            && has_candidate(condition)
    })
}

/// Whether a node has a subquery that reads columns from further out than the node's inputs.
pub(super) fn passes_on_outer_columns(node: &LogicalPlan) -> bool {
    let inputs = node.inputs();
    let is_own = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
    node_has_part(node, |expr| {
        let outer = subquery_of(expr).map(|subquery| outer_columns(&subquery.subquery));
        outer.is_some_and(|outer| outer.iter().any(|(_, column)| !is_own(column)))
    })
}

/// Whether a filter of a scalar subquery has a condition that DataFusion (55.2) cannot make a join
/// condition of: one over outer columns alone may be simplified to another before, and one over an
/// aggregate (HAVING) selects the aggregate twice.
fn keeps_value_from_join(node: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = node else { return false };
    let is_having = matches!(without_projections(&filter.input), LogicalPlan::Aggregate(_));
    split_conjunction(&filter.predicate).into_iter().any(|condition| {
        has_part(condition, |part| matches!(part, Expr::OuterReferenceColumn(..)))
            && (is_having || condition.column_refs().is_empty())
    })
}

fn without_projections(mut plan: &LogicalPlan) -> &LogicalPlan {
    while let LogicalPlan::Projection(projection) = plan {
        plan = &projection.input;
    }
    plan
}

/// The input of the aggregate without keys whose values a plan returns; the plan itself if there is
/// none.
fn below_aggregate(plan: &LogicalPlan) -> &LogicalPlan {
    match without_projections(plan) {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => &aggregate.input,
        _ => plan,
    }
}

/// Whether a subquery has a row even if nothing meets its condition on the outer row: an aggregate
/// without keys above the condition gives one.
fn has_row_for_no_input(plan: &LogicalPlan) -> bool {
    plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty())
            && !outer_columns(node).is_empty())
    })
    .unwrap_or(true)
}
