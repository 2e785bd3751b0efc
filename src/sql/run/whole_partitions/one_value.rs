//! The functions of windows, and whether they have one value for all rows of a partition.

use std::sync::Arc;

use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, WindowExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::WindowAggExec;

/// The windows of DataFusion's operator.
pub(super) fn windows(replaced: &Arc<dyn ExecutionPlan>) -> &[Arc<dyn WindowExpr>] {
    replaced.downcast_ref::<WindowAggExec>().map_or(&[], WindowAggExec::window_expr)
}

/// Whether a window has one value for all rows of a partition.
pub(super) fn has_one_value(window: &Arc<dyn WindowExpr>) -> bool {
    let frame = window.get_window_frame();
    let peers = frame.units == WindowFrameUnits::Range && window.order_by().is_empty();
    let reaches_end = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => peers,
        bound => bound.is_unbounded(),
    };
    // A FILTER is the last field of an aggregate, and there is no other way to see it.
    let takes_all = || format!("{window:?}").ends_with("filter: None }");
    function(window).is_some()
        && reaches_end(&frame.start_bound)
        && reaches_end(&frame.end_bound)
        && takes_all()
}

/// The aggregate function of a window, if it is one.
pub(super) fn function(window: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let plain = window.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
    Some(plain.get_aggregate_expr())
}
