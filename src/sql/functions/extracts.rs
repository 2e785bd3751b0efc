//! `regexp_extract_all(s, pattern, group, options)`: what all matches of a regular expression have,
//! or a group of them, as a list. A group that takes no part in a match is null.
//!
//! Where this stands on the road of a query: a session registers it.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ListArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::Regex;

use crate::sql::functions::formats::compiled;

/// The function.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(ExtractAll { signature: Signature::variadic_any(Volatility::Immutable) })
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
        let is_scalar = given.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { given.number_rows };
        let lists = extracted(&texts.to_array(rows)?, &patterns.to_array(rows)?, group, options)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::List(Arc::new(lists))),
            false => ColumnarValue::Array(Arc::new(lists)),
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
    match rest.get(1) {
        None => Ok((group, "")),
        Some(ColumnarValue::Scalar(options)) => {
            Ok((group, options.try_as_str().flatten().unwrap_or_default()))
        }
        Some(_) => exec_err!("the options of regexp_extract_all() are a constant"),
    }
}

fn extracted(
    texts: &ArrayRef,
    patterns: &ArrayRef,
    group: usize,
    options: &str,
) -> DataFusionResult<ListArray> {
    let (texts, patterns) = (cast(texts, &DataType::Utf8)?, cast(patterns, &DataType::Utf8)?);
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
        if group >= regex.captures_len() {
            return exec_err!("the pattern '{pattern}' has no group {group}");
        }
        for groups in regex.captures_iter(text) {
            lists.values().append_option(groups.get(group).map(|found| found.as_str()));
        }
        lists.append(true);
    }
    Ok(lists.finish())
}
