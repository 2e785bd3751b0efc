//! Groups by a hash table of numbers: keys whose codes fit 64 bits together, but not the memory of a direct index.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Numbers as groups in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct NumberTable {
    table: HashTable<u32>,
    /// The number of each group.
    pub(crate) numbers: Vec<u64>,
    last: Option<(u64, u32)>,
}

impl NumberTable {
    /// The group of a number, a new one if there was none.
    #[inline]
    pub(crate) fn group(&mut self, number: u64) -> u32 {
        if let Some((last, group)) = self.last
            && last == number
        {
            return group;
        }
        let numbers = &mut self.numbers;
        let known = |group: &u32| numbers.get(*group as usize).is_some_and(|n| *n == number);
        let hash_of = |group: &u32| hash(numbers.get(*group as usize).copied().unwrap_or(0));
        let group = match self.table.entry(hash(number), known, hash_of) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let group = numbers.len() as u32;
                entry.insert(group);
                numbers.push(number);
                group
            }
        };
        self.last = Some((number, group));
        group
    }

    pub(crate) fn memory(&self) -> usize {
        self.table.allocation_size() + self.numbers.capacity() * size_of::<u64>()
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// The table looks at the high seven bits and at the low ones.
#[inline]
fn hash(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f_u128;
    (product >> 64) as u64 ^ product as u64
}
