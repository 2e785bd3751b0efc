//! Distinguishes casts to decimals and floats that the user wrote from those that coercion adds.
//!
//! Where this stands on the road of a query: an analyzer rule, right before types are coerced.
//! DataFusion (55.2) casts a float that is compared with a decimal to a decimal, and the rule after
//! coercion undoes that. `x::decimal(20,15) = d` looks the same by then, but there the decimal is
//! intended. `x::double = 0.5` looks like an integer beside a number with a point, and there the
//! user wants doubles to be compared. So a cast of the user is marked before coercion by doubling
//! it, and the mark is removed afterwards.

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

use super::number::Number;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The rule that marks them.
#[derive(Debug)]
pub(in crate::sql) struct UserCasts;

impl AnalyzerRule for UserCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_user_cast) {
            return Ok(plan);
        }
        let rewrite =
            |node: LogicalPlan| rewrite_where(node, is_user_cast, |expr, _| mark_user_casts(expr));
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "user_casts"
    }
}

/// Whether an expression is a cast to a decimal or a float of anything but a number. A number means
/// the same in any type that holds it.
fn is_user_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(cast) if is_concerned(cast.field.data_type()))
        && Number::from_expr(expr).is_none()
}

fn is_concerned(to: &DataType) -> bool {
    to.is_decimal() || to.is_floating()
}

/// Doubles each such cast in an expression.
pub(in crate::sql) fn mark_user_casts(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| match &expr {
        Expr::Cast(own) if is_user_cast(&expr) => {
            let data_type = own.field.data_type().clone();
            Ok(Transformed::yes(cast(expr, data_type)))
        }
        _ => Ok(Transformed::no(expr)),
    })
}

/// Removes the marks from a plan.
pub(super) fn unmark_plan(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    if !any_expression(&plan, is_marked) {
        return Ok(plan);
    }
    let rewrite = |node: LogicalPlan| rewrite_where(node, is_marked, |expr, _| unmark(expr));
    Ok(rewrite_plan(plan, rewrite)?.data)
}

/// Removes the marks from an expression.
pub(super) fn unmark(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| {
        let is_marked = is_marked(&expr);
        match expr {
            Expr::Cast(outer) if is_marked => Ok(Transformed::yes(*outer.expr)),
            other => Ok(Transformed::no(other)),
        }
    })
}

/// The operand of a cast of coercion, or of a marked one to a decimal; any other expression as it
/// is.
pub(super) fn below_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(outer) => match outer.expr.as_ref() {
            Expr::Cast(inner) if is_marked(expr) && inner.field.data_type().is_decimal() => {
                &inner.expr
            }
            other => other,
        },
        other => other,
    }
}

fn is_marked(expr: &Expr) -> bool {
    let Expr::Cast(outer) = expr else { return false };
    let Expr::Cast(inner) = outer.expr.as_ref() else { return false };
    is_concerned(outer.field.data_type()) && outer.field.data_type() == inner.field.data_type()
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn user_casts_are_marked() {
        let own = cast(col("x"), DataType::Decimal128(20, 15));
        let marked = mark_user_casts(own.clone().eq(col("d"))).unwrap().data;
        assert_eq!(
            marked.to_string(),
            "CAST(CAST(x AS Decimal128(20, 15)) AS Decimal128(20, 15)) = d"
        );
        assert_eq!(unmark(marked).unwrap().data, own.eq(col("d")));
        let double = cast(col("x"), DataType::Float64);
        let marked = mark_user_casts(double.clone()).unwrap().data;
        assert_eq!(below_cast(&marked), &double);
        assert_eq!(unmark(marked).unwrap().data, double);
        let number = cast(lit(0.5), DataType::Decimal128(2, 1));
        assert!(!mark_user_casts(number).unwrap().transformed);
        assert!(mark_user_casts(cast(lit(0.55), DataType::Decimal128(2, 1))).unwrap().transformed);
    }
}
