//! The accumulators: of groups, and of one.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, ListArray, MapArray, StructArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use arrow_select::filter::filter;
use datafusion::common::{ScalarValue, exec_err, internal_datafusion_err, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::coding::{Coding, Ranks};
use super::counts::{Counts, Run, Words, add_up};
use super::{Kind, entries_field, entry_fields, quantile_fields};

#[derive(Debug)]
pub(super) struct Tallies {
    kind: Kind,
    /// The fractions of quantiles, negative from the greatest value on, or how many values are
    /// wanted.
    numbers: Vec<f64>,
    /// Whether each value counts once.
    is_distinct: bool,
    coding: Coding,
    counts: Counts,
}

impl Tallies {
    pub(super) fn new(
        kind: Kind,
        numbers: Vec<f64>,
        is_distinct: bool,
        of: DataType,
    ) -> DataFusionResult<Tallies> {
        let (coding, counts) = (Coding::new(of)?, Counts::new());
        Ok(Tallies { kind, numbers, is_distinct, coding, counts })
    }

    /// The accumulator of one group.
    pub(super) fn alone(mut self) -> DataFusionResult<Box<dyn Accumulator>> {
        self.counts.grow(1)?;
        Ok(Box::new(OneGroup(Mutex::new(self))))
    }

    /// The answers of the first groups, which stay.
    fn answers(&mut self, groups: usize) -> DataFusionResult<ArrayRef> {
        match self.kind {
            Kind::Mode => self.modes(groups),
            Kind::Quantile | Kind::Quantiles => self.quantiles(groups),
            Kind::Histogram => self.histograms(groups),
            Kind::TopK => self.most_frequent(groups),
        }
    }

    fn modes(&mut self, groups: usize) -> DataFusionResult<ArrayRef> {
        let Tallies { coding, counts, is_distinct, .. } = self;
        let (mut counted, mut modes) = (Counted::new(*is_distinct, None), Words64::default());
        counts.each(groups, &mut |words| {
            let runs = counted.runs(&words);
            let mode = runs.iter().copied().reduce(|best, run| match run.1.cmp(&best.1) {
                std::cmp::Ordering::Equal if coding.compare(run.0, best.0).is_lt() => run,
                std::cmp::Ordering::Greater => run,
                _ => best,
            });
            modes.push(mode.map(|(word, _)| word));
            Ok(())
        })?;
        modes.decode(coding)
    }

    fn quantiles(&mut self, groups: usize) -> DataFusionResult<ArrayRef> {
        let Tallies { coding, counts, is_distinct, numbers, kind } = self;
        let ranks = coding.ranks();
        let mut counted = Counted::new(*is_distinct, ranks.as_ref());
        let mut columns: Vec<Words64> = numbers.iter().map(|_| Words64::default()).collect();
        counts.each(groups, &mut |words| {
            let found = counted.quantiles(words, numbers);
            columns.iter_mut().zip(found).for_each(|(column, found)| column.push(found));
            Ok(())
        })?;
        let columns = columns.into_iter().map(|column| column.decode(coding));
        let mut columns = columns.collect::<DataFusionResult<Vec<_>>>()?;
        match kind {
            Kind::Quantiles => {
                let fields = quantile_fields(coding.data_type(), columns.len());
                Ok(Arc::new(StructArray::try_new_with_length(fields, columns, None, groups)?))
            }
            _ => columns.pop().ok_or_else(|| internal_datafusion_err!("a quantile of no fraction")),
        }
    }

    fn histograms(&mut self, groups: usize) -> DataFusionResult<ArrayRef> {
        let Tallies { coding, counts, is_distinct, .. } = self;
        let ranks = coding.ranks();
        let mut counted = Counted::new(*is_distinct, ranks.as_ref());
        let (mut words, mut times, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        counts.each(groups, &mut |of_group| {
            let runs = counted.runs(&of_group);
            words.extend(runs.iter().map(|(word, _)| word_of(ranks.as_ref(), *word)));
            times.extend(runs.iter().map(|(_, count)| *count));
            lengths.push(runs.len());
            Ok(())
        })?;
        let keys = coding.decode(&words, None)?;
        let of = coding.data_type();
        let columns = vec![keys, Arc::new(UInt64Array::from(times)) as ArrayRef];
        let entries = StructArray::try_new(entry_fields(of), columns, None)?;
        let nulls = NullBuffer::from_iter(lengths.iter().map(|length| *length > 0));
        let (field, offsets) = (entries_field(of), offsets(&lengths)?);
        Ok(Arc::new(MapArray::try_new(field, offsets, entries, Some(nulls), false)?))
    }

    fn most_frequent(&mut self, groups: usize) -> DataFusionResult<ArrayRef> {
        let Tallies { coding, counts, is_distinct, numbers, .. } = self;
        let wanted = numbers.first().map_or(0, |number| *number as usize);
        let ranks = coding.ranks();
        let mut counted = Counted::new(*is_distinct, ranks.as_ref());
        let (mut words, mut lengths) = (Vec::new(), Vec::new());
        counts.each(groups, &mut |of_group| {
            let runs = counted.runs(&of_group);
            runs.sort_by_key(|(_, count)| Reverse(*count));
            let first = runs.iter().take(wanted);
            words.extend(first.map(|(word, _)| word_of(ranks.as_ref(), *word)));
            lengths.push(runs.len().min(wanted));
            Ok(())
        })?;
        list(coding.decode(&words, None)?, &lengths, None)
    }

    /// What the first groups hand over, which stays: a list of values of each, and a list of their
    /// counts, or null where each counts once.
    fn states(&mut self, groups: usize) -> DataFusionResult<Vec<ArrayRef>> {
        let (mut words, mut lengths) = (Vec::new(), Vec::new());
        let (mut times, mut times_lengths) = (Vec::new(), Vec::new());
        self.counts.each(groups, &mut |of_group| {
            let length = of_group.words.len() + of_group.runs.len();
            words.extend_from_slice(of_group.words);
            words.extend(of_group.runs.iter().map(|(word, _)| *word));
            lengths.push(length);
            if !of_group.runs.is_empty() {
                times.extend(std::iter::repeat_n(1, of_group.words.len()));
                times.extend(of_group.runs.iter().map(|(_, count)| *count as i64));
            }
            times_lengths.push(if of_group.runs.is_empty() { 0 } else { length });
            Ok(())
        })?;
        let values: ArrayRef = match self.coding.has_words() {
            true => Arc::new(UInt64Array::from(words)),
            false => self.coding.decode(&words, None)?,
        };
        let counted = NullBuffer::from_iter(times_lengths.iter().map(|length| *length > 0));
        let times: ArrayRef = Arc::new(Int64Array::from(times));
        Ok(vec![list(values, &lengths, None)?, list(times, &times_lengths, Some(counted))?])
    }

    fn forget(&mut self, groups: usize) -> DataFusionResult<()> {
        // What stays is counted anew among the values of groups that stay.
        match self.coding.keep() {
            Some(mut word) => self.counts.forget(groups, Some(&mut word)),
            None => self.counts.forget(groups, None),
        }
    }

    #[cfg(test)]
    pub(super) fn counts_size(&self) -> usize {
        self.counts.size()
    }

    #[cfg(test)]
    pub(super) fn counts_bytes(&self) -> usize {
        self.counts.bytes()
    }

    fn emitted(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.counts.groups(),
            EmitTo::First(groups) => groups.min(self.counts.groups()),
        }
    }
}

/// The rows that count: those of values that are not null, and that a filter lets through.
fn passing(values: &ArrayRef, filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let filter = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    let valid = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    match (filter, valid) {
        (Some(filter), Some(valid)) => Some(&filter & valid.inner()),
        (None, Some(valid)) => Some(valid.into_inner()),
        (filter, None) => filter,
    }
}

impl GroupsAccumulator for Tallies {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> DataFusionResult<()> {
        self.counts.grow(total_groups)?;
        let Some(values) = values.first() else { return internal_err!("a count of no values") };
        let passing = passing(values, filter);
        let words = self.coding.encode(values, passing.as_ref())?;
        self.counts.add(&words, groups, passing.as_ref())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> DataFusionResult<()> {
        self.counts.grow(total_groups)?;
        let lists: Vec<_> = states.iter().filter_map(|list| list.as_list_opt::<i32>()).collect();
        let [values, times] = lists.as_slice() else {
            return internal_err!("a state has two lists");
        };
        let encoded;
        let words: &[u64] = match values.values().as_primitive_opt::<UInt64Type>() {
            Some(words) if self.coding.has_words() => words.values(),
            _ => {
                encoded = self.coding.encode(values.values(), None)?;
                &encoded
            }
        };
        let Some(counts) = times.values().as_primitive_opt::<Int64Type>() else {
            return internal_err!("counts that are no integers");
        };
        // Lists come from where groups have lists already.
        let is_list = |(row, length): (usize, usize)| length > 1 && times.is_null(row);
        if values.offsets().lengths().enumerate().any(is_list) {
            self.counts.give_lists()?;
        }
        let bounds = values.value_offsets().windows(2).zip(times.value_offsets().windows(2));
        for (row, (group, (of_values, of_times))) in groups.iter().zip(bounds).enumerate() {
            let words = slice(words, of_values).filter(|_| values.is_valid(row));
            let times = slice(counts.values(), of_times).filter(|_| times.is_valid(row));
            if let Some(words) = words {
                self.counts.add_to(*group, words, times);
            }
        }
        self.counts.settle()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        let groups = self.emitted(emit_to);
        let answers = self.answers(groups)?;
        self.forget(groups)?;
        Ok(answers)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        let groups = self.emitted(emit_to);
        let states = self.states(groups)?;
        self.forget(groups)?;
        Ok(states)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        only: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let Some(values) = values.first() else { return internal_err!("a count of no values") };
        let rows = values.len();
        let words = self.coding.handed_over(values)?;
        let (words, lengths) = match passing(values, only) {
            Some(passing) => {
                let lengths = passing.iter().map(usize::from).collect();
                (filter(&words, &BooleanArray::new(passing, None))?, lengths)
            }
            None => (words, vec![1; rows]),
        };
        let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        let once = Some(NullBuffer::new_null(rows));
        Ok(vec![list(words, &lengths, None)?, list(none, &vec![0; rows], once)?])
    }

    fn size(&self) -> usize {
        self.coding.size() + self.counts.size()
    }
}

fn slice<'a, T>(all: &'a [T], bounds: &[i32]) -> Option<&'a [T]> {
    match bounds {
        [start, end] => all.get(*start as usize..*end as usize),
        _ => None,
    }
}

/// The one group of an aggregate without GROUP BY, or of a frame of a window, which goes on after
/// an answer.
#[derive(Debug)]
struct OneGroup(Mutex<Tallies>);

impl OneGroup {
    fn get(&mut self) -> &mut Tallies {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.get().update_batch(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let rows = states.first().map_or(0, |states| states.len());
        GroupsAccumulator::merge_batch(self.get(), states, &vec![0; rows], 1)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let states = self.get().states(1)?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        ScalarValue::try_from_array(&self.get().answers(1)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.lock().unwrap_or_else(PoisonError::into_inner).size()
    }
}

/// Counts the words of one group after the other.
struct Counted<'a> {
    is_distinct: bool,
    /// In whose order words are put; in their own one if `None`.
    ranks: Option<&'a Ranks>,
    words: Vec<u64>,
    runs: Vec<Run>,
}

impl<'a> Counted<'a> {
    fn new(is_distinct: bool, ranks: Option<&'a Ranks>) -> Counted<'a> {
        Counted { is_distinct, ranks, words: Vec::new(), runs: Vec::new() }
    }

    /// The different words of a group, or their ranks, in order and with their counts.
    fn runs(&mut self, of_group: &Words<'_>) -> &mut Vec<Run> {
        let Counted { is_distinct, ranks, words, runs } = self;
        let rank = |word: u64| ranks.map_or(word, |ranks| ranks.rank(word));
        words.clear();
        words.extend(of_group.words.iter().map(|word| rank(*word)));
        words.sort_unstable();
        runs.clear();
        let equal = words.chunk_by(|a, b| a == b);
        runs.extend(equal.filter_map(|run| Some((*run.first()?, run.len() as u64))));
        runs.extend(of_group.runs.iter().map(|(word, count)| (rank(*word), *count)));
        if !of_group.runs.is_empty() {
            add_up(runs);
        }
        if *is_distinct {
            runs.iter_mut().for_each(|(_, count)| *count = 1);
        }
        runs
    }

    /// The words at these fractions of the way.
    fn quantiles(&mut self, of_group: Words<'_>, fractions: &[f64]) -> Vec<Option<u64>> {
        if !of_group.runs.is_empty() || self.is_distinct {
            let ranks = self.ranks;
            let runs = self.runs(&of_group);
            let rows: u64 = runs.iter().map(|(_, count)| count).sum();
            let find = |fraction: &f64| {
                let (place, mut before) = (place(rows, *fraction), 0);
                let is_found = |(_, count): &&Run| {
                    before += count;
                    before > place
                };
                runs.iter().find(is_found).map(|(word, _)| word_of(ranks, *word))
            };
            return fractions.iter().map(find).collect();
        }
        let words = match self.ranks {
            None => &mut *of_group.words,
            Some(ranks) => {
                self.words.clear();
                self.words.extend(of_group.words.iter().map(|word| ranks.rank(*word)));
                &mut self.words
            }
        };
        if fractions.len() > 1 {
            words.sort_unstable();
        }
        let find = |fraction: &f64| {
            let last = words.len().checked_sub(1)?;
            let place = (place(words.len() as u64, *fraction) as usize).min(last);
            let word = match fractions.len() {
                1 => *words.select_nth_unstable(place).1,
                _ => *words.get(place)?,
            };
            Some(word_of(self.ranks, word))
        };
        fractions.iter().map(find).collect()
    }
}

/// Which of so many rows, from 0 on in their order, is at a fraction of the way.
fn place(rows: u64, fraction: f64) -> u64 {
    let count = rows as f64;
    let wanted = count - (count - fraction.abs() * count).floor();
    let wanted = wanted.max(1.0) as u64;
    match fraction < 0.0 {
        true => rows.saturating_sub(wanted),
        false => wanted - 1,
    }
}

fn word_of(ranks: Option<&Ranks>, rank: u64) -> u64 {
    ranks.map_or(rank, |ranks| ranks.word(rank))
}

/// Words, some of which are null.
#[derive(Default)]
struct Words64 {
    words: Vec<u64>,
    valid: Vec<bool>,
}

impl Words64 {
    fn push(&mut self, word: Option<u64>) {
        self.words.push(word.unwrap_or_default());
        self.valid.push(word.is_some());
    }

    fn decode(self, coding: &Coding) -> DataFusionResult<ArrayRef> {
        coding.decode(&self.words, Some(NullBuffer::from(self.valid)))
    }
}

fn offsets(lengths: &[usize]) -> DataFusionResult<OffsetBuffer<i32>> {
    if i32::try_from(lengths.iter().sum::<usize>()).is_err() {
        return exec_err!("the groups of a batch have more than 2³¹ values");
    }
    Ok(OffsetBuffer::from_lengths(lengths.iter().copied()))
}

/// Lists of these lengths.
fn list(
    values: ArrayRef,
    lengths: &[usize],
    nulls: Option<NullBuffer>,
) -> DataFusionResult<ArrayRef> {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets(lengths)?, values, nulls)?))
}
