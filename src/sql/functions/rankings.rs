//! `row_number`, `rank`, `dense_rank` and `ntile` as BIGINT, as they are elsewhere.
//!
//! DataFusion's (55.2) are unsigned: the difference of two ranks wraps around, half of a row's
//! number is a decimal, and a number has no negative.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, FieldRef, SortOptions};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_window::ntile::ntile_udwf;
use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

/// All four.
pub(in crate::sql) fn functions() -> [WindowUDF; 4] {
    [row_number_udwf(), rank_udwf(), dense_rank_udwf(), ntile_udwf()]
        .map(|inner| WindowUDF::from(Ranking { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ranking {
    /// DataFusion's function.
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Ranking {
    delegate! {
        name() -> &str;
        signature() -> &Signature;
        expressions(arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>>;
        sort_options() -> Option<SortOptions>;
        documentation() -> Option<&Documentation>;
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let field = self.inner.field(arguments)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)))
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.partition_evaluator_factory(arguments)?;
        Ok(Box::new(Signed(inner)))
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

/// Numbers of rows as signed integers.
#[derive(Debug)]
struct Signed(Box<dyn PartitionEvaluator>);

fn signed(numbers: ArrayRef) -> DataFusionResult<ArrayRef> {
    Ok(arrow_cast::cast(&numbers, &DataType::Int64)?)
}

impl PartitionEvaluator for Signed {
    fn memoize(&mut self, state: &mut WindowAggState) -> DataFusionResult<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> DataFusionResult<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DataFusionResult<ArrayRef> {
        signed(self.0.evaluate_all(values, rows)?)
    }

    fn evaluate(
        &mut self,
        values: &[ArrayRef],
        range: &Range<usize>,
    ) -> DataFusionResult<ScalarValue> {
        match self.0.evaluate(values, range)? {
            // One row at a time: casts go through arrays.
            ScalarValue::UInt64(number) => {
                Ok(ScalarValue::Int64(number.and_then(|number| i64::try_from(number).ok())))
            }
            other => other.cast_to(&DataType::Int64),
        }
    }

    fn evaluate_all_with_rank(
        &self,
        rows: usize,
        ranks: &[Range<usize>],
    ) -> DataFusionResult<ArrayRef> {
        signed(self.0.evaluate_all_with_rank(rows, ranks)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
