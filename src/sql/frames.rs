//! Windows ordered by bytes or times of day.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. A window with an ORDER BY has the frame
//! `RANGE` from the first row to the peers of the current one, unless it says another. DataFusion (55.2) then asks how far
//! apart two keys are, which bytes and times of day do not tell, although this frame needs no distance. The frame in
//! `GROUPS` is the same, and asks only which rows are peers.

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::optimizer::AnalyzerRule;

use arrow_schema::DataType;

/// The rule.
#[derive(Debug)]
pub(super) struct FramesOfPeers;

impl AnalyzerRule for FramesOfPeers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewrite = |node: LogicalPlan| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let mut schema = DFSchema::empty();
            node.inputs().iter().for_each(|input| schema.merge(input.schema()));
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| Ok(of_peers(expr, &schema)))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        };
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "frames_of_peers"
    }
}

fn of_peers(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::WindowFunction(mut window) = expr else { return Transformed::no(expr) };
    let frame = &window.params.window_frame;
    let key = window.params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    let needs_none = frame.units == WindowFrameUnits::Range
        && [&frame.start_bound, &frame.end_bound].iter().all(|b| is_fixed(b));
    if !needs_none || !key.is_some_and(|key| has_no_distance(&key)) {
        return Transformed::no(Expr::WindowFunction(window));
    }
    let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
    window.params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Transformed::yes(Expr::WindowFunction(window))
}

/// Whether a bound is the current row or none.
fn is_fixed(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => distance.is_null(),
    }
}

fn has_no_distance(key: &DataType) -> bool {
    key.is_binary() || matches!(key, DataType::Time32(_) | DataType::Time64(_) | DataType::FixedSizeBinary(_))
}
