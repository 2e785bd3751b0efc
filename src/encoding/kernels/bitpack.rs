//! Bit-packing of vectors of 1,024 codes.
//!
//! A full vector is stored in the FastLanes order (Afroozeh and Boncz 2023) of the narrowest lane
//! (8, 16, 32 or 64 bits) that holds the width, and takes 128 · width bytes; a last vector of fewer
//! codes is stored in row order, bit after bit from the low end, padded to a whole byte. Most of
//! the speed comes from unpacking in narrow lanes and widening at the end.

use super::dispatch::simd;
use crate::encoding::Word;
use crate::limits::VECTOR;

/// Bytes of `rows` codes of `width` bits.
pub(crate) fn packed_len(width: u32, rows: usize) -> usize {
    let (full, rest) = (rows / VECTOR, rows % VECTOR);
    full * vector_len(width) + (rest * width as usize).div_ceil(8)
}

/// Bytes of a full vector.
pub(crate) fn vector_len(width: u32) -> usize {
    VECTOR / 8 * width as usize
}

/// Calls `$go::<lane>` for the narrowest lane that holds `$width` bits.
macro_rules! by_lane {
    ($width:expr, $go:ident $(::<$w:ident>)? ($($arg:expr),*)) => {
        match $width {
            0..=8 => $go::<$($w,)? u8>($($arg),*),
            9..=16 => $go::<$($w,)? u16>($($arg),*),
            17..=32 => $go::<$($w,)? u32>($($arg),*),
            _ => $go::<$($w,)? u64>($($arg),*),
        }
    };
}

pub(crate) use by_lane;

/// Appends up to 1,024 codes, each below 2^width, packed.
pub(crate) fn pack<W: Word>(codes: &[W], width: u32, out: &mut Vec<u8>) {
    debug_assert!(width <= W::BITS && codes.len() <= VECTOR);
    if codes.len() == VECTOR {
        by_lane!(width, pack_vector::<W>(codes, width as usize, out));
    } else {
        pack_rest(codes, width, out);
    }
}

fn pack_vector<W: Word, L: Word>(codes: &[W], width: usize, out: &mut Vec<u8>) {
    let mut lanes = [L::default(); VECTOR];
    for (lane, &code) in lanes.iter_mut().zip(codes) {
        *lane = L::from_u64(Word::to_u64(code));
    }
    let mut words = [L::default(); VECTOR];
    let Some(words) = words.get_mut(..VECTOR * width / L::BITS as usize) else { return };
    // SAFETY: `lanes` has 1,024 words, `words` 1,024 · width / BITS of them, and width ≤ BITS of
    // the lane by the choice of the lane (a larger width finds no such slice above).
    unsafe { L::unchecked_pack(width, &lanes, words) };
    out.extend_from_slice(bytemuck::cast_slice(words));
}

fn pack_rest<W: Word>(codes: &[W], width: u32, out: &mut Vec<u8>) {
    let (mut pending, mut bits) = (0u128, 0u32);
    for &code in codes {
        pending |= u128::from(Word::to_u64(code)) << bits;
        bits += width;
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

/// Unpacks vectors stored back to back in `bytes`, `rows` codes in all (only the last vector may be
/// short), and appends `base + factor · code` of each, modulo 2^BITS of `N`. Returns false, with
/// fewer values appended, if `bytes` are too few or the width is too large.
#[must_use]
pub(crate) fn unpack<N: Word>(
    bytes: &[u8],
    width: u32,
    rows: usize,
    base: N,
    factor: N,
    out: &mut Vec<N>,
) -> bool {
    if width > u64::BITS || bytes.len() < packed_len(width, rows) {
        return false;
    }
    out.reserve(rows);
    if width == 0 {
        out.resize(out.len() + rows, base);
        return true;
    }
    let (vectors, rest) = bytes.split_at(rows / VECTOR * vector_len(width));
    let whole = by_lane!(width, unpack_vectors::<N>(vectors, width as usize, base, factor, out));
    let affine = |code: u64| Word::add(base, Word::mul(factor, N::from_u64(code)));
    each_in_order(rest, width, rows % VECTOR, |code| out.push(affine(code)));
    whole
}

fn unpack_vectors<N: Word, L: Word>(
    bytes: &[u8],
    width: usize,
    base: N,
    factor: N,
    out: &mut Vec<N>,
) -> bool {
    let mut lanes = [L::default(); VECTOR];
    for packed in bytes.chunks_exact(vector_len(width as u32)) {
        if !L::unpack_vector(packed, width, &mut lanes) {
            return false;
        }
        simd(
            #[inline(always)]
            || append(&lanes, base, factor, out),
        );
    }
    true
}

/// Appends `base + factor · code` of each code.
#[inline(always)]
fn append<N: Word, L: Word>(codes: &[L; VECTOR], base: N, factor: N, out: &mut Vec<N>) {
    if factor == N::from_u64(1) {
        append_each(codes, |code| Word::add(base, N::from_u64(Word::to_u64(code))), out);
    } else if L::BITS < 64 && N::BITS == 64 && Word::to_u64(factor) <= u64::from(u32::MAX) {
        // Vector units multiply 32-bit halves to 64 bits in one instruction, but not 64-bit lanes.
        let factor = u64::from(Word::to_u64(factor) as u32);
        let product = |code: L| u64::from(Word::to_u64(code) as u32) * factor;
        append_each(codes, |code| Word::add(base, N::from_u64(product(code))), out);
    } else {
        append_each(
            codes,
            |code| Word::add(base, Word::mul(factor, N::from_u64(Word::to_u64(code)))),
            out,
        );
    }
}

/// Like `extend`, but always inlined into the surrounding loop.
#[inline(always)]
fn append_each<N: Word, L: Word>(codes: &[L; VECTOR], value: impl Fn(L) -> N, out: &mut Vec<N>) {
    out.reserve(VECTOR);
    let slots = out.spare_capacity_mut().iter_mut().zip(codes);
    slots.for_each(|(slot, code)| {
        slot.write(value(*code));
    });
    // SAFETY: capacity for VECTOR values was reserved, and exactly these were written.
    unsafe { out.set_len(out.len() + VECTOR) };
}

/// Unpacks one vector, which is full if `rows` is 1,024 or more and else has `rows` codes. `L` must
/// be the lane of the width. Returns false if the bytes are too few.
#[must_use]
pub(crate) fn unpack_vector<L: Word>(
    bytes: &[u8],
    width: u32,
    rows: usize,
    lanes: &mut [L; VECTOR],
) -> bool {
    if width == 0 {
        lanes.fill(L::default());
        return true;
    }
    if rows >= VECTOR {
        return L::unpack_vector(bytes, width as usize, lanes);
    }
    let mut lanes = lanes.iter_mut();
    each_in_order(bytes, width, rows, |code| {
        if let Some(lane) = lanes.next() {
            *lane = L::from_u64(code);
        }
    });
    bytes.len() >= packed_len(width, rows)
}

/// The code at `index` of a stream of `rows` packed codes, without unpacking its vector. `vector`
/// holds the bytes of that vector. `None` if they are too few.
pub(crate) fn get(vector: &[u8], width: u32, rows: usize, index: usize) -> Option<u64> {
    if width == 0 {
        return Some(0);
    }
    let at = index % VECTOR;
    if index / VECTOR < rows / VECTOR {
        by_lane!(width, get_in_vector(vector, width as usize, at))
    } else if vector.len() * 8 >= (at + 1) * width as usize {
        Some(bits_at(vector, at * width as usize, width))
    } else {
        None
    }
}

/// Appends `affine(code)` for the codes at `indices` of a stream of `rows`, all in the vector whose
/// bytes are `vector`. Returns false, with fewer values appended, if the bytes are too few.
#[must_use]
pub(crate) fn gather<W: Word>(
    vector: &[u8],
    width: u32,
    rows: usize,
    indices: &[u32],
    affine: impl Fn(u64) -> W,
    out: &mut Vec<W>,
) -> bool {
    by_lane!(width, gather_in_vector::<W>(vector, width, rows, indices, affine, out))
}

fn gather_in_vector<W: Word, L: Word>(
    vector: &[u8],
    width: u32,
    rows: usize,
    indices: &[u32],
    affine: impl Fn(u64) -> W,
    out: &mut Vec<W>,
) -> bool {
    let Some(first) = indices.first() else { return true };
    let whole = *first as usize / VECTOR < rows / VECTOR;
    indices.iter().all(|at| {
        let code = match whole && width > 0 {
            true => get_in_vector::<L>(vector, width as usize, *at as usize % VECTOR),
            false => get(vector, width, rows, *at as usize),
        };
        out.extend(code.map(&affine));
        code.is_some()
    })
}

/// The order in which FastLanes interleaves groups of eight rows; it is its own inverse.
pub(super) const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

fn get_in_vector<L: Word>(bytes: &[u8], width: usize, at: usize) -> Option<u64> {
    let bits = L::BITS as usize;
    let lanes = VECTOR / bits;
    // Consecutive rows of `lanes` words hold codes that are 128 apart in the vector.
    let (eighth, rest) = (at / 128, at % 128);
    let lane = rest % lanes;
    let row = ORDER.get((rest - lane) / 16)? * 8 + eighth;
    let (word, shift) = (row * width / bits, row * width % bits);
    let load = |word: usize| {
        let start = (word * lanes + lane) * L::BYTES;
        let mut padded = [0; 8];
        padded.get_mut(..L::BYTES)?.copy_from_slice(bytes.get(start..start + L::BYTES)?);
        Some(u64::from_le_bytes(padded))
    };
    let mut code = load(word)? >> shift;
    if shift + width > bits {
        code |= load(word + 1)? << (bits - shift);
    }
    Some(code & (u64::MAX >> (64 - width)))
}

/// Calls `put` with the first `rows` codes, of 1 to 64 bits, of a short vector.
#[inline(always)]
fn each_in_order(bytes: &[u8], width: u32, rows: usize, mut put: impl FnMut(u64)) {
    let (width_bits, mask) = (width as usize, u64::MAX >> (64 - width));
    let mut bit = 0;
    // Up to this byte an eight-byte load holds the whole code, at any bit offset.
    let quick = if width <= 57 { bytes.len().saturating_sub(7) } else { 0 };
    for _ in 0..rows {
        let code = match bytes.get(bit / 8..).and_then(|from| from.first_chunk::<8>()) {
            Some(window) if bit / 8 < quick => u64::from_le_bytes(*window) >> (bit % 8) & mask,
            _ => bits_at(bytes, bit, width),
        };
        put(code);
        bit += width_bits;
    }
}

/// `width` (1 to 64) bits starting at bit `bit`, low end first; bits past the end are zero.
fn bits_at(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let from = bytes.get(bit / 8..).unwrap_or(&[]);
    let n = from.len().min(16);
    let mut window = [0u8; 16];
    window[..n].copy_from_slice(&from[..n]);
    let shifted = u128::from_le_bytes(window) >> (bit % 8);
    shifted as u64 & (u64::MAX >> (64 - width))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<W: Word>(rows: usize) {
        for width in 0..=W::BITS {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let codes: Vec<W> = (0..rows as u64)
                .map(|i| W::from_u64(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 3 & mask))
                .collect();
            let mut bytes = vec![0u8];
            for vector in codes.chunks(VECTOR) {
                pack(vector, width, &mut bytes);
            }
            // One byte off, so that the words are never aligned.
            let bytes = &bytes[1..];
            assert_eq!(bytes.len(), packed_len(width, rows));
            let mut out = Vec::new();
            assert!(unpack(bytes, width, rows, W::default(), W::from_u64(1), &mut out));
            assert_eq!(out, codes);
            for (at, code) in codes.iter().enumerate() {
                let start = at / VECTOR * vector_len(width);
                let end = (start + vector_len(width)).min(bytes.len());
                assert_eq!(get(&bytes[start..end], width, rows, at), Some(Word::to_u64(*code)));
                assert_eq!(get(&[], width, rows, at).is_none(), width > 0);
            }
            assert!(
                width == 0
                    || !unpack(&bytes[1..], width, rows, W::default(), W::default(), &mut out)
            );
        }
    }

    #[test]
    fn every_width_round_trips() {
        for rows in [1, 7, 1023, 1024, 1025, 2048] {
            round_trip::<u8>(rows);
            round_trip::<u16>(rows);
            round_trip::<u32>(rows);
            round_trip::<u64>(rows);
        }
    }
}
