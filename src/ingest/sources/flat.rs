//! Structs of Parquet and Arrow as a column of each of their fields, `a.b`, as the JSON reader does
//! with objects; lists and maps as JSON texts.
//!
//! Where this stands on the road of a byte: between the readers of these formats and the checks of
//! their batches, where `--flatten` is given.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_json::writer::{EncoderOptions, make_encoder};
use arrow_schema::{DataType as ArrowType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow_select::nullif::nullif;

use crate::error::{ArrowResult, Error, Result};
use crate::limits::MAX_FLAT_DEPTH;
use crate::model::DataType;

/// What becomes of a column.
enum Fate {
    /// It is stored as it is.
    Same,
    /// Each of its fields is a column.
    Fields,
    /// It is stored as JSON texts.
    Text,
}

/// What becomes of a column; that of the names `whole` are texts and not fields.
fn fate(name: &str, field: &Field, whole: &[String], depth: usize) -> Fate {
    match field.data_type() {
        ArrowType::Struct(_)
            if depth < MAX_FLAT_DEPTH && !whole.iter().any(|known| known == name) =>
        {
            Fate::Fields
        }
        ArrowType::Struct(_)
        | ArrowType::List(_)
        | ArrowType::LargeList(_)
        | ArrowType::FixedSizeList(..)
        | ArrowType::ListView(_)
        | ArrowType::LargeListView(_)
        | ArrowType::Map(..) => Fate::Text,
        _ => Fate::Same,
    }
}

/// The first column, or field of one, that a table cannot hold although structs are columns and
/// lists are texts: its name and its type.
pub(super) fn unsupported(field: &Field) -> Option<(String, ArrowType)> {
    let mut fields = Vec::new();
    add_fields(field.name(), field, &[], 0, &mut fields);
    let other = fields.into_iter().find(|field| DataType::from_field(field).is_none())?;
    Some((other.name().clone(), other.data_type().clone()))
}

fn add_fields(name: &str, field: &Field, whole: &[String], depth: usize, to: &mut Vec<Field>) {
    match (fate(name, field, whole, depth), field.data_type()) {
        (Fate::Fields, ArrowType::Struct(fields)) => {
            for inner in fields {
                add_fields(&format!("{name}.{}", inner.name()), inner, whole, depth + 1, to);
            }
        }
        (Fate::Text, _) => to.push(Field::new(name, ArrowType::Utf8View, true)),
        _ => to.push(field.clone().with_name(name).with_nullable(true)),
    }
}

/// The columns of an input with this schema.
///
/// # Errors
/// If two of them have the same name, as those of a struct `a` with a field `b` and of `a.b`.
pub(in crate::ingest) fn flat_schema(
    file: &Path,
    schema: &ArrowSchema,
    whole: &[String],
) -> Result<SchemaRef> {
    let mut fields = Vec::new();
    schema.fields().iter().for_each(|field| add_fields(field.name(), field, whole, 0, &mut fields));
    let mut seen = HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name().as_str())) {
        return Err(Error::InvalidInput(format!(
            "{}: two columns would be called '{}': one has a dot in its name, the other is a field \
             of a struct; --schema NAME:utf8 keeps the struct as one text",
            file.display(),
            twice.name()
        )));
    }
    Ok(Arc::new(ArrowSchema::new(fields)))
}

/// The rows of a batch in the columns of [`flat_schema`].
pub(in crate::ingest) fn flat_batch(
    file: &Path,
    batch: &RecordBatch,
    whole: &[String],
) -> Result<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    let schema = batch.schema();
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        add_fields(field.name(), field, whole, 0, &mut fields);
        add_arrays(field.name(), field, array, whole, 0, &mut arrays)
            .or_invalid_with(file.display())?;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .or_invalid_with(file.display())
}

fn add_arrays(
    name: &str,
    field: &FieldRef,
    array: &ArrayRef,
    whole: &[String],
    depth: usize,
    to: &mut Vec<ArrayRef>,
) -> Result<(), arrow_schema::ArrowError> {
    match (fate(name, field, whole, depth), array.as_struct_opt()) {
        (Fate::Fields, Some(rows)) => {
            let is_null = rows.nulls().map(|nulls| BooleanArray::new(!nulls.inner(), None));
            for (inner, values) in rows.fields().iter().zip(rows.columns()) {
                // A null struct may have values in its fields.
                let values = match &is_null {
                    Some(is_null) => nullif(values, is_null)?,
                    None => Arc::clone(values),
                };
                let name = format!("{name}.{}", inner.name());
                add_arrays(&name, inner, &values, whole, depth + 1, to)?;
            }
        }
        (Fate::Text, _) => to.push(json_texts(field, array)?),
        _ => to.push(Arc::clone(array)),
    }
    Ok(())
}

/// A type with texts as the keys of its maps, as those of JSON objects are.
fn with_text_keys(data_type: &ArrowType) -> ArrowType {
    let inner = |field: &FieldRef| {
        let of = with_text_keys(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(of))
    };
    match data_type {
        ArrowType::List(item) => ArrowType::List(inner(item)),
        ArrowType::LargeList(item) => ArrowType::LargeList(inner(item)),
        ArrowType::FixedSizeList(item, length) => ArrowType::FixedSizeList(inner(item), *length),
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(inner).collect()),
        ArrowType::Map(entries, sorted) => match entries.data_type() {
            ArrowType::Struct(pair) if pair.len() == 2 => {
                let text = |key: &FieldRef| match key.data_type() {
                    ArrowType::Utf8 | ArrowType::LargeUtf8 => Arc::clone(key),
                    _ => Arc::new(key.as_ref().clone().with_data_type(ArrowType::Utf8)),
                };
                let pair: Vec<FieldRef> = pair
                    .iter()
                    .enumerate()
                    .map(|(at, field)| if at == 0 { text(field) } else { inner(field) })
                    .collect();
                let pair = ArrowType::Struct(pair.into());
                let entries = Arc::new(entries.as_ref().clone().with_data_type(pair));
                ArrowType::Map(entries, *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// Nested values as JSON texts, with the nulls within structs.
fn json_texts(field: &FieldRef, array: &ArrayRef) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let data_type = with_text_keys(array.data_type());
    let array = &cast(array, &data_type)?;
    let field = Arc::new(field.as_ref().clone().with_data_type(data_type));
    let mut encoder = make_encoder(&field, array, &options)?;
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = Vec::new();
    for row in 0..array.len() {
        if encoder.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        encoder.encode(row, &mut text);
        texts.append_value(String::from_utf8_lossy(&text));
    }
    Ok(Arc::new(texts.finish()))
}
