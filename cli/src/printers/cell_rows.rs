//! Rows of cells as text. The columns of a piece of a result are formatted one after the other, so
//! that a processor foresees its jumps, and then put together row by row. A value that a column had
//! a moment ago is not formatted again.

use super::cells::Cells;
use crate::errors::Failure;

/// Pieces of fewer rows have wide ones, which are formatted row by row, without a copy.
const FEW_ROWS: usize = 16;
/// How many values of a column are remembered; a power of two.
const REMEMBERED: usize = 256;
/// Up to these lengths, cells are copied as blocks of a fixed length, without a call.
const SHORT: usize = 32;
const BLOCK: usize = 64;

/// Appends rows. `cell` appends the text of a column's cell and what stands before it, and is the
/// same for equal values; `ends` stand before and behind each row.
pub(super) fn write_rows(
    columns: &[Cells<'_>],
    rows: usize,
    ends: (&[u8], &[u8]),
    text: &mut Vec<u8>,
    mut cell: impl FnMut(usize, &Cells<'_>, usize, &mut Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if rows < FEW_ROWS {
        for row in 0..rows {
            text.extend_from_slice(ends.0);
            for (at, cells) in columns.iter().enumerate() {
                cell(at, cells, row, text)?;
            }
            text.extend_from_slice(ends.1);
        }
        return Ok(());
    }
    let mut texts = Vec::with_capacity(columns.len());
    for (at, cells) in columns.iter().enumerate() {
        texts.push(ColumnText::new(cells, rows, |row, text| cell(at, cells, row, text))?);
    }
    for row in 0..rows {
        text.extend_from_slice(ends.0);
        for column in &texts {
            column.append(row, text);
        }
        text.extend_from_slice(ends.1);
    }
    Ok(())
}

/// The texts of a column's cells.
struct ColumnText {
    bytes: Vec<u8>,
    /// Start and length of each row's cell in the bytes, which end with a block of zeros.
    cells: Vec<(usize, usize)>,
}

impl ColumnText {
    fn new(
        cells: &Cells<'_>,
        rows: usize,
        mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<ColumnText, Failure> {
        let mut text = ColumnText { bytes: Vec::new(), cells: Vec::with_capacity(rows) };
        let mut known = [(0, None); REMEMBERED];
        for row in 0..rows {
            let start = text.bytes.len();
            let bits = cells.bits(row);
            let slot = bits.map(|bits| &mut known[slot_of(bits)]);
            let place = match (bits, &slot) {
                (Some(bits), Some((known, Some(place)))) if *known == bits => *place,
                _ => {
                    write(row, &mut text.bytes)?;
                    (start, text.bytes.len() - start)
                }
            };
            if let (Some(bits), Some(slot)) = (bits, slot) {
                *slot = (bits, Some(place));
            }
            text.cells.push(place);
        }
        text.bytes.resize(text.bytes.len() + BLOCK, 0);
        Ok(text)
    }

    fn append(&self, row: usize, text: &mut Vec<u8>) {
        let (start, length) = self.cells[row];
        let rest = &self.bytes[start..];
        let end = text.len() + length;
        match rest.first_chunk::<BLOCK>() {
            Some(block) if length <= SHORT => text.extend_from_slice(&block[..SHORT]),
            Some(block) if length <= BLOCK => text.extend_from_slice(block),
            _ => text.extend_from_slice(&rest[..length]),
        }
        text.truncate(end);
    }
}

/// The slot of a value, by multiplicative hashing (Knuth).
fn slot_of(bits: u128) -> usize {
    let folded = bits as u64 ^ (bits >> 64) as u64;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - REMEMBERED.trailing_zeros())) as usize
}
