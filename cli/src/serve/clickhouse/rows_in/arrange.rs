//! The columns of a body as the columns that the statement declares: by name, in their types.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::CastOptions;
use arrow_schema::{Field, SchemaRef};

use crate::errors::Failure;
use crate::serve::clickhouse::refusals::invalid;

/// Which declared columns the columns of a body are. Declared columns that it lacks must take null.
pub(super) fn places(names: &[String], declared: &SchemaRef) -> Result<Vec<usize>, Failure> {
    let mut places: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let Some((place, _)) = declared.fields().find(name) else {
            return Err(invalid(format!(
                "the body has a column '{name}', and the statement has not"
            ))
            .hint("name the columns of the body behind the table, or leave the column out"));
        };
        if places.contains(&place) {
            return Err(invalid(format!("the body has two columns '{name}'")));
        }
        places.push(place);
    }
    let missing = declared.fields().iter().enumerate();
    let mut missing = missing.filter(|(at, field)| !field.is_nullable() && !places.contains(at));
    match missing.next() {
        Some((_, field)) => {
            Err(invalid(format!("the body has no column '{}', which cannot be null", field.name())))
        }
        None => Ok(places),
    }
}

/// The batch of the declared columns.
pub(super) fn batch(
    arrays: Vec<ArrayRef>,
    places: &[usize],
    rows: usize,
    declared: &SchemaRef,
) -> Result<RecordBatch, Failure> {
    let mut columns: Vec<Option<ArrayRef>> = vec![None; declared.fields().len()];
    for (array, place) in arrays.into_iter().zip(places) {
        if let Some(column) = columns.get_mut(*place) {
            *column = Some(cast(array, declared.field(*place))?);
        }
    }
    let filled = columns.into_iter().zip(declared.fields());
    let filled = filled
        .map(|(column, field)| column.unwrap_or_else(|| new_null_array(field.data_type(), rows)));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(declared), filled.collect(), &options)?)
}

fn cast(array: ArrayRef, field: &Field) -> Result<ArrayRef, Failure> {
    if !field.is_nullable() && array.logical_null_count() > 0 {
        return Err(invalid(format!("column '{}' cannot be null", field.name())));
    }
    if array.data_type() == field.data_type() {
        return Ok(array);
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    arrow_cast::cast_with_options(&array, field.data_type(), &strict).map_err(|error| {
        let (name, from, to) = (field.name(), array.data_type(), field.data_type());
        invalid(format!("column '{name}' is {to}, and the body has {from}: {error}"))
    })
}
