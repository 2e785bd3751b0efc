//! `min` and `max` of floats by group, the same for every order of the rows.
//!
//! DataFusion's (55.2) compare floats with `<`: a NaN takes the place of whatever is there and gives way to whatever comes next,
//! so that a group's extreme depends on the order of its rows; and a maximum of nothing but -∞ is the least finite number.
//! Without groups, in windows and in ORDER BY, NaN is the greatest value: here, too. All else is DataFusion's.

use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// Both functions.
pub(super) fn all() -> [AggregateUDF; 2] {
    [
        AggregateUDF::from(Extreme { of: max_udaf(), greatest: true }),
        AggregateUDF::from(Extreme { of: min_udaf(), greatest: false }),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    of: Arc<AggregateUDF>,
    greatest: bool,
}

/// The values that come before and after all others in the total order: NaNs with every bit set.
const FIRST: (f32, f64) = (f32::from_bits(u32::MAX), f64::from_bits(u64::MAX));
const LAST: (f32, f64) = (f32::from_bits(u32::MAX >> 1), f64::from_bits(u64::MAX >> 1));

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.of.return_type(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        self.of.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        self.of.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.of.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        let of = arguments.return_field.data_type();
        Ok(match (of, self.greatest) {
            (DataType::Float64, true) => {
                let keep = |kept: &mut f64, new: f64| *kept = if new.total_cmp(kept).is_gt() { new } else { *kept };
                Box::new(PrimitiveGroupsAccumulator::<Float64Type, _>::new(of, keep).with_starting_value(FIRST.1))
            }
            (DataType::Float64, false) => {
                let keep = |kept: &mut f64, new: f64| *kept = if new.total_cmp(kept).is_lt() { new } else { *kept };
                Box::new(PrimitiveGroupsAccumulator::<Float64Type, _>::new(of, keep).with_starting_value(LAST.1))
            }
            (DataType::Float32, true) => {
                let keep = |kept: &mut f32, new: f32| *kept = if new.total_cmp(kept).is_gt() { new } else { *kept };
                Box::new(PrimitiveGroupsAccumulator::<Float32Type, _>::new(of, keep).with_starting_value(FIRST.0))
            }
            (DataType::Float32, false) => {
                let keep = |kept: &mut f32, new: f32| *kept = if new.total_cmp(kept).is_lt() { new } else { *kept };
                Box::new(PrimitiveGroupsAccumulator::<Float32Type, _>::new(of, keep).with_starting_value(LAST.0))
            }
            _ => return self.of.create_groups_accumulator(arguments),
        })
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        self.of.create_sliding_accumulator(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.of.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.of.order_sensitivity()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        self.of.coerce_types(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, arguments: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.of.value_from_stats(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.of.inner().set_monotonicity(data_type)
    }
}
