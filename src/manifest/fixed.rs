//! Bounds reduced to eight bytes, whose order as `u64` is the order of the values.
//!
//! | values | word | exact |
//! | --- | --- | --- |
//! | unsigned, bool | the value | always |
//! | signed, dates, times, decimals | the value with its sign bit flipped | if it fits 64 bits |
//! | floats | binary64 in `totalOrder`: negative ones with all bits flipped, others with the sign bit | always |
//! | text, binary | the first 8 bytes, big-endian, padded with zeros | up to 8 bytes, the last of them not zero |
//!
//! If a value does not fit, a minimum is rounded down (text is truncated) and a maximum is rounded
//! up; if there is no such word, there is no bound.

use crate::block::Bound;
use crate::model::{DataType, Physical, Scalar};

const SIGN: u64 = 1 << 63;

/// Whether a bound is the minimum or the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Min,
    Max,
}

/// The word of a bound, and whether it represents the exact value.
pub(super) fn to_word(bound: &Bound, data_type: &DataType, side: Side) -> Option<(u64, bool)> {
    let (word, whole) = match (&bound.value, data_type.physical()) {
        (Scalar::Int(v), Physical::Bool | Physical::Word { signed: false, .. }) => {
            (u64::try_from(*v).ok()?, true)
        }
        (Scalar::Int(v), Physical::Word { .. } | Physical::Wide) => match i64::try_from(*v) {
            Ok(v) => (v as u64 ^ SIGN, true),
            // The nearest word to a value beyond 64 bits is a bound on one side only.
            Err(_) if *v > 0 && side == Side::Min => (u64::MAX, false),
            Err(_) if *v < 0 && side == Side::Max => (0, false),
            Err(_) => return None,
        },
        (Scalar::Float(v), Physical::Float32 | Physical::Float64) => {
            let bits = v.to_bits();
            (if bits & SIGN != 0 { !bits } else { bits | SIGN }, true)
        }
        (Scalar::Bytes(v), Physical::Bytes) => prefix(v, side)?,
        _ => return None,
    };
    Some((word, whole && bound.exact))
}

fn prefix(value: &[u8], side: Side) -> Option<(u64, bool)> {
    let mut first = [0; 8];
    let kept = value.len().min(8);
    first[..kept].copy_from_slice(&value[..kept]);
    let word = u64::from_be_bytes(first);
    let whole = value.len() <= 8 && value.last() != Some(&0);
    match side {
        _ if whole => Some((word, true)),
        Side::Min => Some((word, false)),
        Side::Max => word.checked_add(1).map(|word| (word, false)),
    }
}

/// The value of a word; `None` for a type without values.
pub(super) fn from_word(word: u64, data_type: &DataType) -> Option<Scalar> {
    Some(match data_type.physical() {
        Physical::Null => return None,
        Physical::Bool | Physical::Word { signed: false, .. } => Scalar::Int(i128::from(word)),
        Physical::Word { .. } | Physical::Wide => Scalar::Int(i128::from((word ^ SIGN) as i64)),
        Physical::Float32 | Physical::Float64 => {
            Scalar::Float(f64::from_bits(if word & SIGN != 0 { word ^ SIGN } else { !word }))
        }
        Physical::Bytes => {
            let bytes = word.to_be_bytes();
            let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            Scalar::Bytes(bytes[..length].into())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    fn check(value: Scalar, data_type: &DataType) {
        let bound = Bound { value: value.clone(), exact: true };
        for side in [Side::Min, Side::Max] {
            let Some((word, exact)) = to_word(&bound, data_type, side) else { continue };
            let back = from_word(word, data_type).unwrap();
            let order = back.total_cmp(&value).unwrap();
            if exact {
                assert_eq!(order, Ordering::Equal, "{value:?}");
            } else {
                let allowed = if side == Side::Min { Ordering::Greater } else { Ordering::Less };
                assert_ne!(order, allowed, "{value:?} → {back:?}");
            }
            // Merging chunks converts bounds again, which must not change them.
            let again = to_word(&Bound { value: back, exact }, data_type, side);
            assert_eq!(again, Some((word, exact)), "{value:?}");
        }
    }

    fn word(value: &Scalar, data_type: &DataType) -> u64 {
        to_word(&Bound { value: value.clone(), exact: true }, data_type, Side::Min).unwrap().0
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 500, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn bounds_hold_and_are_stable(
            bytes in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 0..12
            ),
            wide in any::<i128>(), long in any::<i64>(),
            unsigned in any::<u64>(), bits in any::<u64>(),
        ) {
            check(Scalar::Bytes(bytes.into()), &DataType::Utf8);
            check(Scalar::Int(wide), &DataType::Decimal { precision: 38, scale: 2 });
            check(Scalar::Int(long.into()), &DataType::Decimal { precision: 38, scale: 2 });
            check(Scalar::Int(long.into()), &DataType::Int64);
            check(Scalar::Int(unsigned.into()), &DataType::UInt64);
            check(Scalar::Float(f64::from_bits(bits)), &DataType::Float64);
        }

        #[test]
        fn words_keep_order(a in any::<i64>(), b in any::<i64>()) {
            let float = |bits: i64| Scalar::Float(f64::from_bits(bits as u64));
            let (x, y) = (float(a), float(b));
            let order = word(&x, &DataType::Float64).cmp(&word(&y, &DataType::Float64));
            prop_assert_eq!(Some(order), x.total_cmp(&y));
            let (x, y) = (Scalar::Int(a.into()), Scalar::Int(b.into()));
            let order = word(&x, &DataType::Int64).cmp(&word(&y, &DataType::Int64));
            prop_assert_eq!(order, a.cmp(&b));
        }
    }
}
