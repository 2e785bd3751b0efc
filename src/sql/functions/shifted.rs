//! `lag(x, n, default)` and `lead` where the offset or the default is computed for each row.
//!
//! Where this stands on the road of a query: an evaluator of `lead`, over a whole partition.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use datafusion::common::{ScalarValue, exec_err, not_impl_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::PartitionEvaluator;
use datafusion::logical_expr::function::PartitionEvaluatorArgs;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

/// Whether an offset or a default is no literal.
pub(super) fn is_needed(arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
    arguments.iter().skip(1).any(|argument| literal(argument).is_none())
}

pub(super) fn evaluator(
    looks_back: bool,
    arguments: &PartitionEvaluatorArgs<'_>,
) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
    if arguments.ignore_nulls() {
        return not_impl_err!(
            "lag and lead with IGNORE NULLS take a number for the offset, and a constant default"
        );
    }
    let looks_back = looks_back != arguments.is_reversed();
    Ok(Box::new(Shifted { looks_back }))
}

#[derive(Debug)]
struct Shifted {
    looks_back: bool,
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DataFusionResult<ArrayRef> {
        let [of_rows, offsets, others @ ..] = values else {
            return exec_err!("lag and lead take an offset here");
        };
        // What does not fit is an error.
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let offsets = cast_with_options(offsets, &DataType::Int64, &strict)?;
        let offsets = offsets.as_primitive::<Int64Type>();
        let default = match others.first() {
            Some(default) => cast_with_options(default, of_rows.data_type(), &strict)?,
            None => arrow_array::new_null_array(of_rows.data_type(), rows),
        };
        let null = arrow_array::new_null_array(of_rows.data_type(), 1);
        let source = |row: usize| {
            let Some(offset) = offsets.is_valid(row).then(|| offsets.value(row)) else {
                return (2, 0);
            };
            let offset = if self.looks_back { offset.checked_neg() } else { Some(offset) };
            let place = offset.and_then(|by| i64::try_from(row).ok()?.checked_add(by));
            match place.and_then(|place| usize::try_from(place).ok()).filter(|at| *at < rows) {
                Some(place) => (0, place),
                None => (1, row),
            }
        };
        let sources: Vec<(usize, usize)> = (0..rows).map(source).collect();
        Ok(interleave(&[of_rows.as_ref(), default.as_ref(), null.as_ref()], &sources)?)
    }
}

pub(super) fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}
