//! Checks, by statistics and before a commit, that a wider column type preserves the stored values.

use std::collections::HashMap;

use super::text::number::MAX_EXACT_IN_F64;
use crate::block::{Bound, Stats};
use crate::error::{Error, Result};
use crate::model::{Arrangement, Column, ColumnId, DataType, PartitionKey, Scalar, Schema};
use crate::store::{ColumnStats, NewSegment};

/// `known` gives what the manifest says of a column, for each segment.
///
/// Where the table's type is wider than that of a segment, old or new, reading must return what was
/// stored: integers beyond 2⁵³ are not exact as f64, and a distant date does not fit a timestamp in
/// nanoseconds.
pub(crate) fn check_widening<'a>(
    arrangement: &Arrangement,
    known: impl Fn(ColumnId) -> Result<Vec<Option<ColumnStats>>>,
    before: &Schema,
    after: &Schema,
    new: impl Iterator<Item = &'a NewSegment>,
) -> Result<()> {
    let columns: HashMap<ColumnId, &Column> =
        after.columns().iter().map(|column| (column.id, column)).collect();
    let column_after = |id| columns.get(&id).copied();
    check_partition_keys(arrangement, before, &columns)?;
    for old in before.columns() {
        let Some(column) = column_after(old.id).filter(|column| column.data_type != old.data_type)
        else {
            continue;
        };
        for known in known(old.id)?.into_iter().flatten() {
            check_column(column, &known.data_type, &known.stats)?;
        }
    }
    for (id, data_type, stats) in new.flat_map(|segment| &segment.stats) {
        if let Some(column) = column_after(*id) {
            check_column(column, data_type, stats)?;
        }
    }
    Ok(())
}

/// A partition is named by the text of its value, which is the same in all integer types but in no
/// other pair of types. A function of a wider integer may give another value, because it overflows
/// later.
fn check_partition_keys(
    arrangement: &Arrangement,
    before: &Schema,
    after: &HashMap<ColumnId, &Column>,
) -> Result<()> {
    let is_plain = |key: &PartitionKey, name: &str| key.expression.trim_matches('"') == name;
    let keys = arrangement.partition_by.iter();
    let keys =
        keys.flat_map(|key| key.columns.iter().map(move |(name, id)| (*id, is_plain(key, name))));
    for (id, is_plain) in keys {
        let old =
            before.columns().iter().find(|column| column.id == id).map(|column| &column.data_type);
        let Some((old, new)) = old.zip(after.get(&id)) else { continue };
        let integers = old.to_arrow().is_integer() && new.data_type.to_arrow().is_integer();
        let same = *old == new.data_type || *old == DataType::Null || (integers && is_plain);
        if !same {
            return Err(Error::InvalidInput(format!(
                "column '{}' is {old} and cannot become {}: the table is partitioned by it; give \
                 its type with --schema {0}:{old}, or load into another table",
                new.name, new.data_type
            )));
        }
    }
    Ok(())
}

fn check_column(column: &Column, stored: &DataType, stats: &Stats) -> Result<()> {
    if !stored.widens_exactly_if(&column.data_type) {
        return Ok(());
    }
    let is_lost = |value| !fits(value, stored, &column.data_type);
    let lost = |bound: &&Bound| matches!(bound.value, Scalar::Int(value) if is_lost(value));
    let Some(bound) = [&stats.min, &stats.max].into_iter().flatten().find(lost) else {
        return Ok(());
    };
    let (name, value) = (&column.name, bound.value.show(stored));
    Err(Error::InvalidInput(format!(
        "column '{name}' holds {value} as {stored}, and other rows make it {}, which cannot hold \
         that exactly; give its type with --schema {name}:TYPE, or load into another table",
        column.data_type
    )))
}

/// Whether a stored integer is preserved in the wider type.
fn fits(value: i128, from: &DataType, to: &DataType) -> bool {
    let ticks =
        |factor: i64| value.checked_mul(factor.into()).is_some_and(|v| i64::try_from(v).is_ok());
    match (from, to) {
        (_, DataType::Float64) => value.unsigned_abs() <= u128::from(MAX_EXACT_IN_F64),
        (DataType::Date, DataType::Timestamp { unit, .. }) => ticks(86_400 * unit.per_second()),
        (DataType::Timestamp { unit: coarse, .. }, DataType::Timestamp { unit: fine, .. }) => {
            ticks(fine.per_second() / coarse.per_second())
        }
        _ => true,
    }
}
