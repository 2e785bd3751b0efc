//! Parses the rows of a chunk into a table: for each key, where its value is in each row.
//!
//! Strings with escapes are decoded into a buffer after the text, so that every value is a plain
//! slice.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use super::bad_row::BadRow;
use super::chunks::JsonChunk;
use super::scan::{Layout, value_end};
use super::schema::JsonSchema;
use super::value::{Cursor, Kind, ParseResult, SyntaxError, Value, unescape};
use crate::error::{Error, Result};
use crate::ingest::sources::csv::split::Field;
use crate::limits;

/// The most bytes of a chunk: positions have 31 bits, and half of them are for decoded strings.
const MAX_CHUNK: usize = 1 << 30;
/// The most cells of a chunk, that is rows times keys, absent values included.
const MAX_CELLS: usize = 1 << 25;

/// The column of the empty key: as that of a CSV column at the front without a name.
const NAMELESS: &str = "column0";

/// The position of a value. The lowest three bits of `tag` are its kind, the others its length.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    start: u32,
    tag: u32,
}

impl Entry {
    /// An absent value.
    const NULL: Entry = Entry { start: 0, tag: 0 };

    fn new(kind: Kind, start: usize, len: usize) -> Self {
        let kind = match kind {
            Kind::Null => return Entry::NULL,
            Kind::Bool => 1,
            Kind::Number => 2,
            Kind::String => 3,
            Kind::Nested => 4,
        };
        Entry { start: start as u32, tag: (len as u32) << 3 | kind }
    }

    #[inline]
    pub(super) fn kind(&self) -> Kind {
        match self.tag & 7 {
            0 => Kind::Null,
            1 => Kind::Bool,
            2 => Kind::Number,
            3 => Kind::String,
            _ => Kind::Nested,
        }
    }

    /// The value as a CSV field: a string is quoted, and null is unquoted and empty.
    #[inline]
    pub(super) fn field(&self) -> Field {
        let quoted = self.kind() == Kind::String;
        Field { start: self.start as usize, len: (self.tag >> 3) as usize, quoted, escaped: false }
    }
}

/// The rows of a chunk.
pub(super) struct Table<'a> {
    /// The chunk's text, followed by decoded strings.
    pub(super) text: Cow<'a, [u8]>,
    /// Keys and their values: the keys of the schema first, in its order. Every column has all
    /// rows.
    pub(super) columns: Vec<(Arc<str>, Vec<Entry>)>,
    /// Start and end of each row.
    pub(super) rows: Vec<(usize, usize)>,
    /// Bad rows, which `rows` does not contain.
    pub(super) bad: Vec<BadRow>,
}

/// Reads at most `max_rows` rows of the chunk.
pub(super) fn read_table<'a>(
    schema: &JsonSchema,
    chunk: &'a JsonChunk,
    max_rows: usize,
) -> Result<Table<'a>> {
    if chunk.text.len() >= MAX_CHUNK {
        return Err(Error::LimitExceeded(format!(
            "a chunk of JSON has {} bytes",
            chunk.text.len()
        )));
    }
    let mut reader = TableReader {
        text: &chunk.text,
        decoded: Vec::new(),
        columns: schema.columns.iter().map(|column| (column.name.clone(), Vec::new())).collect(),
        positions: HashMap::new(),
        row: 0,
        nameless: None,
        flattened: schema.flattened.as_deref(),
        path: Vec::new(),
        path_lengths: Vec::new(),
    };
    for at in 0..reader.columns.len() {
        reader.note_position(at);
    }
    let all_utf8 = std::str::from_utf8(&chunk.text).is_ok();
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    let mut lines = LineCounter { text: &chunk.text, at: 0, line: chunk.line };
    let mut cursor = Cursor::new(&chunk.text, 0, chunk.layout == Layout::Lines);
    while rows.len() < max_rows {
        skip_blanks_and_lines(&mut cursor);
        let start = cursor.at;
        if cursor.peek().is_none() {
            break;
        }
        reader.row = rows.len();
        let keys_before = reader.columns.len();
        let read = reader.read_row(&mut cursor).and_then(|()| {
            let row = chunk.text.get(start..cursor.at).filter(|_| !all_utf8).unwrap_or_default();
            std::str::from_utf8(row).map_err(|e| {
                let what = "not UTF-8; name what it is, for example --encoding latin1".to_owned();
                SyntaxError { at: start + e.valid_up_to(), what }
            })
        });
        match read {
            Ok(_) => rows.push((start, cursor.at)),
            Err(wrong) => {
                reader.drop_row(keys_before);
                cursor.at = row_end(chunk, start).max(start + 1);
                let raw = chunk.text.get(start..cursor.at).unwrap_or_default();
                let first_line = lines.line_at(start);
                bad.push(BadRow {
                    line: first_line + count_lines(chunk, start, wrong.at.min(chunk.text.len())),
                    first_line,
                    column: None,
                    reason: wrong.what,
                    text: without_line_end(raw).to_vec(),
                });
            }
        }
        if reader.columns.len() > limits::MAX_COLUMNS
            || reader.columns.len().saturating_mul(rows.len()) > MAX_CELLS
        {
            let whole = match schema.flattened {
                Some(_) => "; --schema NAME:utf8 keeps an object as one text",
                None => "",
            };
            return Err(Error::LimitExceeded(format!(
                "{}: line {}: {} different keys in {} rows; are some of them data? A table has at \
                 most {} columns, and rows that are read together have {MAX_CELLS} values{whole}",
                schema.file.display(),
                lines.line_at(start),
                reader.columns.len(),
                rows.len(),
                limits::MAX_COLUMNS
            )));
        }
    }
    let TableReader { decoded, mut columns, .. } = reader;
    for (_, entries) in &mut columns {
        entries.resize(rows.len(), Entry::NULL);
    }
    if schema.flattened.is_some() {
        let known: Vec<&str> = schema.prior.keys().map(String::as_str).collect();
        drop_nulls_beside_fields(&mut columns, schema.columns.len(), &known);
    }
    let text = match decoded.is_empty() {
        true => Cow::Borrowed(chunk.text.as_slice()),
        false => Cow::Owned([chunk.text.as_slice(), &decoded].concat()),
    };
    Ok(Table { text, columns, rows, bad })
}

/// Removes columns behind the first `known` that have nulls alone where others, of these rows or of
/// the table, are fields of the same key: the key's values are objects.
fn drop_nulls_beside_fields(
    columns: &mut Vec<(Arc<str>, Vec<Entry>)>,
    known: usize,
    of_table: &[&str],
) {
    let names = columns.iter().map(|(name, _)| &**name).chain(of_table.iter().copied());
    let prefixes = |name: &str| -> Vec<String> {
        name.match_indices('.').filter_map(|(at, _)| name.get(..at)).map(str::to_owned).collect()
    };
    let objects: HashSet<String> = names.flat_map(prefixes).collect();
    let mut at = 0;
    columns.retain(|(name, entries)| {
        at += 1;
        let is_null = |entry: &Entry| entry.kind() == Kind::Null;
        at <= known || !objects.contains(&**name) || !entries.iter().all(is_null)
    });
}

fn skip_blanks_and_lines(cursor: &mut Cursor<'_>) {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = cursor.peek() {
        cursor.at += 1;
    }
}

/// The end of a bad row.
fn row_end(chunk: &JsonChunk, start: usize) -> usize {
    match chunk.layout {
        Layout::Lines => {
            let rest = chunk.text.get(start..).unwrap_or_default();
            memchr(b'\n', rest).map_or(chunk.text.len(), |end| start + end + 1)
        }
        Layout::Values | Layout::Array => value_end(&chunk.text, start),
    }
}

/// A line as it was, blanks at its end included, without what ends it.
fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn count_lines(chunk: &JsonChunk, from: usize, to: usize) -> u64 {
    memchr_iter(b'\n', chunk.text.get(from..to).unwrap_or_default()).count() as u64
}

/// Counts lines up to ascending positions.
pub(super) struct LineCounter<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) line: u64,
}

impl LineCounter<'_> {
    pub(super) fn line_at(&mut self, offset: usize) -> u64 {
        let between = self.text.get(self.at..offset).unwrap_or_default();
        self.line += memchr_iter(b'\n', between).count() as u64;
        self.at = self.at.max(offset);
        self.line
    }
}

struct TableReader<'a> {
    text: &'a [u8],
    decoded: Vec<u8>,
    columns: Vec<(Arc<str>, Vec<Entry>)>,
    positions: HashMap<Arc<str>, usize>,
    /// Number of the current row.
    row: usize,
    /// The row in which the empty key came last.
    nameless: Option<usize>,
    /// Where fields of objects are columns of their own: the columns whose objects stay one text.
    flattened: Option<&'a [String]>,
    /// The keys of the objects around the current one, with a dot after each.
    path: Vec<u8>,
    /// Of each column, how long the path was when it last got a value.
    path_lengths: Vec<usize>,
}

impl TableReader<'_> {
    fn note_position(&mut self, at: usize) {
        if let Some((name, _)) = self.columns.get(at) {
            self.positions.insert(name.clone(), at);
        }
    }

    /// Parses a row.
    fn read_row(&mut self, cursor: &mut Cursor<'_>) -> ParseResult<()> {
        self.path.clear();
        self.read_object(cursor, 0, 0).map(|_| ())
    }

    /// Parses an object, key by key. Returns the column behind the last one that got a value: most
    /// objects have their keys in the same order.
    fn read_object(
        &mut self,
        cursor: &mut Cursor<'_>,
        depth: usize,
        mut expected: usize,
    ) -> ParseResult<usize> {
        cursor.expect(b'{', "an object: each row is one, and '{'")?;
        cursor.skip_blanks();
        if cursor.peek() == Some(b'}') {
            cursor.at += 1;
            return Ok(expected);
        }
        loop {
            let key = cursor.key()?;
            let before = self.path.len();
            if cursor.peek() == Some(b'{') && self.enter(key, depth)? {
                expected = self.read_object(cursor, depth + 1, expected)?;
                self.path.truncate(before);
            } else {
                let at = self.position(key, expected)?;
                expected = at + 1;
                let value = cursor.value()?;
                if self.set(at, value) {
                    self.check_repeated(at, key.start)?;
                }
                if self.flattened.is_some() {
                    self.note_path(at);
                }
            }
            cursor.skip_blanks();
            match cursor.peek() {
                Some(b',') => {
                    cursor.at += 1;
                    cursor.skip_blanks();
                }
                Some(b'}') => {
                    cursor.at += 1;
                    return Ok(expected);
                }
                _ => return cursor.expected("',' or '}'"),
            }
        }
    }

    /// Whether the fields of the object behind this key are columns of their own; then the key is
    /// the last one of the path.
    #[inline]
    fn enter(&mut self, key: Value, depth: usize) -> ParseResult<bool> {
        let Some(whole) = self.flattened.filter(|_| depth < limits::MAX_FLAT_DEPTH) else {
            return Ok(false);
        };
        let raw = self.text.get(key.start..key.end).unwrap_or_default();
        let before = self.path.len();
        match key.escaped {
            true => unescape(raw, &mut self.path),
            false => self.path.extend_from_slice(raw),
        }
        if whole.iter().any(|name| name.as_bytes() == self.path) {
            self.path.truncate(before);
            return Ok(false);
        }
        self.path.push(b'.');
        Ok(true)
    }

    /// The column of a key.
    #[inline]
    fn position(&mut self, key: Value, expected: usize) -> ParseResult<usize> {
        let raw = self.text.get(key.start..key.end).unwrap_or_default();
        match self.columns.get(expected) {
            Some((name, _))
                if name.as_bytes().strip_prefix(self.path.as_slice()) == Some(raw)
                    && !key.escaped =>
            {
                Ok(expected)
            }
            _ => self.find(key, raw),
        }
    }

    fn find(&mut self, key: Value, raw: &[u8]) -> ParseResult<usize> {
        let mut plain = Cow::Borrowed(raw);
        if key.escaped || !self.path.is_empty() {
            let mut text = self.path.clone();
            match key.escaped {
                true => unescape(raw, &mut text),
                false => text.extend_from_slice(raw),
            }
            plain = Cow::Owned(text);
        }
        let Ok(mut name) = std::str::from_utf8(&plain) else {
            return Err(SyntaxError {
                at: key.start,
                what: "a key that is not UTF-8; name what it is, for example --encoding latin1"
                    .to_owned(),
            });
        };
        if name.is_empty() {
            name = NAMELESS;
            self.nameless = Some(self.row);
        }
        if let Some(at) = self.positions.get(name) {
            return Ok(*at);
        }
        if name.len() > limits::MAX_NAME_BYTES {
            let what = format!(
                "a key of {} bytes; a column's name has 1 to {}",
                name.len(),
                limits::MAX_NAME_BYTES
            );
            return Err(SyntaxError { at: key.start, what });
        }
        self.columns.push((Arc::from(name), Vec::new()));
        self.note_position(self.columns.len() - 1);
        Ok(self.columns.len() - 1)
    }

    /// Refuses a row in which the empty key and the key that is the name of its column both are; a
    /// key that is repeated as it is has its last value.
    #[cold]
    fn check_repeated(&self, at: usize, key: usize) -> ParseResult<()> {
        let before = self.path_lengths.get(at).filter(|_| self.flattened.is_some());
        if let Some((name, _)) = self.columns.get(at)
            && before.is_some_and(|length| *length != self.path.len())
        {
            let what = format!(
                "two keys of this row are the column '{name}': one has a dot in it, the other is \
                 a field of an object"
            );
            return Err(SyntaxError { at: key, what });
        }
        let named = self.columns.get(at).is_some_and(|(name, _)| **name == *NAMELESS);
        if !named || self.nameless != Some(self.row) {
            return Ok(());
        }
        let what = format!("the empty key, whose column is called '{NAMELESS}', and another of it");
        Err(SyntaxError { at: key, what })
    }

    /// Sets a value of the current row; returns whether there was one.
    #[inline]
    fn set(&mut self, at: usize, value: Value) -> bool {
        let mut entry = Entry::new(value.kind, value.start, value.end - value.start);
        if value.escaped {
            let start = self.decoded.len();
            unescape(self.text.get(value.start..value.end).unwrap_or_default(), &mut self.decoded);
            entry = Entry::new(value.kind, self.text.len() + start, self.decoded.len() - start);
        }
        let Some((_, entries)) = self.columns.get_mut(at) else { return false };
        let repeated = entries.len() > self.row;
        if repeated {
            entries.truncate(self.row);
        } else if entries.len() < self.row {
            entries.resize(self.row, Entry::NULL);
        }
        entries.push(entry);
        repeated
    }

    /// Notes that a column has got a value under the current path.
    #[inline]
    fn note_path(&mut self, at: usize) {
        if self.path_lengths.len() <= at {
            self.path_lengths.resize(at + 1, 0);
        }
        if let Some(length) = self.path_lengths.get_mut(at) {
            *length = self.path.len();
        }
    }

    /// Removes the values of the current row, and the keys that came with it.
    fn drop_row(&mut self, keys_before: usize) {
        for (name, _) in self.columns.drain(keys_before..) {
            self.positions.remove(&name);
        }
        self.nameless = None;
        for (_, entries) in &mut self.columns {
            entries.truncate(self.row);
        }
    }
}
