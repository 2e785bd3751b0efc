//! Dictionaries of doubles as scaled integers: `value = int · 10^-exponent`, for each value.
//! Columns with such a dictionary are added up and grouped like those that are stored as decimals.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;

use crate::encoding::scaled::ScaledInts;

/// The most decimals of a value.
const MAX_DECIMALS: u8 = 6;
/// Greater integers are not looked at.
const MOST: f64 = (1u64 << 50) as f64;

/// The scaled integer of each code; code 0, null, has 0.
#[derive(Debug)]
pub struct ScaledDictionary {
    /// In the order of the codes.
    pub ints: ScaledInts,
    /// Values are `ints · 10^-exponent`, correctly rounded.
    pub exponent: u8,
    /// The greatest absolute value of the integers.
    pub most: u64,
}

impl ScaledDictionary {
    /// `None` if some value of the dictionary is no decimal.
    pub(super) fn new(dictionary: &ArrayRef) -> Option<Self> {
        let values = dictionary.as_primitive_opt::<Float64Type>()?;
        let values = values.values().get(1..)?;
        let mut exponent = 0;
        let mut scale = 1.0;
        'next: loop {
            for value in values {
                let int = (value * scale).round();
                let same = (int as i64 as f64 / scale).to_bits() == value.to_bits();
                if int.is_nan() || int.abs() > MOST || (!same && exponent == MAX_DECIMALS) {
                    return None;
                }
                if !same {
                    exponent += 1;
                    scale *= 10.0;
                    continue 'next;
                }
            }
            break;
        }
        let ints: Vec<i64> =
            std::iter::once(0).chain(values.iter().map(|v| (v * scale).round() as i64)).collect();
        let most = ints.iter().map(|int| int.unsigned_abs()).max().unwrap_or(0);
        Some(ScaledDictionary { ints: ScaledInts::new(ints, most), exponent, most })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Float64Array;

    use super::*;

    #[test]
    fn only_decimals() {
        let of = |values: Vec<f64>| {
            let values: Float64Array =
                std::iter::once(None).chain(values.into_iter().map(Some)).collect();
            ScaledDictionary::new(&(Arc::new(values) as ArrayRef))
                .map(|found| (found.ints, found.exponent))
        };
        assert_eq!(
            of(vec![-2.5, 1.0, 7.25]),
            Some((ScaledInts::Narrow(vec![0, -250, 100, 725]), 2))
        );
        let wide = vec![0, -(1 << 40), 3];
        assert_eq!(of(vec![-((1u64 << 40) as f64), 3.0]), Some((ScaledInts::Wide(wide), 0)));
        for other in [f64::NAN, f64::INFINITY, -0.0, 1.0 / 3.0, 1e300] {
            assert_eq!(of(vec![1.5, other]), None, "{other}");
        }
    }
}
