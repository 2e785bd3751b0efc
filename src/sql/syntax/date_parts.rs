//! `extract(century FROM t)` and `date_part('century', t)`, and other parts that DataFusion (55.2)
//! does not know, as calls of macros: `century(t)`.
//!
//! Where this stands on the road of a query: after parsing, before macros are expanded.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value, ValueWithSpan, VisitMut,
};

use crate::sql::walks::{function_call, visit_expressions_mut};

/// The parts, in singular and plural, and the macros that compute them.
const PARTS: [(&str, &str, &str); 5] = [
    ("century", "centuries", "century"),
    ("decade", "decades", "decade"),
    ("era", "era", "era"),
    ("julian", "julian", "julian"),
    ("millennium", "millennia", "millennium"),
];

/// Rewords the parts in an expression, or in anything that contains expressions.
pub(in crate::sql) fn as_calls(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Some(call) = call(expr) {
            *expr = call;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn call(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Extract { field, expr, .. } => {
            // Quotes may be around it, as in extract('century' FROM t).
            let field = field.to_string();
            Some(function_call(macro_of(field.trim_matches('\''))?, vec![expr.as_ref().clone()]))
        }
        Expr::Function(call) => {
            let name = call.name.to_string();
            let is_part = ["date_part", "datepart"].iter().any(|it| name.eq_ignore_ascii_case(it));
            let (part, time) = arguments(call).filter(|_| is_part)?;
            Some(function_call(macro_of(part)?, vec![time.clone()]))
        }
        _ => None,
    }
}

fn macro_of(part: &str) -> Option<&'static str> {
    let is = |known: &str| known.eq_ignore_ascii_case(part);
    PARTS.iter().find(|(one, many, _)| is(one) || is(many)).map(|(.., name)| *name)
}

/// The part, which is a literal, and the time.
fn arguments(call: &Function) -> Option<(&str, &Expr)> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
                value: Value::SingleQuotedString(part),
                ..
            }))),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(time)),
        ] => Some((part, time)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::syntax::show::parsed;

    use super::*;

    #[test]
    fn parts_are_calls() {
        for (given, expected) in [
            ("extract(century FROM a + b)", "century(a + b)"),
            ("EXTRACT('julian' FROM t)", "julian(t)"),
            ("date_part('Decades', t)", "decade(t)"),
            ("extract(year FROM t)", "EXTRACT(YEAR FROM t)"),
            ("date_part(x, t)", "date_part(x, t)"),
        ] {
            let mut statement = parsed(&format!("SELECT {given}")).unwrap();
            as_calls(&mut statement);
            assert_eq!(statement.to_string(), format!("SELECT {expected}"));
        }
    }
}
