//! The truth value of `IN (subquery)`: true, false, or null.
//!
//! `x IN (S)` is true if a value of S equals x; false if none does and nothing is unknown;
//! otherwise null. DataFusion's mark join only tells whether a value is equal. That is enough where
//! a null has the same effect as false (in a condition of a WHERE, and below AND and OR in it).
//! Elsewhere two more questions are asked about S: whether it has rows, and whether it has a null.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not,
};

use super::counts::{count_in, count_of};
use super::never_null::{is_column_never_null, is_never_null};
use super::outer::{as_outer, as_subquery, is_correlated};
use crate::sql::rules::column_names::unique_name;
use crate::sql::rules::opaque::{has_missing_null, misses_nulls};
use crate::sql::walks::rewrite_up;

/// Rewrites a condition of a WHERE, in which null has the same effect as false.
pub(super) fn condition(condition: Expr, input: &LogicalPlan) -> DataFusionResult<Expr> {
    match condition {
        Expr::Not(negated) => match *negated {
            Expr::InSubquery(test) => {
                in_condition(InSubquery { negated: !test.negated, ..test }, input)
            }
            Expr::Exists(Exists { subquery, negated }) => {
                exists(Exists { subquery, negated: !negated })
            }
            other => value(not(other), input),
        },
        Expr::InSubquery(test) => in_condition(test, input),
        Expr::Exists(test) => exists(test),
        other => true_only(other, input),
    }
}

/// Rewrites an IN that is a whole condition. DataFusion turns it into a semi join, or into an anti
/// join that respects nulls but cannot read outer columns; it hashes the rows around the subquery,
/// and does not spill. Where there are no nulls, a NOT EXISTS says the same.
fn in_condition(test: InSubquery, input: &LogicalPlan) -> DataFusionResult<Expr> {
    let reads_row = !test.expr.column_refs().is_empty();
    let correlated = is_correlated(&Expr::InSubquery(test.clone()));
    if reads_row && test.negated && !correlated && has_no_nulls(&test, input) {
        return not_among(test, input);
    }
    if reads_row && (!test.negated || !correlated) {
        return Ok(Expr::InSubquery(test));
    }
    value(Expr::InSubquery(test), input)
}

/// Whether neither what is looked for nor what it is looked for in has nulls.
fn has_no_nulls(test: &InSubquery, input: &LogicalPlan) -> bool {
    is_never_null(&test.expr, input) && is_column_never_null(&test.subquery.subquery, 0)
}

/// That no row of a subquery is equal.
fn not_among(test: InSubquery, input: &LogicalPlan) -> DataFusionResult<Expr> {
    // A column of the same name around it would be taken for the subquery's own.
    let rows = renamed(&test.subquery)?.subquery.as_ref().clone();
    let member = rows.schema().columns().into_iter().next().map(Expr::Column);
    let Some(member) = member else { return Ok(Expr::InSubquery(test)) };
    let equal = as_outer(*test.expr, input.schema())?.eq(member);
    let equal = LogicalPlanBuilder::from(rows).filter(equal)?.build()?;
    Ok(Expr::Exists(Exists { subquery: as_subquery(equal), negated: true }))
}

/// Rewrites an expression in which null has the same effect as false.
fn true_only(expr: Expr, input: &LogicalPlan) -> DataFusionResult<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (true_only(*left, input)?, true_only(*right, input)?);
            Ok(Expr::BinaryExpr(BinaryExpr::new(left.into(), op, right.into())))
        }
        Expr::InSubquery(test) if !test.negated && !test.expr.column_refs().is_empty() => {
            Ok(Expr::InSubquery(InSubquery { subquery: renamed(&test.subquery)?, ..test }))
        }
        other => value(other, input),
    }
}

/// Rewrites an expression in which null must be told from false.
pub(super) fn value(expr: Expr, input: &LogicalPlan) -> DataFusionResult<Expr> {
    let rewrite = |expr: Expr| match expr {
        Expr::InSubquery(test) => Ok(Transformed::yes(in_value(test, input)?)),
        Expr::Exists(test) => Ok(Transformed::yes(exists(test)?)),
        other => Ok(Transformed::no(other)),
    };
    Ok(rewrite_up(expr, rewrite)?.data)
}

fn in_value(test: InSubquery, input: &LogicalPlan) -> DataFusionResult<Expr> {
    let InSubquery { expr, subquery, negated } = test;
    let rows = subquery.subquery.as_ref().clone();
    let Some((qualifier, field)) = rows.schema().iter().next() else {
        return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }));
    };
    let member = Expr::from((qualifier, field));
    let (null_value, null_among) =
        (can_be_null(&expr, input), field.is_nullable() || misses_nulls(&rows));
    let reads_row = !expr.column_refs().is_empty();
    let mark = InSubquery { expr: expr.clone(), subquery: renamed(&subquery)?, negated: false };
    let mark = if reads_row { Expr::InSubquery(mark) } else { count_in(mark, input.schema())? };
    let mut known = Case { expr: None, when_then_expr: vec![], else_expr: Some(lit(false).into()) };
    let mut when =
        |condition: Expr, then: Expr| known.when_then_expr.push((condition.into(), then.into()));
    when(mark.clone(), lit(true));
    let unknown = || lit(ScalarValue::Boolean(None));
    if null_value {
        when(exists_in(&rows, true)?, lit(false));
        when(expr.is_null(), unknown());
    }
    if null_among {
        let nulls = LogicalPlanBuilder::from(rows).filter(member.is_null())?.build()?;
        when(exists_in(&nulls, false)?, unknown());
    }
    let truth = if null_value || null_among { Expr::Case(known) } else { mark };
    Ok(if negated { not(truth) } else { truth })
}

/// Gives the column of a subquery another name: a mark join would select it twice if it were
/// computed from a constant.
pub(super) fn renamed(subquery: &Subquery) -> DataFusionResult<Subquery> {
    let plan = subquery.subquery.as_ref().clone();
    let columns = plan
        .schema()
        .columns()
        .into_iter()
        .map(|column| Expr::Column(column).alias(unique_name("member")));
    let columns: Vec<Expr> = columns.collect();
    Ok(as_subquery(LogicalPlanBuilder::from(plan).project(columns)?.build()?))
}

/// An EXISTS test; a count if it is the same for all outer rows.
fn exists(test: Exists) -> DataFusionResult<Expr> {
    match is_correlated(&Expr::Exists(test.clone())) {
        true => Ok(Expr::Exists(test)),
        false => count_of(&test.subquery.subquery, None, test.negated),
    }
}

fn exists_in(plan: &LogicalPlan, negated: bool) -> DataFusionResult<Expr> {
    exists(Exists { subquery: as_subquery(plan.clone()), negated })
}

fn can_be_null(expr: &Expr, input: &LogicalPlan) -> bool {
    expr.nullable(input.schema()).unwrap_or(true) || has_missing_null(expr) || misses_nulls(input)
}
