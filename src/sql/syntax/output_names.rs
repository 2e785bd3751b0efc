//! Names of columns that a SELECT computes: `avg(price)`, `a + b`, as they are written.
//!
//! Where this stands on the road of a query: after parsing, before anything else is changed.
//! DataFusion (55.2) calls such a column by the expression it has planned, with tables and types:
//! `avg(trips.price)`, `trips.a + Int64(1)`. Here it gets its text as an alias, with the names of
//! functions in lower case, as in DuckDB. That is done for the SELECT of a statement and for those
//! in a FROM or a WITH, whose names can be seen; subqueries within expressions stay as they are.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    TableWithJoins, VisitorMut,
};

use crate::sql::syntax::columns;
use crate::sql::syntax::folded;
use crate::sql::syntax::rewrite::name_of;
use crate::sql::walks::visit_mut;

/// Gives names to the computed columns of a statement.
pub(in crate::sql) fn set(statement: &mut Statement) {
    match statement {
        Statement::Query(query) => name_columns(query),
        Statement::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                name_columns(query);
            }
        }
        Statement::CreateView(create) => name_columns(&mut create.query),
        Statement::Explain { statement, .. } => set(statement),
        _ => {}
    }
}

fn name_columns(query: &mut Query) {
    for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        name_columns(&mut table.query);
    }
    name_columns_of_body(&mut query.body);
}

fn name_columns_of_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_columns_of_select(select),
        SetExpr::Query(query) => name_columns(query),
        SetExpr::SetOperation { left, right, .. } => {
            name_columns_of_body(left);
            name_columns_of_body(right);
        }
        _ => {}
    }
}

fn name_columns_of_select(select: &mut Select) {
    let aliases: Vec<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        })
        .collect();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(name) = computed_name(expr).filter(|name| !aliases.contains(name))
        {
            let alias = Ident::with_quote('"', name);
            let expr = std::mem::replace(expr, Expr::Tuple(Vec::new()));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    select.from.iter_mut().for_each(name_columns_of_tables);
}

fn name_columns_of_tables(tables: &mut TableWithJoins) {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    for table in std::iter::once(&mut tables.relation).chain(joined) {
        match table {
            TableFactor::Derived { subquery, .. } => name_columns(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                name_columns_of_tables(table_with_joins);
            }
            _ => {}
        }
    }
}

/// The name of a column that is computed; `None` for one that has a name by itself, or stands for
/// several.
fn computed_name(expr: &Expr) -> Option<String> {
    if name_of(expr).is_some() || spreads(expr) || columns::has_call_expr(expr) {
        return None;
    }
    let mut written = expr.clone();
    let _ = visit_mut(&mut written, &mut LowerCase);
    Some(written.to_string())
}

/// Whether an expression may stand for several columns: a struct is unnested to its fields.
fn spreads(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => match function.name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => folded(name) == "unnest",
            _ => false,
        },
        _ => false,
    }
}

/// Writes the names of functions in lower case.
struct LowerCase;

impl VisitorMut for LowerCase {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            for part in &mut function.name.0 {
                if let ObjectNamePart::Identifier(name) = part {
                    name.value = folded(name);
                }
            }
        }
        ControlFlow::Continue(())
    }
}
