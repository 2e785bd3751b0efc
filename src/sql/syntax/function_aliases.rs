//! Functions that others have under another name: `mod(a, b)` is `a % b`, `sign` is `signum`, and
//! `every` is `bool_and`.
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, VisitMut, VisitorMut,
};

use crate::sql::walks::visit_mut;

/// Gives the functions the names that they have here, in an expression or whatever has some.
pub(in crate::sql) fn translate(tree: &mut impl VisitMut) {
    let _ = visit_mut(tree, &mut Translation);
}

struct Translation;

impl VisitorMut for Translation {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
            return ControlFlow::Continue(());
        };
        match name.value.to_ascii_lowercase().as_str() {
            "sign" => function.name = named("signum"),
            "every" => function.name = named("bool_and"),
            "mod" => {
                if let Some(remainder) = remainder(function) {
                    *expr = remainder;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn named(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

/// `(a) % (b)` of two arguments.
fn remainder(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let remainder =
        Expr::BinaryOp { left: nested(left), op: BinaryOperator::Modulo, right: nested(right) };
    Some(Expr::Nested(Box::new(remainder)))
}
