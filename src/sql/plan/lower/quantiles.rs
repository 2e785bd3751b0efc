//! Quantiles of the same values from one state: `quantile_cont(x, [0.5, 0.9])`, or `median(x)`
//! beside `quantile_cont(x, 0.9)`.
//!
//! Where this stands on the road of a query: `lower` asks here for an aggregate that no fragment
//! computes, and that need not spill. Each quantile (DataFusion 55.2) holds all values of its own.
//! Here one call has the fractions of several, and a projection picks its answers apart.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::expr::{AggregateFunction as Call, AggregateFunctionParams};
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, LogicalPlan, lit};

use super::source::without_alias;
use crate::sql::functions::{percentiles, tallies};

/// A quantile.
#[derive(Clone)]
struct Quantile {
    function: &'static Arc<AggregateUDF>,
    value: Expr,
    filter: Option<Box<Expr>>,
    distinct: bool,
    fraction: f64,
}

impl Quantile {
    /// A call of an aggregate, if it is one.
    fn of(call: &Expr, aggregate: &Aggregate) -> DataFusionResult<Option<Quantile>> {
        let Expr::AggregateFunction(Call { func, params }) = without_alias(call) else {
            return Ok(None);
        };
        let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = params;
        let Some(value) = args.first().filter(|_| null_treatment.is_none()) else {
            return Ok(None);
        };
        let fraction = match args.get(1..) {
            Some([fraction]) => number(fraction),
            _ => None,
        };
        let is_in_order = match order_by.as_slice() {
            [] => true,
            [key] => key.asc && without_alias(&key.expr) == without_alias(value),
            _ => false,
        };
        let of_floats = || -> DataFusionResult<bool> {
            Ok(value.get_type(aggregate.input.schema())?.is_floating())
        };
        let (function, fraction) = match (func.name(), fraction) {
            ("percentile_cont", Some(fraction))
                if is_in_order && (0.0..=1.0).contains(&fraction) && !distinct && of_floats()? =>
            {
                (percentiles::several(), fraction)
            }
            ("median", None)
                if args.len() == 1 && order_by.is_empty() && !distinct && of_floats()? =>
            {
                (percentiles::several(), 0.5)
            }
            ("quantile_disc", Some(fraction))
                if order_by.is_empty() && (-1.0..=1.0).contains(&fraction) =>
            {
                (tallies::quantiles_function(), fraction)
            }
            _ => return Ok(None),
        };
        let (value, filter) = (without_alias(value).clone(), filter.clone());
        Ok(Some(Quantile { function, value, filter, distinct: *distinct, fraction }))
    }

    /// Whether both are of the same values.
    fn is_of_values_of(&self, other: &Quantile) -> bool {
        Arc::ptr_eq(self.function, other.function)
            && self.value == other.value
            && self.filter == other.filter
            && self.distinct == other.distinct
    }

    /// The call of the quantiles of these fractions.
    fn call(&self, fractions: &[f64]) -> Expr {
        let fractions = fractions.iter().map(|fraction| lit(*fraction));
        let params = AggregateFunctionParams {
            args: std::iter::once(self.value.clone()).chain(fractions).collect(),
            distinct: self.distinct,
            filter: self.filter.clone(),
            order_by: Vec::new(),
            null_treatment: None,
        };
        Expr::AggregateFunction(Call { func: Arc::clone(self.function), params })
    }
}

fn number(expr: &Expr) -> Option<f64> {
    match without_alias(expr) {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(number)) => number,
            _ => None,
        },
        _ => None,
    }
}

/// Quantiles of the same values, and the calls that ask for them.
struct Several {
    first: Quantile,
    fractions: Vec<f64>,
    calls: usize,
}

/// An aggregate with the same columns whose quantiles share states; `None` if there are none to
/// share.
pub(super) fn shared(aggregate: &Aggregate) -> DataFusionResult<Option<LogicalPlan>> {
    let keys = aggregate.group_expr.len();
    // Grouping sets have more columns.
    if aggregate.schema.fields().len() != keys + aggregate.aggr_expr.len() {
        return Ok(None);
    }
    let mut all: Vec<Several> = Vec::new();
    // Of each call, which of these it is, and which of its fractions.
    let mut places = Vec::new();
    for call in &aggregate.aggr_expr {
        let Some(one) = Quantile::of(call, aggregate)? else {
            places.push(None);
            continue;
        };
        let known = all.iter().position(|known| known.first.is_of_values_of(&one));
        let at = known.unwrap_or_else(|| {
            all.push(Several { first: one.clone(), fractions: Vec::new(), calls: 0 });
            all.len() - 1
        });
        let Some(several) = all.get_mut(at) else { continue };
        several.calls += 1;
        let known = several.fractions.iter().position(|known| *known == one.fraction);
        places.push(Some((at, known.unwrap_or(several.fractions.len()))));
        if known.is_none() {
            several.fractions.push(one.fraction);
        }
    }
    if all.iter().all(|several| several.calls < 2) {
        return Ok(None);
    }
    // Casts do not show in names, so a call of several has a name of its own.
    let mut calls = Vec::new();
    let mut columns: Vec<Option<usize>> = vec![None; all.len()];
    let mut answers = Vec::new();
    for (call, place) in aggregate.aggr_expr.iter().zip(places) {
        let several = place.and_then(|(at, field)| Some((at, field, all.get(at)?)));
        match several.filter(|(_, _, several)| several.calls > 1) {
            Some((at, field, several)) => {
                let Some(column) = columns.get_mut(at) else { continue };
                let column = *column.get_or_insert_with(|| {
                    let name = format!("#quantiles {at}");
                    calls.push(several.first.call(&several.fractions).alias(name));
                    calls.len() - 1
                });
                answers.push((column, Some(field)));
            }
            None => {
                answers.push((calls.len(), None));
                calls.push(call.clone());
            }
        }
    }
    let (input, group) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
    let merged = Aggregate::try_new(input, group, calls)?;
    let column = |at: usize| Expr::Column(Column::from(merged.schema.qualified_field(at)));
    let mut outputs: Vec<Expr> = (0..keys).map(column).collect();
    for (number, (at, field)) in answers.into_iter().enumerate() {
        let (qualifier, named) = aggregate.schema.qualified_field(keys + number);
        outputs.push(match field {
            Some(field) => get_field(column(keys + at), field.to_string())
                .alias_qualified(qualifier.cloned(), named.name()),
            None => column(keys + at),
        });
    }
    let schema = Arc::clone(&aggregate.schema);
    let merged = Arc::new(LogicalPlan::Aggregate(merged));
    Ok(Some(LogicalPlan::Projection(Projection::try_new_with_schema(outputs, merged, schema)?)))
}
