//! Dictionaries of fixed-width values (integers, floats, dates) by their bits. See
//! [`super::dictionary`].

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::dictionary::{SEED, content_hash};

/// How the words of a dictionary compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordOrder {
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
    /// A number that sorts in the order of the values.
    pub(crate) fn key(self, word: u64) -> u64 {
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
pub(crate) struct WordDictionaryBuilder {
    table: HashTable<(u64, u32)>,
    values: Vec<u64>,
    last: Option<(u64, u32)>,
    limit: usize,
}

/// The sorted distinct words of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordDictionary {
    /// The values in order; the value at index `i` has code `i + 1`.
    pub values: Vec<u64>,
    /// The code (from 1) of each provisional id.
    pub remap: Vec<u32>,
}

impl WordDictionaryBuilder {
    /// An empty builder that refuses more than `limit` values.
    pub(crate) fn new(limit: usize) -> Self {
        WordDictionaryBuilder { table: HashTable::new(), values: Vec::new(), last: None, limit }
    }

    /// Distinct values so far.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The provisional id of `word`, or `None` when it is new and the dictionary is full.
    #[inline]
    pub(crate) fn insert(&mut self, word: u64) -> Option<u32> {
        if let Some((last, id)) = self.last
            && last == word
        {
            return Some(id);
        }
        let entry =
            self.table.entry(mix(word), |&(other, _)| other == word, |&(other, _)| mix(other));
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

    /// Sorts the values and maps provisional ids to codes.
    pub(crate) fn finish(self, order: WordOrder) -> WordDictionary {
        let mut ids: Vec<(u64, u32)> = self.values.iter().map(|&v| order.key(v)).zip(0..).collect();
        ids.sort_unstable();
        let mut remap = vec![0; ids.len()];
        for (code, &(_, id)) in (1..).zip(&ids) {
            remap[id as usize] = code;
        }
        WordDictionary {
            values: ids.iter().map(|&(_, id)| self.values[id as usize]).collect(),
            remap,
        }
    }
}

impl WordDictionary {
    /// The content hash, computed as for eight-byte strings.
    pub(crate) fn hash(&self) -> u128 {
        let bytes: Vec<[u8; 8]> = self.values.iter().map(|v| v.to_le_bytes()).collect();
        content_hash(&bytes.iter().map(|b| &b[..]).collect::<Vec<_>>())
    }
}

/// A 64-bit mixer that folds the two halves of a product.
#[inline]
fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ SEED) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_refuses_new_values_only() {
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
}
