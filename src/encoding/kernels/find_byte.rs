//! Finds a byte among 64, as a bit mask: the scan for delimiters and quotes in text.
//!
//! Plain Rust cannot express "the top bit of each lane": the compiler emits a multiplication that
//! SSE2 does not have, and splitting the rows of a CSV file took about a fifth longer.

/// Bit `i` is set if byte `i` equals `wanted`.
#[inline]
pub(crate) fn find_byte(block: &[u8; 64], wanted: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of every x86-64 processor.
    let mask = unsafe { sse2(block, wanted) };
    #[cfg(not(target_arch = "x86_64"))]
    let mask = portable(block, wanted);
    mask
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn sse2(block: &[u8; 64], wanted: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    let needle = _mm_set1_epi8(wanted as i8);
    let (lanes, _) = block.as_chunks::<16>();
    let mut mask = 0;
    for (i, lane) in lanes.iter().enumerate() {
        // SAFETY: `lane` is 16 readable bytes, and the load asks for no alignment.
        let bytes = unsafe { _mm_loadu_si128(lane.as_ptr().cast()) };
        let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, needle)) as u32;
        mask |= u64::from(equal) << (16 * i);
    }
    mask
}

/// The same in machine words.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable(block: &[u8; 64], wanted: u8) -> u64 {
    let mut equal = [0_u8; 64];
    for (to, from) in equal.iter_mut().zip(block) {
        *to = if *from == wanted { 0xff } else { 0 };
    }
    let (words, _) = equal.as_chunks::<8>();
    let mut mask = 0;
    for (i, word) in words.iter().enumerate() {
        // The multiplication collects one bit of each byte in the top byte.
        let bits = u64::from_le_bytes(*word) & 0x8040_2010_0804_0201;
        mask |= (bits.wrapping_mul(0x0101_0101_0101_0101) >> 56) << (8 * i);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn masks_name_the_bytes(
            bytes in proptest::collection::vec(0_u8..4, 64),
            wanted in 0_u8..4,
        ) {
            let block = *bytes.first_chunk::<64>().unwrap();
            let expected =
                (0..64).filter(|i| block[*i] == wanted).fold(0, |mask, i| mask | 1_u64 << i);
            proptest::prop_assert_eq!(find_byte(&block, wanted), expected);
            proptest::prop_assert_eq!(portable(&block, wanted), expected);
        }
    }
}
