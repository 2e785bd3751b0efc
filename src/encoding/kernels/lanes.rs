//! Unpacking full vectors of 1,024 codes with AVX2. The `fastlanes` crate compiles its loops only
//! for the baseline processor.
//!
//! In the FastLanes order a row of 128 bytes of packed words holds a row of codes, or their low
//! parts, with the high parts at the bottom of the next row. All codes of a row are shifted by the
//! same distance, and are contiguous once unpacked.

use std::borrow::Cow;

use fastlanes::BitPacking;

use crate::limits::VECTOR;

/// A word in whose lanes codes are packed.
pub trait Lane: BitPacking + bytemuck::Pod {
    /// Unpacks the codes of a full vector; `width` is 1 to the bits of the word. Returns false,
    /// with `codes` partly written, if the number of bytes is wrong.
    #[must_use]
    fn unpack_vector(bytes: &[u8], width: usize, codes: &mut [Self; VECTOR]) -> bool;
}

macro_rules! lane {
    ($word:ty, $avx2:path) => {
        impl Lane for $word {
            fn unpack_vector(bytes: &[u8], width: usize, codes: &mut [Self; VECTOR]) -> bool {
                #[cfg(target_arch = "x86_64")]
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2, as just checked.
                    return unsafe { $avx2(bytes, width, codes) };
                }
                portable(bytes, width, codes)
            }
        }
    };
}

lane!(u8, avx2::bytes);
lane!(u16, avx2::shorts);
lane!(u32, avx2::words);
lane!(u64, avx2::longs);

fn portable<L: Lane>(bytes: &[u8], width: usize, codes: &mut [L; VECTOR]) -> bool {
    // In place if aligned, else a copy.
    let words: Cow<'_, [L]> = match bytemuck::try_cast_slice(bytes) {
        Ok(words) => Cow::Borrowed(words),
        Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(bytes)),
    };
    let bits = 8 * size_of::<L>();
    if !(1..=bits).contains(&width) || words.len() != VECTOR * width / bits {
        return false;
    }
    // SAFETY: the width fits the lane and the input has exactly 1,024 · width / bits words, both
    // just checked; the output is an array of 1,024.
    unsafe { L::unchecked_unpack(width, &words, codes) };
    true
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_cvtsi32_si128, _mm256_and_si256, _mm256_or_si256, _mm256_set1_epi8,
        _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_sll_epi16,
        _mm256_sll_epi32, _mm256_sll_epi64, _mm256_srl_epi16, _mm256_srl_epi32, _mm256_srl_epi64,
    };

    use crate::encoding::kernels::bitpack::ORDER;
    use crate::limits::VECTOR;

    /// Bytes of a row of words or codes.
    const ROW: usize = 128;
    /// The registers that a row fills.
    type Row = [__m256i; ROW / size_of::<__m256i>()];

    /// `$all` fills a register with one word; `$right` and `$left` shift its words. No instruction
    /// shifts bytes, so they are shifted in pairs.
    macro_rules! unpack {
        ($name:ident, $word:ty, $all:ident, $right:ident, $left:ident) => {
            #[target_feature(enable = "avx2")]
            pub(super) fn $name(bytes: &[u8], width: usize, codes: &mut [$word; VECTOR]) -> bool {
                const BITS: usize = <$word>::BITS as usize;
                let (rows, rest) = bytes.as_chunks::<ROW>();
                if rows.len() != width || !(1..=BITS).contains(&width) || !rest.is_empty() {
                    return false;
                }
                let codes: &mut [[u8; ROW]; BITS] = bytemuck::must_cast_mut(codes);
                let mask = <$word>::MAX >> (BITS - width);
                for row in 0..BITS {
                    let (word, shift) = (row * width / BITS, row * width % BITS);
                    let place = (ORDER[row / 8] * 16 + row % 8 * ROW) * size_of::<$word>() / ROW;
                    let (Some(low), Some(to)) = (rows.get(word), codes.get_mut(place)) else {
                        return false;
                    };
                    let right = _mm_cvtsi32_si128(shift as i32);
                    // Shifting pairs of bytes brings in bits of a neighbour, which are masked out.
                    let of_low = $all((mask & (<$word>::MAX >> shift)) as _);
                    let mut row: Row = bytemuck::must_cast(*low);
                    row.iter_mut()
                        .for_each(|code| *code = _mm256_and_si256($right(*code, right), of_low));
                    if shift + width > BITS {
                        let Some(high) = rows.get(word + 1) else { return false };
                        let left = _mm_cvtsi32_si128((BITS - shift) as i32);
                        let of_high = $all((mask & (<$word>::MAX << (BITS - shift))) as _);
                        let high: Row = bytemuck::must_cast(*high);
                        for (code, high) in row.iter_mut().zip(high) {
                            *code = _mm256_or_si256(
                                *code,
                                _mm256_and_si256($left(high, left), of_high),
                            );
                        }
                    }
                    *to = bytemuck::must_cast(row);
                }
                true
            }
        };
    }

    unpack!(bytes, u8, _mm256_set1_epi8, _mm256_srl_epi16, _mm256_sll_epi16);
    unpack!(shorts, u16, _mm256_set1_epi16, _mm256_srl_epi16, _mm256_sll_epi16);
    unpack!(words, u32, _mm256_set1_epi32, _mm256_srl_epi32, _mm256_sll_epi32);
    unpack!(longs, u64, _mm256_set1_epi64x, _mm256_srl_epi64, _mm256_sll_epi64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Word;

    fn both_ways<W: Word>() {
        for width in 1..=W::BITS as usize {
            // One byte off, so that the words are never aligned.
            let bytes: Vec<u8> =
                (0..=VECTOR * width / 8).map(|i| (i * 167 + i / 7 * 31) as u8).collect();
            let (mut wide, mut plain) = ([W::default(); VECTOR], [W::default(); VECTOR]);
            assert!(W::unpack_vector(&bytes[1..], width, &mut wide));
            assert!(portable(&bytes[1..], width, &mut plain));
            assert_eq!(wide, plain, "{width} bits");
            assert!(
                !W::unpack_vector(&bytes, width, &mut wide) && !portable(&bytes, width, &mut plain)
            );
        }
        assert!(!W::unpack_vector(&[], 0, &mut [W::default(); VECTOR]));
    }

    #[test]
    fn registers_unpack_what_words_do() {
        both_ways::<u8>();
        both_ways::<u16>();
        both_ways::<u32>();
        both_ways::<u64>();
    }
}
