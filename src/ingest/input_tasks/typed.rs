//! Tasks of typed inputs: row groups of Parquet, batches of Arrow.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "parquet")]
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef};

use super::{CurrentInput, InputTasks};
use crate::error::Result;
use crate::ingest::arrange::Arrange;
use crate::ingest::batch_checks::BatchChecks;
use crate::ingest::columns::value_bytes;
use crate::ingest::sources::Opened;
use crate::ingest::sources::arrow::ArrowBatches;
use crate::ingest::sources::flat::flat_schema;
#[cfg(feature = "parquet")]
use crate::ingest::sources::parquet::{ParquetSource, Spooled};
use crate::ingest::sources::supported::{Others, Wanted, no_such_column};
use crate::ingest::task::{Parsed, Task};
use crate::model::{DataType, Physical, Schema};

/// A single empty batch, for the columns of an input without rows.
fn no_rows(schema: SchemaRef, checks: BatchChecks) -> CurrentInput {
    let work = move || Ok(checks.checked(RecordBatch::new_empty(schema), 0)?.into());
    let task = Task::new(0, work);
    CurrentInput::Other(Box::new(std::iter::once(Ok(task))))
}

impl InputTasks<'_> {
    /// Small row groups are decoded by one task each, large ones batch by batch on demand.
    #[cfg(feature = "parquet")]
    pub(super) fn open_parquet(&mut self, opened: Opened) -> Result<CurrentInput> {
        let name = opened.name.clone();
        let (spooled, memory) = (Spooled::new(opened)?, self.options.memory());
        // Rows that are sorted or partitioned are written out.
        let Arrange { partition_by, sort_by, .. } = &self.options.arrange;
        let codes = self.options.select.is_none() && partition_by.is_empty() && sort_by.is_empty();
        let (source, skipped) =
            self.with_wanted(|wanted| ParquetSource::open(spooled, wanted, memory, codes))?;
        let checks = self.checks(&name, &*source.schema()?)?;
        self.warnings.skipped.extend(skipped);
        let in_place = source.bytes_in_place()?;
        if let Some(size) = in_place {
            // The bytes between row groups are counted at once.
            let groups = (0..source.groups())
                .map(|group| source.stored_bytes(group))
                .fold(0, u64::saturating_add);
            self.consumed.store(size.saturating_sub(groups), Ordering::Relaxed);
        }
        if source.rows() == 0 {
            return Ok(no_rows(source.schema()?, checks));
        }
        let (consumed, max_task_bytes, pool) =
            (self.consumed.clone(), self.max_task_bytes, Arc::clone(&self.pool));
        let threads = pool.current_num_threads();
        let skip = usize::try_from(self.pieces_to_skip()).unwrap_or(usize::MAX);
        let tasks = (skip.min(source.groups())..source.groups()).flat_map(move |group| {
            if in_place.is_some() {
                consumed.fetch_add(source.stored_bytes(group), Ordering::Relaxed);
            }
            let (bytes, weight) = (source.plain_bytes(group), source.memory_bytes(group));
            let mut before = source.rows_before(group);
            let tasks: Box<dyn Iterator<Item = Result<Task>>> = if weight <= max_task_bytes {
                let (source, checks) = (source.clone(), checks.clone());
                let work = move || {
                    let batches = source.read(group, threads)?.read_all()?;
                    let checked = batches.into_iter().map(|batch| {
                        let first = before;
                        before += batch.num_rows() as u64;
                        checks.checked(batch, first)
                    });
                    checked.collect::<Result<Vec<_>>>().map(Parsed::from)
                };
                Box::new(std::iter::once(Ok(Task { bytes, ..Task::new(weight, work) })))
            } else {
                let (pool, checks) = (Arc::clone(&pool), checks.clone());
                match source.read(group, threads) {
                    Ok(mut rows) => Box::new(
                        std::iter::from_fn(move || pool.install(|| rows.next_batch()).transpose())
                            .enumerate()
                            .map(move |(number, batch)| {
                                let (batch, first) = (batch?, before);
                                before += batch.num_rows() as u64;
                                let batch = checks.checked(batch, first)?;
                                let task = Task::new(batch.get_array_memory_size(), move || {
                                    Ok(batch.into())
                                });
                                let starts_piece = number == 0;
                                Ok(Task {
                                    starts_piece,
                                    bytes: if starts_piece { bytes } else { 0 },
                                    ..task
                                })
                            }),
                    ),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            };
            tasks
        });
        Ok(CurrentInput::Other(Box::new(tasks)))
    }

    /// Decodes batches on the caller's thread while workers encode.
    pub(super) fn open_arrow(&mut self, opened: Opened) -> Result<CurrentInput> {
        let (name, path) = (&opened.name, opened.path.as_deref());
        let (bytes, memory) = (opened.bytes, self.options.memory());
        let (batches, skipped) =
            self.with_wanted(|wanted| ArrowBatches::open(name, bytes, path, wanted, memory))?;
        self.warnings.skipped.extend(skipped);
        let schema = batches.columns()?;
        let checks = self.checks(&opened.name, &schema)?;
        let mut batches = batches.peekable();
        if batches.peek().is_none() {
            return Ok(no_rows(schema, checks));
        }
        let skip = usize::try_from(self.pieces_to_skip()).unwrap_or(usize::MAX);
        let mut before = 0;
        let numbered = batches.map(move |batch| {
            let (batch, first) = (batch?, before);
            before += batch.num_rows() as u64;
            Ok((batch, first))
        });
        Ok(CurrentInput::Other(Box::new(numbered.skip(skip).map(
            move |batch: Result<(RecordBatch, u64)>| {
                let (batch, first) = batch?;
                // All columns share one allocation, which the sizes of arrays would count anew.
                let bytes: usize = batch.columns().iter().map(value_bytes).sum();
                let checks = checks.clone();
                let work = move || checks.checked(batch, first).map(Parsed::from);
                Ok(Task { bytes: bytes as u64, ..Task::new(bytes, work) })
            },
        ))))
    }

    /// Whether fields of structs become columns: not where a selection takes what it wants.
    fn flattens(&self) -> bool {
        self.options.flatten && self.options.select.is_none()
    }

    /// Opens a typed input for the columns that are wanted of it.
    fn with_wanted<T>(&self, open: impl FnOnce(Wanted<'_>) -> T) -> T {
        let others = match (self.options.flatten, self.options.skip_unsupported) {
            (true, skip) => Others::Flatten { skip },
            (false, true) => Others::Skip,
            (false, false) => Others::Refuse,
        };
        match (&self.options.select, &self.selected) {
            (None, _) => open(Wanted::Supported(others)),
            (Some(_), None) => open(Wanted::All),
            (Some(_), Some(selected)) => open(Wanted::Read(&|name| selected.reads(name))),
        }
    }

    /// The checks for batches of the current input, which has these columns.
    fn checks(&mut self, name: &Path, columns: &ArrowSchema) -> Result<BatchChecks> {
        let whole: Option<Arc<[String]>> = self
            .flattens()
            .then(|| self.options.csv.schema.iter().map(|(name, _)| name.clone()).collect());
        let flat = whole.as_deref().map(|whole| flat_schema(name, columns, whole)).transpose()?;
        let columns = flat.as_deref().unwrap_or(columns);
        let mut types = Vec::new();
        // UUIDs come as bytes or as texts, which are checked, and intervals in several layouts.
        let known = |name: &str| self.prior.iter().find(|(known, _)| known == name);
        for field in columns.fields() {
            let (name, found) = (field.name(), DataType::from_field(field));
            let is_uuid = match known(name).map(|(_, known)| known) {
                // What stored the bytes of UUIDs goes on doing so.
                Some(DataType::Binary) => false,
                Some(DataType::Uuid) => found.as_ref().is_some_and(|found| {
                    found.physical() == Physical::Bytes || *found == DataType::Uuid
                }),
                _ => found == Some(DataType::Uuid),
            };
            let is_interval = found == Some(DataType::Interval)
                && known(name).is_none_or(|(_, known)| *known != DataType::Binary);
            let is_named = self.options.csv.schema.iter().any(|(named, _)| named == name);
            if is_uuid && !is_named {
                types.push((name.as_str(), DataType::Uuid));
            } else if is_interval && !is_named {
                types.push((name.as_str(), DataType::Interval));
            }
        }
        for (column, data_type) in &self.options.csv.schema {
            if columns.field_with_name(column).is_ok() {
                types.push((column.as_str(), data_type.clone()));
            } else if self.selected.is_none()
                && self.current_columns.names().all(|known| known != column)
            {
                let names = columns.fields().iter().map(|field| field.name().as_str());
                return Err(no_such_column(name, column, names));
            }
        }
        let named: HashMap<_, _> = types.iter().map(|(name, t)| (*name, t.clone())).collect();
        let typed = |field: &Field| {
            let known = named.get(field.name().as_str()).cloned();
            match known.or_else(|| DataType::from_field(field)) {
                Some(known) => known.to_field(field.name(), true),
                None => field.clone(),
            }
        };
        let fields: Vec<Field> = columns.fields().iter().map(|field| typed(field)).collect();
        self.set_columns(fields.into_iter());
        Ok(BatchChecks {
            file: Arc::from(name),
            has_path_columns: self.current_columns.names().next().is_some(),
            types: Schema::from_names(types)?.columns().into(),
            required: self.required_in_rows().cloned().collect(),
            flattened: whole,
        })
    }
}
