//! Groups of neighbouring characters coded as one mixed-radix number, for [`super::packed`]: up to
//! eight characters are its digits, the sizes of their alphabets the radices, and the first
//! character is the most significant.
//!
//! Three decimal digits then take 10 bits instead of 12, and one look-up in a table of at most
//! 4,096 entries gives up to eight characters.

/// The most codes of a group.
pub(super) const MAX_CODES: usize = 4096;
/// The most characters of a group: as many as an 8-byte store writes.
pub(super) const MAX_CHARS: usize = 8;

/// The sorted distinct bytes that occur at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alphabet(Vec<u8>);

/// Neighbouring characters that share a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// One alphabet for each character.
    pub(super) alphabets: Vec<Alphabet>,
    /// Bits of a code.
    pub(super) width: u32,
    /// Codes in use.
    pub(super) codes: usize,
}

impl Alphabet {
    /// The bytes that were seen.
    pub(super) fn of_seen(seen: &[bool; 256]) -> Self {
        Alphabet((0..=255).filter(|&byte: &u8| seen[usize::from(byte)]).collect())
    }

    /// The alphabet of stored bytes; `None` unless there is at least one and they are strictly
    /// ascending.
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty() && bytes.is_sorted_by(|a, b| a < b)).then(|| Alphabet(bytes.to_vec()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Group {
    pub(super) fn new(alphabets: Vec<Alphabet>) -> Self {
        let codes: usize = alphabets.iter().map(Alphabet::len).product();
        Group { alphabets, width: codes.next_power_of_two().trailing_zeros(), codes }
    }

    /// Groups characters from the left, as many as fit. This rule is part of the format.
    pub(super) fn gather<'a>(alphabets: impl Iterator<Item = &'a Alphabet>) -> Vec<Self> {
        let mut groups = Vec::new();
        let (mut group, mut codes) = (Vec::new(), 1);
        for alphabet in alphabets {
            if group.len() == MAX_CHARS || codes * alphabet.len() > MAX_CODES {
                groups.push(Group::new(std::mem::take(&mut group)));
                codes = 1;
            }
            codes *= alphabet.len();
            group.push(alphabet.clone());
        }
        if !group.is_empty() {
            groups.push(Group::new(group));
        }
        groups
    }

    pub(super) fn chars(&self) -> usize {
        self.alphabets.len()
    }

    /// The characters of every code, the first in the lowest byte; codes that are not in use give
    /// zeros.
    pub(super) fn table(&self) -> Vec<u64> {
        let mut table = vec![0u64];
        for (i, alphabet) in self.alphabets.iter().enumerate() {
            let longer = |&front: &u64| {
                alphabet.bytes().iter().map(move |&b| front | u64::from(b) << (8 * i))
            };
            table = table.iter().flat_map(longer).collect();
        }
        table.resize(1 << self.width, 0);
        table
    }

    /// The characters of one code, the first in the lowest byte; `None` if it is not in use.
    pub(super) fn characters(&self, code: usize) -> Option<u64> {
        let mut rest = code;
        let mut characters = 0;
        for (i, alphabet) in self.alphabets.iter().enumerate().rev() {
            characters |= u64::from(*alphabet.bytes().get(rest % alphabet.len())?) << (8 * i);
            rest /= alphabet.len();
        }
        (rest == 0).then_some(characters)
    }

    /// What each byte adds to the code at each place of the group.
    pub(super) fn addends(&self) -> Vec<[u16; 256]> {
        let mut scale = 1;
        let mut addends: Vec<[u16; 256]> = Vec::with_capacity(self.chars());
        for alphabet in self.alphabets.iter().rev() {
            let mut place = [0; 256];
            for (symbol, &byte) in alphabet.bytes().iter().enumerate() {
                place[usize::from(byte)] = (symbol * scale) as u16;
            }
            scale *= alphabet.len();
            addends.push(place);
        }
        addends.reverse();
        addends
    }
}

/// Packs codes of varying width, the first in the lowest bits.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    bits: u64,
    filled: u32,
}

impl BitWriter {
    #[inline]
    pub(super) fn push(&mut self, code: u64, width: u32) {
        self.bits |= code << self.filled;
        self.filled += width;
        if self.filled >= 32 {
            self.bytes.extend_from_slice(&(self.bits as u32).to_le_bytes());
            self.bits >>= 32;
            self.filled -= 32;
        }
    }

    /// Pads the last byte; returns the number of bytes so far.
    pub(super) fn align(&mut self) -> usize {
        let n = self.filled.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.bits.to_le_bytes()[..n]);
        (self.bits, self.filled) = (0, 0);
        self.bytes.len()
    }

    pub(super) fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

/// The code of `width` bits (at most 12) at `bit`; bits past the end are zeros.
pub(super) fn read_code(bytes: &[u8], bit: usize, width: u32) -> usize {
    let mut four = [0; 4];
    let rest = bytes.get(bit >> 3..).unwrap_or_default();
    let n = rest.len().min(4);
    four[..n].copy_from_slice(&rest[..n]);
    (u32::from_le_bytes(four) >> (bit & 7)) as usize & ((1 << width) - 1)
}

/// Copies `codes` to `padded`, with padding for an 8-byte load at any code.
pub(super) fn pad(codes: &[u8], padded: &mut Vec<u8>) {
    padded.clear();
    padded.extend_from_slice(codes);
    padded.extend_from_slice(&[0; 16]);
}

/// Looks up `count` codes of one group in `padded` (see [`pad`]) and writes their characters to
/// `text`, which must have space for one 8-byte store past the last. Returns whether all codes are
/// in use.
pub(super) fn look_up(
    group: &Group,
    table: &[u64],
    padded: &[u8],
    count: usize,
    text: &mut [u8],
) -> bool {
    match group.chars() {
        1 => look_up_by::<1>(group, table, padded, count, text),
        2 => look_up_by::<2>(group, table, padded, count, text),
        3 => look_up_by::<3>(group, table, padded, count, text),
        4 => look_up_by::<4>(group, table, padded, count, text),
        5 => look_up_by::<5>(group, table, padded, count, text),
        6 => look_up_by::<6>(group, table, padded, count, text),
        7 => look_up_by::<7>(group, table, padded, count, text),
        _ => look_up_by::<8>(group, table, padded, count, text),
    }
}

fn look_up_by<const CHARS: usize>(
    group: &Group,
    table: &[u64],
    padded: &[u8],
    count: usize,
    text: &mut [u8],
) -> bool {
    let width = group.width as usize;
    let mask = (1u64 << width) - 1;
    let mut most = 0;
    // Eight codes start at a byte; two loads of 64 bits hold four each.
    for batch in 0..count / 8 {
        let at = batch * width;
        let halves = [load(padded, at), load(padded, at + width / 2) >> (width % 2 * 4)];
        let window = &mut text[batch * 8 * CHARS..][..8 * CHARS + 8];
        for i in 0..8 {
            let code = (halves[i / 4] >> (i % 4 * width) & mask) as usize;
            most = most.max(code);
            window[i * CHARS..i * CHARS + 8].copy_from_slice(&table[code].to_le_bytes());
        }
    }
    for i in count / 8 * 8..count {
        let code = read_code(padded, i * width, group.width);
        most = most.max(code);
        text[i * CHARS..i * CHARS + 8].copy_from_slice(&table[code].to_le_bytes());
    }
    most < group.codes
}

/// The eight bytes at `at`.
#[inline(always)]
pub(super) fn load(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}
