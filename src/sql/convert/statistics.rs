//! What the manifest knows, as DataFusion's statistics: with exact ones `count`, `min`, `max` and `sum` read no data.
//!
//! "Exact" is said only where DataFusion's own operators would find the same value. Bounds of text are prefixes in the
//! manifest; where a table has few segments, their records say the rest.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::scalar::ScalarValue;

use super::super::table::StoreTable;
use super::scalar::from_scalar;
use crate::block::{Bound, Stats};
use crate::error::Result;
use crate::model::{Column, DataType, Physical, Scalar};
use crate::query::prune::widened;

/// Statistics of columns times segments beyond this are not looked at: planning must stay quick.
const MAX_ENTRIES: usize = 1 << 17;
/// Up to so many segments are opened for the exact bounds of text.
const MAX_OPENED: usize = 16;

/// Statistics of these columns of a table.
pub(crate) fn to_statistics(table: &StoreTable, columns: &[Column]) -> Result<Statistics> {
    let snapshot = table.snapshot();
    let rows = usize::try_from(snapshot.rows()).unwrap_or(usize::MAX);
    let segments = snapshot.segments()?.len();
    let width: usize = columns.iter().map(|column| width(&column.data_type)).sum();
    let mut known = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Inexact(rows.saturating_mul(width)),
        column_statistics: vec![ColumnStatistics::new_unknown(); columns.len()],
    };
    if segments.saturating_mul(columns.len()) > MAX_ENTRIES {
        return Ok(known);
    }
    for (column, found) in columns.iter().zip(&mut known.column_statistics) {
        *found = of_column(&whole(table, column)?, &column.data_type);
    }
    Ok(known)
}

fn width(data_type: &DataType) -> usize {
    match data_type.physical() {
        Physical::Null | Physical::Bool => 1,
        Physical::Word { .. } | Physical::Float32 | Physical::Float64 => 8,
        Physical::Wide | Physical::Bytes => 16,
    }
}

/// Statistics of a column over all segments, in the table's type.
fn whole(table: &StoreTable, column: &Column) -> Result<Stats> {
    let snapshot = table.snapshot();
    let entries = snapshot.segments()?;
    let mut sum = Stats::default();
    for (entry, known) in entries.iter().zip(snapshot.column_stats(column.id)?) {
        let Some(known) = known else {
            let nulls = Stats { rows: entry.rows, nulls: entry.rows, ..Stats::default() };
            sum = sum.then(&nulls);
            continue;
        };
        let mut stats = known.stats;
        if is_cut(&stats)
            && entries.len() <= MAX_OPENED
            && let Some(stored) = snapshot.open_segment(entry)?.column(column.id)?
        {
            stats = stored.stats().clone();
        }
        let widen = |bound: Option<Bound>| {
            bound.and_then(|b| {
                Some(Bound { value: widened(&b.value, &known.data_type, &column.data_type)?, exact: b.exact })
            })
        };
        stats.min = widen(stats.min.take());
        stats.max = widen(stats.max.take());
        sum = sum.then(&stats);
    }
    Ok(sum)
}

/// Whether a bound of text is only a prefix.
fn is_cut(stats: &Stats) -> bool {
    let cut =
        |bound: &Option<Bound>| bound.as_ref().is_none_or(|b| !b.exact && matches!(b.value, Scalar::Bytes(_)));
    stats.nulls < stats.rows
        && [&stats.min, &stats.max].into_iter().flatten().any(|b| matches!(b.value, Scalar::Bytes(_)))
        && (cut(&stats.min) || cut(&stats.max))
}

fn of_column(stats: &Stats, data_type: &DataType) -> ColumnStatistics {
    let bound = |bound: &Option<Bound>| match bound {
        Some(bound) => match from_scalar(&bound.value, data_type) {
            Some(value) if bound.exact && is_plain(stats, &bound.value) => Precision::Exact(value),
            Some(value) => Precision::Inexact(value),
            None => Precision::Absent,
        },
        None => Precision::Absent,
    };
    ColumnStatistics {
        null_count: Precision::Exact(usize::try_from(stats.nulls).unwrap_or(usize::MAX)),
        min_value: bound(&stats.min),
        max_value: bound(&stats.max),
        sum_value: sum(stats, data_type).map_or(Precision::Absent, Precision::Exact),
        distinct_count: Precision::Absent,
        byte_size: Precision::Absent,
    }
}

/// Whether every way to compare finds this extreme: zeros have signs and NaN has many forms.
fn is_plain(stats: &Stats, value: &Scalar) -> bool {
    !matches!(value, Scalar::Float(v) if stats.nans > 0 || *v == 0.0 || v.is_nan())
}

/// An integer sum in the type of SQL's `sum`, if it neither wraps nor is null.
fn sum(stats: &Stats, data_type: &DataType) -> Option<ScalarValue> {
    let sum = stats.sum.filter(|_| stats.nulls < stats.rows)?;
    match data_type.physical() {
        Physical::Word { signed: true, .. } if data_type.is_integer() => {
            Some(ScalarValue::Int64(Some(i64::try_from(sum).ok()?)))
        }
        Physical::Word { signed: false, .. } if data_type.is_integer() => {
            Some(ScalarValue::UInt64(Some(u64::try_from(sum).ok()?)))
        }
        _ => None,
    }
}
