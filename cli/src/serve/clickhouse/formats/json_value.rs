//! Values as JSON. Integers of any width are numbers, as in current releases of ClickHouse; a float
//! that is no number is null.

use std::borrow::Cow;

use crate::serve::clickhouse::columns::{Column, Values};
use crate::serve::clickhouse::escape;
use crate::serve::clickhouse::text::{Spelling, is_nested, is_not_finite, write, write_scalar};

/// What becomes of bytes that are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// They are written as they are.
    Kept,
    /// They become U+FFFD.
    Replaced,
}

/// Appends a value.
pub(super) fn write_json(column: &Column, row: usize, invalid: Invalid, out: &mut Vec<u8>) {
    if column.is_null(row) && !is_nested(column) {
        out.extend_from_slice(b"null");
        return;
    }
    match &column.values {
        Values::Text(texts) => write_text(texts.bytes(row), invalid, out),
        Values::Date(_) | Values::DateTime { .. } => {
            out.push(b'"');
            write_scalar(&column.values, row, out);
            out.push(b'"');
        }
        Values::Array { rows, items } => {
            out.push(b'[');
            for (at, item) in rows[row].clone().enumerate() {
                comma(at, out);
                write_json(items, item, invalid, out);
            }
            out.push(b']');
        }
        Values::Tuple { names, elements } => write_tuple(names, elements, row, invalid, out),
        Values::Map { rows, keys, values } => {
            out.push(b'{');
            for (at, item) in rows[row].clone().enumerate() {
                comma(at, out);
                write_string(keys, item, invalid, out);
                out.push(b':');
                write_json(values, item, invalid, out);
            }
            out.push(b'}');
        }
        values if is_not_finite(values, row) => out.extend_from_slice(b"null"),
        values => write_scalar(values, row, out),
    }
}

/// Appends the text of a value as a string.
pub(super) fn write_string(column: &Column, row: usize, invalid: Invalid, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    write(column, row, Spelling::Plain, &mut text);
    write_text(&text, invalid, out);
}

/// An object if the elements have names, else an array.
fn write_tuple(
    names: &[String],
    elements: &[Column],
    row: usize,
    invalid: Invalid,
    out: &mut Vec<u8>,
) {
    let named = !names.is_empty();
    out.push(if named { b'{' } else { b'[' });
    for (at, element) in elements.iter().enumerate() {
        comma(at, out);
        if let Some(name) = names.get(at) {
            escape::json(name.as_bytes(), out);
            out.push(b':');
        }
        write_json(element, row, invalid, out);
    }
    out.push(if named { b'}' } else { b']' });
}

fn write_text(text: &[u8], invalid: Invalid, out: &mut Vec<u8>) {
    let text = match invalid {
        Invalid::Kept => Cow::Borrowed(text),
        Invalid::Replaced => match String::from_utf8_lossy(text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
    };
    escape::json(&text, out);
}

fn comma(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}
