//! Text functions in place of DataFusion's (55.2): each corrects one argument and passes the rest
//! on.
//!
//! Where this stands on the road of a query: a session registers them under the names of the
//! functions that they replace.
//!
//! - `regexp_replace`: in the replacement, `\1` is a group, `\&` and `\0` are the match, `\\` is a
//!   backslash, and all else stands for itself, as in PostgreSQL. DataFusion gives `$1` and `${1}`
//!   a meaning, too, and takes `\10` for the tenth group.
//! - `encode`: 'base64' is padded, as in PostgreSQL and DuckDB. `decode` takes it with or without
//!   padding.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, FieldRef};
use datafusion::common::cast::as_string_array;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::encoding::encode;
use datafusion::functions::regex::regexp_replace;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use datafusion::scalar::ScalarValue;

/// A group that no regex has, so that nothing is put in its place.
const NO_GROUP: &str = "${sty__none}";

/// All text functions that replace one of DataFusion's.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let overrides = [(regexp_replace(), Argument::Replacement), (encode(), Argument::Encoding)];
    overrides.into_iter().map(|(inner, argument)| ScalarUDF::from(Override { inner, argument }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Override {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
    argument: Argument,
}

/// Which argument is corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Argument {
    Replacement,
    Encoding,
}

impl Argument {
    fn position(self) -> usize {
        match self {
            Argument::Replacement => 2,
            Argument::Encoding => 1,
        }
    }

    fn corrected(self, text: &str) -> String {
        match self {
            Argument::Replacement => replacement(text),
            Argument::Encoding if text.eq_ignore_ascii_case("base64") => "base64pad".to_owned(),
            Argument::Encoding => text.to_owned(),
        }
    }
}

/// The replacement in the syntax of Rust's regexes. DataFusion turns a backslash before digits into
/// a group, so the result must not have one by accident.
fn replacement(text: &str) -> String {
    let mut replacement = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let next = rest.clone().next();
        match (character, next) {
            ('$', _) => replacement.push_str("$$"),
            ('\\', Some(group)) if group.is_ascii_digit() => {
                rest.next();
                replacement.push_str("${");
                replacement.push(group);
                replacement.push('}');
            }
            ('\\', Some('&')) => {
                rest.next();
                replacement.push_str("${0}");
            }
            ('\\', Some('\\')) => {
                rest.next();
                replacement.push('\\');
            }
            (digit, _) if digit.is_numeric() && replacement.ends_with('\\') => {
                replacement.push_str(NO_GROUP);
                replacement.push(digit);
            }
            (other, _) => replacement.push(other),
        }
    }
    replacement
}

fn corrected(argument: Argument, value: &ColumnarValue) -> DataFusionResult<ColumnarValue> {
    let text = |text: &Option<String>| text.as_ref().map(|text| argument.corrected(text));
    let scalar = match value {
        ColumnarValue::Scalar(ScalarValue::Utf8(value)) => ScalarValue::Utf8(text(value)),
        ColumnarValue::Scalar(ScalarValue::LargeUtf8(value)) => ScalarValue::LargeUtf8(text(value)),
        ColumnarValue::Scalar(ScalarValue::Utf8View(value)) => ScalarValue::Utf8View(text(value)),
        ColumnarValue::Scalar(_) => return Ok(value.clone()),
        ColumnarValue::Array(array) => {
            return Ok(ColumnarValue::Array(corrected_array(argument, array)?));
        }
    };
    Ok(ColumnarValue::Scalar(scalar))
}

fn corrected_array(argument: Argument, array: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let texts = arrow_cast::cast(array, &DataType::Utf8)?;
    let corrected =
        as_string_array(&texts)?.iter().map(|text| text.map(|text| argument.corrected(text)));
    Ok(arrow_cast::cast(&corrected.collect::<StringArray>(), array.data_type())?)
}

impl ScalarUDFImpl for Override {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(
        &self,
        mut arguments: ScalarFunctionArgs,
    ) -> DataFusionResult<ColumnarValue> {
        if let Some(value) = arguments.args.get_mut(self.argument.position()) {
            *value = corrected(self.argument, value)?;
        }
        self.inner.invoke_with_args(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::replacement;

    #[test]
    fn a_dollar_is_a_dollar_and_one_digit_a_group() {
        assert_eq!(replacement(r"$\1"), "$$${1}");
        assert_eq!(replacement(r"US$5 ${1}"), "US$$5 $${1}");
        assert_eq!(replacement(r"\10\&\0"), "${1}0${0}${0}");
        assert_eq!(replacement(r"\\1 \x\"), r"\${sty__none}1 \x\");
    }
}
