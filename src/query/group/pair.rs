//! Composite keys (group, value), which `count(DISTINCT …)` deduplicates.

use std::sync::Arc;

use super::key_column::{Bytes, KeyColumn, KeyWord, number};
use super::key_encoder::{KeyEncoder, KeyScratch};
use super::keys::{Keys, of_words, wrong_form_error};
use crate::error::Result;
use crate::query::slice::Slice;

/// The keys of a hash table.
#[derive(Debug)]
pub(crate) enum TableKeys {
    /// Of groups.
    Group(Arc<KeyEncoder>),
    /// Of a group and one of its values.
    Pair(Pair),
}

/// What is computed on the way to the keys of a table.
#[derive(Debug, Default)]
pub(crate) struct TableScratch {
    encoder: KeyScratch,
    /// The parts of pairs.
    parts: Option<(Keys, Keys)>,
}

impl TableKeys {
    /// No keys of the layout.
    pub(crate) fn empty_keys(&self) -> Keys {
        match self {
            TableKeys::Group(keys) => keys.empty_keys(),
            TableKeys::Pair(pair) => pair.empty_keys(),
        }
    }

    /// The keys of the selected rows of a slice, in place of what `keys` had.
    pub(crate) fn write(
        &self,
        slice: &Slice<'_, '_>,
        keys: &mut Keys,
        scratch: &mut TableScratch,
    ) -> Result<()> {
        match self {
            TableKeys::Group(encoder) => encoder.write(slice, keys, &mut scratch.encoder),
            TableKeys::Pair(pair) => pair.write(slice, keys, scratch),
        }
    }
}

/// The key of a group, and the key of a value.
#[derive(Debug)]
pub(crate) struct Pair {
    /// `None` where there is one group: the pair is the value's key alone.
    group: Option<Arc<KeyEncoder>>,
    value: Box<KeyEncoder>,
    /// The bits of pairs, side by side with the group's above the value's. `None` for pairs of
    /// bytes: those of both, and how many are the group's unless all groups have as many.
    bits: Option<u32>,
}

impl Pair {
    pub(crate) fn new(group: Option<Arc<KeyEncoder>>, value: KeyEncoder) -> Pair {
        let of_group = group.as_ref().map_or(Some(0), |group| group.bits());
        let bits = of_group.zip(value.bits()).map(|(group, value)| group + value);
        Pair { group, value: Box::new(value), bits: bits.filter(|bits| *bits <= u128::BITS) }
    }

    /// Whether there is one group.
    pub(crate) fn is_one_group(&self) -> bool {
        self.group.is_none()
    }

    /// No keys of the form.
    pub(crate) fn empty_keys(&self) -> Keys {
        Keys::of_bits(self.bits)
    }

    /// The pair of each selected row, in place of what `keys` had.
    fn write(
        &self,
        slice: &Slice<'_, '_>,
        keys: &mut Keys,
        scratch: &mut TableScratch,
    ) -> Result<()> {
        let TableScratch { encoder, parts } = scratch;
        let Some(group) = &self.group else { return self.value.write(slice, keys, encoder) };
        let (groups, values) =
            parts.get_or_insert_with(|| (group.empty_keys(), self.value.empty_keys()));
        group.write(slice, groups, encoder)?;
        self.value.write(slice, values, encoder)?;
        keys.clear();
        self.join(groups, values, keys)
    }

    fn join(&self, groups: &Keys, values: &Keys, keys: &mut Keys) -> Result<()> {
        let bits = self.value.bits().unwrap_or(0);
        match keys {
            Keys::Narrow(keys) => {
                let (groups, values): (&Vec<u64>, &Vec<u64>) =
                    (groups.try_into()?, values.try_into()?);
                side_by_side(groups, values, bits, keys);
                Ok(())
            }
            Keys::Wide(keys) => of_words!(groups, groups => of_words!(values, values => {
                side_by_side(groups, values, bits, keys);
                Ok(())
            })),
            Keys::Bytes(keys) => {
                let width = groups.width();
                for at in 0..groups.len().min(values.len()) {
                    let group = groups.put(at, keys);
                    values.put(at, keys);
                    match width {
                        Some(_) => keys.push(&[]),
                        None => keys.push(&(group as u32).to_le_bytes()),
                    }
                }
                Ok(())
            }
        }
    }

    /// The keys of the groups of those pairs whose value is not null, none where there is one
    /// group, and how many these pairs are.
    pub(crate) fn groups(&self, keys: &Keys) -> Result<(Keys, usize)> {
        let mut found = self.group.as_ref().map(|group| group.empty_keys());
        let count = match keys {
            Keys::Narrow(pairs) => self.groups_of_words(pairs, found.as_mut())?,
            Keys::Wide(pairs) => self.groups_of_words(pairs, found.as_mut())?,
            Keys::Bytes(pairs) => self.groups_of_bytes(pairs, found.as_mut())?,
        };
        Ok((found.unwrap_or_else(|| keys.empty_like()), count))
    }

    fn groups_of_words<W: KeyWord>(&self, pairs: &[W], found: Option<&mut Keys>) -> Result<usize> {
        let (bits, null) = (self.value.bits().unwrap_or(0), self.value.null());
        let mask = u128::MAX.checked_shr(u128::BITS - bits).unwrap_or(0);
        let pairs = pairs.iter().map(|pair| Into::<u128>::into(*pair));
        let valid = pairs.filter(|pair| Some(pair & mask) != null);
        let Some(found) = found else { return Ok(valid.count()) };
        let groups = valid.map(|pair| pair.checked_shr(bits).unwrap_or(0));
        of_words!(found, found => {
            groups.for_each(|group| found.push(KeyWord::low(group)));
            Ok(found.len())
        })
    }

    fn groups_of_bytes(&self, pairs: &Bytes, found: Option<&mut Keys>) -> Result<usize> {
        let pairs = (0..pairs.len()).map(|at| pairs.get(at));
        let Some(found) = found else {
            return Ok(pairs.filter(|pair| self.is_valid(pair)).count());
        };
        for pair in pairs {
            let (group, value) = split(pair, found.width()).ok_or_else(wrong_form_error)?;
            if self.is_valid(value) {
                found.push_bytes(group);
            }
        }
        Ok(found.len())
    }

    /// Whether the bytes of a value are not those of null.
    fn is_valid(&self, value: &[u8]) -> bool {
        match self.value.bits() {
            Some(_) => Some(number(value)) != self.value.null(),
            // Texts and rows alike start with a byte that is 0 for null.
            None => value.first().is_some_and(|first| *first > 0),
        }
    }
}

/// Groups in the bits above those of values.
fn side_by_side<G: Copy + Into<W>, V: Copy + Into<W>, W: KeyWord>(
    groups: &[G],
    values: &[V],
    bits: u32,
    out: &mut Vec<W>,
) {
    let beside = |(group, value): (&G, &V)| (*group).into().above(bits) | (*value).into();
    out.extend(groups.iter().zip(values).map(beside));
}

/// The bytes of the group and of the value of a pair; `width` are those of all groups' keys.
fn split(pair: &[u8], width: Option<usize>) -> Option<(&[u8], &[u8])> {
    if let Some(width) = width {
        return pair.split_at_checked(width);
    }
    let (pair, group) = pair.split_last_chunk::<4>()?;
    pair.split_at_checked(u32::from_le_bytes(*group) as usize)
}
