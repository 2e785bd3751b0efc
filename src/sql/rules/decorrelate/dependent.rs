//! Computes correlated subqueries of any shape for all distinct outer values at once, and joins the
//! answers.
//!
//! The *domain* is the set of distinct values of the outer columns that a subquery reads. It is
//! joined to the subquery's plan where no outer column is read below, and carried up through each
//! operator: a filter sees its columns in place of the outer ones, an aggregate groups by them, a
//! limit counts rows for each of its values. The result has the answer for each value of the
//! domain.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::logical_plan::FetchType;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery,
};

use super::counts::counted;
use super::domain::{Domain, same_values};
use super::only_value::only_value;
use super::outer::{outer_columns, outer_columns_of, subquery_of};
use super::shape::suits_datafusion;
use crate::sql::rules::column_names::unique_name;
use crate::sql::walks::rewrite_down;

/// Joins the input of a filter or projection to the answers of those subqueries in its expressions
/// that DataFusion cannot turn into joins. Returns the wider plan, and the expressions over it.
pub(super) fn joined(
    input: &Arc<LogicalPlan>,
    exprs: Vec<Expr>,
) -> DataFusionResult<(LogicalPlan, Vec<Expr>)> {
    let mut plan = input.as_ref().clone();
    let mut rewritten = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let replace = |expr: Expr| {
            let expr = match &expr {
                Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) => expr,
                _ => return Ok(Transformed::no(expr)),
            };
            match answer(&mut plan, input, &expr)? {
                Some(answer) => Ok(Transformed::new(answer, true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(expr)),
            }
        };
        rewritten.push(rewrite_down(expr, replace)?.data);
    }
    Ok((plan, rewritten))
}

/// Adds the answer of a subquery to `plan`, and returns what stands for the subquery; `None` if it
/// can stay.
fn answer(
    plan: &mut LogicalPlan,
    input: &Arc<LogicalPlan>,
    expr: &Expr,
) -> DataFusionResult<Option<Expr>> {
    let Some(subquery) = subquery_of(expr) else { return Ok(None) };
    if outer_columns(&subquery.subquery).is_empty()
        || suits_datafusion(&projection_over(input), expr, subquery)
    {
        return Ok(None);
    }
    let counted = match expr {
        Expr::ScalarSubquery(_) => expr.clone(),
        // A test is a count that is not zero.
        other => counted(other.clone(), input.schema())?,
    };
    let mut found = false;
    let replace = |expr: Expr| match &expr {
        Expr::ScalarSubquery(subquery) => match value(plan, input, subquery)? {
            Some((wider, value)) => {
                *plan = wider;
                found = true;
                Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    let replaced = rewrite_down(counted, replace)?.data;
    Ok(found.then_some(replaced))
}

/// A node in which DataFusion would see a subquery over `input`.
fn projection_over(input: &Arc<LogicalPlan>) -> LogicalPlan {
    let columns = input.schema().columns().into_iter().map(Expr::from).collect();
    match Projection::try_new(columns, Arc::clone(input)) {
        Ok(projection) => LogicalPlan::Projection(projection),
        Err(_) => input.as_ref().clone(),
    }
}

/// `plan` with one more column, the value of a subquery over the rows of `input`; `None` if it does
/// not read them.
fn value(
    plan: &LogicalPlan,
    input: &Arc<LogicalPlan>,
    subquery: &Subquery,
) -> DataFusionResult<Option<(LogicalPlan, Expr)>> {
    let outer = columns_read(&subquery.subquery, input.schema());
    if outer.is_empty() {
        return Ok(None);
    }
    let Some((qualifier, field)) = subquery.subquery.schema().iter().next() else {
        return Ok(None);
    };
    let domain = Domain::new(input, outer)?;
    let pushed = domain.pushed(&subquery.subquery)?;
    let column = Expr::from((qualifier, field));
    let answers = match gives_at_most_one_row(&subquery.subquery) {
        true => LogicalPlanBuilder::from(pushed.plan)
            .project(pushed.columns.iter().cloned().map(Expr::from).chain([column.alias(VALUE)]))?,
        false => LogicalPlanBuilder::from(pushed.plan).aggregate(
            pushed.columns.iter().cloned().map(Expr::from),
            [only_value(column).alias(VALUE)],
        )?,
    };
    let alias = unique_name("answers");
    let keys: Vec<Column> = pushed
        .columns
        .iter()
        .map(|column| Column::new(Some(alias.clone()), &column.name))
        .collect();
    let answers =
        super::rewritten_again(&subquery.subquery, answers.alias(alias.as_str())?.build()?)?;
    let same = same_values(&domain.outer, input, &keys)?;
    let wider =
        LogicalPlanBuilder::from(plan.clone()).join_on(answers, JoinType::Left, same)?.build()?;
    // If an aggregate gives a row for outer values without inner rows, the answers have it already.
    Ok(Some((wider, Expr::Column(Column::new(Some(alias), VALUE)))))
}

/// The columns of an outer row that a plan reads, each once.
fn columns_read(plan: &LogicalPlan, row: &DFSchema) -> Vec<Column> {
    let mut found = Vec::new();
    for (_, column) in outer_columns(plan) {
        if row.has_column(&column) && !found.contains(&column) {
            found.push(column);
        }
    }
    found
}

/// Rewrites a LATERAL join: the right side is computed once for each distinct value that it reads
/// from the left side, and joined on these values; one that reads none is not LATERAL. Returns
/// `None` if DataFusion's own rewrite is right (equalities alone), which reads the left side once.
pub(super) fn lateral(join: &Join) -> DataFusionResult<Option<LogicalPlan>> {
    let outer = columns_read(&join.right, join.left.schema());
    if outer.is_empty() {
        let right = without_lateral(join.right.as_ref().clone())?.into();
        return Ok(Some(LogicalPlan::Join(Join { right, ..join.clone() })));
    }
    if is_plain_lateral(&join.right) {
        return Ok(None);
    }
    let domain = Domain::new(&join.left, outer)?;
    let pushed = domain.pushed(&join.right)?;
    let mut conditions = same_values(&domain.outer, &join.left, &pushed.columns)?;
    conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
    conditions.extend(join.filter.clone());
    let left = LogicalPlanBuilder::from(join.left.as_ref().clone());
    let wider = left.join_on(
        super::rewritten_again(&join.right, pushed.plan)?,
        join.join_type,
        conditions,
    )?;
    wider.project(join.schema.columns().into_iter().map(Expr::from))?.build().map(Some)
}

/// A logical rule for each node: the right side of a join that read the left one until DataFusion
/// simplified it, as a filter that is never true, is no longer LATERAL. DataFusion's own rule
/// (55.2) leaves such a join as it is, and then cannot plan it.
pub(in crate::sql) fn no_idle_lateral(
    plan: LogicalPlan,
) -> DataFusionResult<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if super::is_lateral(&join.right) => {
            let right = without_lateral(join.right.as_ref().clone())?.into();
            Ok(Transformed::yes(LogicalPlan::Join(Join { right, ..join })))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The plan of a LATERAL as one of a derived table, if it reads nothing around it.
fn without_lateral(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) if outer_columns(&subquery.subquery).is_empty() => {
            Ok(subquery.subquery.as_ref().clone())
        }
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) | LogicalPlan::Join(_) => {
            Ok(plan.map_children(|input| Ok(Transformed::yes(without_lateral(input)?)))?.data)
        }
        other => Ok(other),
    }
}

/// Whether a LATERAL only selects rows of tables by equalities.
fn is_plain_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_plain_lateral(&alias.input),
        LogicalPlan::Subquery(subquery) => is_plain_lateral(&subquery.subquery),
        // A renamed column might have the name of one that a condition reads.
        LogicalPlan::Projection(projection) if are_columns(&projection.expr) => {
            is_plain_lateral(&projection.input)
        }
        LogicalPlan::Filter(filter) => {
            let mut conditions = split_conjunction(&filter.predicate).into_iter();
            let is_plain = |condition: &Expr| {
                outer_columns_of(condition).is_empty()
                    || is_equality(condition, filter.input.schema())
            };
            conditions.all(is_plain) && outer_columns(&filter.input).is_empty()
        }
        _ => false,
    }
}

fn are_columns(exprs: &[Expr]) -> bool {
    exprs.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// Whether a condition is the equality of a column and an outer one, and no other column of the
/// input has the same name: DataFusion reads the condition above a projection, and there perhaps
/// that one.
fn is_equality(condition: &Expr, input: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return false;
    };
    let ((Expr::Column(column), Expr::OuterReferenceColumn(..))
    | (Expr::OuterReferenceColumn(..), Expr::Column(column))) = (left.as_ref(), right.as_ref())
    else {
        return false;
    };
    input.fields().iter().filter(|field| *field.name() == column.name).count() == 1
}

/// The name of the column with the answers.
const VALUE: &str = "value";

/// Whether a plan gives at most one row for each outer row.
fn gives_at_most_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_at_most_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_at_most_one_row(&alias.input),
        LogicalPlan::Filter(filter) => gives_at_most_one_row(&filter.input),
        LogicalPlan::Sort(sort) => gives_at_most_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
        }
        _ => false,
    }
}
