//! Values as JSON texts.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field};
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;

use super::is_json;
use crate::sql::types::times::PRINTED;

/// What stands for no value.
const NULL: &str = "null";

/// The JSON text of each value. Texts that are JSON already stay as they are.
pub(super) fn texts(values: &ArrayRef, is_json: bool) -> DataFusionResult<LargeStringArray> {
    match values.data_type() {
        DataType::Dictionary(_, of) => texts(&cast(values, of)?, is_json),
        of if of.is_string() && is_json => {
            let known = cast(values, &DataType::LargeUtf8)?;
            let known = known.as_string::<i64>();
            each_valid(values, |row, out| {
                out.push_str(known.value(row));
                Ok(())
            })
        }
        of if of.is_string() => {
            let plain = cast(values, &DataType::LargeUtf8)?;
            let plain = plain.as_string::<i64>();
            each_valid(values, |row, out| {
                quote(plain.value(row), out);
                Ok(())
            })
        }
        of if of.is_integer() || of.is_decimal() || *of == DataType::Boolean => {
            let plain = cast(values, &DataType::LargeUtf8)?;
            let plain = plain.as_string::<i64>();
            each_valid(values, |row, out| {
                out.push_str(plain.value(row));
                Ok(())
            })
        }
        of if of.is_floating() => floats(values),
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::ListView(of)
        | DataType::LargeListView(of)
        | DataType::FixedSizeList(of, _) => lists(values, of),
        DataType::Struct(_) => structs(values),
        DataType::Map(..) => maps(values),
        of => {
            // As `--format json` has them: bytes as `\xff`, times with a `T`.
            let start = if of.is_binary() { "\\x" } else { "" };
            let printed = ArrayFormatter::try_new(values, &FORMATS)?;
            each_valid(values, |row, out| {
                quote(&format!("{start}{}", printed.value(row).try_to_string()?), out);
                Ok(())
            })
        }
    }
}

const FORMATS: FormatOptions<'static> = FormatOptions::new()
    .with_display_error(false)
    .with_timestamp_tz_format(Some("%Y-%m-%dT%H:%M:%S%.f%:z"));

/// A text of each row.
pub(super) fn each(
    rows: usize,
    mut write: impl FnMut(usize, &mut String) -> DataFusionResult<()>,
) -> DataFusionResult<LargeStringArray> {
    let (mut texts, mut text) = (LargeStringBuilder::new(), String::new());
    for row in 0..rows {
        text.clear();
        write(row, &mut text)?;
        texts.append_value(&text);
    }
    Ok(texts.finish())
}

/// A text of each value, or `null`.
fn each_valid(
    values: &ArrayRef,
    mut write: impl FnMut(usize, &mut String) -> DataFusionResult<()>,
) -> DataFusionResult<LargeStringArray> {
    let nulls = values.logical_nulls();
    each(values.len(), |row, out| match &nulls {
        Some(nulls) if nulls.is_null(row) => {
            out.push_str(NULL);
            Ok(())
        }
        _ => write(row, out),
    })
}

/// What JSON has no number for is in quotes, as in the JSON that is printed.
fn floats(values: &ArrayRef) -> DataFusionResult<LargeStringArray> {
    let plain = cast(values, &DataType::LargeUtf8)?;
    let plain = plain.as_string::<i64>();
    each_valid(values, |row, out| {
        out.push_str(match plain.value(row) {
            "NaN" => "\"NaN\"",
            "inf" => "\"Infinity\"",
            "-inf" => "\"-Infinity\"",
            number => number,
        });
        Ok(())
    })
}

fn lists(values: &ArrayRef, of: &Arc<Field>) -> DataFusionResult<LargeStringArray> {
    let lists = cast(values, &DataType::LargeList(Arc::clone(of)))?;
    let lists = lists.as_list::<i64>();
    let offsets = lists.value_offsets();
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(first);
    let elements = lists.values().slice(first as usize, (last - first) as usize);
    let elements = texts(&elements, is_json(of))?;
    let ends = |row: usize| {
        let end = |at: usize| offsets.get(at).map_or(0, |offset| (offset - first) as usize);
        end(row)..end(row + 1)
    };
    each_valid(values, |row, out| {
        out.push('[');
        joined(ends(row).map(|at| elements.value(at)), out);
        out.push(']');
        Ok(())
    })
}

/// Texts with commas between them.
pub(super) fn joined<'t>(texts: impl Iterator<Item = &'t str>, out: &mut String) {
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(text);
    }
}

fn structs(values: &ArrayRef) -> DataFusionResult<LargeStringArray> {
    let rows = values.as_struct();
    let columns = rows.fields().iter().zip(rows.columns());
    let columns = columns.map(|(field, column)| {
        let mut name = String::new();
        quote(field.name(), &mut name);
        Ok((name, texts(column, is_json(field))?))
    });
    let columns = columns.collect::<DataFusionResult<Vec<_>>>()?;
    each_valid(values, |row, out| {
        out.push('{');
        for (at, (name, values)) in columns.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            out.push_str(name);
            out.push(':');
            out.push_str(values.value(row));
        }
        out.push('}');
        Ok(())
    })
}

fn maps(values: &ArrayRef) -> DataFusionResult<LargeStringArray> {
    let maps = values.as_map();
    let value_is_json = match maps.entries().fields().as_ref() {
        [_, value] => is_json(value),
        _ => false,
    };
    let keys = keys(maps.keys())?;
    let texts = texts(maps.values(), value_is_json)?;
    let offsets = maps.value_offsets();
    each_valid(values, |row, out| {
        let end = |at: usize| offsets.get(at).map_or(0, |offset| *offset as usize);
        out.push('{');
        for (at, entry) in (end(row)..end(row + 1)).enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            pair(&keys, &texts, entry, out)?;
        }
        out.push('}');
        Ok(())
    })
}

/// Keys of objects, as texts without quotes.
pub(super) fn keys(keys: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let of = keys.data_type();
    if of.is_string() || of.is_integer() || of.is_decimal() || of.is_null() {
        return Ok(cast(keys, &DataType::LargeUtf8)?);
    }
    let printed = ArrayFormatter::try_new(keys, &PRINTED.with_display_error(false))?;
    let mut texts = LargeStringBuilder::new();
    for row in 0..keys.len() {
        match keys.is_valid(row) {
            true => texts.append_value(printed.value(row).try_to_string()?),
            false => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// A key and its value.
pub(super) fn pair(
    keys: &ArrayRef,
    values: &LargeStringArray,
    row: usize,
    out: &mut String,
) -> DataFusionResult<()> {
    if keys.is_null(row) {
        return exec_err!("a key of a JSON object is null; coalesce(key, '') gives it a name");
    }
    quote(keys.as_string::<i64>().value(row), out);
    out.push(':');
    out.push_str(values.value(row));
    Ok(())
}

/// A text in quotes, with the escapes of JSON.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                // A text takes any characters.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
