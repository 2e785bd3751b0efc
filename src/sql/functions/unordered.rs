//! `abs` and the functions that are not defined for all numbers (`sqrt`, `ln`, `acos`, …), whose
//! results have no known order where DataFusion's (55.2) fail to tell one.
//!
//! Where this stands on the road of a query: a session registers `abs`, and `in_doubles` has the
//! others, in place of DataFusion's. Those compare the bounds of their argument, which may be
//! unknown (`x % 2`) or beyond what the function is defined for. The error hides that rows are in
//! an order which names the function, so that the last check of a plan refuses it.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::math;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// The one that takes numbers of all types.
pub(in crate::sql) fn function() -> ScalarUDF {
    or_unordered(math::abs()).as_ref().clone()
}

/// A function whose results have no known order where it cannot tell one.
pub(super) fn or_unordered(inner: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(OrUnordered { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrUnordered {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for OrUnordered {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        is_strict() -> bool;
        coerce_types(arguments: &[DataType]) -> DataFusionResult<Vec<DataType>>;
        simplify(arguments: Vec<Expr>, info: &SimplifyContext)
            -> DataFusionResult<ExprSimplifyResult>;
        evaluate_bounds(arguments: &[&Interval]) -> DataFusionResult<Interval>;
        invoke_with_args(given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue>;
        documentation() -> Option<&Documentation>;
    }

    fn output_ordering(&self, arguments: &[ExprProperties]) -> DataFusionResult<SortProperties> {
        Ok(self.inner.output_ordering(arguments).unwrap_or(SortProperties::Unordered))
    }
}
