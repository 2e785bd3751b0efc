//! The clauses around a UNION in a WITH RECURSIVE.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes each UNION of
//! such a WITH apart, whether it reads itself or not, and ignores its ORDER BY, LIMIT, OFFSET and
//! FETCH, and the WITH in front of it. Here a UNION that does not read itself is put in
//! parentheses, which keeps them. One that does is refused with a limit, as in PostgreSQL and
//! DuckDB: where it is read, a limit ends it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, ObjectNamePart, Query, SetExpr, SetOperator, Statement, TableFactor, Visitor, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::folded;
use crate::sql::syntax::sites::query;
use crate::sql::walks::{visit, visit_mut};

/// Keeps the clauses of a statement's recursive queries.
pub(in crate::sql) fn keep_clauses(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Clauses) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Clauses;

impl VisitorMut for Clauses {
    type Break = Error;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let with = query.with.iter_mut().filter(|with| with.recursive);
        for table in with.flat_map(|with| &mut with.cte_tables) {
            if let Err(error) = keep(table) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

fn keep(table: &mut Cte) -> Result<()> {
    let inner = table.query.as_ref();
    let is_union =
        matches!(inner.body.as_ref(), SetExpr::SetOperation { op: SetOperator::Union, .. });
    let has_limit = inner.limit_clause.is_some() || inner.fetch.is_some();
    let has_clauses = has_limit || inner.with.is_some() || inner.order_by.is_some();
    if !is_union || !has_clauses {
        return Ok(());
    }
    let name = folded(&table.alias.name);
    if visit(inner, &mut Reads(&name)).is_continue() {
        table.query = query(None, SetExpr::Query(table.query.clone()));
        return Ok(());
    }
    let refused = |what: &str, instead: &str| {
        Err(Error::Unsupported(format!(
            "{what} the query of {name}, which reads itself, is not supported; {instead}"
        )))
    };
    match () {
        () if has_limit => refused(
            "LIMIT, OFFSET or FETCH of",
            &format!("write it where {name} is read: SELECT … FROM {name} LIMIT 10"),
        ),
        () if inner.with.is_some() => {
            refused("WITH in", &format!("write its queries before {name} in WITH RECURSIVE"))
        }
        // An order of rows that are read elsewhere means nothing.
        () => Ok(()),
    }
}

/// Whether a table of this name is read.
struct Reads<'a>(&'a str);

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::Table { name, .. } => match name.0.as_slice() {
                [ObjectNamePart::Identifier(name)] if folded(name) == self.0 => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}
