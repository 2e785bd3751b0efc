//! Where the values of a column come from, for messages on inputs that do not go together.
//!
//! The pipeline remembers which input gave a column its type, and nothing of its values: those are
//! looked for, in the beginning of the file, when there is something to say about them; where the
//! input cannot be opened again, among its first rows while they are there.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Field;

use super::columns::stored_type;
use super::options::LoadOptions;
use super::sources::csv::{self, CsvOptions};
use super::sources::json::{self, JsonOptions};
use super::sources::{Format, Input, TextEncoding};
use crate::error::{Error, Result};
use crate::model::{Column, DataType, Schema};

/// The most chunks of text in which a value is looked for.
const MAX_CHUNKS: usize = 64;
/// How many column names of each side a message shows.
const SHOWN_NAMES: usize = 8;

/// The input of some rows.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(super) name: PathBuf,
    /// How the input is read, if it can be opened again.
    pub(super) again: Option<Again>,
    /// Values of columns that do not go with a type.
    pub(super) misfits: Vec<(String, DataType, (u64, String))>,
    /// Whether the columns are what a selection has computed.
    pub(super) is_selected: bool,
}

/// How an input is read.
#[derive(Debug)]
pub(super) struct Again {
    encoding: Option<TextEncoding>,
    csv: CsvOptions,
    /// Whether fields of JSON objects are columns.
    flatten: bool,
}

impl Again {
    pub(super) fn new(encoding: Option<TextEncoding>, options: &LoadOptions) -> Again {
        Again { encoding, csv: options.csv.clone(), flatten: options.flatten }
    }
}

impl Origin {
    /// The same with the values among the first rows that `find` sees, where they cannot be looked
    /// for later. `prior` has the types that columns had before this input.
    pub(super) fn with_first_rows(
        &self,
        prior: &[(String, DataType)],
        columns: &[Field],
        find: impl Fn(&str, &DataType) -> Result<Option<((u64, String), bool)>>,
    ) -> Option<Origin> {
        if self.again.is_some() || self.is_selected {
            return None;
        }
        let misfit = |(name, known): &(String, DataType)| {
            let field = columns.iter().find(|field| field.name() == name)?;
            if stored_type(field).ok()?.join(known).is_some() {
                return None;
            }
            let (place, _) = find(name, known).ok()??;
            Some((name.clone(), known.clone(), place))
        };
        let misfits: Vec<_> = prior.iter().filter_map(misfit).collect();
        let name = self.name.clone();
        (!misfits.is_empty()).then_some(Origin { name, again: None, misfits, is_selected: false })
    }

    /// Where a column's values are that do not go with the `other` type: `a.csv (line 2: "1")`.
    fn place(&self, column: &str, other: &DataType) -> String {
        match self.find(column, other) {
            Ok(Some((line, value))) => format!("{} (line {line}: {value:?})", self.name.display()),
            // There is another error to report.
            Ok(None) | Err(_) => self.name.display().to_string(),
        }
    }

    fn find(&self, column: &str, other: &DataType) -> Result<Option<(u64, String)>> {
        let mut known = self.misfits.iter();
        if let Some((_, _, place)) = known.find(|(name, of, _)| name == column && of == other) {
            return Ok(Some(place.clone()));
        }
        let Some(Again { encoding, csv, flatten }) = &self.again else { return Ok(None) };
        let input = Input::path(&self.name);
        let opened = match encoding {
            Some(encoding) => input.encoded(*encoding),
            None => input,
        }
        .open()?;
        match opened.format {
            Format::Csv | Format::Tsv => {
                let delimiter = csv.delimiter.or(CsvOptions::for_format(opened.format).delimiter);
                let options = CsvOptions { delimiter, skip_bad_rows: true, ..csv.clone() };
                let (name, bytes) = (&opened.name, opened.bytes);
                csv::find_value(name, bytes, &options, column, MAX_CHUNKS, other)
            }
            Format::Json => {
                let options = JsonOptions { flatten: *flatten, ..JsonOptions::from(csv) };
                let (name, bytes) = (&opened.name, opened.bytes);
                json::find_value(name, bytes, &options, column, MAX_CHUNKS, other)
            }
            Format::Arrow | Format::Parquet => Ok(None),
        }
    }
}

/// The error for a batch that the schema of the rows before it does not take: as it is, or with
/// what is known of both sides.
pub(super) fn explain<'a>(
    error: Error,
    schema: &Schema,
    batch: &RecordBatch,
    new: &Origin,
    of_column: impl Fn(&Column) -> Option<&'a Origin>,
) -> Error {
    let fields = batch.schema();
    for field in fields.fields() {
        let known = schema.columns().iter().find(|column| *column.name == **field.name());
        let (Some(column), Ok(found)) = (known, stored_type(field)) else { continue };
        if column.data_type.join(&found).is_none() {
            let (name, have) = (&column.name, &column.data_type);
            let before = match of_column(column) {
                Some(origin) => origin.place(name, &found),
                None => "the table".to_owned(),
            };
            let advice = match new.is_selected {
                true => "cast it in --select".to_owned(),
                false => format!("give its type with --schema {name}:TYPE"),
            };
            return Error::InvalidInput(format!(
                "column '{name}' is {have} in {before} and {found} in {}, and no type holds both \
                 without loss; {advice}, or load into another table",
                new.place(name, have)
            ));
        }
    }
    let is_other = |field: &arrow_schema::FieldRef| schema.position(field.name()).is_none();
    let first = schema.columns().first().and_then(of_column);
    match first.filter(|_| fields.fields().iter().all(is_other)) {
        Some(first) => nothing_shared(schema, &fields, new, first),
        None => error,
    }
}

/// The error for two inputs of one load without a common column.
fn nothing_shared(
    schema: &Schema,
    new: &arrow_schema::Schema,
    origin: &Origin,
    first: &Origin,
) -> Error {
    let listed = |mut names: Vec<&str>| {
        let more = names.len() > SHOWN_NAMES;
        names.truncate(SHOWN_NAMES);
        names.join(", ") + if more { ", …" } else { "" }
    };
    let pattern = pattern_without(&origin.name, &first.name);
    Error::InvalidInput(format!(
        "the columns of {} ({}) are none of those of {} ({}); {pattern}name them with --names, say \
         --no-header or --header if a first row was misread, or load into another table",
        origin.name.display(),
        listed(new.fields().iter().map(|field| field.name().as_str()).collect()),
        first.name.display(),
        listed(schema.columns().iter().map(|column| &*column.name).collect()),
    ))
}

/// A pattern that leaves out one of two files that do not go together, if their names tell them
/// apart.
fn pattern_without(new: &Path, first: &Path) -> String {
    let extension = |path: &Path| path.extension().map(|end| end.to_string_lossy().into_owned());
    let directory = new.parent().filter(|parent| !parent.as_os_str().is_empty());
    match (extension(new), directory) {
        (Some(end), Some(directory)) if extension(first).as_ref() != Some(&end) => format!(
            "if {} is not meant, name the others: '{}'; ",
            first.display(),
            directory.join(format!("*.{end}")).display()
        ),
        _ => String::new(),
    }
}
