//! Checks on batches of typed inputs, and conversion to the types that the user named.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema};

use super::assign::assign;
use super::sources::flat::flat_batch;
use crate::error::{ArrowResult, Error, Result};
use crate::model::{Column, DataType};

/// Checks on batches of Parquet and Arrow, which can hold what a table cannot; they name the file.
#[derive(Clone)]
pub(super) struct BatchChecks {
    pub(super) file: Arc<Path>,
    /// Whether path columns are added.
    pub(super) has_path_columns: bool,
    /// Columns of the input whose types the user named, and those of UUIDs and intervals.
    pub(super) types: Arc<[Column]>,
    /// Columns of the input, or those that it lacks, that are NOT NULL in the table.
    pub(super) required: Arc<[String]>,
    /// Where fields of structs become columns: those whose structs become texts.
    pub(super) flattened: Option<Arc<[String]>>,
}

/// The error for an input without a column that the table requires.
#[cold]
pub(super) fn lacks_column(file: &Path, name: &str) -> Error {
    Error::InvalidInput(format!(
        "{}: it has no column '{name}', which is NOT NULL in the table",
        file.display()
    ))
}

impl BatchChecks {
    /// The batch in the types that the user named. Refuses values that they cannot hold exactly,
    /// rows without columns, times outside a day, and nulls that the table does not take. The batch
    /// comes after `before` other rows of the file.
    pub(super) fn checked(&self, batch: RecordBatch, before: u64) -> Result<RecordBatch> {
        let batch = match &self.flattened {
            Some(whole) => flat_batch(&self.file, &batch, whole)?,
            None => batch,
        };
        self.check(&batch)?;
        self.check_required(&batch, before)?;
        if self.types.is_empty() {
            return Ok(batch);
        }
        let schema = batch.schema();
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let Some(column) = self.types.iter().find(|column| *column.name == **field.name())
            else {
                fields.push(Arc::clone(field));
                arrays.push(Arc::clone(array));
                continue;
            };
            let array = assign(column, array).map_err(|error| match error {
                // Nobody need have named that type.
                Error::InvalidInput(what)
                    if matches!(column.data_type, DataType::Uuid | DataType::Interval) =>
                {
                    Error::InvalidInput(format!("{}: {what}", self.file.display()))
                }
                Error::InvalidInput(what) => {
                    Error::InvalidInput(format!("{}: {what} (--schema)", self.file.display()))
                }
                other => other,
            })?;
            let field = Field::new(field.name(), array.data_type().clone(), true);
            fields.push(Arc::new(column.data_type.marked(field)));
            arrays.push(array);
        }
        let schema = Arc::new(ArrowSchema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema, arrays, &options).or_invalid()
    }

    fn check_required(&self, batch: &RecordBatch, before: u64) -> Result<()> {
        let file = self.file.display();
        for name in self.required.iter().filter(|_| batch.num_rows() > 0) {
            let Some(column) = batch.column_by_name(name) else {
                return Err(lacks_column(&self.file, name));
            };
            let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            let first = nulls.and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row)));
            if let Some(row) = first {
                return Err(Error::InvalidInput(format!(
                    "{file}: row {}: column '{name}' is NOT NULL, but the row has no value in it",
                    before + row as u64 + 1
                )));
            }
        }
        Ok(())
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let file = self.file.display();
        if batch.num_columns() == 0 && batch.num_rows() > 0 && !self.has_path_columns {
            return Err(Error::InvalidInput(format!(
                "{file} has rows but no columns, which a table cannot hold"
            )));
        }
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let Some(data_type @ DataType::Time { .. }) = DataType::from_arrow(array.data_type())
            else {
                continue;
            };
            let (Some((least, greatest)), Ok(ticks)) =
                (data_type.bounds(), arrow_cast::cast(array, &arrow_schema::DataType::Int64))
            else {
                continue;
            };
            let ticks = ticks.as_primitive::<Int64Type>().iter().flatten();
            if let Some(value) =
                ticks.into_iter().find(|value| !(least..=greatest).contains(&i128::from(*value)))
            {
                return Err(Error::InvalidInput(format!(
                    "{file}: column '{}': {value} is not a value of type {data_type}, which goes \
                     from {least} to {greatest}",
                    field.name()
                )));
            }
        }
        Ok(())
    }
}
