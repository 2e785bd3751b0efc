//! SUMMARIZE: which aggregates tell about the columns of a table or a query.
//!
//! Where this stands on the road of a query: while a statement is planned. The short form is a
//! query in a FROM by now, with a name that is known here. Over a table of the store, columns are
//! aggregated a few at a time, so that fragments compute what they can, from statistics where these
//! are exact; anything else is read once.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{Column, TableReference};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::approx_distinct::approx_distinct;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont;
use datafusion::functions_aggregate::average::avg;
use datafusion::functions_aggregate::count::{count, count_distinct};
use datafusion::functions_aggregate::min_max::{max, min};
use datafusion::functions_aggregate::stddev::stddev;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::sql::convert::field_type_name;
use crate::sql::run::provider::StoreProvider;
use crate::sql::run::summary::{Cell, Cells, SummaryNode};
use crate::sql::syntax::short_forms::SUMMARIZE;

/// How many columns of a table are aggregated together.
const TOGETHER: usize = 8;

/// Plans SUMMARIZE.
#[derive(Debug)]
pub(in crate::sql) struct Summaries;

impl RelationPlanner for Summaries {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DataFusionResult<RelationPlanning> {
        match relation {
            TableFactor::Derived { lateral, subquery, alias: Some(alias), sample }
                if alias.name.value == SUMMARIZE =>
            {
                let alone = TableFactor::Derived { lateral, subquery, alias: None, sample };
                let summary = summary(&context.plan(alone)?)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(summary, None))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// The plan of a summary of all columns of a plan.
fn summary(plan: &LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let columns: Vec<(Expr, DataType)> = plan.schema().iter().map(plain).collect();
    let of_store = is_of_store(plan);
    let together = if of_store { TOGETHER } else { columns.len().max(1) };
    let numbered: Vec<(usize, &(Expr, DataType))> = columns.iter().enumerate().collect();
    let mut inputs = Vec::new();
    for chunk in numbered.chunks(together) {
        let numbers = chunk.iter().flat_map(|(at, (value, of))| numbers(*at, value, of));
        let quartiles = chunk.iter().flat_map(|(at, (value, of))| quartiles(*at, value, of));
        let (numbers, quartiles): (Vec<_>, Vec<_>) = (numbers.collect(), quartiles.collect());
        match of_store {
            true => {
                inputs.push(aggregated(plan, numbers)?);
                if !quartiles.is_empty() {
                    inputs.push(aggregated(plan, quartiles)?);
                }
            }
            false => {
                let all = numbers.into_iter().chain(quartiles);
                inputs.push(aggregated(plan, all.collect())?);
            }
        }
    }
    let described = plan
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, (_, of))| (field.name().clone(), field_type_name(field), of.clone()));
    let node = Arc::new(SummaryNode::new(described.collect(), inputs)?);
    Ok(LogicalPlan::Extension(Extension { node }))
}

/// The values of a column and their type; those of a dictionary are what its keys stand for.
fn plain((table, field): (Option<&TableReference>, &Arc<Field>)) -> (Expr, DataType) {
    let column = Expr::Column(Column::new(table.cloned(), field.name()));
    match field.data_type() {
        DataType::Dictionary(_, of) => (cast(column, of.as_ref().clone()), of.as_ref().clone()),
        of => (column, of.clone()),
    }
}

/// Whether a plan gives columns of a table of the store as they are.
fn is_of_store(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_of_store(&alias.input),
        LogicalPlan::Filter(filter) => is_of_store(&filter.input),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
                && is_of_store(&projection.input)
        }
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source)
            .is_ok_and(|provider| provider.downcast_ref::<StoreProvider>().is_some()),
        _ => false,
    }
}

/// A cell of a column, and the aggregate that it needs.
type Wanted = (usize, Cell, Expr);

/// One row with these cells.
fn aggregated(plan: &LogicalPlan, wanted: Vec<Wanted>) -> DataFusionResult<(LogicalPlan, Cells)> {
    let (mut cells, mut aggregates) = (Vec::new(), Vec::new());
    for (number, (column, cell, aggregate)) in wanted.into_iter().enumerate() {
        cells.push((column, cell));
        aggregates.push(aggregate.alias(format!("cell{number}")));
    }
    let plan = LogicalPlanBuilder::from(plan.clone())
        .aggregate(Vec::<Expr>::new(), aggregates)?
        .build()?;
    Ok((plan, cells))
}

fn numbers(at: usize, value: &Expr, of: &DataType) -> Vec<Wanted> {
    let value = || value.clone();
    let mut wanted = vec![(at, Cell::Rows, count(lit(1_i64))), (at, Cell::Values, count(value()))];
    if of.is_nested() || of.is_null() {
        return wanted;
    }
    let has_order = !matches!(of, DataType::Interval(_) | DataType::Duration(_));
    if has_order {
        wanted.push((at, Cell::Min, min(value())));
        wanted.push((at, Cell::Max, max(value())));
    }
    wanted.push((at, Cell::Unique, distinct(value(), of)));
    if of.is_numeric() {
        let double = || cast(value(), DataType::Float64);
        wanted.push((at, Cell::Mean, avg(double())));
        wanted.push((at, Cell::Deviation, stddev(double())));
    }
    wanted
}

/// How many different values there are. DataFusion (55.2) estimates only some types.
fn distinct(value: Expr, of: &DataType) -> Expr {
    match of {
        DataType::Interval(_) | DataType::Duration(_) => {
            count_distinct(cast(value, DataType::Utf8))
        }
        DataType::Boolean => count_distinct(value),
        of if of.is_floating() || of.is_decimal() => count_distinct(value),
        _ => approx_distinct(value),
    }
}

/// Estimates of doubles, of which `run::summary` makes values of the column's type.
fn quartiles(at: usize, value: &Expr, of: &DataType) -> Vec<Wanted> {
    let number = match of {
        DataType::Date32 => cast(cast(value.clone(), DataType::Int32), DataType::Float64),
        DataType::Timestamp(..) => cast(cast(value.clone(), DataType::Int64), DataType::Float64),
        of if of.is_numeric() => cast(value.clone(), DataType::Float64),
        _ => return Vec::new(),
    };
    let quartile = |fraction: f64| {
        approx_percentile_cont(number.clone().sort(true, false), lit(fraction), None)
    };
    vec![
        (at, Cell::FirstQuartile, quartile(0.25)),
        (at, Cell::Median, quartile(0.5)),
        (at, Cell::ThirdQuartile, quartile(0.75)),
    ]
}
