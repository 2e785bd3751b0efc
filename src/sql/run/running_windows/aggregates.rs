//! `count`, `sum`, `avg`, `min` and `max` over the frame of each row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, DecimalType, Float64Type, Int64Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, PrimitiveArray, downcast_primitive};
use arrow_schema::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;

use super::bounds::Bounds;
use super::frames::{Frame, Partial};
use crate::query::sum_overflow;

/// Computes the values of a batch from those of its argument and how many rows leave the frame
/// when each row comes.
pub(super) type Evaluate =
    Box<dyn FnMut(&ArrayRef, &Bounds, Option<&[u32]>) -> DataFusionResult<ArrayRef> + Send>;

/// The aggregate of an argument of the first type, as a value of the second one; `None` for others
/// than these. The frames move, or all start with their partition.
pub(super) fn evaluator(
    name: &str,
    argument: &DataType,
    result: &DataType,
    moves: bool,
) -> Option<Evaluate> {
    match (name, argument, result) {
        ("count", _, DataType::Int64) => Some(counts(moves)),
        ("sum", DataType::Int64, DataType::Int64) => {
            Some(each::<Int64Type, ExactSum, Int64Type>(result, moves, |sum| {
                sum.integer(&DataType::Int64)
            }))
        }
        ("sum", DataType::UInt64, DataType::UInt64) => {
            Some(each::<UInt64Type, ExactSum, UInt64Type>(result, moves, |sum| {
                sum.integer(&DataType::UInt64)
            }))
        }
        ("sum", DataType::Float64, DataType::Float64) => {
            Some(each::<Float64Type, FloatSum, Float64Type>(result, moves, |sum| Ok(sum.value)))
        }
        ("sum", DataType::Decimal128(_, from), DataType::Decimal128(precision, to))
            if from == to =>
        {
            let precision = *precision;
            Some(each::<Decimal128Type, ExactSum, Decimal128Type>(result, moves, move |sum| {
                sum.decimal(precision)
            }))
        }
        ("avg", DataType::Float64, DataType::Float64) => {
            Some(each::<Float64Type, FloatSum, Float64Type>(result, moves, |sum| {
                Ok(sum.value.map(|value| value / sum.count as f64))
            }))
        }
        ("avg", DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) => {
            let unit = 10_i128.checked_pow(u32::try_from(to.checked_sub(*from)?).ok()?)?;
            let precision = *precision;
            Some(each::<Decimal128Type, ExactSum, Decimal128Type>(result, moves, move |sum| {
                // Cut, as DataFusion's average of all rows is.
                let cut = |value: i128| value.checked_mul(unit)?.checked_div(sum.count.into());
                (sum.count > 0).then(|| within(sum.value.and_then(cut), precision)).transpose()
            }))
        }
        ("min" | "max", DataType::Interval(_), _) => None,
        ("min", argument, result) if argument == result => extremes::<false>(result, moves),
        ("max", argument, result) if argument == result => extremes::<true>(result, moves),
        _ => None,
    }
}

/// A decimal, if there is one of this many digits.
fn within(value: Option<i128>, precision: u8) -> DataFusionResult<i128> {
    let fits = |value: &i128| Decimal128Type::is_valid_decimal_precision(*value, precision);
    match value.filter(fits) {
        Some(value) => Ok(value),
        None => exec_err!("a window's sum or average has more than {precision} digits"),
    }
}

/// How many values there are.
#[derive(Clone, Copy, Default)]
struct Count(i64);

impl Partial for Count {
    fn merged(self, later: Count) -> Count {
        Count(self.0 + later.0)
    }
}

/// The sum of doubles, if there are any, and how many there are.
#[derive(Clone, Copy, Default)]
struct FloatSum {
    value: Option<f64>,
    count: u64,
}

impl Partial for FloatSum {
    fn merged(self, later: FloatSum) -> FloatSum {
        let value = match (self.value, later.value) {
            (Some(first), Some(second)) => Some(first + second),
            (first, second) => first.or(second),
        };
        FloatSum { value, count: self.count + later.count }
    }
}

impl From<Option<f64>> for FloatSum {
    fn from(value: Option<f64>) -> FloatSum {
        FloatSum { count: u64::from(value.is_some()), value }
    }
}

/// The sum of integers, or of decimals, for which integers stand, and how many there are.
#[derive(Clone, Copy)]
struct ExactSum {
    /// `None` beyond 128 bits.
    value: Option<i128>,
    count: u64,
}

impl ExactSum {
    fn integer<N: TryFrom<i128>>(self, result: &DataType) -> DataFusionResult<Option<N>> {
        if self.count == 0 {
            return Ok(None);
        }
        match self.value.and_then(|sum| N::try_from(sum).ok()) {
            Some(sum) => Ok(Some(sum)),
            None => exec_err!("{}", sum_overflow(result)),
        }
    }

    fn decimal(self, precision: u8) -> DataFusionResult<Option<i128>> {
        (self.count > 0).then(|| within(self.value, precision)).transpose()
    }
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum { value: Some(0), count: 0 }
    }
}

impl Partial for ExactSum {
    fn merged(self, later: ExactSum) -> ExactSum {
        let sum = |(first, second): (i128, i128)| first.checked_add(second);
        ExactSum {
            value: self.value.zip(later.value).and_then(sum),
            count: self.count + later.count,
        }
    }
}

impl<N: Into<i128>> From<Option<N>> for ExactSum {
    fn from(value: Option<N>) -> ExactSum {
        let count = u64::from(value.is_some());
        ExactSum { value: Some(value.map_or(0, N::into)), count }
    }
}

/// The least value, or the greatest one. NaN is greater than numbers.
#[derive(Clone, Copy, Default)]
struct Extreme<N, const GREATEST: bool>(Option<N>);

impl<N: ArrowNativeTypeOp, const GREATEST: bool> Partial for Extreme<N, GREATEST> {
    fn merged(self, later: Self) -> Self {
        let (Some(first), Some(second)) = (self.0, later.0) else {
            return Extreme(self.0.or(later.0));
        };
        let is_second = if GREATEST { second.is_gt(first) } else { second.is_lt(first) };
        Extreme(Some(if is_second { second } else { first }))
    }
}

impl<N, const GREATEST: bool> From<Option<N>> for Extreme<N, GREATEST> {
    fn from(value: Option<N>) -> Self {
        Extreme(value)
    }
}

fn counts(moves: bool) -> Evaluate {
    let mut frame = Frame::new(moves);
    Box::new(move |values, bounds, leaving| {
        let values = (0..values.len()).map(|row| Count(i64::from(values.is_valid(row))));
        let counts = over_frames(&mut frame, values, bounds, leaving, |count| Ok(Some(count.0)))?;
        Ok(Arc::new(counts.collect::<PrimitiveArray<Int64Type>>()))
    })
}

fn extremes<const GREATEST: bool>(data_type: &DataType, moves: bool) -> Option<Evaluate> {
    macro_rules! extreme {
        ($t:ty) => {
            Some(each::<$t, Extreme<<$t as ArrowPrimitiveType>::Native, GREATEST>, $t>(
                data_type,
                moves,
                |extreme| Ok(extreme.0),
            ))
        };
    }
    downcast_primitive! {
        data_type => (extreme),
        _ => None,
    }
}

/// An evaluator of a function over values of one type.
fn each<T, P, R>(
    data_type: &DataType,
    moves: bool,
    result: impl Fn(P) -> DataFusionResult<Option<R::Native>> + Send + 'static,
) -> Evaluate
where
    T: ArrowPrimitiveType,
    P: Partial + From<Option<T::Native>>,
    R: ArrowPrimitiveType,
{
    let mut frame = Frame::new(moves);
    let data_type = data_type.clone();
    Box::new(move |values, bounds, leaving| {
        let values = values.as_primitive::<T>().iter().map(P::from);
        let results = over_frames(&mut frame, values, bounds, leaving, &result)?;
        let results = results.collect::<PrimitiveArray<R>>();
        Ok(Arc::new(results.with_data_type(data_type.clone())))
    })
}

/// The result for each row.
fn over_frames<P: Partial, R>(
    frame: &mut Frame<P>,
    mut values: impl Iterator<Item = P>,
    bounds: &Bounds,
    leaving: Option<&[u32]>,
    result: impl Fn(P) -> DataFusionResult<Option<R>>,
) -> DataFusionResult<std::vec::IntoIter<Option<R>>> {
    let mut results = Vec::with_capacity(values.size_hint().0);
    for (partition, begins) in bounds.partitions() {
        if begins {
            frame.clear();
        }
        for row in partition {
            let Some(value) = values.next() else { break };
            frame.push(value);
            if let Some(leaving) = leaving.and_then(|leaving| leaving.get(row)) {
                frame.pop(*leaving);
            }
            results.push(result(frame.total())?);
        }
    }
    Ok(results.into_iter())
}
