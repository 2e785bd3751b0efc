//! SUMMARIZE: which aggregates tell about the columns of a table or a query.
//!
//! Where this stands on the road of a query: while a statement is planned. The short form is a
//! query in a FROM by now, with a name that is known here. Over a table of the store, columns are
//! aggregated a few at a time, so that fragments compute what they can, from statistics where these
//! are exact; anything else is read once.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Column;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::math::round;
use datafusion::functions_aggregate::approx_distinct::approx_distinct;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont;
use datafusion::functions_aggregate::average::avg;
use datafusion::functions_aggregate::count::{count, count_distinct};
use datafusion::functions_aggregate::min_max::{max, min};
use datafusion::functions_aggregate::stddev::stddev;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, cast, ident, lit,
};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::sql::convert::type_name;
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
    let columns: Vec<(Column, DataType)> = plan
        .schema()
        .iter()
        .map(|(table, field)| {
            (Column::new(table.cloned(), field.name()), field.data_type().clone())
        })
        .collect();
    let of_store = is_of_store(plan);
    let together = if of_store { TOGETHER } else { columns.len().max(1) };
    let numbered: Vec<(usize, &(Column, DataType))> = columns.iter().enumerate().collect();
    let mut inputs = Vec::new();
    for chunk in numbered.chunks(together) {
        let plain = |(at, (column, of)): &(usize, &(Column, DataType))| numbers(*at, column, of);
        let quartiles =
            |(at, (column, of)): &(usize, &(Column, DataType))| quartiles(*at, column, of);
        let numbers: Vec<_> = chunk.iter().flat_map(plain).collect();
        let quartiles: Vec<_> = chunk.iter().flat_map(quartiles).collect();
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
    let described =
        columns.iter().map(|(column, of)| (column.name.clone(), type_name(of))).collect();
    let node = Arc::new(SummaryNode::new(described, inputs)?);
    Ok(LogicalPlan::Extension(Extension { node }))
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

/// A cell of a column, the aggregate that it needs, and what is made of that.
type Wanted = (usize, Cell, Expr, Finish);

/// What becomes of an aggregate.
enum Finish {
    Count,
    Text,
    /// The type of a time, whose number was aggregated.
    TextOf(DataType),
    WholeText,
}

/// One row with these cells.
fn aggregated(plan: &LogicalPlan, wanted: Vec<Wanted>) -> DataFusionResult<(LogicalPlan, Cells)> {
    let (mut cells, mut aggregates, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (column, cell, aggregate, finish)) in wanted.into_iter().enumerate() {
        let name = format!("cell{number}");
        cells.push((column, cell));
        aggregates.push(aggregate.alias(&name));
        let value = ident(&name);
        let result = match finish {
            Finish::Count => cast(value, DataType::Int64),
            Finish::Text => cast(value, DataType::Utf8),
            Finish::TextOf(of) => {
                let whole = if of == DataType::Date32 { DataType::Int32 } else { DataType::Int64 };
                cast(cast(cast(value, whole), of), DataType::Utf8)
            }
            Finish::WholeText => {
                let whole = round().call(vec![value]);
                cast(cast(whole, DataType::Decimal128(38, 0)), DataType::Utf8)
            }
        };
        results.push(result.alias(name));
    }
    let plan = LogicalPlanBuilder::from(plan.clone())
        .aggregate(Vec::<Expr>::new(), aggregates)?
        .project(results)?
        .build()?;
    Ok((plan, cells))
}

fn numbers(at: usize, column: &Column, of: &DataType) -> Vec<Wanted> {
    let value = || Expr::Column(column.clone());
    let mut wanted = vec![
        (at, Cell::Rows, count(lit(1_i64)), Finish::Count),
        (at, Cell::Values, count(value()), Finish::Count),
    ];
    if of.is_nested() || of.is_null() {
        return wanted;
    }
    let has_order = !matches!(of, DataType::Interval(_) | DataType::Duration(_));
    if has_order {
        wanted.push((at, Cell::Min, min(value()), Finish::Text));
        wanted.push((at, Cell::Max, max(value()), Finish::Text));
    }
    wanted.push((at, Cell::Unique, distinct(value(), of), Finish::Count));
    if of.is_numeric() {
        let double = || cast(value(), DataType::Float64);
        wanted.push((at, Cell::Mean, avg(double()), Finish::Text));
        wanted.push((at, Cell::Deviation, stddev(double()), Finish::Text));
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

fn quartiles(at: usize, column: &Column, of: &DataType) -> Vec<Wanted> {
    let value = Expr::Column(column.clone());
    let is_time = matches!(of, DataType::Date32 | DataType::Timestamp(..));
    let number = match is_time {
        true if *of == DataType::Date32 => cast(cast(value, DataType::Int32), DataType::Float64),
        true => {
            let counted = match of {
                DataType::Timestamp(unit, zone) => {
                    cast(value, DataType::Timestamp(counted(*unit), zone.clone()))
                }
                _ => value,
            };
            cast(cast(counted, DataType::Int64), DataType::Float64)
        }
        false if of.is_numeric() => cast(value, DataType::Float64),
        false => return Vec::new(),
    };
    let quartile = |cell, fraction: f64| {
        let digest = approx_percentile_cont(number.clone().sort(true, false), lit(fraction), None);
        let finish = match of {
            DataType::Date32 => Finish::TextOf(DataType::Date32),
            DataType::Timestamp(unit, zone) => {
                Finish::TextOf(DataType::Timestamp(counted(*unit), zone.clone()))
            }
            integer if integer.is_integer() => Finish::WholeText,
            _ => Finish::Text,
        };
        (at, cell, digest, finish)
    };
    vec![
        quartile(Cell::FirstQuartile, 0.25),
        quartile(Cell::Median, 0.5),
        quartile(Cell::ThirdQuartile, 0.75),
    ]
}

/// The unit in which the quartiles of a timestamp are counted: integers that become TIMESTAMP, in
/// microseconds, would count seconds.
fn counted(unit: TimeUnit) -> TimeUnit {
    if unit == TimeUnit::Microsecond { TimeUnit::Millisecond } else { unit }
}
