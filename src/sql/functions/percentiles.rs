//! `percentile_cont` (`quantile_cont`) and `median` of floats, as exact as floats are.
//!
//! DataFusion's (55.2) keep six digits of how far between two values a percentile lies, give NaN
//! between two equal infinities and beside -∞, and an infinity where the difference of two values
//! (in `median`, their sum) is none of the numbers. Accumulators of ours stand around DataFusion's,
//! whose state is a list of all values, and find the answer in that list. All else is DataFusion's.

use std::sync::Arc;

use arrow_array::builder::Float64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, ColumnarValue, EmitTo, GroupsAccumulator,
};
use datafusion::physical_expr::PhysicalExpr;

/// The accumulator that stands for that of a function, `percentile_cont` or `median`.
pub(in crate::sql) fn accumulator(
    function: &AggregateUDF,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn Accumulator>> {
    let keeps_its_state = arguments.is_distinct;
    let of = function.accumulator(arguments.clone())?;
    Ok(match Place::of(&arguments)? {
        Some(place) => Box::new(Values { of, place, keeps_its_state, taken: None }),
        None => of,
    })
}

/// The same for groups.
pub(in crate::sql) fn groups_accumulator(
    function: &AggregateUDF,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    let of = function.create_groups_accumulator(arguments.clone())?;
    Ok(match Place::of(&arguments)? {
        Some(place) => Box::new(GroupValues { of, place }),
        None => of,
    })
}

/// Where among sorted values the answer lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// 0 at the first value, 1 at the last.
    at: f64,
    descending: bool,
}

impl Place {
    /// `None` where the values are not floats: the median of decimals is a decimal, and
    /// DataFusion's.
    fn of(arguments: &AccumulatorArgs<'_>) -> DataFusionResult<Option<Place>> {
        if !arguments.expr_fields.first().is_some_and(|value| value.data_type().is_floating()) {
            return Ok(None);
        }
        let at = arguments.exprs.get(1).map_or(Ok(0.5), constant)?;
        let descending = arguments.order_bys.first().is_some_and(|key| key.options.descending);
        Ok(Some(Place { at, descending }))
    }

    /// The value there. Sorts as far as it needs to.
    fn value(self, values: &mut [f64]) -> Option<f64> {
        let last = values.len().checked_sub(1)?;
        let rank = self.at * last as f64;
        let share = rank - rank.floor();
        let order =
            |a: &f64, b: &f64| if self.descending { b.total_cmp(a) } else { a.total_cmp(b) };
        let (_, value, after) =
            values.select_nth_unstable_by((rank.floor() as usize).min(last), order);
        let next = after.iter().copied().filter(|_| share > 0.0).min_by(order);
        Some(next.map_or(*value, |next| between(*value, next, share)))
    }
}

/// A constant argument. DataFusion has already seen that it is between 0 and 1.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> DataFusionResult<f64> {
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expr.evaluate(&nothing)? {
        ColumnarValue::Scalar(ScalarValue::Float64(Some(at))) => Ok(at),
        ColumnarValue::Scalar(ScalarValue::Float32(Some(at))) => Ok(f64::from(at)),
        _ => Err(DataFusionError::Plan("the percentile is no number".to_owned())),
    }
}

/// The number that lies a share of the way from one to the other.
fn between(from: f64, to: f64, share: f64) -> f64 {
    if from == to {
        return from;
    }
    if share == 0.5 {
        return from.midpoint(to);
    }
    let step = to - from;
    if step.is_finite() {
        from + step * share
    } else {
        // An infinity stays one, unless the other end is the opposite infinity. Neither product of
        // numbers overflows.
        from * (1.0 - share) + to * share
    }
}

/// The answers for some lists of values, in the type of the values.
fn answers(state: &ArrayRef, place: Place) -> DataFusionResult<ArrayRef> {
    let lists = state.as_list_opt::<i32>().ok_or_else(no_list)?;
    let mut values =
        cast(lists.values(), &DataType::Float64)?.as_primitive::<Float64Type>().values().to_vec();
    let mut found = Float64Builder::with_capacity(lists.len());
    for bounds in lists.offsets().windows(2) {
        let [from, to] = bounds else { continue };
        let values = values.get_mut(*from as usize..*to as usize);
        found.append_option(values.and_then(|values| place.value(values)));
    }
    Ok(cast(&found.finish(), &lists.value_type())?)
}

fn no_list() -> DataFusionError {
    DataFusionError::Internal("the state of a percentile is no list".to_owned())
}

/// DataFusion's accumulator of all values, or of all distinct ones.
#[derive(Debug)]
struct Values {
    of: Box<dyn Accumulator>,
    place: Place,
    /// Whether asking for the state leaves it there: that of distinct values.
    keeps_its_state: bool,
    /// The state that an answer took away.
    taken: Option<ArrayRef>,
}

impl Values {
    /// A window asks time and again, with other values each time: what an answer took away is put
    /// back before these come.
    fn put_back(&mut self) -> DataFusionResult<()> {
        self.taken.take().map_or(Ok(()), |taken| self.of.merge_batch(&[taken]))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.put_back()?;
        self.of.update_batch(values)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        self.put_back()?;
        let state = match self.of.state()?.into_iter().next() {
            Some(ScalarValue::List(list)) => list as ArrayRef,
            _ => return Err(no_list()),
        };
        let answers = answers(&state, self.place)?;
        self.taken = Some(state).filter(|_| !self.keeps_its_state);
        ScalarValue::try_from_array(&answers, 0)
    }

    fn size(&self) -> usize {
        self.of.size()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.put_back()?;
        self.of.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.put_back()?;
        self.of.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.put_back()?;
        self.of.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.of.supports_retract_batch()
    }
}

/// DataFusion's accumulator of the values of groups.
struct GroupValues {
    of: Box<dyn GroupsAccumulator>,
    place: Place,
}

impl GroupsAccumulator for GroupValues {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> DataFusionResult<()> {
        self.of.update_batch(values, groups, filter, count)
    }

    /// Their state lets go of the groups as their answers do.
    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        answers(self.of.state(emit_to)?.first().ok_or_else(no_list)?, self.place)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        self.of.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        count: usize,
    ) -> DataFusionResult<()> {
        self.of.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        self.of.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.of.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(at: f64, values: &[f64]) -> Option<f64> {
        Place { at, descending: false }.value(&mut values.to_vec())
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
        let descending = Place { at: 0.25, descending: true };
        assert_eq!(descending.value(&mut [7.0, 3.0, 4.0]), Some(5.5));
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
