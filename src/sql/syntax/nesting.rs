//! Limits how deeply subqueries are nested.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) visits a subquery in
//! an expression twice for each subquery around it, so that planning takes twice as long with every
//! level.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Statement, Visitor};

use crate::error::{Error, Result};
use crate::sql::syntax::is_subquery;
use crate::sql::walks::visit;

/// With this many levels, planning takes a tenth of a second.
const MAX_LEVELS: usize = 16;

/// Refuses a statement with too many levels.
pub(in crate::sql) fn check(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Levels(0)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::LimitExceeded(format!(
            "more than {MAX_LEVELS} subqueries stand in each other; \
             CREATE TABLE … AS keeps what some of them answer"
        ))),
    }
}

/// Counts the subqueries around an expression.
struct Levels(usize);

impl Visitor for Levels {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 += usize::from(is_subquery(expr));
        if self.0 > MAX_LEVELS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }
}
