//! `SELECT a + 1 AS b, b * 2 FROM t WHERE b > 3`: names that a SELECT gives are used in it, as in
//! DuckDB and ClickHouse.
//!
//! Where this stands on the road of a query: only once a statement could not be planned because a
//! column is missing. Then the name is no column, and columns take precedence over names, as in
//! DuckDB. What it stands for is written in its place, in one SELECT at a time.

use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Select, SelectItem, VisitMut, VisitorMut};

use crate::error::{Error, Result};
use crate::sql::syntax::{folded, sql_of, volatile};
use crate::sql::walks::{visit_expressions, visit_mut, visit_outer_expressions_mut};

/// The longest text of a SELECT that names stand for each other in: each may double it.
const MOST_BYTES: usize = 100_000;

/// The statement with what the missing column stands for; `None` if it is not such a name.
pub(in crate::sql) fn written_out(
    statement: &Statement,
    error: &DataFusionError,
) -> Result<Option<Statement>> {
    let Some(name) = missing(error) else { return Ok(None) };
    let mut changed = statement.clone();
    let Some(sql) = sql_of(&mut changed) else { return Ok(None) };
    match visit_mut(sql, &mut OneSelect { name }) {
        ControlFlow::Break(Ok(())) => Ok(Some(changed)),
        ControlFlow::Break(Err(error)) => Err(error),
        ControlFlow::Continue(()) => Ok(None),
    }
}

/// The column that is missing.
fn missing(error: &DataFusionError) -> Option<String> {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { field, .. } if field.relation.is_none() => {
                Some(field.name.clone())
            }
            _ => None,
        },
        DataFusionError::Diagnostic(_, inner) => missing(inner),
        _ => None,
    }
}

/// Writes a name out in the first SELECT that gives and uses it, those within others first.
struct OneSelect {
    name: String,
}

impl VisitorMut for OneSelect {
    type Break = Result<()>;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Result<()>> {
        let gives = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, expr } if folded(alias) == self.name => {
                Some(expr.clone())
            }
            _ => None,
        };
        let given = select.projection.iter().enumerate().find_map(|(at, item)| {
            gives(item).filter(|expr| !self.is_used(expr)).map(|expr| (at, expr))
        });
        let Some((at, meaning)) = given else { return ControlFlow::Continue(()) };
        let mut uses = 0;
        for item in select.projection.iter_mut().skip(at + 1) {
            uses += self.put(item, &meaning);
        }
        if let Some(condition) = &mut select.selection {
            uses += self.put(condition, &meaning);
        }
        match uses {
            0 => ControlFlow::Continue(()),
            _ if volatile::calls(&meaning) > 0 => {
                ControlFlow::Break(Err(volatile::refused(&self.name)))
            }
            _ if select.to_string().len() > MOST_BYTES => {
                ControlFlow::Break(Err(Error::LimitExceeded(format!(
                    "what {} stands for is too long; compute it in a subquery",
                    self.name
                ))))
            }
            _ => ControlFlow::Break(Ok(())),
        }
    }
}

impl OneSelect {
    fn is_use(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Identifier(name) if folded(name) == self.name)
    }

    fn is_used(&self, expr: &Expr) -> bool {
        visit_expressions(expr, |part| match self.is_use(part) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
        .is_break()
    }

    /// Puts what the name stands for in its place, and returns how often.
    fn put(&self, tree: &mut impl VisitMut, meaning: &Expr) -> usize {
        let mut uses = 0;
        let _ = visit_outer_expressions_mut(tree, |part| {
            if self.is_use(part) {
                *part = Expr::Nested(Box::new(meaning.clone()));
                uses += 1;
            }
            ControlFlow::<()>::Continue(())
        });
        uses
    }
}
