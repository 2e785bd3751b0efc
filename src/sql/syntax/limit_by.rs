//! ClickHouse's `LIMIT n BY a, b`: the first n rows for each value of some expressions, as a filter
//! on their number.
//!
//! Where this stands on the road of a query: after parsing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement, Value, ValueWithSpan, VisitorMut, WindowSpec, WindowType,
};

use crate::error::{Error, Result};
use crate::sql::syntax::folded;
use crate::sql::walks::{function_call, visit_mut};

/// Writes the filters of a statement.
pub(in crate::sql) fn as_filters(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Filters) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Filters;

impl VisitorMut for Filters {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match filter(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn filter(query: &mut Query) -> Result<()> {
    let Some(LimitClause::LimitOffset { limit, limit_by, .. }) = &mut query.limit_clause else {
        return Ok(());
    };
    if limit_by.is_empty() {
        return Ok(());
    }
    let keys = std::mem::take(limit_by);
    let Some(count) = limit.take() else { return Ok(()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(refused()) };
    if select.distinct.is_some() {
        return Err(refused());
    }
    let order_by = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => {
            let meant = |key: &OrderByExpr| {
                Ok(OrderByExpr { expr: meant(&key.expr, select)?, ..key.clone() })
            };
            keys.iter().map(meant).collect::<Result<_>>()?
        }
        Some(OrderByKind::All(_)) => return Err(refused()),
        None => Vec::new(),
    };
    let partition_by = keys.iter().map(|key| meant(key, select)).collect::<Result<_>>()?;
    let mut number = function_call("row_number", Vec::new());
    if let Expr::Function(call) = &mut number {
        let window = WindowSpec { window_name: None, partition_by, order_by, window_frame: None };
        call.over = Some(WindowType::WindowSpec(window));
    }
    let filter = Expr::BinaryOp {
        left: Box::new(number),
        op: BinaryOperator::LtEq,
        right: Box::new(Expr::Nested(Box::new(count))),
    };
    if select.qualify.is_some() {
        return Err(refused());
    }
    select.qualify = Some(filter);
    Ok(())
}

/// The expression that a position or the name of an output column means.
fn meant(key: &Expr, select: &Select) -> Result<Expr> {
    match key {
        Expr::Value(ValueWithSpan { value: Value::Number(position, _), .. }) => {
            let before = position.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
            let items = select.projection.get(..=before.unwrap_or(usize::MAX - 1));
            match items.and_then(|items| items.split_last()) {
                Some((SelectItem::UnnamedExpr(expr), before))
                | Some((SelectItem::ExprWithAlias { expr, .. }, before))
                    if !before.iter().any(is_wildcard) =>
                {
                    Ok(expr.clone())
                }
                _ => Err(refused()),
            }
        }
        Expr::Identifier(name) => {
            let aliased = select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if folded(alias) == folded(name) => {
                    Some(expr.clone())
                }
                _ => None,
            });
            Ok(aliased.unwrap_or_else(|| key.clone()))
        }
        other => Ok(other.clone()),
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn refused() -> Error {
    Error::Unsupported(
        "LIMIT n BY goes with one SELECT without DISTINCT and QUALIFY, and with an ORDER BY of \
         names; put the rest into a subquery"
            .into(),
    )
}
