//! Placeholders with names in the VALUES of an INSERT.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Statement, Value, ValueWithSpan};

use crate::sql::walks::visit_expressions;

/// DataFusion takes placeholders in the VALUES of an INSERT for numbered ones and refuses names;
/// the same VALUES as a query inside are planned as in any query.
pub(in crate::sql) fn allow_names(statement: &mut Statement) {
    let Statement::Insert(insert) = statement else { return };
    let Some(source) =
        insert.source.as_mut().filter(|source| matches!(*source.body, SetExpr::Values(_)))
    else {
        return;
    };
    let named = |expression: &Expr| match expression {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
            name.get(1..)?.parse::<u32>().err()
        }
        _ => None,
    };
    let found = visit_expressions(source.as_ref(), |expression| match named(expression) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    if found.is_break() {
        *source.body = SetExpr::Query(source.clone());
    }
}
