//! Resolves names in the keys of an ORDER BY: a name alone is an output column, a name within an
//! expression is a column of the tables.
//!
//! Where this stands on the road of a query: while a statement is planned. DataFusion (55.2,
//! `order_by_to_sort_expr`) looks for every name among the output columns first, so that `SELECT -x
//! AS x … ORDER BY x + 0` sorts by `-x`, and `SELECT sum(x) AS x … ORDER BY sum(x)` fails. If a
//! key contains a name that an output gives to something else, or is a subquery, the key is
//! computed under a new name in a derived table, and the rows are sorted by that name. This
//! rewording is tried first; if it fails, because no table has the name, the statement is planned
//! as it is.
//!
//! Two more kinds of keys are reworded. In a SELECT DISTINCT, a key that is also selected always
//! becomes the position of its column. A position that stands for an expression over groups becomes
//! that expression, but only after planning has failed.

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement as SqlStatement, TableFactor, Value, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::rewrite::{bare, name_of};
use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The statement with keys computed in a derived table if names in them are ambiguous; `None` if no
/// key is.
pub(in crate::sql) fn selected_below(statement: &Statement) -> Option<Statement> {
    if visit(sql_in(statement)?, &mut AnyCaptured).is_continue() {
        return None;
    }
    let mut changed = statement.clone();
    let _ = visit_mut(sql_of(&mut changed)?, &mut EachQuery(select_keys));
    (changed != *statement).then_some(changed)
}

/// Finds a query with a key that has an ambiguous name.
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

/// Whether a key contains a name that the SELECT gives to something else, or a subquery, and
/// columns can be added to the SELECT.
fn any_captured(select: &Select, keys: &[OrderByExpr]) -> bool {
    // With GROUP BY ALL, an added column would be an added key.
    if select.distinct.is_some()
        || select.into.is_some()
        || matches!(select.group_by, GroupByExpr::All(_))
    {
        return false;
    }
    let given: Vec<String> = select.projection.iter().filter_map(capturing_name).collect();
    keys.iter().any(|key| is_captured(&key.expr, &given))
}

/// The statement with expressions in place of the positions of columns, if it failed because of
/// such a position.
pub(in crate::sql) fn written_out(
    statement: &Statement,
    error: &DataFusionError,
) -> Option<Statement> {
    if !is_position_of_group(error) {
        return None;
    }
    let mut changed = statement.clone();
    let _ = visit_mut(sql_of(&mut changed)?, &mut EachQuery(write_positions_out));
    (changed != *statement).then_some(changed)
}

fn is_position_of_group(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Diagnostic(_, inner) => is_position_of_group(inner),
        DataFusionError::Plan(what) => what.starts_with("Column in ORDER BY must be in GROUP BY"),
        _ => false,
    }
}

/// Replaces the keys of a SELECT DISTINCT that are selected with the positions of their columns.
pub(in crate::sql) fn number_distinct(statement: &mut SqlStatement) {
    let _ = visit_mut(statement, &mut EachQuery(number_keys));
}

/// Applies a function to each query of a statement, the inner ones first.
struct EachQuery(fn(&mut Query) -> Option<()>);

impl VisitorMut for EachQuery {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // `None` only says that the query stays as it is.
        let _ = (self.0)(query);
        ControlFlow::Continue(())
    }
}

/// The SELECT and the sort keys of a query.
fn select_and_keys(query: &mut Query) -> Option<(&mut Select, &mut Vec<OrderByExpr>)> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    match &mut query.order_by.as_mut()?.kind {
        OrderByKind::Expressions(keys) => Some((select, keys)),
        OrderByKind::All(_) => None,
    }
}

fn number_keys(query: &mut Query) -> Option<()> {
    let (select, keys) = select_and_keys(query)?;
    if !matches!(select.distinct, Some(Distinct::Distinct))
        || select.projection.iter().any(is_wildcard)
    {
        return None;
    }
    for key in keys
        .iter_mut()
        .filter(|key| name_of(&key.expr).is_none() && as_position(&key.expr).is_none())
    {
        let same = |item: &SelectItem| {
            expression(item).is_some_and(|expr| *bare(expr) == *bare(&key.expr))
        };
        if let Some(index) = select.projection.iter().position(same) {
            key.expr = position(index + 1);
        }
    }
    Some(())
}

fn write_positions_out(query: &mut Query) -> Option<()> {
    let (select, keys) = select_and_keys(query)?;
    if select.projection.iter().any(is_wildcard) {
        return None;
    }
    if select.distinct.is_some() {
        let is_output =
            |key: &OrderByExpr| as_position(&key.expr).is_some() || name_of(&key.expr).is_some();
        return if keys.iter().all(is_output) { wrap_in_derived_table(query, "*") } else { None };
    }
    for key in keys.iter_mut() {
        let item =
            as_position(&key.expr).and_then(|number| select.projection.get(number.checked_sub(1)?));
        if let Some(expr) = item.and_then(expression) {
            key.expr = expr.clone();
        }
    }
    select_keys(query)
}

/// Computes keys in a derived table, if a name in one of them may be taken for an output column.
fn select_keys(query: &mut Query) -> Option<()> {
    let (select, keys) = select_and_keys(query)?;
    if !any_captured(select, keys) {
        return None;
    }
    let known: Vec<String> = select.projection.iter().filter_map(name_of_item).collect();
    let has_wildcard = select.projection.iter().any(is_wildcard);
    let is_output = |expr: &Expr| match bare(expr) {
        Expr::Identifier(name) => has_wildcard || known.contains(&folded(name)),
        other => as_position(other).is_some(),
    };
    let mut names = Vec::new();
    for key in keys.iter_mut().filter(|key| !is_output(&key.expr)) {
        let name = Ident::with_quote('"', format!("order:{}", names.len() + 1));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(name.clone()));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
        names.push(name.to_string());
    }
    wrap_in_derived_table(query, &format!("* EXCLUDE ({})", names.join(", ")))
}

/// Moves the SELECT of a query into a derived table, and selects these columns from it. The ORDER
/// BY stays outside.
fn wrap_in_derived_table(query: &mut Query, columns: &str) -> Option<()> {
    let template = format!("SELECT {columns} FROM (SELECT 1) AS \"order:\"");
    let template = *Parser::new(&StylobateDialect::new(template.len()))
        .try_with_sql(&template)
        .ok()?
        .parse_query()
        .ok()?;
    let select = std::mem::replace(&mut query.body, template.body);
    let SetExpr::Select(outer) = query.body.as_mut() else { return None };
    let TableFactor::Derived { subquery, .. } = &mut outer.from.first_mut()?.relation else {
        return None;
    };
    subquery.body = select;
    Some(())
}

/// Whether a key is more than a name, and contains one of these names or a subquery.
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

/// The alias of an item, unless the item is a column of the same name.
fn capturing_name(item: &SelectItem) -> Option<String> {
    let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
    let name = folded(alias);
    (name_of(expr).as_ref() != Some(&name)).then_some(name)
}

fn name_of_item(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => name_of(expr),
        _ => None,
    }
}

fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn as_position(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn position(number: usize) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}
