//! Counts how often a byte occurs, for counting by a key of few values: one comparison per register
//! of rows.
//!
//! In a plain loop the compiler widens the lanes to eight bytes before it adds them, which takes
//! ten times as long.

/// Rows of an AVX2 register.
const LANES: usize = 32;

/// How many of `bytes` equal `wanted`.
pub(crate) fn occurrences(bytes: &[u8], wanted: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let (lanes, rest) = bytes.as_chunks::<LANES>();
        let found = if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as just checked.
            unsafe { avx2(lanes, wanted) }
        } else {
            // SAFETY: SSE2 is part of every x86-64 processor.
            unsafe { sse2(lanes, wanted) }
        };
        found + portable(rest, wanted)
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable(bytes, wanted)
}

fn portable(bytes: &[u8], wanted: u8) -> u64 {
    bytes.iter().filter(|byte| **byte == wanted).count() as u64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(lanes: &[[u8; LANES]], wanted: u8) -> u64 {
    use std::arch::x86_64::{
        _mm256_add_epi64, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_sad_epu8, _mm256_set1_epi8,
        _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi8,
    };

    let needle = _mm256_set1_epi8(wanted as i8);
    let mut sum = _mm256_setzero_si256();
    // A byte can count to 255.
    for some in lanes.chunks(255) {
        let mut counts = _mm256_setzero_si256();
        for lane in some {
            // SAFETY: `lane` is 32 readable bytes, and the load asks for no alignment.
            let bytes = unsafe { _mm256_loadu_si256(lane.as_ptr().cast()) };
            counts = _mm256_sub_epi8(counts, _mm256_cmpeq_epi8(bytes, needle));
        }
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(counts, _mm256_setzero_si256()));
    }
    let mut sums = [0u64; 4];
    // SAFETY: `sums` is 32 writable bytes, and the store asks for no alignment.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
    sums.iter().sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn sse2(lanes: &[[u8; LANES]], wanted: u8) -> u64 {
    use std::arch::x86_64::{
        _mm_add_epi64, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_sad_epu8, _mm_set1_epi8,
        _mm_setzero_si128, _mm_storeu_si128, _mm_sub_epi8,
    };

    let needle = _mm_set1_epi8(wanted as i8);
    let mut sum = _mm_setzero_si128();
    for some in lanes.as_flattened().chunks(255 * 16) {
        let mut counts = _mm_setzero_si128();
        for lane in some.as_chunks::<16>().0 {
            // SAFETY: `lane` is 16 readable bytes, and the load asks for no alignment.
            let bytes = unsafe { _mm_loadu_si128(lane.as_ptr().cast()) };
            counts = _mm_sub_epi8(counts, _mm_cmpeq_epi8(bytes, needle));
        }
        sum = _mm_add_epi64(sum, _mm_sad_epu8(counts, _mm_setzero_si128()));
    }
    let mut sums = [0u64; 2];
    // SAFETY: `sums` is 16 writable bytes, and the store asks for no alignment.
    unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), sum) };
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_are_counted() {
        for rows in [0, 1, 31, 32, 33, 255 * 32, 255 * 32 + 77, 70_000] {
            let bytes: Vec<u8> =
                (0..rows as u64).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 7) as u8 % 5).collect();
            for wanted in 0..6 {
                let expected = portable(&bytes, wanted);
                assert_eq!(occurrences(&bytes, wanted), expected);
                #[cfg(target_arch = "x86_64")]
                {
                    let (lanes, rest) = bytes.as_chunks::<LANES>();
                    // SAFETY: SSE2 is part of every x86-64 processor.
                    let found = unsafe { sse2(lanes, wanted) };
                    assert_eq!(found + portable(rest, wanted), expected);
                }
            }
            assert_eq!(occurrences(&vec![7; rows], 7), rows as u64);
        }
    }
}
