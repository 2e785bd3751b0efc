//! `sum` of integers and decimals: exact, and an error where the answer has no room in its type.
//!
//! Where this stands on the road of a query: accumulators of `aggregates`, for what does not run in
//! the executor on encoded data. DataFusion's (55.2) wrap around: the sum of 9223372036854775807
//! and 1 is -9223372036854775808, and two decimals of 38 nines sum up to a negative number. Here
//! sums have 128 bits, also in the states that partitions hand over, so that it does not depend on
//! the order of the rows whether there is an answer, but for decimals of 38 digits.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, DecimalType, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, Expr, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op as primitive;

use crate::query::{add_checked, sum_overflow};
use crate::sql::walks::rewrite_up;

/// Whether sums of a type are those of this module.
pub(super) fn handles(result: &DataType, is_distinct: bool) -> bool {
    let is_whole = matches!(result, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..));
    is_whole && !is_distinct
}

/// The state: the sum so far.
pub(super) fn state_fields(arguments: &StateFieldsArgs<'_>) -> Vec<FieldRef> {
    let name = format_state_name(arguments.name, "sum");
    let data_type = state_type(arguments.return_field.data_type());
    vec![Arc::new(Field::new(name, data_type, true))]
}

fn state_type(result: &DataType) -> DataType {
    match result {
        DataType::Decimal128(..) => result.clone(),
        _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
    }
}

/// An expression whose counts are of columns without casts: names in plans leave casts out, and so
/// a count with one would have the name of a count without, which the statement may have, too.
pub(super) fn without_casts_in_counts(expr: Expr) -> DataFusionResult<Expr> {
    let rewritten = rewrite_up(expr, |expr| match expr {
        Expr::AggregateFunction(mut count) if count.func.name() == "count" => {
            for argument in &mut count.params.args {
                while let Expr::Cast(cast) = argument {
                    *argument = std::mem::take(&mut *cast.expr);
                }
            }
            Ok(Transformed::yes(Expr::AggregateFunction(count)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// The sum of all rows, or of those in a frame.
pub(super) fn accumulator(arguments: &AccumulatorArgs<'_>) -> Box<dyn Accumulator> {
    Box::new(Sum { sum: 0, count: 0, result: arguments.return_field.data_type().clone() })
}

/// The sum of each group.
pub(super) fn groups_accumulator(arguments: &AccumulatorArgs<'_>) -> Box<dyn GroupsAccumulator> {
    let result = arguments.return_field.data_type().clone();
    let sums = primitive::PrimitiveGroupsAccumulator::<Decimal128Type, _>::new(
        &state_type(&result),
        add_checked,
    );
    Box::new(GroupSums { sums, result })
}

/// Integers, or decimals, as integers of 128 bits; null stays null.
fn wide(values: &ArrayRef) -> DataFusionResult<ArrayRef> {
    fn widened<T: ArrowPrimitiveType<Native: Into<i128>>>(values: &ArrayRef) -> ArrayRef {
        let values = values.as_primitive::<T>();
        Arc::new(values.unary::<_, Decimal128Type>(Into::into))
    }
    Ok(match values.data_type() {
        DataType::Int64 => widened::<Int64Type>(values),
        DataType::UInt64 => widened::<UInt64Type>(values),
        DataType::Decimal128(..) => Arc::clone(values),
        other => return exec_err!("a sum of integers that are {other}"),
    })
}

/// Sums in the type of the answer; an error if one has no room there.
fn narrow(sums: &Decimal128Array, result: &DataType) -> DataFusionResult<ArrayRef> {
    fn narrowed<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(
        sums: &Decimal128Array,
    ) -> DataFusionResult<ArrayRef> {
        let narrow = |sum: i128| match T::Native::try_from(sum) {
            Ok(sum) => Ok(sum),
            Err(_) => exec_err!("{}", sum_overflow(&T::DATA_TYPE)),
        };
        let narrowed: PrimitiveArray<T> = sums.try_unary(narrow)?;
        Ok(Arc::new(narrowed))
    }
    match result {
        DataType::Int64 => narrowed::<Int64Type>(sums),
        DataType::UInt64 => narrowed::<UInt64Type>(sums),
        DataType::Decimal128(precision, _) => {
            let fits = |sum| Decimal128Type::is_valid_decimal_precision(sum, *precision);
            if !sums.iter().flatten().all(fits) {
                return exec_err!("{}", sum_overflow(result));
            }
            Ok(Arc::new(sums.clone().with_data_type(result.clone())))
        }
        other => exec_err!("a sum of integers that is {other}"),
    }
}

#[derive(Debug)]
struct Sum {
    sum: i128,
    /// How many values are in it.
    count: u64,
    result: DataType,
}

impl Sum {
    /// Adds each value, or takes it away.
    fn update(&mut self, values: &[ArrayRef], taken: bool) -> DataFusionResult<()> {
        let Some(values) = values.first() else { return exec_err!("a sum without values") };
        let values = wide(values)?;
        let values = values.as_primitive::<Decimal128Type>();
        for value in values.iter().flatten() {
            add_checked(&mut self.sum, if taken { -value } else { value });
        }
        let count = (values.len() - values.null_count()) as u64;
        self.count = if taken { self.count - count } else { self.count + count };
        Ok(())
    }

    fn state_array(&self) -> Decimal128Array {
        let sum = (self.count > 0).then_some(self.sum);
        Decimal128Array::from(vec![sum]).with_data_type(state_type(&self.result))
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.update(values, false)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.update(values, true)
    }

    /// A sum beyond 128 bits would not come back from there.
    fn supports_retract_batch(&self) -> bool {
        !matches!(self.result, DataType::Decimal128(..))
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        ScalarValue::try_from_array(&narrow(&self.state_array(), &self.result)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::try_from_array(&self.state_array(), 0)?])
    }

    /// Sums are added up as values are.
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.update(states, false)
    }
}

struct GroupSums<F: Fn(&mut i128, i128) + Send + Sync + 'static> {
    sums: primitive::PrimitiveGroupsAccumulator<Decimal128Type, F>,
    result: DataType,
}

impl<F: Fn(&mut i128, i128) + Send + Sync + 'static> GroupsAccumulator for GroupSums<F> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DataFusionResult<()> {
        let values = values.iter().map(wide).collect::<DataFusionResult<Vec<_>>>()?;
        self.sums.update_batch(&values, groups, filter, total)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> DataFusionResult<()> {
        self.sums.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> DataFusionResult<ArrayRef> {
        let sums = self.sums.evaluate(emit)?;
        narrow(sums.as_primitive::<Decimal128Type>(), &self.result)
    }

    fn state(&mut self, emit: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        self.sums.state(emit)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let values = values.iter().map(wide).collect::<DataFusionResult<Vec<_>>>()?;
        let states = self.sums.convert_to_state(&values, filter)?;
        let in_type = |state: ArrayRef| -> ArrayRef {
            let state = state.as_primitive::<Decimal128Type>().clone();
            Arc::new(state.with_data_type(state_type(&self.result)))
        };
        Ok(states.into_iter().map(in_type).collect())
    }

    fn size(&self) -> usize {
        self.sums.size()
    }
}
