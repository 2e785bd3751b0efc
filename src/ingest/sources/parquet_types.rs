//! The Arrow types in which columns of Parquet are read, and marks of those that Arrow's types do
//! not tell.

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{ConvertedType, Encoding, LogicalType, Type as PhysicalType};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::model::fields::{interval_bytes, uuid_bytes};

/// Bytes of an interval.
const INTERVAL_BYTES: i32 = 12;

/// The columns at these positions of a file; those of UUIDs have Arrow's mark of such, and those
/// of `intervals` one of ours.
pub(super) fn marked(
    schema: &SchemaRef,
    places: &[usize],
    metadata: &ArrowReaderMetadata,
    intervals: &[usize],
) -> SchemaRef {
    let types = metadata.parquet_schema().root_schema().get_fields();
    let is_uuid = |at: &usize| {
        let found = types.get(*at).map(|one| one.get_basic_info().logical_type_ref());
        matches!(found, Some(Some(LogicalType::Uuid)))
    };
    let marked = schema.fields().iter().zip(places).map(|(field, at)| match at {
        at if is_uuid(at) => Arc::new(uuid_bytes(Field::clone(field))),
        at if intervals.contains(at) => Arc::new(interval_bytes(Field::clone(field))),
        _ => Arc::clone(field),
    });
    let fields: Vec<Arc<Field>> = marked.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Reads columns of intervals as their 12 bytes, and returns their positions: the reader (59) would
/// leave out their months.
pub(super) fn with_interval_bytes(
    metadata: ArrowReaderMetadata,
) -> ParquetResult<(ArrowReaderMetadata, Vec<usize>)> {
    let of_file = metadata.metadata().file_metadata();
    let root = of_file.schema_descr().root_schema();
    let is_interval = |one: &TypePtr| {
        one.is_primitive() && one.get_basic_info().converted_type() == ConvertedType::INTERVAL
    };
    let fields = root.get_fields().iter().enumerate();
    let places: Vec<usize> = fields.filter(|(_, one)| is_interval(one)).map(|(at, _)| at).collect();
    if places.is_empty() {
        return Ok((metadata, places));
    }
    let plain = |one: &TypePtr| -> ParquetResult<TypePtr> {
        if !is_interval(one) {
            return Ok(Arc::clone(one));
        }
        let basic = one.get_basic_info();
        let id = basic.has_id().then(|| basic.id());
        let physical = PhysicalType::FIXED_LEN_BYTE_ARRAY;
        let bytes = Type::primitive_type_builder(one.name(), physical)
            .with_repetition(basic.repetition())
            .with_length(INTERVAL_BYTES)
            .with_id(id);
        Ok(Arc::new(bytes.build()?))
    };
    let fields = root.get_fields().iter().map(plain).collect::<ParquetResult<_>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    let of_file = FileMetaData::new(
        of_file.version(),
        of_file.num_rows(),
        of_file.created_by().map(str::to_owned),
        of_file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(Arc::new(root))),
        of_file.column_orders().cloned(),
    );
    let groups = metadata.metadata().row_groups().to_vec();
    let plain = Arc::new(ParquetMetaData::new(of_file, groups));
    // What the writer says of Arrow's types would give the column its old one.
    let options = ArrowReaderOptions::new();
    Ok((ArrowReaderMetadata::try_new(plain, options)?, places))
}

/// Reads text and binary columns as views, and days as dates, whatever types the writer recorded;
/// and timestamps of 96 bits, which go far beyond those of 64 bits in nanoseconds, in microseconds.
pub(super) fn with_views(metadata: ArrowReaderMetadata) -> ArrowReaderMetadata {
    let types = metadata.parquet_schema().root_schema().get_fields();
    let has_days = |at: usize| {
        types.get(at).map(|one| one.get_basic_info()).is_some_and(|info| {
            info.converted_type() == ConvertedType::DATE
                || matches!(info.logical_type_ref(), Some(LogicalType::Date))
        })
    };
    let has_96_bits = |at: usize| {
        types
            .get(at)
            .is_some_and(|one| one.is_primitive() && one.get_physical_type() == PhysicalType::INT96)
    };
    with_types(&metadata, |at, field| match field.data_type() {
        ArrowType::Date64 if has_days(at) => Some(ArrowType::Date32),
        ArrowType::Timestamp(TimeUnit::Nanosecond, zone) if has_96_bits(at) => {
            Some(ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        other => viewed(other),
    })
}

/// Reads text and binary columns as codes, if this row group has them so.
pub(super) fn with_codes(metadata: &ArrowReaderMetadata, group: usize) -> ArrowReaderMetadata {
    let columns = metadata.metadata().row_group(group).columns();
    let schema = metadata.parquet_schema();
    let mut are_coded = vec![false; metadata.schema().fields().len()];
    for (leaf, column) in columns.iter().enumerate() {
        if let Some(coded) = are_coded.get_mut(schema.get_column_root_idx(leaf)) {
            *coded = is_coded(column);
        }
    }
    with_types(metadata, |at, field| {
        let values = match field.data_type() {
            ArrowType::Utf8View => ArrowType::Utf8,
            ArrowType::BinaryView => ArrowType::Binary,
            _ => return None,
        };
        let codes = || ArrowType::Dictionary(Box::new(ArrowType::UInt32), Box::new(values));
        are_coded.get(at).is_some_and(|coded| *coded).then(codes)
    })
}

/// Whether all pages of a column have codes of a dictionary.
fn is_coded(column: &ColumnChunkMetaData) -> bool {
    let codes = [Encoding::PLAIN_DICTIONARY, Encoding::RLE_DICTIONARY];
    let pages = column.page_encoding_stats_mask();
    column.dictionary_page_offset().is_some()
        && pages.is_some_and(|pages| codes.iter().any(|codes| pages.is_only(*codes)))
}

/// Reads columns as other types; if the reader refuses that, as it would have read them.
fn with_types(
    metadata: &ArrowReaderMetadata,
    other: impl Fn(usize, &Field) -> Option<ArrowType>,
) -> ArrowReaderMetadata {
    let schema = metadata.schema();
    let field = |(at, field): (usize, &Arc<Field>)| match other(at, field) {
        Some(other) => Arc::new(field.as_ref().clone().with_data_type(other)),
        None => field.clone(),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().enumerate().map(field).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let read = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options);
    read.unwrap_or_else(|_| metadata.clone())
}

fn viewed(arrow: &ArrowType) -> Option<ArrowType> {
    match arrow {
        ArrowType::Utf8 | ArrowType::LargeUtf8 => Some(ArrowType::Utf8View),
        ArrowType::Binary | ArrowType::LargeBinary => Some(ArrowType::BinaryView),
        ArrowType::Dictionary(_, value) => viewed(value),
        _ => None,
    }
}
