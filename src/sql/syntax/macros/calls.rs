//! The arguments of a call, and expressions of text with arguments in them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::walks::visit_expressions_mut;

/// The arguments of a call by position; `None` if some are of another kind.
pub(super) fn arguments(call: &Function) -> Option<Vec<Expr>> {
    match &call.args {
        FunctionArguments::List(list) => list.args.iter().map(argument).collect(),
        FunctionArguments::None => Some(Vec::new()),
        FunctionArguments::Subquery(_) => None,
    }
}

fn argument(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

/// The expression of a text.
pub(super) fn parsed(text: &str) -> Result<Expr> {
    let dialect = StylobateDialect::new(text.len());
    let parsed =
        Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::InvalidInput(error.to_string()))
}

/// Puts arguments in the place of parameters.
pub(super) fn substitute(expr: &mut Expr, parameters: &[&str], arguments: &[Expr]) {
    let _ = visit_expressions_mut(expr, |part| {
        if let Expr::Identifier(Ident { value, quote_style: None, .. }) = &*part
            && let Some(at) = parameters.iter().position(|parameter| parameter == value)
            && let Some(argument) = arguments.get(at)
        {
            *part = nested(argument.clone());
        }
        ControlFlow::<()>::Continue(())
    });
}

/// An expression that can stand anywhere in another one.
fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Function(_)
        | Expr::Nested(_)
        | Expr::Interval(_)
        | Expr::Array(_)
        | Expr::Lambda(_)
        | Expr::TypedString(_) => expr,
        other => Expr::Nested(Box::new(other)),
    }
}
