//! Floating-point numbers as the float encodings see them: their bits as a [`Word`], and the two
//! roundings of ALP. Decimals are computed in f64, even for f32: every decimal of nine digits then
//! round-trips exactly.

use super::Word;

/// `1.5 · 2^52`: after adding it to a number below 2^51, the low bits of the mantissa are the
/// rounded number.
pub(super) const MAGIC: f64 = 6_755_399_441_055_744.0;
const MAGIC_BITS: u64 = MAGIC.to_bits();

/// f32 or f64.
pub trait Float:
    bytemuck::Pod + PartialOrd + std::fmt::Debug + Default + Send + Sync + 'static
{
    /// The unsigned word of the same size.
    type Bits: Word;
    /// The most decimals that ALP tries.
    const MAX_DECIMALS: u8;
    /// The largest integer (its negative is the smallest) that ALP stores for this type.
    const MAX_INT: f64;
    /// The bits.
    fn to_word(self) -> Self::Bits;
    /// The float with these bits, NaN payloads included.
    fn from_word(word: Self::Bits) -> Self;
    /// Widens to f64, exactly.
    fn to_f64(self) -> f64;
    /// Rounds to the nearest value.
    fn from_f64(v: f64) -> Self;
    /// `v` rounded to an integer, as a signed word; meaningful for `|v| <= MAX_INT`.
    fn round(v: f64) -> Self::Bits;
    /// The number of a signed word; meaningful for `|word| <= MAX_INT`, harmless for others.
    fn widen(word: Self::Bits) -> f64;
}

impl Float for f64 {
    type Bits = u64;
    const MAX_DECIMALS: u8 = 18;
    const MAX_INT: f64 = ((1u64 << 51) - 1) as f64;

    #[inline(always)]
    fn to_word(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_word(word: u64) -> f64 {
        f64::from_bits(word)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn round(v: f64) -> u64 {
        (v + MAGIC).to_bits().wrapping_sub(MAGIC_BITS)
    }
    #[inline(always)]
    fn widen(word: u64) -> f64 {
        f64::from_bits(word.wrapping_add(MAGIC_BITS)) - MAGIC
    }
}

impl Float for f32 {
    type Bits = u32;
    const MAX_DECIMALS: u8 = 10;
    const MAX_INT: f64 = i32::MAX as f64;

    #[inline(always)]
    fn to_word(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_word(word: u32) -> f32 {
        f32::from_bits(word)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn round(v: f64) -> u32 {
        (v + MAGIC).to_bits() as u32
    }
    #[inline(always)]
    fn widen(word: u32) -> f64 {
        f64::from(word as i32)
    }
}
