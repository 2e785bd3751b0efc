//! Tasks whose rows pass a selection before they are stored.
//!
//! What an expression means depends on the types of its columns. So these are the same from the
//! first row of a text to its last: those that its first rows have, or that the user has named.
//! Where a later row needs another type, or another column, the load ends, and begins anew with
//! what it has found if it may.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};

use super::{CurrentInput, InputTasks};
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::columns::stored_type;
use crate::ingest::misguesses::GuessCheck;
use crate::ingest::selection::Select;
use crate::ingest::sources::{Opened, PathColumns};
use crate::ingest::task::{Parsed, Task};
use crate::model::DataType;

/// The name of a column that no input has.
const NO_COLUMN: &str = "\u{1}no column";

/// The selection over the rows of an input.
#[derive(Debug)]
pub(super) struct Selected {
    select: Arc<dyn Select>,
    file: Arc<Path>,
    /// The columns of a text; those of other inputs are what they are.
    columns: Option<Vec<(String, DataType)>>,
    path_columns: Arc<PathColumns>,
    /// `None` where a part of the input is stored already, which had other types.
    guess_check: Option<Arc<GuessCheck>>,
    /// Whether columns that come later would be selected, once that is asked.
    takes_all: OnceLock<bool>,
}

/// The task with its rows selected.
pub(super) fn selected(task: Task, selected: &Arc<Selected>) -> Task {
    let (work, selected) = (task.work, Arc::clone(selected));
    let work = move || {
        // Rows that do not fit the columns of the table are no rows of the input.
        let Parsed { batches, rejects, blank_lines, .. } = work()?;
        let mut parsed = Parsed { rejects, blank_lines, ..Parsed::default() };
        for batch in batches {
            let rows = batch.num_rows();
            let chosen = selected.select(batch)?;
            let kept: usize = chosen.iter().map(RecordBatch::num_rows).sum();
            parsed.left_out += rows.saturating_sub(kept) as u64;
            parsed.batches.extend(chosen);
        }
        Ok(parsed)
    };
    Task { work: Box::new(work), ..task }
}

impl InputTasks<'_> {
    /// Opens an input, and notes what is selected of its rows.
    pub(super) fn open_selected(&mut self, opened: Opened) -> Result<CurrentInput> {
        let Some(select) = &self.options.select else { return self.open(opened) };
        let (select, file) = (Arc::clone(select), Arc::from(opened.name.as_path()));
        let before = self.prior.clone();
        let current = self.open(opened)?;
        let columns = match &current {
            CurrentInput::Csv { schema, .. } => {
                let columns = schema.columns.iter();
                Some(columns.map(|one| (one.name.to_string(), one.data_type.clone())).collect())
            }
            CurrentInput::Json { schema, .. } => {
                let columns = schema.columns.iter();
                let mut columns: Vec<_> =
                    columns.map(|one| (one.name.to_string(), one.data_type.clone())).collect();
                // What an earlier attempt has found in later rows is there from the beginning.
                for (name, data_type) in self.options.misguesses.known() {
                    let mut names = columns.iter().map(|(name, _)| name.as_str());
                    if names.all(|known| known != name) {
                        columns.push((name.clone(), data_type.clone()));
                    }
                }
                Some(columns)
            }
            CurrentInput::Other(_) => None,
        };
        let selection = Selected {
            select,
            file,
            columns,
            path_columns: Arc::clone(&self.current_columns),
            guess_check: (self.pieces_to_skip() == 0).then(|| Arc::clone(&self.guess_check)),
            takes_all: OnceLock::new(),
        };
        selection.check_as_before(&before)?;
        self.selected = Some(Arc::new(selection));
        Ok(current)
    }
}

impl Selected {
    fn select(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        let batch = match &self.columns {
            Some(columns) => self.with_columns(&batch, columns)?,
            None => batch,
        };
        self.select.select(batch).map_err(|error| match error {
            Error::InvalidInput(what) => {
                Error::InvalidInput(format!("{}: --select: {what}", self.file.display()))
            }
            other => other,
        })
    }

    /// The rows with the columns that the text has, in their types.
    fn with_columns(
        &self,
        batch: &RecordBatch,
        columns: &[(String, DataType)],
    ) -> Result<RecordBatch> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, data_type) in columns {
            let arrow = data_type.to_arrow();
            let array = match batch.column_by_name(name) {
                None => new_null_array(&arrow, batch.num_rows()),
                Some(array) => match stored_type(name, array)? {
                    found if found == *data_type || found == DataType::Null => {
                        arrow_cast::cast(array, &arrow).or_invalid()?
                    }
                    found => return Err(self.misfit(name, data_type, &found)),
                },
            };
            fields.push(Field::new(name, arrow, true));
            arrays.push(array);
        }
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if self.path_columns.names().any(|name| name == field.name()) {
                fields.push(field.as_ref().clone());
                arrays.push(Arc::clone(array));
            } else if columns.iter().all(|(name, _)| name != field.name()) {
                self.refuse_new(field.name(), &stored_type(field.name(), array)?, &fields)?;
            }
        }
        let schema = Arc::new(ArrowSchema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema, arrays, &options).or_invalid()
    }

    /// Refuses a text whose columns have other types than those of the same names in the inputs
    /// before it.
    fn check_as_before(&self, before: &[(String, DataType)]) -> Result<()> {
        for (name, found) in self.columns.iter().flatten() {
            let known = before.iter().find(|(known, _)| known == name);
            if let Some((_, have)) = known.filter(|(_, have)| have != found) {
                return Err(self.misfit(name, have, found));
            }
        }
        Ok(())
    }

    /// The error for a column that has another type in later rows.
    #[cold]
    fn misfit(&self, name: &str, have: &DataType, found: &DataType) -> Error {
        let needed = have.join(found).unwrap_or(DataType::Utf8);
        let what = format!(
            "{}: column '{name}' is {have} in the first rows and {found} in others, and --select \
             needs one type for all; name it with --schema '{name}:{needed}'",
            self.file.display()
        );
        self.note(name, needed);
        Error::InvalidInput(what)
    }

    fn note(&self, name: &str, needed: DataType) {
        self.guess_check.iter().for_each(|check| check.note(name, needed.clone()));
    }

    /// Refuses a column that the first rows do not have, if it would be selected.
    fn refuse_new(&self, name: &str, found: &DataType, known: &[Field]) -> Result<()> {
        let is_wanted = || {
            let of = |fields: &[Field]| -> Option<SchemaRef> {
                let schema = Arc::new(ArrowSchema::new(fields.to_vec()));
                let selected = self.select.select(RecordBatch::new_empty(schema)).ok()?;
                Some(selected.first()?.schema())
            };
            let mut more = known.to_vec();
            more.push(Field::new(NO_COLUMN, DataType::Utf8.to_arrow(), true));
            let (without, with) = (of(known), of(&more));
            with.is_none() || without != with
        };
        if !*self.takes_all.get_or_init(is_wanted) {
            return Ok(());
        }
        self.note(name, found.clone());
        Err(Error::InvalidInput(format!(
            "{}: column '{name}' is not in the first rows, and --select takes all columns; name it \
             with --schema '{name}:{found}', or those that are wanted",
            self.file.display()
        )))
    }
}
