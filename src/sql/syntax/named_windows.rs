//! Copies into a window what it takes from the one that it names, as in `OVER (w ORDER BY x)`, and
//! refuses what the standard does not allow there.
//!
//! Where this stands on the road of a query: after parsing, before `frames`. DataFusion (55.2)
//! forgets the window that another one names, whether there is one or not, and knows no named
//! windows in an ORDER BY and in QUALIFY.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr,
    Statement, VisitorMut, WindowSpec, WindowType,
};

use crate::error::{Error, Result};
use crate::sql::walks::{visit_mut, visit_outer_expressions_mut};

/// Writes out what windows take from those that they name.
pub(in crate::sql) fn write_out(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut NamedWindows) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The windows of a SELECT by their names in lower case.
type Known = HashMap<String, WindowSpec>;

struct NamedWindows;

impl VisitorMut for NamedWindows {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by)
        else {
            return ControlFlow::Continue(());
        };
        let known = match known_windows(select) {
            Ok(known) => known,
            Err(error) => return ControlFlow::Break(error),
        };
        visit_outer_expressions_mut(order, |expr| written_out(expr, &known))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let known = match known_windows(select) {
            Ok(known) => known,
            Err(error) => return ControlFlow::Break(error),
        };
        if !known.is_empty() {
            visit_outer_expressions_mut(&mut select.projection, |expr| inherited(expr, &known))?;
            visit_outer_expressions_mut(&mut select.qualify, |expr| written_out(expr, &known))?;
        }
        ControlFlow::Continue(())
    }

    /// What still names a window names none that there is.
    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<Error> {
        inherited(expr, &Known::new())
    }
}

/// The windows of a SELECT. A window that named another one has its parts by now.
fn known_windows(select: &mut Select) -> Result<Known> {
    let mut known = Known::new();
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(window) = window {
            inherit(window, &known)?;
            if known.insert(key(name), window.clone()).is_some() {
                return Err(Error::InvalidInput(format!("there are two windows {name}")));
            }
        }
    }
    Ok(known)
}

fn key(name: &Ident) -> String {
    name.value.to_lowercase()
}

/// Writes the window of `OVER w` out, too.
fn written_out(expr: &mut SqlExpr, known: &Known) -> ControlFlow<Error> {
    if let SqlExpr::Function(function) = expr
        && let Some(WindowType::NamedWindow(name)) = &function.over
        && let Some(window) = known.get(&key(name))
    {
        function.over = Some(WindowType::WindowSpec(window.clone()));
    }
    inherited(expr, known)
}

fn inherited(expr: &mut SqlExpr, known: &Known) -> ControlFlow<Error> {
    if let SqlExpr::Function(function) = expr
        && let Some(WindowType::WindowSpec(window)) = &mut function.over
        && let Err(error) = inherit(window, known)
    {
        return ControlFlow::Break(error);
    }
    ControlFlow::Continue(())
}

/// Copies into a window what the window that it names has.
fn inherit(window: &mut WindowSpec, known: &Known) -> Result<()> {
    let Some(name) = window.window_name.take() else { return Ok(()) };
    let refused = |why: &str| Err(Error::InvalidInput(format!("the window {name} {why}")));
    let Some(base) = known.get(&key(&name)) else {
        return Err(Error::InvalidInput(format!("no window {name}")));
    };
    if base.window_frame.is_some() {
        return refused("has a frame: write OVER with its name alone, without parentheses");
    }
    if !window.partition_by.is_empty() {
        return refused("cannot get a PARTITION BY where it is named");
    }
    if !window.order_by.is_empty() && !base.order_by.is_empty() {
        return refused("has an ORDER BY already");
    }
    window.partition_by.clone_from(&base.partition_by);
    if window.order_by.is_empty() {
        window.order_by.clone_from(&base.order_by);
    }
    Ok(())
}
