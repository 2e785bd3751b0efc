//! Mutants of a file, for tests: the same ones for the same seed.

/// An endless sequence of mutants.
pub(crate) struct Mutants<'a> {
    whole: &'a [u8],
    state: u64,
}

/// Numbers that break sums, products and shifts.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

impl<'a> Mutants<'a> {
    pub(crate) fn new(whole: &'a [u8], seed: u64) -> Self {
        Mutants { whole, state: seed }
    }

    /// SplitMix64.
    fn below(&mut self, most: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % most.max(1) as u64) as usize
    }

    /// A place in the file. Half of them are near its ends, where sizes and counts stand.
    fn place(&mut self, length: usize) -> usize {
        let near = length.min(2048);
        match self.below(4) {
            0 => self.below(near),
            1 => length - 1 - self.below(near),
            _ => self.below(length),
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.place(bytes.len());
        match self.below(8) {
            0 | 1 => bytes[at] ^= 1 << self.below(8),
            2 | 3 => bytes[at] = self.below(256) as u8,
            4 => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                bytes[at..].iter_mut().zip(&number[..width]).for_each(|(to, from)| *to = *from);
            }
            5 => {
                // The largest number of a varint.
                let width = 1 + self.below(9);
                bytes[at..].iter_mut().take(width).for_each(|byte| *byte = 0xff);
            }
            6 => {
                let (from, length) = (self.place(bytes.len()), self.below(32));
                let copied: Vec<u8> = bytes[from..].iter().take(length).copied().collect();
                bytes[at..].iter_mut().zip(copied).for_each(|(to, from)| *to = from);
            }
            _ => match self.below(3) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..(at + self.below(16)).min(bytes.len()))),
                _ => drop(bytes.splice(at..at, [0xff; 8])),
            },
        }
    }
}

impl Iterator for Mutants<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.whole.to_vec();
        for _ in 0..=self.below(3) {
            self.change(&mut bytes);
        }
        Some(bytes)
    }
}
