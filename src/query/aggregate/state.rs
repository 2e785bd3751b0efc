//! What an aggregate keeps for each group: the choice of a kind of state, and what all kinds have
//! in common.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, Rows, gather, read_words, write_words};
use super::count::Count;
use super::distinct_count::DistinctCount;
use super::extreme::Extreme;
use super::extreme_row::ExtremeRow;
use super::float_sum::FloatSum;
use super::input::Fetched;
use super::integer_sum::IntegerSum;
use super::kernels::{Groups, count_missing};
use super::kind::{Batch, StateKind, another_kind, failed};
use super::variance::Variance;
use super::wide_sum::WideSum;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::query::open::OpenBlock;
use crate::query::{Aggregate, AggregateFunction};

/// Makes the enum of all kinds of states, whose variants have the names of what they hold, and
/// everything that asks which one it is.
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
                    _ => return Err(another_kind()),
                }
                Ok(())
            }

            fn append(&mut self, others: &Kind, at: &[u32]) -> Result<()> {
                match (self, others) {
                    $((Kind::$kind(states), Kind::$kind(others)) => states.append(others, at),)*
                    _ => return Err(another_kind()),
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

kinds!(Count, DistinctCount, IntegerSum, WideSum, FloatSum, Variance, Extreme, ExtremeRow);

impl Kind {
    /// The kind for a function of an input; `None` if it does not take the input's type.
    fn new(aggregate: &Aggregate) -> Result<Option<Kind>> {
        use ArrowType as T;
        let input = aggregate.input.as_ref().map(|input| &input.data_type);
        Ok(match (aggregate.function, input) {
            (AggregateFunction::Count, Some(_)) if aggregate.distinct => {
                aggregate.filter.is_none().then(|| DistinctCount::default().into())
            }
            (_, _) if aggregate.distinct => None,
            (AggregateFunction::Count, _) => Some(Count.into()),
            (_, None) => None,
            (AggregateFunction::Sum, Some(input)) => match input {
                T::Int64 | T::UInt64 => Some(IntegerSum::new(aggregate.data_type.clone()).into()),
                T::Decimal128(..) => Some(WideSum::sum(aggregate.data_type.clone()).into()),
                T::Float64 => Some(FloatSum::new(false).into()),
                _ => None,
            },
            (AggregateFunction::Average, Some(input)) => match input {
                T::Int64 | T::Decimal128(_, 0) if aggregate.data_type == T::Float64 => {
                    Some(WideSum::mean().into())
                }
                T::Float64 => Some(FloatSum::new(true).into()),
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
        })
    }
}

fn extreme(greatest: bool, input: &ArrowType) -> Result<Kind> {
    Ok(match Extreme::takes(input) {
        true => Extreme::new(greatest, input.clone()).into(),
        false => ExtremeRow::new(greatest, input.clone())?.into(),
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
        let kind = Kind::new(aggregate)?.ok_or_else(|| {
            let distinct = if aggregate.distinct { "distinct " } else { "" };
            let input = aggregate.input.as_ref().map(|input| &input.data_type);
            let function = aggregate.function;
            Error::Unsupported(format!("{function:?} of {distinct}{input:?} in a fragment"))
        })?;
        Ok(State { kind, missing: None, data_type: aggregate.data_type.clone() })
    }

    /// Whether values of a column in a block may change what a group has.
    pub(crate) fn improves(&self, group: usize, column: usize, block: &OpenBlock<'_>) -> bool {
        self.kind.get().improves(group, column, block)
    }

    /// Whether values are only added up and counted.
    pub(crate) fn only_adds(&self) -> bool {
        self.kind.get().only_adds()
    }

    /// Whether it keeps values of any length.
    pub(crate) fn holds_texts(&self) -> bool {
        self.kind.get().holds_texts()
    }

    /// Bytes that it holds.
    pub(crate) fn memory(&self) -> usize {
        let missing =
            self.missing.as_ref().map_or(0, |missing| missing.capacity() * size_of::<u64>());
        missing + self.kind.get().memory()
    }

    /// Bytes that a group takes at least.
    pub(crate) fn bytes_a_group(&self) -> usize {
        // What counts values beside rows is there when the first of them is null.
        size_of::<u64>() + self.kind.get().bytes_a_group()
    }

    /// Makes room for `groups` groups in all.
    pub(crate) fn grow(&mut self, groups: usize) {
        if let Some(missing) = &mut self.missing {
            missing.resize(groups, 0);
        }
        self.kind.get_mut().grow(groups);
    }

    /// Adds the rows of a slice to their groups, of which there are `room`. `valid` are the rows
    /// that count.
    pub(crate) fn update(
        &mut self,
        groups: Groups<'_>,
        fetched: Option<&Fetched>,
        valid: Option<&NullBuffer>,
        room: usize,
    ) -> Result<()> {
        let valid = valid.filter(|valid| valid.null_count() > 0);
        if let Some(valid) = valid {
            count_missing(groups, valid, self.missing.get_or_insert_with(|| vec![0; room]));
        }
        let Some(fetched) = fetched else { return Ok(()) };
        // The rows that a filter leaves out are not those that are null.
        let valid = valid.filter(|valid| !fetched.zeroed || fetched.valid.as_ref() != Some(*valid));
        self.kind.get_mut().update(groups, &fetched.values, valid)
    }

    /// Adds each value as often as `times` says to the only group.
    pub(crate) fn add_counted(&mut self, fetched: &Fetched, times: &[u64]) -> Result<()> {
        let Some(valid) = &fetched.valid else {
            return self.kind.get_mut().add_counted(&fetched.values, times);
        };
        let of_values = times.iter().zip(valid).map(|(times, valid)| times * u64::from(valid));
        let of_values: Vec<u64> = of_values.collect();
        let nulls = times.iter().sum::<u64>() - of_values.iter().sum::<u64>();
        let missing = self.missing.get_or_insert_with(|| vec![0]);
        missing.iter_mut().take(1).for_each(|missing| *missing += nulls);
        self.kind.get_mut().add_counted(&fetched.values, &of_values)
    }

    /// Adds distinct values to groups for which there is room.
    pub(crate) fn add_distinct(&mut self, groups: &[u64], counts: &[u64]) -> Result<()> {
        let Kind::DistinctCount(all) = &mut self.kind else { return Err(another_kind()) };
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
        self.kind.get_mut().clear();
    }

    /// Adds the groups of another state, settled, to those of `groups` that `map` names.
    pub(crate) fn merge(&mut self, other: &State, groups: usize, map: GroupMap<'_>) -> Result<()> {
        if let Some(more) = &other.missing {
            Rows::Each(more).add_to(self.missing.get_or_insert_with(|| vec![0; groups]), map);
        }
        self.kind.merge(&other.kind, map)
    }

    /// Appends some groups of another state, settled, as groups of their own, to so many that there
    /// are.
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
        self.kind.get().write(out);
    }

    /// Reads so many groups into an empty state.
    pub(crate) fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.missing = if from.u8()? > 0 { Some(read_words(groups, from)?) } else { None };
        self.kind.get_mut().read(groups, from)
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
        arrow_cast::cast(&array, &self.data_type).map_err(failed)
    }
}
