//! The value of the row that is first in an order: `first_value`, `last_value`, `arg_min` and
//! `arg_max`.
//!
//! A group keeps the key of its best row as a word that sorts like it, the row's number in the
//! table, and its value. Among rows of equal keys the number decides, so that the answer depends
//! neither on threads nor on which part of the rows is merged first. Values are fetched only where
//! a slice has a row that comes before those that are known.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, BinaryViewArray, Decimal128Array, Float32Array, Float64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, GroupStorage, SlotColumn};
use super::extreme::has_words;
use super::extreme_row::BestRows;
use super::input::{Fetched, ValueUse, Values, fetch, fetch_kept};
use super::kernels::Groups;
use super::kind::{Batch, StateKind, wrong_kind_error};
use crate::bytes::{Cursor, Writer};
use crate::error::{ArrowResult, Result};
use crate::expr::Expression;
use crate::query::slice::Slice;
use crate::query::words::{best_of_block, float_rank, from_words, is_ranked, ranks};
use crate::query::{Aggregate, AggregateFunction, OrderBy};

#[derive(Debug)]
pub(super) struct Picked {
    rows: PickedRows,
    way: Way,
    data_type: ArrowType,
}

/// Which rows there are to pick from, and which of them is picked.
#[derive(Clone, Debug)]
struct Way {
    /// The type of the keys; `None` without keys.
    key: Option<ArrowType>,
    descending: bool,
    nulls_first: bool,
    ignore_nulls: bool,
    ignore_null_keys: bool,
    /// Among equal rows, the last one.
    last: bool,
}

/// How keys and values are fetched: as they are.
const AS_THEY_ARE: ValueUse = ValueUse { sums: false, decimals: false };

impl Picked {
    /// `None` if it does not take the type of the values or of the keys.
    pub(super) fn new(aggregate: &Aggregate) -> Option<Self> {
        let AggregateFunction::Picked { ignore_nulls, ignore_null_keys, last } = aggregate.function
        else {
            return None;
        };
        let data_type = aggregate.input.as_ref()?.data_type.clone();
        let values = match &data_type {
            ArrowType::Decimal128(..) => PickedValues::Wide(SlotColumn::new(0)),
            ArrowType::Utf8View | ArrowType::BinaryView => PickedValues::Bytes(BestRows::default()),
            ArrowType::Float32 => PickedValues::Words(SlotColumn::new(0)),
            other if has_words(other) => PickedValues::Words(SlotColumn::new(0)),
            _ => return None,
        };
        let order = aggregate.order.as_ref();
        let key = order.map(|by| by.expression.data_type.clone());
        if key.as_ref().is_some_and(|key| !is_ranked(key)) {
            return None;
        }
        let descending = order.is_some_and(|by| by.descending);
        let nulls_first = order.is_some_and(|by| by.nulls_first);
        let way = Way { key, descending, nulls_first, ignore_nulls, ignore_null_keys, last };
        let rows = PickedRows { keys: SlotColumn::new(NO_ROW), values };
        Some(Picked { rows, way, data_type })
    }

    /// Offers the rows of a slice that a filter leaves.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        slice: &Slice<'_, '_>,
        groups: Groups<'_>,
        filter: Option<&NullBuffer>,
    ) -> Result<()> {
        let filter = filter.filter(|filter| filter.null_count() > 0);
        let Some(input) = &aggregate.input else { return Err(wrong_kind_error()) };
        if filter.is_some_and(|filter| filter.null_count() == filter.len()) {
            return Ok(());
        }
        let order = aggregate.order.as_ref();
        // Whether the statement fails must not depend on which rows come first.
        let cannot_fail = input.as_column().is_some() || input.traits.widening;
        if cannot_fail && order.is_some_and(|by| self.is_behind(by, slice, groups)) {
            return Ok(());
        }
        let fetched = |of: &Expression| match (fetch(of, slice, AS_THEY_ARE), filter) {
            // It cannot be computed for all rows, and need not be.
            (Err(_), Some(filter)) => fetch_kept(of, slice, filter, AS_THEY_ARE),
            (fetched, _) => fetched,
        };
        let keys = order.map(|by| fetched(&by.expression)).transpose()?;
        let lazy = cannot_fail && !self.way.ignore_nulls;
        let values = if lazy { None } else { Some(fetched(input)?) };
        let nulls = values.as_ref().and_then(|values| values.valid.as_ref());
        let counts = NullBuffer::union(filter, nulls.filter(|_| self.way.ignore_nulls));
        let block = slice.block;
        let start = block.segment.segment.block_range(block.at.block).start;
        let first = ((block.segment.number as u64) << 32) + start + slice.range.start as u64;
        let rows = RowNumbers { first, selected: slice.selected(), len: slice.len() };
        let better = self.offer(groups, keys.as_ref(), counts, &rows)?;
        match values {
            _ if better.is_empty() => Ok(()),
            Some(values) => self.rows.put(&better, &values),
            None => self.rows.put(&better, &fetched(input)?),
        }
    }

    /// Whether all rows of a block, which are of one group, come behind the one that it has.
    fn is_behind(&self, by: &OrderBy, slice: &Slice<'_, '_>, groups: Groups<'_>) -> bool {
        let Groups::Same { group, .. } = groups else { return false };
        let Some(slot) = self.rows.keys.slots.get(group) else { return false };
        best_of_block(by, &slice.block.segment.columns, slice.block.at.block) > rank(*slot)
    }

    /// Keeps the keys of the rows that come before those of their groups, and returns these rows
    /// with their groups: of a group, the last one is the first of the order.
    fn offer(
        &mut self,
        groups: Groups<'_>,
        keys: Option<&Fetched>,
        counts: Option<NullBuffer>,
        rows: &RowNumbers<'_>,
    ) -> Result<Vec<(usize, usize)>> {
        let way = &self.way;
        let words = keys.map(|keys| way.ranks(&keys.values)).transpose()?;
        let valid = keys.and_then(|keys| keys.valid.as_ref()).filter(|it| it.null_count() > 0);
        let counts = NullBuffer::union(counts.as_ref(), valid.filter(|_| way.ignore_null_keys));
        let null = if way.nulls_first { i64::MIN } else { i64::MAX };
        let (slots, mut better) = (&mut self.rows.keys.slots, Vec::new());
        let mut offer = |at: usize| {
            if counts.as_ref().is_some_and(|counts| counts.is_null(at)) {
                return;
            }
            let group = groups.at(at);
            let Some(slot) = slots.get_mut(group) else { return };
            let is_null = valid.is_some_and(|valid| valid.is_null(at));
            let word = words.as_ref().map_or(0, |words| words.get(at).copied().unwrap_or(0));
            let word = if is_null { null } else { word };
            if word > rank(*slot) {
                return;
            }
            let key = way.slot(word, is_null, rows.at(at));
            if key < *slot {
                *slot = key;
                better.push((group, at));
            }
        };
        // Where keys rise or fall with the rows, the best ones are offered first.
        let is_rising = words.as_ref().map_or(!way.last, |words| words.first() <= words.last());
        match is_rising {
            true => (0..rows.len).for_each(&mut offer),
            false => (0..rows.len).rev().for_each(&mut offer),
        }
        Ok(better)
    }
}

/// The numbers of the selected rows of a slice in the table.
struct RowNumbers<'a> {
    first: u64,
    selected: Option<&'a [u32]>,
    len: usize,
}

impl RowNumbers<'_> {
    fn at(&self, row: usize) -> u64 {
        let place = |rows: &[u32]| rows.get(row).map_or(0, |row| u64::from(*row));
        self.first + self.selected.map_or(row as u64, place)
    }
}

/// What a group has before its first row. The lowest bit says that the value is null.
const NO_ROW: i128 = i128::MAX;
/// The numbers that rows may have.
const NUMBERS: u64 = (1 << 62) - 1;

/// The rank of the key in a slot.
#[inline(always)]
fn rank(slot: i128) -> i64 {
    (slot >> 64) as i64
}

impl Way {
    /// What sorts like the rows: the rank of the key, whether it is a null beside values of the
    /// same rank, and the number of the row. A bit is left for whether the value is null.
    #[inline(always)]
    fn slot(&self, rank: i64, is_null: bool, row: u64) -> i128 {
        let behind = u64::from(is_null != self.nulls_first);
        let row = if self.last { !row & NUMBERS } else { row & NUMBERS };
        i128::from(rank) << 64 | i128::from(behind << 63 | row << 1)
    }

    /// Words that sort like keys in the order.
    fn ranks(&self, keys: &Values) -> Result<Vec<i64>> {
        let turn = if self.descending { -1 } else { 0 };
        let flip = if self.key == Some(ArrowType::UInt64) { i64::MIN } else { 0 };
        Ok(match keys {
            Values::Words(words) => words.iter().map(|word| word ^ flip ^ turn).collect(),
            Values::Floats(floats) => floats.iter().map(|v| float_rank(*v) ^ turn).collect(),
            // Ranked decimals fit into 64 bits.
            Values::Wide(wide) => wide.iter().map(|v| *v as i64 ^ turn).collect(),
            Values::Array(array) if is_ranked(array.data_type()) => {
                ranks(array, self.descending, self.nulls_first).ok_or_else(wrong_kind_error)?
            }
            Values::Decimals(_) | Values::Codes(_) | Values::Array(_) => {
                return Err(wrong_kind_error());
            }
        })
    }
}

impl StateKind for Picked {
    fn only_adds(&self) -> bool {
        false
    }

    fn is_unbounded(&self) -> bool {
        matches!(self.rows.values, PickedValues::Bytes(_))
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.rows
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.rows
    }

    /// Its rows come with their keys, by [`Picked::add`].
    fn update(&mut self, _: Groups<'_>, _: &Values, _: Option<&NullBuffer>) -> Result<()> {
        Err(wrong_kind_error())
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        for (from, key) in others.rows.keys.slots.iter().enumerate() {
            let to = map.at(from);
            if let Some(slot) = self.rows.keys.slots.get_mut(to).filter(|slot| key < *slot) {
                *slot = *key;
                self.rows.values.copy(to, &others.rows.values, from);
            }
        }
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.rows.keys.append(&others.rows.keys, at);
        match (&mut self.rows.values, &others.rows.values) {
            (PickedValues::Words(all), PickedValues::Words(more)) => all.append(more, at),
            (PickedValues::Wide(all), PickedValues::Wide(more)) => all.append(more, at),
            (PickedValues::Bytes(all), PickedValues::Bytes(more)) => all.append(more, at),
            // States of one aggregate have values of one form.
            _ => {}
        }
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let keys = batch.pick(&self.rows.keys.slots);
        let has_null = keys.iter().any(|key| key & 1 != 0);
        let nulls: Option<NullBuffer> =
            has_null.then(|| keys.iter().map(|key| key & 1 == 0).collect());
        Ok(match &self.rows.values {
            PickedValues::Words(words) => {
                let words = batch.pick(&words.slots);
                match &self.data_type {
                    ArrowType::Float64 => {
                        let floats = words.iter().map(|word| f64::from_bits(*word as u64));
                        Arc::new(Float64Array::new(floats.collect(), nulls))
                    }
                    ArrowType::Float32 => {
                        let floats = words.iter().map(|word| f32::from_bits(*word as u32));
                        Arc::new(Float32Array::new(floats.collect(), nulls))
                    }
                    other => from_words(words, nulls, other)?,
                }
            }
            PickedValues::Wide(wide) => {
                let decimals = Decimal128Array::new(batch.pick(&wide.slots).into(), nulls);
                Arc::new(decimals.with_data_type(self.data_type.clone()))
            }
            PickedValues::Bytes(bytes) => {
                let value = |(group, key): (&u64, &i128)| {
                    bytes.get(*group as usize).filter(|_| key & 1 == 0)
                };
                let found: BinaryViewArray = batch.groups.iter().zip(&keys).map(value).collect();
                match self.data_type {
                    ArrowType::Utf8View => Arc::new(found.to_string_view().or_corrupt()?),
                    _ => Arc::new(found),
                }
            }
        })
    }
}

/// What groups have of their rows.
#[derive(Debug)]
struct PickedRows {
    /// As [`Way::slot`] makes them.
    keys: SlotColumn<i128>,
    values: PickedValues,
}

/// The values of groups; anything where they are null.
#[derive(Debug)]
enum PickedValues {
    /// Of up to 64 bits.
    Words(SlotColumn<i64>),
    /// Decimals.
    Wide(SlotColumn<i128>),
    /// Texts and bytes.
    Bytes(BestRows),
}

impl PickedRows {
    /// Puts the values of rows into their groups.
    fn put(&mut self, rows: &[(usize, usize)], fetched: &Fetched) -> Result<()> {
        for (group, row) in rows {
            let is_null = fetched.valid.as_ref().is_some_and(|valid| valid.is_null(*row));
            if let Some(slot) = self.keys.slots.get_mut(*group) {
                *slot = *slot & !1 | i128::from(is_null);
            }
        }
        match (&mut self.values, &fetched.values) {
            (PickedValues::Words(slots), Values::Words(words)) => {
                put(&mut slots.slots, rows, |row| words.get(row).copied());
            }
            (PickedValues::Words(slots), Values::Floats(floats)) => {
                put(&mut slots.slots, rows, |row| Some(floats.get(row)?.to_bits() as i64));
            }
            (PickedValues::Words(slots), Values::Array(array)) => {
                let floats =
                    array.as_primitive_opt::<Float32Type>().ok_or_else(wrong_kind_error)?;
                let word = |row: usize| Some(i64::from(floats.values().get(row)?.to_bits()));
                put(&mut slots.slots, rows, word);
            }
            (PickedValues::Wide(slots), Values::Words(words)) => {
                put(&mut slots.slots, rows, |row| Some(i128::from(*words.get(row)?)));
            }
            (PickedValues::Wide(slots), Values::Wide(wide)) => {
                put(&mut slots.slots, rows, |row| wide.get(row).copied());
            }
            (PickedValues::Bytes(bytes), Values::Array(array)) => {
                let (texts, others) = (array.as_string_view_opt(), array.as_binary_view_opt());
                if texts.is_none() && others.is_none() {
                    return Err(wrong_kind_error());
                }
                let valid = |row| fetched.valid.as_ref().is_none_or(|valid| valid.is_valid(row));
                for (group, row) in rows.iter().filter(|(_, row)| valid(*row)) {
                    let text = texts.map(|texts| texts.value(*row).as_bytes());
                    let value = text.or_else(|| Some(others?.value(*row)));
                    value.into_iter().for_each(|value| bytes.put(*group, value));
                }
            }
            _ => return Err(wrong_kind_error()),
        }
        Ok(())
    }
}

fn put<T>(slots: &mut [T], rows: &[(usize, usize)], value: impl Fn(usize) -> Option<T>) {
    for (group, row) in rows {
        if let (Some(slot), Some(value)) = (slots.get_mut(*group), value(*row)) {
            *slot = value;
        }
    }
}

impl PickedValues {
    fn get(&self) -> &dyn GroupStorage {
        match self {
            PickedValues::Words(words) => words,
            PickedValues::Wide(wide) => wide,
            PickedValues::Bytes(bytes) => bytes,
        }
    }

    fn get_mut(&mut self) -> &mut dyn GroupStorage {
        match self {
            PickedValues::Words(words) => words,
            PickedValues::Wide(wide) => wide,
            PickedValues::Bytes(bytes) => bytes,
        }
    }

    /// Gives a group the value of another one.
    fn copy(&mut self, to: usize, others: &PickedValues, from: usize) {
        match (self, others) {
            (PickedValues::Words(all), PickedValues::Words(more)) => {
                put(&mut all.slots, &[(to, from)], |from| more.slots.get(from).copied());
            }
            (PickedValues::Wide(all), PickedValues::Wide(more)) => {
                put(&mut all.slots, &[(to, from)], |from| more.slots.get(from).copied());
            }
            (PickedValues::Bytes(all), PickedValues::Bytes(more)) => {
                more.get(from).into_iter().for_each(|value| all.put(to, value));
            }
            _ => {}
        }
    }
}

impl GroupStorage for PickedRows {
    fn bytes_a_group(&self) -> usize {
        self.keys.bytes_a_group() + self.values.get().bytes_a_group()
    }

    fn memory(&self) -> usize {
        self.keys.memory() + self.values.get().memory()
    }

    fn grow(&mut self, groups: usize) {
        self.keys.grow(groups);
        self.values.get_mut().grow(groups);
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.get_mut().clear();
    }

    fn write(&self, out: &mut Writer) {
        self.keys.write(out);
        self.values.get().write(out);
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.keys.read(groups, from)?;
        self.values.get_mut().read(groups, from)
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer) {
        self.keys.write_one(group, out);
        self.values.get().write_one(group, out);
    }

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        self.keys.read_one(from)?;
        self.values.get_mut().read_one(from)
    }
}
