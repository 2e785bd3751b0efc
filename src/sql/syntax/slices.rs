//! Slices with an open end: `l[2:]`, `l[:2]` and `l[:]`, which DataFusion (55.2) does not plan.
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Subscript, UnaryOperator, Value, VisitMut,
};

use crate::sql::walks::visit_expressions_mut;

/// Writes the ends of slices out, in an expression or in anything that contains expressions: the
/// first item is 1, and the last one -1.
pub(in crate::sql) fn close(tree: &mut impl VisitMut) {
    let one = || Expr::value(Value::Number("1".into(), false));
    let last = || Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(one()) };
    let _ = visit_expressions_mut(tree, |expr| {
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            for access in access_chain {
                if let AccessExpr::Subscript(Subscript::Slice {
                    lower_bound, upper_bound, ..
                }) = access
                {
                    lower_bound.get_or_insert_with(one);
                    upper_bound.get_or_insert_with(last);
                }
            }
        }
        ControlFlow::<()>::Continue(())
    });
}
