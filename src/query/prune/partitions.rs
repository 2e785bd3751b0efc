//! Segments ruled out by the values of their partition's keys, which stand in its path.
//!
//! Statistics of columns already prune most filters on partition keys: those on a column, or on a
//! function that keeps its order. This covers the rest: on a table partitioned by `id % 16`, `WHERE
//! id % 16 = 3`, and `WHERE id = 35`, which implies it.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray};
use arrow_schema::DataType as ArrowType;

use super::{Evidence, ruled_out};
use crate::block::{Piece, Stats, gather, measure};
use crate::error::Result;
use crate::expr::Predicate;
use crate::ingest::partition::parse_path;
use crate::model::{ColumnId, DataType, PartitionKey};
use crate::store::SegmentEntry;

/// The number of a partition key as the column of a predicate.
pub(crate) fn key_column(key: usize) -> ColumnId {
    ColumnId(u32::try_from(key).unwrap_or(u32::MAX))
}

/// For each segment, the part of a conjunction over keys ([`key_column`]) that no row of its
/// partition can meet.
pub(crate) fn ruled_out_by_partition(
    predicate: &Predicate,
    keys: &[PartitionKey],
    entries: &[SegmentEntry],
) -> Result<Vec<Option<usize>>> {
    // Segments of a partition mostly are neighbours.
    let mut runs: Vec<(&Arc<str>, usize)> = Vec::new();
    for entry in entries {
        match runs.last_mut() {
            Some((path, count)) if **path == entry.partition => *count += 1,
            _ => runs.push((&entry.partition, 1)),
        }
    }
    let paths: Vec<Vec<Named>> = runs.iter().map(|(path, _)| parse_path(path)).collect();
    let known = keys
        .iter()
        .enumerate()
        .map(|(at, key)| values(at, key, &paths))
        .collect::<Result<Vec<_>>>()?;
    let mut all = Vec::with_capacity(entries.len());
    for (run, (_, count)) in runs.iter().enumerate() {
        let mut evidence = |column: ColumnId| {
            let at = usize::try_from(column.0).ok()?;
            let (key, stats) = (keys.get(at)?, known.get(at)?.get(run)?.as_ref()?);
            Some(Evidence { data_type: Cow::Borrowed(&key.data_type), stats: Cow::Borrowed(stats) })
        };
        let out = ruled_out(predicate, 1, &mut evidence).map(|(part, _)| part);
        all.resize(all.len() + count, out);
    }
    Ok(all)
}

/// A key of a path, and its value.
type Named = (Vec<u8>, Option<Vec<u8>>);

/// The value of a key in each partition, as the statistics of one row; `None` where its text is not
/// understood.
fn values(at: usize, key: &PartitionKey, paths: &[Vec<Named>]) -> Result<Vec<Option<Stats>>> {
    let of = |path: &Vec<Named>| {
        path.get(at).filter(|(name, _)| **name == *key.name.as_bytes()).cloned()
    };
    let found: Vec<Option<Option<Vec<u8>>>> =
        paths.iter().map(|path| of(path).map(|(_, value)| value)).collect();
    let bytes: ArrayRef =
        Arc::new(found.iter().map(|value| value.clone().flatten()).collect::<BinaryArray>());
    // What does not convert becomes null, which it is not.
    let named = if key.data_type == DataType::Binary {
        Ok(Arc::clone(&bytes))
    } else {
        arrow_cast::cast(&bytes, &ArrowType::Utf8)
    };
    let Ok(values) = named.and_then(|named| arrow_cast::cast(&named, &key.data_type.to_arrow()))
    else {
        return Ok(vec![None; paths.len()]);
    };
    let stats = |row: usize| -> Result<Option<Stats>> {
        let is_known = found.get(row).is_some_and(Option::is_some)
            && values.is_null(row) == bytes.is_null(row);
        let known = is_known.then(|| one(&values, row, &key.data_type)).transpose()?;
        // The sign of NaN is not in its text.
        Ok(known.filter(|stats| stats.nans == 0))
    };
    (0..paths.len()).map(stats).collect()
}

/// The statistics of one value.
pub(crate) fn one(values: &ArrayRef, row: usize, data_type: &DataType) -> Result<Stats> {
    let gathered = gather(data_type, &[Piece { array: values, start: row, len: 1 }])?;
    Ok(measure(&gathered, data_type.physical()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Comparison, Operand};
    use crate::ingest::partition::path::NULL_PARTITION;
    use crate::model::Scalar;

    #[test]
    fn values_of_paths_are_judged_and_what_is_not_understood_is_kept() {
        let key = |name: &str, data_type| PartitionKey {
            name: name.into(),
            expression: "x".into(),
            columns: Vec::new(),
            data_type,
        };
        let keys = [key("a", DataType::Int32), key("b", DataType::Utf8)];
        let paths = [
            "a=1/b=x%2Fy",
            "a=1/b=x%2Fy",
            "a=2/b=z",
            &format!("a={NULL_PARTITION}/b={NULL_PARTITION}"),
            "a=one/b=z",
            "c=2/b=z",
            "",
        ];
        let entry = |path: &&str| SegmentEntry {
            file: [0; 16],
            partition: (*path).into(),
            offset: 0,
            length: 1,
            uuid: [0; 16],
            footer_crc: 0,
            rows: 1,
        };
        let entries: Vec<SegmentEntry> = paths.iter().map(entry).collect();
        let equal = |key: usize, data_type, value| Predicate::Compare {
            operand: Operand { column: key_column(key), data_type },
            comparison: Comparison::Equal,
            value,
        };
        let out = |predicate| ruled_out_by_partition(&predicate, &keys, &entries).unwrap();
        let is_one = equal(0, DataType::Int32, Scalar::Int(1));
        assert_eq!(out(is_one.clone()), [None, None, Some(0), Some(0), None, None, None]);
        let text = equal(1, DataType::Utf8, Scalar::Bytes(b"x/y"[..].into()));
        let all = Predicate::And(vec![is_one, text]);
        assert_eq!(out(all), [None, None, Some(0), Some(0), Some(1), Some(1), None]);
        let null = Predicate::IsNull(key_column(0));
        assert_eq!(out(null.clone()), [Some(0), Some(0), Some(0), None, None, None, None]);
        // Bytes that are no text.
        let binary = [key("b", DataType::Binary)];
        let entries = [&format!("b={NULL_PARTITION}"), "b=x", "b=%FF%2F"].map(|path| entry(&path));
        let out = |predicate| ruled_out_by_partition(&predicate, &binary, &entries).unwrap();
        assert_eq!(out(Predicate::Not(Box::new(null))), [Some(0), None, None]);
        let bytes = equal(0, DataType::Binary, Scalar::Bytes(b"\xff/"[..].into()));
        assert_eq!(out(bytes), [Some(0), Some(0), None]);
    }
}
