//! `regexp_extract_all(s, pattern, group, options)`: what all matches of a regular expression have,
//! or a group of them, as a list. A group that takes no part in a match is null.
//! `regexp_split_to_array(s, pattern, options)`: what is between the matches, as in PostgreSQL: a
//! match of nothing parts two characters, and none from the end or from another match.
//!
//! Where this stands on the road of a query: a session registers it.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::Regex;

use crate::sql::functions::formats::compiled;

/// The functions.
pub(in crate::sql) fn functions() -> [ScalarUDF; 2] {
    let signature = || Signature::variadic_any(Volatility::Immutable);
    let aliases = vec!["string_split_regex".to_owned(), "str_split_regex".to_owned()];
    [
        ScalarUDF::from(ExtractAll { signature: signature() }),
        ScalarUDF::from(SplitToArray { signature: signature(), aliases }),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExtractAll {
    signature: Signature,
}

impl ScalarUDFImpl for ExtractAll {
    fn name(&self) -> &'static str {
        "regexp_extract_all"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        let fits = match arguments {
            [text, pattern, rest @ ..] if is_text(text) && is_text(pattern) => match rest {
                [] => true,
                [group] => group.is_integer(),
                [group, options] => group.is_integer() && is_text(options),
                _ => false,
            },
            _ => false,
        };
        match fits {
            true => Ok(DataType::new_list(DataType::Utf8, true)),
            false => plan_err!(
                "regexp_extract_all() takes a text, a pattern, and perhaps the number of a group \
                 and options: regexp_extract_all(s, '([a-z]+)=', 1)"
            ),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [texts, patterns, rest @ ..] = given.args.as_slice() else {
            return exec_err!("regexp_extract_all() takes a text and a pattern");
        };
        let (group, options) = group_and_options(rest)?;
        let extracted = |regex: &Regex, pattern: &str, text: &str, lists: &mut Lists| {
            if group >= regex.captures_len() {
                return exec_err!("the pattern '{pattern}' has no group {group}");
            }
            for groups in regex.captures_iter(text) {
                lists.values().append_option(groups.get(group).map(|found| found.as_str()));
            }
            Ok(())
        };
        lists_of(&given, texts, patterns, options, extracted)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SplitToArray {
    signature: Signature,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for SplitToArray {
    fn name(&self) -> &'static str {
        "regexp_split_to_array"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let are_texts = arguments.iter().all(|of| of.is_string() || of.is_null());
        match arguments.len() {
            2 | 3 if are_texts => Ok(DataType::new_list(DataType::Utf8, true)),
            _ => plan_err!(
                "regexp_split_to_array() takes a text, a pattern, and perhaps options: \
                 regexp_split_to_array(s, ', *')"
            ),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [texts, patterns, rest @ ..] = given.args.as_slice() else {
            return exec_err!("{}() takes a text and a pattern", self.name());
        };
        let options = options_of(self.name(), rest.first())?;
        lists_of(&given, texts, patterns, options, |regex, _, text, lists| {
            let mut from = 0;
            for found in regex.find_iter(text) {
                if found.is_empty() && (found.start() == from || found.end() == text.len()) {
                    continue;
                }
                lists.values().append_option(text.get(from..found.start()));
                from = found.end();
            }
            lists.values().append_option(text.get(from..));
            Ok(())
        })
    }
}

/// The constants behind the pattern.
fn group_and_options(rest: &[ColumnarValue]) -> DataFusionResult<(usize, &str)> {
    let group = match rest.first() {
        None => 0,
        Some(ColumnarValue::Scalar(group)) => match group.cast_to(&DataType::UInt64) {
            Ok(ScalarValue::UInt64(Some(group))) => usize::try_from(group).unwrap_or(usize::MAX),
            _ => return exec_err!("the group of regexp_extract_all() is at least 0"),
        },
        Some(_) => return exec_err!("the group of regexp_extract_all() is a constant"),
    };
    Ok((group, options_of("regexp_extract_all", rest.get(1))?))
}

fn options_of<'a>(name: &str, given: Option<&'a ColumnarValue>) -> DataFusionResult<&'a str> {
    match given {
        None => Ok(""),
        Some(ColumnarValue::Scalar(options)) => {
            Ok(options.try_as_str().flatten().unwrap_or_default())
        }
        Some(_) => exec_err!("the options of {name}() are a constant"),
    }
}

type Lists = ListBuilder<StringBuilder>;

/// A list for each row that has a text and a pattern, to which `add` adds what it finds.
fn lists_of(
    given: &ScalarFunctionArgs,
    texts: &ColumnarValue,
    patterns: &ColumnarValue,
    options: &str,
    add: impl Fn(&Regex, &str, &str, &mut Lists) -> DataFusionResult<()>,
) -> DataFusionResult<ColumnarValue> {
    let is_scalar = given.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { given.number_rows };
    let (texts, patterns) = (texts.to_array(rows)?, patterns.to_array(rows)?);
    let (texts, patterns) = (cast(&texts, &DataType::Utf8)?, cast(&patterns, &DataType::Utf8)?);
    let mut lists = ListBuilder::new(StringBuilder::new());
    // One regex at a time is kept.
    let mut last: Option<(&str, Regex)> = None;
    for pair in texts.as_string::<i32>().iter().zip(patterns.as_string::<i32>().iter()) {
        let (Some(text), Some(pattern)) = pair else {
            lists.append(false);
            continue;
        };
        let regex = match &last {
            Some((known, regex)) if *known == pattern => regex,
            _ => &last.insert((pattern, compiled(pattern, options)?)).1,
        };
        add(regex, pattern, text, &mut lists)?;
        lists.append(true);
    }
    let lists = lists.finish();
    Ok(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::List(Arc::new(lists))),
        false => ColumnarValue::Array(Arc::new(lists)),
    })
}
