//! The values of golden files as JSON, so that another implementation can test itself.
//!
//! A value is null or a text: `true` or `false`, the stored integer in decimal digits (of a decimal
//! without its point), the bits of a float as 8 or 16 hexadecimal digits, a text as it is, bytes as
//! hexadecimal digits, months, days and nanoseconds of an interval with commas between. A column is
//! a list of runs of equal values, each `[rows, value]`.

use std::fmt::Write as _;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

/// A column: what it is called, its type, and its values in one array or more.
pub(crate) struct NamedColumn {
    pub(crate) name: String,
    pub(crate) data_type: String,
    pub(crate) arrays: Vec<ArrayRef>,
}

/// Compares the file with the values, or writes it with `STY_WRITE_GOLDEN=1`.
#[expect(
    clippy::disallowed_methods,
    reason = "golden files are written by hand, and need not be durable"
)]
pub(crate) fn check(path: &Path, columns: &[NamedColumn]) {
    let now = json(columns);
    if std::env::var_os("STY_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let then = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(now == then, "{} has other values than are read", path.display());
}

fn json(columns: &[NamedColumn]) -> String {
    let mut out = String::from("{\"columns\": [");
    for (at, column) in columns.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (name, data_type) = (quoted(&column.name), quoted(&column.data_type));
        write!(out, "{comma}\n{{\"name\": {name}, \"type\": {data_type}, \"runs\": [").unwrap();
        let values: Vec<Option<String>> = column.arrays.iter().flat_map(values).collect();
        for (at, run) in values.chunk_by(|a, b| a == b).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let value = run[0].as_deref().map_or_else(|| "null".to_owned(), quoted);
            write!(out, "{comma}[{}, {value}]", run.len()).unwrap();
        }
        out.push_str("]}");
    }
    out + "\n]}\n"
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32).unwrap(),
            c => out.push(c),
        }
    }
    out + "\""
}

fn values(array: &ArrayRef) -> Vec<Option<String>> {
    let all = |text: &dyn Fn(usize) -> String| {
        (0..array.len()).map(|row| array.is_valid(row).then(|| text(row))).collect()
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match array.data_type() {
        ArrowType::Null => vec![None; array.len()],
        ArrowType::Boolean => all(&|row| array.as_boolean().value(row).to_string()),
        ArrowType::Utf8View => all(&|row| array.as_string_view().value(row).to_owned()),
        ArrowType::BinaryView => all(&|row| hex(array.as_binary_view().value(row))),
        ArrowType::Float32 => {
            let bits = |row| array.as_primitive::<Float32Type>().value(row).to_bits();
            all(&|row| format!("{:08x}", bits(row)))
        }
        ArrowType::Float64 => {
            let bits = |row| array.as_primitive::<Float64Type>().value(row).to_bits();
            all(&|row| format!("{:016x}", bits(row)))
        }
        ArrowType::Interval(_) => all(&|row| {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            format!("{},{},{}", value.months, value.days, value.nanoseconds)
        }),
        ArrowType::Decimal128(..) => {
            all(&|row| array.as_primitive::<Decimal128Type>().value(row).to_string())
        }
        ArrowType::UInt8 => all(&|row| array.as_primitive::<UInt8Type>().value(row).to_string()),
        ArrowType::UInt16 => all(&|row| array.as_primitive::<UInt16Type>().value(row).to_string()),
        ArrowType::UInt32 => all(&|row| array.as_primitive::<UInt32Type>().value(row).to_string()),
        ArrowType::UInt64 => all(&|row| array.as_primitive::<UInt64Type>().value(row).to_string()),
        ArrowType::Int8 => all(&|row| array.as_primitive::<Int8Type>().value(row).to_string()),
        ArrowType::Int16 => all(&|row| array.as_primitive::<Int16Type>().value(row).to_string()),
        other => {
            // Integers, dates, times and timestamps of four or eight bytes.
            let width = other.primitive_width().unwrap();
            let to = if width == 4 { ArrowType::Int32 } else { ArrowType::Int64 };
            let whole = arrow_cast::cast(array, &to).unwrap();
            match width {
                4 => all(&|row| whole.as_primitive::<Int32Type>().value(row).to_string()),
                _ => all(&|row| whole.as_primitive::<Int64Type>().value(row).to_string()),
            }
        }
    }
}
