//! What a server sends to a client of PostgreSQL, appended to bytes.

use super::errors::PgError;
use super::types::PgType;

/// What a connection may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    /// In a block that BEGIN has opened.
    InBlock,
    /// In such a block, in which a statement has failed.
    Failed,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnInfo {
    pub(super) name: String,
    pub(super) pg_type: PgType,
}

/// Appends a message: its kind, its length, and its body.
pub(super) fn message(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = begin_length(out);
    body(out);
    // The length of a message counts itself.
    let length = (out.len() - start) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Leaves room for a length.
pub(super) fn begin_length(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Writes the length of what follows it.
pub(super) fn end_length(start: usize, out: &mut [u8]) {
    let length = (out.len() - start - 4) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends a text that ends with a zero byte.
fn text(text: &str, out: &mut Vec<u8>) {
    // A zero byte within it would end it.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

fn short(value: i16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn int(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// The number of things in a message that has room for sixteen bits of it.
fn count(things: usize) -> i16 {
    (things.min(usize::from(u16::MAX)) as u16).cast_signed()
}

/// The client is let in.
pub(super) fn authentication_ok(out: &mut Vec<u8>) {
    message(b'R', out, |out| int(0, out));
}

/// The client is to prove who it is.
pub(super) fn authentication_scram(mechanism: &str, out: &mut Vec<u8>) {
    message(b'R', out, |out| {
        int(10, out);
        text(mechanism, out);
        out.push(0);
    });
}

/// A step of the proof; `is_last` says whether it was right.
pub(super) fn authentication_step(is_last: bool, data: &str, out: &mut Vec<u8>) {
    message(b'R', out, |out| {
        int(if is_last { 12 } else { 11 }, out);
        out.extend_from_slice(data.as_bytes());
    });
}

/// A newer version than 3.0 was asked for, and options that are not known.
pub(super) fn negotiate_version(unknown: &[&str], out: &mut Vec<u8>) {
    message(b'v', out, |out| {
        int(0, out);
        int(unknown.len() as i32, out);
        unknown.iter().for_each(|name| text(name, out));
    });
}

/// By what a statement of this connection is cancelled.
pub(super) fn cancel_key(number: i32, secret: i32, out: &mut Vec<u8>) {
    message(b'K', out, |out| {
        int(number, out);
        int(secret, out);
    });
}

/// The value of a setting.
pub(super) fn parameter(name: &str, value: &str, out: &mut Vec<u8>) {
    message(b'S', out, |out| {
        text(name, out);
        text(value, out);
    });
}

/// The next message is waited for.
pub(super) fn ready(status: Status, out: &mut Vec<u8>) {
    let letter = match status {
        Status::Idle => b'I',
        Status::InBlock => b'T',
        Status::Failed => b'E',
    };
    message(b'Z', out, |out| out.push(letter));
}

/// A statement has ended.
pub(super) fn complete(tag: &str, out: &mut Vec<u8>) {
    message(b'C', out, |out| text(tag, out));
}

/// Messages without a body.
pub(super) fn bare(kind: u8, out: &mut Vec<u8>) {
    message(kind, out, |_| {});
}

/// An error; `is_fatal` says that it ends the connection.
pub(super) fn error(error: &PgError, is_fatal: bool, out: &mut Vec<u8>) {
    let severity = if is_fatal { "FATAL" } else { "ERROR" };
    report(b'E', severity, error, out);
}

/// Something that the user should know.
pub(super) fn warning(warning: &PgError, out: &mut Vec<u8>) {
    report(b'N', "WARNING", warning, out);
}

fn report(kind: u8, severity: &str, error: &PgError, out: &mut Vec<u8>) {
    message(kind, out, |out| {
        let hint = error.hint.as_deref().map(|hint| (b'H', hint));
        let fields = [(b'S', severity), (b'V', severity), (b'C', error.code)];
        for (field, value) in fields.into_iter().chain([(b'M', &*error.message)]).chain(hint) {
            out.push(field);
            text(value, out);
        }
        out.push(0);
    });
}

/// The columns of an answer; 1 is binary.
pub(super) fn row_description(
    columns: &[ColumnInfo],
    format: impl Fn(usize) -> i16,
    out: &mut Vec<u8>,
) {
    message(b'T', out, |out| {
        short(count(columns.len()), out);
        for (at, column) in columns.iter().enumerate() {
            text(&column.name, out);
            // No table, no column of one.
            int(0, out);
            short(0, out);
            int(column.pg_type.oid.cast_signed(), out);
            short(column.pg_type.size, out);
            int(column.pg_type.modifier, out);
            short(format(at), out);
        }
    });
}

/// The types of a statement's parameters.
pub(super) fn parameter_description(types: &[u32], out: &mut Vec<u8>) {
    message(b't', out, |out| {
        short(count(types.len()), out);
        types.iter().for_each(|oid| int(oid.cast_signed(), out));
    });
}

/// Rows are waited for, or will come; 1 is binary.
pub(super) fn copy_response(kind: u8, format: i16, columns: usize, out: &mut Vec<u8>) {
    message(kind, out, |out| {
        out.push(format as u8);
        short(count(columns), out);
        (0..columns).for_each(|_| short(format, out));
    });
}
