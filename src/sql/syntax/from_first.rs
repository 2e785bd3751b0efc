//! `FROM t` alone, as in DuckDB: selects all columns of the table.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Query, SelectFlavor, SelectItem, SetExpr, Statement, VisitorMut,
};

use crate::sql::walks::visit_mut;

/// Adds `SELECT *` to every `FROM …` without a SELECT.
pub(in crate::sql) fn complete(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Completion);
}

struct Completion;

impl VisitorMut for Completion {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        complete_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn complete_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect => {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(Default::default())];
        }
        SetExpr::SetOperation { left, right, .. } => {
            complete_body(left);
            complete_body(right);
        }
        _ => {}
    }
}
