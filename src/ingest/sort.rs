//! Sorts the rows of a segment by the sort keys of the table.
//!
//! Keys are encoded as bytes that compare like rows (arrow-row; the idea is DuckDB's normalised
//! keys). The first 16 bytes are compared as one number stored beside the row number, so that the
//! rest is read only where those are equal. The sort is stable: rows with equal keys stay in input
//! order, and the order does not depend on threads.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array, new_empty_array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use rayon::prelude::*;

use crate::error::{ArrowResult, Result};
use crate::model::SortKey;
use crate::segment::writer::{InputColumn, SegmentInput};

/// What an error of Arrow says about rows.
const UNSORTED: &str = "rows could not be sorted";

/// Sorts the rows. A key column that the segment lacks is null in all rows, and does not affect the
/// order.
pub(crate) fn sorted(mut input: SegmentInput, keys: &[SortKey]) -> Result<SegmentInput> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for key in keys {
        let Some(column) = input.columns.iter().find(|column| column.id == key.column) else {
            continue;
        };
        let column = concatenated(column)?;
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        fields.push(SortField::new_with_options(column.data_type().clone(), options));
        columns.push(column);
    }
    if columns.is_empty() {
        return Ok(input);
    }
    let rows = encode_keys(fields, &columns)?;
    let Some(order) = sorted_order(&rows) else { return Ok(input) };
    drop((rows, columns));
    input.columns.par_iter_mut().try_for_each(|column| -> Result<()> {
        let taken = arrow_select::take::take(&concatenated(column)?, &order, None)
            .or_invalid_with(UNSORTED)?;
        column.arrays = vec![taken];
        Ok(())
    })?;
    Ok(input)
}

fn encode_keys(fields: Vec<SortField>, columns: &[ArrayRef]) -> Result<Rows> {
    let converter = RowConverter::new(fields).or_invalid_with(UNSORTED)?;
    converter.convert_columns(columns).or_invalid_with(UNSORTED)
}

/// The row numbers in sorted order, or `None` if the rows are sorted already.
fn sorted_order(rows: &Rows) -> Option<UInt32Array> {
    let count = rows.num_rows();
    if (1..count).all(|row| rows.row(row - 1) <= rows.row(row)) {
        return None;
    }
    let prefix = |row: usize| {
        let mut first = [0; 16];
        let bytes = rows.row(row);
        let bytes = bytes.as_ref();
        let length = bytes.len().min(16);
        if let (Some(to), Some(from)) = (first.get_mut(..length), bytes.get(..length)) {
            to.copy_from_slice(from);
        }
        (u128::from_be_bytes(first), row as u32)
    };
    let mut order: Vec<(u128, u32)> = (0..count).map(prefix).collect();
    // Keys of at most 16 bytes are told apart by their prefixes alone.
    let short = (0..count).all(|row| rows.row(row).as_ref().len() <= 16);
    let compare_rest = |a: u32, b: u32| match short {
        true => Ordering::Equal,
        false => rows.row(a as usize).cmp(&rows.row(b as usize)),
    };
    order.par_sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| compare_rest(a.1, b.1)).then(a.1.cmp(&b.1))
    });
    Some(order.into_iter().map(|(_, row)| row).collect::<Vec<u32>>().into())
}

/// A column as a single array.
pub(super) fn concatenated(column: &InputColumn) -> Result<ArrayRef> {
    match column.arrays.as_slice() {
        [] => Ok(new_empty_array(&column.data_type.to_arrow())),
        [only] => Ok(Arc::clone(only)),
        [first, rest @ ..] if rest.iter().all(|array| array.data_type() == first.data_type()) => {
            let arrays: Vec<_> = column.arrays.iter().map(|array| &**array).collect();
            arrow_select::concat::concat(&arrays).or_invalid_with(UNSORTED)
        }
        _ => {
            // Text arrays in several layouts.
            let to = column.data_type.to_arrow();
            let same = column.arrays.iter().map(|array| arrow_cast::cast(array, &to));
            let same = same.collect::<Result<Vec<_>, _>>().or_invalid_with(UNSORTED)?;
            let arrays: Vec<_> = same.iter().map(|array| &**array).collect();
            arrow_select::concat::concat(&arrays).or_invalid_with(UNSORTED)
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, StringArray, StringViewArray};
    use proptest::prelude::*;

    use super::*;
    use crate::model::{ColumnId, DataType};

    fn column(id: u32, data_type: DataType, arrays: Vec<ArrayRef>) -> InputColumn {
        InputColumn { id: ColumnId(id), data_type, arrays }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 200,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn rows_are_in_order_and_whole(
            rows in proptest::collection::vec(
                (proptest::option::of(-3i64..3), proptest::option::of("[ab]{0,30}")),
                1..200,
            ),
            cut in 0usize..200, descending: bool, nulls_first: bool,
        ) {
            let cut = cut.min(rows.len());
            let ints = |rows: &[(Option<i64>, Option<String>)]| -> ArrayRef {
                Arc::new(rows.iter().map(|(value, _)| *value).collect::<Int64Array>())
            };
            // Two layouts of text, as from two inputs.
            let texts = |rows: &[(Option<i64>, Option<String>)]| {
                rows.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>()
            };
            let before: ArrayRef = Arc::new(StringArray::from(texts(&rows[..cut])));
            let after: ArrayRef = Arc::new(StringViewArray::from_iter(texts(&rows[cut..])));
            let numbers: ArrayRef =
                Arc::new(Int64Array::from_iter_values(0..rows.len() as i64));
            let columns = vec![
                column(0, DataType::Int64, vec![ints(&rows[..cut]), ints(&rows[cut..])]),
                column(1, DataType::Utf8, vec![before, after]),
                column(2, DataType::Int64, vec![numbers]),
            ];
            let input = SegmentInput { rows: rows.len(), block_rows: 1024, columns };
            let key =
                |column, descending| SortKey { column: ColumnId(column), descending, nulls_first };
            // A missing column is no key.
            let output =
                sorted(input, &[key(9, true), key(1, descending), key(0, false)]).unwrap();
            let place = |null: bool| if null == nulls_first { 0 } else { 1 };
            let mut expected: Vec<usize> = (0..rows.len()).collect();
            expected.sort_by(|a, b| {
                let ((x, s), (y, t)) = (&rows[*a], &rows[*b]);
                let texts = s.cmp(t);
                let texts = if descending { texts.reverse() } else { texts };
                let texts = place(s.is_none()).cmp(&place(t.is_none())).then(texts);
                texts.then(place(x.is_none()).cmp(&place(y.is_none()))).then(x.cmp(y))
            });
            let numbers: Vec<usize> = output.columns[2].arrays.iter()
                .flat_map(|array| array.as_primitive::<Int64Type>().values().to_vec())
                .map(|n| n as usize)
                .collect();
            prop_assert_eq!(&numbers, &expected);
            let texts = concatenated(&output.columns[1]).unwrap();
            let texts = arrow_cast::cast(&texts, &arrow_schema::DataType::Utf8).unwrap();
            let texts: Vec<Option<String>> =
                texts.as_string::<i32>().iter().map(|t| t.map(str::to_owned)).collect();
            let expected: Vec<_> = expected.iter().map(|row| rows[*row].1.clone()).collect();
            prop_assert_eq!(texts, expected);
        }
    }
}
