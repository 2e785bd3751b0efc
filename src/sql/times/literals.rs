//! `TIMESTAMP '…'` and `'…'::timestamp`, as PostgreSQL and DuckDB read them.
//!
//! A timestamp is of microseconds (see `types`). A literal of more digits keeps them, as a timestamp of nanoseconds, if
//! these hold it. One may end with the minute, which Arrow does not take.

use std::ops::ControlFlow;

use arrow_cast::parse::string_to_timestamp_nanos;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, TypedString,
    Value, VisitMut, VisitorMut,
};

/// Corrects the literals of an expression, or whatever has some.
pub(in crate::sql) fn correct(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut Literals);
}

struct Literals;

impl VisitorMut for Literals {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Function(function) = expr {
            origin_in_nanoseconds(function);
        } else if let Some((text, digits)) = literal(expr) {
            if ends_with_minute(text) {
                text.insert_str(MINUTE_END, ":00");
            }
            if digits.is_none() && string_to_timestamp_nanos(text).is_ok_and(|value| value % 1_000 != 0) {
                *digits = NANOSECONDS;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Where the minute of `2024-02-28 06:00` ends.
const MINUTE_END: usize = 16;
/// How many digits nanoseconds have.
const NANOSECONDS: Option<u64> = Some(9);

/// The text of a literal of a timestamp, and how many digits its type has.
fn literal(expr: &mut SqlExpr) -> Option<(&mut String, &mut Option<u64>)> {
    let (value, data_type) = match expr {
        SqlExpr::TypedString(TypedString { data_type, value, .. }) => (value, data_type),
        SqlExpr::Cast { expr, data_type, .. } => match expr.as_mut() {
            SqlExpr::Value(value) => (value, data_type),
            _ => return None,
        },
        _ => return None,
    };
    match (&mut value.value, data_type) {
        (Value::SingleQuotedString(text), SqlType::Timestamp(digits, _)) => Some((text, digits)),
        _ => None,
    }
}

/// Whether a text is a date, an hour and a minute, and perhaps an offset.
fn ends_with_minute(text: &str) -> bool {
    let shape = |byte: u8| if byte.is_ascii_digit() { b'0' } else { byte.to_ascii_uppercase() };
    let bytes = text.as_bytes();
    let Some((known, rest)) = bytes.split_at_checked(MINUTE_END) else { return false };
    let known: Vec<u8> = known.iter().map(|byte| shape(*byte)).collect();
    matches!(known.as_slice(), b"0000-00-00 00:00" | b"0000-00-00T00:00")
        && matches!(rest.first(), None | Some(b'Z' | b'z' | b'+' | b'-' | b' '))
}

/// To DataFusion (55.2), the origin of `date_bin` has nanoseconds; beside another one, all are made nanoseconds.
fn origin_in_nanoseconds(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let [_, _, FunctionArg::Unnamed(FunctionArgExpr::Expr(origin))] = list.args.as_mut_slice() else { return };
    if function.name.to_string().eq_ignore_ascii_case("date_bin")
        && let Some((_, digits @ None)) = literal(origin)
    {
        *digits = NANOSECONDS;
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn corrected(sql: &str) -> String {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, sql).unwrap();
        correct(&mut parsed);
        parsed[0].to_string()
    }

    #[test]
    fn literals_keep_their_digits() {
        for (given, expected) in [
            ("TIMESTAMP '2024-01-01 00:00:00.123456789'", "TIMESTAMP(9) '2024-01-01 00:00:00.123456789'"),
            ("TIMESTAMP '2024-01-01 00:00:00.123456000'", "TIMESTAMP '2024-01-01 00:00:00.123456000'"),
            ("TIMESTAMP '9999-12-31 23:59:59.9999999'", "TIMESTAMP '9999-12-31 23:59:59.9999999'"),
            ("'2024-02-28 06:00'::TIMESTAMP", "'2024-02-28 06:00:00'::TIMESTAMP"),
            ("'2024-02-28T06:00+02'::TIMESTAMP(3)", "'2024-02-28T06:00:00+02'::TIMESTAMP(3)"),
            ("'2024-02-28 06:00.5'::TIMESTAMP", "'2024-02-28 06:00.5'::TIMESTAMP"),
            ("'2024-02-28 06:0é'::TIMESTAMP", "'2024-02-28 06:0é'::TIMESTAMP"),
            ("'2024-02-28 06:00'::TEXT", "'2024-02-28 06:00'::TEXT"),
            ("date_bin(i, x, TIMESTAMP '2024-01-01')", "date_bin(i, x, TIMESTAMP(9) '2024-01-01')"),
        ] {
            assert_eq!(corrected(&format!("SELECT {given}")), format!("SELECT {expected}"));
        }
    }
}
