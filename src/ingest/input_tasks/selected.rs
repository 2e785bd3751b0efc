//! Tasks whose rows pass a selection before they are stored.
//!
//! What an expression means depends on the types of its columns. So a load has one plan, over the
//! columns of all its inputs, in types that hold for all of their rows: the first rows of all files
//! are looked at before any are read. An input that lacks a column has nulls in it. Where a later
//! row needs another type, or has a column that changes the plan, the load ends, and begins anew
//! with what it has found if it may. Columns that the plan does not read are no matter.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef};
use rayon::ThreadPool;

use super::{CurrentInput, InputTasks, LoadWarnings};
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::assign::assign;
use crate::ingest::misguesses::GuessCheck;
use crate::ingest::options::LoadOptions;
use crate::ingest::resume::{LoadPlan, SelectionMark};
use crate::ingest::selection::{Select, SelectRows};
use crate::ingest::sources::{Input, Opened};
use crate::ingest::task::{Parsed, Task};
use crate::model::{DataType, Schema};

/// The columns of the inputs of a load, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct InputColumns {
    /// In the order in which they were found.
    columns: Vec<Field>,
    /// What is wrong with columns that have several types.
    clashes: HashMap<String, String>,
}

impl InputColumns {
    /// Adds the columns of an input.
    fn add(&mut self, file: &Path, columns: &[Field]) {
        let places: HashMap<String, usize> =
            self.columns.iter().enumerate().map(|(at, one)| (one.name().clone(), at)).collect();
        for found in columns {
            let name = found.name();
            let Some(have) = places.get(name).and_then(|at| self.columns.get_mut(*at)) else {
                self.columns.push(found.clone());
                continue;
            };
            let joined = match (DataType::from_field(have), DataType::from_field(found)) {
                (Some(have), Some(found)) => have.join(&found).map(|it| it.to_field(name, true)),
                _ => (have.data_type() == found.data_type()).then(|| found.clone()),
            };
            match joined {
                Some(joined) => *have = joined,
                None => {
                    let what = format!(
                        "column '{name}' is {} in {} and {} before it, and --select needs one \
                         type for all; name it with --schema '{name}:TYPE'",
                        shown(found),
                        file.display(),
                        shown(have)
                    );
                    self.clashes.entry(name.clone()).or_insert(what);
                }
            }
        }
    }

    /// Takes types that an earlier attempt has found to be needed.
    fn correct(&mut self, known: &[(String, DataType)]) {
        for (name, data_type) in known {
            self.clashes.remove(name);
            let field = data_type.to_field(name, true);
            match self.columns.iter_mut().find(|known| known.name() == name) {
                Some(have) => *have = field,
                None => self.columns.push(field),
            }
        }
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(ArrowSchema::new(self.columns.clone()))
    }

    /// Those that a table can hold.
    fn types(&self) -> impl Iterator<Item = (String, DataType)> {
        let columns = self.columns.iter();
        columns.filter_map(|field| Some((field.name().clone(), DataType::from_field(field)?)))
    }
}

/// The selection of a load.
#[derive(Debug)]
pub(in crate::ingest) struct Selected {
    select: Arc<dyn Select>,
    /// All columns of the inputs.
    columns: InputColumns,
    known: HashSet<String>,
    rows: Arc<dyn SelectRows>,
    guess_check: GuessCheck,
    /// Columns that came later, and do not change the plan.
    others: Mutex<HashSet<String>>,
}

/// The selection of a load, whose first rows are looked at, if they are in files. The plan of the
/// load gets what tells this selection from others.
pub(in crate::ingest) fn select_for(
    plan: &mut LoadPlan,
    options: &LoadOptions,
    pool: &Arc<ThreadPool>,
    max_task_bytes: usize,
) -> Result<Option<Arc<Selected>>> {
    let Some(select) = &options.select else {
        plan.take_selection(None)?;
        return Ok(None);
    };
    if options.from_rejects {
        return Err(Error::InvalidInput(
            "rows that were rejected are read as they were, without a selection".into(),
        ));
    }
    if plan.inputs.iter().all(|input| input.size().is_none()) {
        return Ok(None);
    }
    // What was read before the load was stopped decided the types, too.
    let files: Vec<_> = plan.done.iter().chain(&plan.inputs).filter_map(Input::again).collect();
    let (none, skip) = (Schema::default(), vec![0; files.len()]);
    let (pool, mut warnings) = (Arc::clone(pool), LoadWarnings::default());
    let mut looking = InputTasks::new(
        files,
        &none,
        options,
        pool,
        max_task_bytes,
        skip,
        Vec::new(),
        None,
        &mut warnings,
    )?;
    let (mut columns, mut only, mut count) = (InputColumns::default(), None, 0);
    while let Some(current) = looking.open_next(InputTasks::open) {
        current?;
        let file = looking.origin.as_ref().map(|origin| origin.name.clone()).unwrap_or_default();
        columns.add(&file, &looking.columns);
        (only, count) = (Some(file), count + 1);
    }
    let only = only.filter(|_| count == 1);
    let selected = Selected::new(select, columns, options, only.as_deref())?;
    plan.take_selection(Some(selected.mark(options)))?;
    Ok(Some(Arc::new(selected)))
}

/// The task with its rows selected.
pub(super) fn selected(task: Task, selected: &Arc<Selected>) -> Task {
    let file = task.origin.as_ref().map(|origin| origin.name.clone()).unwrap_or_default();
    let (work, selected) = (task.work, Arc::clone(selected));
    let work = move || {
        // Rows that do not fit the columns of the table are no rows of the input.
        let Parsed { batches, rejects, blank_lines, .. } = work()?;
        let mut parsed = Parsed { rejects, blank_lines, ..Parsed::default() };
        for batch in batches {
            let rows = batch.num_rows();
            let chosen = selected.select(&batch, &file)?;
            let kept: usize = chosen.iter().map(RecordBatch::num_rows).sum();
            parsed.left_out += rows.saturating_sub(kept) as u64;
            parsed.batches.extend(chosen);
        }
        Ok(parsed)
    };
    Task { work: Box::new(work), ..task }
}

impl InputTasks<'_> {
    /// What is selected from an input that was opened, which may be the first one. Its columns that
    /// the selection does not read take any values.
    pub(super) fn open_selected(&mut self, opened: Opened) -> Result<CurrentInput> {
        let file = opened.name.clone();
        let mut current = self.open(opened)?;
        // A pipe that ends before its first row has no columns.
        if let (Some(select), None, false) =
            (&self.options.select, &self.selected, self.columns.is_empty())
        {
            let mut columns = InputColumns::default();
            columns.add(&file, &self.columns);
            let selected = Selected::new(select, columns, self.options, Some(&file))?;
            self.selected = Some(Arc::new(selected));
        }
        if let Some(selected) = &self.selected {
            let is_read = |name: &str| selected.reads(name);
            match &mut current {
                CurrentInput::Csv { schema, .. } => *schema = Arc::new(schema.reading(is_read)),
                CurrentInput::Json { schema, .. } => *schema = Arc::new(schema.reading(is_read)),
                CurrentInput::Other(_) => {}
            }
        }
        Ok(current)
    }

    /// Sets the columns of the current input.
    pub(super) fn set_columns(&mut self, columns: impl Iterator<Item = Field>) {
        self.columns = columns.map(|field| field.with_nullable(true)).collect();
        let own: HashSet<&str> = self.columns.iter().map(|one| one.name().as_str()).collect();
        let of_path = self.current_columns.fields().filter(|one| !own.contains(&**one.name()));
        let of_path: Vec<_> = of_path.cloned().collect();
        self.columns.extend(of_path);
    }

    /// Notes where values among the first rows do not go with the types of the rows before these,
    /// if the input cannot be opened again.
    pub(super) fn note_misfits(
        &mut self,
        find: impl Fn(&str, &DataType) -> Result<Option<((u64, String), bool)>>,
    ) {
        let origin = self.origin.as_ref();
        let known = origin.and_then(|one| one.with_first_rows(&self.prior, &self.columns, find));
        if let Some(known) = known {
            self.origin = Some(Arc::new(known));
        }
    }

    /// An input without rows; a selection computes columns all the same.
    pub(super) fn nothing(&self) -> CurrentInput {
        match &self.selected {
            Some(_) => no_rows(Vec::new()),
            None => CurrentInput::Other(Box::new(std::iter::empty())),
        }
    }
}

/// An input with these columns and no rows. A new table gets the columns.
pub(super) fn no_rows(columns: Vec<Field>) -> CurrentInput {
    let none = RecordBatch::new_empty(Arc::new(ArrowSchema::new(columns)));
    let task = Ok(Task::new(0, || Ok(none.into())));
    CurrentInput::Other(Box::new(std::iter::once(task)))
}

impl Selected {
    /// The selection over inputs of these columns: those of one file, perhaps.
    fn new(
        select: &Arc<dyn Select>,
        mut columns: InputColumns,
        options: &LoadOptions,
        file: Option<&Path>,
    ) -> Result<Selected> {
        columns.correct(options.misguesses.known());
        let rows = select.over(&columns.schema()).map_err(|error| of_select(error, file))?;
        let reads = rows.reads().fields();
        if let Some(what) = reads.iter().find_map(|field| columns.clashes.get(field.name())) {
            return Err(Error::InvalidInput(what.clone()));
        }
        Ok(Selected {
            select: Arc::clone(select),
            known: columns.columns.iter().map(|field| field.name().clone()).collect(),
            columns,
            rows,
            guess_check: GuessCheck::new(&options.misguesses, &Schema::default()),
            others: Mutex::default(),
        })
    }

    /// The columns of all inputs in types that hold for all rows, as far as a table can hold them.
    pub(super) fn types(&self) -> impl Iterator<Item = (String, DataType)> {
        self.columns.types()
    }

    /// Whether a column is read.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.rows.reads().field_with_name(name).is_ok()
    }

    /// What tells this selection from others.
    fn mark(&self, options: &LoadOptions) -> SelectionMark {
        let mut columns: Vec<(&str, String)> = self
            .rows
            .reads()
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), shown(field)))
            .collect();
        columns.sort_unstable();
        let is_named = |(name, _): &(&str, String)| {
            options.filename_column.as_deref() == Some(*name)
                || options.csv.schema.iter().any(|(named, _)| named == name)
        };
        let are_named = columns.iter().all(is_named);
        let columns = columns.iter().map(|(name, shown)| format!("{name}:{shown}")).collect();
        SelectionMark { text: self.select.text().to_owned(), columns, are_named }
    }

    fn select(&self, batch: &RecordBatch, file: &Path) -> Result<Vec<RecordBatch>> {
        self.check_new(batch, file)?;
        let reads = self.rows.reads();
        let array = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
            Some(array) => self.typed(field, array, file),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        };
        let arrays = reads.fields().iter().map(array).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(reads), arrays, &options);
        self.rows.select(rows.or_invalid()?).map_err(|error| of_select(error, Some(file)))
    }

    /// The values of a column in its type.
    fn typed(&self, field: &Field, array: &ArrayRef, file: &Path) -> Result<ArrayRef> {
        let (name, arrow) = (field.name(), field.data_type());
        let wanted = DataType::from_field(field);
        if array.data_type() == arrow && wanted != Some(DataType::Uuid) {
            return Ok(Arc::clone(array));
        }
        let found = match (&wanted, DataType::from_arrow(array.data_type())) {
            // Their texts are checked.
            (Some(DataType::Uuid), Some(DataType::Utf8)) => wanted.clone(),
            // They come in several layouts.
            (Some(DataType::Interval), None)
                if matches!(array.data_type(), ArrowType::Interval(_) | ArrowType::Duration(_)) =>
            {
                wanted.clone()
            }
            (_, found) => found,
        };
        let types = (wanted, found);
        let (Some(have), Some(found)) = types else {
            return Err(Error::InvalidInput(format!(
                "{}: column '{name}' is {}, and {arrow} in other inputs",
                file.display(),
                array.data_type()
            )));
        };
        if have.join(&found).as_ref() != Some(&have) {
            return Err(self.misfit(name, &have, &found, file));
        }
        let one = Schema::from_names(vec![(name.as_str(), have)])?;
        let column = one.columns().first();
        let values = column.map_or_else(|| Ok(Arc::clone(array)), |column| assign(column, array));
        let values = values.map_err(|error| of_select(error, Some(file)))?;
        arrow_cast::cast(&values, arrow).or_invalid()
    }

    /// The error for a column that has another type in later rows.
    #[cold]
    fn misfit(&self, name: &str, have: &DataType, found: &DataType, file: &Path) -> Error {
        let needed = have.join(found).unwrap_or(DataType::Utf8);
        let what = format!(
            "{}: column '{name}' is {have} in the first rows and {found} in others, and --select \
             needs one type for all; name it with --schema '{name}:{needed}'",
            file.display()
        );
        self.guess_check.note(name, needed);
        Error::InvalidInput(what)
    }

    /// Refuses rows with columns that the first rows do not have, if those change the plan.
    fn check_new(&self, batch: &RecordBatch, file: &Path) -> Result<()> {
        let fields = batch.schema_ref().fields();
        if fields.iter().all(|field| self.known.contains(field.name())) {
            return Ok(());
        }
        let new: Vec<_> = {
            let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = |name: &String| !self.known.contains(name) && !others.contains(name);
            fields.iter().filter(|field| is_new(field.name())).cloned().collect()
        };
        if !self.changes_plan(&new) {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            others.extend(new.iter().map(|field| field.name().clone()));
            return Ok(());
        }
        let alone = |field: &&Arc<Field>| self.changes_plan(std::slice::from_ref(*field));
        let mut first = None;
        for field in new.iter().filter(alone) {
            let found = DataType::from_field(field).unwrap_or(DataType::Utf8);
            self.guess_check.note(field.name(), found.clone());
            first.get_or_insert((field.name().as_str(), found));
        }
        let (name, found) = first.unwrap_or(("", DataType::Null));
        Err(Error::InvalidInput(format!(
            "{}: column '{name}' is not in the first rows, and --select takes it; name it with \
             --schema '{name}:{found}', or those columns that are wanted",
            file.display()
        )))
    }

    /// Whether the selection would read or compute other columns if the inputs had these, too.
    fn changes_plan(&self, new: &[Arc<Field>]) -> bool {
        if new.is_empty() {
            return false;
        }
        let known = self.columns.schema();
        let more: Vec<_> = known.fields().iter().chain(new).cloned().collect();
        let with = self.select.over(&Arc::new(ArrowSchema::new(more)));
        with.map_or(true, |with| {
            with.reads() != self.rows.reads() || with.computes() != self.rows.computes()
        })
    }
}

/// The error of a selection, with its file.
fn of_select(error: Error, file: Option<&Path>) -> Error {
    match (error, file) {
        (Error::InvalidInput(what), Some(file)) => {
            Error::InvalidInput(format!("{}: --select: {what}", file.display()))
        }
        (Error::InvalidInput(what), None) => Error::InvalidInput(format!("--select: {what}")),
        (other, _) => other,
    }
}

/// A type as it is written.
fn shown(field: &Field) -> String {
    let known = DataType::from_field(field);
    known.map_or_else(|| field.data_type().to_string(), |known| known.to_string())
}
