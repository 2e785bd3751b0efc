//! Frames of windows: `RANGE` from the first row to the peers of the current one, where a window with an ORDER BY says no other.
//!
//! Where this stands on the road of a query: after parsing, and as an analyzer rule before types are coerced. DataFusion (55.2)
//! takes `ROWS` where it believes that no rows are peers, which it does wrongly of some aggregates (see `dependencies`); so the
//! frame is written out. It asks for such frames how far apart two keys are, which bytes and times of day do not tell,
//! although none needs to know; the frame in `GROUPS` is the same, and asks only which rows are peers. And where a bound lies
//! some way from the key, it may lie beyond the numbers of the key's type. DataFusion then takes it for the edge of the partition,
//! and the nulls that stand there for a part of the frame; in decimals, it is a number like others.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, NamedWindowDefinition, NamedWindowExpr, Query, Select, Statement, VisitorMut,
    WindowFrame as SqlWindowFrame, WindowSpec, WindowType,
};

use super::rules::rewrite_expressions;
use super::walks::visit_mut;
use super::walks::{any_node, rewrite_plan, rewrite_up};

/// Writes the frame of each window out.
pub(super) fn write_out(statement: &mut Statement) {
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

/// Gives windows that name another one what that one has, which DataFusion (55.2) forgets: `OVER (w ORDER BY x)`.
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

/// The rule.
#[derive(Debug)]
pub(super) struct FramesOfPeers;

impl AnalyzerRule for FramesOfPeers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, |node| matches!(node, LogicalPlan::Window(_))) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            rewrite_expressions(node, |expr, schema| rewrite_up(expr, |expr| Ok(written(expr, schema))))
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "frames_of_peers"
    }
}

fn written(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::WindowFunction(mut window) = expr else { return Transformed::no(expr) };
    let key = window.params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    let changed =
        key.is_some_and(|key| of_peers(&mut window.params, &key) || with_wide_key(&mut window.params, &key));
    Transformed::new_transformed(Expr::WindowFunction(window), changed)
}

/// The frame in GROUPS, where none of its bounds needs to know how far apart keys are.
fn of_peers(window: &mut WindowFunctionParams, key: &DataType) -> bool {
    let frame = &window.window_frame;
    let fixed = is_fixed(&frame.start_bound) && is_fixed(&frame.end_bound);
    if frame.units != WindowFrameUnits::Range || !fixed || !has_no_distance(key) {
        return false;
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    window.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    true
}

/// The key as a decimal, where a bound lies some way from an integer.
fn with_wide_key(window: &mut WindowFunctionParams, key: &DataType) -> bool {
    let frame = &window.window_frame;
    let whole = [&frame.start_bound, &frame.end_bound].iter().all(|bound| is_fixed(bound) || is_whole(bound));
    let moves = !is_fixed(&frame.start_bound) || !is_fixed(&frame.end_bound);
    let [order] = window.order_by.as_mut_slice() else { return false };
    if frame.units != WindowFrameUnits::Range || !key.is_integer() || !whole || !moves {
        return false;
    }
    order.expr = cast(order.expr.clone(), DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0));
    true
}

/// Whether a bound is the current row or none.
fn is_fixed(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => distance.is_null(),
    }
}

/// Whether the distance of a bound is a whole number, still a text as in the statement.
fn is_whole(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(Some(distance)))
        | WindowFrameBound::Following(ScalarValue::Utf8(Some(distance))) => distance.parse::<u64>().is_ok(),
        _ => false,
    }
}

fn has_no_distance(key: &DataType) -> bool {
    key.is_binary() || matches!(key, DataType::Time32(_) | DataType::Time64(_) | DataType::FixedSizeBinary(_))
}
