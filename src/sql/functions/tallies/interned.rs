//! Bytes that are kept once each, under a number.

use std::hash::BuildHasher;

use arrow_array::ArrayAccessor;
use arrow_buffer::BooleanBuffer;
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;
use hashbrown::{DefaultHashBuilder, HashTable};

#[derive(Debug, Default)]
pub(super) struct Interned {
    bytes: Vec<u8>,
    /// Where the bytes of each number begin.
    starts: Vec<usize>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interned {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The bytes of a number.
    pub(super) fn get(&self, number: u64) -> &[u8] {
        get(&self.bytes, &self.starts, number as usize)
    }

    /// The number of these bytes.
    pub(super) fn number(&mut self, value: &[u8]) -> DataFusionResult<u64> {
        let Interned { bytes, starts, numbers, hasher } = self;
        let hash = hasher.hash_one(value);
        let is_it = |number: &u32| get(bytes, starts, *number as usize) == value;
        if let Some(number) = numbers.find(hash, is_it) {
            return Ok(u64::from(*number));
        }
        let Ok(number) = u32::try_from(starts.len()) else {
            return exec_err!("an aggregate of more than 2³² different values");
        };
        starts.push(bytes.len());
        bytes.extend_from_slice(value);
        let hash_of = |number: &u32| hasher.hash_one(get(bytes, starts, *number as usize));
        numbers.insert_unique(hash, number, hash_of);
        Ok(u64::from(number))
    }

    /// The numbers of the values of the rows that pass, and 0 for others.
    pub(super) fn numbers<T: AsRef<[u8]>>(
        &mut self,
        values: impl ArrayAccessor<Item = T>,
        passing: Option<&BooleanBuffer>,
    ) -> DataFusionResult<Vec<u64>> {
        let passes = |row: usize| passing.is_none_or(|passing| passing.value(row));
        let number = |row: usize| match passes(row) {
            true => self.number(values.value(row).as_ref()),
            false => Ok(0),
        };
        (0..values.len()).map(number).collect()
    }

    /// All numbers in the order of their bytes.
    pub(super) fn sorted(&self) -> Vec<u32> {
        let first_bytes = |value: &[u8]| {
            let mut first = [0; 8];
            first.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(first)
        };
        let keyed =
            (0..self.len() as u32).map(|number| (first_bytes(self.get(number.into())), number));
        let mut keyed: Vec<(u64, u32)> = keyed.collect();
        keyed.sort_unstable_by(|(a, first), (b, second)| {
            a.cmp(b).then_with(|| self.get((*first).into()).cmp(self.get((*second).into())))
        });
        keyed.into_iter().map(|(_, number)| number).collect()
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.capacity()
            + self.starts.capacity() * size_of::<usize>()
            + self.numbers.allocation_size()
    }
}

fn get<'a>(bytes: &'a [u8], starts: &[usize], number: usize) -> &'a [u8] {
    let Some(start) = starts.get(number) else { return &[] };
    let end = starts.get(number + 1).copied().unwrap_or(bytes.len());
    bytes.get(*start..end).unwrap_or_default()
}
