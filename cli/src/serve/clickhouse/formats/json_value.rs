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

/// How nested values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// In one line.
    Line,
    /// With a line for each of their parts, behind this many tabs.
    Lines(usize),
}

/// Appends a value.
pub(super) fn write_json(
    column: &Column,
    row: usize,
    invalid: Invalid,
    layout: Layout,
    out: &mut Vec<u8>,
) {
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
            // Arrays of numbers and texts stay in one line.
            let layout = if is_nested(items) { layout } else { Layout::Line };
            let mut parts = Parts::new([b'[', b']'], layout, out);
            for item in rows[row].clone() {
                let inner = parts.next(out);
                write_json(items, item, invalid, inner, out);
            }
            parts.end(out);
        }
        Values::Tuple { names, elements } => {
            let ends = if names.is_empty() { [b'[', b']'] } else { [b'{', b'}'] };
            let mut parts = Parts::new(ends, layout, out);
            for (at, element) in elements.iter().enumerate() {
                let inner = parts.next(out);
                if let Some(name) = names.get(at) {
                    escape::json(name.as_bytes(), out);
                    parts.colon(out);
                }
                write_json(element, row, invalid, inner, out);
            }
            parts.end(out);
        }
        Values::Map { rows, keys, values } => {
            let mut parts = Parts::new([b'{', b'}'], layout, out);
            for item in rows[row].clone() {
                let inner = parts.next(out);
                write_string(keys, item, invalid, out);
                parts.colon(out);
                write_json(values, item, invalid, inner, out);
            }
            parts.end(out);
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

/// The parts of an array or object.
struct Parts {
    layout: Layout,
    close: u8,
    count: usize,
}

impl Parts {
    fn new([open, close]: [u8; 2], layout: Layout, out: &mut Vec<u8>) -> Parts {
        out.push(open);
        Parts { layout, close, count: 0 }
    }

    /// Starts a part, and returns how what is in it is laid out.
    fn next(&mut self, out: &mut Vec<u8>) -> Layout {
        if self.count > 0 {
            out.push(b',');
        }
        self.count += 1;
        match self.layout {
            Layout::Line => Layout::Line,
            Layout::Lines(tabs) => {
                line(tabs + 1, out);
                Layout::Lines(tabs + 1)
            }
        }
    }

    fn colon(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.layout == Layout::Line { b":" } else { b": " });
    }

    fn end(self, out: &mut Vec<u8>) {
        if let Layout::Lines(tabs) = self.layout
            && self.count > 0
        {
            line(tabs, out);
        }
        out.push(self.close);
    }
}

fn line(tabs: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + tabs, b'\t');
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
