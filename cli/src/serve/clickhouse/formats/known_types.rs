//! Columns in the Arrow types that every reader of Arrow and Parquet knows: no views, dictionaries
//! and runs, no days in milliseconds, and no decimals without their last digits. Intervals are
//! texts, as they are in ClickHouse's own formats.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::CastOptions;
use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, SchemaRef, TimeUnit,
};

use crate::errors::Failure;

/// The field in such types.
pub(super) fn known_field(field: &Arc<Field>) -> Arc<Field> {
    let known = known_type(field.data_type());
    match known == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(known)),
    }
}

fn known_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Interval(_) | DataType::Duration(_) => DataType::Utf8,
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale < 0 =>
        {
            match precision.saturating_add(scale.unsigned_abs()) {
                digits @ ..=DECIMAL128_MAX_PRECISION => DataType::Decimal128(digits, 0),
                digits => DataType::Decimal256(digits.min(DECIMAL256_MAX_PRECISION), 0),
            }
        }
        DataType::Dictionary(_, values) => known_type(values),
        DataType::RunEndEncoded(_, values) => known_type(values.data_type()),
        DataType::List(item) | DataType::ListView(item) => DataType::List(known_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(known_field(item))
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(known_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(known_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(known_field(entries), *sorted),
        other => other.clone(),
    }
}

/// The batch in a schema that has been made of its own.
pub(super) fn known_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| -> Result<ArrayRef, Failure> {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        arrow_cast::cast_with_options(array, field.data_type(), &strict).map_err(|error| {
            let (name, found) = (field.name(), array.data_type());
            Failure::failed(format!("column '{name}' of type {found} cannot be written: {error}"))
        })
    });
    let columns = columns.collect::<Result<Vec<_>, Failure>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
}
