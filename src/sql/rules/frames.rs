//! Rewrites frames of windows that DataFusion refuses or computes wrongly.
//!
//! Where this stands on the road of a query: an analyzer rule before types are coerced, after
//! `syntax::frames` has written frames out. For a frame in `RANGE`, DataFusion (55.2) wants to know
//! the distance between two keys. Bytes and times of day have none, and most frames do not need it:
//! the same frame in `GROUPS` only asks which rows are peers. And a bound that is some distance
//! from the key may be out of the range of the key's type. DataFusion then takes the edge of the
//! partition for the bound, with the nulls that are there; as a decimal, the bound is a number like
//! others. Functions that collect values get the account of what rows are given
//! (`functions::collected`), for which the frame must be known.

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

use crate::sql::functions::aggregates::count_collected;
use crate::sql::walks::{any_node, rewrite_expressions, rewrite_plan, rewrite_up};

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
                rewrite_up(expr, |expr| Ok(with_frame(expr, schema)))
            })
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "frames_of_peers"
    }
}

fn with_frame(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::WindowFunction(mut window) = expr else { return Transformed::no(expr) };
    let key = window.params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    let changed = key.is_some_and(|key| {
        use_groups(&mut window.params, &key) || widen_key(&mut window.params, &key)
    });
    let counted = count_collected(&mut window);
    Transformed::new_transformed(Expr::WindowFunction(window), changed || counted)
}

/// Puts the frame in GROUPS, if none of its bounds needs the distance between keys. Returns whether
/// it did.
fn use_groups(window: &mut WindowFunctionParams, key: &DataType) -> bool {
    let frame = &window.window_frame;
    let fixed = is_fixed(&frame.start_bound) && is_fixed(&frame.end_bound);
    if frame.units != WindowFrameUnits::Range || !fixed || !has_no_distance(key) {
        return false;
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    window.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    true
}

/// Makes an integer key a decimal, if a bound is some distance from it. Returns whether it did.
fn widen_key(window: &mut WindowFunctionParams, key: &DataType) -> bool {
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

/// Whether a bound is the current row or unbounded.
fn is_fixed(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
            distance.is_null()
        }
    }
}

/// Whether the distance of a bound is a whole number. It is still text, as in the statement.
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
