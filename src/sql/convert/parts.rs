//! Expressions over long texts, evaluated a few rows at a time: what they make of texts in between
//! may be many times as large as these, while the result is a number.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::arrow::compute::kernels::length::length;

use crate::error::{ArrowResult, Error, Result};

/// About the bytes that may be made of texts at a time.
pub(in crate::sql) const PART_BYTES: usize = 8 << 20;

/// Constants of fewer bytes are not counted.
pub(in crate::sql) const LONG_CONSTANT: usize = 1 << 10;

/// Whether values of a type may be long.
pub(in crate::sql) fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Binary | BinaryView | LargeBinary | LargeUtf8 | Utf8 | Utf8View)
}

/// The bytes of the texts of all rows.
pub(in crate::sql) fn text_bytes(inputs: &[ArrayRef]) -> usize {
    let of = |input: &ArrayRef| -> Option<i64> {
        let lengths = arrow_cast::cast(&length(&**input).ok()?, &DataType::Int64).ok()?;
        Some(lengths.as_primitive::<Int64Type>().iter().flatten().sum())
    };
    let texts = inputs.iter().filter(|input| is_text(input.data_type()));
    texts.filter_map(of).fold(0, |sum, bytes| sum.saturating_add(bytes.max(0) as usize))
}

/// Evaluates halves of halves of the rows, until `bytes` says of each part that at most
/// [`PART_BYTES`] are made of it, or it is one row. Refuses results of more than `most` bytes.
pub(in crate::sql) fn in_parts(
    inputs: &[ArrayRef],
    rows: usize,
    most: usize,
    bytes: &dyn Fn(&[ArrayRef], usize) -> usize,
    evaluate: &dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let mut results = Vec::new();
    let mut left = vec![(0, rows)];
    while let Some((start, rows)) = left.pop() {
        let part: Vec<ArrayRef> = inputs.iter().map(|input| input.slice(start, rows)).collect();
        if rows > 1 && bytes(&part, rows) > PART_BYTES {
            let half = rows / 2;
            // The first half comes off first.
            left.extend([(start + half, rows - half), (start, half)]);
        } else {
            results.push(evaluate(&part, rows)?);
            check_together(&results, most)?;
        }
    }
    match results.as_slice() {
        [only] => Ok(Arc::clone(only)),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
            arrow_select::concat::concat(&parts).or_invalid()
        }
    }
}

/// Refuses several results that have more than `most` bytes together.
pub(super) fn check_together(results: &[ArrayRef], most: usize) -> Result<()> {
    let bytes = results.iter().map(|result| result.get_buffer_memory_size());
    let bytes = bytes.fold(0, usize::saturating_add);
    if results.len() > 1 && bytes > most {
        return Err(Error::LimitExceeded(format!(
            "functions would make {bytes} bytes and more at a time, and at most {most} are allowed \
             under --memory-limit"
        )));
    }
    Ok(())
}
