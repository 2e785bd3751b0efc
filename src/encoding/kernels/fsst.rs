//! Decompression of FSST codes: the only place where the `fsst-rs` decompressor, which trusts its
//! table and its output buffer, gets untrusted bytes.

use fsst::{Decompressor, Symbol};

/// The code after which a literal byte follows.
const ESCAPE: u8 = 255;
/// Codes decompressed at a time, which bounds the memory reserved beyond the output.
const PIECE: usize = 64 << 10;

/// A symbol table that the decompressor may trust: 255 symbols of 0 (unused) to 8 bytes.
pub(crate) struct SymbolTable {
    symbols: [Symbol; 255],
    lengths: [u8; 255],
}

impl SymbolTable {
    /// A table of up to 255 symbols, given their lengths and their concatenated bytes; `None`
    /// unless lengths are 1 to 8 and add up to the number of bytes.
    pub(crate) fn new(lengths: &[u8], mut bytes: &[u8]) -> Option<Self> {
        let mut table = SymbolTable { symbols: [Symbol::ZERO; 255], lengths: [0; 255] };
        table.lengths.get_mut(..lengths.len())?.copy_from_slice(lengths);
        for (symbol, &length) in table.symbols.iter_mut().zip(lengths) {
            let length = usize::from(length);
            if length == 0 || length > 8 || length > bytes.len() {
                return None;
            }
            let mut padded = [0; 8];
            padded[..length].copy_from_slice(&bytes[..length]);
            *symbol = Symbol::from_slice(&padded);
            bytes = &bytes[length..];
        }
        bytes.is_empty().then_some(table)
    }

    /// Appends the decompressed `codes`, and stops early once there are at least `enough` bytes.
    /// `None` if the codes end in an escape without its byte.
    pub(crate) fn decompress(
        &self,
        mut codes: &[u8],
        enough: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let decompressor = Decompressor::new(&self.symbols, &self.lengths);
        let first = out.len();
        while !codes.is_empty() && out.len() - first < enough {
            let mut piece = codes.len().min(PIECE);
            if ends_in_escape(&codes[..piece]) {
                piece += 1;
            }
            if piece > codes.len() {
                return None;
            }
            let (head, tail) = codes.split_at(piece);
            // A code yields at most 8 bytes, but the decompressor always stores 8.
            out.reserve(8 * (head.len() + 1));
            let written = decompressor.decompress_into(head, out.spare_capacity_mut());
            // SAFETY: the spare capacity holds 8 bytes for each code and no symbol is longer
            // (`SymbolTable::new` checked the lengths), so `written` bytes were initialised.
            unsafe { out.set_len(out.len() + written) };
            codes = tail;
        }
        Some(())
    }
}

/// Whether the last code is an escape whose byte is missing: escapes pair up with what follows, so
/// an odd number of them at the end leaves one open.
fn ends_in_escape(codes: &[u8]) -> bool {
    codes.iter().rev().take_while(|&&code| code == ESCAPE).count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_codes_are_checked() {
        assert!(SymbolTable::new(&[9], &[0; 9]).is_none());
        assert!(SymbolTable::new(&[0], &[]).is_none());
        assert!(SymbolTable::new(&[2, 2], b"abc").is_none());
        assert!(SymbolTable::new(&[2], b"abc").is_none());
        assert!(SymbolTable::new(&[1; 256], &[0; 256]).is_none());
        let table = SymbolTable::new(&[2, 1], b"abc").unwrap();
        let mut out = Vec::new();
        table.decompress(&[0, 1, 255, 255, 7, 255, b'x'], usize::MAX, &mut out).unwrap();
        assert_eq!(out, b"abc\xffx");
        assert!(table.decompress(&[0, 255], usize::MAX, &mut out).is_none());
        assert!(table.decompress(&[255; 3], usize::MAX, &mut out).is_none());
    }

    #[test]
    fn pieces_do_not_separate_an_escape_from_its_byte() {
        let table = SymbolTable::new(&[8], b"abcdefgh").unwrap();
        for shift in 0..3 {
            let mut codes = vec![0u8; PIECE - shift];
            codes.extend([255; 20]);
            codes.extend([0; 3]);
            let mut out = Vec::new();
            table.decompress(&codes, usize::MAX, &mut out).unwrap();
            assert_eq!(out.len(), (PIECE - shift) * 8 + 10 + 24);
        }
    }
}
