//! Keys of groups in the form in which they are hashed, compared, partitioned and spilled.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::index::Index;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::query::aggregate::columns::{gather, read_words, write_words};

const SEED: u64 = 0x7374_796c_6f62_6174;
const STATE: FixedState = FixedState::with_seed(SEED);

/// One key a group or a row.
#[derive(Debug)]
pub(crate) enum Keys {
    /// Packed into 64 bits.
    Narrow(Vec<u64>),
    /// Packed into 128 bits.
    Wide(Vec<u128>),
    /// Bytes of any length.
    Bytes(Bytes),
}

/// Runs of bytes.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Bytes {
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends.get(at - 1).copied().unwrap_or(0) };
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.bytes.get(start..end).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Appends bytes to a key that [`Bytes::push`] will end.
    pub(crate) fn extend(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// Appends a key of two parts.
    pub(crate) fn push_parts(&mut self, first: u8, rest: &[u8]) {
        self.bytes.push(first);
        self.push(rest);
    }
}

impl Keys {
    /// None of the same kind.
    pub(crate) fn none(&self) -> Keys {
        match self {
            Keys::Narrow(_) => Keys::Narrow(Vec::new()),
            Keys::Wide(_) => Keys::Wide(Vec::new()),
            Keys::Bytes(_) => Keys::Bytes(Bytes::default()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Keys::Narrow(keys) => keys.len(),
            Keys::Wide(keys) => keys.len(),
            Keys::Bytes(keys) => keys.ends.len(),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Keys::Narrow(keys) => keys.clear(),
            Keys::Wide(keys) => keys.clear(),
            Keys::Bytes(keys) => {
                keys.bytes.clear();
                keys.ends.clear();
            }
        }
    }

    pub(crate) fn memory(&self) -> usize {
        match self {
            Keys::Narrow(keys) => keys.capacity() * size_of::<u64>(),
            Keys::Wide(keys) => keys.capacity() * size_of::<u128>(),
            Keys::Bytes(keys) => keys.bytes.capacity() + keys.ends.capacity() * size_of::<usize>(),
        }
    }

    /// The hash of each key, in place of what `out` had.
    pub(crate) fn hashes(&self, out: &mut Vec<u64>) {
        out.clear();
        match self {
            Keys::Narrow(keys) => out.extend(keys.iter().map(|key| hash(*key))),
            Keys::Wide(keys) => {
                out.extend(keys.iter().map(|key| hash(*key as u64 ^ hash((*key >> 64) as u64))));
            }
            Keys::Bytes(keys) => {
                out.extend((0..keys.ends.len()).map(|at| STATE.hash_one(keys.get(at))))
            }
        }
    }

    /// Appends some of the other's keys, which are of the same kind.
    pub(crate) fn append(&mut self, from: &Keys, at: &[u32]) {
        match (self, from) {
            (Keys::Narrow(keys), Keys::Narrow(from)) => gather(keys, from, at),
            (Keys::Wide(keys), Keys::Wide(from)) => gather(keys, from, at),
            (Keys::Bytes(keys), Keys::Bytes(from)) => {
                at.iter().for_each(|at| keys.push(from.get(*at as usize)))
            }
            _ => {}
        }
    }

    /// Appends to `groups` where each of the other's keys stands among these; those not yet there
    /// are appended.
    pub(crate) fn find(
        &mut self,
        index: &mut Index,
        other: &Keys,
        hashes: &[u64],
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        let most = self.len().saturating_add(other.len());
        if u32::try_from(most).is_err() {
            return Err(Error::LimitExceeded(
                "more than 2³² groups in one part of a hash table".into(),
            ));
        }
        match (self, other) {
            (Keys::Narrow(known), Keys::Narrow(keys)) => {
                find_words(known, index, keys, hashes, groups)
            }
            (Keys::Wide(known), Keys::Wide(keys)) => find_words(known, index, keys, hashes, groups),
            (Keys::Bytes(known), Keys::Bytes(keys)) => {
                for (at, hash) in hashes.iter().enumerate() {
                    let (key, next) = (keys.get(at), known.ends.len());
                    index.reserve(next + 1);
                    let group = index.find_or_insert(*hash, next as u32, |group| {
                        known.get(group as usize) == key
                    });
                    if group as usize == next {
                        known.push(key);
                    }
                    groups.push(group);
                }
            }
            _ => return Err(Error::InvalidInput("keys of another kind than planned".into())),
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        match self {
            Keys::Narrow(keys) => write_words(keys, out),
            Keys::Wide(keys) => write_words(keys, out),
            Keys::Bytes(keys) => {
                let ends: Vec<u64> = keys.ends.iter().map(|end| *end as u64).collect();
                write_words(&ends, out);
                out.put(&keys.bytes);
            }
        }
    }

    /// So many keys of this kind.
    pub(crate) fn read(&self, count: usize, from: &mut Cursor<'_>) -> Result<Keys> {
        Ok(match self {
            Keys::Narrow(_) => Keys::Narrow(read_words(count, from)?),
            Keys::Wide(_) => Keys::Wide(read_words(count, from)?),
            Keys::Bytes(_) => {
                let ends: Vec<u64> = read_words(count, from)?;
                let ends: Vec<usize> = ends.into_iter().map(|end| end as usize).collect();
                let bytes = from.take(ends.last().copied().unwrap_or(0))?.to_vec();
                if !ends.is_sorted() {
                    return Err(from.corrupt("keys that end before they start"));
                }
                Keys::Bytes(Bytes { bytes, ends })
            }
        })
    }
}

#[inline(always)]
fn find_words<T: Copy + PartialEq>(
    known: &mut Vec<T>,
    index: &mut Index,
    keys: &[T],
    hashes: &[u64],
    groups: &mut Vec<u32>,
) {
    let mut last: Option<(T, u32)> = None;
    for (key, hash) in keys.iter().zip(hashes) {
        if let Some((same, group)) = last
            && same == *key
        {
            groups.push(group);
            continue;
        }
        let next = known.len();
        index.reserve(next + 1);
        let group = index
            .find_or_insert(*hash, next as u32, |group| known.get(group as usize) == Some(key));
        if group as usize == next {
            known.push(*key);
        }
        groups.push(group);
        last = Some((*key, group));
    }
}

/// Every bit depends on every bit.
#[inline(always)]
fn hash(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f_u128;
    (product >> 64) as u64 ^ product as u64
}
