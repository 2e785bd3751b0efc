//! Answers from the manifest alone: counts, extremes and sums of whole tables read no data, and
//! counts of distinct values nothing but dictionaries.
//!
//! Only statistics that a look at every row would find again are used: exact bounds, exact sums of
//! whole numbers, and no extremes of floats where zeros have signs or NaN has many forms. Bounds of
//! text are prefixes in the manifest; where a table has few segments, their records say the rest.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{
    ArrayRef, BinaryViewArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
};
use arrow_array::{StringViewArray, new_null_array};
use arrow_schema::DataType as ArrowType;

use super::aggregate::{Accumulators, Totals};
use super::group::Interner;
use super::open::ColumnTotals;
use super::prune::widened;
use super::stats::{Counters, Step};
use super::words::from_words;
use super::{Aggregate, AggregateFunction, Fragment};
use crate::block::{Bound, Stats};
use crate::error::{ArrowResult, Result};
use crate::model::{Column, DataType, Physical, Scalar};
use crate::segment;
use crate::store::{ColumnStats, SegmentEntry, Snapshot};

/// The most segments that are opened for the exact bounds of text.
const MAX_OPENED: usize = 16;
/// The most texts of dictionaries that are compared here, by one thread.
const MAX_TEXTS: u64 = 1 << 15;

/// The aggregates of all rows of a table, if the manifest knows every one of them.
pub(crate) fn answer(
    fragment: &Fragment,
    aggregates: &[Aggregate],
    snapshot: &Snapshot,
) -> Result<Option<Vec<ArrayRef>>> {
    let (mut answers, mut known) = (Vec::with_capacity(aggregates.len()), HashMap::new());
    for aggregate in aggregates {
        match one(fragment, aggregate, snapshot, &mut known)? {
            Some(answer) if *answer.data_type() == aggregate.data_type => answers.push(answer),
            _ => return Ok(None),
        }
    }
    Ok(Some(answers))
}

/// What an answer from the manifest alone, found in such a time, has looked at; blocks are counted
/// only where it is `timed`.
pub(crate) fn counters(snapshot: &Snapshot, timed: bool, time: Duration) -> Result<Counters> {
    let block_rows = u64::from(snapshot.options().block_rows.max(1));
    let mut blocks = 0;
    if timed {
        blocks = snapshot.segments()?.iter().map(|entry| entry.rows.div_ceil(block_rows)).sum();
    }
    Ok(Counters {
        from_metadata: true,
        segments: snapshot.chunks().iter().map(|chunk| u64::from(chunk.segments)).sum(),
        blocks,
        prune: time,
        scan: Step { rows_in: snapshot.rows(), ..Step::default() },
        output: Step { rows_out: 1, ..Step::default() },
        ..Counters::default()
    })
}

fn one(
    fragment: &Fragment,
    aggregate: &Aggregate,
    snapshot: &Snapshot,
    known: &mut HashMap<usize, Stats>,
) -> Result<Option<ArrayRef>> {
    if aggregate.filter.is_some() {
        return Ok(None);
    }
    let Some(input) = &aggregate.input else {
        return Ok(Some(Arc::new(Int64Array::from(vec![snapshot.rows() as i64]))));
    };
    let Some(at) = Totals::column(input) else { return Ok(None) };
    let Some(column) = fragment.columns.get(at) else { return Ok(None) };
    let stats = match known.entry(at) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => unknown.insert(whole(snapshot, column)?),
    };
    if let Some(answer) = from_totals(aggregate, stats, column, snapshot)? {
        return Ok(Some(answer));
    }
    if input.as_column().is_none() {
        return Ok(None);
    }
    if aggregate.distinct {
        return distinct(stats, column, snapshot)?
            .map(|n| as_type(n, &aggregate.data_type))
            .transpose();
    }
    Ok(match aggregate.function {
        _ if stats.nulls == snapshot.rows() => Some(new_null_array(&aggregate.data_type, 1)),
        AggregateFunction::Min => extreme(stats, &stats.min, column),
        AggregateFunction::Max => extreme(stats, &stats.max, column),
        AggregateFunction::Count
        | AggregateFunction::Sum
        | AggregateFunction::Average
        | AggregateFunction::Variance { .. }
        | AggregateFunction::Deviation { .. }
        | AggregateFunction::Picked { .. } => None,
    })
}

fn as_type(count: u64, data_type: &ArrowType) -> Result<ArrayRef> {
    from_words(vec![count as i64], None, data_type)
}

/// How many different values there are: all, if they rise or fall from row to row, or those of the
/// dictionaries, if all segments that have values have one: a dictionary holds just the values that
/// occur.
fn distinct(stats: &Stats, column: &Column, snapshot: &Snapshot) -> Result<Option<u64>> {
    // Of two zeros one is greater, and yet they are one.
    let float = matches!(column.data_type, DataType::Float32 | DataType::Float64);
    // Neighbours differ also where values come back.
    let rises = stats.order.strict && (stats.order.ascending || stats.order.descending);
    if stats.nulls == stats.rows || (rises && stats.nulls == 0 && !float) {
        return Ok(Some(stats.rows - stats.nulls));
    }
    let (entries, known) = (snapshot.segments()?, snapshot.column_stats(column.id)?);
    let has_values =
        |known: &Option<ColumnStats>| known.as_ref().is_some_and(|k| k.stats.nulls < k.stats.rows);
    let with_values = entries.iter().zip(&known).filter(|(_, known)| has_values(known));
    let with_values: Vec<&SegmentEntry> = with_values.map(|(entry, _)| entry).collect();
    let (mut coded, mut hashes) = (Vec::new(), HashSet::new());
    for segment in snapshot.open_segments(&with_values) {
        match segment?.column(column.id)? {
            Some(stored) => match stored.record().dictionary {
                Some(dictionary) if hashes.insert(dictionary.hash) => coded.push(stored),
                Some(_) => {}
                None => return Ok(None),
            },
            None => return Ok(None),
        }
    }
    let values = |stored: &segment::Column| stored.record().dictionary.map_or(0, |it| it.values);
    let all: u64 = coded.iter().map(|stored| u64::from(values(stored))).sum();
    let is_text = column.data_type.physical() == Physical::Bytes;
    if is_text && coded.len() > 1 && all > MAX_TEXTS {
        return Ok(None);
    }
    coded.iter().for_each(|stored| stored.prefetch_dictionary());
    let arrow = column.data_type.to_arrow();
    let mut union = Interner::new(&arrow)?;
    // What every dictionary begins with.
    union.intern(&new_null_array(&arrow, 1))?;
    for stored in coded {
        let Some(values) = stored.dictionary()? else { continue };
        let values = arrow_cast::cast(&values, &arrow).or_corrupt()?;
        union.intern(&values)?;
    }
    Ok(Some(union.len() as u64 - 1))
}

/// Computes an aggregate from the totals of a column; `None` if they do not suffice.
fn from_totals(
    aggregate: &Aggregate,
    stats: &Stats,
    column: &Column,
    snapshot: &Snapshot,
) -> Result<Option<ArrayRef>> {
    let is_number =
        column.data_type.is_integer() || matches!(column.data_type, DataType::Decimal { .. });
    let totals = |_| Some(ColumnTotals { stats: Cow::Borrowed(stats), is_number });
    let mut states = Accumulators::fixed(std::slice::from_ref(aggregate), 1)?;
    match states.add_totals(0, snapshot.rows(), totals) {
        true => states.finish_one(0, &[0]).map(Some),
        false => Ok(None),
    }
}

fn extreme(stats: &Stats, bound: &Option<Bound>, column: &Column) -> Option<ArrayRef> {
    let value = &bound.as_ref().filter(|bound| bound.exact && is_plain(stats, &bound.value))?.value;
    let arrow = column.data_type.to_arrow();
    Some(match (value, &column.data_type) {
        (Scalar::Float(v), DataType::Float64) => Arc::new(Float64Array::from(vec![*v])),
        (Scalar::Float(v), DataType::Float32) => Arc::new(Float32Array::from(vec![*v as f32])),
        (Scalar::Int(v), DataType::Decimal { .. }) => {
            Arc::new(Decimal128Array::from(vec![*v]).with_data_type(arrow))
        }
        // SQL compares them by their length.
        (Scalar::Int(_), DataType::Interval) => return None,
        (Scalar::Int(v), _) => from_words(vec![*v as i64], None, &arrow).ok()?,
        (Scalar::Bytes(v), of) if of.is_text() => {
            Arc::new(StringViewArray::from(vec![std::str::from_utf8(v).ok()?]))
        }
        (Scalar::Bytes(v), DataType::Binary) => Arc::new(BinaryViewArray::from(vec![&**v])),
        _ => return None,
    })
}

/// Whether every way to compare finds this extreme: zeros have signs and NaN has many forms.
pub(crate) fn is_plain(stats: &Stats, value: &Scalar) -> bool {
    !matches!(value, Scalar::Float(v) if stats.nans > 0 || *v == 0.0 || v.is_nan())
}

/// Statistics of a column over all segments, in the table's type.
pub(crate) fn whole(snapshot: &Snapshot, column: &Column) -> Result<Stats> {
    let entries = snapshot.segments()?;
    let mut sum = Stats::default();
    for (entry, known) in entries.iter().zip(snapshot.column_stats(column.id)?) {
        let Some(known) = known else {
            let nulls = Stats { rows: entry.rows, nulls: entry.rows, ..Stats::default() };
            sum = sum.followed_by(&nulls);
            continue;
        };
        let mut stats = known.stats;
        if is_cut(&stats)
            && entries.len() <= MAX_OPENED
            && snapshot.is_here()
            && let Some(stored) = snapshot.open_segment(entry)?.column(column.id)?
        {
            stats = stored.stats().clone();
        }
        let widen = |bound: Option<Bound>| {
            bound.and_then(|b| {
                Some(Bound {
                    value: widened(&b.value, &known.data_type, &column.data_type)?,
                    exact: b.exact,
                })
            })
        };
        if known.data_type != column.data_type && !column.data_type.is_integer() {
            // It may count other units.
            stats.sum = None;
        }
        stats.min = widen(stats.min.take());
        stats.max = widen(stats.max.take());
        sum = sum.followed_by(&stats);
    }
    Ok(sum)
}

/// Whether a bound of text is only a prefix.
fn is_cut(stats: &Stats) -> bool {
    let cut = |bound: &Option<Bound>| {
        bound.as_ref().is_none_or(|b| !b.exact && matches!(b.value, Scalar::Bytes(_)))
    };
    stats.nulls < stats.rows
        && [&stats.min, &stats.max]
            .into_iter()
            .flatten()
            .any(|b| matches!(b.value, Scalar::Bytes(_)))
        && (cut(&stats.min) || cut(&stats.max))
}
