//! The order of lists and structs: null is the greatest item, as in PostgreSQL and DuckDB, and as
//! ORDER BY takes it for the greatest value.
//!
//! Where this stands on the road of a query: a part of the analyzer rule in `zeros`, after both
//! zeros have become one. DataFusion (55.2) compares lists and structs with null as the least item,
//! so that `[NULL] < [1]`. Here `a < b` becomes `sty__order(a, b) < 0`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::Int8Builder;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, SortOptions};
use datafusion::arrow::array::make_comparator;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::sql::walks::{Rewritten, any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// Whether some expression of a plan may order lists or structs.
pub(super) fn is_in(plan: &LogicalPlan) -> bool {
    any_expression(plan, is_candidate)
}

/// Takes null for the greatest item wherever a plan compares lists or structs.
pub(super) fn made_last(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, ordered))?.data)
}

fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn is_candidate(expr: &Expr) -> bool {
    matches!(expr, Expr::Between(_))
        || matches!(expr, Expr::BinaryExpr(BinaryExpr { op, .. }) if is_order(*op))
}

fn ordered(expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
    // An expression without a type here is refused by DataFusion later.
    let is_nested =
        |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_nested());
    rewrite_up(expr, |expr| {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_order(op) && is_nested(&left) && is_nested(&right) =>
            {
                Transformed::yes(compare(*left, op, *right))
            }
            Expr::Between(between) if is_nested(&between.expr) => {
                let (low, high) = (*between.low, *between.high);
                let value = *between.expr;
                let (above, below, negated) = (Operator::GtEq, Operator::LtEq, between.negated);
                let within = compare(value.clone(), above, low).and(compare(value, below, high));
                Transformed::yes(if negated { Expr::Not(Box::new(within)) } else { within })
            }
            other => Transformed::no(other),
        })
    })
}

fn compare(left: Expr, op: Operator, right: Expr) -> Expr {
    let order = ScalarFunction::new_udf(function().into(), vec![left, right]);
    let order = Box::new(Expr::ScalarFunction(order));
    Expr::BinaryExpr(BinaryExpr::new(order, op, Box::new(lit(0_i8))))
}

/// The function that orders two lists or structs.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(Order { signature: Signature::any(2, Volatility::Immutable) })
}

/// -1, 0 or 1 where the first of two lists or structs is less than, equal to or greater than the
/// second; null where either is null.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    signature: Signature,
}

impl ScalarUDFImpl for Order {
    fn name(&self) -> &'static str {
        "sty__order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Int8)
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [left, right] = given.args.as_slice() else {
            return internal_err!("{} takes two arguments", self.name());
        };
        let (left, left_step) = values(left)?;
        let (right, right_step) = values(right)?;
        let rows = if left_step + right_step == 0 { 1 } else { given.number_rows };
        let options = SortOptions { descending: false, nulls_first: false };
        let comparator = make_comparator(left.as_ref(), right.as_ref(), options)?;
        let mut orders = Int8Builder::with_capacity(rows);
        for row in 0..rows {
            let (at_left, at_right) = (row * left_step, row * right_step);
            match left.is_null(at_left) || right.is_null(at_right) {
                true => orders.append_null(),
                false => orders.append_value(match comparator(at_left, at_right) {
                    Ordering::Less => -1,
                    Ordering::Equal => 0,
                    Ordering::Greater => 1,
                }),
            }
        }
        let orders = orders.finish();
        Ok(match left_step + right_step {
            0 => ColumnarValue::Scalar(ScalarValue::try_from_array(&orders, 0)?),
            _ => ColumnarValue::Array(Arc::new(orders)),
        })
    }
}

/// The values of an argument, and how many of them a row goes on by: none in a constant.
fn values(argument: &ColumnarValue) -> DataFusionResult<(ArrayRef, usize)> {
    Ok(match argument {
        ColumnarValue::Array(values) => (Arc::clone(values), 1),
        ColumnarValue::Scalar(value) => (value.to_array()?, 0),
    })
}
