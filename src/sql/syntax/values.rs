//! `VALUES ((SELECT 1), 2)` as `SELECT (SELECT 1) AS column1, 2 AS column2`.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) plans subqueries in
//! VALUES and then fails on them, and refuses VALUES as the subquery of IN. Several rows are a
//! UNION ALL, in the order in which they are written.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor,
    Value, Values, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::walks::{visit, visit_mut};

/// The column that rows are ordered by.
const ROW: &str = "sty__row";

/// Writes all VALUES that have a subquery, or are one of IN, as SELECT.
pub(in crate::sql) fn as_selects(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut AsSelects);
}

struct AsSelects;

impl VisitorMut for AsSelects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_ref()
            && has_subquery(values)
            && let [_, _, ..] = values.rows.as_slice()
        {
            let _ = in_order(query);
        } else {
            body(&mut query.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { subquery, .. } = expr
            && let SetExpr::Values(values) = subquery.body.as_ref()
            && !has_subquery(values)
            && let Some(mut query) = select_from(values)
            && replace_source(&mut query, subquery.body.clone())
        {
            subquery.body = query.body;
        }
        ControlFlow::Continue(())
    }
}

/// Rows of which the order is that of their numbers, unless the query has another one.
fn in_order(query: &mut Query) -> Option<()> {
    let SetExpr::Values(values) = query.body.as_ref() else { return None };
    let mut outer = select_from(values)?;
    if !replace_source(&mut outer, Box::new(union(values, true)?)) {
        return None;
    }
    query.body = outer.body;
    if query.order_by.is_none() {
        query.order_by = outer.order_by;
    }
    Some(())
}

/// VALUES among the operands of UNION and the like.
fn body(expr: &mut SetExpr) {
    match expr {
        SetExpr::SetOperation { left, right, .. } => {
            body(left);
            body(right);
        }
        SetExpr::Values(values) if has_subquery(values) => {
            if let Some(union) = union(values, false) {
                *expr = union;
            }
        }
        _ => {}
    }
}

fn has_subquery(values: &Values) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    values.rows.iter().any(|row| visit(&row.content, &mut Queries).is_break())
}

/// `SELECT column1, … FROM (SELECT 1) ORDER BY` the row's number.
fn select_from(values: &Values) -> Option<Query> {
    let count = values.rows.first()?.content.len();
    let names: Vec<String> = (1..=count).map(|at| format!("column{at}")).collect();
    parsed(&format!("SELECT {} FROM (SELECT 1) AS sty__values ORDER BY {ROW}", names.join(", ")))
}

fn parsed(sql: &str) -> Option<Query> {
    Parser::new(&DuckDbDialect {}).try_with_sql(sql).ok()?.parse_query().ok().map(|query| *query)
}

/// Puts rows in the place of those that a query reads.
fn replace_source(query: &mut Query, rows: Box<SetExpr>) -> bool {
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        subquery.body = rows;
        return true;
    }
    false
}

/// One SELECT for each row, with the row's number or without.
fn union(values: &Values, numbered: bool) -> Option<SetExpr> {
    let rows = values
        .rows
        .iter()
        .enumerate()
        .map(|(at, row)| select(&row.content, numbered.then_some(at)));
    united(rows.collect::<Option<Vec<_>>>()?)
}

/// As a tree that is not deep.
fn united(mut rows: Vec<SetExpr>) -> Option<SetExpr> {
    if rows.len() < 2 {
        return rows.pop();
    }
    let right = rows.split_off(rows.len() / 2);
    Some(SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(united(rows)?),
        right: Box::new(united(right)?),
    })
}

fn select(row: &[Expr], number: Option<usize>) -> Option<SetExpr> {
    let mut query = parsed("SELECT 1")?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let named =
        |expr: Expr, name: String| SelectItem::ExprWithAlias { expr, alias: Ident::new(name) };
    select.projection = row
        .iter()
        .enumerate()
        .map(|(at, value)| named(value.clone(), format!("column{}", at + 1)))
        .collect();
    if let Some(number) = number {
        let number = Expr::Value(Value::Number(number.to_string(), false).into());
        select.projection.push(named(number, ROW.to_owned()));
    }
    Some(*query.body)
}
