//! Types for other programs. Views of text and bytes become ordinary text and bytes, since many
//! readers do not know views, and a view can keep a much larger buffer alive.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::CastOptions;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

/// The schema with views replaced.
pub(super) fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let replace = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => Arc::new(Field::clone(field).with_data_type(DataType::Utf8)),
        DataType::BinaryView => Arc::new(Field::clone(field).with_data_type(DataType::Binary)),
        _ => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().map(replace).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The schema with dictionaries replaced by the type of their values, also inside of lists, structs
/// and maps. A column of an Arrow file has one dictionary, and each batch of an answer may have its
/// own.
pub(super) fn without_dictionaries(schema: &Schema) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().map(without_dictionary).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn without_dictionary(field: &FieldRef) -> FieldRef {
    let plain = |inner: &FieldRef| without_dictionary(inner);
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::List(inner) => DataType::List(plain(inner)),
        DataType::LargeList(inner) => DataType::LargeList(plain(inner)),
        DataType::FixedSizeList(inner, size) => DataType::FixedSizeList(plain(inner), *size),
        DataType::Map(inner, sorted) => DataType::Map(plain(inner), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        _ => return Arc::clone(field),
    };
    // A new field: the old one may have the id of its dictionary.
    let new = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(new.with_metadata(field.metadata().clone()))
}

/// The batch, cast to a schema that [`plain_schema`] or the like has made from its own.
pub(super) fn plain_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| plain_array(array, field));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
}

/// The column of such a batch.
pub(super) fn plain_array(array: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == field.data_type() {
        return Ok(Arc::clone(array));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    arrow_cast::cast_with_options(array, field.data_type(), &strict).map_err(|error| {
        let (name, from, to) = (field.name(), array.data_type(), field.data_type());
        ArrowError::CastError(format!("column '{name}' of type {from} is written as {to}: {error}"))
    })
}
