//! `min` and `max` of floats by group, the same for every order of the rows.
//!
//! DataFusion's (55.2) compare floats with `<`: a NaN takes the place of whatever is there and
//! gives way to whatever comes next, so that a group's extreme depends on the order of its rows;
//! and a maximum of nothing but -∞ is the least finite number. Without groups, in windows and in
//! ORDER BY, NaN is the greatest value: here, too. All else is DataFusion's.

use arrow_array::types::{Float32Type, Float64Type};
use arrow_schema::DataType;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// The values that come before and after all others in the total order: NaNs with every bit set.
const FIRST: (f32, f64) = (f32::from_bits(u32::MAX), f64::from_bits(u64::MAX));
const LAST: (f32, f64) = (f32::from_bits(u32::MAX >> 1), f64::from_bits(u64::MAX >> 1));

/// The accumulator of groups that stands for that of a function, `max` or `min`.
pub(in crate::sql) fn groups_accumulator(
    function: &AggregateUDF,
    greatest: bool,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    let of = arguments.return_field.data_type();
    Ok(match (of, greatest) {
        (DataType::Float64, true) => {
            let keep = |kept: &mut f64, new: f64| {
                *kept = if new.total_cmp(kept).is_gt() { new } else { *kept }
            };
            Box::new(
                PrimitiveGroupsAccumulator::<Float64Type, _>::new(of, keep)
                    .with_starting_value(FIRST.1),
            )
        }
        (DataType::Float64, false) => {
            let keep = |kept: &mut f64, new: f64| {
                *kept = if new.total_cmp(kept).is_lt() { new } else { *kept }
            };
            Box::new(
                PrimitiveGroupsAccumulator::<Float64Type, _>::new(of, keep)
                    .with_starting_value(LAST.1),
            )
        }
        (DataType::Float32, true) => {
            let keep = |kept: &mut f32, new: f32| {
                *kept = if new.total_cmp(kept).is_gt() { new } else { *kept }
            };
            Box::new(
                PrimitiveGroupsAccumulator::<Float32Type, _>::new(of, keep)
                    .with_starting_value(FIRST.0),
            )
        }
        (DataType::Float32, false) => {
            let keep = |kept: &mut f32, new: f32| {
                *kept = if new.total_cmp(kept).is_lt() { new } else { *kept }
            };
            Box::new(
                PrimitiveGroupsAccumulator::<Float32Type, _>::new(of, keep)
                    .with_starting_value(LAST.0),
            )
        }
        _ => return function.create_groups_accumulator(arguments),
    })
}
