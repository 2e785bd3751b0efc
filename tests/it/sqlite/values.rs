//! Values as SQLite's test program prints them, and answers as its files write them down.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::DataType;
use md5::{Digest, Md5};

use super::records::{Expected, Query, Sort};

/// The values of an answer, row by row, sorted as the query says.
pub(super) fn printed(batches: &[RecordBatch], query: &Query<'_>) -> Result<Vec<String>, String> {
    let width = query.letters.len();
    let mut rows = Vec::new();
    for batch in batches {
        if batch.num_columns() != width {
            return Err(format!("{} columns for {width}", batch.num_columns()));
        }
        let letters = query.letters.chars().zip(batch.columns());
        let columns: Vec<Vec<String>> =
            letters.map(|(letter, array)| column(letter, array)).collect();
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        rows.extend(
            (0..batch.num_rows()).map(|_| columns.iter_mut().filter_map(Iterator::next).collect()),
        );
    }
    Ok(sorted(rows, query.sort))
}

fn sorted(mut rows: Vec<Vec<String>>, sort: Sort) -> Vec<String> {
    if sort == Sort::Rows {
        rows.sort_unstable();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if sort == Sort::Values {
        values.sort_unstable();
    }
    values
}

/// A column in the type of its letter: SQLite gives any value as the type that is asked for, and
/// booleans are the integers 0 and 1.
fn column(letter: char, array: &ArrayRef) -> Vec<String> {
    let as_type = |data_type| cast(array, &data_type).unwrap();
    let some = |value: Option<String>| value.unwrap_or_else(|| "NULL".into());
    match letter {
        // The number at the beginning of a text; 0 if there is none.
        'I' if is_text(array) => {
            let number = |text: &str| {
                let digits = text
                    .trim_start_matches('-')
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(text.len());
                text.get(..digits).and_then(|text| text.parse().ok()).unwrap_or(0i64).to_string()
            };
            as_type(DataType::Utf8)
                .as_string::<i32>()
                .iter()
                .map(|value| some(value.map(number)))
                .collect()
        }
        'I' => {
            let array = as_type(DataType::Int64);
            array
                .as_primitive::<Int64Type>()
                .iter()
                .map(|value| some(value.map(|v| v.to_string())))
                .collect()
        }
        'R' => {
            let array = as_type(DataType::Float64);
            let real = |value: f64| format!("{:.3}", value + 0.0);
            array.as_primitive::<Float64Type>().iter().map(|value| some(value.map(real))).collect()
        }
        'T' => {
            let array = match array.data_type() {
                DataType::Boolean => cast(&as_type(DataType::Int64), &DataType::Utf8).unwrap(),
                _ => as_type(DataType::Utf8),
            };
            array.as_string::<i32>().iter().map(|value| some(value.map(text))).collect()
        }
        other => panic!("unknown letter {other}"),
    }
}

fn is_text(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

fn text(value: &str) -> String {
    let plain = |byte: u8| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '@' };
    if value.is_empty() { "(empty)".into() } else { value.bytes().map(plain).collect() }
}

/// Whether values are those that a file expects.
pub(super) fn agree(values: &[String], expected: &Expected<'_>) -> bool {
    match expected {
        Expected::Values(expected) => values == expected.as_slice(),
        Expected::Hash(count, hash) => values.len() == *count && md5_of(values) == **hash,
    }
}

fn md5_of(values: &[String]) -> String {
    let mut hasher = Md5::new();
    for value in values {
        hasher.update(value);
        hasher.update("\n");
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn values_are_printed_as_sqlite_does() {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Float64Array, Int32Array, StringArray};
    let array: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(2.9), Some(-0.0), None, Some(-3.5)]));
    assert_eq!(column('I', &array), ["2", "0", "NULL", "-3"]);
    assert_eq!(column('R', &array), ["2.900", "0.000", "NULL", "-3.500"]);
    let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    assert_eq!(column('R', &array), ["7.000", "NULL"]);
    assert_eq!(column('T', &array), ["7", "NULL"]);
    let array: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    assert_eq!(column('I', &array), ["1", "0", "NULL"]);
    assert_eq!(column('T', &array), ["1", "0", "NULL"]);
    let array: ArrayRef = Arc::new(StringArray::from(vec!["", "a\tb", "é"]));
    assert_eq!(column('T', &array), ["(empty)", "a@b", "@@"]);
    let array: ArrayRef = Arc::new(StringArray::from(vec!["x", "12a", "", "7"]));
    assert_eq!(column('I', &array), ["0", "12", "0", "7"]);
    let rows = vec![vec!["2".to_owned(), "1".into()], vec!["10".into(), "3".into()]];
    assert_eq!(sorted(rows.clone(), Sort::Rows), ["10", "3", "2", "1"]);
    assert_eq!(sorted(rows, Sort::Values), ["1", "10", "2", "3"]);
    assert_eq!(md5_of(&["1".into(), "2".into()]), "6ddb4095eb719e2a9f0a3f95677d24e0");
}
