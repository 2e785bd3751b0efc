//! How deep subqueries may stand in each other.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) visits a subquery in
//! an expression twice for each one that it stands in, so that planning takes twice as long with
//! every level.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Statement, Visitor};

use crate::error::{Error, Result};
use crate::sql::walks::visit;

/// Planning takes a tenth of a second with so many levels.
const MOST_LEVELS: usize = 16;

/// Refuses a statement of too many levels.
pub(in crate::sql) fn check(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Levels(0)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::InvalidInput(format!(
            "more than {MOST_LEVELS} subqueries stand in each other; CREATE TABLE … AS keeps what some of them answer"
        ))),
    }
}

struct Levels(usize);

impl Visitor for Levels {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 += usize::from(is_subquery(expr));
        if self.0 > MOST_LEVELS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Subquery(_)
            | Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
    )
}
