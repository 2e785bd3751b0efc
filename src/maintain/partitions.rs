//! Lists partitions and drops whole ones, which touches no data.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::Arrangement;
use crate::store::{Changes, Commit, Edit, NewSegment, SegmentEntry, Snapshot, Table};

/// A partition of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Directory, as in `year=2015/month=1`; empty for rows outside any partition.
    pub path: Arc<str>,
    /// Number of segments.
    pub segments: u64,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the segments.
    pub bytes: u64,
}

/// The partitions of a generation, by path.
pub fn partitions(snapshot: &Snapshot) -> Result<Vec<Partition>> {
    let mut all: BTreeMap<Arc<str>, Partition> = BTreeMap::new();
    for entry in snapshot.segments()?.iter() {
        let empty =
            || Partition { path: Arc::clone(&entry.partition), segments: 0, rows: 0, bytes: 0 };
        let partition = all.entry(Arc::clone(&entry.partition)).or_insert_with(empty);
        partition.segments += 1;
        partition.rows += entry.rows;
        partition.bytes += entry.length;
    }
    Ok(all.into_values().collect())
}

/// Whether a partition is the wanted one, or inside it.
pub(crate) fn is_within(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The error for a path that names no partition.
pub(super) fn no_partition(table: &Table, path: &str) -> Error {
    Error::NotFound(format!(
        "there is no partition '{path}' in table '{}'; sty partitions lists them",
        table.name()
    ))
}

/// Drops partitions, including nested ones, in one commit. A path that names no partition is an
/// error, and nothing is dropped. Also returns the totals of what was dropped.
pub fn drop_partitions(table: &Table, paths: &[String]) -> Result<(Commit, Partition)> {
    let mut writer = table.writer(None)?;
    let (edits, dropped) = edits_without(table, &writer.arrangement(), &writer.segments()?, paths)?;
    let changes = Changes { edits, ..writer.changes() };
    Ok((writer.commit_changes(changes)?, dropped))
}

/// The totals of what [`drop_partitions`] would drop.
pub fn would_drop(table: &Table, paths: &[String]) -> Result<Partition> {
    let snapshot = table.snapshot()?;
    table.check_writable()?;
    let (arrangement, entries) = (&snapshot.root().arrangement, snapshot.segments()?);
    Ok(edits_without(table, arrangement, &entries, paths)?.1)
}

/// The edits that take the segments of partitions out, and what these have in all.
fn edits_without(
    table: &Table,
    arrangement: &Arrangement,
    entries: &[SegmentEntry],
    paths: &[String],
) -> Result<(Vec<Edit<NewSegment>>, Partition)> {
    if arrangement.partition_by.is_empty() {
        return Err(Error::InvalidInput(format!("table '{}' is not partitioned", table.name())));
    }
    let within =
        |entry: &SegmentEntry, path: &str| !path.is_empty() && is_within(&entry.partition, path);
    if let Some(unknown) =
        paths.iter().find(|path| !entries.iter().any(|entry| within(entry, path)))
    {
        return Err(no_partition(table, unknown));
    }
    let is_dropped = |entry: &SegmentEntry| paths.iter().any(|path| within(entry, path));
    let (edits, dropped) = edits_that_remove(entries, is_dropped);
    Ok((edits, Partition { path: paths.join(", ").into(), ..dropped }))
}

/// The edits that take a partition out, with those inside it, and its rows.
#[cfg(feature = "cluster")]
pub(crate) fn edits_without_partition(
    entries: &[SegmentEntry],
    path: &str,
) -> (Vec<Edit<NewSegment>>, u64) {
    let within = |entry: &SegmentEntry| is_within(&entry.partition, path);
    let (edits, dropped) = edits_that_remove(entries, within);
    (edits, dropped.rows)
}

/// The edits that take some segments out, and what these have in all.
fn edits_that_remove(
    entries: &[SegmentEntry],
    is_removed: impl Fn(&SegmentEntry) -> bool,
) -> (Vec<Edit<NewSegment>>, Partition) {
    let mut dropped = Partition { path: "".into(), segments: 0, rows: 0, bytes: 0 };
    let mut edits: Vec<Edit<NewSegment>> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if !is_removed(entry) {
            continue;
        }
        dropped.segments += 1;
        dropped.rows += entry.rows;
        dropped.bytes += entry.length;
        match edits.last_mut() {
            Some(edit) if edit.at + edit.remove == at => edit.remove += 1,
            _ => edits.push(Edit { at, remove: 1, insert: Vec::new() }),
        }
    }
    (edits, dropped)
}
