//! Blocks that the zone maps of a segment do not rule out.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Cause, Evidence, Verdict, columns_of, outside_sample, ruled_out, verdict};
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::{Column, ColumnId};
use crate::query::stats::{Counters, Pruned, Statistic};
use crate::segment::{self, Segment};

/// Numbers of the blocks that the segment's zone maps do not rule out; `number` is its place in the
/// table. How many bytes of `columns` need not be read is counted where the columns will be opened
/// anyway, and with `sized` also where no block is left.
pub(crate) fn matching_blocks(
    predicate: &Predicate,
    segment: &Segment,
    number: usize,
    columns: &[Column],
    sized: bool,
    counters: &mut Counters,
) -> Result<Vec<usize>> {
    let mut known: HashMap<ColumnId, Option<Arc<segment::Column>>> = HashMap::new();
    for column in columns_of(predicate) {
        known.insert(column, segment.column(column)?);
    }
    let of = |id: ColumnId| known.get(&id).map(Option::as_deref);
    let judge = |b: usize| match outside_sample(predicate, number, segment.block_range(b)) {
        Some(part) => Some((part, Statistic::Sample)),
        None => ruled_out(predicate, rows_of(segment, b), &mut evidence(segment, b, of)).map(
            |(part, cause)| match cause {
                Cause::Bounds => (part, Statistic::ZoneBounds),
                Cause::Nulls => (part, Statistic::ZoneNulls),
            },
        ),
    };
    let judged: Vec<_> = (0..segment.blocks()).map(judge).collect();
    let kept: Vec<usize> =
        judged.iter().enumerate().filter(|(_, out)| out.is_none()).map(|(b, _)| b).collect();
    if kept.len() == judged.len() {
        return Ok(kept);
    }
    let sizes = match sized || !kept.is_empty() {
        true => {
            columns.iter().map(|column| segment.column(column.id)).collect::<Result<Vec<_>>>()?
        }
        false => Vec::new(),
    };
    for (b, out) in judged.into_iter().enumerate() {
        let Some((part, statistic)) = out else { continue };
        let bytes = sizes.iter().flatten().map(|column| column.block_bytes(b)).sum();
        counters.prune(
            statistic,
            Some(part),
            Pruned { segments: 0, blocks: 1, rows: rows_of(segment, b), bytes },
        );
    }
    Ok(kept)
}

fn rows_of(segment: &Segment, b: usize) -> u64 {
    let range = segment.block_range(b);
    range.end - range.start
}

/// What the zone maps of block `b` say of a predicate; `column` gives the segment's columns, `None`
/// inside where it lacks one.
pub(crate) fn judge<'a>(
    predicate: &Predicate,
    segment: &Segment,
    b: usize,
    column: impl Fn(ColumnId) -> Option<Option<&'a segment::Column>>,
) -> Verdict {
    verdict(predicate, rows_of(segment, b), &mut evidence(segment, b, column))
}

/// The zone maps of block `b`.
fn evidence<'a>(
    segment: &Segment,
    b: usize,
    column: impl Fn(ColumnId) -> Option<Option<&'a segment::Column>>,
) -> impl FnMut(ColumnId) -> Option<Evidence<'a>> {
    let rows = rows_of(segment, b);
    move |id| match column(id)? {
        Some(column) => Some(Evidence {
            data_type: Cow::Borrowed(column.data_type()),
            stats: Cow::Borrowed(column.block_stats(b)?),
        }),
        None => Some(Evidence::absent(rows)),
    }
}
