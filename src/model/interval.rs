//! Intervals as the 128-bit numbers that are stored, whose order is that of months, then days, then
//! nanoseconds, each as a signed number.

use arrow_array::types::IntervalMonthDayNano;

const DAYS_SIGN: u32 = 1 << 31;
const NANOS_SIGN: u64 = 1 << 63;

/// The stored number of an interval.
pub(crate) fn to_number(value: IntervalMonthDayNano) -> i128 {
    let days = value.days as u32 ^ DAYS_SIGN;
    let nanoseconds = value.nanoseconds as u64 ^ NANOS_SIGN;
    i128::from(value.months) << 96 | i128::from(days) << 64 | i128::from(nanoseconds)
}

/// The interval of a stored number.
pub(crate) fn from_number(number: i128) -> IntervalMonthDayNano {
    let days = (number >> 64) as u32 ^ DAYS_SIGN;
    let nanoseconds = number as u64 ^ NANOS_SIGN;
    IntervalMonthDayNano::new((number >> 96) as i32, days as i32, nanoseconds as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_have_the_order_of_the_fields(
            a in any::<(i32, i32, i64)>(), b in any::<(i32, i32, i64)>(), same in 0..3,
        ) {
            let b = match same {
                0 => b,
                1 => (a.0, b.1, b.2),
                _ => (a.0, a.1, b.2),
            };
            let of = |(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos);
            prop_assert_eq!(to_number(of(a)).cmp(&to_number(of(b))), a.cmp(&b));
            prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
            prop_assert_eq!(from_number(to_number(of(a))), of(a));
        }

        #[test]
        fn every_number_is_an_interval(number in any::<i128>()) {
            prop_assert_eq!(to_number(from_number(number)), number);
        }
    }

    #[test]
    fn examples() {
        let of = |months, days, nanos| to_number(IntervalMonthDayNano::new(months, days, nanos));
        assert_eq!(of(0, 0, 0), 0x0000_0000_8000_0000_8000_0000_0000_0000);
        assert_eq!(of(1, 2, 3), 0x0000_0001_8000_0002_8000_0000_0000_0003);
        assert_eq!(of(i32::MIN, i32::MIN, i64::MIN), i128::MIN);
        assert_eq!(of(i32::MAX, i32::MAX, i64::MAX), i128::MAX);
    }
}
