//! The dictionary of a column in a segment: distinct values get provisional ids while rows arrive,
//! and sorted codes at the end.
//!
//! `ingest` feeds a builder row by row. When the segment is complete, the dictionary's values
//! become an ordinary stream ([`super::strings`], [`super::ints`], [`super::floats`]), the
//! provisional ids are remapped to codes (code 0 is null, the smallest value is code 1), and the
//! codes become [`super::ints::Ints`] of `u32`. A builder refuses a value that would exceed its
//! limits, so that columns with too many distinct values fall back early to encodings per block.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

pub(crate) use super::dictionary_words::{WordDictionary, WordDictionaryBuilder, WordOrder};

/// Seed of the hash functions: fixed, so that ingest is repeatable.
pub(super) const SEED: u64 = 0x5374_796c_6f62_6174;

/// The limits of a builder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictionaryLimits {
    /// The most distinct values.
    pub values: usize,
    /// The most bytes of all distinct values together.
    pub bytes: usize,
}

impl Default for DictionaryLimits {
    fn default() -> Self {
        DictionaryLimits {
            values: crate::limits::MAX_DICTIONARY_VALUES,
            bytes: crate::limits::MAX_DICTIONARY_BYTES,
        }
    }
}

/// Collects the distinct byte strings of a column.
#[derive(Debug)]
pub(crate) struct DictionaryBuilder {
    table: HashTable<(u32, u32)>,
    state: FixedState,
    bytes: Vec<u8>,
    ends: Vec<u32>,
    last: Option<u32>,
    limits: DictionaryLimits,
}

/// The sorted distinct byte strings of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// The code (from 1) of each provisional id.
    pub remap: Vec<u32>,
}

impl DictionaryBuilder {
    /// An empty builder that refuses to grow beyond `limits`.
    pub(crate) fn new(limits: DictionaryLimits) -> Self {
        let bytes = limits.bytes.min(u32::MAX as usize);
        DictionaryBuilder {
            table: HashTable::new(),
            state: FixedState::with_seed(SEED),
            bytes: Vec::new(),
            ends: Vec::new(),
            last: None,
            limits: DictionaryLimits { bytes, ..limits },
        }
    }

    /// Distinct values so far.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no values yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The provisional id of `value`, or `None` when it is new and the dictionary is full.
    #[inline]
    pub(crate) fn insert(&mut self, value: &[u8]) -> Option<u32> {
        // Columns worth a dictionary mostly repeat the previous value.
        if let Some(last) = self.last
            && same(slice(&self.bytes, &self.ends, last as usize), value)
        {
            return Some(last);
        }
        let id = self.find_or_add(value)?;
        self.last = Some(id);
        Some(id)
    }

    fn find_or_add(&mut self, value: &[u8]) -> Option<u32> {
        let Self { table, state, bytes, ends, limits, .. } = self;
        let hash = if value.len() <= 16 { hash_short(value) } else { state.hash_one(value) };
        let tag = hash as u32;
        // The table hashes by the low half only, so the tag alone suffices when it grows.
        let found = table.entry(
            spread(tag),
            |&(other, id)| other == tag && same(slice(bytes, ends, id as usize), value),
            |&(other, _)| spread(other),
        );
        match found {
            Entry::Occupied(entry) => Some(entry.get().1),
            Entry::Vacant(entry) => {
                if ends.len() >= limits.values || value.len() > limits.bytes - bytes.len() {
                    return None;
                }
                let id = ends.len() as u32;
                bytes.extend_from_slice(value);
                ends.push(bytes.len() as u32);
                entry.insert((tag, id));
                Some(id)
            }
        }
    }

    /// Sorts the values and maps provisional ids to codes.
    pub(crate) fn finish(self) -> Dictionary {
        let value = |id: u32| slice(&self.bytes, &self.ends, id as usize);
        let mut order: Vec<(u64, u32)> =
            (0..self.ends.len() as u32).map(|id| (prefix(value(id)), id)).collect();
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| value(a.1).cmp(value(b.1))));
        let mut sorted = Dictionary {
            bytes: Vec::with_capacity(self.bytes.len()),
            ends: Vec::with_capacity(order.len()),
            remap: vec![0; order.len()],
        };
        for (code, &(_, id)) in (1..).zip(&order) {
            sorted.bytes.extend_from_slice(value(id));
            sorted.ends.push(sorted.bytes.len() as u32);
            sorted.remap[id as usize] = code;
        }
        sorted
    }
}

impl Dictionary {
    /// Distinct values.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The value of a code; codes start at 1.
    pub(crate) fn value(&self, code: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, code as usize - 1)
    }

    /// The values in order; the value at index `i` has code `i + 1`.
    pub(crate) fn values(&self) -> Vec<&[u8]> {
        (0..self.len()).map(|i| slice(&self.bytes, &self.ends, i)).collect()
    }

    /// The content hash: dictionaries with equal hashes hold the same values under the same codes.
    pub(crate) fn hash(&self) -> u128 {
        content_hash(&self.values())
    }
}

/// XXH3-128 over the count (`u64`) and the length-prefixed (`u32`) values.
pub(crate) fn content_hash(values: &[&[u8]]) -> u128 {
    let mut bytes = Vec::with_capacity(8 + values.iter().map(|v| v.len() + 4).sum::<usize>());
    bytes.extend_from_slice(&(values.len() as u64).to_le_bytes());
    for value in values {
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    twox_hash::XxHash3_128::oneshot(&bytes)
}

#[inline]
fn slice<'a>(bytes: &'a [u8], ends: &[u32], index: usize) -> &'a [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    &bytes[start..ends[index] as usize]
}

/// The eight bytes at `at`; the caller guarantees that they exist.
#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// The first and last bytes of a string of up to 16 bytes, which together with its length identify
/// it.
#[inline(always)]
fn head_and_tail(value: &[u8]) -> (u64, u64) {
    let n = value.len();
    if n >= 8 {
        (load(value, 0), load(value, n - 8))
    } else if n >= 4 {
        let half = |at| {
            u64::from(u32::from_le_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]))
        };
        (half(0), half(n - 4))
    } else if n > 0 {
        (u64::from(value[0]) << 8 | u64::from(value[n / 2]), u64::from(value[n - 1]))
    } else {
        (0, 0)
    }
}

/// A hash of up to 16 bytes that needs no function call.
#[inline(always)]
fn hash_short(value: &[u8]) -> u64 {
    let (first, last) = head_and_tail(value);
    let length = (value.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(first ^ SEED) * u128::from(last ^ length ^ 0xa076_1d64_78bd_642f);
    (product as u64) ^ (product >> 64) as u64
}

/// Equality that needs no function call for strings of up to 32 bytes.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        0..=16 => head_and_tail(a) == head_and_tail(b),
        17..=32 => {
            let (a_first, a_last) = (&a[..16], &a[a.len() - 16..]);
            let (b_first, b_last) = (&b[..16], &b[b.len() - 16..]);
            (head_and_tail(a_first), head_and_tail(a_last))
                == (head_and_tail(b_first), head_and_tail(b_last))
        }
        _ => a == b,
    }
}

/// The first eight bytes as a number that sorts in their order.
fn prefix(value: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = value.len().min(8);
    first[..n].copy_from_slice(&value[..n]);
    u64::from_be_bytes(first)
}

/// Spreads 32 bits of hash over all 64, since the table uses both ends.
#[inline]
fn spread(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_refuse_new_values_only() {
        let mut builder = DictionaryBuilder::new(DictionaryLimits { values: 2, bytes: 5 });
        assert_eq!(builder.insert(b"abc"), Some(0));
        assert_eq!(builder.insert(b"abcd"), None);
        assert_eq!(builder.insert(b""), Some(1));
        assert_eq!(builder.insert(b"x"), None);
        assert_eq!(builder.insert(b"abc"), Some(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn codes_keep_order_and_values(
            values in prop::collection::vec(prop::collection::vec(0u8..4, 0..4), 0..300),
        ) {
            let mut builder = DictionaryBuilder::new(DictionaryLimits::default());
            let ids: Vec<u32> = values.iter().map(|v| builder.insert(v).unwrap()).collect();
            let dictionary = builder.finish();
            let sorted = dictionary.values();
            prop_assert!(sorted.windows(2).all(|w| w[0] < w[1]));
            for (value, id) in values.iter().zip(ids) {
                prop_assert_eq!(sorted[dictionary.remap[id as usize] as usize - 1], &value[..]);
            }
            prop_assert_eq!(dictionary.hash(), content_hash(&sorted));
        }
    }
}
