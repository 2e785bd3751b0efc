//! `ceil(x)` and `floor(x)` of decimals, whose results may have one more digit than the decimals.
//!
//! DataFusion (55.2) gives them the type of the argument, and fails where 99.5 of DECIMAL(3,1)
//! becomes 100.0.
//!
//! Where this stands on the road of a query: a session registers them in place of DataFusion's.
//! Simplification replaces them by these, of a wider decimal.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::math;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    cast,
};

/// Both of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [math::ceil(), math::floor()].into_iter().map(|inner| ScalarUDF::from(WholeNumber { inner }))
}

/// What simplification leaves of one of these functions.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn inner(function: &ScalarUDF) -> Option<&ScalarUDF> {
    function.inner().downcast_ref::<WholeNumber>().map(|function| &*function.inner)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeNumber {
    inner: Arc<ScalarUDF>,
}

/// The type that holds the results for decimals of a type, if that has room for a digit.
fn wider(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Decimal128(precision, scale)
            if *scale > 0 && *precision < DECIMAL128_MAX_PRECISION =>
        {
            Some(DataType::Decimal128(precision + 1, *scale))
        }
        _ => None,
    }
}

impl ScalarUDFImpl for WholeNumber {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        documentation() -> Option<&Documentation>;
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments.first().and_then(wider) {
            Some(wide) => Ok(wide),
            None => self.inner.return_type(arguments),
        }
    }

    fn simplify(
        &self,
        mut arguments: Vec<Expr>,
        context: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        if let [argument] = arguments.as_mut_slice()
            && let Some(wide) = wider(&context.get_data_type(argument)?)
        {
            *argument = cast(std::mem::take(argument), wide);
        }
        Ok(ExprSimplifyResult::Simplified(self.inner.call(arguments)))
    }

    /// Only of constants.
    fn invoke_with_args(&self, mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if let [argument] = given.args.as_mut_slice()
            && let Some(wide) = wider(&argument.data_type())
        {
            *argument = argument.cast_to(&wide, None)?;
            given.arg_fields = vec![Arc::new(Field::new("x", wide, true))];
        }
        self.inner.invoke_with_args(given)
    }
}
