//! Crafted streams that no writer writes, whose few bytes claim huge sizes.

use super::ints::Ints;
use super::strings::{Strings, StringsOut};
use super::{Encoding, Source};
use crate::bytes::Writer;
use crate::error::Error;
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
