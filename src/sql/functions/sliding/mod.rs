//! Aggregates over a moving frame of a window, which forget the rows that have left it.
//!
//! Where this stands on the road of a query: accumulators of `aggregates`. DataFusion's (55.2)
//! subtract a row that leaves from what they have summed up. With floats, that leaves rounding
//! errors behind: 1 is lost beside 1e20, a NaN or an infinity never goes away, and the deviation of
//! equal values is not 0. XOR over bits is 0 in place of null once all rows have left, and some
//! aggregates cannot retract rows at all, so that a moving frame is refused.
//!
//! A frame is a queue, kept here as two stacks: the front has, for each row, the aggregate of it
//! and the rows that follow it in the front; the back has the rows that came later, and their
//! aggregate. Both together give the result. A row that leaves is the top of the front; when the
//! front is empty, the back is turned over into it, so each row is added twice in all.

mod factory;
mod floats;
mod frame;
mod merged;
mod partial;
mod recomputed;

use std::sync::Arc;

use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};

use self::floats::FloatFrame;
use self::frame::Sliding;
use self::merged::MergedFrame;
pub(in crate::sql) use self::partial::{Moment, Total};
use self::partial::{Moments, Sums};
use self::recomputed::RecomputedFrame;

pub(in crate::sql) fn totals(function: Total) -> Box<dyn Accumulator> {
    Box::new(Sliding(FloatFrame::<Sums>::new(function)))
}

pub(in crate::sql) fn moments(function: Moment) -> Box<dyn Accumulator> {
    Box::new(Sliding(FloatFrame::<Moments>::new(function)))
}

pub(in crate::sql) fn merged(
    function: &Arc<AggregateUDF>,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn Accumulator>> {
    Ok(Box::new(Sliding(MergedFrame::new(function, arguments)?)))
}

pub(in crate::sql) fn recomputed(
    function: &Arc<AggregateUDF>,
    arguments: AccumulatorArgs<'_>,
) -> Box<dyn Accumulator> {
    Box::new(Sliding(RecomputedFrame::new(function, arguments)))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, ArrayRef, Float64Array};
    use datafusion::common::ScalarValue;

    use super::*;

    /// Frames of three rows, and an empty one at the end.
    #[test]
    fn rows_that_have_left_leave_no_trace() {
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
        let run = |mut floats: Box<dyn Accumulator>| {
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
        let sums = run(totals(Total::Sum));
        assert_eq!(sums[3], Some(4.0));
        assert!(sums[4].is_some_and(f64::is_nan) && sums[6].is_some_and(f64::is_nan));
        assert!(sums[7].is_some_and(|sum| (sum - 0.3).abs() < 1e-15));
        assert_eq!(run(totals(Total::Mean))[3], Some(2.0));
        assert_eq!(run(moments(Moment::Deviation { sample: true }))[3], Some(2.0_f64.sqrt()));
        assert_eq!(run(moments(Moment::Deviation { sample: true }))[8], Some(0.0));
        assert_eq!(run(moments(Moment::Variance { sample: false }))[0], Some(0.0));
        assert_eq!(run(moments(Moment::Variance { sample: true }))[0], None);
        assert_eq!(run(moments(Moment::Correlation))[8], None);
    }
}
