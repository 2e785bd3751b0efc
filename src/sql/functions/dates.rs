//! `year(x)`, `month(x)` and the like: other names for `date_part('year', x)`, as DuckDB, Spark and
//! MySQL have them.
//!
//! Simplification replaces them, so that nothing further down the road knows them.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::sql::convert::type_name;

/// The names of the functions.
const PARTS: [&str; 10] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "dayofweek",
    "dayofyear",
];

/// All functions that stand for a call of `date_part`.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    PARTS.into_iter().map(|part| {
        ScalarUDF::from(PartOf { part, signature: Signature::any(1, Volatility::Immutable) })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PartOf {
    part: &'static str,
    signature: Signature,
}

impl PartOf {
    /// The name of the part in `date_part`.
    fn name_in_date_part(&self) -> &'static str {
        match self.part {
            "dayofweek" => "dow",
            "dayofyear" => "doy",
            part => part,
        }
    }
}

impl ScalarUDFImpl for PartOf {
    fn name(&self) -> &str {
        self.part
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments {
            [DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null] => {
                Ok(DataType::Int32)
            }
            [DataType::Time32(_) | DataType::Time64(_)]
                if matches!(self.part, "hour" | "minute" | "second") =>
            {
                Ok(DataType::Int32)
            }
            [other] => {
                plan_err!(
                    "{}() takes a date or a timestamp, not {}; cast it: {0}(x::timestamp)",
                    self.part,
                    type_name(other)
                )
            }
            _ => plan_err!("{}() takes one argument", self.part),
        }
    }

    fn simplify(
        &self,
        args: Vec<Expr>,
        _: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        match <[Expr; 1]>::try_from(args) {
            Ok([argument]) => Ok(ExprSimplifyResult::Simplified(
                date_part().call(vec![lit(self.name_in_date_part()), argument]),
            )),
            Err(args) => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        exec_err!("{}() was not simplified", self.part)
    }
}
