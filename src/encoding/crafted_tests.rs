//! Crafted streams that no writer writes, whose few bytes claim huge sizes.

use super::ints::Ints;
use super::strings::{Strings, StringsOut};
use super::{Encoding, Source};
use crate::bytes::Writer;
use crate::error::{Error, Result};
use crate::limits::{MAX_CHUNK_BYTES, MAX_VALUE_BYTES, VECTOR};

const ROWS: usize = 1 << 20;

/// Nested runs down to sequences: two streams at each level, all of which are kept once decoded.
fn runs(depth: usize, head: &mut Writer) {
    if depth == 0 {
        head.u8(Encoding::Sequence as u8);
        head.u64(1);
        return head.u64(1);
    }
    head.u8(Encoding::RunLength as u8);
    head.count(ROWS);
    runs(depth - 1, head);
    runs(depth - 1, head);
}

#[test]
fn nested_runs_are_refused_before_they_fill_the_memory() {
    let parse = |depth: usize| {
        let mut head = Writer::new();
        runs(depth, &mut head);
        let mut source = Source::new(head.as_slice(), &[]);
        Ints::<u64>::parse(&mut source, ROWS).map(|_| ())
    };
    assert!(parse(2).is_ok());
    let refusal = parse(6).unwrap_err().to_string();
    assert!(refusal.contains("too many words"), "{refusal}");
    assert!(parse(7).unwrap_err().to_string().contains("nest too deep"));
}

/// A stream of plain strings, all of one length, over `chunks` chunks of zstd that claim a gibibyte
/// each.
fn plain(length: usize, chunks: usize) -> Vec<u8> {
    let mut head = Writer::new();
    head.u8(Encoding::Plain as u8);
    for constant in [length, 0] {
        head.u8(Encoding::Constant as u8);
        head.u64(constant as u64);
    }
    head.u8(2);
    head.u64((chunks * MAX_CHUNK_BYTES) as u64);
    head.u64(0);
    head.count(chunks);
    for _ in 0..chunks {
        head.count(MAX_CHUNK_BYTES);
        head.count(MAX_CHUNK_BYTES >> 15);
        head.u32(0);
    }
    head.into_vec()
}

#[test]
fn vectors_of_strings_are_bounded() {
    let payload = vec![0; 4 * (MAX_CHUNK_BYTES >> 15)];
    let refusal = |length: usize, chunks: usize| {
        let head = plain(length, chunks);
        let strings = Strings::parse(&mut Source::new(&head, &payload), VECTOR).unwrap();
        let (all, one) =
            (strings.decode(0..VECTOR, &mut StringsOut::new()), strings.get(VECTOR - 1));
        [all.unwrap_err().to_string(), one.unwrap_err().to_string()]
    };
    let contains = |found: [String; 2], what: &str| {
        assert!(found.iter().all(|error| error.contains(what)), "{found:?}");
    };
    contains(refusal(MAX_VALUE_BYTES + 1, 1), "bytes of strings");
    contains(refusal(MAX_CHUNK_BYTES / VECTOR + 1, 1), "bytes of strings");
    contains(refusal(1, 4), "bytes of strings");
    contains(refusal(1, 1), "does not unpack");
}

#[test]
fn a_constant_is_bounded_by_what_a_batch_takes() {
    let mut head = Writer::new();
    head.u8(Encoding::Constant as u8);
    head.blob(&[b'x'; 4096]);
    let strings = Strings::parse(&mut Source::new(head.as_slice(), &[]), ROWS).unwrap();
    let mut out = StringsOut::with_limit(1 << 20);
    assert!(matches!(strings.decode(0..ROWS, &mut out), Err(Error::LimitExceeded(_))));
    strings.decode(0..256, &mut out).unwrap();
    assert_eq!((out.data.len(), out.len()), (1 << 20, 256));
}

/// A stream of plain words of 32 bits, or one of 64, whose bytes are put behind `payload`.
fn plain_words(words: &[u64], bytes: usize, head: &mut Writer, payload: &mut Vec<u8>) {
    payload.resize(payload.len().next_multiple_of(16), 0);
    let stored: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()[..bytes].to_vec()).collect();
    head.u8(Encoding::Plain as u8);
    head.u8(0);
    head.u64(stored.len() as u64);
    head.u64(payload.len() as u64);
    head.count(1);
    head.count(stored.len());
    head.count(stored.len());
    head.u32(crc32fast::hash(&stored));
    payload.extend(stored);
}

/// Of runs over 10 rows.
fn only_right_ends_decode<T>(decode: impl Fn(&[u64]) -> Result<T>) {
    assert!(decode(&[4, 10]).is_ok());
    for wrong in [&[4, 11][..], &[0, 10], &[4, 9]] {
        assert!(matches!(decode(wrong), Err(Error::Corrupt { .. })), "{wrong:?}");
    }
}

#[test]
fn runs_end_with_the_rows() {
    let decode = |ends: &[u64]| {
        let (mut head, mut payload) = (Writer::new(), Vec::new());
        head.u8(Encoding::RunLength as u8);
        head.count(ends.len());
        plain_words(ends, 4, &mut head, &mut payload);
        plain_words(&vec![7; ends.len()], 8, &mut head, &mut payload);
        let ints = Ints::<u64>::parse(&mut Source::new(head.as_slice(), &payload), 10).unwrap();
        let all = ints.decode(0..10, &mut Vec::new());
        assert_eq!(all.is_ok(), ints.get(9).is_ok());
        all
    };
    only_right_ends_decode(decode);
}

#[test]
fn runs_of_booleans_end_with_the_rows() {
    let decode = |ends: &[u64]| {
        let (mut head, mut payload) = (Writer::new(), Vec::new());
        head.u8(Encoding::RunLength as u8);
        head.u8(1);
        head.count(ends.len());
        plain_words(ends, 4, &mut head, &mut payload);
        let mut source = Source::new(head.as_slice(), &payload);
        super::bools::Bools::parse(&mut source, 10).unwrap().decode(0..10)
    };
    only_right_ends_decode(decode);
}

#[test]
fn patches_are_in_rows_that_are_there() {
    let decode = |positions: &[u64]| {
        let (mut head, mut payload) = (Writer::new(), Vec::new());
        head.u8(Encoding::Frame as u8);
        head.u64(5);
        head.u64(1);
        // No packed codes.
        head.u8(0);
        head.u8(0);
        head.u64(0);
        head.u64(0);
        head.count(0);
        head.count(positions.len());
        plain_words(positions, 4, &mut head, &mut payload);
        plain_words(&vec![3; positions.len()], 8, &mut head, &mut payload);
        let ints = Ints::<u64>::parse(&mut Source::new(head.as_slice(), &payload), 10).unwrap();
        let mut out = Vec::new();
        ints.decode(0..10, &mut out).map(|()| out)
    };
    assert_eq!(decode(&[2, 9]).unwrap(), [5, 5, 8, 5, 5, 5, 5, 5, 5, 8]);
    for wrong in [&[2, 10][..], &[2, 2], &[3, 2]] {
        assert!(matches!(decode(wrong), Err(Error::Corrupt { .. })), "{wrong:?}");
    }
}

#[test]
fn exceptions_are_in_rows_that_are_there() {
    let decode = |positions: &[u64]| {
        let (mut head, mut payload) = (Writer::new(), Vec::new());
        head.u8(Encoding::Alp as u8);
        head.u8(2);
        head.u8(53);
        head.u8(Encoding::Constant as u8);
        head.u64(150);
        head.count(positions.len());
        plain_words(positions, 4, &mut head, &mut payload);
        plain_words(&vec![9f64.to_bits(); positions.len()], 8, &mut head, &mut payload);
        let mut source = Source::new(head.as_slice(), &payload);
        let floats = super::floats::Floats::<f64>::parse(&mut source, 4).unwrap();
        let mut out = Vec::new();
        floats.decode(0..4, &mut out).map(|()| out)
    };
    assert_eq!(decode(&[1, 3]).unwrap(), [1.5, 9.0, 1.5, 9.0]);
    for wrong in [&[1, 4][..], &[1, 1], &[3, 1]] {
        assert!(matches!(decode(wrong), Err(Error::Corrupt { .. })), "{wrong:?}");
    }
}

#[test]
fn strings_start_at_the_first_byte() {
    let decode = |start: u64| {
        let (mut head, mut payload) = (Writer::new(), Vec::new());
        head.u8(Encoding::Plain as u8);
        for constant in [1, start] {
            head.u8(Encoding::Constant as u8);
            head.u64(constant);
        }
        // The buffer is described as one of words is, without their number.
        let mut buffer = Writer::new();
        plain_words(
            &[u64::from_le_bytes(*b"abcdefgh")],
            2 + start as usize,
            &mut buffer,
            &mut payload,
        );
        head.put(buffer.as_slice().get(1..).unwrap());
        let strings = Strings::parse(&mut Source::new(head.as_slice(), &payload), 2).unwrap();
        let (all, one) = (strings.decode(0..2, &mut StringsOut::new()), strings.get(1));
        assert_eq!(all.is_ok(), one.is_ok());
        all
    };
    assert!(decode(0).is_ok());
    assert!(matches!(decode(1), Err(Error::Corrupt { .. })));
}
