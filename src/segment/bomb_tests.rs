//! Segments of a few kilobytes that unfold to many megabytes: what they take is charged before it
//! is allocated, and refused beyond the limit.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringViewArray};

use super::Segment;
use super::writer::{InputColumn, SegmentInput, encode};
use crate::budget::Budget;
use crate::disk::Mapped;
use crate::encoding::{Encoding, Options, Profile};
use crate::error::Error;
use crate::limits::VECTOR;
use crate::model::{ColumnId, DataType};

const LIMIT: usize = 20 << 20;

/// A segment of one column of texts, with a budget of [`LIMIT`].
fn texts(values: &[String], rows: usize, force: Encoding) -> (Segment, Budget) {
    let repeated = (0..rows).map(|row| values.get(row % values.len()));
    let array: ArrayRef = Arc::new(StringViewArray::from_iter(repeated));
    let columns =
        vec![InputColumn { id: ColumnId(0), data_type: DataType::Utf8, arrays: vec![array] }];
    let options = Options { force: Some(force), ..Options::new(Profile::Small) };
    let input = SegmentInput { rows, block_rows: 65_536, columns };
    let bytes = encode(&input, &options).unwrap().parts.concat();
    let budget = Budget::new(LIMIT);
    let (mapped, length) = (Arc::new(Mapped::from_bytes(&bytes)), bytes.len() as u64);
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    (Segment::open_within(mapped, "bomb.sty", 0, length, budget.clone()).unwrap(), budget)
}

fn distinct(count: usize, length: usize) -> Vec<String> {
    (0..count).map(|i| format!("{i:04}{}", "x".repeat(length - 4))).collect()
}

#[test]
fn chunks_that_unpack_a_thousandfold_are_charged_while_they_are_kept() {
    let (segment, budget) = texts(&distinct(64, 1 << 10), 65_536, Encoding::Plain);
    let column = segment.column(ColumnId(0)).unwrap().unwrap();
    {
        let block = column.block(0).unwrap();
        // 64 MiB go through 20: once these are short, only the chunk that was read last is kept.
        for start in (0..65_536).step_by(8 * VECTOR) {
            let array = block.decode(start..start + 8 * VECTOR).unwrap();
            assert_eq!(array.len(), 8 * VECTOR);
            let unpacked = array.get_buffer_memory_size() - array.len() * 16;
            assert!(budget.held() >= unpacked, "the array and its chunks are charged");
            assert!(budget.held() <= LIMIT);
        }
        let rows: Vec<u32> = (0..65_536).step_by(2).collect();
        let gathered = block.gather(&rows, &DataType::Utf8).unwrap_err();
        assert!(matches!(gathered, Error::LimitExceeded(_)), "{gathered}");
    }
    assert_eq!(budget.held(), 0, "with the block, its chunks are gone");
    // Verifying reads the same rows within the limit, because it lets go of what it has read.
    segment.verify().unwrap();
    assert_eq!(budget.held(), 0);
}

#[test]
fn arrays_of_long_texts_are_charged_for_as_long_as_somebody_holds_them() {
    let (segment, budget) = texts(&distinct(64, 4 << 10), 2 * VECTOR, Encoding::Fsst);
    let column = segment.column(ColumnId(0)).unwrap().unwrap();
    let array = column.block(0).unwrap().decode(0..2 * VECTOR).unwrap();
    drop((column, segment));
    assert!(budget.held() >= 8 << 20, "{} bytes", budget.held());
    let part = array.slice(5, 1);
    drop(array);
    assert!(budget.held() >= 8 << 20, "a part keeps the buffer");
    drop(part);
    assert_eq!(budget.held(), 0);
}

#[test]
fn dictionaries_are_charged_for_as_long_as_their_segment_is_open() {
    let values = distinct(10, 1 << 20);
    let (segment, budget) = texts(&values[..5], VECTOR, Encoding::Dictionary);
    let column = segment.column(ColumnId(0)).unwrap().unwrap();
    assert_eq!(column.dictionary().unwrap().unwrap().len(), 6);
    assert!((5 << 20..7 << 20).contains(&budget.held()), "{} bytes", budget.held());
    drop((column, segment));
    assert_eq!(budget.held(), 0);
    let values = distinct(30, 1 << 20);
    let (segment, budget) = texts(&values, VECTOR, Encoding::Dictionary);
    let column = segment.column(ColumnId(0)).unwrap().unwrap();
    let refused = column.dictionary().unwrap_err();
    assert!(matches!(refused, Error::LimitExceeded(_)), "{refused}");
    assert_eq!(budget.held(), 0);
    assert!(segment.verify().is_err());
}

#[test]
fn a_text_that_all_rows_share_is_there_once() {
    let (segment, budget) = texts(&distinct(1, 60_000), 65_536, Encoding::Constant);
    let column = segment.column(ColumnId(0)).unwrap().unwrap();
    let array = column.block(0).unwrap().decode(0..65_536).unwrap();
    assert!(array.get_buffer_memory_size() < 4 << 20);
    assert!(budget.held() < 1 << 20);
    segment.verify().unwrap();
}
