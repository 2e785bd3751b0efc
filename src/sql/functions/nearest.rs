//! `first_value` and `last_value` that ignore nulls, which fill gaps with the value before or after
//! them.
//!
//! DataFusion's (55.2) look at all rows of the frame for each row, so that a partition takes the
//! square of its rows. The nearest value is found from the end at which it is.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{FieldRef, SortOptions};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_window::nth_value::{first_value_udwf, last_value_udwf};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

/// Both functions.
pub(in crate::sql) fn functions() -> [WindowUDF; 2] {
    [end(false), end(true)]
}

fn end(last: bool) -> WindowUDF {
    let inner = if last { last_value_udwf() } else { first_value_udwf() };
    WindowUDF::from(FrameEnd { inner, last })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FrameEnd {
    /// DataFusion's function.
    inner: Arc<WindowUDF>,
    last: bool,
}

impl WindowUDFImpl for FrameEnd {
    delegate! {
        name() -> &str;
        signature() -> &Signature;
        expressions(arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>>;
        field(arguments: WindowUDFFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        sort_options() -> Option<SortOptions>;
        documentation() -> Option<&Documentation>;
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        let ignores_nulls = arguments.ignore_nulls();
        let inner = self.inner.partition_evaluator_factory(arguments)?;
        Ok(match ignores_nulls {
            true => Box::new(NearestValid { inner, last: self.last, is_known: false }),
            false => inner,
        })
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::Reversed(Arc::new(end(!self.last)))
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

#[derive(Debug)]
struct NearestValid {
    inner: Box<dyn PartitionEvaluator>,
    last: bool,
    /// Whether `inner` may know the first value of all frames that are still to come.
    is_known: bool,
}

impl PartitionEvaluator for NearestValid {
    fn memoize(&mut self, state: &mut WindowAggState) -> DataFusionResult<()> {
        self.is_known = !self.last;
        self.inner.memoize(state)
    }

    fn evaluate(
        &mut self,
        values: &[ArrayRef],
        range: &Range<usize>,
    ) -> DataFusionResult<ScalarValue> {
        let with_nulls = values.first().and_then(|array| Some((array, array.nulls()?)));
        let Some((array, nulls)) = with_nulls.filter(|_| !self.is_known) else {
            return self.inner.evaluate(values, range);
        };
        let found = match self.last {
            true => last_valid(nulls, range),
            false => first_valid(nulls, range),
        };
        match found {
            Some(row) => ScalarValue::try_from_array(array, row),
            None => ScalarValue::try_from(array.data_type()),
        }
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }
}

/// The rows that are counted at once where there are many nulls.
const MOST_ROWS: usize = 4096;

fn first_valid(nulls: &NullBuffer, range: &Range<usize>) -> Option<usize> {
    let (mut from, mut rows) = (range.start, 8);
    while from < range.end {
        let to = range.end.min(from + rows);
        if nulls.inner().slice(from, to - from).count_set_bits() > 0 {
            return (from..to).find(|row| nulls.is_valid(*row));
        }
        (from, rows) = (to, MOST_ROWS.min(2 * rows));
    }
    None
}

fn last_valid(nulls: &NullBuffer, range: &Range<usize>) -> Option<usize> {
    let (mut to, mut rows) = (range.end, 8);
    while to > range.start {
        let from = range.start.max(to.saturating_sub(rows));
        if nulls.inner().slice(from, to - from).count_set_bits() > 0 {
            return (from..to).rev().find(|row| nulls.is_valid(*row));
        }
        (to, rows) = (from, MOST_ROWS.min(2 * rows));
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_nearest_value_is_found(
            valid in prop::collection::vec(prop::bool::weighted(0.02), 0..3000),
            from: prop::sample::Index,
            to: prop::sample::Index,
        ) {
            let (a, b) = (from.index(valid.len() + 1), to.index(valid.len() + 1));
            let range = a.min(b)..a.max(b);
            let nulls = NullBuffer::from(valid.clone());
            let first = range.clone().find(|row| valid[*row]);
            let last = range.clone().rev().find(|row| valid[*row]);
            prop_assert_eq!(first_valid(&nulls, &range), first);
            prop_assert_eq!(last_valid(&nulls, &range), last);
        }
    }
}
