//! Columns of keys: words of 64 or 128 bits, and bytes of any length, hashed, found, gathered and
//! written alike.

use std::fmt;
use std::hash::BuildHasher;
use std::ops::{BitOr, Range};

use bytemuck::Pod;
use foldhash::fast::FixedState;

use super::index::Index;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::query::aggregate::columns::{gather, read_words, write_words};

const SEED: u64 = 0x7374_796c_6f62_6174;
const STATE: FixedState = FixedState::with_seed(SEED);

/// Runs of equal keys are merged where, of the first keys, at least one in this many equals the key
/// before it.
const WORTH_RUNS: usize = 8;
/// How many keys are looked at for that.
const SAMPLE: usize = 1024;

/// The hash of a key of bytes.
#[inline(always)]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    STATE.hash_one(bytes)
}

/// What keys of every form do.
pub(crate) trait KeyColumn: fmt::Debug {
    fn len(&self) -> usize;

    fn clear(&mut self);

    fn memory(&self) -> usize;

    /// The hash of each key, in place of what `out` had.
    fn hashes(&self, out: &mut Vec<u64>);

    /// Keeps one key of each run of equal keys, and writes to `ends` the row after each run. Where
    /// few keys are equal, all stay, and `ends` is empty.
    fn merge_runs(&mut self, ends: &mut Vec<u32>) {
        ends.clear();
    }

    /// Appends some of the other's keys.
    fn gather(&mut self, from: &Self, at: &[u32])
    where
        Self: Sized;

    /// Appends to `groups` where each of the other's keys stands among these; those not yet there
    /// are appended.
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

    /// Reads `count` keys in place of the old ones.
    fn read(&mut self, count: usize, from: &mut Cursor<'_>) -> Result<()>;

    /// Bytes of each key, if all have as many.
    fn width(&self) -> Option<usize>;

    /// Appends the bytes of a key to one that is not yet ended, and says how many they are.
    fn put(&self, at: usize, to: &mut Bytes) -> usize;

    /// Appends the key that has these bytes.
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

    fn merge_runs(&mut self, ends: &mut Vec<u32>) {
        ends.clear();
        let rows = self.len();
        let some = self.get(..SAMPLE).unwrap_or(self);
        let same = some.iter().zip(some.iter().skip(1)).filter(|(key, next)| key == next).count();
        if same == 0 || same * WORTH_RUNS < some.len() {
            return;
        }
        ends.resize(rows, 0);
        let mut runs = 0;
        for at in 0..rows {
            let key = self[at];
            self[runs] = key;
            ends[runs] = at as u32 + 1;
            runs += usize::from(self.get(at + 1) != Some(&key));
        }
        self.truncate(runs);
        ends.truncate(runs);
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
        for (key, hash) in keys.iter().zip(hashes) {
            let next = self.len();
            index.reserve(next + 1);
            let is_it = |group: u32| self.get(group as usize) == Some(key);
            let group = index.find_or_insert(*hash, next as u32, is_it);
            if group as usize == next {
                self.push(*key);
            }
            groups.push(group);
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
        self.bytes(self.range(at))
    }

    /// Where a key's bytes are.
    #[inline(always)]
    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        let start = if at == 0 { 0 } else { self.ends.get(at - 1).copied().unwrap_or(0) };
        start..self.ends.get(at).copied().unwrap_or(0)
    }

    /// The bytes of a range; none of one that is out of bounds.
    #[inline(always)]
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
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
        out.extend((0..self.len()).map(|at| hash_bytes(self.get(at))));
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
