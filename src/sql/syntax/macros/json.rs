//! Functions of JSON texts: DuckDB's `json_extract(x, '$.a')` is `x -> '$.a'`, and ClickHouse's
//! `JSONExtractInt(x, 'a', 'b')` is `json_get_int` with 0 in place of what is not there. `out` has
//! those that make JSON texts.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, UnaryOperator, Value, ValueWithSpan,
};

use super::calls::{arguments, parsed, substitute};
use super::out;
use crate::error::{Error, Result};
use crate::sql::walks::function_call;

/// DuckDB's functions of a text and a path, and what they make of the value `f` that is there.
const OF_PATHS: [(&str, BinaryOperator, &str); 5] = [
    ("json_array_length", BinaryOperator::Arrow, "CAST(json_length(f) AS BIGINT)"),
    ("json_exists", BinaryOperator::Arrow, "(f IS NOT NULL)"),
    ("json_extract", BinaryOperator::Arrow, "f"),
    ("json_extract_string", BinaryOperator::LongArrow, "f"),
    ("json_keys", BinaryOperator::Arrow, "json_object_keys(f)"),
];

/// ClickHouse's functions: their names, those that they stand for, and what they make of the value
/// `f` of these, or of null where nothing is found.
const OF_KEYS: [(&str, &str, &str); 8] = [
    ("JSONExtractBool", "json_get_bool", "coalesce(f, false)"),
    ("JSONExtractFloat", "json_get_float", "coalesce(f, 0e0)"),
    ("JSONExtractInt", "json_get_int", "coalesce(f, 0)"),
    ("JSONExtractRaw", "json_get_json", "coalesce(f, '')"),
    ("JSONExtractString", "json_get_str", "coalesce(f, '')"),
    ("JSONExtractUInt", "json_as_text", "coalesce(TRY_CAST(f AS BIGINT UNSIGNED), 0)"),
    ("JSONHas", "json_contains", "coalesce(f, false)"),
    ("JSONLength", "json_length", "coalesce(f, 0)"),
];

/// The names of all.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let of_paths = OF_PATHS.iter().map(|(name, ..)| *name);
    of_paths.chain(OF_KEYS.iter().map(|(name, ..)| *name)).chain(out::names())
}

/// What a call stands for; `None` if it is not one of these.
pub(super) fn expanded(name: &str, call: &Function) -> Result<Option<Expr>> {
    if let Some(made) = out::expanded(name, call)? {
        return Ok(Some(made));
    }
    let is_called = |known: &str| known.eq_ignore_ascii_case(name);
    if let Some((_, op, text)) = OF_PATHS.iter().find(|(known, ..)| is_called(known)) {
        let given = arguments(call).unwrap_or_default();
        return match given.as_slice() {
            [json, path] => of_path(json, op, path, text).map(Some),
            // `table` has these.
            [_] if is_called("json_array_length") || is_called("json_keys") => Ok(None),
            _ => Err(Error::InvalidInput(format!(
                "{name} takes a JSON text and a path: {name}(x, '$.a[0]')"
            ))),
        };
    }
    let Some((name, function, text)) = OF_KEYS.iter().find(|(known, ..)| is_called(known)) else {
        return Ok(None);
    };
    let given = arguments(call).unwrap_or_default();
    let [json, keys @ ..] = given.as_slice() else {
        return Err(Error::InvalidInput(format!("{name} takes a JSON text, and keys behind it")));
    };
    let mut arguments = vec![json.clone()];
    for key in keys {
        arguments.push(from_zero(key).ok_or_else(|| {
            Error::InvalidInput(format!(
                "{name} takes keys and numbers of elements, from 1 on, as literals: \
                 {name}(x, 'key', 1), not {key}"
            ))
        })?);
    }
    let mut value = parsed(&format!("CASE WHEN x IS NOT NULL THEN {text} END"))?;
    substitute(&mut value, &["x", "f"], &[json.clone(), function_call(function, arguments)]);
    Ok(Some(value))
}

fn of_path(json: &Expr, op: &BinaryOperator, path: &Expr, text: &str) -> Result<Expr> {
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(pointer), .. }) = path
        && pointer.starts_with('/')
    {
        return Err(Error::Unsupported(format!(
            "the JSON pointer '{pointer}' is not read; write a path, such as '$.a.b[0]'"
        )));
    }
    let part = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let field = Expr::BinaryOp { left: part(json), op: op.clone(), right: part(path) };
    let mut value = parsed(text)?;
    substitute(&mut value, &["f"], &[field]);
    Ok(value)
}

/// A key or a negative number unchanged, and other numbers less one: ClickHouse counts elements
/// from 1.
fn from_zero(step: &Expr) -> Option<Expr> {
    let digits = |expr: &Expr| match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse::<u32>().ok().filter(|number| *number > 0)
        }
        _ => None,
    };
    match step {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) => {
            Some(step.clone())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => digits(expr).map(|_| step.clone()),
        _ => digits(step).map(|number| Expr::value(Value::Number((number - 1).to_string(), false))),
    }
}
