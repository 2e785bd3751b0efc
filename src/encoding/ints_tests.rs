//! Round trips, random access and damaged bytes, for every encoding of integers in turn.

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use crate::encoding::Profile;
use crate::limits::VECTOR;

const ALL: [Encoding; 7] = [
    Encoding::Plain,
    Encoding::Constant,
    Encoding::RunLength,
    Encoding::Sequence,
    Encoding::Frame,
    Encoding::Delta,
    Encoding::Planes,
];

fn written<W: Word>(values: &[W], signed: bool, options: &Options) -> (Vec<u8>, Vec<u8>) {
    let mut sink = Sink::new();
    // A buffer in front, so that offsets are not all zero.
    sink.buffer(&[7; 5], super::super::Cuts::Every(5), super::super::Compression::Packed, options);
    encode(values, signed, options, &mut sink);
    sink.into_parts()
}

fn open<'a, W: Word>(head: &'a [u8], payload: &'a [u8], rows: usize) -> Result<Ints<'a, W>> {
    let mut source = Source::new(head, payload);
    source.buffer()?;
    let ints = Ints::parse(&mut source, rows)?;
    source.cursor.finish()?;
    Ok(ints)
}

/// Ranges of single values, and from each end: checks the mask of the rows inside, and where only
/// outliers can be inside, the outliers.
fn check_ranges<W: Word>(ints: &Ints<'_, W>, values: &[W], signed: bool) {
    let number =
        |v: W| if signed { i128::from(Word::to_i64(v)) } else { i128::from(Word::to_u64(v)) };
    let (Some(least), Some(greatest)) = (
        values.iter().copied().min_by_key(|v| number(*v)),
        values.iter().copied().max_by_key(|v| number(*v)),
    ) else {
        return;
    };
    for value in values.iter().step_by(values.len() / 5 + 1) {
        for (low, high) in [(*value, *value), (least, *value), (*value, greatest)] {
            let inside = |row: &usize| (number(low)..=number(high)).contains(&number(values[*row]));
            for start in [0, VECTOR].into_iter().filter(|start| *start < values.len()) {
                for refine in [false, true] {
                    let before = |row: usize| u8::from(!refine || row.is_multiple_of(3));
                    let mut mask: Vec<u8> = (start..values.len()).map(before).collect();
                    let bounds = (number(low), number(high));
                    if ints
                        .select_range(start..values.len(), bounds, signed, refine, &mut mask)
                        .unwrap()
                    {
                        let expected =
                            (start..values.len()).map(|row| before(row) & u8::from(inside(&row)));
                        assert_eq!(
                            mask,
                            expected.collect::<Vec<_>>(),
                            "{:?} {low:?} {high:?}",
                            ints.encoding()
                        );
                    }
                }
            }
            for refine in [false, true] {
                let before = |row: usize| u8::from(!refine || row.is_multiple_of(3));
                let mut mask: Vec<u8> = (0..values.len()).map(before).collect();
                let passes = |v: W| u8::from((number(low)..=number(high)).contains(&number(v)));
                if ints.select_runs(0..values.len(), refine, &mut mask, passes).unwrap() {
                    let expected =
                        (0..values.len()).map(|row| before(row) & u8::from(inside(&row)));
                    assert_eq!(mask, expected.collect::<Vec<_>>());
                }
            }
            if !ints.only_outliers(number(low), number(high), signed) {
                continue;
            }
            let mut found = Vec::new();
            let span = Word::sub(high, low);
            ints.outliers_in_range(0..values.len(), low, span, |row| found.push(row)).unwrap();
            assert_eq!(found, (0..values.len()).filter(inside).collect::<Vec<_>>());
        }
    }
}

fn round_trip<W: Word>(values: &[W], signed: bool, options: &Options) -> Encoding {
    let (head, payload) = written(values, signed, options);
    // Single rows, before others of the block have been asked for.
    let step = (values.len() / 5).max(1);
    let few: Vec<u32> = (0..values.len()).skip(step / 2).step_by(step).map(|r| r as u32).collect();
    let expected: Vec<W> = few.iter().map(|row| values[*row as usize]).collect();
    let (ints, mut out) = (open::<W>(&head, &payload, values.len()).unwrap(), Vec::new());
    for _ in 0..3 {
        out.clear();
        ints.gather(&few, &mut out).unwrap();
        assert_eq!(out, expected, "{:?}", ints.encoding());
    }
    let ints = open::<W>(&head, &payload, values.len()).unwrap();
    let mut out = vec![W::one()];
    ints.decode(0..values.len(), &mut out).unwrap();
    assert!(out[1..] == *values, "{:?}", ints.encoding());
    for start in (0..values.len()).step_by(VECTOR) {
        for end in
            [start, start + 1, start + VECTOR - 1, start + VECTOR, start + VECTOR + 3, values.len()]
        {
            if (start..=values.len()).contains(&end) {
                out.clear();
                ints.decode(start..end, &mut out).unwrap();
                assert_eq!(out, values[start..end]);
            }
        }
    }
    narrow::<W, u8>(&ints, values, signed);
    narrow::<W, u16>(&ints, values, signed);
    narrow::<W, u32>(&ints, values, signed);
    narrow::<W, u64>(&ints, values, signed);
    for row in (0..values.len()).step_by(61).chain(values.len().checked_sub(1)) {
        assert_eq!(ints.get(row).unwrap(), values[row]);
    }
    let some: Vec<u32> =
        (0..values.len() as u32).filter(|row| row % 7 == 3 || row % 1000 > 990).collect();
    out.clear();
    ints.gather(&some, &mut out).unwrap();
    assert_eq!(out, some.iter().map(|row| values[*row as usize]).collect::<Vec<_>>());
    check_ranges(&ints, values, signed);
    assert!(ints.gather(&[values.len() as u32], &mut out).is_err());
    assert!(ints.get(values.len()).is_err());
    assert!(ints.decode(0..values.len() + 1, &mut out).is_err());
    ints.describe(&mut String::new());
    ints.encoding()
}

fn narrow<W: Word, N: Word>(ints: &Ints<'_, W>, values: &[W], signed: bool) {
    let extend = |v: W| if signed { Word::to_i64(v) as u64 } else { Word::to_u64(v) };
    let bias = values.first().map_or(3, |v| extend(*v)).wrapping_sub(1);
    for start in (0..values.len()).step_by(VECTOR) {
        let end = (start + VECTOR + 7).min(values.len());
        let mut out: Vec<N> = Vec::new();
        ints.decode_narrow(start..end, bias, signed, &mut out).unwrap();
        let expected =
            values[start..end].iter().map(|v| N::from_u64(extend(*v).wrapping_sub(bias)));
        assert!(out.iter().copied().eq(expected), "{:?}", ints.encoding());
    }
}

fn all_options() -> Vec<Options> {
    let mut all = vec![
        Options::new(Profile::Fast),
        Options::new(Profile::Balanced),
        Options::new(Profile::Small),
    ];
    all.extend(ALL.map(|e| Options { force: Some(e), ..Options::new(Profile::Balanced) }));
    all
}

/// Values of one of the shapes that columns have.
fn shaped<W: Word>(shape: u8, rows: usize, seed: u64) -> Vec<W> {
    let mut state = seed | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let base = random();
    let mut walk = base;
    let value = |i: u64| match shape {
        0 => random(),
        1 => base.wrapping_add(random() >> 57),
        2 => base.wrapping_add((random() >> 54) * 60_000_000),
        3 => {
            walk = walk.wrapping_add((random() >> 62) * 1000);
            walk
        }
        4 => base.wrapping_add(i / 37),
        5 if random() >> 57 == 0 => random(),
        5 => 100u64.wrapping_sub(random() >> 58),
        6 => [0, u64::MAX, 1 << 63, (1 << 63) - 1, 128, 127][random() as usize % 6],
        7 => ((random() >> 60) * (random() >> 56)) >> (random() >> 61),
        8 => base.wrapping_add(i.wrapping_mul(base >> 7)),
        _ => base,
    };
    (0..rows as u64).map(value).map(W::from_u64).collect()
}

fn all_widths(shape: u8, rows: usize, seed: u64, signed: bool, options: &Options) {
    round_trip::<u8>(&shaped(shape, rows, seed), signed, options);
    round_trip::<u16>(&shaped(shape, rows, seed), signed, options);
    round_trip::<u32>(&shaped(shape, rows, seed), signed, options);
    round_trip::<u64>(&shaped(shape, rows, seed), signed, options);
}

#[test]
fn every_encoding_at_every_edge() {
    for options in all_options() {
        for rows in [0, 1, 2, 1023, 1024, 1025, 3000] {
            for shape in 0..10 {
                all_widths(shape, rows, 11 + rows as u64, shape % 2 == 0, &options);
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 60, failure_persistence: None, ..Config::default() })]

    #[test]
    fn random_shapes_round_trip(
        shape in 0u8..10, rows in 0usize..5000, seed: u64, signed: bool, which in 0usize..10,
    ) {
        all_widths(shape, rows, seed, signed, &all_options()[which]);
    }

    #[test]
    fn arbitrary_values_round_trip(values: Vec<u64>, signed: bool, which in 0usize..10) {
        round_trip(&values, signed, &all_options()[which]);
    }

    #[test]
    fn damage_never_panics(
        shape in 0u8..10, rows in 1usize..2500, seed: u64, which in 0usize..10,
        flips in prop::collection::vec((0usize..1 << 20, 0u8..8), 1..40),
    ) {
        let values: Vec<u32> = shaped(shape, rows, seed);
        let (head, payload) = written(&values, true, &all_options()[which]);
        for (at, bit) in flips {
            let (mut bad_head, mut bad_payload) = (head.clone(), payload.clone());
            match at % 3 {
                0 => bad_payload[at / 3 % payload.len()] ^= 1 << bit,
                1 => bad_payload.truncate(at % payload.len()),
                _ => bad_head[at / 3 % head.len()] ^= 1 << bit,
            }
            touch::<u32>(&bad_head, &bad_payload, rows);
            touch::<u64>(&head[..at % head.len()], &payload, rows);
            touch::<u8>(&head, &payload, rows / 2);
        }
    }
}

fn touch<W: Word>(head: &[u8], payload: &[u8], rows: usize) {
    let Ok(ints) = open::<W>(head, payload, rows) else { return };
    let mut out = Vec::new();
    let _ = ints.decode(0..rows, &mut out);
    assert!(out.capacity() <= 4 * rows + 4 * VECTOR);
    let start = (rows / 2) / VECTOR * VECTOR;
    let _ = ints.decode(start..rows, &mut out);
    let _ = ints.get(rows / 2);
    let _ = ints.get(rows.saturating_sub(1));
}

#[test]
fn the_choice_is_the_obvious_one() {
    let options = Options::new(Profile::Balanced);
    let rows = 65_536;
    let mut seconds = shaped::<u64>(2, rows, 5);
    assert_eq!(round_trip(&seconds, true, &options), Encoding::Frame);
    let (head, payload) = written(&seconds, true, &options);
    assert!(head.len() + payload.len() < rows * 10 / 8 + 200, "a common factor costs nothing");
    seconds.sort_unstable();
    assert_eq!(round_trip(&shaped::<u64>(3, rows, 5), true, &options), Encoding::Delta);
    assert_eq!(round_trip(&shaped::<u64>(8, rows, 5), true, &options), Encoding::Sequence);
    assert_eq!(round_trip(&shaped::<u64>(0, rows, 5), true, &options), Encoding::Plain);
    assert_eq!(round_trip(&shaped::<u64>(4, rows, 5), true, &options), Encoding::RunLength);
    assert_eq!(round_trip(&shaped::<u32>(5, rows, 5), true, &options), Encoding::Frame);
    let (head, payload) = written(&shaped::<u32>(5, rows, 5), true, &options);
    assert!(head.len() + payload.len() < rows * 7 / 8, "outliers are patched: {}", payload.len());
    let small = Options::new(Profile::Small);
    assert_eq!(round_trip(&shaped::<u32>(7, rows, 5), true, &small), Encoding::Planes);
}

/// The low bytes depend on the high ones, so that they are grouped by them.
#[test]
fn single_rows_of_grouped_planes_are_looked_up() {
    let values: Vec<u64> = (0..40_000u64)
        .map(|row| {
            let noise = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let high = noise % 11;
            (high << 8) | ((high * 23 + noise / 11 % 20) % 256)
        })
        .collect();
    let options = Options { force: Some(Encoding::Planes), ..Options::new(Profile::Balanced) };
    assert_eq!(round_trip(&values, true, &options), Encoding::Planes);
    let (head, payload) = written(&values, true, &options);
    let ints = open::<u64>(&head, &payload, values.len()).unwrap();
    let Ints::Planes(planes) = &ints else { panic!("{:?}", ints.encoding()) };
    assert!(planes.has_grouped(), "{planes:?}");
    for row in [39_999, 0, 17, 1024, 20_000, 5, 30_001, 12_345, 7, 8, 9] {
        assert_eq!(ints.get(row).unwrap(), values[row]);
    }
}
