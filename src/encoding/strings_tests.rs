//! Round trips of byte strings, and crafted and damaged bytes.

use proptest::prelude::*;

use super::*;
use crate::encoding::Profile;

/// The encodings that can be forced.
const FORCED: &[Encoding] = &[
    Encoding::Plain,
    Encoding::Constant,
    Encoding::Fsst,
    Encoding::Packed,
    Encoding::Hexadecimal,
    Encoding::Front,
];

fn encoded(values: &[&[u8]], options: &Options) -> (Vec<u8>, Vec<u8>) {
    let mut sink = Sink::new();
    encode(values, options, &mut sink).unwrap();
    sink.into_parts()
}

fn slices<T: AsRef<[u8]>>(values: &[T]) -> Vec<&[u8]> {
    values.iter().map(AsRef::as_ref).collect()
}

/// Encodes values and reads them back whole, in parts and by row, under every profile and forced
/// encoding.
fn round_trip(values: &[&[u8]]) {
    for profile in [Profile::Fast, Profile::Balanced, Profile::Small] {
        for force in FORCED.iter().copied().map(Some).chain([None]) {
            check_one(values, &Options { force, ..Options::new(profile) });
        }
    }
}

fn check_one(values: &[&[u8]], options: &Options) {
    let (head, payload) = encoded(values, options);
    let mut source = Source::new(&head, &payload);
    let strings = Strings::parse(&mut source, values.len()).unwrap();
    source.cursor.finish().unwrap();
    assert_eq!(strings.rows(), values.len());
    let mut out = StringsOut::new();
    strings.decode(0..values.len(), &mut out).unwrap();
    assert!(out.iter().eq(values.iter().copied()), "{options:?} {:?}", strings.encoding());
    let middle = values.len() / 2 / VECTOR * VECTOR;
    let before = out.len();
    for end in [middle, middle + (values.len() - middle) / 2, values.len()] {
        out.ends.truncate(before);
        out.data.truncate(out.ends.last().map_or(0, |&e| e as usize));
        strings.decode(middle..end, &mut out).unwrap();
        assert!(out.iter().skip(before).eq(values[middle..end].iter().copied()));
    }
    for row in (0..values.len()).step_by(values.len() / 7 + 1) {
        assert_eq!(strings.get(row).unwrap(), values[row]);
    }
    assert!(strings.get(values.len()).is_err());
    strings.describe(&mut String::new());
}

#[test]
fn special_shapes() {
    let big = vec![b'x'; 1 << 20];
    round_trip(&[]);
    round_trip(&[b""]);
    round_trip(&[b"", b"", b"a"]);
    round_trip(&[&big, b"", b"small"]);
    for n in [1, 1023, 1024, 1025, 2049] {
        round_trip(&vec![b"same".as_slice(); n]);
        let numbers: Vec<String> = (0..n).map(|i| format!("{}", i * 7919)).collect();
        round_trip(&slices(&numbers));
        let unicode: Vec<String> = (0..n).map(|i| "héllo wörld ☃".repeat(i % 4)).collect();
        round_trip(&slices(&unicode));
    }
}

#[test]
fn too_many_bytes_are_refused_not_allocated() {
    let value = vec![b'x'; 1 << 20];
    let (head, payload) = encoded(&[&value[..]], &Options::new(Profile::Balanced));
    let mut source = Source::new(&head, &payload);
    let strings = Strings::parse(&mut source, 4096).unwrap();
    let error = strings.decode(0..4096, &mut StringsOut::new()).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded(_)));
}

/// Reading any bytes must return, with an error or not.
fn survive(head: &[u8], payload: &[u8], rows: usize) {
    let mut source = Source::new(head, payload);
    if let Ok(strings) = Strings::parse(&mut source, rows) {
        let mut out = StringsOut::new();
        let _ = strings.decode(0..rows, &mut out);
        let _ = strings.decode(0..rows / 2, &mut out);
        let _ = strings.get(rows - 1);
    }
}

#[test]
fn flips_and_truncations_never_panic() {
    let hex: Vec<String> =
        (0..1100u64).map(|i| format!("{:018x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let words: Vec<String> = (0..1100).map(|i| format!("word {} and {}", i % 13, i % 29)).collect();
    let digits: Vec<String> = (0..1100).map(|i| format!("{}", i * i)).collect();
    for values in [hex, words, digits] {
        for &force in FORCED {
            let options = Options { force: Some(force), ..Options::new(Profile::Fast) };
            let (head, payload) = encoded(&slices(&values), &options);
            for at in 0..head.len() {
                survive(&head[..at], &payload, values.len());
                for bit in 0..8 {
                    let mut bad = head.clone();
                    bad[at] ^= 1 << bit;
                    survive(&bad, &payload, values.len());
                }
            }
            for at in (0..payload.len()).step_by(payload.len() / 100 + 1) {
                survive(&head, &payload[..at], values.len());
                let mut bad = payload.clone();
                bad[at] ^= 0xff;
                survive(&head, &bad, values.len());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn arbitrary_bytes(
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..80),
        repeat in 1usize..30,
    ) {
        let all: Vec<&[u8]> = (0..repeat).flat_map(|_| values.iter().map(Vec::as_slice)).collect();
        round_trip(&all);
    }

    #[test]
    fn sorted_text(
        values in prop::collection::vec("[ab]{0,6}/?[ab]{0,6}[c-z]{0,2}", 1..300),
        repeat in 1usize..30,
    ) {
        let texts = (0..repeat).flat_map(|_| values.iter().map(String::as_bytes));
        let mut all: Vec<&[u8]> = texts.collect();
        round_trip(&all);
        all.sort_unstable();
        round_trip(&all);
    }

    #[test]
    fn hexadecimal_text(
        words in prop::collection::vec(any::<[u8; 12]>(), 1..80),
        bytes in 0usize..12,
        upper: bool,
    ) {
        let digits = |b: &u8| if upper { format!("{b:02X}") } else { format!("{b:02x}") };
        let text = |w: &[u8; 12]| w[..bytes].iter().map(digits).collect::<String>();
        let values: Vec<String> = words.iter().map(text).collect();
        round_trip(&slices(&values));
    }

    #[test]
    fn small_alphabets(
        values in prop::collection::vec("[a-f0-9.:]{0,20}", 1..60),
        fixed in prop::collection::vec("[A-C]-[0-9]{3}/[a-z]x", 1..60),
    ) {
        round_trip(&slices(&values));
        round_trip(&slices(&fixed));
    }
}
