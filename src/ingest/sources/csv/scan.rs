//! Finds the separators and quotes in 64 bytes, as bit masks.

use crate::encoding::kernels::find_byte::find_byte;

/// Bit `i` stands for byte `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks {
    /// Delimiters and line feeds.
    pub(super) separators: u64,
    /// Line feeds alone.
    pub(super) newlines: u64,
    pub(super) quotes: u64,
}

/// The masks of a block.
#[inline]
pub(super) fn scan(block: &[u8; 64], delimiter: u8, quote: u8) -> Masks {
    let newlines = find_byte(block, b'\n');
    Masks {
        separators: newlines | find_byte(block, delimiter),
        newlines,
        quotes: find_byte(block, quote),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn masks_name_the_bytes(bytes in proptest::collection::vec(0_u8..8, 64)) {
            let bytes: Vec<u8> =
                bytes.iter().map(|b| b"a,\n\"b\xffc,"[usize::from(*b)]).collect();
            let block: [u8; 64] = bytes.try_into().unwrap();
            let masks = scan(&block, b',', b'"');
            for (i, byte) in block.iter().enumerate() {
                proptest::prop_assert_eq!(masks.newlines >> i & 1 == 1, *byte == b'\n');
                proptest::prop_assert_eq!(masks.quotes >> i & 1 == 1, *byte == b'"');
                let is_separator = matches!(*byte, b'\n' | b',');
                proptest::prop_assert_eq!(masks.separators >> i & 1 == 1, is_separator);
            }
        }
    }
}
