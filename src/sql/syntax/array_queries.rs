//! `ARRAY(SELECT …)`: the list of what a query answers, in its order.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes it for a call
//! of a function `array`. Here it becomes a subquery with `array_agg`, whose order is that of the
//! query; without rows, the list is empty. `[a, b]` becomes `make_array(a, b)`, because DataFusion
//! knows no columns of a query around it in the former.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArguments, Ident, OrderByExpr, OrderByKind, Query, SelectItem,
    SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, Value, ValueWithSpan,
};

use crate::sql::syntax::show::parsed_expr;
use crate::sql::walks::{function_call, visit_expressions, visit_expressions_mut};

/// The columns of the rows that are collected: values, and their places in the order.
const VALUE: &str = "sty__value";
const PLACE: &str = "sty__place";

/// Rewrites such expressions in a statement.
pub(in crate::sql) fn write_out(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        let rewritten =
            match expr {
                Expr::Function(Function {
                    name, args: FunctionArguments::Subquery(query), ..
                }) if name.to_string().eq_ignore_ascii_case("array") => collected(query),
                Expr::Array(Array { elem, .. }) if elem.iter().any(reads_column) => {
                    Some(function_call("make_array", elem.clone()))
                }
                _ => None,
            };
        if let Some(rewritten) = rewritten {
            *expr = rewritten;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn reads_column(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// `coalesce((SELECT array_agg(value ORDER BY place) FROM (query) rows (value, place)), [])`.
fn collected(query: &Query) -> Option<Expr> {
    let mut rows = query.clone();
    let keys = match rows.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.clone(),
        Some(OrderByKind::All(_)) => return None,
        None => Vec::new(),
    };
    let order = match (keys.as_slice(), rows.body.as_mut()) {
        ([], _) => String::new(),
        // The only column is its own place.
        ([key], body) if is_first_column(&key.expr, body) => {
            format!("ORDER BY {VALUE}{}", key.options)
        }
        (keys, SetExpr::Select(select)) if select.distinct.is_none() => {
            let items = &select.projection;
            let by = |key: &OrderByExpr| {
                let expr = selected(&key.expr, items).unwrap_or(&key.expr);
                OrderByExpr { expr: expr.clone(), ..key.clone() }.to_string()
            };
            let keys = keys.iter().map(by).collect::<Vec<_>>().join(", ");
            let number = format!("row_number() OVER (ORDER BY {keys})");
            select.projection.push(SelectItem::UnnamedExpr(parsed_expr(&number)?));
            format!("ORDER BY {PLACE}")
        }
        _ => return None,
    };
    let text = format!("(SELECT array_agg({VALUE} {order}) FROM (SELECT 1) AS sty__rows)");
    let mut expr = parsed_expr(&text)?;
    let Expr::Subquery(template) = &mut expr else { return None };
    let SetExpr::Select(select) = template.body.as_mut() else { return None };
    let TableFactor::Derived { subquery, alias, .. } = &mut select.from.first_mut()?.relation
    else {
        return None;
    };
    let names = if order.contains(PLACE) { &[VALUE, PLACE][..] } else { &[VALUE][..] };
    let column = |name: &&str| TableAliasColumnDef { name: Ident::new(*name), data_type: None };
    let columns = names.iter().map(column).collect();
    let name = Ident::new("sty__rows");
    *alias = Some(TableAlias { explicit: true, name, columns, at: None });
    **subquery = rows;
    Some(function_call("coalesce", vec![expr, parsed_expr("[]")?]))
}

/// The expression of the item that a key names, by its number or its name.
fn selected<'a>(key: &Expr, items: &'a [SelectItem]) -> Option<&'a Expr> {
    let expr_of = |item: &'a SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    };
    match key {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            let number: usize = digits.parse().ok()?;
            items.get(number.checked_sub(1)?).and_then(expr_of)
        }
        Expr::Identifier(name) => {
            let is_named = |item: &&SelectItem| match item {
                SelectItem::ExprWithAlias { alias, .. } => is_same(alias, name),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path)) => {
                    path.last().is_some_and(|last| is_same(last, name))
                }
                _ => false,
            };
            items.iter().find(is_named).and_then(expr_of)
        }
        _ => None,
    }
}

fn is_same(left: &Ident, right: &Ident) -> bool {
    let is_quoted = left.quote_style.is_some() && right.quote_style.is_some();
    left.value == right.value || (!is_quoted && left.value.eq_ignore_ascii_case(&right.value))
}

/// Whether a key of the order is the first column, by its number, its name or its expression.
fn is_first_column(key: &Expr, body: &SetExpr) -> bool {
    let items = match body {
        SetExpr::Select(select) => select.projection.as_slice(),
        _ => &[],
    };
    let key_text = key.to_string();
    let is_itself = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => expr.to_string() == key_text,
        _ => false,
    };
    key_text == "1"
        || items.get(..1).is_some_and(|first| selected(key, first).is_some())
        || items.first().is_some_and(is_itself)
}
