//! Placeholders: those with names in the VALUES of an INSERT, and whether there are any.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Statement, Value, ValueWithSpan};

use crate::sql::syntax::sql_in;
use crate::sql::walks::visit_expressions;

/// Whether a statement has a parameter.
pub(in crate::sql) fn are_in(statement: &AnyStatement) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    sql_in(statement).is_some_and(|sql| visit_expressions(sql, is_one).is_break())
}

/// Wraps VALUES that have names in a query. DataFusion expects numbered placeholders in the VALUES
/// of an INSERT and refuses names, but accepts them in a query.
pub(in crate::sql) fn allow_names(statement: &mut Statement) {
    let Statement::Insert(insert) = statement else { return };
    let Some(source) =
        insert.source.as_mut().filter(|source| matches!(*source.body, SetExpr::Values(_)))
    else {
        return;
    };
    let is_named = |expression: &Expr| match expression {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
            name.get(1..).is_some_and(|name| name.parse::<u32>().is_err())
        }
        _ => false,
    };
    let found = visit_expressions(source.as_ref(), |expression| match is_named(expression) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if found.is_break() {
        *source.body = SetExpr::Query(source.clone());
    }
}
