//! What an aggregate keeps for each group: the choice of a kind of state, and what all kinds have
//! in common.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

#[cfg(feature = "cluster")]
use super::columns::GroupStorage;
use super::columns::{GroupMap, RowCounts, gather, read_words, write_words};
use super::count::Count;
use super::distinct_count::DistinctCount;
use super::extreme::{WideExtreme, WordExtreme, has_words};
use super::extreme_row::ExtremeRow;
use super::float_sum::FloatSum;
use super::input::Fetched;
use super::integer_sum::IntegerSum;
use super::kernels::{Groups, count_missing};
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::picked::Picked;
use super::totals::Totals;
use super::variance::Variance;
use super::wide_sum::WideSum;
use crate::bytes::{Cursor, Writer};
use crate::error::{ArrowResult, Error, Result};
use crate::query::open::OpenBlock;
use crate::query::slice::Slice;
use crate::query::{Aggregate, AggregateFunction};

/// Generates the enum of all kinds of states, with a variant for each struct in the list, and the
/// functions that match on it.
macro_rules! kinds {
    ($($kind:ident),*) => {
        /// The states of an aggregate.
        #[derive(Debug)]
        enum Kind {
            $($kind($kind),)*
        }

        impl Kind {
            fn get(&self) -> &dyn StateKind {
                match self {
                    $(Kind::$kind(states) => states,)*
                }
            }

            fn get_mut(&mut self) -> &mut dyn StateKind {
                match self {
                    $(Kind::$kind(states) => states,)*
                }
            }

            fn merge(&mut self, others: &Kind, map: GroupMap<'_>) -> Result<()> {
                match (self, others) {
                    $((Kind::$kind(states), Kind::$kind(others)) => states.merge(others, map),)*
                    _ => return Err(wrong_kind_error()),
                }
                Ok(())
            }

            fn append(&mut self, others: &Kind, at: &[u32]) -> Result<()> {
                match (self, others) {
                    $((Kind::$kind(states), Kind::$kind(others)) => states.append(others, at),)*
                    _ => return Err(wrong_kind_error()),
                }
                Ok(())
            }
        }

        $(impl From<$kind> for Kind {
            fn from(states: $kind) -> Kind {
                Kind::$kind(states)
            }
        })*
    };
}

kinds!(
    Count,
    DistinctCount,
    IntegerSum,
    WideSum,
    FloatSum,
    Variance,
    WordExtreme,
    WideExtreme,
    ExtremeRow,
    Picked
);

impl Kind {
    /// The kind for a function of an input; `None` if it does not take the input's type.
    fn new(aggregate: &Aggregate) -> Result<Option<Kind>> {
        use ArrowType as T;
        let input = aggregate.input.as_ref().map(|input| &input.data_type);
        if aggregate.distinct {
            let counts = aggregate.function == AggregateFunction::Count && input.is_some();
            let taken = counts && aggregate.filter.is_none();
            return Ok(taken.then(|| DistinctCount::new().into()));
        }
        Ok(match (aggregate.function, input) {
            (AggregateFunction::Count, _) => Some(Count.into()),
            (_, None) => None,
            (AggregateFunction::Sum, Some(input)) => match input {
                T::Int64 | T::UInt64 => Some(IntegerSum::new(aggregate.data_type.clone()).into()),
                T::Decimal128(digits, _) => {
                    Some(WideSum::sum(*digits, aggregate.data_type.clone()).into())
                }
                T::Float64 => Some(FloatSum::new(false).into()),
                _ => None,
            },
            (AggregateFunction::Average, Some(input)) => match input {
                T::Int64 | T::Decimal128(_, 0) if aggregate.data_type == T::Float64 => {
                    Some(WideSum::mean().into())
                }
                T::Float64 => Some(FloatSum::new(true).into()),
                T::Decimal128(precision, scale) => match aggregate.data_type {
                    T::Decimal128(digits, behind) => {
                        let mean = WideSum::decimal_mean((*precision, *scale), (digits, behind));
                        mean.map(Into::into)
                    }
                    _ => None,
                },
                _ => None,
            },
            (AggregateFunction::Variance { sample }, Some(input)) => {
                (*input == T::Float64).then(|| Variance::new(sample, false).into())
            }
            (AggregateFunction::Deviation { sample }, Some(input)) => {
                (*input == T::Float64).then(|| Variance::new(sample, true).into())
            }
            (AggregateFunction::Min, Some(input)) => Some(extreme(false, input)?),
            (AggregateFunction::Max, Some(input)) => Some(extreme(true, input)?),
            (AggregateFunction::Picked { .. }, Some(_)) => Picked::new(aggregate).map(Into::into),
        })
    }
}

fn extreme(greatest: bool, input: &ArrowType) -> Result<Kind> {
    Ok(match input {
        ArrowType::Decimal128(..) => WideExtreme::new(greatest, input.clone()).into(),
        input if has_words(input) => WordExtreme::new(greatest, input.clone()).into(),
        input => ExtremeRow::new(greatest, input.clone())?.into(),
    })
}

/// One aggregate over all groups.
#[derive(Debug)]
pub(crate) struct State {
    kind: Kind,
    /// How many rows of each group did not count, once there was one.
    missing: Option<Vec<u64>>,
    data_type: ArrowType,
}

impl State {
    pub(crate) fn new(aggregate: &Aggregate) -> Result<Self> {
        let Some(kind) = Kind::new(aggregate)? else {
            let (function, input) = (aggregate.function, aggregate.input.as_ref());
            let of = match aggregate.distinct {
                true => "distinct values".into(),
                false => format!("{:?}", input.map(|input| &input.data_type)),
            };
            return Err(Error::Unsupported(format!("{function:?} of {of} in a fragment")));
        };
        Ok(State { kind, missing: None, data_type: aggregate.data_type.clone() })
    }

    /// What it keeps of the groups.
    #[cfg(feature = "cluster")]
    pub(super) fn storage(&self) -> &dyn GroupStorage {
        self.kind.get().storage()
    }

    #[cfg(feature = "cluster")]
    pub(super) fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        self.kind.get_mut().storage_mut()
    }

    /// How many rows of a group did not count.
    #[cfg(feature = "cluster")]
    pub(super) fn missing_of(&self, group: usize) -> u64 {
        self.missing.as_ref().and_then(|missing| missing.get(group)).copied().unwrap_or(0)
    }

    /// Says how many rows of one more group did not count; `known` are the groups before it.
    #[cfg(feature = "cluster")]
    pub(super) fn push_missing(&mut self, rows: u64, known: usize) {
        if rows > 0 && self.missing.is_none() {
            self.missing = Some(vec![0; known]);
        }
        self.missing.iter_mut().for_each(|missing| missing.push(rows));
    }

    /// Whether values of a column in a block may change what a group has.
    pub(crate) fn improves(&self, group: usize, column: usize, block: &OpenBlock<'_>) -> bool {
        self.kind.get().improves(group, column, block)
    }

    /// Whether values are only added up and counted.
    pub(crate) fn only_adds(&self) -> bool {
        self.kind.get().only_adds()
    }

    /// Whether values may come as codes of a dictionary.
    pub(crate) fn takes_codes(&self) -> bool {
        self.kind.get().takes_codes()
    }

    /// Whether values add to the bytes of their group.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.kind.get().is_unbounded()
    }

    /// Bytes that it holds.
    pub(crate) fn memory(&self) -> usize {
        let missing =
            self.missing.as_ref().map_or(0, |missing| missing.capacity() * size_of::<u64>());
        missing + self.kind.get().storage().memory()
    }

    /// Bytes that a group takes at least.
    pub(crate) fn bytes_a_group(&self) -> usize {
        // What counts values beside rows is there when the first of them is null.
        size_of::<u64>() + self.kind.get().storage().bytes_a_group()
    }

    /// Makes room for `groups` groups in all.
    pub(crate) fn grow(&mut self, groups: usize) {
        if let Some(missing) = &mut self.missing {
            missing.resize(groups, 0);
        }
        self.kind.get_mut().storage_mut().grow(groups);
    }

    /// Adds the rows of a slice to their groups, of which there are `group_count`. `valid` are the
    /// rows that count.
    pub(crate) fn update(
        &mut self,
        groups: Groups<'_>,
        fetched: Option<&Fetched>,
        valid: Option<&NullBuffer>,
        group_count: usize,
    ) -> Result<()> {
        let valid = valid.filter(|valid| valid.null_count() > 0);
        if let Some(valid) = valid {
            count_missing(groups, valid, self.missing.get_or_insert_with(|| vec![0; group_count]));
        }
        let Some(fetched) = fetched else { return Ok(()) };
        // The rows that a filter leaves out are not those that are null.
        let valid = valid.filter(|valid| !fetched.zeroed || fetched.valid.as_ref() != Some(*valid));
        self.kind.get_mut().update(groups, &fetched.values, valid)
    }

    /// Takes the rows of a slice that a filter leaves, if they come before those that were picked.
    pub(super) fn pick(
        &mut self,
        aggregate: &Aggregate,
        slice: &Slice<'_, '_>,
        groups: Groups<'_>,
        filter: Option<&NullBuffer>,
    ) -> Result<()> {
        let Kind::Picked(picked) = &mut self.kind else { return Err(wrong_kind_error()) };
        picked.add(aggregate, slice, groups, filter)
    }

    /// Whether totals of rows can stand for their values.
    pub(super) fn takes(&self, totals: &Totals) -> bool {
        self.kind.get().takes(totals)
    }

    /// Adds rows to one of `group_count` groups by totals that it takes.
    pub(super) fn add_totals(&mut self, group: usize, totals: &Totals, group_count: usize) {
        if totals.nulls > 0 {
            let missing = self.missing.get_or_insert_with(|| vec![0; group_count]);
            missing.get_mut(group).into_iter().for_each(|missing| *missing += totals.nulls);
        }
        if let Some(numbers) = totals.numbers.filter(|_| totals.values() > 0) {
            self.kind.get_mut().add_totals(group, &numbers);
        }
    }

    /// Adds distinct values to groups for which there is room.
    pub(crate) fn add_distinct(&mut self, groups: &[u64], counts: &[u64]) -> Result<()> {
        let Kind::DistinctCount(all) = &mut self.kind else { return Err(wrong_kind_error()) };
        all.add(groups, counts);
        Ok(())
    }

    /// Completes what is pending; no rows come after it.
    pub(crate) fn settle(&mut self) {
        self.kind.get_mut().settle();
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.missing = None;
        self.kind.get_mut().storage_mut().clear();
    }

    /// Adds the groups of another state, settled, to those of `groups` that `map` names.
    pub(crate) fn merge(&mut self, other: &State, groups: usize, map: GroupMap<'_>) -> Result<()> {
        if let Some(more) = &other.missing {
            RowCounts::Each(more).add_to(self.missing.get_or_insert_with(|| vec![0; groups]), map);
        }
        self.kind.merge(&other.kind, map)
    }

    /// Appends some groups of another state, settled, as groups of their own, to the `groups` that
    /// there are.
    pub(crate) fn append(&mut self, other: &State, groups: usize, at: &[u32]) -> Result<()> {
        if self.missing.is_some() || other.missing.is_some() {
            let missing = self.missing.get_or_insert_with(|| vec![0; groups]);
            match &other.missing {
                Some(more) => gather(missing, more, at),
                None => missing.resize(missing.len() + at.len(), 0),
            }
        }
        self.kind.append(&other.kind, at)
    }

    /// Writes all groups, settled, for [`State::read`].
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u8(u8::from(self.missing.is_some()));
        if let Some(missing) = &self.missing {
            write_words(missing, out);
        }
        self.kind.get().storage().write(out);
    }

    /// Reads `groups` groups into an empty state.
    pub(crate) fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.missing = if from.u8()? > 0 { Some(read_words(groups, from)?) } else { None };
        self.kind.get_mut().storage_mut().read(groups, from)
    }

    /// The answers of some groups, once settled; `rows` are the rows of each.
    pub(crate) fn finish(&self, groups: &[u64], rows: &[u64]) -> Result<ArrayRef> {
        let of = |counts: &[u64], group: &u64| counts.get(*group as usize).copied().unwrap_or(0);
        let missing = |group: &u64| self.missing.as_ref().map_or(0, |missing| of(missing, group));
        let count = |group: &u64| of(rows, group).saturating_sub(missing(group));
        let counts: Vec<u64> = groups.iter().map(count).collect();
        let array = self.kind.get().finish(&Batch { groups, counts: &counts })?;
        if *array.data_type() == self.data_type {
            return Ok(array);
        }
        arrow_cast::cast(&array, &self.data_type).or_unsupported()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Float64Array, Int64Array, StringViewArray, UInt64Array};

    use super::*;
    use crate::expr::Expression;
    use crate::query::aggregate::input::{ValueUse, values_of};
    use crate::query::tests::aggregate as of_column;

    fn aggregate(function: AggregateFunction, input: &ArrowType, answer: ArrowType) -> Aggregate {
        let mut made = of_column(function, Some(0));
        made.input = made.input.map(|of| Expression { data_type: input.clone(), ..of });
        Aggregate { data_type: answer, ..made }
    }

    /// Every kind, with values that it takes.
    fn cases() -> Vec<(Aggregate, ArrayRef)> {
        use AggregateFunction::{Average, Count, Deviation, Max, Min, Sum, Variance};
        let numbers = [Some(5), None, Some(-3), Some(7), Some(7), None, Some(1), Some(2)];
        let ints: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let unsigned: ArrayRef =
            Arc::new(numbers.map(|v| v.map(|v| (v + 3) as u64)).iter().collect::<UInt64Array>());
        let doubles: ArrayRef =
            Arc::new(numbers.map(|v| v.map(|v| v as f64 / 4.0)).iter().collect::<Float64Array>());
        let decimals = numbers.map(|v| v.map(i128::from)).iter().collect::<Decimal128Array>();
        let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(12, 0).unwrap());
        let texts = numbers.map(|v| v.map(|v: i64| "x".repeat(v.unsigned_abs() as usize)));
        let texts: ArrayRef =
            Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>());
        let mut cases = Vec::new();
        let mut push = |function, values: &ArrayRef, answer: Option<ArrowType>| {
            let answer = answer.unwrap_or(values.data_type().clone());
            cases.push((aggregate(function, values.data_type(), answer), Arc::clone(values)));
        };
        push(Count, &texts, Some(ArrowType::Int64));
        push(Sum, &ints, None);
        push(Sum, &unsigned, None);
        push(Sum, &decimals, None);
        push(Average, &ints, Some(ArrowType::Float64));
        push(Average, &decimals, Some(ArrowType::Float64));
        push(Average, &decimals, Some(ArrowType::Decimal128(16, 4)));
        for function in [Sum, Average, Variance { sample: true }, Deviation { sample: false }] {
            push(function, &doubles, None);
        }
        for values in [&ints, &unsigned, &doubles, &decimals, &texts] {
            push(Min, values, None);
            push(Max, values, None);
        }
        cases
    }

    fn of_rows(aggregate: &Aggregate, values: &ArrayRef, groups: &[u16]) -> State {
        let mut state = State::new(aggregate).unwrap();
        state.grow(4);
        let wanted = ValueUse { sums: state.only_adds(), decimals: false };
        let fetched = values_of(Arc::clone(values), wanted);
        let valid = fetched.valid.clone();
        state.update(Groups::Shorts(groups), Some(&fetched), valid.as_ref(), 4).unwrap();
        state.settle();
        state
    }

    /// The same groups, written and read one by one.
    #[cfg(feature = "cluster")]
    fn one_by_one(aggregate: &Aggregate, state: &State, groups: usize) -> State {
        let mut made = State::new(aggregate).unwrap();
        for group in 0..groups {
            let mut out = Writer::new();
            state.write_one(group, &mut out);
            let mut cursor = Cursor::new(out.as_slice());
            made.read_one(group, &mut cursor).unwrap();
            cursor.finish().unwrap();
        }
        made
    }

    #[test]
    fn states_in_parts_that_move_are_those_of_all_rows() {
        // One group has nothing but nulls, and one no rows.
        let (groups, rows) = ([0u16, 1, 2, 0, 2, 1, 2, 0], [3, 2, 3, 0]);
        for (aggregate, values) in cases() {
            let whole = of_rows(&aggregate, &values, &groups);
            let (first, last) = (values.slice(0, 4), values.slice(4, 4));
            let mut state = of_rows(&aggregate, &first, &groups[..4]);
            let other = of_rows(&aggregate, &last, &groups[4..]);
            let mut turned = State::new(&aggregate).unwrap();
            turned.append(&other, 0, &[2, 0, 1]).unwrap();
            let mut out = Writer::new();
            turned.write(&mut out);
            let mut read = State::new(&aggregate).unwrap();
            let mut cursor = Cursor::new(out.as_slice());
            read.read(3, &mut cursor).unwrap();
            cursor.finish().unwrap();
            #[cfg(feature = "cluster")]
            let read = one_by_one(&aggregate, &read, 3);
            state.merge(&read, 4, GroupMap::To(&[2, 0, 1])).unwrap();
            state.settle();
            let answers = |state: &State| state.finish(&[3, 1, 0, 2], &rows).unwrap();
            assert_eq!(&answers(&state), &answers(&whole), "{aggregate:?}");
            assert!(whole.memory() >= 4 * (whole.bytes_a_group() - size_of::<u64>()));
        }
    }

    #[test]
    fn states_of_different_kinds_are_never_merged() {
        let mut made: Vec<State> =
            cases().iter().map(|(aggregate, _)| State::new(aggregate).unwrap()).collect();
        let distinct = Aggregate { distinct: true, ..of_column(AggregateFunction::Count, Some(0)) };
        made.push(State::new(&distinct).unwrap());
        let others: Vec<State> =
            cases().iter().map(|(aggregate, _)| State::new(aggregate).unwrap()).collect();
        for state in &mut made {
            for other in &others {
                let same =
                    std::mem::discriminant(&state.kind) == std::mem::discriminant(&other.kind);
                assert_eq!(state.merge(other, 0, GroupMap::Same).is_ok(), same);
                assert_eq!(state.append(other, 0, &[]).is_ok(), same);
            }
            assert_eq!(
                state.add_distinct(&[], &[]).is_ok(),
                matches!(state.kind, Kind::DistinctCount(_))
            );
        }
    }
}
