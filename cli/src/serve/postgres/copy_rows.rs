//! The fields and lines of COPY in text and CSV.

use std::io::{self, Read};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};

use super::errors::PgError;
use super::own::{Format, Options};
use crate::serve::clickhouse::rows_in::ends_in_escape;

/// Bytes of a batch of rows that come, and of one of them, at most.
const BATCH_BYTES: usize = 8 << 20;
const MOST_ROW_BYTES: usize = 256 << 20;
/// Rows of a batch, at most.
const BATCH_ROWS: usize = 65_536;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// Appends a field with its escapes or quotes.
pub(super) fn write_field(field: &[u8], options: &Options, may_look_null: bool, out: &mut Vec<u8>) {
    if options.format == Format::Csv {
        let special = |byte: &u8| {
            [options.delimiter, options.quote, options.escape, b'\n', b'\r'].contains(byte)
        };
        let looks_null = may_look_null && field == options.null.as_bytes();
        let needs_quotes = looks_null || field.iter().any(special) || field == b"\\.";
        if !needs_quotes && !options.quotes_all {
            out.extend_from_slice(field);
            return;
        }
        out.push(options.quote);
        for byte in field {
            if *byte == options.quote || *byte == options.escape {
                out.push(options.escape);
            }
            out.push(*byte);
        }
        out.push(options.quote);
        return;
    }
    for byte in field {
        let letter = match byte {
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0b => b'v',
            0x0c => b'f',
            b'\\' => b'\\',
            byte if *byte == options.delimiter => *byte,
            byte => {
                out.push(*byte);
                continue;
            }
        };
        out.extend([b'\\', letter]);
    }
}

/// CSV without the line `\\.` at its end, which some clients send.
pub(super) struct WithoutEnd<R> {
    input: R,
    /// What has been read and not handed on: the last bytes are held back.
    bytes: Vec<u8>,
    at: usize,
    has_ended: bool,
    /// Whether a line begins with the first byte that is held.
    is_new_line: bool,
}

/// The longest end.
const END_BYTES: usize = b"\n\\.\r\n".len();

impl<R: Read> WithoutEnd<R> {
    pub(super) fn of(input: R) -> WithoutEnd<R> {
        WithoutEnd { input, bytes: Vec::new(), at: 0, has_ended: false, is_new_line: true }
    }

    fn fill(&mut self) -> io::Result<()> {
        while !self.has_ended && self.bytes.len() - self.at <= END_BYTES {
            self.bytes.drain(..self.at);
            self.at = 0;
            let held = self.bytes.len();
            self.bytes.resize(held + READ_BYTES, 0);
            let read = self.input.read(self.bytes.get_mut(held..).unwrap_or_default())?;
            self.bytes.truncate(held + read);
            self.has_ended = read == 0;
            if self.has_ended {
                let rest = self.bytes.as_slice();
                let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
                let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
                if let Some(rest) = rest.strip_suffix(b"\\.")
                    && (rest.ends_with(b"\n") || rest.is_empty() && self.is_new_line)
                {
                    self.bytes.truncate(rest.len());
                }
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for WithoutEnd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.fill()?;
        let held = if self.has_ended { 0 } else { END_BYTES };
        let free = self.bytes.get(self.at..self.bytes.len().saturating_sub(held));
        let free = free.unwrap_or_default();
        let taken = free.get(..free.len().min(into.len())).unwrap_or_default();
        if let (Some(into), Some(last)) = (into.get_mut(..taken.len()), taken.last()) {
            into.copy_from_slice(taken);
            self.is_new_line = *last == b'\n';
        }
        let count = taken.len();
        self.at += count;
        Ok(count)
    }
}

/// Rows in PostgreSQL's text format, as batches of texts.
pub(super) struct TextRows<R> {
    input: R,
    options: Options,
    columns: usize,
    /// What has been read, and where the next line begins.
    bytes: Vec<u8>,
    at: usize,
    line: u64,
    has_ended: bool,
}

impl<R: Read> TextRows<R> {
    pub(super) fn new(input: R, options: &Options, columns: usize) -> TextRows<R> {
        let (options, bytes) = (options.clone(), Vec::new());
        TextRows { input, options, columns, bytes, at: 0, line: 0, has_ended: false }
    }

    /// The values of the first line, which is no row.
    pub(super) fn header(&mut self) -> Result<Vec<Vec<u8>>, PgError> {
        let line = self.next_line()?.unwrap_or_default();
        let line = self.bytes.get(line).unwrap_or_default();
        self.line = 1 + line.iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut rest = line.strip_suffix(b"\r").unwrap_or(line);
        let (mut values, mut value) = (Vec::new(), Vec::new());
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                byte if *byte == self.options.delimiter => values.push(std::mem::take(&mut value)),
                b'\\' => rest = unescaped(after, &mut value),
                byte => value.push(*byte),
            }
        }
        values.push(value);
        Ok(values)
    }

    /// The range of the next line, without its end. A line feed behind a backslash is a part of a
    /// value.
    fn next_line(&mut self) -> Result<Option<std::ops::Range<usize>>, PgError> {
        let mut searched = self.at;
        loop {
            let rest = self.bytes.get(searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.at..searched + end;
                if ends_in_escape(self.bytes.get(line.clone()).unwrap_or_default()) {
                    searched = line.end + 1;
                    continue;
                }
                self.at = line.end + 1;
                return Ok(Some(line));
            }
            searched = self.bytes.len();
            if self.has_ended {
                let line = self.at..self.bytes.len();
                self.at = line.end;
                return Ok((!line.is_empty()).then_some(line));
            }
            if searched - self.at > MOST_ROW_BYTES {
                let what = format!("line {} has more than {MOST_ROW_BYTES} bytes", self.line + 1);
                return Err(PgError::of("54000", what));
            }
            self.bytes.drain(..self.at);
            searched -= self.at;
            self.at = 0;
            self.bytes.resize(searched + READ_BYTES, 0);
            let place = self.bytes.get_mut(searched..).unwrap_or_default();
            let read = self.input.read(place);
            let read = read.map_err(|error: io::Error| PgError::of("57014", error.to_string()))?;
            self.bytes.truncate(searched + read);
            self.has_ended = read == 0;
        }
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, PgError> {
        let mut builders: Vec<StringBuilder> =
            (0..self.columns).map(|_| StringBuilder::new()).collect();
        let (mut rows, mut bytes) = (0, 0);
        while bytes < BATCH_BYTES && rows < BATCH_ROWS {
            let Some(line) = self.next_line()? else { break };
            let is_header = self.line == 0 && self.options.has_header;
            let number = self.line + 1;
            let line = self.bytes.get(line).unwrap_or_default();
            self.line = number + line.iter().filter(|byte| **byte == b'\n').count() as u64;
            let line = match line.strip_suffix(b"\r") {
                Some(line) if !ends_in_escape(line) => line,
                _ => line,
            };
            if line == b"\\." {
                // What follows counts for nothing.
                self.has_ended = true;
                self.at = self.bytes.len();
                break;
            }
            if !is_header {
                bytes += line.len();
                rows += 1;
                split(line, &self.options, number, &mut builders)?;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = builders.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef);
        let named = arrays.enumerate().map(|(at, array)| (format!("c{at}"), array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(named);
        batch.map(Some).map_err(|error| PgError::of("22000", error.to_string()))
    }
}

/// Appends the fields of a line.
fn split(
    line: &[u8],
    options: &Options,
    number: u64,
    builders: &mut [StringBuilder],
) -> Result<(), PgError> {
    let wrong = |what: String| Err(PgError::of("22P04", format!("line {number} {what}")));
    let (mut rest, mut plain) = (line, Vec::new());
    for (at, builder) in builders.iter_mut().enumerate() {
        if at > 0 {
            match rest.split_first() {
                Some((byte, after)) if *byte == options.delimiter => rest = after,
                _ => return wrong(format!("has only {at} values")),
            }
        }
        plain.clear();
        let before = rest;
        while let Some((byte, after)) = rest.split_first() {
            match byte {
                byte if *byte == options.delimiter => break,
                b'\\' => rest = unescaped(after, &mut plain),
                byte => {
                    plain.push(*byte);
                    rest = after;
                }
            }
        }
        let raw = before.get(..before.len() - rest.len()).unwrap_or_default();
        if raw == options.null.as_bytes() {
            builder.append_null();
            continue;
        }
        match std::str::from_utf8(&plain) {
            Ok(text) => builder.append_value(text),
            Err(_) => return wrong(format!("is no UTF-8 in value {}", at + 1)),
        }
    }
    match rest.is_empty() {
        true => Ok(()),
        false => wrong(format!("has more than {} values", builders.len())),
    }
}

/// Appends what stands for a backslash and what follows; returns the rest.
fn unescaped<'a>(after: &'a [u8], plain: &mut Vec<u8>) -> &'a [u8] {
    let Some((byte, rest)) = after.split_first() else {
        plain.push(b'\\');
        return after;
    };
    let digits = |bytes: &[u8], most: usize, radix: u32| {
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
        bytes.iter().take(most).take_while(is_digit).count()
    };
    let value = |bytes: &[u8], radix: u32| {
        let digit = |byte: &u8| char::from(*byte).to_digit(radix).unwrap_or(0);
        (bytes.iter().fold(0, |sum, byte| sum * radix + digit(byte)) & 0xff) as u8
    };
    match byte {
        b'n' => plain.push(b'\n'),
        b't' => plain.push(b'\t'),
        b'r' => plain.push(b'\r'),
        b'b' => plain.push(0x08),
        b'f' => plain.push(0x0c),
        b'v' => plain.push(0x0b),
        b'0'..=b'7' => {
            let (octal, rest) = after.split_at(digits(after, 3, 8));
            plain.push(value(octal, 8));
            return rest;
        }
        b'x' if digits(rest, 2, 16) > 0 => {
            let (hex, rest) = rest.split_at(digits(rest, 2, 16));
            plain.push(value(hex, 16));
            return rest;
        }
        other => plain.push(*other),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;

    fn options() -> Options {
        let (format, null) = (Format::Text, "\\N".to_owned());
        Options {
            format,
            delimiter: b'\t',
            null,
            has_header: false,
            matches_header: false,
            quote: b'"',
            escape: b'"',
            quotes_all: false,
        }
    }

    fn read(text: &[u8], columns: usize) -> Result<Vec<Vec<Option<String>>>, PgError> {
        let mut rows = TextRows::new(text, &options(), columns);
        let mut found = Vec::new();
        while let Some(batch) = rows.next_batch()? {
            for row in 0..batch.num_rows() {
                let value = |column: &ArrayRef| {
                    let column = column.as_string::<i32>();
                    column.is_valid(row).then(|| column.value(row).to_owned())
                };
                found.push(batch.columns().iter().map(value).collect());
            }
        }
        Ok(found)
    }

    #[test]
    fn what_is_written_as_text_is_read_back() {
        let values = ["a", "", "\\N", "a\tb\nc\\d\re", "größe", "\u{b}\u{c}\u{8}", "\\."];
        let mut written = Vec::new();
        for value in values {
            write_field(value.as_bytes(), &options(), true, &mut written);
            written.extend_from_slice(b"\t\\N\n");
        }
        let read = read(&written, 2).unwrap();
        let expected: Vec<_> = values.map(|value| vec![Some(value.to_owned()), None]).into();
        assert_eq!(read, expected);
    }

    #[test]
    fn lines_that_do_not_fit_are_errors() {
        let line = |text: &str| vec![Some(text.to_owned())];
        assert_eq!(read(b"a\nb", 1).unwrap(), [line("a"), line("b")]);
        assert_eq!(read(b"\\x41\\102\\q\n\\.\nrest\tx\n", 1).unwrap(), [line("ABq")]);
        assert_eq!(read(b"a\tb\n", 1).unwrap_err().code, "22P04");
        assert_eq!(read(b"a\n", 2).unwrap_err().message, "line 1 has only 1 values");
        assert_eq!(read(b"\xff\n", 1).unwrap_err().code, "22P04");
    }

    #[test]
    fn a_line_feed_behind_a_backslash_is_of_its_value() {
        let row = |values: &[&str]| -> Vec<Option<String>> {
            values.iter().map(|value| Some((*value).to_owned())).collect()
        };
        let text = b"a\\\nb\tc\\\td\ne\\\\\tf\\\r\n";
        assert_eq!(read(text, 2).unwrap(), [row(&["a\nb", "c\td"]), row(&["e\\", "f\r"])]);
        assert_eq!(read(b"a\\\\\nb\\\n", 1).unwrap(), [row(&["a\\"]), row(&["b\n"])]);
        // Lines are counted as an editor does, wherever a piece of the input ends.
        let wrong = read(b"a\\\n\\\nb\nc\td\n", 1).unwrap_err();
        assert_eq!(wrong.message, "line 4 has more than 1 values");
        for before in READ_BYTES - 4..READ_BYTES + 4 {
            let long = "x".repeat(before);
            let text = format!("{long}\\\ny\nz\n");
            let expected = [row(&[&format!("{long}\ny")]), row(&["z"])];
            assert_eq!(read(text.as_bytes(), 1).unwrap(), expected);
        }
    }

    #[test]
    fn the_end_of_csv_is_left_out() {
        let read = |text: &str, at_once: usize| {
            let (mut rows, mut all) = (WithoutEnd::of(text.as_bytes()), Vec::new());
            let mut buffer = vec![0; at_once];
            loop {
                match rows.read(&mut buffer).unwrap() {
                    0 => return String::from_utf8(all).unwrap(),
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
        };
        for at_once in [1, 2, 7, 1000] {
            for end in ["", "\\.", "\\.\n", "\\.\r\n"] {
                for rows in ["a,b\n1,2\n", "a\n", ""] {
                    assert_eq!(read(&format!("{rows}{end}"), at_once), rows);
                }
            }
            for whole in ["a\\.", "a\n.\n", "\\.\nb\n"] {
                assert_eq!(read(whole, at_once), whole);
            }
        }
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let options =
            Options { format: Format::Csv, delimiter: b',', null: String::new(), ..options() };
        let show = |value: &str| {
            let mut out = Vec::new();
            write_field(value.as_bytes(), &options, true, &mut out);
            String::from_utf8(out).unwrap()
        };
        let values = ["a", "", "a,b", "say \"x\"", "two\nlines"].map(show);
        assert_eq!(values, ["a", "\"\"", "\"a,b\"", "\"say \"\"x\"\"\"", "\"two\nlines\""]);
    }
}
