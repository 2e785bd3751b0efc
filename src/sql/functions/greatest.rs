//! `greatest` and `least` of lists and structs, in the order of ORDER BY: null is the greatest
//! item, as in PostgreSQL and DuckDB.
//!
//! Where this stands on the road of a query: a session registers them in place of DataFusion's
//! (55.2), which take null for the least item. Of other types, these are DataFusion's.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::{DataType, SortOptions};
use datafusion::arrow::array::make_comparator;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Both of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let both = [(core::greatest(), true), (core::least(), false)];
    both.into_iter().map(|(inner, greatest)| ScalarUDF::from(Extreme { inner, greatest }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<ScalarUDF>,
    greatest: bool,
}

impl ScalarUDFImpl for Extreme {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        coerce_types(arguments: &[DataType]) -> DataFusionResult<Vec<DataType>>;
        documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if !given.args.first().is_some_and(|first| first.data_type().is_nested()) {
            return self.inner.invoke_with_args(given);
        }
        let are_constant = given.args.iter().all(|of| matches!(of, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { given.number_rows };
        let mut arguments = given.args.iter().map(|argument| argument.to_array(rows));
        let Some(first) = arguments.next() else { return exec_err!("no arguments") };
        let best = arguments.try_fold(first?, |best, other| self.better(&best, &other?))?;
        Ok(match are_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&best, 0)?),
            false => ColumnarValue::Array(best),
        })
    }
}

impl Extreme {
    /// The greater or the lesser values of two, row by row; the other one where one is null.
    fn better(&self, best: &ArrayRef, other: &ArrayRef) -> DataFusionResult<ArrayRef> {
        let options = SortOptions { descending: false, nulls_first: false };
        let order = make_comparator(best.as_ref(), other.as_ref(), options)?;
        let keeps = |row: usize| {
            let order = order(row, row);
            let is_best = if self.greatest { order.is_ge() } else { order.is_le() };
            other.is_null(row) || best.is_valid(row) && is_best
        };
        let kept = BooleanArray::from_iter((0..best.len()).map(|row| Some(keeps(row))));
        Ok(zip(&kept, best, other)?)
    }
}
