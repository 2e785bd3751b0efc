//! Machine words: integer encodings are generic over them. Signed values are handled as unsigned
//! words of the same bits; signedness matters only where values are compared.

use super::kernels::lanes::Lane;

/// An unsigned word of 8, 16, 32 or 64 bits.
pub trait Word:
    Lane + Ord + std::hash::Hash + std::fmt::Debug + Default + Send + Sync + 'static
{
    /// Bits of the word.
    const BITS: u32;
    /// Bytes of the word.
    const BYTES: usize = Self::BITS as usize / 8;
    /// The low bits of `v`.
    fn from_u64(v: u64) -> Self;
    /// Zero-extended.
    fn to_u64(self) -> u64;
    /// Sign-extended.
    fn to_i64(self) -> i64;
    /// Modulo 2^BITS.
    fn add(self, other: Self) -> Self;
    /// Modulo 2^BITS.
    fn sub(self, other: Self) -> Self;
    /// Modulo 2^BITS.
    fn mul(self, other: Self) -> Self;
}

macro_rules! word {
    ($unsigned:ty, $signed:ty) => {
        impl Word for $unsigned {
            const BITS: u32 = <$unsigned>::BITS;
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                v as $unsigned
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self as $signed)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    };
}

word!(u8, i8);
word!(u16, i16);
word!(u32, i32);
word!(u64, i64);

/// The least and the greatest value of a word, signed or not.
pub(crate) fn limits<W: Word>(signed: bool) -> (i128, i128) {
    match signed {
        true => (-(1i128 << (W::BITS - 1)), (1i128 << (W::BITS - 1)) - 1),
        false => (0, (1i128 << W::BITS) - 1),
    }
}
