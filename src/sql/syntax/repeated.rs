//! Removes repeated keys from `DISTINCT ON (a, a)` and from the ORDER BY of a DISTINCT ON and of a
//! function.
//!
//! A repeated key has no effect. DataFusion (55.2) counts such keys differently in two places, and
//! fails.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArgumentClause, FunctionArguments, OrderByKind, Query, Statement,
    VisitorMut,
};

use crate::sql::walks::{for_each_select, visit_mut};

/// Removes repeated keys from every query and function of a statement.
pub(in crate::sql) fn remove(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Repeated);
}

struct Repeated;

impl VisitorMut for Repeated {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut is_found = false;
        for_each_select(&mut query.body, &mut |select| {
            if let Some(Distinct::On(keys)) = &mut select.distinct {
                keep_first(keys, |key| key);
                is_found = true;
            }
        });
        if is_found
            && let Some(OrderByKind::Expressions(keys)) =
                query.order_by.as_mut().map(|order| &mut order.kind)
        {
            keep_first(keys, |key| &key.expr);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            for clause in &mut list.clauses {
                if let FunctionArgumentClause::OrderBy(keys) = clause {
                    keep_first(keys, |key| &key.expr);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn keep_first<T>(keys: &mut Vec<T>, expr: impl Fn(&T) -> &Expr) {
    let mut known: Vec<Expr> = Vec::new();
    keys.retain(|key| {
        let new = !known.contains(expr(key));
        if new {
            known.push(expr(key).clone());
        }
        new
    });
}
