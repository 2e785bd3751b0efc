//! `x SIMILAR TO 'pattern'` as `x ~ '^(?:regex)$'`.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) takes the pattern for
//! a regex that matches anywhere, and does not know ESCAPE. In SQL the whole text must match; `%`
//! and `_` mean the same as in LIKE, `| * + ? { } ( ) [ ]` the same as in regexes, and all other
//! characters, such as `. ^ $`, stand for themselves. A pattern that is not a literal is turned
//! into a regex row by row.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use datafusion::common::cast::as_string_array;
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan, VisitMut};

use crate::error::{Error, Result};
use crate::sql::walks::{function_call, visit_expressions_mut};

/// The function that turns a pattern into a regex. The prefix keeps the name out of the users' way.
const SIMILAR_TO_REGEX: &str = "sty__similar";

/// Rewrites SIMILAR TO in an expression, or in anything that contains expressions.
pub(in crate::sql) fn as_regexes(tree: &mut impl VisitMut) -> Result<()> {
    match visit_expressions_mut(tree, as_regex) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(Error::InvalidInput(why)),
    }
}

fn as_regex(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::SimilarTo { negated, expr: left, pattern, escape_char } = &*expr else {
        return ControlFlow::Continue(());
    };
    match escape(escape_char.as_ref()).and_then(|escape| regex_expr(pattern, escape)) {
        Ok(regex) => {
            let op = if *negated {
                BinaryOperator::PGRegexNotMatch
            } else {
                BinaryOperator::PGRegexMatch
            };
            let matches = Expr::BinaryOp { left: left.clone(), op, right: Box::new(regex) };
            *expr = Expr::Nested(Box::new(matches));
            ControlFlow::Continue(())
        }
        Err(why) => ControlFlow::Break(why),
    }
}

/// The escape character: the backslash unless there is an ESCAPE; none if that is empty.
fn escape(given: Option<&ValueWithSpan>) -> Result<Option<char>, String> {
    let Some(given) = given else { return Ok(Some('\\')) };
    if let Value::SingleQuotedString(text) = &given.value {
        let mut characters = text.chars();
        if let (first, None) = (characters.next(), characters.next()) {
            return Ok(first);
        }
    }
    Err(format!("SIMILAR TO … ESCAPE {given}: the escape is one character, or ''"))
}

/// An expression for the regex of a pattern.
fn regex_expr(pattern: &Expr, escape: Option<char>) -> Result<Expr, String> {
    match pattern {
        Expr::Nested(inner) => regex_expr(inner, escape),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            Ok(Expr::Value(Value::SingleQuotedString(regex(text, escape)?).into()))
        }
        other => {
            let escape = escape.map(String::from).unwrap_or_default();
            let escape = Expr::Value(Value::SingleQuotedString(escape).into());
            Ok(function_call(SIMILAR_TO_REGEX, vec![other.clone(), escape]))
        }
    }
}

/// Translates a pattern to a regex.
fn regex(pattern: &str, escape: Option<char>) -> Result<String, String> {
    let mut regex = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => escaped(&mut characters, pattern, &mut regex)?,
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            // A group that does not capture.
            '(' => regex.push_str("(?:"),
            '[' => class(&mut characters, pattern, escape, &mut regex)?,
            '|' | '*' | '+' | '?' | '{' | '}' | ')' => regex.push(character),
            other => push_literal(other, &mut regex),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

/// Adds a character that stands for itself.
fn push_literal(character: char, regex: &mut String) {
    // Before other characters, a backslash would be a regex escape.
    if r"\.+*?()|[]{}^$&-~#".contains(character) {
        regex.push('\\');
    }
    regex.push(character);
}

/// Translates the character after an escape: itself, or one of PostgreSQL's character classes.
fn escaped(
    characters: &mut std::str::Chars<'_>,
    pattern: &str,
    regex: &mut String,
) -> Result<(), String> {
    match characters.next() {
        Some(class @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
            regex.push('\\');
            regex.push(class);
        }
        Some(other) if other.is_alphanumeric() => {
            return Err(format!(
                "SIMILAR TO '{pattern}': {other} behind the escape character has no meaning"
            ));
        }
        Some(other) => push_literal(other, regex),
        None => return Err(format!("SIMILAR TO '{pattern}' ends with the escape character")),
    }
    Ok(())
}

/// Translates a bracket expression, in which only `^`, `-`, `]` and `[:name:]` have a meaning.
fn class(
    characters: &mut std::str::Chars<'_>,
    pattern: &str,
    escape: Option<char>,
    regex: &mut String,
) -> Result<(), String> {
    regex.push('[');
    if characters.as_str().starts_with('^') {
        characters.next();
        regex.push('^');
    }
    let mut is_first = true;
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => escaped(characters, pattern, regex)?,
            ']' if !is_first => {
                regex.push(']');
                return Ok(());
            }
            '[' if characters.as_str().starts_with([':', '.', '=']) => {
                named_class(characters, pattern, regex)?
            }
            '-' if characters.as_str().starts_with('-') => {
                return Err(format!(
                    "SIMILAR TO '{pattern}': write - in brackets once, as their last character"
                ));
            }
            '-' if !is_first && !characters.as_str().starts_with(']') => regex.push('-'),
            other => push_literal(other, regex),
        }
        is_first = false;
    }
    Err(format!("SIMILAR TO '{pattern}': a bracket is not closed"))
}

/// Translates `[:alpha:]` within brackets.
fn named_class(
    characters: &mut std::str::Chars<'_>,
    pattern: &str,
    regex: &mut String,
) -> Result<(), String> {
    let named = characters.as_str().strip_prefix(':').and_then(|rest| rest.split_once(":]"));
    let Some((name, rest)) =
        named.filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphabetic()))
    else {
        return Err(format!(
            "SIMILAR TO '{pattern}': of what begins with [ in brackets, only [:name:] is known"
        ));
    };
    regex.push_str("[:");
    regex.push_str(name);
    regex.push_str(":]");
    *characters = rest.chars();
    Ok(())
}

/// `sty__similar(pattern, escape)`: the regex of a pattern.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(SimilarToRegex { signature: Signature::string(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SimilarToRegex {
    signature: Signature,
}

impl ScalarUDFImpl for SimilarToRegex {
    fn name(&self) -> &'static str {
        SIMILAR_TO_REGEX
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [patterns, escapes] = arrays.as_slice() else {
            return plan_err!("SIMILAR TO takes a pattern");
        };
        let regexes: ArrayRef = Arc::new(regexes(patterns, escapes)?);
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&regexes, 0)?)),
            false => Ok(ColumnarValue::Array(regexes)),
        }
    }
}

fn regexes(patterns: &dyn Array, escapes: &dyn Array) -> DataFusionResult<StringArray> {
    let patterns = arrow_cast::cast(patterns, &DataType::Utf8)?;
    let escapes = arrow_cast::cast(escapes, &DataType::Utf8)?;
    let rows = as_string_array(&patterns)?.iter().zip(as_string_array(&escapes)?.iter());
    let regexes = rows.map(|(pattern, escape)| {
        let Some((pattern, escape)) = pattern.zip(escape) else { return Ok(None) };
        regex(pattern, escape.chars().next()).map(Some).map_err(DataFusionError::Execution)
    });
    regexes.collect()
}
