//! There is one zero: -0.0 and 0.0 are equal, in lists and sets too.
//!
//! DataFusion compares floats so that zeros are equal, but looks values of longer lists up by their bits. A list with one of the
//! zeros gets the other beside it.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Adds the other zero to lists that have one.
#[derive(Debug)]
pub(super) struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &'static str {
        "both_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DataFusionResult<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(with_both(expr)?.update_data(|expr| name.restore(expr)))
        })
    }
}

/// An expression with both zeros in lists that have one.
pub(super) fn with_both(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::InList(mut list) => match missing_zero(&list.list) {
            Some(zero) => {
                list.list.push(zero);
                Ok(Transformed::yes(Expr::InList(list)))
            }
            None => Ok(Transformed::no(Expr::InList(list))),
        },
        other => Ok(Transformed::no(other)),
    })
}

/// The zero that a list lacks, if it has the other.
fn missing_zero(list: &[Expr]) -> Option<Expr> {
    let other = list.iter().find_map(|value| match value {
        Expr::Literal(ScalarValue::Float64(Some(zero)), _) if *zero == 0.0 => Some(lit(-zero)),
        Expr::Literal(ScalarValue::Float32(Some(zero)), _) if *zero == 0.0 => Some(lit(-zero)),
        _ => None,
    })?;
    (!list.contains(&other)).then_some(other)
}

/// Floats with 0.0 in the place of -0.0; other arrays as they are.
pub(super) fn one_zero(values: &ArrayRef) -> ArrayRef {
    if let Some(floats) = values.as_primitive_opt::<Float64Type>() {
        return Arc::new(floats.unary::<_, Float64Type>(|value| value + 0.0));
    }
    match values.as_primitive_opt::<Float32Type>() {
        Some(floats) => Arc::new(floats.unary::<_, Float32Type>(|value| value + 0.0)),
        None => Arc::clone(values),
    }
}
