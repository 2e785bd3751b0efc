//! Timestamps that are cast to a coarser unit keep the second, or millisecond, that they are in.
//!
//! Arrow (59) cuts what the coarser unit does not hold towards 1970, so that a timestamp before it
//! would move forward. Here it is truncated first, as `date_trunc` does.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

use super::calendar;
use super::units::nanoseconds;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct CoarserUnits;

impl AnalyzerRule for CoarserUnits {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, truncate_first))?.data)
    }

    fn name(&self) -> &'static str {
        "coarser_units"
    }
}

/// Functions that cast their first argument.
const CASTS: [&str; 6] = [
    "arrow_cast",
    "arrow_try_cast",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_seconds",
    "to_unixtime",
];

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            unit_of(field.data_type()).is_some_and(|unit| unit != TimeUnit::Nanosecond)
        }
        Expr::ScalarFunction(call) => CASTS.contains(&call.func.name()),
        _ => false,
    }
}

fn unit_of(data_type: &DataType) -> Option<TimeUnit> {
    match data_type {
        DataType::Timestamp(unit, _) => Some(*unit),
        _ => None,
    }
}

fn truncate_first(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        if !is_candidate(&expr) {
            return Ok(Transformed::no(expr));
        }
        let to = match &expr {
            Expr::ScalarFunction(call) if call.func.name() == "to_unixtime" => {
                Some(TimeUnit::Second)
            }
            // An expression without a type will be refused by DataFusion.
            other => other.get_type(schema).ok().as_ref().and_then(unit_of),
        };
        let operand = match &mut expr {
            Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
                Some(&mut **expr)
            }
            Expr::ScalarFunction(call) => call.args.first_mut(),
            _ => None,
        };
        let changed = to.zip(operand).is_some_and(|(to, operand)| truncate(operand, to, schema));
        Ok(Transformed::new_transformed(expr, changed))
    })
}

/// Truncates timestamps of a finer unit than this one. Returns whether they are.
fn truncate(operand: &mut Expr, to: TimeUnit, schema: &DFSchema) -> bool {
    let from = operand.get_type(schema).ok().as_ref().and_then(unit_of);
    let is_finer = from.is_some_and(|from| nanoseconds(from) < nanoseconds(to));
    if is_finer {
        let part = match to {
            TimeUnit::Second => "second",
            TimeUnit::Millisecond => "millisecond",
            _ => "microsecond",
        };
        *operand = calendar::function().call(vec![lit(part), std::mem::take(operand)]);
    }
    is_finer
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};
    use datafusion::prelude::{cast, col};

    use super::*;

    #[test]
    fn only_casts_to_coarser_units_truncate() {
        let stamps = |unit| DataType::Timestamp(unit, None);
        let fields = vec![
            Field::new("us", stamps(TimeUnit::Microsecond), true),
            Field::new("s", stamps(TimeUnit::Second), true),
        ];
        let schema = DFSchema::try_from(Schema::new(fields)).unwrap();
        let rewritten = |expr: Expr| truncate_first(expr, &schema).unwrap().data.to_string();
        assert_eq!(
            rewritten(cast(col("us"), stamps(TimeUnit::Second))),
            "CAST(date_trunc(Utf8(\"second\"), us) AS Timestamp(s))"
        );
        for same in [
            cast(col("s"), stamps(TimeUnit::Microsecond)),
            cast(col("us"), stamps(TimeUnit::Nanosecond)),
            cast(col("us"), DataType::Utf8),
        ] {
            assert_eq!(rewritten(same.clone()), same.to_string());
        }
    }
}
