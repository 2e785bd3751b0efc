//! Segments round-trip: every type, every forced encoding, every profile.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, DictionaryArray, StringViewArray, UInt32Array, make_array};
use arrow_data::ArrayData;
use arrow_schema::DataType as ArrowType;
use proptest::prelude::*;

use super::writer::{InputColumn, SegmentInput, encode};
use super::{EncodedSegment, Segment};
use crate::block::canonical;
use crate::disk::Mapped;
use crate::encoding::{Encoding, Options, Profile};
use crate::model::{ColumnId, DataType, uuid};

const TYPES: &[&str] = &[
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
    "uuid",
    "interval",
];

/// Generates arrays that look like real columns: few values, runs, ramps, noise, extremes, nulls.
fn array(data_type: &DataType, rows: usize, shape: u8, seed: u64) -> ArrayRef {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words: Vec<u64> = (0..rows as u64)
        .map(|i| match shape % 8 {
            0 => next(),
            1 => next() % 5,
            2 => i / 100,
            3 => i * 1_000_000 + next() % 3 * 1_000_000,
            4 => seed,
            5 => [u64::MAX, 0, 1 << 63, (1 << 63) - 1, 1][next() as usize % 5],
            6 => {
                if next() % 50 == 0 {
                    next()
                } else {
                    next() % 900
                }
            }
            _ => (next() % 100_000) as f64 as u64,
        })
        .collect();
    let nulls: Option<Vec<bool>> = match (seed >> 8) % 4 {
        0 => None,
        1 => Some(words.iter().enumerate().map(|(i, _)| i % 7 != 3).collect()),
        2 => Some(words.iter().enumerate().map(|(i, _)| i / 300 % 2 == 0).collect()),
        _ => Some(vec![false; rows]),
    };
    let nulls = nulls.map(arrow_buffer::NullBuffer::from);
    values(data_type, &words, nulls)
}

fn values(
    data_type: &DataType,
    words: &[u64],
    nulls: Option<arrow_buffer::NullBuffer>,
) -> ArrayRef {
    // Times must be within a day.
    let time = |w: &u64| match data_type {
        DataType::Time { unit } => w % (unit.per_second() as u64 * 86_400),
        _ => *w,
    };
    let words: Vec<u64> = words.iter().map(time).collect();
    let specials = [f64::NAN, -0.0, f64::INFINITY, f64::MIN_POSITIVE / 3.0, -1.5, f64::MAX];
    let float = |w: u64| {
        if w > 1 << 60 { specials[(w % 6) as usize] } else { (w % 1_000_000) as f64 / 100.0 }
    };
    let valid = |i: usize| nulls.as_ref().is_none_or(|n| n.is_valid(i));
    let text = |w: u64| match w % 5 {
        0 => String::new(),
        1 => format!("{w:x}"),
        2 => format!("naïve → {w}"),
        3 => format!("{:050X}", w),
        _ => "x".repeat((w % 300) as usize),
    };
    let arrow = data_type.to_arrow();
    match data_type {
        DataType::Null => return Arc::new(arrow_array::NullArray::new(words.len())),
        DataType::Bool => {
            let bits = words.iter().map(|w| w % 2 == 1).collect();
            return Arc::new(arrow_array::BooleanArray::new(bits, nulls));
        }
        DataType::Utf8 => {
            let text = words.iter().enumerate().map(|(i, &w)| valid(i).then(|| text(w)));
            return Arc::new(arrow_array::StringViewArray::from_iter(text));
        }
        DataType::Binary => {
            let bytes = words.iter().enumerate().map(|(i, &w)| valid(i).then(|| text(w)));
            return Arc::new(arrow_array::BinaryViewArray::from_iter(bytes));
        }
        DataType::Uuid => {
            let id = |w: u64| uuid::text_of(&(u128::from(w) << 32 | 7).to_be_bytes());
            let ids = words.iter().enumerate().map(|(i, &w)| valid(i).then(|| id(w)));
            return Arc::new(arrow_array::StringViewArray::from_iter(ids));
        }
        _ => {}
    }
    let buffer = match arrow.primitive_width().unwrap() {
        1 => arrow_buffer::Buffer::from_vec(words.iter().map(|&w| w as u8).collect::<Vec<_>>()),
        2 => arrow_buffer::Buffer::from_vec(words.iter().map(|&w| w as u16).collect::<Vec<_>>()),
        4 if arrow.is_floating() => arrow_buffer::Buffer::from_vec(
            words.iter().map(|&w| float(w) as f32).collect::<Vec<_>>(),
        ),
        4 => arrow_buffer::Buffer::from_vec(words.iter().map(|&w| w as u32).collect::<Vec<_>>()),
        8 if arrow.is_floating() => {
            arrow_buffer::Buffer::from_vec(words.iter().map(|&w| float(w)).collect::<Vec<_>>())
        }
        8 => arrow_buffer::Buffer::from_vec(words.clone()),
        _ => arrow_buffer::Buffer::from_vec(
            words.iter().map(|&w| i128::from(w as i64) * (1 << (w % 60))).collect::<Vec<_>>(),
        ),
    };
    make_array(
        ArrayData::builder(arrow).len(words.len()).add_buffer(buffer).nulls(nulls).build().unwrap(),
    )
}

fn open(encoded: &EncodedSegment) -> Segment {
    let bytes = encoded.parts.concat();
    assert_eq!(bytes.len() as u64, encoded.len);
    Segment::open(Arc::new(Mapped::from_bytes(&bytes)), "test.sty", 0, encoded.len).unwrap()
}

/// Compares bit for bit: `ArrayData` compares the bytes of valid values.
fn assert_same(a: &ArrayRef, b: &ArrayRef, what: &str) {
    assert_eq!(a.logical_null_count(), b.logical_null_count(), "{what}");
    assert_eq!(a.to_data(), b.to_data(), "{what}");
}

fn round_trip(types: &[DataType], rows: usize, shape: u8, seed: u64, options: &Options) {
    let columns: Vec<InputColumn> = types
        .iter()
        .enumerate()
        .map(|(i, data_type)| InputColumn {
            id: ColumnId(i as u32 * 3),
            data_type: data_type.clone(),
            arrays: vec![array(data_type, rows, shape, seed)],
        })
        .collect();
    let input = SegmentInput { rows, block_rows: 1024, columns };
    let encoded = encode(&input, options).unwrap();
    let segment = open(&encoded);
    assert_eq!(segment.rows() as usize, rows);
    for column in &input.columns {
        let read = segment.column(column.id).unwrap().unwrap();
        for b in 0..read.blocks() {
            let range = segment.block_range(b);
            let (start, len) = (range.start as usize, (range.end - range.start) as usize);
            let what = format!(
                "{} {options:?} block {b} {}",
                column.data_type,
                read.block(b).unwrap().reader().describe()
            );
            let expected = column.arrays[0].slice(start, len);
            assert_same(&read.block(b).unwrap().decode(0..len).unwrap(), &expected, &what);
            for row in [0, len / 2, len - 1] {
                let one = read.block(b).unwrap().gather(&[row as u32], &column.data_type).unwrap();
                assert_same(&one, &expected.slice(row, 1), &what);
            }
        }
        let nulls = column.arrays[0].logical_null_count();
        assert_eq!(read.stats().nulls as usize, nulls, "{}", column.data_type);
    }
    assert_eq!(segment.verify().unwrap(), encoded.len);
    assert!(segment.column(ColumnId(1)).unwrap().is_none());
}

fn all_types() -> Vec<DataType> {
    TYPES.iter().map(|t| t.parse().unwrap()).collect()
}

#[test]
fn every_forced_encoding_holds_every_type() {
    for &force in Encoding::ALL {
        for shape in 0..8 {
            for (rows, seed) in [(1, 0x100), (1500, 0x200 + u64::from(shape)), (2049, 0x1000)] {
                let options = Options {
                    force: Some(force),
                    heavy: shape % 2 == 0,
                    profile: Profile::Balanced,
                };
                round_trip(&all_types(), rows, shape, seed, &options);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_rows_round_trip(
        rows in 1usize..5000,
        shape in any::<u8>(),
        seed in any::<u64>(),
        profile in 0..3,
    ) {
        let profile = [Profile::Fast, Profile::Balanced, Profile::Small][profile as usize];
        round_trip(&all_types(), rows, shape, seed, &Options::new(profile));
    }
}

/// Codes that come with their values are stored as the values would be, null keys and null values
/// alike.
#[test]
fn codes_give_the_same_bytes_as_values() {
    for data_type in all_types() {
        let arrow = data_type.to_arrow();
        for (shape, seed) in (0..8).zip([1, 0x100, 0x200, 0x300, 0x101, 0x201, 5, 0x103]) {
            let plain = [array(&data_type, 3000, shape, seed), array(&data_type, 2000, 1, seed)];
            let to = ArrowType::Dictionary(Box::new(ArrowType::UInt32), Box::new(arrow.clone()));
            let Ok(first) = arrow_cast::cast(&plain[0], &to) else { continue };
            if canonical(&to, &data_type).is_some() {
                continue;
            }
            // One array is cut in two, as batches are, and another has its null among its values.
            let nulls = UInt32Array::from_iter_values(0..plain[1].len() as u32);
            let second = DictionaryArray::new(nulls, plain[1].clone());
            let second: ArrayRef = Arc::new(second);
            let coded = vec![first.slice(0, 1111), first.slice(1111, 1889), second];
            for options in [Options::new(Profile::Balanced), forced(Encoding::Dictionary)] {
                let bytes = |arrays: Vec<ArrayRef>| {
                    let data_type = data_type.clone();
                    let columns = vec![InputColumn { id: ColumnId(1), data_type, arrays }];
                    encode(&SegmentInput { rows: 5000, block_rows: 2048, columns }, &options)
                        .unwrap()
                };
                let (a, b) = (bytes(plain.to_vec()), bytes(coded.clone()));
                assert_eq!(a.parts.concat(), b.parts.concat(), "{data_type}, shape {shape}");
            }
        }
    }
}

fn forced(encoding: Encoding) -> Options {
    Options { force: Some(encoding), ..Options::new(Profile::Balanced) }
}

#[test]
fn a_segment_without_rows() {
    for profile in [Profile::Fast, Profile::Balanced, Profile::Small] {
        round_trip(&all_types(), 0, 0, 1, &Options::new(profile));
    }
}

/// Damaging any bit of a small segment gives an error or the right answer, never a panic.
#[test]
fn every_bit_flip_is_caught_or_harmless() {
    let types = all_types();
    let columns: Vec<InputColumn> = types
        .iter()
        .enumerate()
        .map(|(i, t)| InputColumn {
            id: ColumnId(i as u32),
            data_type: t.clone(),
            arrays: vec![array(t, 40, 1, 0x101)],
        })
        .collect();
    let input = SegmentInput { rows: 40, block_rows: 1024, columns };
    let encoded = encode(&input, &Options::new(Profile::Balanced)).unwrap();
    let bytes = encoded.parts.concat();
    let read_all = |bytes: &[u8]| -> crate::Result<Vec<ArrayRef>> {
        let segment =
            Segment::open(Arc::new(Mapped::from_bytes(bytes)), "test.sty", 0, bytes.len() as u64)?;
        let mut arrays = Vec::new();
        for column in &input.columns {
            if let Some(read) = segment.column(column.id)? {
                arrays.push(read.block(0)?.decode(0..40)?);
            }
        }
        Ok(arrays)
    };
    let right = read_all(&bytes).unwrap();
    let mut damaged = bytes.clone();
    for bit in 0..bytes.len() * 8 {
        damaged[bit / 8] ^= 1 << (bit % 8);
        if let Ok(arrays) = read_all(&damaged) {
            assert_eq!(arrays.len(), right.len());
            for (a, b) in arrays.iter().zip(&right) {
                assert_same(a, b, &format!("bit {bit}"));
            }
        }
        damaged[bit / 8] ^= 1 << (bit % 8);
    }
    for cut in 0..bytes.len() {
        assert!(read_all(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn the_same_rows_give_the_same_bytes_whatever_the_threads() {
    let types = all_types();
    let bytes = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let columns = types
            .iter()
            .enumerate()
            .map(|(i, t)| InputColumn {
                id: ColumnId(i as u32),
                data_type: t.clone(),
                arrays: vec![array(t, 9000, 6, 7)],
            })
            .collect();
        let input = SegmentInput { rows: 9000, block_rows: 4096, columns };
        pool.install(|| encode(&input, &Options::new(Profile::Balanced))).unwrap().parts.concat()
    };
    assert!(bytes(1) == bytes(4));
}

#[test]
fn a_text_that_all_rows_share_is_decoded_once() {
    let text = "long".repeat(16 << 10);
    let array: ArrayRef = Arc::new(arrow_array::StringViewArray::from_iter(
        (0..4096).map(|i| (i % 5 != 3).then_some(text.as_str())),
    ));
    let column =
        InputColumn { id: ColumnId(0), data_type: DataType::Utf8, arrays: vec![array.clone()] };
    let input = SegmentInput { rows: 4096, block_rows: 4096, columns: vec![column] };
    let options = Options { force: Some(Encoding::Constant), ..Options::new(Profile::Balanced) };
    let segment = open(&encode(&input, &options).unwrap());
    let column = segment.column(ColumnId(0)).unwrap().unwrap();
    let read = column.block(0).unwrap().decode(0..4096).unwrap();
    assert_same(&read, &array, "constant");
    assert!(read.get_buffer_memory_size() < 4 << 20, "{}", read.get_buffer_memory_size());
}

#[test]
fn few_texts_of_a_large_dictionary_are_those_of_the_whole() {
    let text = |i: u64| match i % 11 {
        0 => None,
        _ => Some(format!("/path/{}/to a page of some length {}", i % 37, i * 7919 % 20_011)),
    };
    let texts: ArrayRef = Arc::new((0..60_000).map(text).collect::<StringViewArray>());
    let input = SegmentInput {
        rows: texts.len(),
        block_rows: 16_384,
        columns: vec![InputColumn {
            id: ColumnId(1),
            data_type: DataType::Utf8,
            arrays: vec![Arc::clone(&texts)],
        }],
    };
    let whole = open(&encode(&input, &forced(Encoding::Dictionary)).unwrap());
    let whole = whole.column(ColumnId(1)).unwrap().unwrap();
    for rows in [vec![], vec![7], vec![11, 12, 13], vec![16_000, 3, 3, 0, 9], vec![5; 9]] {
        // A new segment each time: what is read singly adds up to a decoded dictionary.
        let segment = open(&encode(&input, &forced(Encoding::Dictionary)).unwrap());
        let column = segment.column(ColumnId(1)).unwrap().unwrap();
        for _ in 0..4 {
            let found = column.block(1).unwrap().gather(&rows, &DataType::Utf8).unwrap();
            let places: UInt32Array = rows.iter().map(|row| row + 16_384).collect();
            let right = arrow_select::take::take(&texts, &places, None).unwrap();
            assert_same(&found, &right, &format!("{rows:?}"));
        }
        let lengths = column.dictionary_lengths().unwrap().unwrap();
        let dictionary = whole.dictionary().unwrap().unwrap();
        let dictionary = dictionary.as_string_view();
        assert!(lengths.iter().zip(dictionary).all(|(n, t)| *n as usize == t.map_or(0, str::len)));
        assert_eq!(lengths.len(), dictionary.len());
    }
}
