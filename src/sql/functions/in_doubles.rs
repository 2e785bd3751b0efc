//! Functions of real numbers, which compute in doubles whatever float they are given, as in
//! PostgreSQL and DuckDB: `ln(x)` of a `float32`.
//!
//! Where this stands on the road of a query: a session registers them in place of DataFusion's
//! (55.2), whose result has the type of the argument, with seven digits. Simplification replaces
//! them by these once the argument is a double.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::math;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::sql::functions::unordered::or_unordered;
#[cfg(feature = "cluster")]
use crate::sql::functions::whole_numbers;

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let of_one = [
        math::acos(),
        math::acosh(),
        math::asin(),
        math::asinh(),
        math::atan(),
        math::atanh(),
        math::cbrt(),
        math::cos(),
        math::cosh(),
        math::cot(),
        math::degrees(),
        math::exp(),
        math::ln(),
        math::log10(),
        math::log2(),
        math::radians(),
        math::sin(),
        math::sinh(),
        math::sqrt(),
        math::tan(),
        math::tanh(),
    ];
    let of_two = [math::atan2()];
    let all = of_one.into_iter().map(|inner| (inner, 1));
    all.chain(of_two.into_iter().map(|inner| (inner, 2))).map(|(inner, arguments)| {
        let inner = or_unordered(inner);
        let doubles = vec![DataType::Float64];
        let signature = Signature::uniform(arguments, doubles, Volatility::Immutable);
        ScalarUDF::from(InDoubles { inner, signature })
    })
}

/// Whether a function that a session finds by its name computes what another one does: the same
/// one, or the one that simplification leaves of it.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn computes_as(known: &ScalarUDF, other: &ScalarUDF) -> bool {
    let inner = known.inner().downcast_ref::<InDoubles>().map(|known| &*known.inner);
    known == other || inner.or_else(|| whole_numbers::inner(known)) == Some(other)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InDoubles {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for InDoubles {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        documentation() -> Option<&Documentation>;
        invoke_with_args(given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue>;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Float64)
    }

    fn simplify(
        &self,
        arguments: Vec<Expr>,
        _: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(self.inner.call(arguments)))
    }
}
