//! Every kind of stream, both ways: values survive a round trip under a chosen encoding, and
//! arbitrary bytes are an error or some values.

use std::fmt::Debug;

use arrow_buffer::BooleanBuffer;
use stylobate::internal::block::Reader;
use stylobate::internal::encoding::bools::{self, Bools};
use stylobate::internal::encoding::floats::{self, Float, Floats};
use stylobate::internal::encoding::ints::{self, Ints};
use stylobate::internal::encoding::strings::{self, Strings, StringsOut};
use stylobate::internal::encoding::wide::{self, Wide};
use stylobate::internal::encoding::{Encoding, Options, Sink, Source, Word};
use stylobate::{DataType, Profile};

/// Types for blocks of arbitrary bytes.
const TYPES: [&str; 10] = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float32",
    "float64",
    "decimal(38,2)",
    "utf8",
    "binary",
];
const VECTOR: usize = 1024;

/// The target.
pub fn run(bytes: &[u8]) {
    let Some(([kind, a, b, c], rest)) = bytes.split_first_chunk::<4>() else { return };
    let (kind, structured) = (usize::from(*kind) % 16, kind & 128 == 0);
    if structured {
        let options = Options {
            profile: [Profile::Fast, Profile::Balanced, Profile::Small][usize::from(*a) % 3],
            heavy: a & 128 != 0,
            force: Encoding::ALL.get(usize::from(*b)).copied(),
        };
        round_trip(
            kind,
            &Shape { repeat: usize::from(c & 15) + 1, times: usize::from(c >> 4), bytes: rest },
            &options,
        );
    } else {
        let Some(data_type) = TYPES.get(kind).and_then(|name| name.parse().ok()) else { return };
        any_bytes(&data_type, usize::from(*a), usize::from(u16::from_le_bytes([*b, *c])), rest);
    }
}

/// Reads arbitrary bytes as a block whose first `head` bytes are its head.
fn any_bytes(data_type: &DataType, head: usize, rows: usize, bytes: &[u8]) {
    let Ok(reader) = Reader::parse(bytes, head.min(bytes.len()), rows, data_type, false) else {
        return;
    };
    let _ = reader.describe();
    let last = rows.saturating_sub(1) / VECTOR * VECTOR;
    for range in [0..rows, last..rows, 0..rows.min(7)] {
        if let Ok(array) = reader.decode(range.clone(), data_type, None) {
            assert_eq!(array.len(), range.len());
        }
    }
    let [first, middle, last] = [0, rows / 2, rows.saturating_sub(1)].map(|row| row as u32);
    for rows in [&[first][..], &[middle], &[first, middle, last], &[last, first]] {
        let _ = reader.gather(rows, data_type, None);
    }
}

/// Generates values from few bytes: each value is repeated, and the whole sequence is repeated with
/// increments.
struct Shape<'a> {
    repeat: usize,
    times: usize,
    bytes: &'a [u8],
}

impl Shape<'_> {
    fn words(&self, width: usize) -> Vec<u64> {
        let word =
            |chunk: &[u8]| chunk.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        let base: Vec<u64> = self.bytes.chunks(width).map(word).collect();
        let one = |round: usize| base.iter().map(move |word| word.wrapping_add(round as u64 * 3));
        let all = (0..=self.times * self.times).flat_map(one);
        all.flat_map(|word| std::iter::repeat_n(word, self.repeat)).take(5000).collect()
    }

    /// Strings, each preceded by its length.
    fn texts(&self) -> Vec<Vec<u8>> {
        let mut base = Vec::new();
        let mut rest = self.bytes;
        while let Some((&length, behind)) = rest.split_first() {
            let (text, behind) = behind.split_at(behind.len().min(usize::from(length % 64)));
            base.push(text.to_vec());
            rest = behind;
        }
        let all = (0..=self.times).flat_map(|_| base.iter());
        all.flat_map(|text| std::iter::repeat_n(text.clone(), self.repeat)).take(3000).collect()
    }
}

fn round_trip(kind: usize, shape: &Shape<'_>, options: &Options) {
    match kind {
        0 => bool_trip(&shape.words(1), options),
        1 => int_trip::<u8>(&shape.words(1), true, options),
        2 => int_trip::<u16>(&shape.words(2), false, options),
        3 => int_trip::<u32>(&shape.words(4), true, options),
        4 => int_trip::<u64>(&shape.words(8), false, options),
        5 => {
            let values: Vec<f32> =
                shape.words(4).iter().map(|&w| f32::from_bits(w as u32)).collect();
            float_trip(&values, options);
        }
        6 => {
            let values: Vec<f64> = shape.words(8).iter().map(|&w| f64::from_bits(w)).collect();
            float_trip(&values, options);
        }
        7 => wide_trip(&shape.words(8), options),
        8 | 9 => string_trip(&shape.texts(), options),
        10 => int_trip::<u64>(&shape.words(2), true, options),
        11 => {
            let values: Vec<f64> = shape.words(3).iter().map(|&w| w as f64 / 100.0).collect();
            float_trip(&values, options);
        }
        _ => {}
    }
}

/// Passes the stream that `encode` writes to `read`.
fn through(encode: impl FnOnce(&mut Sink), read: impl FnOnce(&mut Source<'_>)) {
    let mut sink = Sink::new();
    encode(&mut sink);
    let (head, payload) = sink.into_parts();
    let mut source = Source::new(&head, &payload).verifying(true);
    read(&mut source);
    source.cursor.finish().unwrap();
}

fn assert_same<T: PartialEq + Debug>(
    all: &[T],
    last: &[T],
    get: impl Fn(usize) -> T,
    expected: &[T],
) {
    assert_eq!(all, expected);
    assert_eq!(last, &expected[start_of_last(expected.len())..]);
    for row in (0..expected.len()).step_by(1 + expected.len() / 7) {
        assert_eq!(get(row), expected[row]);
    }
}

fn start_of_last(rows: usize) -> usize {
    rows.saturating_sub(1) / VECTOR * VECTOR
}

fn int_trip<W: Word>(words: &[u64], signed: bool, options: &Options) {
    let values: Vec<W> = words.iter().map(|&w| W::from_u64(w)).collect();
    through(
        |sink| ints::encode(&values, signed, options, sink),
        |source| {
            let stream = Ints::<W>::parse(source, values.len()).unwrap();
            let (mut all, mut last) = (Vec::new(), Vec::new());
            stream.decode(0..values.len(), &mut all).unwrap();
            stream.decode(start_of_last(values.len())..values.len(), &mut last).unwrap();
            assert_same(&all, &last, |row| stream.get(row).unwrap(), &values);
        },
    );
}

fn float_trip<F: Float>(values: &[F], options: &Options) {
    let bits = |values: &[F]| values.iter().map(|v| v.to_word()).collect::<Vec<_>>();
    through(
        |sink| floats::encode(values, options, sink),
        |source| {
            let stream = Floats::<F>::parse(source, values.len()).unwrap();
            let (mut all, mut last) = (Vec::new(), Vec::new());
            stream.decode(0..values.len(), &mut all).unwrap();
            stream.decode(start_of_last(values.len())..values.len(), &mut last).unwrap();
            assert_same(
                &bits(&all),
                &bits(&last),
                |row| stream.get(row).unwrap().to_word(),
                &bits(values),
            );
        },
    );
}

fn wide_trip(words: &[u64], options: &Options) {
    let values: Vec<i128> =
        words.chunks(2).map(|w| i128::from(w[0] as i64) << (w[w.len() - 1] % 64)).collect();
    through(
        |sink| wide::encode(&values, options, sink),
        |source| {
            let stream = Wide::parse(source, values.len()).unwrap();
            let (mut all, mut last) = (Vec::new(), Vec::new());
            stream.decode(0..values.len(), &mut all).unwrap();
            stream.decode(start_of_last(values.len())..values.len(), &mut last).unwrap();
            assert_same(&all, &last, |row| stream.get(row).unwrap(), &values);
        },
    );
}

fn bool_trip(words: &[u64], options: &Options) {
    let values: Vec<bool> =
        words.iter().flat_map(|w| (0..8).map(move |bit| w >> bit & 1 == 1)).collect();
    through(
        |sink| bools::encode(&BooleanBuffer::from(values.clone()), options, sink),
        |source| {
            let stream = Bools::parse(source, values.len()).unwrap();
            let all: Vec<bool> = stream.decode(0..values.len()).unwrap().iter().collect();
            let last: Vec<bool> =
                stream.decode(start_of_last(values.len())..values.len()).unwrap().iter().collect();
            assert_same(&all, &last, |row| stream.get(row).unwrap(), &values);
        },
    );
}

fn string_trip(texts: &[Vec<u8>], options: &Options) {
    let values: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    through(
        |sink| strings::encode(&values, options, sink).unwrap(),
        |source| {
            let stream = Strings::parse(source, values.len()).unwrap();
            let (mut all, mut last) = (StringsOut::new(), StringsOut::new());
            stream.decode(0..values.len(), &mut all).unwrap();
            stream.decode(start_of_last(values.len())..values.len(), &mut last).unwrap();
            let owned = |out: &StringsOut| out.iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
            assert_same(&owned(&all), &owned(&last), |row| stream.get(row).unwrap(), texts);
        },
    );
}
