//! Windows with the frames and parts that they stand for: `RANGE` from the first row to the peers
//! of the current one, where a window with an ORDER BY says no other, and what a window has from
//! the one that it names.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes `ROWS` where it
//! believes that no rows are peers, which it does wrongly of some aggregates (see
//! `rules::dependencies`); so the frame is written out.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, NamedWindowDefinition, NamedWindowExpr, Query, Select, Statement, VisitorMut,
    WindowFrame as SqlWindowFrame, WindowSpec, WindowType,
};

use crate::sql::walks::visit_mut;

/// Writes the frame of each window out.
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
                over_base(window, &known);
                known.insert(name.value.to_lowercase(), window.clone());
                with_frame(window);
            }
        }
        if !known.is_empty() {
            let mut bases = Bases { known, depth: 0 };
            let _ = visit_mut(&mut select.projection, &mut bases);
            let _ = visit_mut(&mut select.qualify, &mut bases);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Function(function) = expr
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
        {
            with_frame(window);
        }
        ControlFlow::Continue(())
    }
}

/// Gives windows that name another one what that one has, which DataFusion (55.2) forgets: `OVER (w
/// ORDER BY x)`.
struct Bases {
    known: HashMap<String, WindowSpec>,
    /// How many subqueries the expression stands in.
    depth: usize,
}

impl VisitorMut for Bases {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if self.depth == 0
            && let SqlExpr::Function(function) = expr
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
        {
            over_base(window, &self.known);
        }
        ControlFlow::Continue(())
    }
}

fn over_base(window: &mut WindowSpec, known: &HashMap<String, WindowSpec>) {
    let base = window.window_name.as_ref().and_then(|name| known.get(&name.value.to_lowercase()));
    let Some(base) = base else { return };
    window.window_name = None;
    window.partition_by.clone_from(&base.partition_by);
    if window.order_by.is_empty() {
        window.order_by.clone_from(&base.order_by);
    }
}

fn with_frame(window: &mut WindowSpec) {
    if !window.order_by.is_empty() && window.window_frame.is_none() {
        window.window_frame = Some(SqlWindowFrame::default());
    }
}
