//! `SELECT a + 1 AS b, b * 2 FROM t WHERE b > 3`: names that a SELECT gives are used in it, as in
//! DuckDB and ClickHouse.
//!
//! Where this stands on the road of a query: only once a statement could not be planned because a
//! column is missing. Then the name is no column, and columns take precedence over names, as in
//! DuckDB. What it stands for is written in its place, in one SELECT at a time.
//!
//! In a subquery of that SELECT the name may be a column as well, so that it is replaced only in
//! the place that the error is about; and the columns that it stands for are written with their
//! table, so that they are none of the subquery's own.

use std::ops::ControlFlow;

use datafusion::common::{Location, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, Select, SelectItem, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::{folded, is_subquery, sql_of, volatile};
use crate::sql::walks::{
    visit, visit_expressions, visit_expressions_mut, visit_mut, visit_outer_expressions_mut,
};

/// The longest text of a SELECT that names stand for each other in: each may double it.
const MOST_BYTES: usize = 100_000;

/// The statement with what the missing column stands for; `None` if it is not such a name.
pub(in crate::sql) fn written_out(
    state: &SessionState,
    statement: &Statement,
    error: &DataFusionError,
) -> Result<Option<Statement>> {
    let Some(name) = missing(error) else { return Ok(None) };
    let mut changed = statement.clone();
    let Some(sql) = sql_of(&mut changed) else { return Ok(None) };
    let is_scalar = |name: &str| {
        state.scalar_functions().contains_key(name)
            && !state.aggregate_functions().contains_key(name)
            && !state.window_functions().contains_key(name)
    };
    match visit_mut(sql, &mut OneSelect { name, place: place(error), is_scalar: &is_scalar }) {
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

/// Where the missing column stands.
fn place(error: &DataFusionError) -> Option<Location> {
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => {
            diagnostic.span.map(|span| span.start).or_else(|| place(inner))
        }
        DataFusionError::Context(_, inner) => place(inner),
        DataFusionError::Shared(inner) => place(inner),
        DataFusionError::Collection(all) => place(all.first()?),
        _ => None,
    }
}

/// Writes a name out in the first SELECT that gives and uses it, those within others first.
struct OneSelect<'a> {
    name: String,
    place: Option<Location>,
    is_scalar: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for OneSelect<'_> {
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
        if uses == 0
            && let Some((table, meaning)) = self.with_table(&meaning, select)
        {
            for item in select.projection.iter_mut().skip(at + 1) {
                uses += self.put_within(item, &table, &meaning);
            }
            if let Some(condition) = &mut select.selection {
                uses += self.put_within(condition, &table, &meaning);
            }
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

impl OneSelect<'_> {
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

    /// What the name stands for with the only table of the SELECT written before its columns, and
    /// the name of that table; `None` where it has other parts than columns and scalar functions of
    /// this table.
    fn with_table(&self, meaning: &Expr, select: &Select) -> Option<(Ident, Expr)> {
        let [from] = select.from.as_slice() else { return None };
        let table = qualifier(&from.relation).filter(|_| from.joins.is_empty())?;
        let gives = |name: &Ident| {
            select.projection.iter().any(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. }
                    if folded(alias) == folded(name))
            })
        };
        let mut meaning = meaning.clone();
        let changed = visit_expressions_mut(&mut meaning, |part| {
            match part {
                Expr::Identifier(name) if gives(name) => return ControlFlow::Break(()),
                Expr::Identifier(name) => {
                    *part = Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
                }
                Expr::CompoundIdentifier(name)
                    if name.first().map(folded) == Some(folded(&table)) => {}
                Expr::Function(Function { name, over: None, .. })
                    if (self.is_scalar)(&name.to_string().to_lowercase()) => {}
                Expr::CompoundIdentifier(_) | Expr::Function(_) | Expr::Lambda(_) => {
                    return ControlFlow::Break(());
                }
                part if is_subquery(part) => return ControlFlow::Break(()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        changed.is_continue().then_some((table, meaning))
    }

    /// Puts what the name stands for in the place that the error is about, if that is in a subquery
    /// in which no table is called like the one that it is of.
    fn put_within(
        &self,
        tree: &mut (impl Visit + VisitMut),
        table: &Ident,
        meaning: &Expr,
    ) -> usize {
        let Some(place) = self.place else { return 0 };
        if visit(tree, &mut NamesTable(folded(table))).is_break() {
            return 0;
        }
        let mut uses = 0;
        let _ = visit_expressions_mut(tree, |part| {
            if let Expr::Identifier(name) = part
                && folded(name) == self.name
                && (name.span.start.line, name.span.start.column) == (place.line, place.column)
            {
                *part = Expr::Nested(Box::new(meaning.clone()));
                uses += 1;
            }
            ControlFlow::<()>::Continue(())
        });
        uses
    }
}

/// The name by which the columns of a table are qualified.
fn qualifier(table: &TableFactor) -> Option<Ident> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// Finds a table of this name, or one whose name is not known.
struct NamesTable(String);

impl Visitor for NamesTable {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        match qualifier(table).map(|name| folded(&name)) {
            Some(name) if name != self.0 => ControlFlow::Continue(()),
            None if matches!(table, TableFactor::Derived { alias: None, .. }) => {
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        }
    }
}
