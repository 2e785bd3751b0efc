//! `a || b || c` over texts, as one function of all of them.
//!
//! Where this stands on the road of a query: `rules/concatenations.rs` puts it in place of the
//! operator. DataFusion's (55.2) makes a text for each `||`, of any size, and panics where those of
//! a batch have more than 2 GiB; here the bytes are counted before any are written.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::sql::functions::bounds::MostBytes;
use crate::sql::functions::growing::Growth;

/// Its name; the prefix keeps it out of the users' way.
pub(in crate::sql) const CONCATENATED: &str = "sty__concat";

/// The function for a session with this bound.
pub(in crate::sql) fn function(most: MostBytes) -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::from(Concatenated { signature, most })
}

/// An expression in which calls are operators again, as partition keys have them.
pub(in crate::sql) fn as_operators(expr: Expr) -> Expr {
    let Expr::ScalarFunction(call) = &expr else { return expr };
    if call.func.name() != CONCATENATED {
        return expr;
    }
    let join = |left: Expr, right: Expr| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left), Operator::StringConcat, Box::new(right)))
    };
    call.args.iter().cloned().reduce(join).unwrap_or(expr)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenated {
    signature: Signature,
    /// The most bytes of the texts of a batch.
    most: MostBytes,
}

impl ScalarUDFImpl for Concatenated {
    fn name(&self) -> &'static str {
        CONCATENATED
    }

    /// The operator's, in EXPLAIN and in names of columns.
    fn display_name(&self, arguments: &[Expr]) -> DataFusionResult<String> {
        let parts: Vec<String> = arguments.iter().map(Expr::to_string).collect();
        Ok(parts.join(" || "))
    }

    fn schema_name(&self, arguments: &[Expr]) -> DataFusionResult<String> {
        let parts: Vec<String> =
            arguments.iter().map(|part| part.schema_name().to_string()).collect();
        Ok(parts.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Utf8View))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
        let constant = arguments.args.iter().all(is_constant);
        let rows = if constant { 1 } else { arguments.number_rows };
        let bytes = Growth::Concatenate.bytes(&arguments.args, rows)?;
        self.most.check("||", bytes, rows, &arguments.config_options)?;
        let text = |argument: &ColumnarValue| {
            Ok(Texts {
                views: arrow_cast::cast(&argument.to_array(1)?, &DataType::Utf8View)?,
                is_constant: is_constant(argument),
            })
        };
        let parts: Vec<Texts> = arguments.args.iter().map(text).collect::<DataFusionResult<_>>()?;
        let texts: ArrayRef = Arc::new(joined(&parts, rows, bytes));
        let array = arrow_cast::cast(&texts, arguments.return_field.data_type())?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

/// The texts of all parts for some rows, which have about so many bytes; null where one is.
fn joined(parts: &[Texts], rows: usize, bytes: i128) -> StringArray {
    let bytes = usize::try_from(bytes).unwrap_or_default();
    let mut joined = StringBuilder::with_capacity(rows, bytes);
    for row in 0..rows {
        let texts = parts.iter().map(|part| part.at(row));
        if texts.clone().any(|text| text.is_none()) {
            joined.append_null();
            continue;
        }
        // Writing to a builder does not fail.
        texts.flatten().for_each(|text| joined.write_str(text).unwrap_or_default());
        joined.append_value("");
    }
    joined.finish()
}

/// A text for each row, or one for all of them.
struct Texts {
    views: ArrayRef,
    is_constant: bool,
}

impl Texts {
    fn at(&self, row: usize) -> Option<&str> {
        let row = if self.is_constant { 0 } else { row };
        let views = self.views.as_string_view();
        (row < views.len() && views.is_valid(row)).then(|| views.value(row))
    }
}
