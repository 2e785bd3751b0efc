//! Sums of doubles with their rounding errors (Knuth's two-sum), many additions at a time.

/// Independent partial sums, so that an addition does not wait for the previous one.
const LANES: usize = 16;

/// The sum of some values, and its rounding error.
pub(crate) fn sum(values: &[f64]) -> (f64, f64) {
    let (some, rest) = values.as_chunks::<LANES>();
    let (sums, losses) = lanes(some);
    let (mut all, mut all_lost) = (0.0, losses.iter().sum());
    sums.iter().chain(rest).for_each(|value| add(&mut all, &mut all_lost, *value));
    (all, all_lost)
}

/// The sum of each lane, and its rounding error.
fn lanes(values: &[[f64; LANES]]) -> ([f64; LANES], [f64; LANES]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just checked.
        return unsafe { avx2(values) };
    }
    portable(values)
}

/// The same loop with four doubles per register. The compiler would process them one by one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(values: &[[f64; LANES]]) -> ([f64; LANES], [f64; LANES]) {
    use std::arch::x86_64::{__m256d, _mm256_add_pd, _mm256_setzero_pd, _mm256_sub_pd};
    let (mut sums, mut losses) =
        ([_mm256_setzero_pd(); LANES / 4], [_mm256_setzero_pd(); LANES / 4]);
    for values in values {
        let values: [__m256d; LANES / 4] = bytemuck::must_cast(*values);
        for ((sum, lost), value) in sums.iter_mut().zip(&mut losses).zip(values) {
            // As in `add`.
            let new = _mm256_add_pd(*sum, value);
            let part = _mm256_sub_pd(new, *sum);
            let of_sum = _mm256_sub_pd(*sum, _mm256_sub_pd(new, part));
            *lost = _mm256_add_pd(*lost, _mm256_add_pd(of_sum, _mm256_sub_pd(value, part)));
            *sum = new;
        }
    }
    (bytemuck::must_cast(sums), bytemuck::must_cast(losses))
}

fn portable(values: &[[f64; LANES]]) -> ([f64; LANES], [f64; LANES]) {
    let (mut sums, mut losses) = ([0.0; LANES], [0.0; LANES]);
    for values in values {
        for ((sum, lost), value) in sums.iter_mut().zip(&mut losses).zip(values) {
            add(sum, lost, *value);
        }
    }
    (sums, losses)
}

/// Adds a value to `sum`, and the rounding error of that addition to `lost`.
#[inline(always)]
pub(crate) fn add(sum: &mut f64, lost: &mut f64, value: f64) {
    let new = *sum + value;
    let part = new - *sum;
    *lost += (*sum - (new - part)) + (value - part);
    *sum = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(
            ints in proptest::collection::vec(-1_000_000i64..1_000_000, 0..200),
            power in 0i32..60,
        ) {
            // The large value makes each single addition lose something.
            let large = 2f64.powi(power + 40);
            let mut values: Vec<f64> = ints.iter().map(|int| *int as f64 / 1024.0).collect();
            values.insert(values.len() / 2, large);
            values.push(-large);
            let expected = ints.iter().sum::<i64>() as f64 / 1024.0;
            let (all, lost) = sum(&values);
            proptest::prop_assert_eq!(all + lost, expected);
            let (some, _) = values.as_chunks::<LANES>();
            proptest::prop_assert_eq!(lanes(some), portable(some));
        }
    }
}
