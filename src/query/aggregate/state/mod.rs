//! What an aggregate keeps for each group.

mod spill;

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use crate::encoding::kernels::dispatch::simd;
use crate::error::{Error, Result};
use crate::model::Scalar;
use crate::query::aggregate::columns::{GroupMap, Rows, each};
use crate::query::aggregate::extremes::Extremes;
use crate::query::aggregate::float_sum::FloatSums;
use crate::query::aggregate::input::{Fetched, Values};
use crate::query::aggregate::kernels::{Groups, add_wide, count_missing, fold, grow, neutralised};
use crate::query::aggregate::moments::Moments;
use crate::query::open::OpenBlock;
use crate::query::words::{is_words, ordered, wordless};
use crate::query::{Aggregate, AggregateFunction};

/// One aggregate over all groups.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) kind: Kind,
    /// How many rows of each group did not count, once there was one.
    pub(super) missing: Option<Vec<u64>>,
    pub(super) data_type: ArrowType,
}

/// What is kept, by the kind of aggregate.
#[derive(Debug)]
pub(super) enum Kind {
    Count,
    /// Distinct values, which are counted elsewhere and added when all rows have been seen.
    Distinct(Vec<u64>),
    Words(Vec<i64>),
    Wide(Vec<i128>),
    /// Sums of integers, to be divided.
    Mean(Vec<i128>),
    Floats {
        sums: FloatSums,
        average: bool,
    },
    Moments {
        moments: Moments,
        sample: bool,
        root: bool,
    },
    /// Least or greatest, as words that sort like the values.
    Extreme {
        best: Vec<i64>,
        greatest: bool,
        input: ArrowType,
    },
    /// Least or greatest of anything, as bytes that sort like the values.
    ExtremeRow {
        best: Extremes,
        greatest: bool,
        converter: RowConverter,
    },
}

/// Keeps the best word of each group.
#[inline(always)]
fn extremes<V: Copy>(
    groups: Groups<'_>,
    values: &[V],
    valid: Option<&NullBuffer>,
    best: &mut [i64],
    greatest: bool,
    word: impl Fn(V) -> i64,
) {
    if let Groups::Same { group, .. } = groups {
        let Some(slot) = best.get_mut(group) else { return };
        let neutral = if greatest { i64::MIN } else { i64::MAX };
        let words: Vec<u64> = match valid {
            Some(valid) => neutralised(values, valid, neutral as u64, |v| word(v) as u64),
            None => values.iter().map(|v| word(*v) as u64).collect(),
        };
        *slot = match greatest {
            true => simd(
                #[inline(always)]
                || words.iter().fold(*slot, |best, word| best.max(*word as i64)),
            ),
            false => simd(
                #[inline(always)]
                || words.iter().fold(*slot, |best, word| best.min(*word as i64)),
            ),
        };
        return;
    }
    match greatest {
        true => fold(groups, values, valid, best, |slot, v| *slot = (*slot).max(word(v))),
        false => fold(groups, values, valid, best, |slot, v| *slot = (*slot).min(word(v))),
    }
}

pub(super) fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::Unsupported(error.to_string())
}

impl State {
    pub(crate) fn new(aggregate: &Aggregate) -> Result<Self> {
        let input = aggregate.input.as_ref().map(|input| input.data_type.clone());
        let kind = match (aggregate.function, input) {
            _ if aggregate.distinct => return distinct(aggregate),
            (AggregateFunction::Count, _) => Kind::Count,
            (AggregateFunction::Sum, Some(ArrowType::Int64 | ArrowType::UInt64)) => {
                Kind::Words(Vec::new())
            }
            (AggregateFunction::Sum, Some(ArrowType::Decimal128(..))) => Kind::Wide(Vec::new()),
            (AggregateFunction::Sum, Some(ArrowType::Float64)) => {
                Kind::Floats { sums: FloatSums::default(), average: false }
            }
            (AggregateFunction::Average, Some(ArrowType::Int64 | ArrowType::Decimal128(_, 0)))
                if aggregate.data_type == ArrowType::Float64 =>
            {
                Kind::Mean(Vec::new())
            }
            (AggregateFunction::Average, Some(ArrowType::Float64)) => {
                Kind::Floats { sums: FloatSums::default(), average: true }
            }
            (AggregateFunction::Variance { sample }, Some(ArrowType::Float64)) => {
                Kind::Moments { moments: Moments::default(), sample, root: false }
            }
            (AggregateFunction::Deviation { sample }, Some(ArrowType::Float64)) => {
                Kind::Moments { moments: Moments::default(), sample, root: true }
            }
            (function @ (AggregateFunction::Min | AggregateFunction::Max), Some(input)) => {
                extreme(function == AggregateFunction::Max, input)?
            }
            (function, input) => {
                return Err(Error::Unsupported(format!("{function:?} of {input:?} in a fragment")));
            }
        };
        Ok(State { kind, missing: None, data_type: aggregate.data_type.clone() })
    }

    /// Whether values of a column in a block may change what a group has; only if this is an
    /// extreme, and the block has none beyond it, they do not.
    pub(crate) fn improves(&self, group: usize, column: usize, block: &OpenBlock<'_>) -> bool {
        let (best, greatest, input) = match &self.kind {
            Kind::Extreme { best, greatest, input } => (best, greatest, input),
            Kind::ExtremeRow { best, greatest, converter } => {
                let stored = block
                    .stored(column)
                    .filter(|stored| stored.data_type().to_arrow() == self.data_type);
                let stats = stored.and_then(|stored| stored.block_stats(block.at.block));
                let bound =
                    stats.and_then(
                        |stats| if *greatest { stats.max.as_ref() } else { stats.min.as_ref() },
                    );
                let parser = converter.parser();
                let row = best.get(group).map(|row| parser.parse(row));
                let known = row.and_then(|row| converter.convert_rows([row]).ok());
                let known = known.and_then(|columns| wordless(columns.first()?)?);
                return match bound.zip(known) {
                    // A bound that is no value itself is beyond all values.
                    Some((bound, known)) => {
                        bound.value.total_cmp(&known).is_none_or(|order| match greatest {
                            true => order.is_gt(),
                            false => order.is_lt(),
                        })
                    }
                    None => true,
                };
            }
            _ => return true,
        };
        let stored = block.stored(column).filter(|stored| stored.data_type().to_arrow() == *input);
        let (Some(best), Some(stats)) =
            (best.get(group), stored.and_then(|s| s.block_stats(block.at.block)))
        else {
            return true;
        };
        let bound = if *greatest { &stats.max } else { &stats.min };
        let word = match bound.as_ref().map(|bound| &bound.value) {
            Some(Scalar::Int(value)) if is_words(input) => i64::try_from(*value).ok(),
            Some(Scalar::Float(value)) => Some(ordered(*value)),
            _ => None,
        };
        // Without a value yet, whether there are any has to be seen.
        let none = if *greatest { i64::MIN } else { i64::MAX };
        *best == none || word.is_none_or(|word| if *greatest { word > *best } else { word < *best })
    }

    /// Whether values are only added up and counted.
    pub(crate) fn only_adds(&self) -> bool {
        !matches!(self.kind, Kind::Extreme { .. } | Kind::ExtremeRow { .. } | Kind::Moments { .. })
    }

    fn is_distinct(&self) -> bool {
        matches!(self.kind, Kind::Distinct(_))
    }

    /// Adds distinct values to groups for which there is room.
    pub(crate) fn add_distinct(&mut self, groups: &[u64], counts: &[u64]) {
        let Kind::Distinct(all) = &mut self.kind else { return };
        for (group, count) in groups.iter().zip(counts) {
            if let Some(slot) = all.get_mut(*group as usize) {
                *slot += count;
            }
        }
    }

    /// Bytes that it holds.
    pub(crate) fn memory(&self) -> usize {
        let missing =
            self.missing.as_ref().map_or(0, |missing| missing.capacity() * size_of::<u64>());
        missing
            + match &self.kind {
                Kind::Count => 0,
                Kind::Words(best) | Kind::Extreme { best, .. } => {
                    best.capacity() * size_of::<i64>()
                }
                Kind::Distinct(counts) => counts.capacity() * size_of::<u64>(),
                Kind::Moments { moments, .. } => moments.memory(),
                Kind::Wide(sums) | Kind::Mean(sums) => sums.capacity() * size_of::<i128>(),
                Kind::Floats { sums, .. } => sums.memory(),
                Kind::ExtremeRow { best, .. } => best.memory(),
            }
    }

    /// Whether it keeps values of any length.
    pub(crate) fn holds_texts(&self) -> bool {
        matches!(self.kind, Kind::ExtremeRow { .. })
    }

    /// Bytes that a group takes at least.
    pub(crate) fn bytes_a_group(&self) -> usize {
        // What counts values beside rows is there when the first of them is null.
        size_of::<u64>()
            + match &self.kind {
                Kind::Count => 0,
                Kind::Words(_) | Kind::Distinct(_) | Kind::Extreme { .. } => size_of::<i64>(),
                Kind::Moments { .. } => Moments::BYTES,
                Kind::Wide(_) | Kind::Mean(_) | Kind::Floats { .. } => size_of::<i128>(),
                Kind::ExtremeRow { .. } => 2 * size_of::<u64>(),
            }
    }

    pub(crate) fn grow(&mut self, groups: usize) {
        if let Some(missing) = &mut self.missing {
            missing.resize(groups, 0);
        }
        match &mut self.kind {
            Kind::Count => {}
            Kind::Words(sums) => grow(sums, groups, 0),
            Kind::Distinct(counts) => grow(counts, groups, 0),
            Kind::Moments { moments, .. } => moments.grow(groups),
            Kind::Wide(sums) | Kind::Mean(sums) => grow(sums, groups, 0),
            Kind::Floats { sums, .. } => sums.grow(groups),
            Kind::Extreme { best, greatest, .. } => {
                best.resize(groups, if *greatest { i64::MIN } else { i64::MAX });
            }
            Kind::ExtremeRow { best, .. } => best.grow(groups),
        }
    }

    /// Adds the rows of a slice to their groups. `valid` are the rows that count.
    pub(crate) fn update(
        &mut self,
        groups: Groups<'_>,
        fetched: Option<&Fetched>,
        valid: Option<&NullBuffer>,
        room: usize,
    ) -> Result<()> {
        if let Some(valid) = valid.filter(|valid| valid.null_count() > 0 && !self.is_distinct()) {
            count_missing(groups, valid, self.missing.get_or_insert_with(|| vec![0; room]));
        }
        let Some(fetched) = fetched else { return Ok(()) };
        // The rows that a filter leaves out are not those that are null.
        let valid = valid.filter(|valid| !fetched.zeroed || fetched.valid.as_ref() != Some(*valid));
        let valid = valid.filter(|valid| valid.null_count() > 0);
        match (&mut self.kind, &fetched.values) {
            (Kind::Count, _) => {}
            (Kind::Words(sums), Values::Words(values)) => {
                fold(groups, values, valid, sums, |slot, v| *slot = slot.wrapping_add(v));
            }
            (Kind::Mean(sums), Values::Words(values)) => add_wide(groups, values, valid, sums),
            (Kind::Wide(sums) | Kind::Mean(sums), Values::Wide(values)) => {
                fold(groups, values, valid, sums, |slot, v| *slot = slot.wrapping_add(v));
            }
            (Kind::Floats { sums, .. }, Values::Floats(values)) => {
                sums.add_floats(groups, values, valid)
            }
            (Kind::Floats { sums, .. }, Values::Decimals(values)) => {
                sums.add_decimals(groups, values, valid)
            }
            (Kind::Moments { moments, .. }, Values::Floats(values)) => {
                moments.add(groups, values, valid)
            }
            (Kind::Extreme { best, greatest, input }, Values::Words(values)) => {
                let flip = if *input == ArrowType::UInt64 { i64::MIN } else { 0 };
                extremes(groups, values, valid, best, *greatest, |v| v ^ flip);
            }
            (Kind::Extreme { best, greatest, .. }, Values::Floats(values)) => {
                extremes(groups, values, valid, best, *greatest, ordered);
            }
            (Kind::ExtremeRow { best, greatest, converter }, values) => {
                let array: ArrayRef = match values {
                    Values::Array(array) => Arc::clone(array),
                    Values::Wide(wide) => {
                        let decimals = Decimal128Array::new(wide.clone(), fetched.valid.clone());
                        Arc::new(decimals.with_data_type(self.data_type.clone()))
                    }
                    _ => {
                        return Err(Error::InvalidInput(
                            "values of another kind than declared".into(),
                        ));
                    }
                };
                let rows = converter.convert_columns(&[array]).map_err(failed)?;
                for (at, row) in rows.iter().enumerate() {
                    if valid.is_some_and(|valid| valid.is_null(at)) {
                        continue;
                    }
                    best.offer(groups.at(at), row.as_ref(), *greatest);
                }
            }
            _ => return Err(Error::InvalidInput("values of another kind than declared".into())),
        }
        Ok(())
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.missing = None;
        match &mut self.kind {
            Kind::Count => {}
            Kind::Words(slots) | Kind::Extreme { best: slots, .. } => slots.clear(),
            Kind::Distinct(counts) => counts.clear(),
            Kind::Moments { moments, .. } => moments.clear(),
            Kind::Wide(sums) | Kind::Mean(sums) => sums.clear(),
            Kind::Floats { sums, .. } => sums.clear(),
            Kind::ExtremeRow { best, .. } => best.clear(),
        }
    }

    /// Adds another state, group by group.
    pub(crate) fn merge(&mut self, other: &State, groups: usize, map: GroupMap<'_>) {
        if let Some(more) = &other.missing {
            Rows::Each(more).add_to(self.missing.get_or_insert_with(|| vec![0; groups]), map);
        }
        match (&mut self.kind, &other.kind) {
            (Kind::Words(sums), Kind::Words(more)) => {
                each(sums, more, map, |a, b| *a = a.wrapping_add(b))
            }
            (Kind::Wide(sums), Kind::Wide(more)) | (Kind::Mean(sums), Kind::Mean(more)) => {
                each(sums, more, map, |a, b| *a = a.wrapping_add(b))
            }
            (Kind::Floats { sums, .. }, Kind::Floats { sums: more, .. }) => sums.merge(more, map),
            (Kind::Distinct(counts), Kind::Distinct(more)) => {
                each(counts, more, map, |a, b| *a += b)
            }
            (Kind::Moments { moments, .. }, Kind::Moments { moments: more, .. }) => {
                moments.merge(more, map)
            }
            (Kind::Extreme { best, greatest: true, .. }, Kind::Extreme { best: more, .. }) => {
                each(best, more, map, |a, b| *a = (*a).max(b));
            }
            (Kind::Extreme { best, .. }, Kind::Extreme { best: more, .. }) => {
                each(best, more, map, |a, b| *a = (*a).min(b));
            }
            (Kind::ExtremeRow { best, greatest, .. }, Kind::ExtremeRow { best: more, .. }) => {
                for at in 0..more.len() {
                    if let Some(row) = more.get(at) {
                        best.offer(map.at(at), row, *greatest);
                    }
                }
            }
            _ => {}
        }
    }

    /// Completes what is pending; no rows come after it.
    pub(crate) fn settle(&mut self) {
        if let Kind::Floats { sums, .. } = &mut self.kind {
            sums.settle();
        }
    }
}

fn distinct(aggregate: &Aggregate) -> Result<State> {
    let counts = aggregate.function == AggregateFunction::Count && aggregate.input.is_some();
    if !counts || aggregate.filter.is_some() {
        return Err(Error::Unsupported(format!(
            "{:?} of distinct values in a fragment",
            aggregate.function
        )));
    }
    Ok(State {
        kind: Kind::Distinct(Vec::new()),
        missing: None,
        data_type: aggregate.data_type.clone(),
    })
}

fn extreme(greatest: bool, input: ArrowType) -> Result<Kind> {
    if is_words(&input) || matches!(input, ArrowType::UInt64 | ArrowType::Float64) {
        return Ok(Kind::Extreme { best: Vec::new(), greatest, input });
    }
    let converter = RowConverter::new(vec![SortField::new(input)]).map_err(failed)?;
    Ok(Kind::ExtremeRow { best: Extremes::default(), greatest, converter })
}
