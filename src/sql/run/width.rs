//! How many bytes a row of a batch may have in what an operator makes of it.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{
    Array, ArrayRef, GenericByteArray, GenericByteViewArray, GenericListArray, OffsetSizeTrait,
    RecordBatch,
};
use arrow_schema::DataType;

/// Whether values of a type may be of any length.
pub(in crate::sql) fn may_be_wide(data_type: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, LargeUtf8, List, Map, Struct,
        Utf8, Utf8View,
    };
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        List(_) | LargeList(_) | Map(..) => true,
        FixedSizeList(item, _) => may_be_wide(item.data_type()),
        Struct(fields) => fields.iter().any(|field| may_be_wide(field.data_type())),
        _ => false,
    }
}

/// What an operator does with the rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// It passes each on once.
    Pass,
    /// It may repeat one of them as often as a batch has rows.
    Repeat,
}

/// In fewer rows than these, a wide one is one of a kind.
pub(super) const LEAST_ROWS: usize = 256;

/// The bytes of values of any length in a row of a full batch: in each column those of all rows on
/// average, or of the widest where rows are repeated. Views share the bytes of repeated rows. An
/// average is one of `least` rows at least.
pub(super) fn row_bytes(batch: &RecordBatch, columns: &[usize], rows: Rows, least: usize) -> usize {
    let columns = columns.iter().filter_map(|at| batch.columns().get(*at));
    columns.map(|column| of_column(column, rows, least)).fold(0, usize::saturating_add)
}

fn of_column(array: &ArrayRef, rows: Rows, least: usize) -> usize {
    match array.data_type() {
        DataType::Utf8 => of_bytes(array.as_string::<i32>(), rows, least),
        DataType::LargeUtf8 => of_bytes(array.as_string::<i64>(), rows, least),
        DataType::Utf8View => of_views(array.as_string_view(), least),
        DataType::Binary => of_bytes(array.as_binary::<i32>(), rows, least),
        DataType::LargeBinary => of_bytes(array.as_binary::<i64>(), rows, least),
        DataType::BinaryView => of_views(array.as_binary_view(), least),
        DataType::List(_) => of_lists(array.as_list::<i32>(), rows, least),
        DataType::LargeList(_) => of_lists(array.as_list::<i64>(), rows, least),
        DataType::Map(..) => {
            let map = array.as_map();
            of_items(map.offsets(), map.entries(), rows, least)
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| of_column(column, rows, least)).fold(0, usize::saturating_add)
        }
        // The items of a list of fixed length are as many as the rows.
        DataType::FixedSizeList(..) => {
            value_bytes(array).checked_div(array.len()).unwrap_or_default()
        }
        _ => 0,
    }
}

fn of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>, rows: Rows, least: usize) -> usize {
    let (bytes, among) = lengths(array.offsets(), rows, least);
    bytes / among
}

fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>, least: usize) -> usize {
    view_lengths(array) / array.len().max(least)
}

fn of_lists<O: OffsetSizeTrait>(array: &GenericListArray<O>, rows: Rows, least: usize) -> usize {
    of_items(array.offsets(), array.values().as_ref(), rows, least)
}

/// The bytes of lists whose items are as wide as all are on average.
fn of_items<O: OffsetSizeTrait>(
    offsets: &[O],
    items: &dyn Array,
    rows: Rows,
    least: usize,
) -> usize {
    let (count, among) = lengths(offsets, rows, least);
    let bytes =
        count as u128 * value_bytes(items) as u128 / items.len().max(1) as u128 / among as u128;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The bytes of the values of an array, and not those of its buffers: few values may hold the
/// buffers of many, and hold some of them more than once.
fn value_bytes(array: &dyn Array) -> usize {
    let of_columns = |columns: &[ArrayRef]| {
        columns.iter().map(|column| value_bytes(column)).fold(0, usize::saturating_add)
    };
    match array.data_type() {
        DataType::Utf8 => offset_bytes(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => offset_bytes(array.as_string::<i64>().offsets()),
        DataType::Utf8View => long_bytes(array.as_string_view()),
        DataType::Binary => offset_bytes(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => offset_bytes(array.as_binary::<i64>().offsets()),
        DataType::BinaryView => long_bytes(array.as_binary_view()),
        DataType::List(_) => list_bytes(array.as_list::<i32>()),
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>()),
        DataType::Map(..) => {
            let map = array.as_map();
            item_bytes(map.offsets(), map.entries())
        }
        DataType::Struct(_) => of_columns(array.as_struct().columns()),
        DataType::FixedSizeList(..) => value_bytes(array.as_fixed_size_list().values()),
        DataType::Boolean => array.len() / 8,
        other => match other.primitive_width() {
            Some(width) => array.len().saturating_mul(width),
            None => array.get_buffer_memory_size(),
        },
    }
}

fn list_bytes<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> usize {
    item_bytes(array.offsets(), array.values().as_ref())
}

/// The bytes of the offsets of lists, and of their items.
fn item_bytes<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> usize {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
    let used = items.slice(first.as_usize(), (*last - *first).as_usize());
    value_bytes(&used).saturating_add(size_of_val(offsets))
}

/// The bytes of offsets, and those between the first and the last.
fn offset_bytes<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    lengths(offsets, Rows::Pass, 0).0.saturating_add(size_of_val(offsets))
}

/// The bytes of views and of what they stand for.
fn long_bytes<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    view_lengths(array).saturating_add(array.views().len().saturating_mul(size_of::<u128>()))
}

fn view_lengths<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    // The lowest 32 bits of a view are the length.
    let bytes = array.views().iter().map(|view| *view as u32 as usize);
    bytes.fold(0, usize::saturating_add)
}

/// The sum of all lengths and the rows that share it, or the longest and one row.
fn lengths<O: OffsetSizeTrait>(offsets: &[O], rows: Rows, least: usize) -> (usize, usize) {
    let (first, last) = (offsets.first(), offsets.last());
    let (Some(first), Some(last)) = (first, last) else { return (0, 1) };
    match rows {
        Rows::Pass => ((*last - *first).as_usize(), (offsets.len() - 1).max(least).max(1)),
        Rows::Repeat => {
            let each = offsets.iter().zip(offsets.iter().skip(1)).map(|(from, to)| *to - *from);
            (each.max().map_or(0, |length| length.as_usize()), 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, ListArray, StringArray, StringViewArray, StructArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn rows_are_as_wide_as_what_is_made_of_them() {
        let long = "x".repeat(1000);
        let texts = vec![Some("a"), None, Some(long.as_str()), Some("")];
        let lists = [vec![1; 3], vec![], vec![1; 200], vec![1]];
        let lists = lists.into_iter().map(|list| Some(list.into_iter().map(Some)));
        let columns: [ArrayRef; 4] = [
            Arc::new(StringArray::from(texts.clone())),
            Arc::new(StringViewArray::from(texts)),
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
        ];
        let names = ["a", "b", "c", "d"];
        let batch = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let widest = |columns: &[usize]| row_bytes(&batch, columns, Rows::Repeat, LEAST_ROWS);
        assert_eq!((widest(&[0]), widest(&[2])), (1000, 1600));
        // Those of views are not repeated.
        assert_eq!(widest(&[1, 3]), 1001 / 256);
        let average = |least, at| row_bytes(&batch, &[at], Rows::Pass, least);
        assert_eq!((average(256, 0), average(256, 1)), (1001 / 256, 1001 / 256));
        assert_eq!((average(1, 0), average(1, 1)), (1001 / 4, 1001 / 4));
        // Few lists of long texts.
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["y".repeat(60_000); 4]));
        let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([3, 1]), texts, None);
        let few = RecordBatch::try_from_iter([("a", Arc::new(lists) as ArrayRef)]).unwrap();
        assert_eq!(row_bytes(&few, &[0], Rows::Pass, LEAST_ROWS), 4 * 60_016 / LEAST_ROWS);
        assert_eq!(row_bytes(&few.slice(1, 1), &[0], Rows::Pass, 1), 60_016);
        assert_eq!(row_bytes(&few, &[0], Rows::Repeat, 1), 3 * 60_016);
        assert_eq!(row_bytes(&batch.slice(0, 2), &[0], Rows::Repeat, 1), 1);
        assert_eq!(row_bytes(&batch.slice(0, 0), &[0, 1, 2, 3], Rows::Repeat, 1), 0);
    }

    #[test]
    fn items_that_share_the_buffers_of_others_are_as_wide_as_they_are_alone() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["y".repeat(100); 1000]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 1000]));
        let fields = [("x", Arc::clone(&numbers)), ("y", texts)].into_iter();
        let fields = fields.map(|(name, column)| {
            (Arc::new(Field::new(name, column.data_type().clone(), true)), column)
        });
        let rows = StructArray::from(fields.collect::<Vec<_>>());
        let few: ArrayRef = Arc::new(rows.slice(500, 4));
        let list = |items: &ArrayRef| {
            let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([items.len()]);
            Arc::new(ListArray::new(item, offsets, Arc::clone(items), None)) as ArrayRef
        };
        let alone = 4 * (8 + 16 + 100);
        let (items, lists) = (list(&few), list(&list(&few)));
        let batch = RecordBatch::try_from_iter([("a", items), ("b", lists)]).unwrap();
        assert_eq!(row_bytes(&batch, &[0], Rows::Pass, 1), alone);
        assert_eq!(row_bytes(&batch, &[1], Rows::Repeat, 1), alone + 2 * size_of::<i32>());
    }
}
