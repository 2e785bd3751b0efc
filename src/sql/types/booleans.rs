//! Booleans beside texts: `flag = 'f'`, as PostgreSQL has it.
//!
//! Where this stands on the road of a query: while expressions are planned. DataFusion (55.2)
//! refuses to compare a boolean with a text. Here a literal that PostgreSQL reads as a boolean is
//! one beside a boolean; any other is refused as before.

use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans comparisons of booleans.
#[derive(Debug)]
pub(in crate::sql) struct BooleanComparison;

impl ExprPlanner for BooleanComparison {
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let RawBinaryExpr { op, mut left, mut right } = operation;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            let is_boolean =
                |side: &Expr| side.get_type(schema).is_ok_and(|it| it == DataType::Boolean);
            if let Some(value) = literal(&right).filter(|_| is_boolean(&left)) {
                right = lit(value);
            } else if let Some(value) = literal(&left).filter(|_| is_boolean(&right)) {
                left = lit(value);
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The boolean that a literal text stands for.
fn literal(expr: &Expr) -> Option<bool> {
    let Expr::Literal(value, _) = expr else { return None };
    boolean_of(value.try_as_str()??)
}

/// The boolean that PostgreSQL reads in a text: beginnings of words that tell which, in any case.
fn boolean_of(text: &str) -> Option<bool> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => true,
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => false,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_booleans() {
        for (text, expected) in [
            ("t", Some(true)),
            (" YES ", Some(true)),
            ("1", Some(true)),
            ("off", Some(false)),
            ("F", Some(false)),
            ("o", None),
            ("truth", None),
            ("", None),
        ] {
            assert_eq!(boolean_of(text), expected, "{text}");
        }
    }
}
