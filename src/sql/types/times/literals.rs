//! Corrects `TIMESTAMP '…'` and `'…'::timestamp` to what they mean in PostgreSQL and DuckDB.
//!
//! A timestamp has microseconds (see `types::names`). A literal with more digits keeps them, as a
//! timestamp in nanoseconds, if these hold it; a TIME keeps them, too. A timestamp may end with the
//! minute, which Arrow does not accept. An interval may be a number alone.

use std::borrow::Cow;
use std::ops::ControlFlow;

use arrow_cast::parse::string_to_timestamp_nanos;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr as SqlExpr, TypedString, Value, VisitMut,
};

use crate::ingest::timestamp_text;
use crate::sql::walks::visit_expressions_mut;

/// Corrects the literals of an expression, or of anything that contains expressions.
pub(in crate::sql) fn correct_literals(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        correct_literal(expr);
        ControlFlow::<()>::Continue(())
    });
}

fn correct_literal(expr: &mut SqlExpr) {
    match literal(expr) {
        Some((text, SqlType::Timestamp(digits, _))) => {
            if let Cow::Owned(full) = timestamp_text::complete(text) {
                *text = full;
            }
            if digits.is_none()
                && string_to_timestamp_nanos(text).is_ok_and(|value| value % 1_000 != 0)
            {
                *digits = NANOSECONDS;
            }
        }
        Some((text, SqlType::Time(digits @ None, _))) if has_nanoseconds(text) => {
            *digits = NANOSECONDS
        }
        // A number alone counts seconds, as in INTERVAL '42'; Arrow's cast counts months.
        Some((text, SqlType::Interval { .. })) if is_number(text) => {
            *text = format!("{} seconds", text.trim());
        }
        _ => {}
    }
}

/// The digits of the fraction of a second in nanoseconds.
const NANOSECONDS: Option<u64> = Some(9);

/// The text of a literal, and its type.
fn literal(expr: &mut SqlExpr) -> Option<(&mut String, &mut SqlType)> {
    let (value, data_type) = match expr {
        SqlExpr::TypedString(TypedString { data_type, value, .. }) => (value, data_type),
        SqlExpr::Cast { expr, data_type, .. } => match expr.as_mut() {
            SqlExpr::Value(value) => (value, data_type),
            _ => return None,
        },
        _ => return None,
    };
    match &mut value.value {
        Value::SingleQuotedString(text) => Some((text, data_type)),
        _ => None,
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.trim().trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether a time of day has digits that microseconds do not hold.
fn has_nanoseconds(text: &str) -> bool {
    let fraction = text.rsplit_once('.').map_or("", |(_, fraction)| fraction);
    fraction.bytes().take_while(u8::is_ascii_digit).skip(6).any(|digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn corrected(sql: &str) -> String {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, sql).unwrap();
        correct_literals(&mut parsed);
        parsed[0].to_string()
    }

    #[test]
    fn literals_keep_their_digits() {
        for (given, expected) in [
            (
                "TIMESTAMP '2024-01-01 00:00:00.123456789'",
                "TIMESTAMP(9) '2024-01-01 00:00:00.123456789'",
            ),
            (
                "TIMESTAMP '2024-01-01 00:00:00.123456000'",
                "TIMESTAMP '2024-01-01 00:00:00.123456000'",
            ),
            ("TIMESTAMP '9999-12-31 23:59:59.9999999'", "TIMESTAMP '9999-12-31 23:59:59.9999999'"),
            ("'2024-02-28 06:00'::TIMESTAMP", "'2024-02-28 06:00:00'::TIMESTAMP"),
            ("'2024-02-28T06:00+02'::TIMESTAMP(3)", "'2024-02-28T06:00:00+02'::TIMESTAMP(3)"),
            ("'2024-02-28 06:00.5'::TIMESTAMP", "'2024-02-28 06:00.5'::TIMESTAMP"),
            ("'2024-02-28 06:0é'::TIMESTAMP", "'2024-02-28 06:0é'::TIMESTAMP"),
            ("'2024-02-28 06:00'::TEXT", "'2024-02-28 06:00'::TEXT"),
            ("'2024-2-8 6:00'::TIMESTAMP", "'2024-02-08 06:00:00'::TIMESTAMP"),
            ("TIME '10:00:00.123456789'", "TIME(9) '10:00:00.123456789'"),
            ("TIME '10:00:00.123456000'", "TIME '10:00:00.123456000'"),
        ] {
            assert_eq!(corrected(&format!("SELECT {given}")), format!("SELECT {expected}"));
        }
    }
}
