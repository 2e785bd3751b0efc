//! Distinct values of groups as one bit for each group and code of a value.

use std::sync::Arc;

use super::coding::CodesOfBlock;
use super::mixed_radix::{DigitScratch, MixedRadix};
use crate::encoding::kernels::occurrences::occurrences;
use crate::error::Result;
use crate::query::open::OpenBlock;
use crate::query::slice::Slice;
use crate::query::stats::Statistic;
use crate::query::walk::Worker;

/// Up to this many bits need no reservation.
pub(crate) const FEW_BITS: u64 = 1 << 16;

/// Up to this many bits, a thread notices when all are set.
const WATCHED: u64 = 1 << 12;

/// Up to this many new codes are looked for one by one.
const FEW_NEW: usize = 16;

/// What one thread has seen.
pub(crate) struct Bits {
    /// Numbers of the keys of the group, then of the value as the last digit.
    radix: Arc<MixedRadix>,
    seen: Vec<u64>,
    /// Nothing is left to be seen.
    full: bool,
    /// Whether all rows are looked at.
    all: bool,
    /// A segment whose values have all been seen.
    known: Option<usize>,
    bytes: Vec<u8>,
    words: Vec<u32>,
    number_of_code: Vec<u32>,
    scratch: DigitScratch,
}

impl Bits {
    /// `all`: every row of every segment will come.
    pub(crate) fn new(radix: Arc<MixedRadix>, all: bool) -> Self {
        let mut seen = vec![0; radix.product.div_ceil(64) as usize];
        if radix.product <= WATCHED {
            // Null is not counted, and not waited for.
            let null = radix.last_null().into_iter().flat_map(|null| null..radix.product);
            null.step_by(radix.last_domain().max(1) as usize).for_each(|null| set(&mut seen, null));
        }
        let (bytes, words, number_of_code) = (Vec::new(), Vec::new(), Vec::new());
        Bits {
            radix,
            seen,
            full: false,
            all,
            known: None,
            bytes,
            words,
            number_of_code,
            scratch: DigitScratch::default(),
        }
    }

    /// Bytes of `product` bits.
    pub(crate) fn memory_of(product: u64) -> usize {
        product.div_ceil(64) as usize * size_of::<u64>()
    }

    /// What this thread has seen, and others.
    pub(crate) fn merged(mut self, others: impl Iterator<Item = Bits>) -> Self {
        for other in others {
            self.seen.iter_mut().zip(&other.seen).for_each(|(seen, more)| *seen |= more);
        }
        self
    }

    /// How many values each group has, null not counted; groups without any are left out.
    pub(crate) fn counts(&self) -> (Vec<u64>, Vec<u64>) {
        let (domain, null) = (self.radix.last_domain(), self.radix.last_null());
        let (mut groups, mut counts) = (Vec::new(), Vec::new());
        for group in 0..self.radix.product / domain.max(1) {
            let start = group * domain;
            let nulls = null.map_or(0, |null| count(&self.seen, start + null..start + null + 1));
            let values = count(&self.seen, start..start + domain) - nulls;
            if values > 0 {
                groups.push(group);
                counts.push(values);
            }
        }
        (groups, counts)
    }
}

/// How many bits are set in a range.
fn count(bits: &[u64], range: std::ops::Range<u64>) -> u64 {
    let of = |word: u64| bits.get(word as usize).copied().unwrap_or(0);
    let (first, last) = (range.start / 64, range.end.saturating_sub(1) / 64);
    let from = u64::MAX << (range.start % 64);
    let to = u64::MAX >> (63 - range.end.saturating_sub(1) % 64);
    if range.is_empty() {
        return 0;
    }
    if first == last {
        return u64::from((of(first) & from & to).count_ones());
    }
    let between = bits.get(first as usize + 1..last as usize).unwrap_or_default();
    let whole: u64 = between.iter().map(|word| u64::from(word.count_ones())).sum();
    whole + u64::from((of(first) & from).count_ones()) + u64::from((of(last) & to).count_ones())
}

/// Whether all bits of a range are set. It stops at the first words that have others.
fn are_set(bits: &[u64], range: std::ops::RangeInclusive<u64>) -> bool {
    let (low, high) = range.into_inner();
    let word = |at: u64| count(bits, low.max(at * 64)..high.min(at * 64 + 63) + 1);
    (low / 64..=high / 64).all(|at| word(at) == high.min(at * 64 + 63) - low.max(at * 64) + 1)
}

/// Sets the bits of the numbers that codes of a byte stand for.
fn mark(codes: &[u8], number_of_code: &[u32], seen: &mut [u64]) {
    let is_new = |number: &u32| count(seen, u64::from(*number)..u64::from(*number) + 1) == 0;
    let new: Vec<usize> =
        (0..number_of_code.len()).filter(|code| is_new(&number_of_code[*code])).collect();
    let mut found = [false; 256];
    if new.len() <= FEW_NEW {
        // To look for one code takes a register for many rows.
        new.iter().for_each(|code| found[*code] = occurrences(codes, *code as u8) > 0);
    } else {
        codes.iter().for_each(|code| found[usize::from(*code)] = true);
    }
    for (number, _) in number_of_code.iter().zip(found).filter(|(_, found)| *found) {
        set(seen, u64::from(*number));
    }
}

#[inline(always)]
fn set(bits: &mut [u64], at: u64) {
    if let Some(word) = bits.get_mut((at / 64) as usize)
        // Mostly it is, and does not make the next row wait for this one.
        && *word >> (at % 64) & 1 == 0
    {
        *word |= 1 << (at % 64);
    }
}

impl Worker for Bits {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        if self.full {
            return Ok(());
        }
        self.look(slice)?;
        self.full = self.radix.product <= WATCHED
            && count(&self.seen, 0..self.radix.product) == self.radix.product;
        Ok(())
    }
}

impl Bits {
    /// What says that no row of a block has a value that was not seen yet, where there is one
    /// group. All that a dictionary has is seen at once where all rows come.
    pub(crate) fn knows(&mut self, block: &OpenBlock<'_>) -> Option<Statistic> {
        if self.known == Some(block.at.segment) {
            return Some(Statistic::Dictionary);
        }
        let codes = match self.radix.possible(block).ok()?? {
            CodesOfBlock::Range(low, high) => {
                let within = low <= high && high < self.radix.product;
                let all = within && are_set(&self.seen, low..=high);
                return all.then_some(Statistic::ZoneBounds);
            }
            CodesOfBlock::Dictionary(codes) => codes,
        };
        // Where statistics are wrong, `look` refuses the rows.
        if !self.all || codes.iter().any(|code| u64::from(*code) >= self.radix.product) {
            return None;
        }
        // Null comes first, whether some row has it or not.
        codes.iter().skip(1).for_each(|code| set(&mut self.seen, u64::from(*code)));
        self.known = Some(block.at.segment);
        Some(Statistic::Dictionary)
    }

    fn look(&mut self, slice: &Slice<'_, '_>) -> Result<()> {
        let local = self.radix.of_block(slice.block)?;
        if let Some(number) = local.constant() {
            set(&mut self.seen, number);
            return Ok(());
        }
        if let Some((codes, number_of_code)) =
            local.bytes(slice, &mut self.bytes, &mut self.number_of_code, &mut self.scratch)?
        {
            mark(codes, number_of_code, &mut self.seen);
            return Ok(());
        }
        self.words.clear();
        local.numbers(slice, &mut self.words, &mut self.scratch)?;
        self.words.iter().for_each(|number| set(&mut self.seen, u64::from(*number)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_ranges_are_counted() {
        let bits = [u64::MAX, 0b1011, 0, u64::MAX];
        let plain = |range: std::ops::Range<u64>| {
            range.filter(|at| bits[(at / 64) as usize] >> (at % 64) & 1 > 0).count()
        };
        for start in 0..256 {
            for end in start..=256 {
                assert_eq!(count(&bits, start..end), plain(start..end) as u64, "{start}..{end}");
                let all = start == end || are_set(&bits, start..=end - 1);
                assert_eq!(all, plain(start..end) as u64 == end - start, "{start}..{end}");
            }
        }
    }
}
