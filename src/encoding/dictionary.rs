//! Dictionaries of a column and segment: distinct values get provisional ids while rows arrive, and sorted
//! codes at the end.
//!
//! Where this stands on the road: `ingest` feeds a builder row by row; when the segment is complete the
//! dictionary's values become an ordinary stream ([`super::strings`], [`super::ints`], [`super::floats`]),
//! the provisional ids are remapped to codes (code 0 is null, the smallest value is code 1), and the codes
//! become [`super::ints::Ints`] of `u32`. A builder refuses the value that would break its limits, so that
//! columns with too many distinct values fall back early to encodings per block.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Seed of the hash functions: fixed, so that ingest is repeatable.
const SEED: u64 = 0x5374_796c_6f62_6174;

/// Where a builder gives up.
#[derive(Clone, Copy, Debug)]
pub struct DictionaryLimits {
    /// Distinct values.
    pub values: usize,
    /// Bytes of all distinct values together.
    pub bytes: usize,
}

impl Default for DictionaryLimits {
    fn default() -> Self {
        DictionaryLimits { values: crate::limits::MAX_DICTIONARY_VALUES, bytes: 64 << 20 }
    }
}

/// Collects the distinct byte strings of a column.
#[derive(Debug)]
pub struct DictionaryBuilder {
    table: HashTable<(u32, u32)>,
    state: FixedState,
    bytes: Vec<u8>,
    ends: Vec<u32>,
    last: Option<u32>,
    limits: DictionaryLimits,
}

/// The sorted distinct byte strings of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// The code (from 1) of each provisional id.
    pub remap: Vec<u32>,
}

impl DictionaryBuilder {
    /// An empty builder that refuses to grow beyond `limits`.
    pub fn new(limits: DictionaryLimits) -> Self {
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
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no value came yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of the distinct values so far.
    pub fn value_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Memory held, for the ingest's bound on buffered bytes.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.table.capacity() * 9
    }

    /// The provisional id of `value`, or `None` when it is new and the dictionary is full.
    #[inline]
    pub fn insert(&mut self, value: &[u8]) -> Option<u32> {
        // Neighbours repeat in most columns worth a dictionary.
        if let Some(last) = self.last
            && slice(&self.bytes, &self.ends, last as usize) == value
        {
            return Some(last);
        }
        let id = self.find_or_add(value)?;
        self.last = Some(id);
        Some(id)
    }

    fn find_or_add(&mut self, value: &[u8]) -> Option<u32> {
        let Self { table, state, bytes, ends, limits, .. } = self;
        let hash = state.hash_one(value);
        let tag = hash as u32;
        // The table hashes by the low half only, so the tag alone suffices when it grows.
        let found = table.entry(
            spread(tag),
            |&(other, id)| other == tag && slice(bytes, ends, id as usize) == value,
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

    /// The value of a provisional id.
    pub fn value(&self, id: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, id as usize)
    }

    /// Sorts the values and says which code each provisional id becomes.
    pub fn finish(self) -> Dictionary {
        let value = |id: u32| slice(&self.bytes, &self.ends, id as usize);
        let mut order: Vec<(u64, u32)> = (0..self.ends.len() as u32).map(|id| (prefix(value(id)), id)).collect();
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
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The values in order; the value at index `i` has code `i + 1`.
    pub fn values(&self) -> Vec<&[u8]> {
        (0..self.len()).map(|i| slice(&self.bytes, &self.ends, i)).collect()
    }

    /// The content hash: dictionaries with equal hashes hold the same values under the same codes.
    pub fn hash(&self) -> u128 {
        content_hash(&self.values())
    }
}

/// XXH3-128 over the count (`u64`) and the length-prefixed (`u32`) values.
pub fn content_hash(values: &[&[u8]]) -> u128 {
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

/// The first eight bytes as a number that sorts like them.
fn prefix(value: &[u8]) -> u64 {
    let mut first = [0; 8];
    let n = value.len().min(8);
    first[..n].copy_from_slice(&value[..n]);
    u64::from_be_bytes(first)
}

/// 32 bits of hash over all 64, since the table looks at both ends.
#[inline]
fn spread(tag: u32) -> u64 {
    u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How words of a dictionary compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOrder {
    /// As unsigned numbers.
    Unsigned,
    /// As two's complement numbers, sign-extended to 64 bits.
    Signed,
    /// As the bits of an f32, in total order.
    Float32,
    /// As the bits of an f64, in total order.
    Float64,
}

impl WordOrder {
    /// A number that sorts like the word.
    pub fn key(self, word: u64) -> u64 {
        match self {
            WordOrder::Unsigned => word,
            WordOrder::Signed => word ^ (1 << 63),
            WordOrder::Float32 => {
                let bits = word as u32;
                u64::from(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
            }
            WordOrder::Float64 => {
                if word >> 63 == 0 {
                    word | 1 << 63
                } else {
                    !word
                }
            }
        }
    }
}

/// Collects the distinct words (the bits of integers or floats) of a column.
#[derive(Debug)]
pub struct WordDictionaryBuilder {
    table: HashTable<(u64, u32)>,
    values: Vec<u64>,
    last: Option<(u64, u32)>,
    limit: usize,
}

/// The sorted distinct words of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordDictionary {
    /// The values in order; the value at index `i` has code `i + 1`.
    pub values: Vec<u64>,
    /// The code (from 1) of each provisional id.
    pub remap: Vec<u32>,
}

impl WordDictionaryBuilder {
    /// An empty builder that refuses more than `limit` values.
    pub fn new(limit: usize) -> Self {
        WordDictionaryBuilder { table: HashTable::new(), values: Vec::new(), last: None, limit }
    }

    /// Distinct values so far.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no value came yet.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Memory held, for the ingest's bound on buffered bytes.
    pub fn memory(&self) -> usize {
        self.values.capacity() * 8 + self.table.capacity() * 17
    }

    /// The provisional id of `word`, or `None` when it is new and the dictionary is full.
    #[inline]
    pub fn insert(&mut self, word: u64) -> Option<u32> {
        if let Some((last, id)) = self.last
            && last == word
        {
            return Some(id);
        }
        let entry = self.table.entry(mix(word), |&(other, _)| other == word, |&(other, _)| mix(other));
        let id = match entry {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(entry) => {
                if self.values.len() >= self.limit {
                    return None;
                }
                let id = self.values.len() as u32;
                self.values.push(word);
                entry.insert((word, id));
                id
            }
        };
        self.last = Some((word, id));
        Some(id)
    }

    /// The value of a provisional id.
    pub fn value(&self, id: u32) -> u64 {
        self.values[id as usize]
    }

    /// Sorts the values and says which code each provisional id becomes.
    pub fn finish(self, order: WordOrder) -> WordDictionary {
        let mut ids: Vec<(u64, u32)> = self.values.iter().map(|&v| order.key(v)).zip(0..).collect();
        ids.sort_unstable();
        let mut remap = vec![0; ids.len()];
        for (code, &(_, id)) in (1..).zip(&ids) {
            remap[id as usize] = code;
        }
        WordDictionary { values: ids.iter().map(|&(_, id)| self.values[id as usize]).collect(), remap }
    }
}

impl WordDictionary {
    /// The content hash: as that of eight-byte strings.
    pub fn hash(&self) -> u128 {
        let bytes: Vec<[u8; 8]> = self.values.iter().map(|v| v.to_le_bytes()).collect();
        content_hash(&bytes.iter().map(|b| &b[..]).collect::<Vec<_>>())
    }
}

/// A 64-bit mixer: the product's halves folded together.
#[inline]
fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ SEED) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64) ^ (product >> 64) as u64
}

/// Whether a dictionary will pay for a column of `rows` byte strings of which `sample` came first.
///
/// Codes must cost less than the values under the encodings per block, which are taken to halve them.
pub fn pays(sample: &[&[u8]], rows: usize) -> bool {
    let mut builder = DictionaryBuilder::new(DictionaryLimits::default());
    let mut half = 0;
    let mut bytes = 0;
    for (i, value) in sample.iter().enumerate() {
        if builder.insert(value).is_none() {
            return false;
        }
        bytes += value.len();
        if i == sample.len() / 2 {
            half = builder.len();
        }
    }
    let distinct = distinct_at(half, builder.len(), sample.len(), rows);
    let value_bytes = bytes as f64 / sample.len().max(1) as f64;
    worthwhile(distinct, rows, value_bytes / 2.0 + 0.5)
}

/// The same for words that cost `value_bits` each outside a dictionary.
pub fn pays_words(sample: &[u64], rows: usize, value_bits: f64) -> bool {
    let mut builder = WordDictionaryBuilder::new(usize::MAX);
    let mut half = 0;
    for (i, &word) in sample.iter().enumerate() {
        builder.insert(word);
        if i == sample.len() / 2 {
            half = builder.len();
        }
    }
    worthwhile(distinct_at(half, builder.len(), sample.len(), rows), rows, value_bits / 8.0)
}

/// The distinct values to expect in `rows` rows when half of `seen` rows had `half` and all of them had `full`:
/// growth by a power law (Heaps), whose exponent the two counts give.
pub fn distinct_at(half: usize, full: usize, seen: usize, rows: usize) -> f64 {
    if seen == 0 || full == 0 {
        return 0.0;
    }
    let exponent = (full as f64 / half.max(1) as f64).log2().clamp(0.0, 1.0);
    let factor = (rows as f64 / seen as f64).max(1.0).powf(exponent);
    (full as f64 * factor).min(rows as f64)
}

/// Whether `distinct` values once and a code a row cost less than `value_bytes` a row.
fn worthwhile(distinct: f64, rows: usize, value_bytes: f64) -> bool {
    let code_bytes = (distinct + 1.0).log2().max(1.0) / 8.0;
    distinct * value_bytes + rows as f64 * code_bytes < rows as f64 * value_bytes
        && distinct <= crate::limits::MAX_DICTIONARY_VALUES as f64
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
        let mut words = WordDictionaryBuilder::new(1);
        assert_eq!([words.insert(7), words.insert(8), words.insert(7)], [Some(0), None, Some(0)]);
    }

    #[test]
    fn word_orders() {
        let mut builder = WordDictionaryBuilder::new(10);
        let floats: [f64; 6] = [1.5, -0.0, f64::NAN, 0.0, f64::NEG_INFINITY, -3.0];
        for float in floats {
            builder.insert(float.to_bits());
        }
        let dictionary = builder.finish(WordOrder::Float64);
        let mut expected = floats;
        expected.sort_by(f64::total_cmp);
        let bits: Vec<u64> = expected.iter().map(|f| f.to_bits()).collect();
        assert_eq!(dictionary.values, bits);
        assert!(WordOrder::Signed.key(-1i64 as u64) < WordOrder::Signed.key(0));
        assert!(WordOrder::Float32.key(u64::from((-1f32).to_bits())) < WordOrder::Float32.key(0));
    }

    #[test]
    fn what_pays() {
        let few: Vec<String> = (0..5000).map(|i| format!("neighbourhood {}", i * i % 97)).collect();
        let many: Vec<String> = (0..5000).map(|i| format!("value {i}")).collect();
        let slices = |v: &'static [String]| v.iter().map(|s| s.as_bytes()).collect::<Vec<_>>();
        assert!(pays(&slices(few.leak()), 1_000_000));
        assert!(!pays(&slices(many.leak()), 1_000_000));
        assert!(pays_words(&(0..5000).map(|i| (i % 9) << 40).collect::<Vec<u64>>(), 1_000_000, 20.0));
        assert!(!pays_words(&(0..5000).collect::<Vec<u64>>(), 1_000_000, 13.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn codes_keep_order_and_values(values in prop::collection::vec(prop::collection::vec(0u8..4, 0..4), 0..300)) {
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
