//! `LIMIT (SELECT …)`, `OFFSET (SELECT …)` and `LIMIT 10%`.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) takes constants only. Here a window numbers the rows in their order, a filter tests the
//! numbers, and those that are left are put in order again.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
    WindowFunctionDefinition, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::syntax::marks;
use crate::sql::walks::{any_node, has_part, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct ComputedLimits;

impl AnalyzerRule for ComputedLimits {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(&plan, |node| matches!(node, LogicalPlan::Limit(limit) if is_computed(limit)))
        {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Limit(limit) if is_computed(&limit) => {
                limited(&limit.input, &limit).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "computed_limits"
    }
}

fn is_computed(limit: &Limit) -> bool {
    let is_subquery = |part: &Expr| matches!(part, Expr::ScalarSubquery(_));
    limit.skip.iter().chain(&limit.fetch).any(|expr| has_part(expr, is_subquery))
        || limit.fetch.as_ref().is_some_and(|fetch| marks::percent(fetch).is_some())
}

/// The rows of a plan that pass a limit.
fn limited(plan: &LogicalPlan, limit: &Limit) -> DataFusionResult<LogicalPlan> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            numbered(&sort.input, sort.expr.clone(), limit)
        }
        // Above a sort by columns that are not selected.
        LogicalPlan::Projection(projection)
            if is_over_sort(&projection.input)
                && !projection.expr.iter().any(Expr::is_volatile) =>
        {
            let input = Arc::new(limited(&projection.input, limit)?);
            Projection::try_new(projection.expr.clone(), input).map(LogicalPlan::Projection)
        }
        other => numbered(&Arc::new(other.clone()), Vec::new(), limit),
    }
}

fn is_over_sort(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(Sort { fetch: None, .. }) => true,
        LogicalPlan::Projection(projection) => is_over_sort(&projection.input),
        _ => false,
    }
}

fn numbered(
    rows: &Arc<LogicalPlan>,
    order: Vec<SortExpr>,
    limit: &Limit,
) -> DataFusionResult<LogicalPlan> {
    const PLACE: &str = "sty__place";
    const COUNT: &str = "sty__count";
    let columns = rows.schema().columns().into_iter().map(Expr::Column);
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let is_ordered = !order.is_empty();
    let place = match is_ordered {
        true => row_number().order_by(order).build()?,
        false => row_number(),
    };
    let mut windows = vec![place.alias(PLACE)];
    let percent = limit.fetch.as_deref().and_then(marks::percent);
    if percent.is_some() {
        let count = WindowFunctionDefinition::AggregateUDF(count_udaf());
        windows.push(Expr::from(WindowFunction::new(count, vec![lit(1_i64)])).alias(COUNT));
    }
    let integer = |expr: Expr| cast(expr, DataType::Int64);
    let mut place = integer(column(PLACE));
    let mut passes = Vec::new();
    if let Some(skip) = limit.skip.as_deref() {
        place = place - coalesce(vec![integer(skip.clone()), lit(0_i64)]);
        passes.push(place.clone().gt(lit(0_i64)));
    }
    match (percent, limit.fetch.as_deref()) {
        (Some(percent), _) => {
            let double = |expr: Expr| cast(expr, DataType::Float64);
            let share = double(column(COUNT)) * double(percent.clone()) / lit(100.0);
            passes.push(double(place).lt_eq(share));
        }
        // A limit that is null is none.
        (None, Some(fetch)) => {
            passes.push(coalesce(vec![place.lt_eq(integer(fetch.clone())), lit(true)]));
        }
        (None, None) => {}
    }
    let mut plan = LogicalPlanBuilder::from(rows.as_ref().clone()).window(windows)?;
    if let Some(passes) = passes.into_iter().reduce(Expr::and) {
        plan = plan.filter(passes)?;
    }
    if is_ordered {
        plan = plan.sort([column(PLACE).sort(true, false)])?;
    }
    plan.project(columns)?.build()
}
