//! The manifest's statistics as DataFusion's: from exact ones, `count`, `min` and `max` are
//! answered without reading data.
//!
//! A value is called exact only if DataFusion's own operators would compute the same one. Text
//! bounds in the manifest are prefixes; if a table has few segments, their column records have the
//! whole bounds.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};

use super::scalar::from_scalar;
use crate::block::{Bound, Stats};
use crate::error::Result;
use crate::model::{Column, DataType, Physical};
use crate::query::metadata::{is_plain, whole};
use crate::store::Snapshot;

/// With more columns times segments than this, statistics are not read: planning must stay quick.
const MAX_ENTRIES: usize = 1 << 17;

/// The statistics of these columns of a table.
pub(crate) fn to_statistics(snapshot: &Snapshot, columns: &[Column]) -> Result<Statistics> {
    let rows = usize::try_from(snapshot.rows()).unwrap_or(usize::MAX);
    let segments = snapshot.segments()?.len();
    let row_width: usize = columns.iter().map(|column| estimated_width(&column.data_type)).sum();
    let mut statistics = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Inexact(rows.saturating_mul(row_width)),
        column_statistics: vec![ColumnStatistics::new_unknown(); columns.len()],
    };
    if segments.saturating_mul(columns.len()) > MAX_ENTRIES {
        return Ok(statistics);
    }
    for (column, found) in columns.iter().zip(&mut statistics.column_statistics) {
        *found = column_statistics(&whole(snapshot, column)?, &column.data_type);
        let distinct = snapshot.distinct_values(column.id)?.and_then(|n| usize::try_from(n).ok());
        found.distinct_count = distinct.map_or(Precision::Absent, Precision::Inexact);
    }
    Ok(statistics)
}

fn estimated_width(data_type: &DataType) -> usize {
    match data_type.physical() {
        Physical::Null | Physical::Bool => 1,
        Physical::Word { .. } | Physical::Float32 | Physical::Float64 => 8,
        Physical::Wide | Physical::Bytes => 16,
    }
}

fn column_statistics(stats: &Stats, data_type: &DataType) -> ColumnStatistics {
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
        // Absent on purpose: joins pass the sums of their sides on as if each row matched once, and
        // DataFusion would answer a sum over the join from them. A sum over a table alone becomes a
        // fragment, which answers it from the manifest.
        sum_value: Precision::Absent,
        distinct_count: Precision::Absent,
        byte_size: Precision::Absent,
    }
}
