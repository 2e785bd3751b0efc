//! Names that functions have in other databases: `mod(a, b)` is `a % b`, `sign` is `signum`,
//! `every` is `bool_and`, and `strlen`, which counts bytes, is `octet_length`. The order of values
//! that are collected may stand behind the call, too.
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, VisitMut,
};

use crate::sql::walks::visit_expressions_mut;

/// Translates function names to DataFusion's, in an expression or in anything that contains
/// expressions.
pub(in crate::sql) fn translate(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        translate_one(expr);
        ControlFlow::<()>::Continue(())
    });
}

fn translate_one(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return };
    if ["array_agg", "group_concat", "list", "listagg", "string_agg"]
        .iter()
        .any(|collecting| name.value.eq_ignore_ascii_case(collecting))
    {
        order_within_parentheses(function);
        return;
    }
    match name.value.to_ascii_lowercase().as_str() {
        "sign" => function.name = object_name("signum"),
        "strlen" => function.name = object_name("octet_length"),
        "every" => function.name = object_name("bool_and"),
        "mod" => {
            if let Some(remainder) = remainder(function) {
                *expr = remainder;
            }
        }
        _ => {}
    }
}

/// `listagg(s, ',') WITHIN GROUP (ORDER BY s)` is `listagg(s, ',' ORDER BY s)`.
fn order_within_parentheses(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && !function.within_group.is_empty()
    {
        let order = std::mem::take(&mut function.within_group);
        list.clauses.push(FunctionArgumentClause::OrderBy(order));
    }
}

fn object_name(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

/// `((a) % (b))` for two arguments.
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
