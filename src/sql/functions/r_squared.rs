//! `regr_r2(y, x)` of a `y` that does not vary.
//!
//! Where this stands on the road of a query: accumulators of `aggregates`. A constant is explained
//! by any line, so that the answer is 1, as in PostgreSQL and DuckDB, and null only where `x` does
//! not vary. DataFusion's accumulator (55.2) gives null for both; here its answer is replaced where
//! its state says that only `y` is constant.

use std::mem::size_of_val;

use arrow_array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::Accumulator;

/// DataFusion's accumulator of `regr_r2`, corrected.
pub(super) fn accumulator(inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    Box::new(RSquared { inner })
}

#[derive(Debug)]
struct RSquared {
    inner: Box<dyn Accumulator>,
}

impl Accumulator for RSquared {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let answer = self.inner.evaluate()?;
        if !answer.is_null() {
            return Ok(answer);
        }
        // The number of rows, both means, the squares of the deviations of x and of y, and the
        // products of these.
        let state = self.inner.state()?;
        let [ScalarValue::UInt64(Some(2..)), _, _, of_x, of_y, _] = state.as_slice() else {
            return Ok(answer);
        };
        let zero = ScalarValue::Float64(Some(0.0));
        Ok(match *of_x != zero && *of_y == zero {
            true => ScalarValue::Float64(Some(1.0)),
            false => answer,
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        self.inner.merge_batch(states)
    }
}
