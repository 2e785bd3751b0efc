//! `percentile_cont` (`quantile_cont`) and `median` of floats, as exact as floats are, and `median`
//! of decimals, which may lie between two of them.
//!
//! DataFusion's functions (55.2) interpolate between two values with a fraction of six digits, give
//! NaN between two equal infinities and beside -∞, and give an infinity where the difference of
//! two values (in `median`, their sum) overflows. The median of decimals is cut at their scale;
//! here it has one more digit, unless that would be the 39th. DataFusion's accumulators only
//! collect: their state is a list of all values, from which the percentile is computed. A plan that
//! finds the values on both sides of it gives them to [`between`]. Several percentiles of the same
//! values are computed from one state ([`several`]).

mod several;

use std::sync::Arc;

use arrow_array::builder::{Decimal128Builder, Float64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, ListArray, RecordBatch, StructArray,
};
use arrow_cast::cast;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, ColumnarValue, EmitTo, GroupsAccumulator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;

pub(in crate::sql) use self::several::several;

/// The accumulator in place of that of `function`, which is `percentile_cont` or `median`.
pub(in crate::sql) fn accumulator(
    function: &AggregateUDF,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn Accumulator>> {
    let state_keeps_values = arguments.is_distinct;
    let inner = function.accumulator(arguments.clone())?;
    Ok(match Wanted::of(&arguments)? {
        Some(percentile) => {
            Box::new(PercentileAccumulator { inner, percentile, state_keeps_values, taken: None })
        }
        None => inner,
    })
}

/// The grouped accumulator in place of that of `function`.
pub(in crate::sql) fn groups_accumulator(
    function: &AggregateUDF,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    let inner = function.create_groups_accumulator(arguments.clone())?;
    Ok(match Wanted::of(&arguments)? {
        Some(percentile) => Box::new(PercentileGroupsAccumulator { inner, percentile }),
        None => inner,
    })
}

/// The type of the percentile of values of a type. Only the median takes decimals.
pub(in crate::sql) fn result_type(of: DataType) -> DataType {
    match of {
        DataType::Decimal128(precision, scale) if precision < DECIMAL128_MAX_PRECISION => {
            DataType::Decimal128(precision + 1, scale + 1)
        }
        other => other,
    }
}

/// What is computed here.
#[derive(Clone, Debug)]
enum Wanted {
    OfFloats(Percentile),
    /// As the fields of a struct.
    Several(Vec<Percentile>),
    /// The median of decimals, with one more digit than they have.
    OfDecimals,
}

impl Wanted {
    /// `None` if it stays DataFusion's.
    fn of(arguments: &AccumulatorArgs<'_>) -> DataFusionResult<Option<Wanted>> {
        let of = arguments.expr_fields.first().map(|value| value.data_type());
        match of {
            Some(of @ DataType::Decimal128(..)) if result_type(of.clone()) != *of => {
                Ok(Some(Wanted::OfDecimals))
            }
            _ => Ok(Percentile::new(arguments)?.map(Wanted::OfFloats)),
        }
    }
}

/// Which percentile of the sorted values is the result.
#[derive(Clone, Copy, Debug)]
struct Percentile {
    /// 0 for the first value, 1 for the last.
    fraction: f64,
    descending: bool,
}

impl Percentile {
    /// `None` if the values are not floats.
    fn new(arguments: &AccumulatorArgs<'_>) -> DataFusionResult<Option<Percentile>> {
        if !arguments.expr_fields.first().is_some_and(|value| value.data_type().is_floating()) {
            return Ok(None);
        }
        let fraction = arguments.exprs.get(1).map_or(Ok(0.5), constant)?;
        let descending = arguments.order_bys.first().is_some_and(|key| key.options.descending);
        Ok(Some(Percentile { fraction, descending }))
    }

    /// Computes the percentile. Partly sorts the values.
    fn compute(self, values: &mut [f64]) -> Option<f64> {
        let count = values.len();
        self.compute_among(values, count).map(|(percentile, _)| percentile)
    }

    /// Computes the percentile of `count` values, of which these are the first ones in the order,
    /// as many as it needs. Returns how many of them a percentile needs that is not behind this
    /// one.
    fn compute_among(self, values: &mut [f64], count: usize) -> Option<(f64, usize)> {
        let last = count.checked_sub(1)?;
        let rank = self.fraction * last as f64;
        let weight = rank - rank.floor();
        let order =
            |a: &f64, b: &f64| if self.descending { b.total_cmp(a) } else { a.total_cmp(b) };
        let at = (rank.floor() as usize).min(last);
        if at >= values.len() {
            return None;
        }
        let (_, value, after) = values.select_nth_unstable_by(at, order);
        let first = after.iter().enumerate().filter(|_| weight > 0.0);
        let Some((place, next)) = first.min_by(|(_, a), (_, b)| order(a, b)) else {
            return Some((*value, at + 1));
        };
        let percentile = interpolate(*value, *next, weight);
        after.swap(0, place);
        Some((percentile, at + 2))
    }
}

/// Computes several percentiles in the same direction; null of no values.
fn compute_all(percentiles: &[Percentile], values: &mut [f64]) -> Vec<Option<f64>> {
    let mut order: Vec<usize> = (0..percentiles.len()).collect();
    let fraction = |at: &usize| percentiles.get(*at).map_or(0.0, |one| one.fraction);
    order.sort_by(|a, b| fraction(b).total_cmp(&fraction(a)));
    let mut results = vec![None; percentiles.len()];
    // From the last one on: those before it are among the values before it.
    let (count, mut needed) = (values.len(), values.len());
    for at in order {
        let (Some(percentile), Some(values)) = (percentiles.get(at), values.get_mut(..needed))
        else {
            continue;
        };
        let Some((result, of_others)) = percentile.compute_among(values, count) else { continue };
        needed = of_others;
        if let Some(place) = results.get_mut(at) {
            *place = Some(result);
        }
    }
    results
}

/// A constant argument. DataFusion has already checked that it is between 0 and 1.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> DataFusionResult<f64> {
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expr.evaluate(&nothing)? {
        ColumnarValue::Scalar(ScalarValue::Float64(Some(value))) => Ok(value),
        ColumnarValue::Scalar(ScalarValue::Float32(Some(value))) => Ok(f64::from(value)),
        _ => Err(DataFusionError::Plan("the percentile is no number".to_owned())),
    }
}

/// The number at `weight` of the way from one number to another.
fn interpolate(from: f64, to: f64, weight: f64) -> f64 {
    if from == to {
        return from;
    }
    if weight == 0.5 {
        return from.midpoint(to);
    }
    let step = to - from;
    if step.is_finite() {
        from + step * weight
    } else {
        // An infinity stays one, unless the other end is the opposite infinity. Neither product of
        // finite numbers overflows.
        from * (1.0 - weight) + to * weight
    }
}

/// The function of a plan that has found the value whose number, from 0 on, is the floor of the
/// percentile's place, the value after it, the count of all values, and the fraction.
pub(in crate::sql) fn between() -> ScalarUDF {
    let arguments = vec![DataType::Float64, DataType::Float64, DataType::Int64, DataType::Float64];
    ScalarUDF::from(Between { signature: Signature::exact(arguments, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Between {
    signature: Signature,
}

impl ScalarUDFImpl for Between {
    fn name(&self) -> &'static str {
        "percentile_between"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&given.args)?;
        let [low, high, count, fraction] = arrays.as_slice() else {
            return Err(DataFusionError::Internal("four arguments".to_owned()));
        };
        let (low, high) = (low.as_primitive::<Float64Type>(), high.as_primitive::<Float64Type>());
        let (count, fraction) =
            (count.as_primitive::<Int64Type>(), fraction.as_primitive::<Float64Type>());
        let places = count.iter().zip(fraction);
        let results = low.iter().zip(high).zip(places).map(|((low, high), (count, fraction))| {
            let place = fraction? * (count? - 1) as f64;
            let weight = place - place.floor();
            let high = high.filter(|_| weight > 0.0);
            let low = low?;
            Some(high.map_or(low, |high| interpolate(low, high, weight)))
        });
        Ok(ColumnarValue::Array(Arc::new(results.collect::<Float64Array>())))
    }
}

/// The percentile of each list of values.
fn percentiles(state: &ArrayRef, wanted: &Wanted) -> DataFusionResult<ArrayRef> {
    let lists = state.as_list_opt::<i32>().ok_or_else(not_a_list)?;
    let several = match wanted {
        Wanted::OfFloats(percentile) => std::slice::from_ref(percentile),
        Wanted::Several(several) => several,
        Wanted::OfDecimals => return medians(lists),
    };
    let mut values =
        cast(lists.values(), &DataType::Float64)?.as_primitive::<Float64Type>().values().to_vec();
    let column = |_: &Percentile| Float64Builder::with_capacity(lists.len());
    let mut columns: Vec<Float64Builder> = several.iter().map(column).collect();
    for bounds in lists.offsets().windows(2) {
        let [from, to] = bounds else { continue };
        let values = values.get_mut(*from as usize..*to as usize).unwrap_or_default();
        match (columns.as_mut_slice(), several) {
            ([column], [percentile]) => column.append_option(percentile.compute(values)),
            (columns, several) => {
                let results = compute_all(several, values);
                columns.iter_mut().zip(results).for_each(|(column, it)| column.append_option(it));
            }
        }
    }
    let of = lists.value_type();
    let columns = columns.iter_mut().map(|column| Ok(cast(&column.finish(), &of)?));
    let mut columns = columns.collect::<DataFusionResult<Vec<_>>>()?;
    match wanted {
        Wanted::Several(several) => {
            let fields = fields(&of, several.len());
            Ok(Arc::new(StructArray::try_new_with_length(fields, columns, None, lists.len())?))
        }
        _ => columns.pop().ok_or_else(not_a_list),
    }
}

/// The fields of so many percentiles.
fn fields(of: &DataType, count: usize) -> Fields {
    (0..count).map(|at| Field::new(at.to_string(), of.clone(), true)).collect()
}

/// The median of each list of decimals, which have fewer than 38 digits.
fn medians(lists: &ListArray) -> DataFusionResult<ArrayRef> {
    let values = lists.values().as_primitive_opt::<Decimal128Type>().ok_or_else(not_a_list)?;
    let mut all = values.values().to_vec();
    let mut results = Decimal128Builder::with_capacity(lists.len());
    for bounds in lists.offsets().windows(2) {
        let [from, to] = bounds else { continue };
        let values = all.get_mut(*from as usize..*to as usize).unwrap_or_default();
        let middle = values.len() / 2;
        if values.is_empty() {
            results.append_null();
            continue;
        }
        let is_between = values.len() % 2 == 0;
        let (before, value, _) = values.select_nth_unstable(middle);
        let lower = before.iter().max().filter(|_| is_between);
        let (lower, value) = (lower.copied().unwrap_or(*value), *value);
        results.append_value((lower + value) * 5);
    }
    let result = results.finish().with_data_type(result_type(lists.value_type()));
    Ok(Arc::new(result))
}

fn not_a_list() -> DataFusionError {
    DataFusionError::Internal("the state of a percentile is no list".to_owned())
}

/// Wraps DataFusion's accumulator of all values, or of all distinct values.
#[derive(Debug)]
struct PercentileAccumulator {
    inner: Box<dyn Accumulator>,
    percentile: Wanted,
    /// Whether `inner.state()` keeps the values, as it does for distinct ones; otherwise it drains
    /// them.
    state_keeps_values: bool,
    /// The state that was drained by the last evaluation.
    taken: Option<ArrayRef>,
}

impl PercentileAccumulator {
    /// Puts drained values back. A window evaluates time and again, and changes the values in
    /// between.
    fn put_back(&mut self) -> DataFusionResult<()> {
        self.taken.take().map_or(Ok(()), |taken| self.inner.merge_batch(&[taken]))
    }
}

impl Accumulator for PercentileAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.put_back()?;
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        self.put_back()?;
        let state = match self.inner.state()?.into_iter().next() {
            Some(ScalarValue::List(list)) => list as ArrayRef,
            _ => return Err(not_a_list()),
        };
        let results = percentiles(&state, &self.percentile)?;
        self.taken = Some(state).filter(|_| !self.state_keeps_values);
        ScalarValue::try_from_array(&results, 0)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.put_back()?;
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.put_back()?;
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.put_back()?;
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Wraps DataFusion's accumulator of the values of groups.
struct PercentileGroupsAccumulator {
    inner: Box<dyn GroupsAccumulator>,
    percentile: Wanted,
}

impl GroupsAccumulator for PercentileGroupsAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> DataFusionResult<()> {
        self.inner.update_batch(values, groups, filter, count)
    }

    /// Asking for the state drops the emitted groups, just as evaluating does.
    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        percentiles(self.inner.state(emit_to)?.first().ok_or_else(not_a_list)?, &self.percentile)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        count: usize,
    ) -> DataFusionResult<()> {
        self.inner.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(fraction: f64, values: &[f64]) -> Option<f64> {
        Percentile { fraction, descending: false }.compute(&mut values.to_vec())
    }

    #[test]
    fn lies_between_two_values() {
        assert_eq!(value(0.333333333, &[10.0, 0.0]), Some(10.0 * 0.333333333));
        assert_eq!(value(0.25, &[7.0, 3.0, 4.0]), Some(3.5));
        assert_eq!(value(0.5, &[7.0, 3.0, 4.0]), Some(4.0));
        assert_eq!(value(1.0, &[7.0, 3.0, 4.0]), Some(7.0));
        assert_eq!(value(0.0, &[7.0, 3.0, 4.0]), Some(3.0));
        assert_eq!(value(0.3, &[5.0]), Some(5.0));
        assert_eq!(value(0.3, &[]), None);
        let descending = Percentile { fraction: 0.25, descending: true };
        assert_eq!(descending.compute(&mut [7.0, 3.0, 4.0]), Some(5.5));
    }

    #[test]
    fn several_are_those_of_each() {
        let fractions = [0.5, 0.0, 0.9, 0.25, 0.9, 1.0, 0.26, 0.251, 0.99, 0.333];
        let several = fractions.map(|fraction| Percentile { fraction, descending: false });
        for count in 0..40_u64 {
            let number =
                |at: u64| (at * 7919 % 23) as f64 / 4.0 - if at == 9 { 1e300 } else { 0.0 };
            let values: Vec<f64> = (0..count).map(number).collect();
            let each = several.map(|one| one.compute(&mut values.clone()));
            assert_eq!(compute_all(&several, &mut values.clone()), each, "{count} values");
        }
    }

    #[test]
    fn no_overflow_and_no_nan_but_where_it_belongs() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for at in [0.25, 0.5] {
            assert_eq!(value(at, &[inf, inf]), Some(inf));
            assert_eq!(value(at, &[-inf, -inf]), Some(-inf));
            assert_eq!(value(at, &[-inf, 1.0]), Some(-inf));
            assert_eq!(value(at, &[1.0, inf]), Some(inf));
            assert!(value(at, &[-inf, inf]).is_some_and(f64::is_nan));
            assert!(value(at, &[1.0, nan]).is_some_and(f64::is_nan));
            assert!(value(at, &[f64::MIN, f64::MAX]).is_some_and(f64::is_finite));
            assert!(value(at, &[f64::MAX, f64::MAX]).is_some_and(f64::is_finite));
        }
        assert_eq!(value(0.5, &[1e308, 1.2e308]), Some(1.1e308));
    }
}
