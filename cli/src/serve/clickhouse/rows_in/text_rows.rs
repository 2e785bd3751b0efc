//! Bodies of text: `Values`, rows of literals as they stand behind VALUES, and `TabSeparated`,
//! lines of fields with backslashes before what a field cannot hold.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::arrange;
use super::input::Input;
use super::literals::{Scanner, fields, unescaped};
use super::text_column::TextColumn;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::invalid;

/// A batch ends at this many rows or bytes.
const BATCH_ROWS: usize = 1 << 13;
const BATCH_BYTES: u64 = 4 << 20;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Literals in parentheses.
    Values,
    /// Fields with tabs between them, with escapes or as they are. This many lines are before the
    /// rows: one of names, and one of types, in place of which those of the statement count.
    Tabs { escaped: bool, head: usize },
}

/// Reads one body.
pub(super) struct TextReader<'a> {
    input: Input<'a>,
    declared: SchemaRef,
    dialect: Dialect,
    /// Which declared columns the fields are, once the head is read.
    places: Option<Vec<usize>>,
    rows: u64,
}

impl<'a> TextReader<'a> {
    pub(super) fn new(input: Input<'a>, declared: &SchemaRef, dialect: Dialect) -> Self {
        let declared = SchemaRef::clone(declared);
        TextReader { input, declared, dialect, places: None, rows: 0 }
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.input.start_batch();
        let places = match self.places.take() {
            Some(places) => places,
            None => self.read_head()?,
        };
        let batch = self.read_rows(&places);
        self.places = Some(places);
        batch
    }

    fn read_head(&mut self) -> Result<Vec<usize>, Failure> {
        let all = (0..self.declared.fields().len()).collect();
        let Dialect::Tabs { escaped, head: head @ 1.. } = self.dialect else { return Ok(all) };
        let mut line = Vec::new();
        if !self.input.line(escaped, &mut line)? {
            return Ok(all);
        }
        let name = |field: &[u8]| {
            let name = if escaped { unescaped(field) } else { field.to_vec() };
            String::from_utf8(name).map_err(|_| invalid("the name of a column is not UTF-8"))
        };
        let (found, most) = (fields(&line, escaped), self.declared.fields().len());
        if found.clone().count() > most {
            return Err(invalid(format!("the body names more columns than the {most} there are")));
        }
        let names = found.map(name).collect::<Result<Vec<_>, _>>()?;
        for _ in 1..head {
            line.clear();
            self.input.line(escaped, &mut line)?;
        }
        arrange::places(&names, &self.declared)
    }

    fn read_rows(&mut self, places: &[usize]) -> Result<Option<RecordBatch>, Failure> {
        let target = |place: &usize| self.declared.field(*place).data_type();
        let mut columns: Vec<TextColumn> =
            places.iter().map(|place| TextColumn::new(target(place))).collect();
        let (mut rows, mut row) = (0, Vec::new());
        while rows < BATCH_ROWS && self.input.taken() < BATCH_BYTES {
            row.clear();
            let found = match self.dialect {
                Dialect::Values => self.input.tuple(&mut row)?,
                Dialect::Tabs { escaped, .. } => self.input.line(escaped, &mut row)?,
            };
            if !found {
                break;
            }
            let number = self.rows + rows as u64 + 1;
            push_row(self.dialect, &row, &mut columns).map_err(|mut failure| {
                failure.message = format!("row {number}: {}", failure.message).into_boxed_str();
                failure
            })?;
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let (first, last) = (self.rows + 1, self.rows + rows as u64);
        self.rows = last;
        let mut arrays = Vec::with_capacity(columns.len());
        for (column, place) in columns.into_iter().zip(places) {
            arrays.push(column.finish().map_err(|failure| {
                let name = self.declared.field(*place).name();
                let message = &failure.message;
                invalid(format!("rows {first} to {last}, column '{name}': {message}"))
            })?);
        }
        arrange::batch(arrays, places, rows, &self.declared).map(Some)
    }
}

fn push_row(dialect: Dialect, row: &[u8], columns: &mut [TextColumn]) -> Result<(), Failure> {
    match dialect {
        Dialect::Values => {
            let mut scanner = Scanner::new(row);
            scanner.expect(b'(')?;
            for (at, column) in columns.iter_mut().enumerate() {
                if at > 0 {
                    scanner.expect(b',')?;
                }
                column.push_literal(&mut scanner)?;
            }
            scanner.expect(b')')
        }
        Dialect::Tabs { escaped, .. } => {
            let (found, wanted) = (fields(row, escaped), columns.len());
            let count = found.clone().count();
            if count != wanted {
                return Err(invalid(format!("there are {count} fields for {wanted} columns")));
            }
            found.zip(columns).try_for_each(|(field, column)| column.push_field(field, escaped))
        }
    }
}
