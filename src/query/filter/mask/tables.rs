//! What sets of numbers say of the values of a block, one byte for each: a look-up in it takes a
//! third of the time that one of a bit takes.

use crate::expr::IntegerSet;

/// A block whose values span more numbers is tested with the bits of a set.
pub(super) const TABLE: u64 = 1 << 15;
/// So many tables are kept: those of the conditions on one block, from slice to slice.
const TABLES: usize = 4;

/// What a set says of each number that a block may have, from the block's least value on.
#[derive(Debug)]
pub(super) struct Table {
    /// The set, the place of the first number, and how many there are.
    of: (u64, u64, u64),
    holds: Vec<u8>,
}

/// The table of a set for the numbers of a block.
pub(super) fn table<'a>(
    tables: &'a mut Vec<Table>,
    set: &IntegerSet,
    first: u64,
    span: u64,
) -> &'a [u8] {
    let of = (set.id(), first, span);
    let known = tables.iter().position(|table| table.of == of);
    let at = known.unwrap_or_else(|| {
        let used = if tables.len() < TABLES { None } else { Some(tables.remove(0)) };
        let mut holds = used.map(|table| table.holds).unwrap_or_default();
        set.spread(first, span as usize + 1, &mut holds);
        tables.push(Table { of, holds });
        tables.len() - 1
    });
    tables.get(at).map_or(&[], |table| &table.holds)
}
