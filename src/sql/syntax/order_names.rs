//! What the keys of an ORDER BY mean: a name alone is a column of the answer, a name within an
//! expression is one of the tables.
//!
//! Where this stands on the road of a query: while a statement is planned. DataFusion (55.2,
//! `order_by_to_sort_expr`) looks for every name among the columns of the answer first, so that
//! `SELECT -x AS x … ORDER BY x + 0` goes by `-x`, and `SELECT sum(x) AS x … ORDER BY sum(x)`
//! fails. Where a key has a name within that the answer has for something else, and where it is a
//! subquery, the key is selected under a name of its own in a query below, by which the rows are
//! put in order. Such words are tried first: a name that no table has is that of the answer after
//! all.
//!
//! Two kinds of keys are put in other words for good or after a failure: in a SELECT DISTINCT, a
//! key that is selected is the number of its column, and a number that stands for an expression
//! over groups is that expression.

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement as SqlStatement, TableFactor, Value, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::syntax::rewrite::{bare, name_of, normal};
use crate::sql::syntax::{sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The statement with keys selected below where names in them may mean two things; the words to try
/// first.
pub(in crate::sql) fn selected_below(statement: &Statement) -> Option<Statement> {
    if visit(sql_in(statement)?, &mut AnyCaptured).is_continue() {
        return None;
    }
    let mut changed = statement.clone();
    let _ = visit_mut(sql_of(&mut changed)?, &mut EachQuery(select_keys));
    (changed != *statement).then_some(changed)
}

/// Finds a query with such a key.
struct AnyCaptured;

impl Visitor for AnyCaptured {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
        let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind)
        else {
            return ControlFlow::Continue(());
        };
        match any_captured(select, keys) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether a key of a SELECT that may have further columns has a name of it within, or a subquery.
fn any_captured(select: &Select, keys: &[OrderByExpr]) -> bool {
    // A further column would be a further key of GROUP BY ALL.
    if select.distinct.is_some()
        || select.into.is_some()
        || matches!(select.group_by, GroupByExpr::All(_))
    {
        return false;
    }
    let given: Vec<String> = select.projection.iter().filter_map(given_name).collect();
    keys.iter().any(|key| is_captured(&key.expr, &given))
}

/// The statement with expressions in place of the numbers of columns, if it failed for one of
/// these.
pub(in crate::sql) fn written_out(
    statement: &Statement,
    error: &DataFusionError,
) -> Option<Statement> {
    if !is_number_of_group(error) {
        return None;
    }
    let mut changed = statement.clone();
    let _ = visit_mut(sql_of(&mut changed)?, &mut EachQuery(write_numbers_out));
    (changed != *statement).then_some(changed)
}

fn is_number_of_group(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Diagnostic(_, inner) => is_number_of_group(inner),
        DataFusionError::Plan(what) => what.starts_with("Column in ORDER BY must be in GROUP BY"),
        _ => false,
    }
}

/// Makes numbers of the keys of a SELECT DISTINCT that are selected.
pub(in crate::sql) fn number_distinct(statement: &mut SqlStatement) {
    let _ = visit_mut(statement, &mut EachQuery(number_keys));
}

/// Does something to each query of a statement, the inner ones first.
struct EachQuery(fn(&mut Query) -> Option<()>);

impl VisitorMut for EachQuery {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // What there is nothing to do for stays as it is.
        let _ = (self.0)(query);
        ControlFlow::Continue(())
    }
}

/// The SELECT of a query, and its keys.
fn parts(query: &mut Query) -> Option<(&mut Select, &mut Vec<OrderByExpr>)> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    match &mut query.order_by.as_mut()?.kind {
        OrderByKind::Expressions(keys) => Some((select, keys)),
        OrderByKind::All(_) => None,
    }
}

fn number_keys(query: &mut Query) -> Option<()> {
    let (select, keys) = parts(query)?;
    if !matches!(select.distinct, Some(Distinct::Distinct)) || select.projection.iter().any(is_wild)
    {
        return None;
    }
    for key in
        keys.iter_mut().filter(|key| name_of(&key.expr).is_none() && numbered(&key.expr).is_none())
    {
        let same =
            |item: &SelectItem| computed(item).is_some_and(|expr| *bare(expr) == *bare(&key.expr));
        if let Some(at) = select.projection.iter().position(same) {
            key.expr = number(at + 1);
        }
    }
    Some(())
}

fn write_numbers_out(query: &mut Query) -> Option<()> {
    let (select, keys) = parts(query)?;
    if select.projection.iter().any(is_wild) {
        return None;
    }
    if select.distinct.is_some() {
        let is_output =
            |key: &OrderByExpr| numbered(&key.expr).is_some() || name_of(&key.expr).is_some();
        return if keys.iter().all(is_output) { put_below(query, "*") } else { None };
    }
    for key in keys.iter_mut() {
        let item = numbered(&key.expr).and_then(|at| select.projection.get(at.checked_sub(1)?));
        if let Some(SelectItem::UnnamedExpr(expr)) = item {
            key.expr = expr.clone();
        }
    }
    select_keys(query)
}

/// Selects keys in a query below, if a name in one of them may be taken for a column of the answer.
fn select_keys(query: &mut Query) -> Option<()> {
    let (select, keys) = parts(query)?;
    if !any_captured(select, keys) {
        return None;
    }
    let known: Vec<String> = select.projection.iter().filter_map(name_of_item).collect();
    let has_wild = select.projection.iter().any(is_wild);
    let is_output = |expr: &Expr| match bare(expr) {
        Expr::Identifier(name) => has_wild || known.contains(&normal(name)),
        other => numbered(other).is_some(),
    };
    let mut names = Vec::new();
    for key in keys.iter_mut().filter(|key| !is_output(&key.expr)) {
        let name = Ident::with_quote('"', format!("order:{}", names.len() + 1));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(name.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
        names.push(name.to_string());
    }
    put_below(query, &format!("* EXCLUDE ({})", names.join(", ")))
}

/// Moves the SELECT of a query into a derived table, and selects these columns from it in the order
/// of the query.
fn put_below(query: &mut Query, columns: &str) -> Option<()> {
    let above = format!("SELECT {columns} FROM (SELECT 1) AS \"order:\"");
    let above = *Parser::new(&DuckDbDialect {}).try_with_sql(&above).ok()?.parse_query().ok()?;
    let below = std::mem::replace(&mut query.body, above.body);
    let SetExpr::Select(outer) = query.body.as_mut() else { return None };
    let TableFactor::Derived { subquery, .. } = &mut outer.from.first_mut()?.relation else {
        return None;
    };
    subquery.body = below;
    Some(())
}

/// Whether a key is more than a name or a number, and has one of these names in it or a subquery.
fn is_captured(key: &Expr, given: &[String]) -> bool {
    !matches!(bare(key), Expr::Identifier(_)) && visit(key, &mut Captured(given)).is_break()
}

struct Captured<'a>(&'a [String]);

impl Visitor for Captured<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match name_of(expr).is_some_and(|name| self.0.contains(&name)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The name that an item gives to something else than a column of that name.
fn given_name(item: &SelectItem) -> Option<String> {
    let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
    let name = normal(alias);
    (name_of(expr).as_ref() != Some(&name)).then_some(name)
}

fn name_of_item(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
        SelectItem::UnnamedExpr(expr) => name_of(expr),
        _ => None,
    }
}

fn computed(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

fn is_wild(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn numbered(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn number(at: usize) -> Expr {
    Expr::value(Value::Number(at.to_string(), false))
}
