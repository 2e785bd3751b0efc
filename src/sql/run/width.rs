//! How many bytes the widest row of a batch may have.

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

/// The bytes of values of any length in a row, at most: of each column in `columns` the widest.
pub(super) fn widest_row(batch: &RecordBatch, columns: &[usize]) -> usize {
    let columns = columns.iter().filter_map(|at| batch.columns().get(*at));
    columns.map(widest).fold(0, usize::saturating_add)
}

fn widest(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8 => of_bytes(array.as_string::<i32>()),
        DataType::LargeUtf8 => of_bytes(array.as_string::<i64>()),
        DataType::Utf8View => of_views(array.as_string_view()),
        DataType::Binary => of_bytes(array.as_binary::<i32>()),
        DataType::LargeBinary => of_bytes(array.as_binary::<i64>()),
        DataType::BinaryView => of_views(array.as_binary_view()),
        DataType::List(_) => of_lists(array.as_list::<i32>()),
        DataType::LargeList(_) => of_lists(array.as_list::<i64>()),
        DataType::Map(..) => {
            let map = array.as_map();
            of_items(longest(map.offsets()), map.entries())
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(widest).fold(0, usize::saturating_add)
        }
        // The items of a list of fixed length are as many as the rows.
        DataType::FixedSizeList(..) => {
            array.get_buffer_memory_size().checked_div(array.len()).unwrap_or_default()
        }
        _ => 0,
    }
}

fn of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> usize {
    longest(array.offsets())
}

fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    // The lowest 32 bits of a view are the length.
    array.views().iter().map(|view| *view as u32).max().unwrap_or(0) as usize
}

fn of_lists<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> usize {
    of_items(longest(array.offsets()), array.values().as_ref())
}

/// The bytes of the longest list if its items are as wide as all are on average.
fn of_items(longest: usize, items: &dyn Array) -> usize {
    let width = items.data_type().primitive_width();
    let average = || items.get_buffer_memory_size().div_ceil(items.len().max(1));
    longest.saturating_mul(width.unwrap_or_else(average))
}

fn longest<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    let lengths = offsets.iter().zip(offsets.iter().skip(1)).map(|(from, to)| *to - *from);
    lengths.max().map_or(0, |length| length.as_usize())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, ListArray, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn rows_are_as_wide_as_their_widest_values() {
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
        assert_eq!(widest_row(&batch, &[0]), 1000);
        assert_eq!(widest_row(&batch, &[1, 3]), 1000);
        assert_eq!(widest_row(&batch, &[2]), 1600);
        assert_eq!(widest_row(&batch.slice(0, 2), &[0, 1]), 2);
        assert_eq!(widest_row(&batch.slice(0, 0), &[0, 1, 2, 3]), 0);
    }
}
