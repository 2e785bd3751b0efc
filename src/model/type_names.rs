//! The names of types, in `--schema` and in what is printed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{DataType, TimeUnit};
use crate::error::{Error, Result};

/// The name of a type in `--schema` and in the output of `sty schema`: `int64`, `decimal(12,2)`,
/// `timestamp(us)`, `timestamp(ms,Europe/Berlin)`, `utf8`, …
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Null => f.write_str("null"),
            DataType::Bool => f.write_str("bool"),
            DataType::Float32 => f.write_str("float32"),
            DataType::Float64 => f.write_str("float64"),
            DataType::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            DataType::Date => f.write_str("date"),
            DataType::Timestamp { unit, zone: None } => write!(f, "timestamp({})", unit.name()),
            DataType::Timestamp { unit, zone: Some(zone) } => {
                write!(f, "timestamp({},{zone})", unit.name())
            }
            DataType::Time { unit } => write!(f, "time({})", unit.name()),
            DataType::Utf8 => f.write_str("utf8"),
            DataType::Binary => f.write_str("binary"),
            DataType::Uuid => f.write_str("uuid"),
            DataType::Interval => f.write_str("interval"),
            integer => match integer.integer_bits() {
                Some((bits, true)) => write!(f, "int{bits}"),
                Some((bits, false)) => write!(f, "uint{bits}"),
                None => f.write_str("unknown"),
            },
        }
    }
}

impl FromStr for DataType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.trim().to_ascii_lowercase();
        let (name, arguments) = match lower.split_once('(') {
            Some((name, rest)) => (name.trim(), rest.strip_suffix(')').map(|_| arguments_of(text))),
            None => (lower.as_str(), Some(Vec::new())),
        };
        arguments.and_then(|arguments| parse(name, &arguments)).ok_or_else(|| {
            Error::InvalidInput(format!(
                "unknown type '{text}'; known: bool, int8 … int64, uint8 … uint64, float32, \
                 float64, decimal(p,s), date, timestamp(s|ms|us|ns[,zone]), time(s|ms|us|ns), \
                 utf8, binary, uuid, interval"
            ))
        })
    }
}

/// The comma-separated arguments in parentheses, in their original case (zones are case-sensitive).
fn arguments_of(text: &str) -> Vec<&str> {
    let text = text.trim();
    let open = text.find('(').map_or(0, |at| at + 1);
    text[open..].trim_end_matches(')').split(',').map(str::trim).collect()
}

fn parse(name: &str, arguments: &[&str]) -> Option<DataType> {
    let unit = |default| match arguments.first() {
        None => Some(default),
        Some(name) => TimeUnit::parse(&name.to_ascii_lowercase()),
    };
    let simple = match name {
        "null" => DataType::Null,
        "bool" | "boolean" => DataType::Bool,
        "int8" | "tinyint" => DataType::Int8,
        "int16" | "smallint" => DataType::Int16,
        "int32" | "int" | "integer" => DataType::Int32,
        "int64" | "bigint" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" | "real" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "date" => DataType::Date,
        "utf8" | "text" | "string" | "varchar" => DataType::Utf8,
        "binary" | "blob" | "bytea" => DataType::Binary,
        "uuid" => DataType::Uuid,
        "interval" => DataType::Interval,
        "timestamp" => {
            let zone = arguments.get(1).map(|zone| Arc::from(*zone));
            return (arguments.len() <= 2)
                .then_some(DataType::Timestamp { unit: unit(TimeUnit::Microsecond)?, zone });
        }
        "time" => {
            return (arguments.len() <= 1)
                .then_some(DataType::Time { unit: unit(TimeUnit::Microsecond)? });
        }
        "decimal" | "numeric" => {
            let precision: u8 = arguments.first()?.parse().ok()?;
            let scale: i8 = arguments.get(1).map_or(Some(0), |s| s.parse().ok())?;
            let fits = (1..=38).contains(&precision)
                && (0..=precision).contains(&u8::try_from(scale).ok()?);
            return (fits && arguments.len() <= 2)
                .then_some(DataType::Decimal { precision, scale });
        }
        _ => return None,
    };
    arguments.is_empty().then_some(simple)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_round_trips() {
        for text in [
            "bool",
            "int8",
            "uint64",
            "decimal(38,10)",
            "timestamp(ns,Europe/Berlin)",
            "time(s)",
            "utf8",
            "uuid",
            "interval",
        ] {
            assert_eq!(text.parse::<DataType>().unwrap().to_string(), text);
        }
        for bad in
            ["", "int7", "decimal(39,2)", "decimal(5,6)", "timestamp(h)", "utf8(3)", "time(s"]
        {
            assert!(bad.parse::<DataType>().is_err(), "{bad}");
        }
    }
}
