//! Condenses an answer to one number, so that answers can be compared without being kept.
//!
//! Each row's cells, in the order of the columns, become bytes: null is one byte, and any other
//! value is its length and its text (see [`super::cells`]). The text of a float is its ten leading
//! decimal digits, so that sums in another order agree, and both zeros are equal. The FNV-1a hash
//! of these bytes is mixed and summed over all rows. The sum depends on how often each row occurs,
//! but neither on the order of the rows nor on the batches.

use std::io::Write as _;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use super::cells::Cells;

/// The hash of an answer, which is 0 if it has no rows.
pub(crate) fn answer_hash(batches: &[RecordBatch]) -> Result<u64, ArrowError> {
    let mut sum = 0_u64;
    let (mut row_bytes, mut text) = (Vec::new(), Vec::new());
    for batch in batches {
        let columns =
            batch.columns().iter().map(|array| Cells::new(array)).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            row_bytes.clear();
            for cells in &columns {
                add_cell(cells, row, &mut text, &mut row_bytes)?;
            }
            sum = sum.wrapping_add(mix(fnv(&row_bytes)));
        }
    }
    Ok(sum)
}

fn add_cell(
    cells: &Cells<'_>,
    row: usize,
    text: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    if cells.is_null(row) {
        out.push(0);
        return Ok(());
    }
    text.clear();
    match cells.float(row) {
        // Adding zero turns -0 into 0. Writing to a vector cannot fail.
        Some(value) => {
            let _ = write!(text, "{:.9e}", value + 0.0);
        }
        None => cells.write_text(row, text)?,
    }
    out.push(1);
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
    Ok(())
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Spreads every bit over all bits, since sums of FNV values that differ in few bits collide too
/// often.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};

    use super::*;

    fn batch(keys: &[Option<i64>], sums: &[f64]) -> RecordBatch {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let sums: ArrayRef = Arc::new(Float64Array::from(sums.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("s", sums, true)]).unwrap()
    }

    #[test]
    fn neither_order_nor_batches_nor_the_last_digits_matter() {
        let whole = batch(&[Some(1), None, Some(3)], &[0.1 + 0.2, -0.0, f64::NAN]);
        let parts = [batch(&[Some(3)], &[f64::NAN]), batch(&[None, Some(1)], &[0.0, 0.3])];
        assert_eq!(answer_hash(&[whole]).unwrap(), answer_hash(&parts).unwrap());
    }

    #[test]
    fn values_counts_and_nulls_matter() {
        let hash = |keys: &[Option<i64>], sums: &[f64]| answer_hash(&[batch(keys, sums)]).unwrap();
        let one = hash(&[Some(1)], &[1.0]);
        assert_ne!(one, hash(&[Some(2)], &[1.0]));
        assert_ne!(one, hash(&[Some(1)], &[1.000_000_01]));
        assert_ne!(one, hash(&[Some(1), Some(1)], &[1.0, 1.0]));
        assert_ne!(one, hash(&[None], &[1.0]));
        let text = |value: Option<&str>| -> u64 {
            let array: ArrayRef = Arc::new(StringArray::from(vec![value]));
            answer_hash(&[RecordBatch::try_from_iter_with_nullable([("t", array, true)]).unwrap()])
                .unwrap()
        };
        assert_ne!(text(None), text(Some("")));
        assert_eq!(answer_hash(&[]).unwrap(), 0);
    }
}
