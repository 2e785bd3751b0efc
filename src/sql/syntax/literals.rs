//! Texts that are cast as they stand, in spellings of PostgreSQL and DuckDB that DataFusion (55.2)
//! does not read: `'\x00ff'::BYTEA`, `'{1,2}'::INT[]`, `'[1, 2]'::INT[]` and `INTERVAL '1 day
//! 02:03:04'`. And `$1 || $2` joins texts: DataFusion knows no type of either.
//!
//! Where this stands on the road of a query: after parsing. Texts that are computed, and those of
//! columns, are cast as DataFusion does.

use arrow_array::types::IntervalMonthDayNano;
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Interval, Value,
    ValueWithSpan,
};

use crate::error::{Error, Result};
use crate::ingest::text::interval::spelled;
use crate::sql::types::list_texts::items_of_array;

/// Rewords an expression, whose parts are reworded.
pub(in crate::sql) fn reword(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Cast { expr: value, data_type, array: false, format: None, kind } => {
            let Some(text) = text_of(value) else { return Ok(()) };
            match read(text, data_type, kind) {
                Ok(None) => {}
                Ok(Some(read)) => **value = read,
                Err(_) if matches!(kind, CastKind::TryCast | CastKind::SafeCast) => {
                    **value = Expr::value(Value::Null);
                }
                Err(error) => return Err(error),
            }
        }
        Expr::Interval(Interval { value, leading_field: None, .. }) => {
            if is_number(value) {
                return Err(Error::InvalidInput(format!(
                    "INTERVAL {value} has no unit that is known; write INTERVAL {value} DAY, or \
                     another one of microsecond, millisecond, second, minute, hour, day, week, \
                     month, quarter, year, decade, century"
                )));
            }
            if let Some(text) = text_of(value)
                && let Some(known) = with_clock(text)
            {
                **value = known;
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right }
            if is_placeholder(left) && is_placeholder(right) =>
        {
            **left = Expr::Cast {
                kind: CastKind::Cast,
                expr: left.clone(),
                data_type: DataType::Text,
                array: false,
                format: None,
            };
        }
        _ => {}
    }
    Ok(())
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => text_of(inner),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_number(inner),
        Expr::UnaryOp { expr, .. } => is_number(expr),
        other => matches!(other, Expr::Value(ValueWithSpan { value: Value::Number(..), .. })),
    }
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

/// What a text means in a type; `None` where DataFusion's cast does.
fn read(text: &str, data_type: &DataType, kind: &CastKind) -> Result<Option<Expr>> {
    match data_type {
        DataType::Bytea => bytes(text),
        DataType::Interval { .. } => Ok(with_clock(text)),
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(of)
            | ArrayElemTypeDef::SquareBracket(of, _)
            | ArrayElemTypeDef::Parenthesis(of),
        ) => {
            let items = items_of_array(text).ok_or_else(|| {
                let how = "write '{1,2}' or '[1, 2]', with quotes around what has commas";
                Error::InvalidInput(format!("'{text}' is no array of one dimension; {how}"))
            })?;
            // Each is cast as it would be alone.
            let item = |item: Option<String>| {
                let text = item.map_or(Value::Null, Value::SingleQuotedString);
                let mut cast = Expr::Cast {
                    kind: kind.clone(),
                    expr: Box::new(Expr::value(text)),
                    data_type: of.as_ref().clone(),
                    array: false,
                    format: None,
                };
                reword(&mut cast).map(|()| cast)
            };
            let elem = items.into_iter().map(item).collect::<Result<_>>()?;
            Ok(Some(Expr::Array(Array { elem, named: false })))
        }
        _ => Ok(None),
    }
}

/// The bytes of `\x` and hexadecimal digits.
fn bytes(text: &str) -> Result<Option<Expr>> {
    let Some(digits) = text.strip_prefix("\\x") else { return Ok(None) };
    match digits.len() % 2 == 0 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(Some(Expr::value(Value::HexStringLiteral(digits.to_owned())))),
        false => Err(Error::InvalidInput(format!(
            "'{text}'::BYTEA: bytes are \\x and an even number of hexadecimal digits"
        ))),
    }
}

/// An interval with a time of day or a fraction, in the words that Arrow reads exactly.
fn with_clock(text: &str) -> Option<Expr> {
    let value = spelled(text).filter(|_| text.contains([':', '.']))?;
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    let (seconds, rest) = (nanoseconds.unsigned_abs() / NANOS, nanoseconds.unsigned_abs() % NANOS);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let text = format!("{months} mons {days} days {sign}{seconds}.{rest:09} secs");
    Some(Expr::value(Value::SingleQuotedString(text)))
}

const NANOS: u64 = 1_000_000_000;
