//! Whatever stores doubles as integers gives back the same doubles, and keeps the order it claims.

use proptest::prelude::*;

use super::float::Float;
use super::floats::{self, Floats};
use super::scaled::{Scaled, ScaledInts, Scaling};
use super::{Encoding, Options, Profile, Sink, Source};

const FORCED: [Option<Encoding>; 5] = [
    None,
    Some(Encoding::Bits),
    Some(Encoding::Alp),
    Some(Encoding::Dyadic),
    Some(Encoding::AlpRd),
];

/// Checks the view of a stream of these values, and whether there are bounds of its integers.
fn check(values: &[f64], force: Option<Encoding>) -> bool {
    let (head, payload) = encoded(values, force);
    let stream = Floats::<f64>::parse(&mut Source::new(&head, &payload), values.len()).unwrap();
    stream.scaled().is_some_and(|scaled| check_view(scaled, values, force))
}

fn check_singles(values: &[f32], force: Option<Encoding>) -> bool {
    let (head, payload) = encoded(values, force);
    let stream = Floats::<f32>::parse(&mut Source::new(&head, &payload), values.len()).unwrap();
    let doubles: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    stream.scaled().is_some_and(|scaled| check_view(scaled, &doubles, force))
}

fn encoded<F: Float>(values: &[F], force: Option<Encoding>) -> (Vec<u8>, Vec<u8>) {
    let mut sink = Sink::new();
    floats::encode(values, &Options { force, ..Options::new(Profile::Balanced) }, &mut sink);
    sink.into_parts()
}

fn check_view(scaled: Scaled<'_, '_>, values: &[f64], force: Option<Encoding>) -> bool {
    let (mut ints, all) = (Vec::<u64>::new(), 0..values.len());
    scaled.decode(all.clone(), 0, &mut ints).unwrap();
    let mut exceptions = Vec::new();
    scaled.each_exception(&all, |row, value| exceptions.push((row, value))).unwrap();
    assert_eq!(exceptions.len(), scaled.exceptions());

    let mut decoded: Vec<f64> = ints.iter().map(|int| scaled.scaling.value(*int as i64)).collect();
    for (row, value) in &exceptions {
        decoded[*row] = *value;
    }
    for (value, decoded) in values.iter().zip(&decoded) {
        assert_eq!(value.to_bits(), decoded.to_bits(), "{force:?}: {value} is {decoded}");
    }

    let (Some(min), Some(max)) = (
        values.iter().copied().min_by(f64::total_cmp),
        values.iter().copied().max_by(f64::total_cmp),
    ) else {
        return false;
    };
    let Some(bounds) = scaled.scaling.bounds(min, max) else { return false };
    let plain: Vec<(f64, i64)> = (0..values.len())
        .filter(|row| exceptions.iter().all(|(other, _)| other != row))
        .map(|row| (values[row], ints[row] as i64))
        .collect();
    let constants = values.iter().copied().filter(|value| !value.is_nan());
    let near = constants.flat_map(|v| [v, v.next_up(), v.next_down(), v * 10.0, -v]);
    for constant in near.chain([0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY]).take(200) {
        let (below, above) = scaled.scaling.around(constant, &bounds);
        for (value, int) in &plain {
            assert!(bounds.contains(int), "{force:?}: {value} is {int} of {bounds:?}");
            let order = value.total_cmp(&(constant + 0.0));
            let int = i128::from(*int);
            assert_eq!(order.is_lt(), int <= below, "{force:?}: {value} < {constant}");
            assert_eq!(order.is_gt(), int >= above, "{force:?}: {value} > {constant}");
        }
    }
    true
}

/// Generates amounts, rates, widened f32 values, and doubles that are not decimals.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-20_000i64..20_000).prop_map(|cents| cents as f64 / 100.0),
        4 => (0i64..1 << 44).prop_map(|int| int as f64 / 1e4),
        4 => (-180.0f32..180.0).prop_map(f64::from),
        1 => any::<f64>(),
        1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN, 1e15, 5e-324]),
    ]
}

proptest! {
    #[test]
    fn integers_and_exceptions_are_the_values(values in prop::collection::vec(value(), 1..300)) {
        for force in FORCED {
            check(&values, force);
        }
    }

    #[test]
    fn those_of_32_bits_are_the_values(values in prop::collection::vec(value(), 1..300)) {
        let singles: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        for force in FORCED {
            check_singles(&singles, force);
        }
    }

    #[test]
    fn decimals_of_32_bits_keep_their_order(
        ints in prop::collection::vec(-(1i32 << 22)..1 << 22, 1..300),
        exponent in 0i32..5,
    ) {
        let value = |int: &i32| (f64::from(*int) / 10f64.powi(exponent)) as f32;
        let values: Vec<f32> = ints.iter().map(value).collect();
        prop_assert!(check_singles(&values, Some(Encoding::Alp)));
        for (int, value) in ints.iter().zip(&values) {
            let scaling = Scaling::quotients(exponent as u8, true);
            prop_assert_eq!(scaling.int((*value).into()), Some(i64::from(*int)));
        }
    }

    #[test]
    fn decimals_keep_their_order(
        ints in prop::collection::vec(-(1i64 << 48)..1 << 48, 1..300),
        exponent in 0i32..5,
    ) {
        let values: Vec<f64> = ints.iter().map(|int| *int as f64 / 10f64.powi(exponent)).collect();
        prop_assert!(check(&values, Some(Encoding::Alp)));
    }

    #[test]
    fn the_integer_of_a_decimal_comes_back(int in -(1i64 << 50)..=1 << 50, exponent in 0u8..=18) {
        let scaling = Scaling::quotients(exponent, false);
        let value = scaling.value(int);
        prop_assert_eq!(scaling.int(value), Some(int));
        prop_assert!(scaling.is_nearest(int..=int));
        let fewest = Scaling::decimals_of(value, 0, false);
        prop_assert!(exponent > 6 || fewest.is_some_and(|fewest| fewest <= exponent));
    }
}

#[test]
fn coordinates_of_two_kinds_keep_their_order() {
    let degrees = |i: i32| f64::from(i * 7919 % 1_600_003) / 1e6 - 73.9;
    let one = |i: i32| match i % 2 {
        0 => (degrees(i) * 1e6).round() / 1e6,
        _ => f64::from(degrees(i) as f32),
    };
    let values: Vec<f64> = (0..3000).map(one).collect();
    assert!(check(&values, Some(Encoding::Dyadic)));
    assert!(check(&values, Some(Encoding::Alp)));
    assert!(!check(&values, Some(Encoding::Bits)), "negative doubles fall as their bits rise");
    let positive: Vec<f64> = values.iter().map(|v| -v).collect();
    assert!(check(&positive, Some(Encoding::Bits)));
}

#[test]
fn integers_are_as_narrow_as_they_may_be() {
    let ints = vec![1, -5];
    assert_eq!(ScaledInts::new(ints.clone(), 5), ScaledInts::Narrow(vec![1, -5]));
    assert_eq!(ScaledInts::new(ints.clone(), 1 << 40), ScaledInts::Wide(ints));
}
