//! `x = ANY(array)`, and `x <> ALL(array)` of a list that is written out.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) makes `array_has` of `= ANY`, which is false where
//! no element is equal, although one is null. Of a list that is written out, it is `x IN (…)`; of any other array it is
//! `NOT (x <> ALL(array))`, which DataFusion plans rightly, but as a CASE: of a list that is written out, `x NOT IN (…)` is plainer.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Array, BinaryOperator, Expr, UnaryOperator, VisitMut, VisitorMut};

/// Rewrites such comparisons in an expression, or whatever has some.
pub(super) fn as_lists(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut AsLists);
}

struct AsLists;

impl VisitorMut for AsLists {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let rewritten = match &*expr {
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => any_equal(left, right),
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => in_list(left, right, true),
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            *expr = Expr::Nested(Box::new(rewritten));
        }
        ControlFlow::Continue(())
    }
}

fn any_equal(left: &Expr, array: &Expr) -> Option<Expr> {
    if matches!(plain(array), Expr::Subquery(_)) {
        return None;
    }
    Some(in_list(left, array, false).unwrap_or_else(|| {
        let all = Expr::AllOp {
            left: left.clone().into(),
            compare_op: BinaryOperator::NotEq,
            right: array.clone().into(),
        };
        Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) }
    }))
}

fn in_list(left: &Expr, array: &Expr, negated: bool) -> Option<Expr> {
    let Expr::Array(Array { elem, .. }) = plain(array) else { return None };
    // An empty list is not compared with anything, not even with null.
    (!elem.is_empty()).then(|| Expr::InList { expr: left.clone().into(), list: elem.clone(), negated })
}

fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}
