//! Text functions in place of DataFusion's (55.2): each corrects one argument and passes the rest
//! on.
//!
//! Where this stands on the road of a query: a session registers them under the names of the
//! functions that they replace.
//!
//! - `regexp_replace`: in the replacement, `\1` is a group, `\&` and `\0` are the match, `\\` is a
//!   backslash, and all else stands for itself, as in PostgreSQL. DataFusion gives `$1` and `${1}`
//!   a meaning, too, and takes `\10` for the tenth group. Simple patterns are matched here
//!   (`anchored.rs`).
//! - `encode`: 'base64' is padded, as in PostgreSQL and DuckDB. `decode` takes it with or without
//!   padding.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
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

use crate::sql::functions::anchored::Anchored;

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

/// A part of a replacement.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    /// What a group matched.
    Group(usize),
}

/// The parts of a replacement.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let group = match (character, rest.clone().next()) {
            ('\\', Some(group)) if group.is_ascii_digit() => group.to_digit(10),
            ('\\', Some('&')) => Some(0),
            _ => None,
        };
        if let Some(group) = group {
            rest.next();
            pieces.push(Piece::Group(group as usize));
            continue;
        }
        if character == '\\' && rest.as_str().starts_with('\\') {
            rest.next();
        }
        match pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(character),
            _ => pieces.push(Piece::Text(character.into())),
        }
    }
    pieces
}

/// The replacement in the syntax of Rust's regexes. DataFusion turns a backslash before digits into
/// a group, so the result must not have one by accident.
fn replacement(text: &str) -> String {
    let mut replacement = String::with_capacity(text.len());
    for piece in pieces(text) {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Group(group) => {
                replacement.push_str(&format!("${{{group}}}"));
                continue;
            }
        };
        for character in text.chars() {
            if character == '$' {
                replacement.push('$');
            } else if character.is_numeric() && replacement.ends_with('\\') {
                replacement.push_str(NO_GROUP);
            }
            replacement.push(character);
        }
    }
    replacement
}

/// The texts with the match of a simple pattern replaced; `None` if that is for the library.
fn replaced_simply(arguments: &ScalarFunctionArgs) -> DataFusionResult<Option<ColumnarValue>> {
    let [ColumnarValue::Array(texts), pattern, replacement] = arguments.args.as_slice() else {
        return Ok(None);
    };
    let (Some(pattern), Some(replacement)) = (constant(pattern), constant(replacement)) else {
        return Ok(None);
    };
    let Some(pattern) = Anchored::new(pattern) else { return Ok(None) };
    let Some(views) = texts.as_string_view_opt() else { return Ok(None) };
    if !views.iter().flatten().all(|text| pattern.takes(text)) {
        return Ok(None);
    }
    let pieces = pieces(replacement);
    let mut places = pattern.places();
    let mut replaced = StringViewBuilder::with_capacity(views.len());
    let mut made = String::new();
    for text in views {
        let Some(text) = text.filter(|text| pattern.matches(text, &mut places)) else {
            replaced.append_option(text);
            continue;
        };
        let group = |group: usize| {
            let (start, end) = places.get(group).copied().flatten()?;
            text.get(start..end)
        };
        let end = places.first().copied().flatten().map_or(0, |(_, end)| end);
        if let ([Piece::Group(only)], true) = (pieces.as_slice(), end == text.len()) {
            replaced.append_value(group(*only).unwrap_or_default());
            continue;
        }
        made.clear();
        for piece in &pieces {
            made.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Group(at) => group(*at).unwrap_or_default(),
            });
        }
        made.push_str(text.get(end..).unwrap_or_default());
        replaced.append_value(&made);
    }
    Ok(Some(ColumnarValue::Array(Arc::new(replaced.finish()))))
}

/// The text that an argument is in all rows.
fn constant(argument: &ColumnarValue) -> Option<&str> {
    match argument {
        ColumnarValue::Scalar(value) => value.try_as_str().flatten(),
        ColumnarValue::Array(_) => None,
    }
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
        if self.argument == Argument::Replacement
            && let Some(replaced) = replaced_simply(&arguments)?
        {
            return Ok(replaced);
        }
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
