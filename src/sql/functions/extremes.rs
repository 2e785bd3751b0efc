//! Grouped `min` and `max` of floats that do not depend on the order of the rows.
//!
//! DataFusion's grouped accumulators (55.2) compare floats with `<`: a NaN replaces any value and
//! is replaced by any value, so that the result depends on the order of the rows; and the maximum
//! of nothing but -∞ is the least finite number. Without groups, in windows and in ORDER BY, NaN
//! is the greatest value; here it is so in groups, too. Other types stay DataFusion's.

use arrow_array::types::{Float32Type, Float64Type};
use arrow_schema::DataType;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op as primitive;

/// The first and the last value of the total order: NaNs whose other bits are all set.
const FIRST: (f32, f64) = (f32::from_bits(u32::MAX), f64::from_bits(u64::MAX));
const LAST: (f32, f64) = (f32::from_bits(u32::MAX >> 1), f64::from_bits(u64::MAX >> 1));

/// The grouped accumulator in place of that of `function`, which is `max` or `min`.
pub(in crate::sql) fn groups_accumulator(
    function: &AggregateUDF,
    greatest: bool,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    let data_type = arguments.return_field.data_type();
    Ok(match (data_type, greatest) {
        (DataType::Float64, true) => {
            let keep = |kept: &mut f64, new: f64| {
                *kept = if new.total_cmp(kept).is_gt() { new } else { *kept }
            };
            Box::new(
                primitive::PrimitiveGroupsAccumulator::<Float64Type, _>::new(data_type, keep)
                    .with_starting_value(FIRST.1),
            )
        }
        (DataType::Float64, false) => {
            let keep = |kept: &mut f64, new: f64| {
                *kept = if new.total_cmp(kept).is_lt() { new } else { *kept }
            };
            Box::new(
                primitive::PrimitiveGroupsAccumulator::<Float64Type, _>::new(data_type, keep)
                    .with_starting_value(LAST.1),
            )
        }
        (DataType::Float32, true) => {
            let keep = |kept: &mut f32, new: f32| {
                *kept = if new.total_cmp(kept).is_gt() { new } else { *kept }
            };
            Box::new(
                primitive::PrimitiveGroupsAccumulator::<Float32Type, _>::new(data_type, keep)
                    .with_starting_value(FIRST.0),
            )
        }
        (DataType::Float32, false) => {
            let keep = |kept: &mut f32, new: f32| {
                *kept = if new.total_cmp(kept).is_lt() { new } else { *kept }
            };
            Box::new(
                primitive::PrimitiveGroupsAccumulator::<Float32Type, _>::new(data_type, keep)
                    .with_starting_value(LAST.0),
            )
        }
        _ => return function.create_groups_accumulator(arguments),
    })
}
