//! Keys of groups in the form in which they are hashed, compared, partitioned and spilled: numbers
//! of 64 or 128 bits, or bytes.

use std::fmt;
use std::hash::BuildHasher;
use std::ops::BitOr;

use bytemuck::Pod;
use foldhash::fast::FixedState;

use super::index::Index;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::query::aggregate::columns::{gather, read_words, write_words};

const SEED: u64 = 0x7374_796c_6f62_6174;
const STATE: FixedState = FixedState::with_seed(SEED);

/// Makes the enum of all forms of keys, and everything that asks which one it is.
macro_rules! keys {
    ($($form:ident($column:ty)),*) => {
        /// One key a group or a row.
        #[derive(Debug)]
        pub(crate) enum Keys {
            $($form($column),)*
        }

        impl Keys {
            fn get(&self) -> &dyn KeyColumn {
                match self {
                    $(Keys::$form(keys) => keys,)*
                }
            }

            fn get_mut(&mut self) -> &mut dyn KeyColumn {
                match self {
                    $(Keys::$form(keys) => keys,)*
                }
            }

            /// None of the same form.
            pub(crate) fn none(&self) -> Keys {
                match self {
                    $(Keys::$form(_) => Keys::$form(<$column>::default()),)*
                }
            }

            /// Appends some of the other's keys, which are of the same form.
            pub(crate) fn append(&mut self, from: &Keys, at: &[u32]) -> Result<()> {
                match (self, from) {
                    $((Keys::$form(keys), Keys::$form(from)) => keys.gather(from, at),)*
                    _ => return Err(another_form()),
                }
                Ok(())
            }

            /// Appends to `groups` where each of the other's keys, which are of the same form,
            /// stands among these; those not yet there are appended.
            pub(crate) fn find(
                &mut self,
                index: &mut Index,
                keys: &Keys,
                hashes: &[u64],
                groups: &mut Vec<u32>,
            ) -> Result<()> {
                match (self, keys) {
                    $((Keys::$form(known), Keys::$form(keys)) => {
                        known.find(index, keys, hashes, groups)
                    })*
                    _ => Err(another_form()),
                }
            }
        }

        $(impl<'k> TryFrom<&'k Keys> for &'k $column {
            type Error = Error;

            fn try_from(keys: &'k Keys) -> Result<Self> {
                let Keys::$form(keys) = keys else { return Err(another_form()) };
                Ok(keys)
            }
        }

        impl<'k> TryFrom<&'k mut Keys> for &'k mut $column {
            type Error = Error;

            fn try_from(keys: &'k mut Keys) -> Result<Self> {
                let Keys::$form(keys) = keys else { return Err(another_form()) };
                Ok(keys)
            }
        })*
    };
}

keys!(Narrow(Vec<u64>), Wide(Vec<u128>), Bytes(Bytes));

/// Does the same with keys of any word; bytes are an error.
macro_rules! of_words {
    ($keys:expr, $words:ident => $then:expr) => {
        match $keys {
            Keys::Narrow($words) => $then,
            Keys::Wide($words) => $then,
            Keys::Bytes(_) => Err(crate::query::group::keys::another_form()),
        }
    };
}
pub(crate) use of_words;

impl Keys {
    /// No keys of so many bits each, at most 128; `None` for bytes.
    pub(crate) fn of_bits(bits: Option<u32>) -> Keys {
        match bits {
            Some(..=u64::BITS) => Keys::Narrow(Vec::new()),
            Some(_) => Keys::Wide(Vec::new()),
            None => Keys::Bytes(Bytes::default()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.get().len()
    }

    pub(crate) fn clear(&mut self) {
        self.get_mut().clear();
    }

    pub(crate) fn memory(&self) -> usize {
        self.get().memory()
    }

    /// The hash of each key, in place of what `out` had.
    pub(crate) fn hashes(&self, out: &mut Vec<u64>) {
        self.get().hashes(out);
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.get().write(out);
    }

    /// So many keys of this form.
    pub(crate) fn read(&self, count: usize, from: &mut Cursor<'_>) -> Result<Keys> {
        let mut keys = self.none();
        keys.get_mut().read(count, from)?;
        Ok(keys)
    }

    /// Bytes of each key, if all have as many.
    pub(crate) fn width(&self) -> Option<usize> {
        self.get().width()
    }

    /// Appends the bytes of a key to one that is not yet ended, and says how many they are.
    pub(crate) fn put(&self, at: usize, to: &mut Bytes) -> usize {
        self.get().put(at, to)
    }

    /// Appends the key that has these bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.get_mut().push_bytes(bytes);
    }
}

/// What keys of every form do.
pub(crate) trait KeyColumn: fmt::Debug {
    fn len(&self) -> usize;

    fn clear(&mut self);

    fn memory(&self) -> usize;

    /// See [`Keys::hashes`].
    fn hashes(&self, out: &mut Vec<u64>);

    /// See [`Keys::append`].
    fn gather(&mut self, from: &Self, at: &[u32])
    where
        Self: Sized;

    /// See [`Keys::find`].
    fn find(
        &mut self,
        index: &mut Index,
        keys: &Self,
        hashes: &[u64],
        groups: &mut Vec<u32>,
    ) -> Result<()>
    where
        Self: Sized;

    fn write(&self, out: &mut Writer);

    /// Reads so many keys in place of the old ones.
    fn read(&mut self, count: usize, from: &mut Cursor<'_>) -> Result<()>;

    /// See [`Keys::width`].
    fn width(&self) -> Option<usize>;

    /// See [`Keys::put`].
    fn put(&self, at: usize, to: &mut Bytes) -> usize;

    /// See [`Keys::push_bytes`].
    fn push_bytes(&mut self, bytes: &[u8]);
}

/// A number that is a key.
pub(crate) trait KeyWord:
    Pod + Eq + Default + fmt::Debug + From<u64> + Into<u128> + BitOr<Output = Self>
{
    /// Every bit depends on every bit.
    fn hash(self) -> u64;

    /// The low bits of a number.
    fn low(number: u128) -> Self;

    /// Shifted left by `bits`, which may be all.
    fn above(self, bits: u32) -> Self;
}

impl KeyWord for u64 {
    #[inline(always)]
    fn hash(self) -> u64 {
        let product = u128::from(self ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f_u128;
        (product >> 64) as u64 ^ product as u64
    }

    #[inline(always)]
    fn low(number: u128) -> Self {
        number as u64
    }

    #[inline(always)]
    fn above(self, bits: u32) -> Self {
        self.checked_shl(bits).unwrap_or(0)
    }
}

impl KeyWord for u128 {
    #[inline(always)]
    fn hash(self) -> u64 {
        (self as u64 ^ ((self >> 64) as u64).hash()).hash()
    }

    #[inline(always)]
    fn low(number: u128) -> Self {
        number
    }

    #[inline(always)]
    fn above(self, bits: u32) -> Self {
        self.checked_shl(bits).unwrap_or(0)
    }
}

impl<W: KeyWord> KeyColumn for Vec<W> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn memory(&self) -> usize {
        self.capacity() * size_of::<W>()
    }

    fn hashes(&self, out: &mut Vec<u64>) {
        out.clear();
        out.extend(self.iter().map(|key| key.hash()));
    }

    fn gather(&mut self, from: &Self, at: &[u32]) {
        gather(self, from, at);
    }

    fn find(
        &mut self,
        index: &mut Index,
        keys: &Self,
        hashes: &[u64],
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        check_groups(self.len(), keys.len())?;
        let mut last: Option<(W, u32)> = None;
        for (key, hash) in keys.iter().zip(hashes) {
            if let Some((same, group)) = last
                && same == *key
            {
                groups.push(group);
                continue;
            }
            let next = self.len();
            index.reserve(next + 1);
            let is_it = |group: u32| self.get(group as usize) == Some(key);
            let group = index.find_or_insert(*hash, next as u32, is_it);
            if group as usize == next {
                self.push(*key);
            }
            groups.push(group);
            last = Some((*key, group));
        }
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        write_words(self, out);
    }

    fn read(&mut self, count: usize, from: &mut Cursor<'_>) -> Result<()> {
        *self = read_words(count, from)?;
        Ok(())
    }

    fn width(&self) -> Option<usize> {
        Some(size_of::<W>())
    }

    fn put(&self, at: usize, to: &mut Bytes) -> usize {
        let number: u128 = self.get(at).copied().unwrap_or_default().into();
        to.extend(number.to_le_bytes().get(..size_of::<W>()).unwrap_or_default());
        size_of::<W>()
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.push(W::low(number(bytes)));
    }
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

impl KeyColumn for Bytes {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    fn hashes(&self, out: &mut Vec<u64>) {
        out.clear();
        out.extend((0..self.len()).map(|at| STATE.hash_one(self.get(at))));
    }

    fn gather(&mut self, from: &Self, at: &[u32]) {
        at.iter().for_each(|at| self.push(from.get(*at as usize)));
    }

    fn find(
        &mut self,
        index: &mut Index,
        keys: &Self,
        hashes: &[u64],
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        check_groups(self.len(), keys.len())?;
        for (at, hash) in hashes.iter().enumerate() {
            let (key, next) = (keys.get(at), self.len());
            index.reserve(next + 1);
            let is_it = |group: u32| self.get(group as usize) == key;
            let group = index.find_or_insert(*hash, next as u32, is_it);
            if group as usize == next {
                self.push(key);
            }
            groups.push(group);
        }
        Ok(())
    }

    fn write(&self, out: &mut Writer) {
        let ends: Vec<u64> = self.ends.iter().map(|end| *end as u64).collect();
        write_words(&ends, out);
        out.put(&self.bytes);
    }

    fn read(&mut self, count: usize, from: &mut Cursor<'_>) -> Result<()> {
        let ends: Vec<u64> = read_words(count, from)?;
        let ends: Vec<usize> = ends.into_iter().map(|end| end as usize).collect();
        let bytes = from.take(ends.last().copied().unwrap_or(0))?.to_vec();
        if !ends.is_sorted() {
            return Err(from.corrupt("keys that end before they start"));
        }
        *self = Bytes { bytes, ends };
        Ok(())
    }

    fn width(&self) -> Option<usize> {
        None
    }

    fn put(&self, at: usize, to: &mut Bytes) -> usize {
        to.extend(self.get(at));
        self.get(at).len()
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.push(bytes);
    }
}

/// The number that at most 16 bytes of a key are.
pub(crate) fn number(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn check_groups(known: usize, more: usize) -> Result<()> {
    match u32::try_from(known.saturating_add(more)) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::LimitExceeded("more than 2³² groups in one part of a hash table".into()))
        }
    }
}

pub(crate) fn another_form() -> Error {
    Error::InvalidInput("keys of another form than planned".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of each form, some of them equal.
    fn all() -> Vec<Keys> {
        let mut bytes = Bytes::default();
        ["a", "", "bc", "a", "a"].iter().for_each(|key| bytes.push(key.as_bytes()));
        vec![
            Keys::Narrow(vec![7, u64::MAX, 0, 7, 7]),
            Keys::Wide(vec![7, 7 << 64, u128::MAX, 7, 7]),
            Keys::Bytes(bytes),
        ]
    }

    #[test]
    fn keys_are_found_written_and_taken_apart_alike_in_every_form() {
        for keys in all() {
            let (mut known, mut index) = (keys.none(), Index::default());
            let (mut hashes, mut groups) = (Vec::new(), Vec::new());
            keys.hashes(&mut hashes);
            known.find(&mut index, &keys, &hashes, &mut groups).unwrap();
            assert_eq!((known.len(), groups.as_slice()), (3, [0, 1, 2, 0, 0].as_slice()));
            let mut out = Writer::new();
            known.write(&mut out);
            let mut cursor = Cursor::new(out.as_slice());
            let read = keys.read(3, &mut cursor).unwrap();
            cursor.finish().unwrap();
            let mut again = keys.none();
            for at in 0..read.len() {
                let mut bytes = Bytes::default();
                read.put(at, &mut bytes);
                bytes.push(&[]);
                assert!(read.width().is_none_or(|width| width == bytes.get(0).len()));
                again.push_bytes(bytes.get(0));
            }
            groups.clear();
            again.hashes(&mut hashes);
            known.find(&mut index, &again, &hashes, &mut groups).unwrap();
            assert_eq!(groups, [0, 1, 2]);
        }
    }

    #[test]
    fn keys_of_different_forms_never_mix() {
        for (a, one) in all().iter().enumerate() {
            for (b, mut other) in all().into_iter().enumerate() {
                assert_eq!(other.append(one, &[0]).is_ok(), a == b);
                let found = other.find(&mut Index::default(), one, &[1], &mut Vec::new());
                assert_eq!(found.is_ok(), a == b);
            }
        }
    }
}
