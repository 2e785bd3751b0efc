//! Matches the columns of a batch with those of the table.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema};

use super::uuids::uuid_texts;
use crate::error::{ArrowResult, Error, Result};
use crate::model::{ColumnId, DataType, Schema};

/// How many column names of each side a message shows.
const SHOWN_NAMES: usize = 8;

/// The stored type of an Arrow column, or an error that says why there is none.
pub(crate) fn stored_type(field: &Field) -> Result<DataType> {
    DataType::from_field(field).ok_or_else(|| {
        Error::Unsupported(format!(
            "column '{}' has type {}, which a table cannot hold yet",
            field.name(),
            field.data_type()
        ))
    })
}

/// The batch with its columns in the types of the table where Arrow's types do not tell them: in a
/// column of UUIDs, texts are UUIDs, and in one of texts, UUIDs are texts. Values that come from
/// `trusted` rows, which were stored before, are not checked.
pub(crate) fn typed(schema: &Schema, batch: RecordBatch, trusted: bool) -> Result<RecordBatch> {
    let known = |field: &Field| {
        let column = schema.columns().iter().find(|column| *column.name == **field.name())?;
        let found = DataType::from_field(field)?;
        let other = found != column.data_type && found.is_text() && column.data_type.is_text();
        other.then_some(column)
    };
    let old = batch.schema();
    // Most batches have the types of their arrays.
    let has_uuids = schema.columns().iter().any(|column| column.data_type == DataType::Uuid);
    if !has_uuids && old.fields().iter().all(|field| field.metadata().is_empty()) {
        return Ok(batch);
    }
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (field, array) in old.fields().iter().zip(batch.columns()) {
        let Some(column) = known(field) else {
            fields.push(Arc::clone(field));
            arrays.push(Arc::clone(array));
            continue;
        };
        let array = match column.data_type == DataType::Uuid && !trusted {
            true => uuid_texts(&column.name, array)?,
            false => Arc::clone(array),
        };
        let field = Field::new(field.name(), array.data_type().clone(), true);
        fields.push(Arc::new(column.data_type.marked(field)));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .or_invalid()
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
    for field in batch.schema_ref().fields() {
        let name = field.name().as_str();
        let data_type = stored_type(field)?;
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
