//! The types that clients get. They are those that every client knows: texts and bytes as such,
//! without views and dictionaries; the values of both are the same.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

/// The type in which values of a type are sent.
pub(super) fn sent_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, values) => sent_type(values),
        DataType::RunEndEncoded(_, values) => sent_type(values.data_type()),
        DataType::List(item) | DataType::ListView(item) => DataType::List(sent_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(sent_field(item))
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(sent_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(sent_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(sent_entries(entries), *sorted),
        other => other.clone(),
    }
}

/// A column as it is sent. Whether values may be null is not told of answers: it may be known of
/// the rows and not before.
fn sent_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), sent_type(field.data_type()), true))
}

/// The entries of a map and their keys are never null.
fn sent_entries(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else { return Arc::clone(entries) };
    let fields = fields
        .iter()
        .enumerate()
        .map(|(place, field)| Field::new(field.name(), sent_type(field.data_type()), place > 0));
    Arc::new(Field::new(entries.name(), DataType::Struct(fields.collect()), false))
}

/// The columns of an answer as they are sent.
pub(super) fn sent_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(sent_field).collect();
    Arc::new(Schema::new(fields))
}

/// The rows of an answer as they are sent, in these columns.
pub(super) fn sent_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        match array.data_type() == field.data_type() {
            true => Ok(Arc::clone(array)),
            false => cast_with_options(array, field.data_type(), &options),
        }
    });
    let columns = cast.collect::<Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
}

/// About how many bytes the rows of a batch have once they are sent.
pub(super) fn sent_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().fold(0, |sum, array| sum.saturating_add(bytes_of(array)))
}

fn bytes_of(array: &dyn Array) -> usize {
    /// The length of a view is in its lowest bits.
    fn of_views(views: &[u128]) -> usize {
        views.iter().fold(0, |sum: usize, view| sum.saturating_add(*view as u32 as usize))
    }
    let own = match array.data_type() {
        DataType::Utf8View => of_views(array.as_string_view().views()),
        DataType::BinaryView => of_views(array.as_binary_view().views()),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            bytes_of(values) / values.len().max(1) * array.len()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let of_values = bytes_of(list.values()) / list.values().len().max(1);
            let (first, last) = (list.value_offsets().first(), list.value_offsets().last());
            let items = last.zip(first).map_or(0, |(last, first)| last - first);
            of_values.saturating_mul(usize::try_from(items).unwrap_or(0))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            columns.iter().fold(0, |sum: usize, column| sum.saturating_add(bytes_of(column)))
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    };
    own.saturating_add(array.len() * size_of::<i32>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{ListBuilder, StringViewBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, StringViewArray, StructArray};

    fn batch() -> RecordBatch {
        let long = "long enough to be kept outside of its view";
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), None, Some(long)]));
        let codes: DictionaryArray<Int32Type> =
            vec![Some("a"), Some("b"), None].into_iter().collect();
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.append_value([Some("y"), None]);
        lists.append_null();
        lists.append_value([Some(long)]);
        let field = Arc::new(Field::new("t", DataType::Utf8View, true));
        let within = StructArray::from(vec![(field, Arc::clone(&texts))]);
        let columns: [(&str, ArrayRef); 4] = [
            ("texts", texts),
            ("codes", Arc::new(codes)),
            ("lists", Arc::new(lists.finish())),
            ("within", Arc::new(within)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn views_and_dictionaries_are_not_sent() {
        let batch = batch();
        let schema = sent_schema(&batch.schema());
        let told = format!("{:?}", schema.fields());
        assert!(!told.contains("View") && !told.contains("Dictionary"), "{told}");
        let sent = sent_batch(&batch, &schema).unwrap();
        assert_eq!(sent.num_rows(), 3);
        assert_eq!(sent.column(0).as_string::<i32>().value(0), "x");
        assert_eq!(sent.column(1).as_string::<i32>().value(1), "b");
        let list = sent.column(2).as_list::<i32>().value(0);
        assert_eq!(list.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("y"), None]);
        assert!(sent.column(3).as_struct().column(0).is_null(1));
        let plain = sent_bytes(&sent);
        let viewed = sent_bytes(&batch);
        assert!(viewed > plain / 2 && viewed < plain * 3, "{viewed} {plain}");
    }
}
