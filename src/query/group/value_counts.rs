//! Sums of an expression over one column of few values: it is computed once for each value, and not
//! for each row. How often each value occurs is all that is asked of the rows, and is counted once
//! for all expressions over the column.
//!
//! Five sums over fares are one count of 600 numbers.

use std::sync::Arc;

use super::coding::CodedKey;
use super::mixed_radix::MixedRadix;
use super::slots::Slots;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::aggregate::Accumulators;
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::Survivors;
use crate::query::slice::Slice;
use crate::query::walk::Worker;
use crate::query::{Aggregate, AggregateFunction, Fragment};

/// Columns of more different values are not counted so: they should stay within the caches.
const MAX_VALUES: u64 = 1 << 16;
/// Nor are those whose values hardly repeat.
const ROWS_A_VALUE: u64 = 4;

/// How often each value of a column occurs.
pub(crate) struct ValueCounts {
    /// The aggregates that take it.
    pub(crate) takers: Vec<usize>,
    digits: Arc<MixedRadix>,
}

/// The counts that aggregates of one group are better computed from.
pub(crate) fn value_counts(
    fragment: &Fragment,
    aggregates: &[Aggregate],
    survivors: &Survivors,
) -> Result<Vec<ValueCounts>> {
    let mut columns: Vec<(usize, Vec<usize>)> = Vec::new();
    for (taker, aggregate) in aggregates.iter().enumerate() {
        let Some(column) = of_column(aggregate) else { continue };
        match columns.iter_mut().find(|(known, _)| *known == column) {
            Some((_, takers)) => takers.push(taker),
            None => columns.push((column, vec![taker])),
        }
    }
    let rows: u64 = survivors.rows();
    let most = MAX_VALUES.min(rows / ROWS_A_VALUE);
    let mut value_counts = Vec::new();
    for (at, takers) in columns {
        let Some(column) = fragment.columns.get(at) else { continue };
        let stored =
            survivors.segments.iter().filter_map(|segment| segment.columns.get(at)?.as_deref());
        if stored
            .filter_map(|column| column.record().dictionary)
            .any(|known| u64::from(known.values) > most)
        {
            continue;
        }
        let key = [Expression::column(at, column)];
        let coding =
            CodedKey::new(&key[0], &fragment.columns, survivors, fragment.conditions.is_empty())?;
        if coding.as_ref().is_some_and(|coding| coding.domain() <= most && coding.is_exact())
            && let Ok(digits) = MixedRadix::new(&key, vec![coding])
        {
            value_counts.push(ValueCounts { takers, digits: Arc::new(digits) });
        }
    }
    Ok(value_counts)
}

/// The column of whose values an aggregate adds up a function.
fn of_column(aggregate: &Aggregate) -> Option<usize> {
    let adds = matches!(
        aggregate.function,
        AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Average
    );
    // Columns themselves are added as they are stored.
    let input = aggregate.input.as_ref().filter(|input| input.function.is_some())?;
    if adds && !aggregate.distinct && aggregate.filter.is_none() {
        input.only_input()
    } else {
        None
    }
}

/// One thread's groups, and how often values occur where these are one.
pub(crate) struct WithCounts<'a> {
    slots: Slots<'a>,
    value_counts: Vec<Slots<'a>>,
}

impl<'a> WithCounts<'a> {
    pub(crate) fn new(
        mut slots: Slots<'a>,
        value_counts: &[ValueCounts],
        context: &'a Context<'a>,
    ) -> Result<Self> {
        value_counts.iter().for_each(|column| slots.leave(&column.takers));
        let counts = |column: &ValueCounts| {
            Slots::new(Arc::clone(&column.digits), &[], Reservation::new(context))
        };
        Ok(WithCounts {
            slots,
            value_counts: value_counts.iter().map(counts).collect::<Result<_>>()?,
        })
    }

    /// The groups of this thread and of others, and what is reserved for them.
    pub(crate) fn merged(
        self,
        others: impl Iterator<Item = WithCounts<'a>>,
        value_counts: &[ValueCounts],
        aggregates: &[Aggregate],
    ) -> Result<(Accumulators<'a>, Reservation<'a>)> {
        let mut of_others: Vec<Vec<Slots<'a>>> = value_counts.iter().map(|_| Vec::new()).collect();
        let mut slots = Vec::new();
        for other in others {
            slots.push(other.slots);
            of_others.iter_mut().zip(other.value_counts).for_each(|(all, column)| all.push(column));
        }
        let (mut states, reservation) = self.slots.merged(slots.into_iter())?;
        for ((column, first), others) in value_counts.iter().zip(self.value_counts).zip(of_others) {
            let (counted, _held) = first.merged(others.into_iter())?;
            column.finish(&counted, aggregates, &mut states)?;
        }
        Ok((states, reservation))
    }
}

impl Worker for WithCounts<'_> {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        self.slots.take(slice)?;
        self.value_counts.iter_mut().try_for_each(|column| column.take(slice))
    }

    fn account(&mut self) -> Result<()> {
        self.slots.account()?;
        self.value_counts.iter_mut().try_for_each(Worker::account)
    }
}

impl ValueCounts {
    /// Adds to the only group what all threads have counted.
    fn finish(
        &self,
        counted: &Accumulators<'_>,
        aggregates: &[Aggregate],
        states: &mut Accumulators<'_>,
    ) -> Result<()> {
        let (codes, rows): (Vec<u64>, Vec<u64>) = (0..)
            .zip(&counted.rows)
            .filter(|(_, rows)| **rows > 0)
            .map(|(code, rows)| (code, *rows))
            .unzip();
        let values = self.digits.keys(&codes)?;
        for taker in &self.takers {
            if let Some(input) =
                aggregates.get(*taker).and_then(|aggregate| aggregate.input.as_ref())
            {
                // Of values that occur: what fails for one of them fails for a row.
                states.add_counted(*taker, input.evaluate(&values, codes.len())?, &rows)?;
            }
        }
        Ok(())
    }
}
