//! Keys of a group and one of its values: what is told apart where distinct values of groups are
//! counted.

use std::sync::Arc;

use super::key_encoder::{KeyEncoder, KeyScratch};
use super::keys::{Bytes, Keys};
use crate::error::{Error, Result};
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
    pub(crate) fn none(&self) -> Keys {
        match self {
            TableKeys::Group(keys) => keys.none(),
            TableKeys::Pair(pair) => pair.none(),
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
    /// `None` where there is one group.
    group: Option<Arc<KeyEncoder>>,
    value: Box<KeyEncoder>,
    layout: PairLayout,
}

/// How the two become one.
#[derive(Clone, Copy, Debug)]
enum PairLayout {
    /// The value's alone.
    Value,
    /// Side by side in 64 bits; the number of the value's bits.
    Narrow(u32),
    /// The same in 128 bits.
    Wide(u32),
    /// The bytes of both, and how many are the group's unless all groups have as many.
    Bytes,
}

impl Pair {
    pub(crate) fn new(group: Option<Arc<KeyEncoder>>, value: KeyEncoder) -> Pair {
        let layout = match (group.as_ref().map(|group| group.bits()), value.bits()) {
            (None, _) => PairLayout::Value,
            (Some(Some(group)), Some(value)) if group + value <= u64::BITS => {
                PairLayout::Narrow(value)
            }
            (Some(Some(group)), Some(value)) if group + value <= u128::BITS => {
                PairLayout::Wide(value)
            }
            _ => PairLayout::Bytes,
        };
        Pair { group, value: Box::new(value), layout }
    }

    /// Whether there is one group.
    pub(crate) fn is_one_group(&self) -> bool {
        self.group.is_none()
    }

    /// No keys of the layout.
    pub(crate) fn none(&self) -> Keys {
        match self.layout {
            PairLayout::Value => self.value.none(),
            PairLayout::Narrow(_) => Keys::Narrow(Vec::new()),
            PairLayout::Wide(_) => Keys::Wide(Vec::new()),
            PairLayout::Bytes => Keys::Bytes(Bytes::default()),
        }
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
        let (groups, values) = parts.get_or_insert_with(|| (group.none(), self.value.none()));
        group.write(slice, groups, encoder)?;
        self.value.write(slice, values, encoder)?;
        keys.clear();
        self.join(groups, values, keys)
    }

    fn join(&self, groups: &Keys, values: &Keys, keys: &mut Keys) -> Result<()> {
        match (self.layout, groups, values, keys) {
            (
                PairLayout::Narrow(bits),
                Keys::Narrow(groups),
                Keys::Narrow(values),
                Keys::Narrow(keys),
            ) => {
                let beside =
                    |(group, value): (&u64, &u64)| group.checked_shl(bits).unwrap_or(0) | value;
                keys.extend(groups.iter().zip(values).map(beside));
            }
            (PairLayout::Wide(bits), Keys::Narrow(a), Keys::Narrow(b), Keys::Wide(keys)) => {
                side_by_side(a, b, bits, keys)
            }
            (PairLayout::Wide(bits), Keys::Narrow(a), Keys::Wide(b), Keys::Wide(keys)) => {
                side_by_side(a, b, bits, keys)
            }
            (PairLayout::Wide(bits), Keys::Wide(a), Keys::Narrow(b), Keys::Wide(keys)) => {
                side_by_side(a, b, bits, keys)
            }
            (PairLayout::Wide(bits), Keys::Wide(a), Keys::Wide(b), Keys::Wide(keys)) => {
                side_by_side(a, b, bits, keys)
            }
            (PairLayout::Bytes, groups, values, Keys::Bytes(keys)) => {
                for at in 0..groups.len().min(values.len()) {
                    let group = put(groups, at, keys);
                    put(values, at, keys);
                    match groups {
                        Keys::Bytes(_) => keys.push(&(group as u32).to_le_bytes()),
                        _ => keys.push(&[]),
                    }
                }
            }
            _ => return Err(another_kind()),
        }
        Ok(())
    }

    /// The keys of the groups of those pairs whose value is not null, and how many these are.
    pub(crate) fn groups(&self, keys: &Keys) -> Result<(Keys, usize)> {
        let null = self.value.null();
        let Some(group) = &self.group else { return Ok((keys.none(), self.values(keys, null))) };
        let mut found = group.none();
        match (self.layout, keys, &mut found) {
            (PairLayout::Narrow(bits), Keys::Narrow(keys), Keys::Narrow(found)) => {
                let mask = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
                let valid = |key: &&u64| Some(u128::from(**key & mask)) != null;
                found.extend(
                    keys.iter().filter(valid).map(|key| key.checked_shr(bits).unwrap_or(0)),
                );
            }
            (PairLayout::Wide(bits), Keys::Wide(keys), found) => {
                let mask = u128::MAX.checked_shr(u128::BITS - bits).unwrap_or(0);
                let valid = keys.iter().filter(|key| Some(**key & mask) != null);
                let groups = valid.map(|key| key.checked_shr(bits).unwrap_or(0));
                match found {
                    Keys::Narrow(found) => found.extend(groups.map(|group| group as u64)),
                    Keys::Wide(found) => found.extend(groups),
                    Keys::Bytes(_) => return Err(another_kind()),
                }
            }
            (PairLayout::Bytes, Keys::Bytes(keys), found) => {
                for at in 0..keys.len() {
                    let (group, value) = part(keys.get(at), found).ok_or_else(another_kind)?;
                    if self.is_valid(value, null) {
                        push(found, group);
                    }
                }
            }
            _ => return Err(another_kind()),
        }
        let count = found.len();
        Ok((found, count))
    }

    /// How many values are not null.
    fn values(&self, keys: &Keys, null: Option<u128>) -> usize {
        match keys {
            Keys::Narrow(keys) => keys.iter().filter(|key| Some(u128::from(**key)) != null).count(),
            Keys::Wide(keys) => keys.iter().filter(|key| Some(**key) != null).count(),
            Keys::Bytes(keys) => {
                (0..keys.len()).filter(|at| self.is_valid(keys.get(*at), null)).count()
            }
        }
    }

    /// Whether the bytes of a value are not those of null.
    fn is_valid(&self, value: &[u8], null: Option<u128>) -> bool {
        match self.value.bits() {
            Some(_) => number(value) != null,
            // Texts and rows alike start with a byte that is 0 for null.
            None => value.first().is_some_and(|first| *first > 0),
        }
    }
}

fn another_kind() -> Error {
    Error::InvalidInput("keys of another kind than planned".into())
}

/// Groups in the bits above those of values.
fn side_by_side<G: Copy + Into<u128>, V: Copy + Into<u128>>(
    groups: &[G],
    values: &[V],
    bits: u32,
    out: &mut Vec<u128>,
) {
    let beside =
        |(group, value): (&G, &V)| (*group).into().checked_shl(bits).unwrap_or(0) | (*value).into();
    out.extend(groups.iter().zip(values).map(beside));
}

/// Appends the bytes of a key, and says how many they are.
fn put(from: &Keys, at: usize, to: &mut Bytes) -> usize {
    match from {
        Keys::Narrow(keys) => {
            to.extend(&keys.get(at).copied().unwrap_or(0).to_le_bytes());
            size_of::<u64>()
        }
        Keys::Wide(keys) => {
            to.extend(&keys.get(at).copied().unwrap_or(0).to_le_bytes());
            size_of::<u128>()
        }
        Keys::Bytes(keys) => {
            to.extend(keys.get(at));
            keys.get(at).len()
        }
    }
}

/// The bytes of the group and of the value of a pair; `like` are keys of groups.
fn part<'k>(key: &'k [u8], like: &Keys) -> Option<(&'k [u8], &'k [u8])> {
    match like {
        Keys::Narrow(_) => key.split_at_checked(size_of::<u64>()),
        Keys::Wide(_) => key.split_at_checked(size_of::<u128>()),
        Keys::Bytes(_) => {
            let (key, group) = key.split_last_chunk::<4>()?;
            key.split_at_checked(u32::from_le_bytes(*group) as usize)
        }
    }
}

/// The number that bytes of a key are.
fn number(bytes: &[u8]) -> Option<u128> {
    match bytes.len() {
        8 => Some(u128::from(u64::from_le_bytes(bytes.try_into().ok()?))),
        _ => Some(u128::from_le_bytes(bytes.try_into().ok()?)),
    }
}

fn push(keys: &mut Keys, bytes: &[u8]) {
    match keys {
        Keys::Narrow(keys) => keys.extend(number(bytes).map(|number| number as u64)),
        Keys::Wide(keys) => keys.extend(number(bytes)),
        Keys::Bytes(keys) => keys.push(bytes),
    }
}
