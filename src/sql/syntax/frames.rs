//! Writes out what windows leave implicit: the default frame, which is `RANGE` from the first row
//! to the peers of the current one if there is an ORDER BY, and what a window inherits from the one
//! that it names.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes `ROWS` as the
//! default frame if it believes that no rows are peers, and for some aggregates it is wrong (see
//! `rules::dependencies`).

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, NamedWindowDefinition, NamedWindowExpr, Select, Statement, VisitorMut,
    WindowFrame as SqlWindowFrame, WindowSpec, WindowType,
};

use crate::sql::walks::{visit_mut, visit_outer_expressions_mut};

/// Writes out the frames and the inherited parts of all windows.
pub(in crate::sql) fn write_out(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Frames);
}

struct Frames;

impl VisitorMut for Frames {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut known: HashMap<String, WindowSpec> = HashMap::new();
        for NamedWindowDefinition(name, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                inherit(window, &known);
                known.insert(name.value.to_lowercase(), window.clone());
                add_default_frame(window);
            }
        }
        if !known.is_empty() {
            let mut inherit_in = |expr: &mut SqlExpr| {
                if let SqlExpr::Function(function) = expr
                    && let Some(WindowType::WindowSpec(window)) = &mut function.over
                {
                    inherit(window, &known);
                }
                ControlFlow::<()>::Continue(())
            };
            let _ = visit_outer_expressions_mut(&mut select.projection, &mut inherit_in);
            let _ = visit_outer_expressions_mut(&mut select.qualify, &mut inherit_in);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Function(function) = expr
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
        {
            add_default_frame(window);
        }
        ControlFlow::Continue(())
    }
}

/// Copies into a window what the window that it names has, which DataFusion (55.2) forgets: `OVER
/// (w ORDER BY x)`.
fn inherit(window: &mut WindowSpec, known: &HashMap<String, WindowSpec>) {
    let base = window.window_name.as_ref().and_then(|name| known.get(&name.value.to_lowercase()));
    let Some(base) = base else { return };
    window.window_name = None;
    window.partition_by.clone_from(&base.partition_by);
    if window.order_by.is_empty() {
        window.order_by.clone_from(&base.order_by);
    }
}

fn add_default_frame(window: &mut WindowSpec) {
    if !window.order_by.is_empty() && window.window_frame.is_none() {
        window.window_frame = Some(SqlWindowFrame::default());
    }
}
