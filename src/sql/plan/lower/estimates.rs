//! `approx_distinct` over a table of the store as an exact count, where no fragment computes it: in
//! a cluster, whose machines would send each other all values, beside grouping sets and keys with
//! subqueries.
//!
//! Where this stands on the road of a query: a candidate that was not taken comes here before its
//! distinct values are split off, as those of any `count(DISTINCT …)` are. What fragments say is
//! exact, so an estimate would say something else for the same rows; and DataFusion (55.2) has
//! none of floats.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::Column;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction as Call, AggregateFunctionParams};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, cast, logical_plan::Aggregate};

use super::source::without_alias;
use crate::sql::run::provider::store_provider;

/// The function, which is the name of its calls, too.
const ESTIMATE: &str = "approx_distinct";

/// The same aggregate with counts of distinct values in the place of estimates, below a projection
/// that gives them the type of those; `None` if there is nothing to count.
pub(super) fn counted(original: &Aggregate) -> DataFusionResult<Option<LogicalPlan>> {
    if !original.aggr_expr.iter().any(|call| count(call).is_some()) || !is_of_table(&original.input)
    {
        return Ok(None);
    }
    let mut calls: Vec<Expr> = Vec::new();
    // The same values may be counted already.
    let places: Vec<(usize, bool)> = original
        .aggr_expr
        .iter()
        .map(|call| {
            let count = count(call);
            let is_count = count.is_some();
            let call = count.unwrap_or_else(|| call.clone());
            let known = calls.iter().position(|known| *known == call);
            let at = known.unwrap_or_else(|| {
                let at = calls.len();
                // Casts do not show in names, so another call may have this one's.
                let is_named = calls.iter().any(|known| is_named_like(known, &call));
                calls.push(if is_named { call.alias(format!("#exact {at}")) } else { call });
                at
            });
            (at, is_count)
        })
        .collect();
    let (input, group) = (Arc::clone(&original.input), original.group_expr.clone());
    let keys = original.schema.fields().len().saturating_sub(places.len());
    let aggregate = Aggregate::try_new(input, group, calls)?;
    let column = |at: usize| Expr::Column(Column::from(aggregate.schema.qualified_field(at)));
    let output = |(number, (at, is_count)): (usize, &(usize, bool))| match is_count {
        true => {
            let name = original.schema.field(keys + number).name();
            cast(column(keys + at), DataType::UInt64).alias(name)
        }
        false => column(keys + at),
    };
    let outputs: Vec<Expr> =
        (0..keys).map(column).chain(places.iter().enumerate().map(output)).collect();
    let (input, schema) = (LogicalPlan::Aggregate(aggregate), Arc::clone(&original.schema));
    let plan = Projection::try_new_with_schema(outputs, Arc::new(input), schema)?;
    Ok(Some(LogicalPlan::Projection(plan)))
}

/// The count in the place of an estimate. One under a name of its own is a cell of SUMMARIZE, where
/// an estimate will do.
fn count(call: &Expr) -> Option<Expr> {
    if let Expr::Alias(alias) = call
        && !alias.name.starts_with(ESTIMATE)
    {
        return None;
    }
    let Expr::AggregateFunction(Call { func, params }) = without_alias(call) else { return None };
    (func.name() == ESTIMATE && params.args.len() == 1).then(|| {
        let params = AggregateFunctionParams { distinct: true, ..params.clone() };
        Expr::AggregateFunction(Call { func: count_udaf(), params })
    })
}

fn is_named_like(one: &Expr, other: &Expr) -> bool {
    one.schema_name().to_string() == other.schema_name().to_string()
}

/// Whether a plan gives rows of one table of the store.
fn is_of_table(mut plan: &LogicalPlan) -> bool {
    loop {
        plan = match plan {
            LogicalPlan::TableScan(scan) => return store_provider(scan).is_some(),
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            _ => return false,
        };
    }
}
