//! Aggregates of the rows in a moving frame of a window, without a trace of the rows that have left
//! it.
//!
//! Where this stands on the road of a query: accumulators of `aggregates`. DataFusion's (55.2) take
//! a row that leaves out of what they have summed up. Of floats, that leaves its rounding behind: 1
//! is nothing beside 1e20, a NaN or an infinity never goes away, and the deviation of equal values
//! is not 0. Bits united by XOR are 0 in place of null once all have gone, and some aggregates
//! cannot be taken back at all, so that a moving frame is refused.
//!
//! A frame is a queue. It is kept here as two stacks: in front, each row with the aggregate of it
//! and those that follow it in front; behind, the aggregate of the rows that came later. Both
//! together are the answer, a row that leaves is the top of the front, and when the front is empty,
//! the rows behind are turned over into it: twice per row in all.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array, UInt64Array};
use arrow_schema::{FieldRef, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

pub(in crate::sql) fn totals(of: Total) -> Box<dyn Accumulator> {
    Box::new(Sliding(Floats::<Sums>::new(of)))
}

pub(in crate::sql) fn moments(of: Moment) -> Box<dyn Accumulator> {
    Box::new(Sliding(Floats::<Moments>::new(of)))
}

pub(in crate::sql) fn merged(
    of: &Arc<AggregateUDF>,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn Accumulator>> {
    Ok(Box::new(Sliding(Merged::new(of, arguments)?)))
}

pub(in crate::sql) fn recomputed(
    of: &Arc<AggregateUDF>,
    arguments: AccumulatorArgs<'_>,
) -> Box<dyn Accumulator> {
    let accumulators = Accumulators::new(of, arguments);
    Box::new(Sliding(Recomputed { accumulators, batches: VecDeque::new(), left: 0 }))
}

/// What the accumulators here differ in.
trait Frame: Debug + Send + Sync + 'static {
    fn enter(&mut self, values: &[ArrayRef]) -> DataFusionResult<()>;

    fn leave(&mut self, rows: usize) -> DataFusionResult<()>;

    fn answer(&mut self) -> DataFusionResult<ScalarValue>;

    fn bytes(&self) -> usize;
}

/// A frame as an accumulator. A window asks for nothing that several of them would have to share.
#[derive(Debug)]
struct Sliding<F>(F);

impl<F: Frame> Accumulator for Sliding<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.enter(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.leave(rows_of(values))
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        self.0.answer()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.bytes()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Err(only_in_windows())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> DataFusionResult<()> {
        Err(only_in_windows())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// What is known of some rows of floats, and can be united with what is known of others.
trait Part: Copy + Debug + Default + Send + Sync + 'static {
    /// An aggregate that follows from it.
    type Of: Copy + Debug + Send + Sync + 'static;
    /// One row that counts.
    type Row: Copy + Debug + Send + Sync + 'static;

    fn row(x: Option<f64>, y: Option<f64>) -> Option<Self::Row>;

    fn with(self, row: Option<Self::Row>) -> Self;

    fn and(self, other: Self) -> Self;

    fn answer(self, of: Self::Of) -> Option<f64>;
}

/// An aggregate that follows from [`Sums`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) enum Total {
    Sum,
    Mean,
}

/// The most frequent aggregates of all want no more than this.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    sum: f64,
}

impl Part for Sums {
    type Of = Total;
    type Row = f64;

    fn row(x: Option<f64>, _: Option<f64>) -> Option<f64> {
        x
    }

    fn with(self, row: Option<f64>) -> Sums {
        row.map_or(self, |x| Sums { count: self.count + 1, sum: self.sum + x })
    }

    fn and(self, other: Sums) -> Sums {
        Sums { count: self.count + other.count, sum: self.sum + other.sum }
    }

    fn answer(self, of: Total) -> Option<f64> {
        let answer = match of {
            Total::Sum => self.sum,
            Total::Mean => self.sum / self.count as f64,
        };
        (self.count > 0).then_some(answer)
    }
}

/// An aggregate that follows from [`Moments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) enum Moment {
    Variance { sample: bool },
    Deviation { sample: bool },
    Covariance { sample: bool },
    Correlation,
    Slope,
    Intercept,
    R2,
    MeanX,
    MeanY,
    SquaresX,
    SquaresY,
    Products,
}

/// What there is to know of some pairs of floats: their number, means, and the squares and products
/// of the distances from these. Of an aggregate of one argument, both are the same.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Part for Moments {
    type Of = Moment;
    type Row = (f64, f64);

    fn row(x: Option<f64>, y: Option<f64>) -> Option<(f64, f64)> {
        x.zip(y)
    }

    fn with(self, pair: Option<(f64, f64)>) -> Moments {
        let Some((x, y)) = pair else { return self };
        let count = self.count + 1;
        let (from_x, from_y) = (x - self.x, y - self.y);
        let (mean_x, mean_y) = (self.x + from_x / count as f64, self.y + from_y / count as f64);
        Moments {
            count,
            x: mean_x,
            y: mean_y,
            xx: self.xx + from_x * (x - mean_x),
            yy: self.yy + from_y * (y - mean_y),
            xy: self.xy + from_x * (y - mean_y),
        }
    }

    fn and(self, other: Moments) -> Moments {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let (x, y) = (other.x - self.x, other.y - self.y);
        let weight = self.count as f64 * share;
        Moments {
            count,
            x: self.x + x * share,
            y: self.y + y * share,
            xx: self.xx + other.xx + x * x * weight,
            yy: self.yy + other.yy + y * y * weight,
            xy: self.xy + other.xy + x * y * weight,
        }
    }

    /// As DataFusion has it of all rows at once.
    fn answer(self, of: Moment) -> Option<f64> {
        let count = self.count as f64;
        let known = |least: u64, answer: f64| (self.count >= least).then_some(answer);
        let by = |sample: bool, sum: f64| {
            known(1 + u64::from(sample), sum / (count - f64::from(u8::from(sample))))
        };
        let (var_x, var_y, covar) = (self.xx / count, self.yy / count, self.xy / count);
        match of {
            Moment::Variance { sample: false } | Moment::Deviation { sample: false }
                if self.count == 1 =>
            {
                Some(0.0)
            }
            Moment::Variance { sample } => by(sample, self.xx),
            Moment::Deviation { sample } => by(sample, self.xx).map(f64::sqrt),
            Moment::Covariance { sample } => by(sample, self.xy),
            Moment::Correlation if self.x.is_nan() && self.y.is_nan() => Some(f64::NAN),
            Moment::Correlation
                if self.x.is_nan() || self.y.is_nan() || var_x == 0.0 || var_y == 0.0 =>
            {
                None
            }
            Moment::Correlation => known(2, covar / var_x.sqrt() / var_y.sqrt()),
            Moment::Slope | Moment::Intercept | Moment::R2 if var_x == 0.0 => None,
            Moment::Slope => known(2, covar / var_x),
            Moment::Intercept => known(2, self.y - covar / var_x * self.x),
            Moment::R2 if var_y == 0.0 => None,
            Moment::R2 => known(2, covar * covar / (var_x * var_y)),
            Moment::MeanX => known(1, self.x),
            Moment::MeanY => known(1, self.y),
            Moment::SquaresX => known(1, self.xx),
            Moment::SquaresY => known(1, self.yy),
            Moment::Products => known(1, self.xy),
        }
    }
}

/// Sums, averages, deviations and the like, of floats.
#[derive(Debug)]
struct Floats<P: Part> {
    of: P::Of,
    /// The rows that leave first, the first of all on top.
    front: Vec<P>,
    /// The rows that follow, those with nulls as `None`.
    behind: Vec<Option<P::Row>>,
    all_behind: P,
}

impl<P: Part> Floats<P> {
    fn new(of: P::Of) -> Floats<P> {
        Floats { of, front: Vec::new(), behind: Vec::new(), all_behind: P::default() }
    }

    fn turn_over(&mut self) {
        let mut from_here_on = P::default();
        for row in self.behind.drain(..).rev() {
            from_here_on = from_here_on.with(row);
            self.front.push(from_here_on);
        }
        self.all_behind = P::default();
    }
}

impl<P: Part> Frame for Floats<P> {
    /// The functions of two arguments are of y and x.
    fn enter(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        for (x, y) in floats(values.last())?.iter().zip(floats(values.first())?) {
            let row = P::row(x, y);
            self.behind.push(row);
            self.all_behind = self.all_behind.with(row);
        }
        Ok(())
    }

    fn leave(&mut self, rows: usize) -> DataFusionResult<()> {
        for _ in 0..rows {
            if self.front.is_empty() {
                self.turn_over();
            }
            self.front.pop().ok_or_else(no_rows)?;
        }
        Ok(())
    }

    fn answer(&mut self) -> DataFusionResult<ScalarValue> {
        let front = self.front.last().copied().unwrap_or_default();
        Ok(ScalarValue::Float64(front.and(self.all_behind).answer(self.of)))
    }

    fn bytes(&self) -> usize {
        self.front.capacity() * size_of::<P>()
            + self.behind.capacity() * size_of::<Option<P::Row>>()
    }
}

/// Bits and truth values: the states of DataFusion's accumulators can be united.
#[derive(Debug)]
struct Merged {
    accumulators: Accumulators,
    /// The states of the rows that leave first, the first of all on top.
    front: Vec<Vec<ScalarValue>>,
    behind: Vec<Vec<ScalarValue>>,
    all_behind: Box<dyn Accumulator>,
}

impl Merged {
    fn new(of: &Arc<AggregateUDF>, arguments: AccumulatorArgs<'_>) -> DataFusionResult<Merged> {
        let accumulators = Accumulators::new(of, arguments);
        let all_behind = accumulators.one()?;
        Ok(Merged { accumulators, front: Vec::new(), behind: Vec::new(), all_behind })
    }

    fn turn_over(&mut self) -> DataFusionResult<()> {
        let mut from_here_on = self.accumulators.one()?;
        for row in self.behind.drain(..).rev() {
            from_here_on.update_batch(&arrays(&row)?)?;
            self.front.push(from_here_on.state()?);
        }
        self.all_behind = self.accumulators.one()?;
        Ok(())
    }
}

impl Frame for Merged {
    fn enter(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        for row in 0..rows_of(values) {
            let row = values.iter().map(|values| ScalarValue::try_from_array(values, row));
            self.behind.push(row.collect::<DataFusionResult<_>>()?);
        }
        self.all_behind.update_batch(values)
    }

    fn leave(&mut self, rows: usize) -> DataFusionResult<()> {
        for _ in 0..rows {
            if self.front.is_empty() {
                self.turn_over()?;
            }
            self.front.pop().ok_or_else(no_rows)?;
        }
        Ok(())
    }

    fn answer(&mut self) -> DataFusionResult<ScalarValue> {
        let Some(front) = self.front.last() else { return self.all_behind.evaluate() };
        let mut all = self.accumulators.one()?;
        all.merge_batch(&arrays(front)?)?;
        if !self.behind.is_empty() {
            all.merge_batch(&arrays(&self.all_behind.state()?)?)?;
        }
        all.evaluate()
    }

    fn bytes(&self) -> usize {
        let scalars = self.front.iter().chain(&self.behind).map(Vec::capacity).sum::<usize>();
        self.all_behind.size() + scalars * size_of::<ScalarValue>()
    }
}

/// Aggregates that have nothing for it but to look at all rows of the frame each time: lists, and
/// distinct values.
#[derive(Debug)]
struct Recomputed {
    accumulators: Accumulators,
    /// The arguments, in the order in which they came. As they do so row by row, those that follow
    /// a batch with no more rows than they have become one with it, but for the first.
    batches: VecDeque<Vec<ArrayRef>>,
    /// How many rows of the first batch have left.
    left: usize,
}

impl Recomputed {
    /// Each argument, of the rows in the frame.
    fn all(&self) -> DataFusionResult<Vec<ArrayRef>> {
        let Some(first) = self.batches.front() else { return Ok(Vec::new()) };
        let rest = || self.batches.iter().skip(1);
        let united = |(column, values): (usize, &ArrayRef)| {
            let still_in = values.slice(self.left, values.len() - self.left);
            let parts: Vec<&dyn Array> = [&still_in]
                .into_iter()
                .chain(rest().map(|batch| &batch[column]))
                .map(AsRef::as_ref)
                .collect();
            let all = concat(&parts)?;
            if self.accumulators.is_reversed { backwards(&all) } else { Ok(all) }
        };
        first.iter().enumerate().map(united).collect()
    }
}

impl Frame for Recomputed {
    fn enter(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        if rows_of(values) == 0 {
            return Ok(());
        }
        let mut new: Vec<ArrayRef> = values.iter().map(compact).collect();
        while self.batches.len() > 1
            && let Some(last) = self.batches.pop_back_if(|last| rows_of(last) <= rows_of(&new))
        {
            let pairs = last.iter().zip(&new);
            new = pairs
                .map(|(last, new)| Ok(concat(&[last, new])?))
                .collect::<DataFusionResult<_>>()?;
        }
        self.batches.push_back(new);
        Ok(())
    }

    fn leave(&mut self, rows: usize) -> DataFusionResult<()> {
        self.left += rows;
        while let Some(first) = self.batches.pop_front_if(|first| rows_of(first) <= self.left) {
            self.left -= rows_of(&first);
        }
        if self.batches.is_empty() && self.left > 0 { Err(no_rows()) } else { Ok(()) }
    }

    fn answer(&mut self) -> DataFusionResult<ScalarValue> {
        let mut all = self.accumulators.one()?;
        if !self.batches.is_empty() {
            all.update_batch(&self.all()?)?;
        }
        all.evaluate()
    }

    fn bytes(&self) -> usize {
        self.batches.iter().flatten().map(|values| values.get_array_memory_size()).sum()
    }
}

/// What makes accumulators of DataFusion's.
#[derive(Debug)]
struct Accumulators {
    of: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Accumulators {
    fn new(of: &Arc<AggregateUDF>, arguments: AccumulatorArgs<'_>) -> Accumulators {
        Accumulators {
            of: Arc::clone(of),
            return_field: arguments.return_field,
            schema: arguments.schema.clone(),
            ignore_nulls: arguments.ignore_nulls,
            order_bys: arguments.order_bys.to_vec(),
            is_reversed: arguments.is_reversed,
            name: arguments.name.to_owned(),
            is_distinct: arguments.is_distinct,
            exprs: arguments.exprs.to_vec(),
            expr_fields: arguments.expr_fields.to_vec(),
        }
    }

    fn one(&self) -> DataFusionResult<Box<dyn Accumulator>> {
        self.of.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

fn rows_of(values: &[ArrayRef]) -> usize {
    values.first().map_or(0, |values| values.len())
}

fn floats(values: Option<&ArrayRef>) -> DataFusionResult<&Float64Array> {
    values.and_then(|values| values.as_primitive_opt::<Float64Type>()).ok_or_else(no_rows)
}

/// Views of texts without the other texts of the batch that they come from.
fn compact(values: &ArrayRef) -> ArrayRef {
    if let Some(texts) = values.as_string_view_opt() {
        return Arc::new(texts.gc());
    }
    values.as_binary_view_opt().map_or_else(|| Arc::clone(values), |blobs| Arc::new(blobs.gc()))
}

fn arrays(row: &[ScalarValue]) -> DataFusionResult<Vec<ArrayRef>> {
    row.iter().map(ScalarValue::to_array).collect()
}

fn backwards(values: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let rows = UInt64Array::from_iter_values((0..values.len() as u64).rev());
    Ok(take(values, &rows, None)?)
}

fn no_rows() -> DataFusionError {
    DataFusionError::Internal("a frame is left by rows that never came into it".to_owned())
}

fn only_in_windows() -> DataFusionError {
    DataFusionError::Internal("the aggregate of a frame has no state".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of three rows, and of none between them.
    #[test]
    fn nothing_is_left_of_what_has_left() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(1e20),
            Some(1.0),
            Some(3.0),
            None,
            Some(f64::NAN),
            Some(0.1),
            Some(0.1),
            Some(0.1),
            Some(0.1),
        ]));
        let of = |mut floats: Box<dyn Accumulator>| {
            let mut answers = Vec::new();
            for row in 0..column.len() {
                floats.update_batch(&[column.slice(row, 1)]).unwrap();
                if row >= 3 {
                    floats.retract_batch(&[column.slice(row - 3, 1)]).unwrap();
                }
                let ScalarValue::Float64(answer) = floats.evaluate().unwrap() else {
                    panic!("floats")
                };
                answers.push(answer);
            }
            floats.retract_batch(&[column.slice(6, 3)]).unwrap();
            assert_eq!(floats.evaluate().unwrap(), ScalarValue::Float64(None));
            assert!(floats.retract_batch(&[column.slice(0, 1)]).is_err());
            answers
        };
        let sums = of(totals(Total::Sum));
        assert_eq!(sums[3], Some(4.0));
        assert!(sums[4].is_some_and(f64::is_nan) && sums[6].is_some_and(f64::is_nan));
        assert!(sums[7].is_some_and(|sum| (sum - 0.3).abs() < 1e-15));
        assert_eq!(of(totals(Total::Mean))[3], Some(2.0));
        assert_eq!(of(moments(Moment::Deviation { sample: true }))[3], Some(2.0_f64.sqrt()));
        assert_eq!(of(moments(Moment::Deviation { sample: true }))[8], Some(0.0));
        assert_eq!(of(moments(Moment::Variance { sample: false }))[0], Some(0.0));
        assert_eq!(of(moments(Moment::Variance { sample: true }))[0], None);
        assert_eq!(of(moments(Moment::Correlation))[8], None);
    }
}
