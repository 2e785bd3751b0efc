//! `current_setting('sty.dialect')` of PostgreSQL and DuckDB: the value of a setting, as SHOW has
//! it.
//!
//! Where this stands on the road of a query: a session registers it. Its arguments are constants,
//! and it is computed when a statement runs, since plans are kept.

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(CurrentSetting { signature: Signature::variadic_any(Volatility::Volatile) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentSetting {
    signature: Signature,
}

impl ScalarUDFImpl for CurrentSetting {
    fn name(&self) -> &'static str {
        "current_setting"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        match arguments {
            [name] if is_text(name) => Ok(DataType::Utf8),
            [name, DataType::Boolean] if is_text(name) => Ok(DataType::Utf8),
            _ => plan_err!(
                "current_setting() takes the name of a setting, and true if it may be unknown: \
                 current_setting('sty.dialect')"
            ),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let (name, may_be_unknown) = match given.args.as_slice() {
            [ColumnarValue::Scalar(name)] => (name, false),
            [ColumnarValue::Scalar(name), ColumnarValue::Scalar(may)] => {
                (name, matches!(may, ScalarValue::Boolean(Some(true))))
            }
            _ => return exec_err!("the name of a setting in current_setting() is a constant"),
        };
        let Some(Some(name)) = name.try_as_str() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None)));
        };
        match value_of(name, &given.config_options) {
            Some(value) => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(value))),
            None if may_be_unknown => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
            None => exec_err!("no setting {name}; SHOW ALL lists them"),
        }
    }
}

/// The value of a setting, which may have none; `None` if there is no such setting.
fn value_of(name: &str, options: &ConfigOptions) -> Option<Option<String>> {
    let name = match name.to_ascii_lowercase() {
        zone if zone == "timezone" => "datafusion.execution.time_zone".to_owned(),
        name => name,
    };
    let known = options.entries().into_iter().find(|entry| entry.key == name)?;
    Some(known.value)
}
