//! Casts to decimals that the user wrote, told from those that coercion adds.
//!
//! Where this stands on the road of a query: an analyzer rule, right before types are coerced.
//! DataFusion (55.2) casts a float that is compared with a decimal to a decimal, and the rule after
//! coercion undoes that. `x::decimal(20,15) = d` looks the same by then, but there the decimal is
//! meant. So a cast of the user's is written twice before, and once again afterwards.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

use super::number::Number;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct UserCasts;

impl AnalyzerRule for UserCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_own) {
            return Ok(plan);
        }
        let rewrite =
            |node: LogicalPlan| rewrite_where(node, is_own, |expr, _| mark_user_casts(expr));
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "user_casts"
    }
}

/// Whether an expression is a cast to a decimal and no number, which means the same in any type
/// that holds it.
fn is_own(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(cast) if cast.field.data_type().is_decimal())
        && Number::of(expr).is_none()
}

/// An expression with each such cast written twice.
pub(in crate::sql) fn mark_user_casts(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| match &expr {
        Expr::Cast(of) if is_own(&expr) => {
            let data_type = of.field.data_type().clone();
            Ok(Transformed::yes(cast(expr, data_type)))
        }
        _ => Ok(Transformed::no(expr)),
    })
}

/// A plan with each of them written once.
pub(super) fn all_once(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    if !any_expression(&plan, is_twice) {
        return Ok(plan);
    }
    let rewrite = |node: LogicalPlan| rewrite_where(node, is_twice, |expr, _| once(expr));
    Ok(rewrite_plan(plan, rewrite)?.data)
}

/// An expression with each of them written once.
pub(super) fn once(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| {
        let is_twice = is_twice(&expr);
        match expr {
            Expr::Cast(of) if is_twice => Ok(Transformed::yes(*of.expr)),
            other => Ok(Transformed::no(other)),
        }
    })
}

/// What an expression is a cast of, be it written once or twice.
pub(super) fn below_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(outer) => match outer.expr.as_ref() {
            Expr::Cast(inner) if is_twice(expr) => &inner.expr,
            other => other,
        },
        other => other,
    }
}

fn is_twice(expr: &Expr) -> bool {
    let Expr::Cast(outer) = expr else { return false };
    let Expr::Cast(inner) = outer.expr.as_ref() else { return false };
    outer.field.data_type().is_decimal() && outer.field.data_type() == inner.field.data_type()
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn casts_are_told_apart() {
        let own = cast(col("x"), DataType::Decimal128(20, 15));
        let marked = mark_user_casts(own.clone().eq(col("d"))).unwrap().data;
        assert_eq!(
            marked.to_string(),
            "CAST(CAST(x AS Decimal128(20, 15)) AS Decimal128(20, 15)) = d"
        );
        assert_eq!(once(marked).unwrap().data, own.eq(col("d")));
        let number = cast(lit(0.5), DataType::Decimal128(2, 1));
        assert!(!mark_user_casts(number).unwrap().transformed);
        assert!(mark_user_casts(cast(lit(0.55), DataType::Decimal128(2, 1))).unwrap().transformed);
    }
}
