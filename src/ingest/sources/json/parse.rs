//! Parses one chunk of text into one Arrow batch and a list of bad rows.
//!
//! A row that cannot be read, or whose value its column cannot hold, does not end the work: the row
//! is left out and returned as a [`BadRow`], and the caller decides what to do with it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, NullArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};

use super::bad_row::{BadRow, shown};
use super::chunks::JsonChunk;
use super::fields::{Entry, LineCounter, Table, read_table};
use super::schema::JsonSchema;
use super::types::{accepted, is_float, is_float_text, needed_type, rules, type_alone};
use super::value::Kind;
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::sources::csv::column::ColumnBuilder;
use crate::ingest::sources::csv::split::Field;
use crate::model::DataType;

/// The rows of a chunk.
#[derive(Clone, Debug)]
pub struct ParsedRows {
    /// The rows that could be read.
    pub batch: RecordBatch,
    /// The bad rows, in order.
    pub bad: Vec<BadRow>,
}

/// Parses all rows of a chunk; the first bad row is an error.
pub(crate) fn parse_chunk(schema: &JsonSchema, chunk: &JsonChunk) -> Result<RecordBatch> {
    let ParsedRows { batch, bad } = parse_rows(schema, chunk)?;
    match bad.first() {
        Some(bad) => Err(bad.error(&schema.file)),
        None => Ok(batch),
    }
}

/// Columns of a chunk without other faults whose values are of another type than was inferred, each
/// with the type that holds them.
#[cold]
pub(crate) fn misguessed(schema: &JsonSchema, chunk: &JsonChunk) -> Vec<(Arc<str>, DataType)> {
    let Ok(table) = read_table(schema, chunk, usize::MAX) else { return Vec::new() };
    if !table.bad.is_empty() {
        return Vec::new();
    }
    let columns = schema.columns.iter().zip(&table.columns).filter(|(column, _)| !column.fixed);
    let needed = columns.filter_map(|(column, (_, entries))| {
        let types = entries.iter().map(|entry| type_alone(&table.text, *entry));
        let mut misfits = types.filter(|found| column.data_type.join(found).is_none());
        let first = needed_type(&column.data_type, &misfits.next()?)?;
        let fits_all = misfits.all(|found| {
            needed_type(&column.data_type, &found).is_some_and(|needed| needed == first)
        });
        fits_all.then(|| (Arc::clone(&column.name), first))
    });
    needed.collect()
}

/// Parses the columns at these positions, in this order. A key that the schema lacks is ignored or,
/// if `complete` is set, an error.
pub(crate) fn parse_columns(
    schema: &JsonSchema,
    chunk: &JsonChunk,
    positions: &[usize],
    complete: bool,
) -> Result<RecordBatch> {
    let table = read_table(schema, chunk, usize::MAX)?;
    if let Some((name, entries)) = table.columns.get(schema.columns.len()).filter(|_| complete) {
        let first = entries.iter().position(|entry| entry.kind() != Kind::Null).unwrap_or(0);
        let start = table.rows.get(first).map_or(0, |(start, _)| *start);
        let line = LineCounter { text: &chunk.text, at: 0, line: chunk.line }.line_at(start);
        return Err(Error::InvalidInput(format!(
            "{}: line {line}: the key '{name}' is in none of the first rows, from which the \
             columns were inferred; name the columns that are wanted, or ingest the input into a \
             table, which accepts new keys",
            schema.file.display()
        )));
    }
    let ParsedRows { batch, bad } = build(schema, chunk, table, Some(positions))?;
    match bad.first() {
        Some(bad) => Err(bad.error(&schema.file)),
        None => Ok(batch),
    }
}

/// Parses the rows of a chunk, leaving out bad ones.
pub fn parse_rows(schema: &JsonSchema, chunk: &JsonChunk) -> Result<ParsedRows> {
    build(schema, chunk, read_table(schema, chunk, usize::MAX)?, None)
}

/// Builds the arrays of all columns, or of those at `positions`.
fn build(
    schema: &JsonSchema,
    chunk: &JsonChunk,
    table: Table<'_>,
    positions: Option<&[usize]>,
) -> Result<ParsedRows> {
    let Table { text, columns, rows, mut bad } = table;
    let (mut fields, mut arrays, mut misfits) = (Vec::new(), Vec::new(), Vec::new());
    let all: Vec<usize> = (0..columns.len()).collect();
    for at in positions.unwrap_or(&all).iter().copied() {
        let Some((name, entries)) = columns.get(at) else { continue };
        let known = schema.columns.get(at);
        let column = ChunkColumn {
            name,
            text: &text,
            entries,
            fixed: known.is_some_and(|column| column.fixed),
            float_before: schema.is_float(name),
            infer: |entries: &[Entry]| schema.type_of(name, &text, entries),
        };
        let data_type = known.map_or(DataType::Null, |column| column.data_type.clone());
        let (array, data_type) = column.array(data_type, &mut misfits);
        let field = ArrowField::new(&**name, array.data_type().clone(), true);
        fields.push(data_type.marked(field));
        arrays.push(array);
    }
    for name in schema.required.iter().filter(|_| positions.is_none()) {
        let place = columns.iter().position(|(key, _)| **key == **name);
        let nulls =
            place.and_then(|at| arrays.get(at)).map(|array: &ArrayRef| array.logical_nulls());
        let lacks = |row: usize| match &nulls {
            None => true,
            Some(nulls) => nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)),
        };
        misfits.extend(rows.iter().enumerate().filter(|(row, _)| lacks(*row)).map(
            |(row, (start, _))| Misfit {
                row,
                at: *start,
                column: name.clone(),
                reason: "no value, and the column is NOT NULL".to_owned(),
                hint: String::new(),
                inexact: None,
            },
        ));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let mut batch =
        RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
            .or_invalid_with(schema.file.display())?;
    if !misfits.is_empty() {
        // Only the first misfit of a row is reported.
        misfits.sort_by_key(|value: &Misfit| value.row);
        misfits.dedup_by_key(|value| value.row);
        let mut keep = vec![true; rows.len()];
        let mut lines = LineCounter { text: &chunk.text, at: 0, line: chunk.line };
        // Many values may stand behind one that they would make inexact.
        let mut last_inexact = None;
        for Misfit { row, at, column, mut reason, hint, inexact } in misfits {
            if let Some(Inexact { row, value, data_type }) = inexact {
                let line = match last_inexact {
                    Some((last, line)) if last == row => line,
                    _ => {
                        let start = rows.get(row).map_or(0, |(start, _)| *start);
                        let from = LineCounter { text: &chunk.text, at: 0, line: chunk.line };
                        { from }.line_at(start)
                    }
                };
                last_inexact = Some((row, line));
                reason +=
                    &format!(", and {value} in line {line} would not be exact as {data_type}");
            }
            reason += &hint;
            keep.iter_mut().skip(row).take(1).for_each(|keep| *keep = false);
            let (start, end) = rows.get(row).copied().unwrap_or_default();
            let line = lines.line_at(start);
            let within = chunk.text.get(start..at.clamp(start, end)).unwrap_or_default();
            bad.push(BadRow {
                line: line + memchr::memchr_iter(b'\n', within).count() as u64,
                first_line: line,
                column: Some(column),
                reason,
                text: chunk.text.get(start..end).unwrap_or_default().to_vec(),
            });
        }
        batch = arrow_select::filter::filter_record_batch(&batch, &BooleanArray::from(keep))
            .or_invalid_with(schema.file.display())?;
        bad.sort_by_key(|bad| bad.line);
    }
    Ok(ParsedRows { batch, bad })
}

/// A value that its column cannot hold.
struct Misfit {
    row: usize,
    /// Position in the text, if the value has no escapes.
    at: usize,
    column: String,
    reason: String,
    /// What to do about it, behind the reason.
    hint: String,
    /// Why the column does not take the wider type that would hold the value.
    inexact: Option<Inexact>,
}

/// An earlier value that a wider type does not hold exactly.
#[derive(Clone)]
struct Inexact {
    row: usize,
    value: String,
    data_type: DataType,
}

/// A column of a chunk, to be built into an array.
struct ChunkColumn<'a, F> {
    name: &'a str,
    text: &'a [u8],
    entries: &'a [Entry],
    fixed: bool,
    /// Whether the table's column is a float.
    float_before: bool,
    /// Infers the type of a column whose type is unknown.
    infer: F,
}

impl<F: Fn(&[Entry]) -> DataType> ChunkColumn<'_, F> {
    /// Builds the array in the first type along the lattice that holds all values; values that no
    /// type holds are null in it. A wider type that would not hold earlier values exactly is not
    /// taken: it is the later value that conflicts with the others.
    fn array(&self, data_type: DataType, misfits: &mut Vec<Misfit>) -> (ArrayRef, DataType) {
        let mut data_type = data_type;
        let before = misfits.len();
        let mut refused = Vec::new();
        loop {
            if data_type == DataType::Null && !self.fixed {
                data_type = (self.infer)(self.entries);
            }
            misfits.truncate(before);
            match self.fill(self.entries, &data_type, &refused, misfits) {
                Ok(array) => return (array, data_type),
                Err((wider, at)) => {
                    let known = misfits.get(before..).unwrap_or_default();
                    let exact = !data_type.widens_exactly_if(&wider);
                    match (!exact).then(|| self.inexact_before(at, &wider, known)).flatten() {
                        Some(inexact) => refused.push(inexact),
                        None => data_type = wider,
                    }
                }
            }
        }
    }

    /// The first value before `at` that this type does not hold, other than those `known` to be of
    /// no type of the column.
    #[cold]
    fn inexact_before(&self, at: usize, data_type: &DataType, known: &[Misfit]) -> Option<Inexact> {
        let mut misfits = Vec::new();
        let entries = self.entries.get(..at)?;
        // A type that is wider still is for values behind these.
        let _ = self.fill(entries, data_type, &[], &mut misfits);
        let known: HashSet<usize> = known.iter().map(|misfit| misfit.row).collect();
        let first = misfits.iter().find(|misfit| !known.contains(&misfit.row))?;
        let value = shown(value_of(self.text, entries.get(first.row)?.field()));
        Some(Inexact { row: first.row, value, data_type: data_type.clone() })
    }

    /// Builds the array of these entries in this type. The error is the wider type that a value
    /// needs, unless it is one of those `refused`, and the place of that value.
    fn fill(
        &self,
        entries: &[Entry],
        data_type: &DataType,
        refused: &[Inexact],
        misfits: &mut Vec<Misfit>,
    ) -> Result<ArrayRef, (DataType, usize)> {
        let rules = rules();
        let candidates = accepted(data_type, self.fixed);
        let takes_texts = self.float_before && is_float(data_type);
        let takes = |entry: &Entry| {
            candidates.contains(&entry.kind()) || takes_texts && is_float_text(self.text, *entry)
        };
        let mut column = ColumnBuilder::new(data_type, self.fixed);
        column.reserve(entries.len());
        let mut at = 0;
        while let Some(rest) = entries.get(at..).filter(|rest| !rest.is_empty()) {
            let fitting = rest.iter().position(|entry| !takes(entry)).unwrap_or(rest.len());
            let fields = rest.iter().take(fitting).map(Entry::field);
            let done = column.push_fields(self.text, fields, &rules).err().unwrap_or(fitting);
            at += done;
            let Some(entry) = rest.get(done) else { break };
            let wider = if self.fixed {
                None
            } else {
                data_type.join(&type_alone(self.text, *entry)).filter(|wider| wider != data_type)
            };
            let inexact = refused.iter().find(|one| Some(&one.data_type) == wider.as_ref());
            match wider {
                Some(wider) if inexact.is_none() => return Err((wider, at)),
                _ => {}
            }
            let misfit = self.misfit(at, *entry, data_type);
            misfits.push(Misfit { inexact: inexact.cloned(), ..misfit });
            // An absent field is null in any type.
            let _ = column.push_fields(self.text, std::iter::once(Field::NONE), &rules);
            at += 1;
        }
        // Rows that are not UTF-8 have been left out already.
        Ok(column.finish().unwrap_or_else(|_| Arc::new(NullArray::new(entries.len()))))
    }

    #[cold]
    fn misfit(&self, row: usize, entry: Entry, expected: &DataType) -> Misfit {
        let (name, field) = (self.name, entry.field());
        let value = value_of(self.text, field);
        let quote = if field.quoted { "\"" } else { "" };
        let hint = if self.fixed {
            "--schema gives that type; as text it would be"
        } else {
            "to read the column as text:"
        };
        Misfit {
            row,
            at: field.start,
            column: name.to_owned(),
            reason: format!("{quote}{}{quote} is not of type {expected}", shown(value)),
            hint: format!("; {hint} --schema {name}:utf8"),
            inexact: None,
        }
    }
}

fn value_of(text: &[u8], field: Field) -> &[u8] {
    text.get(field.start..field.start + field.len).unwrap_or_default()
}
