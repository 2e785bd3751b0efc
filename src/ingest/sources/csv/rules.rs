//! Interprets the bytes of a field: nulls, doubled quotes, and blanks around values.

use super::sample::{ColumnSample, Sampling};
use super::split::Field;
use crate::ingest::text::Text;

/// Which fields are null, and the quote character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest::sources) struct FieldRules {
    pub(in crate::ingest::sources) quote: u8,
    pub(in crate::ingest::sources) nulls: Vec<Vec<u8>>,
    pub(in crate::ingest::sources) empty_is_null: bool,
    /// Whether blanks around a value are no part of it in columns that are not text.
    pub(in crate::ingest::sources) trims: bool,
}

/// A value that does not parse as it is, without the blanks around it.
pub(super) enum Inner<'a> {
    /// There are no blanks, or nothing else in quotes.
    Same,
    /// Without them it is nothing, or a text that means null.
    Null,
    Value(Text<'a>),
}

impl FieldRules {
    #[inline]
    pub(super) fn is_null(&self, bytes: &[u8]) -> bool {
        self.nulls.iter().any(|null| null == bytes)
    }

    /// What is between the blanks around a value that is not text.
    #[cold]
    pub(super) fn inner<'a>(&self, value: Text<'a>, quoted: bool) -> Inner<'a> {
        let Some(inner) = value.without_blanks().filter(|_| self.trims) else {
            return Inner::Same;
        };
        let is_empty = inner.len() == 0;
        match quoted {
            false if is_empty && self.empty_is_null || self.is_null(inner.bytes()) => Inner::Null,
            _ if is_empty => Inner::Same,
            _ => Inner::Value(inner),
        }
    }
}

/// The field's bytes; doubled quotes are made single in `scratch`, if there are any.
#[inline]
pub(super) fn unquoted<'a>(
    text: &'a [u8],
    field: Field,
    rules: &FieldRules,
    scratch: &'a mut Vec<u8>,
) -> Text<'a> {
    let tail = text.get(field.start..).unwrap_or_default();
    if !field.escaped {
        return Text::new(tail, field.len);
    }
    scratch.clear();
    unescape(Text::new(tail, field.len).bytes(), rules.quote, scratch);
    Text::from(scratch.as_slice())
}

/// Appends a quoted field, making doubled quotes single.
pub(super) fn unescape(mut bytes: &[u8], quote: u8, out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(quote, bytes) {
        let (head, rest) = bytes.split_at((at + 1).min(bytes.len()));
        out.extend_from_slice(head);
        bytes = rest.strip_prefix(&[quote]).unwrap_or(rest);
    }
    out.extend_from_slice(bytes);
}

/// Adds a field to the sample of its column, unless it is null.
#[inline]
pub(super) fn add_field(
    text: &[u8],
    field: Field,
    rules: &FieldRules,
    sampling: &Sampling,
    sample: &mut ColumnSample,
) {
    if field.len == 0 {
        if field.quoted || !rules.empty_is_null {
            sample.add_quoted_empty();
        }
        return;
    }
    let mut scratch = Vec::new();
    let value = unquoted(text, field, rules, &mut scratch);
    if field.quoted || !rules.is_null(value.bytes()) {
        sample.note_blank(value, field.quoted);
        match rules.inner(value, field.quoted) {
            Inner::Same => sample.add(value, field.quoted, sampling),
            // It is a text in columns of text.
            Inner::Null => sample.add_quoted_empty(),
            Inner::Value(inner) => sample.add(inner, field.quoted, sampling),
        }
    }
}
