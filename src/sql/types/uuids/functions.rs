//! The functions that stand for casts to UUID, and `uuid()`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::error::Error;
use crate::ingest::columns::{texts_of, uuid_texts};
use crate::model::{self, uuid};
use crate::sql::convert::type_name;

/// A cast to UUID, or TRY_CAST.
pub(super) fn cast_to_uuid(value: Expr, or_null: bool) -> Expr {
    cast_function(or_null).call(vec![value])
}

/// The function of such a cast.
pub(in crate::sql) fn cast_function(or_null: bool) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(CastToUuid { or_null, signature })
}

/// Texts in the stored form of UUIDs, or an error or null for what is none.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CastToUuid {
    or_null: bool,
    signature: Signature,
}

impl ScalarUDFImpl for CastToUuid {
    fn name(&self) -> &'static str {
        if self.or_null { "sty__try_uuid" } else { "sty__uuid" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let is_fine = |of: &DataType| of.is_string() || of.is_binary() || of.is_null();
        match arguments {
            [DataType::Dictionary(_, of)] if is_fine(of) => Ok(DataType::Utf8View),
            [of] if is_fine(of) => Ok(DataType::Utf8View),
            [other] => {
                plan_err!("a {} is not cast to a UUID; a text is, or 16 bytes", type_name(other))
            }
            _ => plan_err!("a cast has one operand"),
        }
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let [value] = given.arg_fields else { return plan_err!("a cast has one operand") };
        self.return_type(&[value.data_type().clone()])?;
        let nullable = self.or_null || value.is_nullable() || value.data_type().is_null();
        Ok(Arc::new(model::DataType::Uuid.to_field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = matches!(given.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&given.args)?;
        let [values] = arrays.as_slice() else { return plan_err!("a cast has one operand") };
        let texts = texts(values, self.or_null)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(texts),
        })
    }
}

fn texts(values: &ArrayRef, or_null: bool) -> DataFusionResult<ArrayRef> {
    if values.data_type().is_null() {
        return Ok(arrow_array::new_null_array(&DataType::Utf8View, values.len()));
    }
    let texts = match uuid_texts("uuid", values) {
        Ok(texts) => texts,
        Err(Error::InvalidInput(_)) if or_null => {
            let plain = match values.data_type() {
                DataType::Dictionary(_, of) => arrow_cast::cast(values, of)?,
                _ => Arc::clone(values),
            };
            Arc::new(texts_of(parsed(&plain)?.into_iter()))
        }
        Err(Error::InvalidInput(what)) => {
            let what = what.strip_prefix("column 'uuid' is uuid, and ").unwrap_or(&what);
            return Err(Error::InvalidInput(what.to_owned()).into());
        }
        Err(other) => return Err(other.into()),
    };
    Ok(arrow_cast::cast(&texts, &DataType::Utf8View)?)
}

/// The bytes of each value that is a UUID.
fn parsed(values: &ArrayRef) -> DataFusionResult<Vec<Option<[u8; 16]>>> {
    let bytes = arrow_cast::cast(values, &DataType::BinaryView)?;
    let is_text = values.data_type().is_string();
    let one = |bytes: &[u8]| if is_text { uuid::parse(bytes) } else { bytes.try_into().ok() };
    Ok(bytes.as_binary_view().iter().map(|bytes| one(bytes?)).collect())
}

/// `uuid()` and `gen_random_uuid()`: DataFusion's function, whose values are of type uuid.
pub(super) fn random(inner: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::from(Random { inner, aliases: vec!["gen_random_uuid".to_owned()] })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        let types: Vec<DataType> =
            given.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, false);
        Ok(Arc::new(model::DataType::Uuid.marked(field)))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        self.inner.invoke_with_args(given)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
