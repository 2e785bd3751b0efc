//! Frames of windows that DataFusion cannot compute or computes wrongly.
//!
//! Where this stands on the road of a query: an analyzer rule before types are coerced, after
//! `syntax::frames` has written frames out. DataFusion (55.2) asks for frames in `RANGE` how far
//! apart two keys are, which bytes and times of day do not tell, although none needs to know; the
//! frame in `GROUPS` is the same, and asks only which rows are peers. And where a bound lies some
//! way from the key, it may lie beyond the numbers of the key's type. DataFusion then takes it for
//! the edge of the partition, and the nulls that stand there for a part of the frame; in decimals,
//! it is a number like others.

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

use crate::sql::walks::{any_node, rewrite_expressions, rewrite_plan, rewrite_up};

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct FramesOfPeers;

impl AnalyzerRule for FramesOfPeers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, |node| matches!(node, LogicalPlan::Window(_))) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            rewrite_expressions(node, |expr, schema| {
                rewrite_up(expr, |expr| Ok(written(expr, schema)))
            })
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
    let changed = key.is_some_and(|key| {
        of_peers(&mut window.params, &key) || with_wide_key(&mut window.params, &key)
    });
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
    let whole = [&frame.start_bound, &frame.end_bound]
        .iter()
        .all(|bound| is_fixed(bound) || is_whole(bound));
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
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            distance.is_null()
        }
    }
}

/// Whether the distance of a bound is a whole number, still a text as in the statement.
fn is_whole(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(Some(distance)))
        | WindowFrameBound::Following(ScalarValue::Utf8(Some(distance))) => {
            distance.parse::<u64>().is_ok()
        }
        _ => false,
    }
}

fn has_no_distance(key: &DataType) -> bool {
    key.is_binary()
        || matches!(key, DataType::Time32(_) | DataType::Time64(_) | DataType::FixedSizeBinary(_))
}
