//! Groups by a hash table of the keys' values as bytes: for keys without codes.

use std::hash::BuildHasher;

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, RowParser, SortField};
use arrow_schema::DataType as ArrowType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::error::{Error, Result};
use crate::query::words::one_zero;

const SEED: u64 = 0x7374_796c_6f62_6174;

/// Rows of key values as groups in the order of their first appearance.
#[derive(Debug)]
pub(crate) struct RowTable {
    converter: RowConverter,
    table: HashTable<u32>,
    state: FixedState,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::Unsupported(error.to_string())
}

impl RowTable {
    pub(crate) fn new(types: &[ArrowType]) -> Result<Self> {
        let fields = types.iter().map(|t| SortField::new(t.clone())).collect();
        Ok(RowTable {
            converter: RowConverter::new(fields).map_err(failed)?,
            table: HashTable::new(),
            state: FixedState::with_seed(SEED),
            bytes: Vec::new(),
            ends: Vec::new(),
        })
    }

    pub(crate) fn memory(&self) -> usize {
        self.table.allocation_size() + self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends the group of each row of the keys.
    pub(crate) fn groups(&mut self, keys: &[ArrayRef], out: &mut Vec<u32>) -> Result<()> {
        let keys: Vec<ArrayRef> = keys.iter().map(one_zero).collect();
        let rows = self.converter.convert_columns(&keys).map_err(failed)?;
        for row in rows.iter() {
            let group = self.group(row.as_ref())?;
            out.push(group);
        }
        Ok(())
    }

    /// The groups of another table's keys.
    pub(crate) fn merge(&mut self, other: &RowTable) -> Result<Vec<u32>> {
        (0..other.len()).map(|at| self.group(slice(&other.bytes, &other.ends, at))).collect()
    }

    fn group(&mut self, key: &[u8]) -> Result<u32> {
        let Self { table, state, bytes, ends, .. } = self;
        let known = |at: &u32| slice(bytes, ends, *at as usize) == key;
        let hash_of = |at: &u32| state.hash_one(slice(bytes, ends, *at as usize));
        match table.entry(state.hash_one(key), known, hash_of) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => {
                let at =
                    u32::try_from(ends.len()).map_err(|_| Error::LimitExceeded("more than 2³² groups".into()))?;
                entry.insert(at);
                bytes.extend_from_slice(key);
                ends.push(bytes.len());
                Ok(at)
            }
        }
    }

    /// The keys of groups.
    pub(crate) fn keys(&self, groups: &[u64]) -> Result<Vec<ArrayRef>> {
        let parser: RowParser = self.converter.parser();
        let rows = groups.iter().map(|at| parser.parse(slice(&self.bytes, &self.ends, *at as usize)));
        self.converter.convert_rows(rows).map_err(failed)
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], at: usize) -> &'a [u8] {
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &bytes[start..ends[at]]
}
