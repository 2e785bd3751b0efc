//! COPY from and to a client: rows as text, CSV, or PostgreSQL's binary form.

use std::io::{self, Read};
use std::sync::PoisonError;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use std::sync::Arc;
use stylobate::{Error, Input, Parameters};

use super::backend::{Backend, Running, Stop};
use super::columns::{Column, columns};
use super::errors::PgError;
use super::output::{CopyRows, Output};
use super::own::{Copy, Format, Options, Source};
use super::replies;
use super::run::count_in;
use super::{binary, text};
use crate::serve::metrics::add;

/// Bytes of a batch of rows that come, and of one of them, at most.
const BATCH_BYTES: usize = 8 << 20;
const MOST_ROW_BYTES: usize = 256 << 20;
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// How the binary form begins.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

impl Backend {
    /// Stores the rows that the client sends.
    pub(super) fn copy_in(
        &mut self,
        copy: &Copy,
        sql: &str,
        out: &mut Output,
    ) -> Result<String, Stop> {
        let Source::Table { name, columns } = &copy.source else {
            return Err(PgError::of("42601", "COPY fills a table, not a query").into());
        };
        self.check_may_write("insert")?;
        if copy.options.format == Format::Binary {
            let what = "COPY … FROM STDIN reads text and csv, not binary";
            return Err(PgError::of("0A000", what).into());
        }
        let running = self.begin(sql);
        let table = self.session.table_to_write(name)?;
        let schema = table.snapshot()?.schema().clone();
        drop(table);
        let columns: Vec<String> = match columns.is_empty() {
            true => schema.columns().iter().map(|column| column.name.to_string()).collect(),
            false => columns.clone(),
        };
        if let Some(unknown) =
            columns.iter().find(|name| schema.columns().iter().all(|it| *it.name != ***name))
        {
            let what = format!("table {name} has no column '{unknown}'");
            return Err(PgError::of("42703", what).into());
        }
        replies::copy_response(b'G', 0, columns.len(), &mut out.bytes);
        let rows = out.begin_copy()?;
        self.has_copied = true;
        let given_up = rows.failure();
        let stored = match copy.options.format {
            Format::Csv => self.store_csv(name, &columns, &schema, &copy.options, rows, &running),
            _ => self.store_text(name, &columns, &copy.options, rows, &running),
        };
        let given_up = given_up.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stored = match (stored, given_up) {
            (Err(_), Some(why)) => return Err(PgError::of("57014", why).into()),
            (stored, _) => stored?,
        };
        add(&self.server.metrics.rows_in, stored);
        self.block.has_written = true;
        Ok(format!("COPY {stored}"))
    }

    /// Stores rows in PostgreSQL's text format.
    fn store_text(
        &self,
        table: &str,
        columns: &[String],
        options: &Options,
        rows: CopyRows,
        running: &Running,
    ) -> Result<u64, PgError> {
        let mut lines = TextRows::new(rows, options, columns.len());
        let mut failure = None;
        let batches = std::iter::from_fn(|| match lines.next_batch() {
            Ok(batch) => batch.map(Ok),
            Err(wrong) => {
                let error = Error::InvalidInput(wrong.message.clone());
                failure = Some(wrong);
                Some(Err(error))
            }
        });
        let stored = self.session.insert(table, columns, batches);
        match failure {
            Some(failure) => Err(failure),
            None => stored.map_err(|error| running.failure(error)),
        }
    }

    /// Stores rows in CSV, which the library reads.
    fn store_csv(
        &self,
        table: &str,
        columns: &[String],
        schema: &stylobate::Schema,
        options: &Options,
        rows: CopyRows,
        running: &Running,
    ) -> Result<u64, PgError> {
        let name = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let character = |byte: u8| quoted(&char::from(byte).to_string());
        let names = columns.iter().map(|it| name(it)).collect::<Vec<_>>().join(", ");
        let listed = columns.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(", ");
        let types: Vec<String> = schema
            .columns()
            .iter()
            .filter(|column| columns.iter().any(|it| **it == *column.name))
            .map(|it| format!("{}: {}", quoted(&it.name), quoted(&it.data_type.to_string())))
            .collect();
        let escape = match options.escape == options.quote {
            true => String::new(),
            false => format!(", escape => {}", character(options.escape)),
        };
        let sql = format!(
            "INSERT INTO {} ({names}) SELECT {names} FROM read_csv('-', header => false, \
             names => [{listed}], types => {{{}}}, delimiter => {}, quote => {}, null => \
             {}{escape}, skip => {})",
            name(table),
            types.join(", "),
            character(options.delimiter),
            character(options.quote),
            quoted(&options.null),
            u8::from(options.has_header),
        );
        self.session.feed(Some(Input::reader("stdin.csv", Box::new(rows))));
        let mut stored = 0;
        let done = self.session.run(&sql, &Parameters::default(), |stream| {
            for batch in stream {
                stored += count_in(&batch?);
            }
            Ok(())
        });
        self.session.feed(None);
        done.map_err(|error| running.failure(error))?;
        Ok(stored)
    }

    /// Sends rows to the client.
    pub(super) fn copy_out(
        &mut self,
        copy: &Copy,
        sql: &str,
        out: &mut Output,
    ) -> Result<String, Stop> {
        let name = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let query = match &copy.source {
            Source::Query(query) => query.clone(),
            Source::Table { name: table, columns } if columns.is_empty() => {
                format!("SELECT * FROM {}", name(table))
            }
            Source::Table { name: table, columns } => {
                let names: Vec<String> = columns.iter().map(name).collect();
                format!("SELECT {} FROM {}", names.join(", "), name(table))
            }
        };
        let statement = self.parse(&query)?;
        self.check_may_write(&query)?;
        let running = self.begin(sql);
        let stream = self.session.execute(&statement, &Parameters::default());
        let stream = stream.map_err(|error| running.failure(error))?;
        let schema = stream.schema();
        let options = &copy.options;
        let format = i16::from(options.format == Format::Binary);
        replies::copy_response(b'H', format, schema.fields().len(), &mut out.bytes);
        let mut sent = 0;
        match options.format {
            Format::Binary => row(&mut out.bytes, |out| out.extend_from_slice(SIGNATURE)),
            _ if options.has_header => row(&mut out.bytes, |out| {
                for (at, field) in schema.fields().iter().enumerate() {
                    if at > 0 {
                        out.push(options.delimiter);
                    }
                    let name = field.name().as_bytes();
                    write_field(name, options, false, out);
                }
                out.push(b'\n');
            }),
            _ => {}
        }
        for batch in stream {
            let batch = batch.map_err(|error| running.failure(error))?;
            let columns = columns(&batch)?;
            for at in 0..batch.num_rows() {
                row(&mut out.bytes, |out| match options.format {
                    Format::Binary => {
                        out.extend_from_slice(&(columns.len() as i16).to_be_bytes());
                        let write = |column| binary::write_with_length(column, at, out);
                        columns.iter().for_each(write);
                    }
                    _ => write_fields(&columns, at, options, out),
                });
                out.pass_on()?;
            }
            sent += batch.num_rows() as u64;
            add(&self.server.metrics.rows_out, batch.num_rows() as u64);
        }
        if options.format == Format::Binary {
            row(&mut out.bytes, |out| out.extend_from_slice(&(-1_i16).to_be_bytes()));
        }
        replies::bare(b'c', &mut out.bytes);
        Ok(format!("COPY {sent}"))
    }
}

/// Appends a message with a row.
fn row(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    replies::message(b'd', out, write);
}

fn write_fields(columns: &[Column], row: usize, options: &Options, out: &mut Vec<u8>) {
    let mut field = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.push(options.delimiter);
        }
        if column.is_null(row) {
            out.extend_from_slice(options.null.as_bytes());
            continue;
        }
        field.clear();
        text::write(column, row, &mut field);
        write_field(&field, options, column.is_text(), out);
    }
    out.push(b'\n');
}

/// Appends a field with its escapes or quotes.
fn write_field(field: &[u8], options: &Options, may_look_null: bool, out: &mut Vec<u8>) {
    if options.format == Format::Csv {
        let special = |byte: &u8| {
            [options.delimiter, options.quote, options.escape, b'\n', b'\r'].contains(byte)
        };
        let looks_null = may_look_null && field == options.null.as_bytes();
        if !looks_null && !field.iter().any(special) && field != b"\\." {
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

/// Rows in PostgreSQL's text format, as batches of texts.
struct TextRows<R> {
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
    fn new(input: R, options: &Options, columns: usize) -> TextRows<R> {
        let (options, bytes) = (options.clone(), Vec::new());
        TextRows { input, options, columns, bytes, at: 0, line: 0, has_ended: false }
    }

    /// The range of the next line, without its end.
    fn next_line(&mut self) -> Result<Option<std::ops::Range<usize>>, PgError> {
        let mut searched = self.at;
        loop {
            let rest = self.bytes.get(searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.at..searched + end;
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

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, PgError> {
        let mut builders: Vec<StringBuilder> =
            (0..self.columns).map(|_| StringBuilder::new()).collect();
        let (mut rows, mut bytes) = (0, 0);
        while bytes < BATCH_BYTES && rows < 65_536 {
            let Some(line) = self.next_line()? else { break };
            let is_header = self.line == 0 && self.options.has_header;
            self.line += 1;
            let line = self.bytes.get(line).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line == b"\\." {
                // What follows counts for nothing.
                self.has_ended = true;
                self.at = self.bytes.len();
                break;
            }
            if !is_header {
                bytes += line.len();
                rows += 1;
                split(line, &self.options, self.line, &mut builders)?;
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
        Options { format, delimiter: b'\t', null, has_header: false, quote: b'"', escape: b'"' }
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
