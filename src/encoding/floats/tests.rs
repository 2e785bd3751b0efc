//! Every bit pattern round-trips under every encoding, and damaged bytes never panic.

use super::*;
use crate::encoding::Profile;
use crate::limits::VECTOR;
use proptest::prelude::*;

const FORCED: [Option<Encoding>; 12] = [
    None,
    Some(Encoding::Bits),
    Some(Encoding::Alp),
    Some(Encoding::AlpRd),
    Some(Encoding::Dyadic),
    Some(Encoding::Plain),
    Some(Encoding::Constant),
    Some(Encoding::RunLength),
    Some(Encoding::Sequence),
    Some(Encoding::Frame),
    Some(Encoding::Delta),
    Some(Encoding::Planes),
];

fn options(force: Option<Encoding>) -> Options {
    Options { force, ..Options::new(Profile::Balanced) }
}

fn encoded<F: Float>(values: &[F], options: &Options) -> (Vec<u8>, Vec<u8>) {
    let mut sink = Sink::new();
    encode(values, options, &mut sink);
    sink.into_parts()
}

fn words<F: Float>(values: &[F]) -> Vec<u64> {
    values.iter().map(|v| v.to_word().to_u64()).collect()
}

fn round_trip<F: Float>(values: &[F], force: Option<Encoding>) -> Encoding {
    let (head, payload) = encoded(values, &options(force));
    let mut source = Source::new(&head, &payload);
    let floats = Floats::<F>::parse(&mut source, values.len()).unwrap();
    source.cursor.finish().unwrap();
    assert_eq!(floats.rows(), values.len());
    let mut out = vec![F::default()];
    floats.decode(0..values.len(), &mut out).unwrap();
    let expected = words(values);
    assert_eq!(words(&out[1..]), expected, "{force:?}");
    for start in (0..=values.len()).step_by(VECTOR) {
        for end in [start, start + 1, start + VECTOR, values.len()] {
            let end = end.clamp(start, values.len());
            out.clear();
            floats.decode(start..end, &mut out).unwrap();
            assert_eq!(words(&out), expected[start..end], "{force:?} {start}..{end}");
        }
    }
    for row in (0..values.len()).step_by(37).chain(values.len().checked_sub(1)) {
        assert_eq!(
            floats.get(row).unwrap().to_word().to_u64(),
            expected[row],
            "{force:?} row {row}"
        );
    }
    let rows: Vec<u32> = (0..values.len() as u32).filter(|row| row % 3 == 0).collect();
    out.clear();
    floats.gather(&rows, &mut out).unwrap();
    assert_eq!(
        words(&out),
        rows.iter().map(|row| expected[*row as usize]).collect::<Vec<_>>(),
        "{force:?}"
    );
    assert!(floats.gather(&[0, values.len() as u32], &mut out).is_err());
    assert!(floats.get(values.len()).is_err());
    assert!(floats.decode(0..values.len() + 1, &mut out).is_err());
    let mut text = String::new();
    floats.describe(&mut text);
    assert!(text.starts_with(floats.encoding().name()), "{text}");
    floats.encoding()
}

fn round_trips<F: Float>(values: &[F]) {
    for force in FORCED {
        let used = round_trip(values, force);
        if let Some(Encoding::Alp | Encoding::AlpRd | Encoding::Dyadic | Encoding::Bits) = force {
            assert_eq!(Some(used), force);
        }
    }
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..40, Just(1023), Just(1024), Just(1025), Just(2048), 2049usize..5000]
}

/// One value of a kind; the numbers behind it are random.
fn make(kind: u8, a: u64, special: bool) -> f64 {
    const SPECIALS: [f64; 10] = [
        -0.0,
        0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        1e18,
        9_007_199_254_740_993.0,
    ];
    if special && a.is_multiple_of(7) {
        return SPECIALS[(a >> 8) as usize % SPECIALS.len()];
    }
    let small = (a >> 40) as i64 - (1 << 23);
    match kind {
        0..=6 => small as f64 / 10f64.powi(i32::from(kind)),
        7 => f64::from_bits(a),
        8 => f64::from((small as f32) / 1e5),
        9 => (a >> 11) as f64,
        // Decimals and widened f32 values alternate.
        10 if a & 1 == 0 => small as f64 / 1e6,
        10 => f64::from(small as f32 / 1e6),
        11 => 1.0 + (a >> 12) as f64 / (1u64 << 52) as f64,
        _ => f64::from((a >> 62) as u32),
    }
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    (lengths(), 0u8..13, any::<bool>(), any::<u64>()).prop_map(|(n, kind, special, seed)| {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        (0..n).map(|_| make(kind, next(), special)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn doubles_come_back(values in numbers()) {
        round_trips(&values);
    }

    #[test]
    fn singles_come_back(values in numbers(), raw in any::<bool>()) {
        let single = |v: &f64| if raw { f32::from_bits(v.to_bits() as u32) } else { *v as f32 };
        round_trips(&values.iter().map(single).collect::<Vec<f32>>());
    }

    #[test]
    fn damage_is_an_error_or_other_values(
        values in numbers(), at in any::<u32>(), cut in any::<bool>(),
    ) {
        for force in FORCED {
            let (mut head, mut payload) = encoded(&values, &options(force));
            let at = at as usize % (head.len() + payload.len());
            let (part, at) =
                if at < head.len() { (&mut head, at) } else { (&mut payload, at - head.len()) };
            if cut { part.truncate(at) } else { part[at] ^= 1 << (at % 8) }
            survive(&head, &payload, values.len());
        }
    }
}

fn survive(head: &[u8], payload: &[u8], rows: usize) {
    if let Ok(floats) = Floats::<f64>::parse(&mut Source::new(head, payload), rows) {
        let _ = floats.decode(0..rows, &mut Vec::new());
        let _ = floats.decode(rows / VECTOR * VECTOR..rows, &mut Vec::new());
        let _ = floats.get(rows / 2);
        floats.describe(&mut String::new());
    }
}

#[test]
fn every_flip_and_truncation_of_a_head_is_survived() {
    let mut values: Vec<f64> = (0..1500).map(|i| f64::from(i % 700) / 100.0).collect();
    (values[3], values[1100], values[1499]) = (f64::NAN, -0.0, 1.0 / 3.0);
    for force in [Encoding::Alp, Encoding::AlpRd, Encoding::Bits] {
        let (head, payload) = encoded(&values, &options(Some(force)));
        for at in 0..head.len() {
            survive(&head[..at], &payload, values.len());
            for bit in 0..8 {
                let mut damaged = head.clone();
                damaged[at] ^= 1 << bit;
                survive(&damaged, &payload, values.len());
            }
        }
    }
}

fn alp_of<F: Float>(values: &[F]) -> (u8, usize) {
    let (head, payload) = encoded(values, &options(Some(Encoding::Alp)));
    match Floats::<F>::parse(&mut Source::new(&head, &payload), values.len()).unwrap() {
        Floats::Alp(alp) => (alp.scale.exponent(), alp.stored.exceptions.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn decimals_need_no_exceptions() {
    for (places, step) in
        (0..=9).flat_map(|places| [(places, 37), (places, 11_927), (places, 911_927_777i64)])
    {
        let values: Vec<f64> =
            (0..20_000).map(|i| (i * step - 500_000) as f64 / 10f64.powi(places)).collect();
        let (exponent, exceptions) = alp_of(&values);
        // Ints of 44 bits leave too few for the head.
        let most = if step > 1 << 20 { 100 } else { 0 };
        assert!(
            exponent == places as u8 && exceptions <= most,
            "10^-{exponent}, {exceptions} exceptions"
        );
        if step == 37 {
            let singles: Vec<f32> = values.iter().map(|&v| v as f32).collect();
            assert_eq!(alp_of(&singles), (places as u8, 0), "f32");
        }
    }
}

#[test]
fn decoded_alp_rises_with_its_ints() {
    let values: Vec<f64> = (0..3000).map(|i| f64::from(i) / 1e3).collect();
    let (head, payload) = encoded(&values, &options(Some(Encoding::Alp)));
    let Floats::Alp(alp) = Floats::<f64>::parse(&mut Source::new(&head, &payload), 3000).unwrap()
    else {
        panic!()
    };
    for start in [0u64, 1 << 20, 1 << 29, 1 << 33, (1 << 50) - 9] {
        for int in (start..start + 5000).filter(|&i| i < 1 << 51) {
            let [low, high] = [int, int + 1].map(|int| alp.scale.decode::<f64>(int));
            assert!(low <= high, "{int}");
        }
    }
}

/// The encoding chosen for a block, and its bytes per value.
fn chosen<F: Float>(values: &[F]) -> (Encoding, f64) {
    let (head, payload) = encoded(values, &options(None));
    let floats = Floats::<F>::parse(&mut Source::new(&head, &payload), values.len()).unwrap();
    (floats.encoding(), (head.len() + payload.len()) as f64 / values.len() as f64)
}

#[test]
fn the_choice_finds_what_the_values_were() {
    const ROWS: u64 = 20_000;
    let noise = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 ^ i;
    let block = |make: &dyn Fn(u64) -> f64| (0..ROWS).map(|i| make(noise(i))).collect::<Vec<f64>>();
    let cents = block(&|r| (r % 8000) as f64 / 100.0);
    let degrees = block(&|r| (73_900_000.0 + (r % 200_000) as f64) / -1e6);
    let narrow = |r: u64| f64::from(-73.9f32 - (r % 30_000) as f32 / 1e5);
    let outliers = block(&|r| if r.is_multiple_of(97) { 0.0 } else { narrow(r) });
    let measured =
        block(&|r| 20.0 + (r % (1 << 44)) as f64 / (1u64 << 43) as f64 * std::f64::consts::PI);
    let singles: Vec<f32> = cents.iter().map(|&v| v as f32).collect();
    for ((encoding, bytes), expected, most) in [
        (chosen(&cents), Encoding::Alp, 1.7),
        (chosen(&singles), Encoding::Alp, 1.7),
        (chosen(&degrees), Encoding::Alp, 2.4),
        (chosen(&block(&narrow)), Encoding::Bits, 2.2),
        (chosen(&outliers), Encoding::Bits, 2.4),
        (chosen(&vec![1.0 / 3.0; 20_000]), Encoding::Bits, 0.01),
    ] {
        assert!(encoding == expected && bytes <= most, "{encoding:?} with {bytes} bytes a value");
    }
    assert!(chosen(&measured).1 < 7.0);
}

#[test]
fn right_parts_stay_right() {
    let mut head = crate::bytes::Writer::new();
    head.u8(Encoding::AlpRd as u8);
    head.u8(52);
    head.u8(1);
    head.u16(0x3FF);
    for constant in [0u64, 1 << 51] {
        head.u8(Encoding::Constant as u8);
        head.u64(constant);
    }
    head.u32(0);
    let mut head = head.into_vec();
    let decode = |head: &[u8]| {
        let floats = Floats::<f64>::parse(&mut Source::new(head, &[]), 3).unwrap();
        let mut out = Vec::new();
        (floats.decode(0..3, &mut out).map(|()| out), floats.get(2))
    };
    let (all, one) = decode(&head);
    assert_eq!((all.unwrap(), one.unwrap()), (vec![1.5; 3], 1.5));
    // The right part's bit 51 becomes bit 52, which belongs to the left part.
    let at = head.len() - 4 - 2;
    assert_eq!(head[at], 0x08);
    head[at] = 0x10;
    let (all, one) = decode(&head);
    assert!(all.is_err() && one.is_err());
}
