//! What the manifest knows, as DataFusion's statistics: with exact ones `count`, `min`, `max` and
//! `sum` read no data.
//!
//! "Exact" is said only where DataFusion's own operators would find the same value. Bounds of text
//! are prefixes in the manifest; where a table has few segments, their records say the rest.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};

use super::scalar::from_scalar;
use crate::block::{Bound, Stats};
use crate::error::Result;
use crate::model::{Column, DataType, Physical};
use crate::query::metadata::{is_plain, whole};
use crate::store::Snapshot;

/// Statistics of columns times segments beyond this are not looked at: planning must stay quick.
const MAX_ENTRIES: usize = 1 << 17;

/// Statistics of these columns of a table.
pub(crate) fn to_statistics(snapshot: &Snapshot, columns: &[Column]) -> Result<Statistics> {
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
        *found = of_column(&whole(snapshot, column)?, &column.data_type);
        let distinct = snapshot.distinct_values(column.id)?.and_then(|n| usize::try_from(n).ok());
        found.distinct_count = distinct.map_or(Precision::Absent, Precision::Inexact);
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
        // Joins hand the sums of their sides on as if each row were met once, and a sum over a join
        // is then answered by them. Sums over a table alone are answered by the manifest all the
        // same, in a fragment.
        sum_value: Precision::Absent,
        distinct_count: Precision::Absent,
        byte_size: Precision::Absent,
    }
}
