//! Files in directories called `key=value`: what `sty export --partition-by` and a COPY … TO with
//! PARTITION_BY write.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use stylobate::internal::ingest::{Partitions, partition_keys};
use stylobate::internal::store::check_outside_tables;
use stylobate::{ColumnId, DataType, Schema, SqlExpressions};

use crate::errors::{Failure, IoResult};
use crate::output::Output;
use crate::printers::{Format, PrintOptions, Printer};

/// How many partitions may have open files.
const MAX_OPEN_FILES: usize = 256;

/// A directory of files, and how they are written.
pub(crate) struct Directory {
    path: PathBuf,
    format: Format,
    extension: &'static str,
    options: PrintOptions,
    /// Whether files that exist are replaced.
    force: bool,
}

impl Directory {
    /// A directory of files in this format, which holds rows and nothing else.
    pub(crate) fn new(
        path: &Path,
        format: Format,
        options: PrintOptions,
        force: bool,
    ) -> Result<Directory, Failure> {
        let extension = format.extension().ok_or_else(|| {
            Failure::usage(
                "files in directories are parquet, csv, tsv, json, jsonl or arrow; name one of \
                 these formats",
            )
        })?;
        Ok(Directory { path: path.to_path_buf(), format, extension, options, force })
    }

    /// Makes the directory. One that has files of an export already is refused without `force`.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        check_outside_tables(&self.path)?;
        if let Some(file) = exported_before(&self.path, self.extension)
            && !self.force
        {
            let what = format!("{} has files of an export already", self.path.display());
            let hint = format!(
                "whoever reads the directory would read their rows, too: remove {} and the like, or \
                 name another directory; --force replaces those that get the same names",
                file.display()
            );
            return Err(Failure::usage(what).hint(hint));
        }
        std::fs::create_dir_all(&self.path).with_path(&self.path)
    }

    /// Opens a file in the directory or in one below it. The parts of one number have the same
    /// partitions.
    pub(crate) fn open(
        &self,
        below: &str,
        (number, part): (usize, usize),
        schema: &SchemaRef,
    ) -> Result<Printer, Failure> {
        let directory = self.path.join(below);
        std::fs::create_dir_all(&directory).with_path(&directory)?;
        let suffix = if part > 0 { format!("-{part}") } else { String::new() };
        let path = directory.join(format!("part-{number:06}{suffix}.{}", self.extension));
        let output = Output::open(Some(&path), self.force)?;
        Printer::new(self.format, schema, &self.options, output)
    }
}

/// A file in a directory, or below it, that was written there by an export.
fn exported_before(directory: &Path, extension: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return exported_before(&path, extension);
        }
        let is_part = entry.file_name().to_string_lossy().starts_with("part-");
        (is_part && path.extension().is_some_and(|own| own == extension)).then_some(path)
    })
}

/// The rows of one number, spread over the files of their partitions.
pub(crate) struct PartitionFiles<'a> {
    directory: &'a Directory,
    number: usize,
    /// The columns of the files.
    schema: SchemaRef,
    open: HashMap<u32, Printer>,
    part: usize,
    /// How many files have been opened.
    files: u64,
}

impl<'a> PartitionFiles<'a> {
    pub(crate) fn new(directory: &'a Directory, number: usize, schema: SchemaRef) -> Self {
        PartitionFiles { directory, number, schema, open: HashMap::new(), part: 0, files: 0 }
    }

    /// Writes the rows of a batch, each to the partition of its number.
    pub(crate) fn write(
        &mut self,
        batch: &RecordBatch,
        numbers: &[u32],
        partitions: &Partitions,
    ) -> Result<(), Failure> {
        let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (row, partition) in numbers.iter().enumerate() {
            rows.entry(*partition).or_default().push(row as u32);
        }
        for (partition, rows) in rows {
            if !self.open.contains_key(&partition) {
                if self.open.len() >= MAX_OPEN_FILES {
                    self.close()?;
                    self.part += 1;
                }
                let (path, place) = (partitions.path(partition), (self.number, self.part));
                let file = self.directory.open(&path, place, &self.schema)?;
                self.open.insert(partition, file);
                self.files += 1;
            }
            let Some(printer) = self.open.get_mut(&partition) else { continue };
            let _ = printer.write(&take_record_batch(batch, &UInt32Array::from(rows))?)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.open.drain().try_for_each(|(_, printer)| printer.finish()?.output.commit())
    }

    /// Completes the files, and returns their number.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.close()?;
        Ok(self.files)
    }
}

/// Rows of an answer with the keys of their partitions.
pub(crate) struct KeyedRows {
    partitions: Partitions,
    /// The columns of the answer that a table could hold, and where they are.
    schema: Schema,
    ids: Vec<ColumnId>,
    places: Vec<usize>,
    /// Where the columns are that go into the files.
    written: Vec<usize>,
}

impl KeyedRows {
    /// Rows with these columns, and their keys. A column that is a key itself is in the names of
    /// the directories, and in the files only if `with_keys` is set.
    pub(crate) fn new(
        columns: &SchemaRef,
        keys: &[String],
        with_keys: bool,
    ) -> Result<KeyedRows, Failure> {
        let fields = columns.fields().iter().enumerate();
        let known: Vec<(usize, &str, DataType)> = fields
            .filter_map(|(at, field)| Some((at, &**field.name(), DataType::from_field(field)?)))
            .collect();
        let names = known.iter().map(|(_, name, data_type)| (*name, data_type.clone()));
        let schema = Schema::from_names(names)?;
        let compile = Arc::new(SqlExpressions::default());
        let mut keys = partition_keys(keys, &schema, &*compile)?;
        let mut are_keys = Vec::new();
        for key in &mut keys {
            let is_column =
                |name: &str| name.eq_ignore_ascii_case(key.expression.trim_matches('"'));
            if let [(name, id)] = key.columns.as_slice()
                && is_column(name)
            {
                key.name = Arc::clone(name);
                are_keys.push(*id);
            }
        }
        let ids: Vec<ColumnId> = schema.columns().iter().map(|column| column.id).collect();
        let places: Vec<usize> = known.iter().map(|(at, ..)| *at).collect();
        let is_key = |at: usize| {
            let id = places.iter().position(|place| *place == at).and_then(|at| ids.get(at));
            id.is_some_and(|id| are_keys.contains(id))
        };
        let all = 0..columns.fields().len();
        let written: Vec<usize> = all.filter(|at| with_keys || !is_key(*at)).collect();
        if written.is_empty() {
            return Err(Failure::failed(
                "all columns are keys of PARTITION_BY, and the files would have none; \
                 WRITE_PARTITION_COLUMNS true writes them into the files, too",
            ));
        }
        let partitions = Partitions::new(keys, compile);
        Ok(KeyedRows { partitions, schema, ids, places, written })
    }

    /// Writes a batch to the files of its partitions.
    pub(crate) fn write(
        &mut self,
        batch: &RecordBatch,
        files: &mut PartitionFiles<'_>,
    ) -> Result<(), Failure> {
        let known = batch.project(&self.places)?;
        let numbers = self.partitions.number_rows(&known, &self.ids, &self.schema)?;
        files.write(&batch.project(&self.written)?, &numbers, &self.partitions)
    }

    /// The columns of the files.
    pub(crate) fn file_schema(&self, columns: &SchemaRef) -> Result<SchemaRef, Failure> {
        Ok(Arc::new(columns.project(&self.written)?))
    }
}
