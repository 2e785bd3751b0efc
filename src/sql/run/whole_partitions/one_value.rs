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
    function(window).is_some() && frames_are_partitions(window) && takes_all_rows(window)
}

/// Whether an aggregate has no FILTER. That is its last field, and there is no other way to see it.
pub(in crate::sql::run) fn takes_all_rows(window: &Arc<dyn WindowExpr>) -> bool {
    format!("{window:?}").ends_with("filter: None }")
}

/// Whether the frame of each row is its whole partition.
pub(super) fn frames_are_partitions(window: &Arc<dyn WindowExpr>) -> bool {
    let frame = window.get_window_frame();
    let peers = frame.units == WindowFrameUnits::Range && window.order_by().is_empty();
    let reaches_end = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => peers,
        bound => bound.is_unbounded(),
    };
    reaches_end(&frame.start_bound) && reaches_end(&frame.end_bound)
}

/// The aggregate function of a window, if it is one.
pub(super) fn function(window: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let plain = window.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
    Some(plain.get_aggregate_expr())
}
