//! Sends a fragment to what answers it: `metadata`, `group` or `order`.

use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use super::aggregate::Accumulators;
use super::context::Context;
use super::group::{self, GroupOutput};
use super::open::opener::Opener;
use super::stats::{Clock, Counters, Recorder};
use super::{Condition, Fragment, Output};
use super::{metadata, order, some_groups};
use crate::error::{ArrowResult, Result};
use crate::model::Column;
use crate::store::Snapshot;

/// What is left of an answer.
enum Rest<'a> {
    Groups(Box<GroupOutput<'a>>),
    Rows(Box<order::RowsOutput<'a>>),
}

impl Rest<'_> {
    fn next(&mut self) -> Result<Option<Vec<Vec<ArrayRef>>>> {
        match self {
            Rest::Groups(groups) => groups.next(),
            Rest::Rows(rows) => Ok(rows.next()?.map(|part| vec![part])),
        }
    }

    /// Bytes and files that are spilled while it is made.
    fn spilled(&self) -> (u64, u64) {
        match self {
            Rest::Groups(groups) => groups.spilled(),
            Rest::Rows(_) => (0, 0),
        }
    }
}

/// The answer of a fragment, part by part.
#[derive(Default)]
pub struct Answer<'a> {
    /// In the fragment's schema. [`Answer::more`] puts the next ones here.
    pub batches: Vec<RecordBatch>,
    rest: Option<(SchemaRef, Rest<'a>, &'a Context<'a>)>,
    /// Bytes and files that were spilled, as far as they are counted.
    spilled: (u64, u64),
}

impl std::fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("batches", &self.batches.len()).finish_non_exhaustive()
    }
}

impl<'a> Answer<'a> {
    fn from(schema: &SchemaRef, rest: Rest<'a>, context: &'a Context<'a>) -> Result<Self> {
        let mut answer =
            Answer { rest: Some((schema.clone(), rest, context)), ..Answer::default() };
        answer.more()?;
        Ok(answer)
    }

    /// Puts the next batches in the place of those that were there; false if there are none.
    pub fn more(&mut self) -> Result<bool> {
        self.batches.clear();
        let Some((schema, rest, context)) = &mut self.rest else { return Ok(false) };
        let mut clock = Clock::start(context.timed);
        let next = rest.next()?;
        let (bytes, files) = rest.spilled();
        let before = std::mem::replace(&mut self.spilled, (bytes, files));
        let more = next.is_some();
        if let Some(parts) = next {
            self.batches =
                parts.into_iter().map(|columns| batch(schema, columns)).collect::<Result<_>>()?;
        }
        context.recorder.update(|sum| {
            sum.spilled_bytes += bytes - before.0;
            sum.spill_files += files - before.1;
            sum.output.rows_out += rows_of(&self.batches);
            sum.finish += clock.lap();
        });
        if !more {
            self.rest = None;
        }
        Ok(more)
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .or_invalid_with("the answer does not fit its schema")
}

/// Why a fragment cannot run here; `None` if it can.
pub fn refusal(fragment: &Fragment) -> Option<String> {
    let aggregates = match &fragment.output {
        Output::Aggregate { aggregates, .. } => aggregates,
        // In an order, rows that are skipped are held, too.
        Output::Top { order, limit, skip, .. }
            if limit.saturating_sub(if order.is_empty() { *skip } else { 0 })
                > order::MAX_LIMIT =>
        {
            return Some(format!("a limit of more than {} rows", order::MAX_LIMIT));
        }
        Output::Top { .. } => return None,
    };
    Accumulators::new(aggregates).err().map(|error| error.to_string())
}

/// Runs a fragment over one generation of its table. Groups come out of the answer part by part.
pub fn run<'a>(
    fragment: &'a Fragment,
    snapshot: &Snapshot,
    context: &'a Context<'a>,
) -> Result<Answer<'a>> {
    match from_metadata(fragment, snapshot, context.recorder, context.timed)? {
        Some(batch) => Ok(Answer { batches: vec![batch], ..Answer::default() }),
        None => of_rows(fragment, snapshot, context),
    }
}

/// The answer of a fragment, if the manifest knows it.
pub fn from_metadata(
    fragment: &Fragment,
    snapshot: &Snapshot,
    recorder: &Recorder,
    timed: bool,
) -> Result<Option<RecordBatch>> {
    let mut clock = Clock::start(timed);
    let Output::Aggregate { keys, aggregates, .. } = &fragment.output else { return Ok(None) };
    if !keys.is_empty() || !fragment.conditions.is_empty() || fragment.states {
        return Ok(None);
    }
    let Some(columns) = metadata::answer(fragment, aggregates, snapshot)? else { return Ok(None) };
    let counted = metadata::counters(snapshot, timed, clock.lap())?;
    recorder.update(|sum| sum.add(&counted));
    batch(&fragment.schema, columns).map(Some)
}

/// Opens the segments of a run.
fn opener_of<'a>(
    columns: &'a [Column],
    conditions: &'a [Condition],
    snapshot: &'a Snapshot,
    context: &Context<'_>,
) -> Result<Opener<'a>> {
    let opener = Opener::new(columns, conditions, snapshot, context.timed)?;
    if context.known_rows { opener.with_known_rows() } else { Ok(opener) }
}

/// The answer of a fragment by a look at rows.
pub fn of_rows<'a>(
    fragment: &'a Fragment,
    snapshot: &Snapshot,
    context: &'a Context<'a>,
) -> Result<Answer<'a>> {
    let mut clock = Clock::start(context.timed);
    let opener = opener_of(&fragment.columns, &fragment.conditions, snapshot, context)?;
    match &fragment.output {
        Output::Aggregate { keys, aggregates, .. } => {
            let earlier = context.recorder.mark();
            let mut counters = Counters::new(fragment.conditions.len());
            let mut survivors = opener.survivors(&mut counters)?;
            counters.prune = clock.lap();
            context.recorder.update(|sum| sum.add(&counters));
            let before = context.recorder.counters().work;
            let some =
                some_groups::conditions(fragment, keys, aggregates, &mut survivors, context)?;
            let mut narrowed = None;
            if !some.is_empty() {
                let with_some = narrowed.insert(fragment.clone());
                with_some.conditions.extend(some);
                // Rows of some groups are worth nothing to other statements.
                let Fragment { columns, conditions, .. } = with_some;
                let opener = Opener::new(columns, conditions, snapshot, context.timed)?;
                let mut narrower = Counters::new(conditions.len());
                survivors = opener.survivors(&mut narrower)?;
                narrower.prune = counters.prune;
                context.recorder.forget_rows(earlier);
                context.recorder.update(|sum| {
                    sum.segments_read = 0;
                    sum.add(&narrower);
                });
            }
            let rows = narrowed.as_ref().unwrap_or(fragment);
            let first = fragment.first_groups();
            let rest = group::groups(rows, first, keys, aggregates, &survivors, context)?;
            count_finish(context, clock.lap(), before);
            Answer::from(&fragment.schema, Rest::Groups(Box::new(rest)), context)
        }
        Output::Top { .. } => {
            let before = context.recorder.counters();
            let rest = Rest::Rows(Box::new(order::top(fragment, &opener, context)?));
            let pruning = context.recorder.counters().prune.saturating_sub(before.prune);
            count_finish(context, clock.lap().saturating_sub(pruning), before.work);
            Answer::from(&fragment.schema, rest, context)
        }
    }
}

/// What a run took since its pruning, less the work on blocks; `before` is the work of earlier
/// runs.
fn count_finish(context: &Context<'_>, time: Duration, before: Duration) {
    context
        .recorder
        .update(|sum| sum.finish += time.saturating_sub(sum.work.saturating_sub(before)));
}

fn rows_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}
