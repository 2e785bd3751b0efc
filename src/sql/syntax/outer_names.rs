//! The names of columns of outer queries in the SELECT lists of subqueries in FROM.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) calls the column of
//! `(SELECT t.v FROM s) AS q` within a query over `t` `outer_ref(t.v)`, so that `q.v` is unknown,
//! or is taken for a column of another table. Here such a column gets its own name as an alias: any
//! column of a LATERAL; of other subqueries, what is written with a table that is not in their
//! FROM. The word LATERAL has no meaning where nothing stands before it in the FROM, and goes
//! there.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableAlias, TableFactor,
    TableWithJoins, VisitorMut,
};

use crate::sql::syntax::{folded, is_subquery};
use crate::sql::walks::{for_each_select, visit_mut};

pub(in crate::sql) fn keep(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Naming { inside: 0, around: Vec::new() });
}

struct Naming {
    /// How many subqueries that can refer to the rows around them the walk is in.
    inside: usize,
    /// The tables of each SELECT that the walk is in.
    around: Vec<Vec<String>>,
}

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.inside += usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.inside -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.inside > 0 {
            let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
            tables.for_each(|table| name_outer_columns(&mut table.query.body, &self.around));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Derived { lateral: true, subquery, .. } => {
                self.inside += 1;
                for_each_select(&mut subquery.body, &mut |select| name_columns(select, &|_| true));
            }
            TableFactor::Derived { subquery, .. } if self.inside > 0 => {
                name_outer_columns(&mut subquery.body, &self.around);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut tables = Vec::new();
        let _ = add_names(&select.from, &mut tables);
        self.around.push(tables);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.around.pop();
        let first = select.from.first_mut().map(|from| &mut from.relation);
        if let Some(TableFactor::Derived { lateral, .. }) = first {
            *lateral = false;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        let is_lateral = matches!(table, TableFactor::Derived { lateral: true, .. });
        self.inside -= usize::from(is_lateral);
        ControlFlow::Continue(())
    }
}

/// Names what is written with a table that is not in the FROM, but in one around it.
fn name_outer_columns(body: &mut SetExpr, around: &[Vec<String>]) {
    for_each_select(body, &mut |select| {
        let mut tables = Vec::new();
        if add_names(&select.from, &mut tables).is_none() {
            return;
        }
        let is_outer = |parts: &[Ident]| match parts {
            [before @ .., _] => {
                let names: Vec<String> = before.iter().map(folded).collect();
                !names.iter().any(|name| tables.contains(name))
                    && around.iter().flatten().any(|table| names.contains(table))
            }
            _ => false,
        };
        name_columns(select, &is_outer);
    });
}

/// Gives those columns of a SELECT that pass a test their own names.
fn name_columns(select: &mut Select, test: &dyn Fn(&[Ident]) -> bool) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let parts = match &*expr {
            Expr::CompoundIdentifier(parts) => parts.as_slice(),
            Expr::Identifier(name) => std::slice::from_ref(name),
            _ => continue,
        };
        if let Some(alias) = parts.last().filter(|_| test(parts)).cloned() {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Adds the names of the tables of a FROM; `None` if one is not known.
fn add_names(from: &[TableWithJoins], names: &mut Vec<String>) -> Option<()> {
    for from in from {
        let joined = from.joins.iter().map(|join| &join.relation);
        for table in std::iter::once(&from.relation).chain(joined) {
            match table {
                TableFactor::Table { alias: Some(TableAlias { name, .. }), .. }
                | TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. }
                | TableFactor::Function { alias: Some(TableAlias { name, .. }), .. }
                | TableFactor::UNNEST { alias: Some(TableAlias { name, .. }), .. }
                | TableFactor::NestedJoin { alias: Some(TableAlias { name, .. }), .. } => {
                    names.push(folded(name));
                }
                TableFactor::Table { name, alias: None, .. }
                | TableFactor::Function { name, alias: None, .. } => {
                    names.push(folded(name.0.last()?.as_ident()?));
                }
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    add_names(std::slice::from_ref(table_with_joins), names)?;
                }
                _ => return None,
            }
        }
    }
    Some(())
}
