//! COPY from and to a client: rows as text, CSV, or PostgreSQL's binary form.

use std::io::{self, BufReader, Read as _};
use std::sync::PoisonError;

use arrow_array::RecordBatch;
use stylobate::{Error, Input, Parameters};

use super::backend::{Backend, Running, Stop};
use super::columns::{Column, columns};
use super::copy_binary::{BinaryRows, SIGNATURE};
use super::copy_header;
use super::copy_rows::{TextRows, WithoutEnd, write_field};
use super::errors::PgError;
use super::output::{CopyRows, Output};
use super::own::{Copy, Format, Options, Source};
use super::replies;
use super::{binary, text};
use crate::serve::metrics::add;
use crate::serve::running::rows_changed_in;

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
        let running = self.begin(sql);
        let done = self.store_copied(copy, name, columns, &running, out);
        running.tell_failure(&done);
        done
    }

    fn store_copied(
        &mut self,
        copy: &Copy,
        name: &str,
        columns: &[String],
        running: &Running,
        out: &mut Output,
    ) -> Result<String, Stop> {
        let (_, schema) = self.session.columns_to_write(name)?;
        let columns: Vec<String> = match columns.is_empty() {
            true => schema.columns().iter().map(|column| column.name.to_string()).collect(),
            false => columns.to_vec(),
        };
        if let Some(unknown) =
            columns.iter().find(|name| schema.columns().iter().all(|it| *it.name != ***name))
        {
            let what = format!("table {name} has no column '{unknown}'");
            return Err(PgError::of("42703", what).into());
        }
        let format = i16::from(copy.options.format == Format::Binary);
        replies::copy_response(b'G', format, columns.len(), &mut out.bytes);
        let rows = out.begin_copy()?;
        self.has_copied = true;
        let given_up = rows.failure();
        let stored = match copy.options.format {
            Format::Csv => self.store_csv(name, &columns, &schema, &copy.options, rows, running),
            Format::Text => {
                let mut lines = TextRows::new(rows, &copy.options, columns.len());
                if copy.options.matches_header {
                    copy_header::check(&lines.header()?, &columns)?;
                }
                self.store(name, &columns, || lines.next_batch(), running)
            }
            Format::Binary => {
                let arrow = schema.to_arrow();
                let of = |name: &String| {
                    arrow.field_with_name(name).map(|field| field.data_type().clone())
                };
                let types: Result<Vec<_>, _> = columns.iter().map(of).collect();
                let types = types.map_err(|error| PgError::of("42703", error.to_string()))?;
                let mut read = BinaryRows::new(rows, &types);
                self.store(name, &columns, || read.next_batch(), running)
            }
        };
        let given_up = given_up.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stored = match (stored, given_up) {
            (Err(_), Some(why)) => return Err(PgError::of("57014", why).into()),
            (stored, _) => stored?,
        };
        add(&self.server.metrics.rows_in, stored);
        running.tell(|told| told.rows_written = stored);
        self.block.has_written = true;
        Ok(format!("COPY {stored}"))
    }

    /// Stores rows as they are read.
    fn store(
        &self,
        table: &str,
        columns: &[String],
        mut next_batch: impl FnMut() -> Result<Option<RecordBatch>, PgError>,
        running: &Running,
    ) -> Result<u64, PgError> {
        let mut failure = None;
        let batches = std::iter::from_fn(|| match next_batch() {
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
        let mut rows = BufReader::new(WithoutEnd::of(rows));
        let mut skip = 0;
        if options.has_header {
            let (header, lines) = copy_header::read_csv(&mut rows, options)?;
            if options.matches_header {
                copy_header::check(&header, columns)?;
            }
            skip = lines;
        }
        // Lines are counted with those of the header.
        let rows = io::repeat(b'\n').take(skip).chain(rows);
        let escape = match options.escape == options.quote {
            true => String::new(),
            false => format!(", escape => {}", character(options.escape)),
        };
        let sql = format!(
            "INSERT INTO {} ({names}) SELECT {names} FROM read_csv('-', header => false, \
             names => [{listed}], types => {{{}}}, delimiter => {}, quote => {}, null => \
             {}{escape}, empty_is_null => {}, \
             skip => {skip})",
            name(table),
            types.join(", "),
            character(options.delimiter),
            character(options.quote),
            quoted(&options.null),
            options.null.is_empty(),
        );
        self.session.feed(Some(Input::reader("stdin.csv", Box::new(rows))));
        let mut stored = 0;
        let done = self.session.run(&sql, &Parameters::default(), |stream| {
            for batch in stream {
                stored += rows_changed_in(&batch?);
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
        let done = self.send_copied(copy, &statement, &running, out);
        self.hand_on_notes(&running, out);
        running.tell_failure(&done);
        done
    }

    fn send_copied(
        &self,
        copy: &Copy,
        statement: &stylobate::Statement,
        running: &Running,
        out: &mut Output,
    ) -> Result<String, Stop> {
        let stream = self.session.execute(statement, &Parameters::default());
        let stream = stream.map_err(|error| running.failure(error))?;
        let schema = stream.schema();
        let options = &copy.options;
        let format = i16::from(options.format == Format::Binary);
        replies::copy_response(b'H', format, schema.fields().len(), &mut out.bytes);
        let (mut sent, mut bytes) = (0, 0);
        // Clients expect the signature in the message of the first row.
        let mut signature = if options.format == Format::Binary { SIGNATURE } else { b"" };
        match options.format {
            Format::Binary => {}
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
            let columns = columns(&batch, self.settings.has_iso_intervals())?;
            for at in 0..batch.num_rows() {
                let before = out.bytes.len();
                row(&mut out.bytes, |out| match options.format {
                    Format::Binary => {
                        out.extend_from_slice(std::mem::take(&mut signature));
                        out.extend_from_slice(&(columns.len() as i16).to_be_bytes());
                        let write = |column| binary::write_with_length(column, at, out);
                        columns.iter().for_each(write);
                    }
                    _ => write_fields(&columns, at, options, out),
                });
                bytes += out.bytes.len().saturating_sub(before) as u64;
                out.pass_on()?;
            }
            sent += batch.num_rows() as u64;
            running.tell(|told| (told.rows, told.bytes) = (sent, bytes));
            add(&self.server.metrics.rows_out, batch.num_rows() as u64);
        }
        if options.format == Format::Binary {
            row(&mut out.bytes, |out| {
                out.extend_from_slice(signature);
                out.extend_from_slice(&(-1_i16).to_be_bytes());
            });
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
