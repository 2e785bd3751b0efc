//! Checks on batches of typed inputs.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use crate::error::{Error, Result};
use crate::model::DataType;

/// Checks on batches of Parquet and Arrow, which can hold what a table cannot; they name the file.
#[derive(Clone)]
pub(super) struct BatchChecks {
    pub(super) file: Arc<Path>,
    /// Whether path columns are added.
    pub(super) has_path_columns: bool,
}

impl BatchChecks {
    /// Refuses rows without columns, and times outside a day.
    pub(super) fn check(&self, batch: &RecordBatch) -> Result<()> {
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
