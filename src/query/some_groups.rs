//! `GROUP BY … LIMIT n`: few of many groups come out. Which ones is found out first, and conditions
//! on their keys leave the rows of all others out before these are grouped.
//!
//! * Without an order, any n groups will do: those of the first rows.
//! * In an order by some of the aggregates, a first run computes these alone, and the others wait
//!   for the groups that come out: a million states of one count take less memory, and time,
//!   than those of a count, two sums and a set of distinct values. It is late materialisation, of
//!   states.
//!
//! Where this stands on the road of a query: `run` adds the conditions to those of the fragment,
//! after `prune` and before `group`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType as ArrowType;
use arrow_select::concat::concat;
use hashbrown::HashSet;

use super::aggregate::Accumulators;
use super::context::Context;
use super::group::{GroupOutput, groups};
use super::open::Survivors;
use super::words::{is_words, to_words};
use super::{Aggregate, ByColumn, Condition, FirstGroups, Fragment, Output};
use crate::error::{ArrowResult, Error, Result};
use crate::expr::{Expression, Function, Operand, Predicate, Traits};
use crate::model::{Column, Scalar};

/// The most groups that are asked for,
const SOME: usize = 1024;
/// and that conditions are made of.
const MOST: usize = 4 * SOME;
/// They are looked for in one block of this many.
const SAMPLE: usize = 16;
/// Aggregates wait if their states take as many bytes a group,
const LATE_BYTES: usize = 16;
/// if a block has many groups, no fewer than one for this many of its rows,
const MOST_ROWS_A_GROUP: u64 = 8;
/// and the table at least this many rows for each of them.
const ROWS_OF_TABLE: usize = 512;
/// Sets of distinct values wait if a block has this many times the groups that are wanted.
const MANY_MORE: usize = 8;
/// Nothing waits for groups that have more than one in this many of the rows that pass.
const LARGE_SHARE: u64 = 8;

/// Conditions that keep all rows of at least n groups, the first ones if there is an order, and
/// drop those of most others; none where that does not pay.
pub(super) fn conditions(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    survivors: &mut Survivors,
    context: &Context<'_>,
) -> Result<Vec<Condition>> {
    let Some(first) = fragment.first_groups() else { return Ok(Vec::new()) };
    // What is found out here is not for other machines.
    let context = &Context { states: false, ..*context };
    let is_any = first.order.is_empty();
    let least = if is_any { SAMPLE } else { 2 };
    if first.limit > SOME || survivors.blocks.len() < least {
        return Ok(Vec::new());
    }
    let before = context.recorder.mark();
    let found = match is_any {
        true => {
            let sample = survivors.blocks.len() / SAMPLE;
            on_first(sample, survivors, |some| {
                some_keys(fragment, keys, first.limit, some, context)
            })
        }
        false => first_keys(fragment, keys, aggregates, first, survivors, context),
    };
    context.recorder.forget_rows(before);
    let Found::Keys(found) = found? else { return Ok(Vec::new()) };
    let conditions = keys.iter().zip(&found);
    Ok(conditions.filter_map(|(key, values)| among(key, values, &fragment.columns)).collect())
}

/// What `look` finds in the first blocks alone.
fn on_first<T>(
    blocks: usize,
    survivors: &mut Survivors,
    look: impl FnOnce(&mut Survivors) -> T,
) -> T {
    let rest = survivors.blocks.split_off(blocks.min(survivors.blocks.len()));
    let found = look(survivors);
    survivors.blocks.extend(rest);
    found
}

/// The keys of the first groups of an order, by the aggregates that it names, if the others are
/// worth a wait.
fn first_keys(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    first: &FirstGroups,
    survivors: &mut Survivors,
    context: &Context<'_>,
) -> Result<Found> {
    let many = context.limits.late_groups;
    let is_large = survivors.rows() >= many.saturating_mul(ROWS_OF_TABLE) as u64;
    if !is_large || !keys.iter().any(|key| has_members(&key.data_type)) {
        return Ok(Found::Nothing);
    }
    let Timing { early, order, late_sets } = timing(keys.len(), aggregates, first);
    let bytes = |of: &[Aggregate]| Accumulators::new(of).map(|states| states.bytes_a_group());
    if !late_sets && bytes(aggregates)? < bytes(&early)? + LATE_BYTES {
        return Ok(Found::Nothing);
    }
    let block = on_first(1, survivors, |one| sample(fragment, keys, one, context))?;
    let found = block.groups.len();
    let are_many = found >= many && found as u64 * MOST_ROWS_A_GROUP >= block.rows;
    let are_worth_sets = late_sets && found >= first.limit.saturating_mul(MANY_MORE);
    if !are_many && !are_worth_sets {
        return Ok(Found::Nothing);
    }
    let largest: u64 = block.groups.iter().rev().take(first.limit).sum();
    if largest * LARGE_SHARE > block.groups.iter().sum() {
        return Ok(Found::Nothing);
    }
    let first = FirstGroups { order, limit: first.limit };
    let output = Output::Aggregate { keys: keys.to_vec(), aggregates: early.clone(), first: None };
    let fragment = Fragment { output, ..fragment.clone() };
    let mut output = groups(&fragment, Some(&first), keys, &early, survivors, context)?;
    let mut found: Vec<Vec<ArrayRef>> = Vec::new();
    let mut rows = 0;
    while let Some(batches) = output.next()? {
        for mut columns in batches {
            columns.truncate(keys.len());
            rows += columns.first().map_or(0, |column| column.len());
            found.push(columns);
        }
        // Where there was no memory to choose among all groups at once, more came out.
        if rows > MOST {
            return Ok(Found::Nothing);
        }
    }
    let (bytes, files) = output.spilled();
    context.recorder.update(|sum| {
        sum.spilled_bytes += bytes;
        sum.spill_files += files;
    });
    let column = |at: usize| {
        let parts: Vec<&dyn Array> =
            found.iter().filter_map(|columns| Some(&**columns.get(at)? as &dyn Array)).collect();
        concat(&parts).or_corrupt()
    };
    Ok(match found.is_empty() {
        true => Found::TooFew,
        false => Found::Keys((0..keys.len()).map(column).collect::<Result<_>>()?),
    })
}

/// Which aggregates wait.
struct Timing {
    /// Those that do not: what the order names, first, in its order.
    early: Vec<Aggregate>,
    /// The order by these.
    order: Vec<ByColumn>,
    /// Whether distinct values are counted among the others.
    late_sets: bool,
}

fn timing(keys: usize, aggregates: &[Aggregate], first: &FirstGroups) -> Timing {
    let (mut early, mut order) = (Vec::new(), Vec::new());
    for by in &first.order {
        let aggregate = by.column.checked_sub(keys).and_then(|at| aggregates.get(at));
        let column = aggregate.map_or(by.column, |aggregate| {
            early.push(aggregate.clone());
            keys + early.len() - 1
        });
        order.push(ByColumn { column, ..*by });
    }
    let is_named = |at: usize| first.order.iter().any(|by| by.column == keys + at);
    let others = aggregates.iter().enumerate().filter(|(at, _)| !is_named(*at));
    let (late, may_fail): (Vec<_>, Vec<_>) =
        others.map(|(_, aggregate)| aggregate).partition(|aggregate| cannot_fail(aggregate));
    // Whether the statement fails must not depend on which groups come out.
    early.extend(may_fail.into_iter().cloned());
    Timing { early, order, late_sets: late.iter().any(|aggregate| aggregate.distinct) }
}

/// Whether an aggregate takes any value of its columns.
fn cannot_fail(aggregate: &Aggregate) -> bool {
    aggregate.expressions().all(|of| of.as_column().is_some() || of.traits.widening)
}

/// What some blocks have.
struct Sample {
    /// The rows of each group, rising.
    groups: Vec<u64>,
    /// All rows, those that do not pass among them.
    rows: u64,
}

fn sample(
    fragment: &Fragment,
    keys: &[Expression],
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<Sample> {
    let rows = survivors.blocks.iter().map(|at| {
        let range = survivors.segments.get(at.segment).map(|of| of.segment.block_range(at.block));
        range.map_or(0, |range| range.end - range.start)
    });
    let count = [Aggregate::rows()];
    let mut output = groups(fragment, None, keys, &count, survivors, context)?;
    let mut groups = Vec::new();
    while let Some(batches) = output.next()? {
        for counts in batches.iter().filter_map(|columns| columns.get(keys.len())) {
            let counts = to_words(counts).ok_or_else(wrong_type_error)?;
            groups.extend(counts.iter().map(|count| *count as u64));
        }
    }
    groups.sort_unstable();
    Ok(Sample { groups, rows: rows.sum() })
}

/// What a sample of the rows says of the groups.
enum Found {
    /// The keys of some groups, a column for each key.
    Keys(Vec<ArrayRef>),
    /// The sample has fewer groups than are wanted.
    TooFew,
    /// It does not pay to look for them.
    Nothing,
}

/// Keys from the first block, or else from the whole sample.
fn some_keys(
    fragment: &Fragment,
    keys: &[Expression],
    limit: usize,
    survivors: &mut Survivors,
    context: &Context<'_>,
) -> Result<Found> {
    let mut found = on_first(1, survivors, |one| keys_of(fragment, keys, limit, one, context));
    if let Ok(Found::TooFew) = found
        && survivors.blocks.len() > 1
    {
        found = keys_of(fragment, keys, limit, survivors, context);
    }
    found
}

fn keys_of(
    fragment: &Fragment,
    keys: &[Expression],
    limit: usize,
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<Found> {
    let mut output = groups(fragment, fragment.first_groups(), keys, &[], survivors, context)?;
    if matches!(output, GroupOutput::Slots(_)) {
        return Ok(Found::Nothing);
    }
    while let Some(batches) = output.next()? {
        let enough = batches
            .into_iter()
            .find(|columns| columns.first().is_some_and(|column| column.len() >= limit));
        if let Some(columns) = enough {
            let keys = columns.iter().map(|column| column.slice(0, limit)).collect();
            return Ok(Found::Keys(keys));
        }
    }
    Ok(Found::TooFew)
}

/// Whether [`among`] has a test for keys of a type.
fn has_members(data_type: &ArrowType) -> bool {
    is_words(data_type) || *data_type == ArrowType::Utf8View
}

/// That a key is one of some values; `None` if its type has no such test.
fn among(key: &Expression, values: &ArrayRef, columns: &[Column]) -> Option<Condition> {
    let set = match values.data_type() {
        data_type if is_words(data_type) => {
            let words = to_words(values)?;
            let valid = (0..values.len()).filter(|row| values.is_valid(*row));
            Members::words(valid.filter_map(|row| words.get(row).copied()).collect())
        }
        ArrowType::Utf8View => {
            let texts = values.as_string_view().iter().flatten();
            Members::Texts(texts.map(Into::into).collect())
        }
        _ => return None,
    };
    let column = key.as_column().and_then(|at| columns.get(at));
    let with_null = values.null_count() > 0;
    let predicate = column.map_or(Predicate::Unknown, |column| {
        let operand = Operand::of(column);
        let is_among = Predicate::In { operand, values: set.scalars() };
        match with_null {
            true => Predicate::Or(vec![is_among, Predicate::IsNull(column.id)]),
            false => is_among,
        }
    });
    let expression = Expression {
        inputs: key.inputs.clone(),
        data_type: ArrowType::Boolean,
        text: format!("{} of some groups", key.text).into(),
        traits: Traits::default(),
        choice: None,
        function: Some(Arc::new(Among { key: key.clone(), set, with_null })),
    };
    Some(Condition::new(expression, predicate))
}

/// Whether a key is one of some values.
#[derive(Debug)]
struct Among {
    key: Expression,
    set: Members,
    /// Null is one of them.
    with_null: bool,
}

#[derive(Debug)]
enum Members {
    /// The words, and a bit for each of their hashes: most words are none of them.
    Words(HashSet<i64>, Box<[u64; HASHES / 64]>),
    Texts(HashSet<Box<str>>),
}

/// Hashes of words. Their bits stay in the first-level cache.
const HASHES: usize = 1 << 16;

/// The place of a word's bit.
#[inline(always)]
fn hash(word: i64) -> usize {
    // Fibonacci hashing: the high bits of a product with 2⁶⁴ by the golden ratio.
    ((word as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - HASHES.ilog2())) as usize
}

impl Members {
    fn words(words: HashSet<i64>) -> Members {
        let mut bits = Box::new([0; HASHES / 64]);
        for word in &words {
            let at = hash(*word);
            bits.get_mut(at / 64).into_iter().for_each(|bits: &mut u64| *bits |= 1 << (at % 64));
        }
        Members::Words(words, bits)
    }

    fn scalars(&self) -> Vec<Scalar> {
        match self {
            Members::Words(words, _) => {
                words.iter().map(|word| Scalar::Int((*word).into())).collect()
            }
            Members::Texts(texts) => {
                texts.iter().map(|text| Scalar::Bytes(text.as_bytes().into())).collect()
            }
        }
    }
}

impl Function for Among {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let keys = self.key.evaluate(inputs, rows)?;
        let passes = |row: usize, is_member: bool| match keys.is_valid(row) {
            true => is_member,
            false => self.with_null,
        };
        let passing: BooleanArray = match &self.set {
            Members::Words(set, bits) => {
                let words = to_words(&keys).ok_or_else(wrong_type_error)?;
                let may_be = |word: i64| bits[hash(word) / 64] >> (hash(word) % 64) & 1 != 0;
                let is_member = |word: i64| may_be(word) && set.contains(&word);
                let holds = |row: usize| is_member(words.get(row).copied().unwrap_or(0));
                // A closure of all rows becomes words of bits.
                BooleanBuffer::collect_bool(words.len(), |row| passes(row, holds(row))).into()
            }
            Members::Texts(set) => {
                let texts = keys.as_string_view_opt().ok_or_else(wrong_type_error)?;
                let members = texts.iter().enumerate();
                let is_member = |text: Option<&str>| text.is_some_and(|text| set.contains(text));
                members.map(|(row, text)| Some(passes(row, is_member(text)))).collect()
            }
        };
        Ok(Arc::new(passing))
    }
}

fn wrong_type_error() -> Error {
    Error::InvalidInput("a key whose values are not of the type of those that were chosen".into())
}
