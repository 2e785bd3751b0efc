//! Sums of 64-bit integers, signed or not. They are exact: a sum that the type cannot hold is an
//! error, whatever the order of the rows.
//!
//! Sums are kept in 64 bits as long as none can leave them, which a bound of their size says: each
//! slice adds its greatest value times its rows. Once the bound does not suffice, they are kept in
//! 128 bits, which 2⁶³ rows do not leave.

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, GroupStorage, SlotColumn, each};
use super::input::Values;
use super::kernels::{Groups, add_fitting, add_wide, fold, greatest_size};
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::totals::{Numbers, Totals};
use super::wide_sum::sum_overflow;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::query::words::from_words;

#[derive(Debug)]
pub(super) struct IntegerSum {
    sums: Sums,
    /// Of the values and of the sum.
    data_type: ArrowType,
}

/// The sums of all groups.
#[derive(Debug)]
enum Sums {
    /// No sum is further from 0 than `bound`.
    Narrow {
        slots: SlotColumn<i64>,
        bound: u64,
    },
    Wide(SlotColumn<i128>),
}

/// What sums in 64 bits may amount to.
const MOST: u64 = i64::MAX as u64;
/// Slices that add more than this make sums wide; before others do, the sums themselves are looked
/// at, which pays after some 2⁶ of them at the earliest.
const LARGE: u64 = 1 << 56;

impl IntegerSum {
    pub(super) fn new(data_type: ArrowType) -> Self {
        IntegerSum { sums: Sums::new(), data_type }
    }

    fn is_signed(&self) -> bool {
        self.data_type != ArrowType::UInt64
    }
}

impl Sums {
    fn new() -> Self {
        Sums::Narrow { slots: SlotColumn::new(0), bound: 0 }
    }

    /// The sums in 64 bits if they have room for `more`, or else in 128 bits.
    fn with_room(&mut self, more: u64) -> &mut Self {
        if let Sums::Narrow { slots, bound } = self {
            let mut next = bound.saturating_add(more);
            if next > MOST && more <= LARGE {
                let most = slots.slots.iter().map(|sum| sum.unsigned_abs()).max();
                // Half of the room, so that the next look is far away.
                let kept = most.unwrap_or(0).saturating_add(more);
                next = if kept <= MOST / 2 { kept } else { u64::MAX };
            }
            match next <= MOST {
                true => *bound = next,
                false => self.widen(),
            }
        }
        self
    }

    fn widen(&mut self) {
        if let Sums::Narrow { slots, .. } = self {
            let mut wide = SlotColumn::new(0);
            wide.slots = slots.slots.iter().map(|sum| i128::from(*sum)).collect();
            *self = Sums::Wide(wide);
        }
    }

    /// How far sums may be from 0; more than [`MOST`] in 128 bits.
    fn bound(&self) -> u64 {
        match self {
            Sums::Narrow { bound, .. } => *bound,
            Sums::Wide(_) => u64::MAX,
        }
    }

    fn get(&self, group: usize) -> Option<i128> {
        match self {
            Sums::Narrow { slots, .. } => slots.slots.get(group).copied().map(i128::from),
            Sums::Wide(slots) => slots.slots.get(group).copied(),
        }
    }
}

/// What comes before written sums: how many bits they have.
const NARROW: u8 = 64;
const WIDE: u8 = 128;

fn wrong_width_error(bits: u8) -> Error {
    Error::InvalidInput(format!("spilled sums of {bits} bits"))
}

impl GroupStorage for Sums {
    fn bytes_a_group(&self) -> usize {
        match self {
            Sums::Narrow { slots, .. } => slots.bytes_a_group(),
            Sums::Wide(slots) => slots.bytes_a_group(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Sums::Narrow { slots, .. } => slots.memory(),
            Sums::Wide(slots) => slots.memory(),
        }
    }

    fn grow(&mut self, groups: usize) {
        match self {
            Sums::Narrow { slots, .. } => slots.grow(groups),
            Sums::Wide(slots) => slots.grow(groups),
        }
    }

    fn clear(&mut self) {
        match self {
            Sums::Narrow { slots, bound } => {
                slots.clear();
                *bound = 0;
            }
            Sums::Wide(slots) => slots.clear(),
        }
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Sums::Narrow { slots, bound } => {
                out.u8(NARROW);
                out.u64(*bound);
                slots.write(out);
            }
            Sums::Wide(slots) => {
                out.u8(WIDE);
                slots.write(out);
            }
        }
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        match from.u8()? {
            NARROW => {
                let bound = from.u64()?;
                let mut slots = SlotColumn::new(0);
                slots.read(groups, from)?;
                *self = Sums::Narrow { slots, bound };
            }
            WIDE => {
                let mut slots = SlotColumn::new(0);
                slots.read(groups, from)?;
                *self = Sums::Wide(slots);
            }
            bits => return Err(wrong_width_error(bits)),
        }
        Ok(())
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer) {
        match self {
            Sums::Narrow { slots, .. } => {
                out.u8(NARROW);
                slots.write_one(group, out);
            }
            Sums::Wide(slots) => {
                out.u8(WIDE);
                slots.write_one(group, out);
            }
        }
    }

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        let sum = match from.u8()? {
            NARROW => i128::from(i64::from_le_bytes(from.array()?)),
            WIDE => i128::from_le_bytes(from.array()?),
            bits => return Err(wrong_width_error(bits)),
        };
        if let Sums::Narrow { slots, bound } = self {
            let size = u64::try_from(sum.unsigned_abs()).unwrap_or(u64::MAX);
            if let (Ok(sum), true) = (i64::try_from(sum), size <= MOST) {
                slots.slots.push(sum);
                *bound = size.max(*bound);
                return Ok(());
            }
            self.widen();
        }
        if let Sums::Wide(slots) = self {
            slots.slots.push(sum);
        }
        Ok(())
    }
}

impl StateKind for IntegerSum {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.sums
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.sums
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let Values::Words(values) = values else { return Err(wrong_kind_error()) };
        let signed = self.is_signed();
        let more = greatest_size(values, signed).saturating_mul(values.len() as u64);
        match self.sums.with_room(more) {
            Sums::Narrow { slots, .. } => {
                fold(groups, values, valid, &mut slots.slots, |sum, v| *sum = sum.wrapping_add(v))
            }
            Sums::Wide(slots) if signed => {
                add_wide(groups, values, valid, &mut slots.slots, add_fitting)
            }
            Sums::Wide(slots) => fold(groups, values, valid, &mut slots.slots, |sum, v| {
                *sum += i128::from(v as u64);
            }),
        }
        Ok(())
    }

    fn takes(&self, totals: &Totals) -> bool {
        totals.numbers.is_some()
    }

    fn add_totals(&mut self, group: usize, numbers: &Numbers) {
        let more = u64::try_from(numbers.sum.unsigned_abs()).unwrap_or(u64::MAX);
        match self.sums.with_room(more) {
            Sums::Narrow { slots, .. } => {
                let sum = slots.slots.get_mut(group);
                sum.into_iter().for_each(|sum| *sum = sum.wrapping_add(numbers.sum as i64));
            }
            Sums::Wide(slots) => {
                let sum = slots.slots.get_mut(group);
                sum.into_iter().for_each(|sum| *sum = sum.wrapping_add(numbers.sum));
            }
        }
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        match (self.sums.with_room(others.sums.bound()), &others.sums) {
            (Sums::Narrow { slots, .. }, Sums::Narrow { slots: others, .. }) => {
                slots.merge(others, map, |sum, more| *sum = sum.wrapping_add(more));
            }
            (Sums::Wide(slots), Sums::Narrow { slots: others, .. }) => {
                each(&mut slots.slots, &others.slots, map, |sum, more| *sum += i128::from(more));
            }
            (Sums::Wide(slots), Sums::Wide(others)) => {
                slots.merge(others, map, |sum, more| *sum = sum.wrapping_add(more));
            }
            // Wide sums leave no room in 64 bits.
            (Sums::Narrow { .. }, Sums::Wide(_)) => {}
        }
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        if others.sums.bound() > MOST {
            self.sums.widen();
        }
        match (&mut self.sums, &others.sums) {
            (Sums::Narrow { slots, bound }, Sums::Narrow { slots: others, bound: other }) => {
                slots.append(others, at);
                *bound = (*bound).max(*other);
            }
            (Sums::Wide(slots), others) => {
                let sum = |at: &u32| others.get(*at as usize).unwrap_or_default();
                slots.slots.extend(at.iter().map(sum));
            }
            (Sums::Narrow { .. }, Sums::Wide(_)) => {}
        }
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let words = match &self.sums {
            Sums::Narrow { slots, .. } => batch.pick(&slots.slots),
            Sums::Wide(slots) => {
                let signed = self.is_signed();
                let word = |sum: i128| match signed {
                    true => i64::try_from(sum).ok(),
                    false => u64::try_from(sum).ok().map(|sum| sum as i64),
                };
                let words = batch.pick(&slots.slots).into_iter().map(word);
                words
                    .collect::<Option<Vec<i64>>>()
                    .ok_or_else(|| Error::InvalidInput(sum_overflow(&self.data_type)))?
            }
        };
        from_words(words, batch.nulls(), &self.data_type)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, UInt64Array};
    use proptest::prelude::*;

    use super::*;

    /// Values of all sizes, so that most sums go from 64 to 128 bits and some come back.
    fn values() -> impl Strategy<Value = Vec<i64>> {
        let value = (any::<i64>(), 0..64u32).prop_map(|(value, bits)| value >> bits);
        prop::collection::vec(value, 0..80)
    }

    const GROUPS: u16 = 3;

    fn sum_of(values: &[i64], first: usize, data_type: &ArrowType) -> IntegerSum {
        let mut made = IntegerSum::new(data_type.clone());
        made.storage_mut().grow(GROUPS.into());
        for (at, slice) in values.chunks(5).enumerate() {
            let rows = at * 5 + first..at * 5 + first + slice.len();
            let groups: Vec<u16> = rows.map(|row| row as u16 % GROUPS).collect();
            let values = Values::Words(slice.to_vec().into());
            made.update(Groups::Shorts(&groups), &values, None).unwrap();
        }
        made
    }

    /// Each group's sum, in 128 bits.
    fn expected(values: &[i64], signed: bool) -> Vec<i128> {
        let mut sums = vec![0; GROUPS.into()];
        for (row, value) in values.iter().enumerate() {
            let value = if signed { i128::from(*value) } else { i128::from(*value as u64) };
            sums[row % usize::from(GROUPS)] += value;
        }
        sums
    }

    proptest! {
        #[test]
        fn sums_are_exact_or_an_error(
            values in values(), cut in 0..80usize, signed: bool, moves: bool
        ) {
            let data_type = if signed { ArrowType::Int64 } else { ArrowType::UInt64 };
            let cut = cut.min(values.len());
            let mut made = sum_of(&values[..cut], 0, &data_type);
            let rest = sum_of(&values[cut..], cut, &data_type);
            let mut other = IntegerSum::new(data_type.clone());
            if moves {
                other.append(&rest, &[2, 0, 1]);
                made.merge(&other, GroupMap::To(&[2, 0, 1]));
            } else {
                let mut out = Writer::new();
                rest.storage().write(&mut out);
                let mut cursor = Cursor::new(out.as_slice());
                other.storage_mut().read(GROUPS.into(), &mut cursor).unwrap();
                cursor.finish().unwrap();
                made.merge(&other, GroupMap::Same);
            }
            let sums = expected(&values, signed);
            for (group, sum) in sums.iter().enumerate() {
                prop_assert_eq!(made.sums.get(group), Some(*sum));
            }
            let batch = Batch { groups: &[0, 1, 2], counts: &[1, 1, 1] };
            let answer: Option<ArrayRef> = match signed {
                true => sums.iter().map(|sum| i64::try_from(*sum).ok()).collect::<Option<Vec<_>>>()
                    .map(|sums| Arc::new(Int64Array::from(sums)) as ArrayRef),
                false => sums.iter().map(|sum| u64::try_from(*sum).ok()).collect::<Option<Vec<_>>>()
                    .map(|sums| Arc::new(UInt64Array::from(sums)) as ArrayRef),
            };
            prop_assert_eq!(made.finish(&batch).ok(), answer);
        }
    }

    #[test]
    fn small_sums_stay_narrow() {
        let mut made = IntegerSum::new(ArrowType::Int64);
        made.storage_mut().grow(1);
        let values = Values::Words(vec![LARGE as i64 / 8192; 4096].into());
        for _ in 0..3000 {
            made.update(Groups::Same { group: 0, rows: 4096 }, &values, None).unwrap();
            if let Sums::Narrow { slots, .. } = &mut made.sums {
                // As if others had come between.
                slots.slots[0] = 5;
            }
        }
        assert!(matches!(made.sums, Sums::Narrow { .. }));
    }
}
