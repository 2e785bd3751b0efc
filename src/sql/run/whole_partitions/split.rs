//! Windows that need only some rows at a time, beside others that need whole partitions.
//!
//! DataFusion (55.2) runs all windows with the same PARTITION BY and ORDER BY in one operator, and
//! if one of them needs whole partitions, so do all: `lag` beside `ntile`. Each kind has its own
//! here.

use std::sync::Arc;

use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

type Plan = Arc<dyn ExecutionPlan>;

/// The same windows in two operators, if they are of both kinds, and the columns in their order.
pub(super) fn by_kind(node: &Plan) -> DataFusionResult<Option<Plan>> {
    let Some(windows) = node.downcast_ref::<WindowAggExec>() else { return Ok(None) };
    let (running, whole): (Vec<_>, Vec<_>) =
        windows.window_expr().iter().enumerate().partition(|(_, w)| w.uses_bounded_memory());
    if running.is_empty() || whole.is_empty() {
        return Ok(None);
    }
    let input = Arc::clone(windows.input());
    let of_input = input.schema().fields().len();
    let is_spread = !windows.partition_keys().is_empty();
    let expressions = |of: &[(usize, &Arc<dyn WindowExpr>)]| {
        of.iter().map(|(_, window)| Arc::clone(window)).collect::<Vec<_>>()
    };
    let sorted = InputOrderMode::Sorted;
    let below = BoundedWindowAggExec::try_new(expressions(&running), input, sorted, is_spread)?;
    let above = WindowAggExec::try_new(expressions(&whole), Arc::new(below), is_spread)?;
    let above: Plan = Arc::new(above);
    // The place of each window in the statement, and where its values are now.
    let of_windows = running.iter().chain(&whole).map(|(place, _)| *place);
    let mut of_windows: Vec<_> = of_windows.zip(of_input..).collect();
    of_windows.sort_unstable();
    if of_windows.is_sorted_by_key(|(_, now)| *now) {
        return Ok(Some(above));
    }
    let places = (0..of_input).chain(of_windows.iter().map(|(_, now)| *now));
    let (schema, schema_above) = (node.schema(), above.schema());
    let columns = places.zip(schema.fields()).map(|(place, field)| {
        let column = Column::new(schema_above.field(place).name(), place);
        (Arc::new(column) as Arc<dyn PhysicalExpr>, field.name().clone())
    });
    let columns = columns.collect::<Vec<_>>();
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, above)?)))
}
