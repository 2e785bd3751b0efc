//! Means and percentiles of dates and timestamps: `avg(t)`, `median(t)`, `quantile_cont(t, 0.9)`.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) has these of numbers only. Here the microseconds since 1970 take the place of the times,
//! and a projection above the aggregate or the window makes timestamps of the results, as DuckDB
//! has them. The signatures in `functions::aggregates` let the calls through until then.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core::arrow_cast;
use datafusion::logical_expr::expr::{Alias, Sort as SortExpr};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Window,
    WindowFunctionDefinition, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{any_expression, rewrite_plan};

/// The functions.
const MEANS: [&str; 3] = ["avg", "median", "percentile_cont"];

/// The type of such a function of dates or timestamps; `None` for other types.
pub(in crate::sql) fn mean_type(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Date32 | DataType::Date64 => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        DataType::Timestamp(_, zone) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    }
}

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct MeansOfTimes;

impl AnalyzerRule for MeansOfTimes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, |expr| arguments(expr).is_some()) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            LogicalPlan::Window(window) => of_window(window),
            other => Ok(Transformed::no(other)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "means_of_times"
    }
}

fn of_aggregate(mut aggregate: Aggregate) -> DataFusionResult<Transformed<LogicalPlan>> {
    let schema = Arc::clone(&aggregate.schema);
    let input = Arc::clone(aggregate.input.schema());
    let changed = take_micros(&mut aggregate.aggr_expr, &input, &schema)?;
    if changed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let aggregate = Aggregate::try_new(input, group_expr, aggr_expr)?;
    as_times(LogicalPlan::Aggregate(aggregate), &schema, &changed)
}

fn of_window(mut window: Window) -> DataFusionResult<Transformed<LogicalPlan>> {
    let schema = Arc::clone(&window.schema);
    let input = Arc::clone(window.input.schema());
    let changed = take_micros(&mut window.window_expr, &input, &schema)?;
    if changed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let window = Window::try_new(window.window_expr, window.input)?;
    as_times(LogicalPlan::Window(window), &schema, &changed)
}

/// Lets functions take microseconds. Returns which columns of the schema they are, whose last
/// columns are those of the expressions, and their types.
fn take_micros(
    exprs: &mut [Expr],
    input: &DFSchema,
    schema: &DFSchema,
) -> DataFusionResult<Vec<(usize, DataType)>> {
    let first = schema.fields().len().saturating_sub(exprs.len());
    let mut changed = Vec::new();
    for (expr, column) in exprs.iter_mut().zip(first..) {
        let Some(of) = arguments(expr).and_then(|args| args.first()) else { continue };
        let Some(to) = mean_type(&of.get_type(input)?) else { continue };
        if let Some((args, order_by)) = arguments_mut(expr) {
            let keys = order_by.iter_mut().map(|key| &mut key.expr);
            for value in args.iter_mut().take(1).chain(keys) {
                let time = cast(std::mem::take(value), to.clone());
                *value = cast(time, DataType::Int64);
            }
        }
        let name = schema.field(column).name().clone();
        *expr = std::mem::take(expr).unalias().alias(name);
        changed.push((column, to));
    }
    Ok(changed)
}

/// Makes times of these columns, under the names that the schema has. In a cast of SQL, an integer
/// would count seconds.
fn as_times(
    plan: LogicalPlan,
    schema: &DFSchema,
    changed: &[(usize, DataType)],
) -> DataFusionResult<Transformed<LogicalPlan>> {
    let columns = schema.iter().zip(plan.schema().columns()).enumerate();
    let columns: Vec<Expr> = columns
        .map(|(at, ((qualifier, field), column)): (_, (_, Column))| {
            let column = Expr::Column(column);
            match changed.iter().find(|(changed, _)| *changed == at) {
                Some((_, to)) => arrow_cast()
                    .call(vec![cast(column, DataType::Int64), lit(to.to_string())])
                    .alias_qualified(qualifier.cloned(), field.name().clone()),
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build().map(Transformed::yes)
}

/// The arguments of one of the functions.
fn arguments(expr: &Expr) -> Option<&Vec<Expr>> {
    match expr {
        Expr::Alias(Alias { expr, .. }) => arguments(expr),
        Expr::AggregateFunction(call) if MEANS.contains(&call.func.name()) => {
            Some(&call.params.args)
        }
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function)
                if MEANS.contains(&function.name()) =>
            {
                Some(&call.params.args)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The same, and the order of its values.
fn arguments_mut(expr: &mut Expr) -> Option<(&mut Vec<Expr>, &mut [SortExpr])> {
    match expr {
        Expr::Alias(Alias { expr, .. }) => arguments_mut(expr),
        Expr::AggregateFunction(call) => {
            Some((&mut call.params.args, call.params.order_by.as_mut_slice()))
        }
        // Its order is that of the window.
        Expr::WindowFunction(call) => Some((&mut call.params.args, &mut [])),
        _ => None,
    }
}
