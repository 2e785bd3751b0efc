//! Columns of golden files: values that depend only on type, shape and row, not on a library's
//! generator, so that any later version can compute them again.

use std::sync::Arc;

use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, IntervalMonthDayNanoArray, NullArray, StringViewArray,
    make_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use stylobate::internal::disk::Mapped;
use stylobate::internal::segment::{EncodedSegment, InputColumn, Segment, SegmentInput};
use stylobate::{ColumnId, DataType};

/// Every type of the format.
pub(crate) const TYPES: [&str; 20] = [
    "null",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "decimal(38,10)",
    "date",
    "timestamp(us)",
    "timestamp(ns,UTC)",
    "time(s)",
    "time(ns)",
    "utf8",
    "binary",
];

/// The types that were added to version 1 after its first golden files.
pub(crate) const LATER_TYPES: [&str; 2] = ["uuid", "interval"];

/// The number of shapes besides [`LONG`].
pub(crate) const SHAPES: usize = 8;

/// Long strings that are equal except for one: several chunks of a buffer that compress well.
pub(crate) const LONG: usize = 8;

/// Row `i` of a column of this shape; `None` is null.
fn cell(shape: usize, i: u64) -> Option<u64> {
    let noise = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    match shape {
        0 => Some(1_000 + i * 10 + noise % 7),
        1 => (i % 11 != 4).then_some(noise % 5 * 100),
        2 => (i / 40 % 3 != 1).then_some(i / 50),
        3 => Some(i * 3_000_000),
        4 => Some(77),
        5 => Some([u64::MAX, 0, 1 << 63, (1 << 63) - 1, 1][noise as usize % 5]),
        LONG => Some(u64::from(i == 1500)),
        6 => Some(if i % 97 == 5 { noise << 20 } else { noise % 900 }),
        _ => (!i.is_multiple_of(5)).then_some(noise.wrapping_mul(0xD6E8_FEB8_6659_FD93)),
    }
}

fn text(shape: usize, word: u64) -> String {
    const WORDS: [&str; 8] =
        ["alder", "birch", "cedar", "douglas fir", "elm", "fir", "ginkgo", "hornbeam — hêtre"];
    let name = WORDS[(word % 8) as usize];
    match shape {
        0 => format!("request {word} served from the {name} cache"),
        1 | 2 => name.to_string(),
        // A byte-order flag and a little-endian double, as in hexadecimal WKB.
        3 => format!("01{:016X}", (word as f64 / 1e6).to_bits().swap_bytes()),
        4 => "the same everywhere".to_string(),
        5 => {
            if word == 0 {
                String::new()
            } else {
                "\u{10FFFF}".repeat((word % 40) as usize)
            }
        }
        6 => word.to_string(),
        LONG => name.repeat(40),
        _ => format!("{word:x}-{name}"),
    }
}

/// Hours alone in some shapes, all fields in others, and the extremes of each in one.
fn interval(shape: usize, word: u64) -> IntervalMonthDayNano {
    let fields = |months, days, nanos| IntervalMonthDayNano::new(months, days, nanos);
    match shape {
        5 => match word % 4 {
            0 => fields(i32::MIN, i32::MAX, i64::MIN),
            1 => fields(i32::MAX, i32::MIN, i64::MAX),
            2 => fields(0, 0, 0),
            _ => fields(-1, -1, -1),
        },
        0 | 3 | 6 => fields(0, 0, word as i64 * 3_600_000_000_000),
        _ => fields(word as i32 % 25, (word >> 8) as i32 % 32, word as i64),
    }
}

/// The text of a UUID that has this word at its end, and once more, scattered, at its start.
fn uuid(word: &Option<u64>) -> Option<String> {
    let word = (*word)?;
    let first = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (a, b, c) = (first >> 32, first >> 16 & 0xFFFF, first & 0xFFFF);
    Some(format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", word >> 48, word & 0xFFFF_FFFF_FFFF))
}

fn float(shape: usize, word: u64) -> f64 {
    match shape {
        // NaN with a payload, both zeros, infinity, the least subnormal.
        5 => f64::from_bits(
            [0x7FF8_0000_0000_0123, 0, 1 << 63, 0x7FF0 << 48, 1][(word % 5) as usize],
        ),
        // Decimals, and doubles that were f32.
        6 if word % 2 == 1 => f64::from((word % 1_000_000) as f32 / 3.0),
        7 => f64::from_bits(0x4059_0000_0000_0000 | word >> 16),
        _ => (word % 1_000_000) as f64 / 100.0,
    }
}

/// `rows` rows of this type and shape.
pub(crate) fn array(data_type: &DataType, shape: usize, rows: usize) -> ArrayRef {
    let cells: Vec<Option<u64>> = (0..rows as u64).map(|i| cell(shape, i)).collect();
    let nulls = || {
        Some(cells.iter().map(Option::is_some).collect::<NullBuffer>())
            .filter(|n| n.null_count() > 0)
    };
    // A time is within a day.
    let day = data_type.bounds().and_then(|(_, most)| u64::try_from(most + 1).ok());
    let words = || {
        cells.iter().map(|cell| cell.unwrap_or(0)).map(|word| day.map_or(word, |day| word % day))
    };
    let texts = cells.iter().map(|cell| cell.map(|word| text(shape, word)));
    let arrow = data_type.to_arrow();
    let values = match data_type {
        DataType::Null => return Arc::new(NullArray::new(rows)),
        DataType::Bool => {
            return Arc::new(BooleanArray::new(words().map(|w| w % 2 == 1).collect(), nulls()));
        }
        DataType::Utf8 => return Arc::new(StringViewArray::from_iter(texts)),
        DataType::Binary => return Arc::new(BinaryViewArray::from_iter(texts)),
        DataType::Interval => {
            let values = words().map(|word| interval(shape, word)).collect::<Vec<_>>();
            return Arc::new(IntervalMonthDayNanoArray::new(values.into(), nulls()));
        }
        DataType::Uuid => return Arc::new(StringViewArray::from_iter(cells.iter().map(uuid))),
        DataType::Float32 => {
            Buffer::from_vec(words().map(|w| float(shape, w) as f32).collect::<Vec<_>>())
        }
        DataType::Float64 => Buffer::from_vec(words().map(|w| float(shape, w)).collect::<Vec<_>>()),
        DataType::Decimal { .. } => {
            let wide = |w: u64| i128::from(w as i64) * if shape == 5 { 1_000_000_007 } else { 25 };
            Buffer::from_vec(words().map(wide).collect::<Vec<_>>())
        }
        _ => match arrow.primitive_width() {
            Some(1) => Buffer::from_vec(words().map(|w| w as u8).collect::<Vec<_>>()),
            Some(2) => Buffer::from_vec(words().map(|w| w as u16).collect::<Vec<_>>()),
            Some(4) => Buffer::from_vec(words().map(|w| w as u32).collect::<Vec<_>>()),
            _ => Buffer::from_vec(words().collect::<Vec<_>>()),
        },
    };
    make_array(
        ArrayData::builder(arrow).len(rows).add_buffer(values).nulls(nulls()).build().unwrap(),
    )
}

/// Columns of these types and shapes, under ids with gaps.
pub(crate) fn input(columns: &[(DataType, usize)], rows: usize) -> SegmentInput {
    let column = |(i, (data_type, shape)): (usize, &(DataType, usize))| InputColumn {
        id: ColumnId(i as u32 * 2 + 1),
        data_type: data_type.clone(),
        arrays: vec![array(data_type, *shape, rows)],
    };
    SegmentInput {
        rows,
        block_rows: 1024,
        columns: columns.iter().enumerate().map(column).collect(),
    }
}

/// The bytes of an encoded segment.
pub(crate) fn bytes_of(encoded: &EncodedSegment) -> Vec<u8> {
    let bytes = encoded.parts.concat();
    assert_eq!(bytes.len() as u64, encoded.len);
    bytes
}

/// Opens a segment that fills `bytes`.
pub(crate) fn open(bytes: &[u8]) -> stylobate::Result<Segment> {
    Segment::open(Arc::new(Mapped::from_bytes(bytes)), "golden.sty", 0, bytes.len() as u64)
}

/// Decodes every block of every column that `input` has.
pub(crate) fn read_all(bytes: &[u8], input: &SegmentInput) -> stylobate::Result<Vec<ArrayRef>> {
    let segment = open(bytes)?;
    let mut arrays = Vec::new();
    for column in &input.columns {
        let Some(read) = segment.column(column.id)? else { continue };
        for b in 0..read.blocks() {
            let range = segment.block_range(b);
            arrays.push(read.block(b)?.decode(0..(range.end - range.start) as usize)?);
        }
    }
    Ok(arrays)
}

/// What [`read_all`] has to return.
pub(crate) fn expected(input: &SegmentInput) -> Vec<ArrayRef> {
    let blocks = |column: &InputColumn| -> Vec<ArrayRef> {
        let starts = (0..input.rows).step_by(input.block_rows);
        starts.map(|at| column.arrays[0].slice(at, input.block_rows.min(input.rows - at))).collect()
    };
    input.columns.iter().flat_map(blocks).collect()
}

/// Compares bit for bit, with NaN payloads, where there are values.
pub(crate) fn assert_same(a: &[ArrayRef], b: &[ArrayRef], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_data(), b.to_data(), "{what}, block {i} in order of columns");
    }
}
