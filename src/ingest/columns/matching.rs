//! Matches the columns of a batch with those of the table.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};

use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType, Schema};

/// How many column names of each side a message shows.
const SHOWN_NAMES: usize = 8;

/// The stored type of an Arrow column, or an error that says why there is none.
pub(crate) fn stored_type(name: &str, array: &ArrayRef) -> Result<DataType> {
    DataType::from_arrow(array.data_type()).ok_or_else(|| {
        Error::Unsupported(format!(
            "column '{name}' has type {}, which a table cannot hold yet",
            array.data_type()
        ))
    })
}

/// The join of two types of one column, or an error that says why there is none.
pub(crate) fn join(name: &str, have: &DataType, new: &DataType) -> Result<DataType> {
    have.join(new).ok_or_else(|| {
        Error::InvalidInput(format!(
            "column '{name}' is {have} and cannot also hold {new} without loss; \
             give its type with --schema {name}:TYPE, or load into another table"
        ))
    })
}

/// Returns the ids of a batch's columns. Adds new columns to the schema and widens its types to
/// hold the batch.
pub fn match_columns(schema: &mut Schema, batch: &RecordBatch) -> Result<Vec<ColumnId>> {
    let mut places: HashMap<Arc<str>, Option<usize>> = schema
        .columns()
        .iter()
        .enumerate()
        .map(|(at, column)| (column.name.clone(), Some(at)))
        .collect();
    let mut ids = Vec::with_capacity(batch.num_columns());
    let (mut widened, mut new) = (Vec::new(), Vec::new());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        let data_type = stored_type(name, array)?;
        // `None` marks a name that an earlier field of the batch has taken.
        match places.insert(Arc::from(name), None) {
            Some(None) => {
                return Err(Error::InvalidInput(format!(
                    "the input has two columns named '{name}'"
                )));
            }
            Some(Some(at)) => {
                let column = &schema.columns()[at];
                ids.push(column.id);
                let joined = join(name, &column.data_type, &data_type)?;
                if joined != column.data_type {
                    widened.push((at, joined));
                }
            }
            None => {
                ids.push(ColumnId(schema.next_id().saturating_add(new.len() as u32)));
                new.push((name, data_type));
            }
        }
    }
    if new.len() == ids.len() {
        check_shared_columns(schema, &new)?;
    }
    widened.into_iter().for_each(|(at, data_type)| schema.set_type(at, data_type));
    schema.extend(new)?;
    Ok(ids)
}

/// Refuses an input that shares no column with the table: its first row was misread, or it belongs
/// to another table.
fn check_shared_columns(schema: &Schema, new: &[(&str, DataType)]) -> Result<()> {
    if schema.columns().is_empty() || new.is_empty() {
        return Ok(());
    }
    let listed = |mut names: Vec<&str>| {
        let more = names.len() > SHOWN_NAMES;
        names.truncate(SHOWN_NAMES);
        names.join(", ") + if more { ", …" } else { "" }
    };
    Err(Error::InvalidInput(format!(
        "the input's columns ({}) are none of the table's ({}); name them with --names, say \
         --no-header or --header if the first row of the input was misread, or load into another \
         table",
        listed(new.iter().map(|(name, _)| *name).collect()),
        listed(schema.columns().iter().map(|column| &*column.name).collect()),
    )))
}
