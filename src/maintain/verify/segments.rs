//! Checks one segment: its columns, in parallel, and what the manifest says of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::report::{Damage, DamageKind, VerifyOptions};
use super::rows;
use crate::error::{Error, Result};
use crate::manifest::Chunk;
use crate::model::{Column, ColumnId, DataType};
use crate::segment::verify::CheckedColumn;
use crate::segment::{Segment, contradictions};
use crate::store::snapshot::open_segment;
use crate::store::{ColumnStats, SegmentEntry, Snapshot};

/// What a chunk says of the columns of its segments.
pub(super) struct Claims {
    path: PathBuf,
    /// For each column the offset of its section, and what it says of each segment.
    columns: BTreeMap<ColumnId, (u64, Vec<Option<ColumnStats>>)>,
}

impl Claims {
    /// Reads them. Columns whose section cannot be read are left out: the check of the chunk has
    /// named them.
    pub(super) fn read(snapshot: &Snapshot, chunk: &Chunk, path: &Path) -> Claims {
        let mut columns = BTreeMap::new();
        for column in snapshot.schema().columns() {
            let place = chunk.column_place(column.id).unwrap_or(0);
            match chunk.column_stats(column.id) {
                Ok(known) => {
                    let known = known.unwrap_or_else(|| vec![None; chunk.count()]);
                    columns.insert(column.id, (place, known));
                }
                Err(_) => continue,
            }
        }
        Claims { path: path.to_path_buf(), columns }
    }
}

/// What was found in a segment.
#[derive(Debug, Default)]
pub(super) struct CheckedSegment {
    pub(super) problems: Vec<Damage>,
    pub(super) unchecked: Vec<String>,
}

/// The check of one segment.
pub(super) struct SegmentCheck<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) options: &'a VerifyOptions,
    pub(super) entry: &'a SegmentEntry,
    pub(super) claims: &'a Claims,
    /// Its place in the chunk.
    pub(super) place: usize,
}

impl SegmentCheck<'_> {
    /// Checks the segment, which has this number in the table.
    pub(super) fn run(&self, number: u64) -> CheckedSegment {
        if self.options.cancelled.load(Ordering::Relaxed) {
            return CheckedSegment::default();
        }
        let counted = AtomicU64::new(0);
        let checked = self.check(number, &counted);
        // What belongs to no column, and all of what could not be opened.
        let rest = self.entry.length.saturating_sub(counted.into_inner());
        self.options.done.fetch_add(rest, Ordering::Relaxed);
        checked
    }

    /// The same, with each column's share of the bytes `counted` as it is checked.
    fn check(&self, number: u64, counted: &AtomicU64) -> CheckedSegment {
        let mut checked = CheckedSegment::default();
        let segment = match self.open() {
            Ok(segment) => segment,
            Err(error) => {
                let error = error.in_file(self.snapshot.path(self.entry), 0);
                checked.problems.push(self.damage(number, None, 0..self.entry.rows, error));
                return checked;
            }
        };
        segment.prefetch_all();
        let mut ids: Vec<ColumnId> =
            segment.footer().columns.iter().map(|entry| entry.column).collect();
        let missing = self.snapshot.schema().columns().iter().map(|column| column.id);
        ids.extend(missing.filter(|id| ids.binary_search(id).is_err()).collect::<Vec<_>>());
        let share = self.entry.length / ids.len().max(1) as u64;
        let column = |id: &ColumnId| {
            let wrong = self.column(&segment, *id, number);
            counted.fetch_add(share, Ordering::Relaxed);
            self.options.done.fetch_add(share, Ordering::Relaxed);
            wrong
        };
        let (columns, rows) = rayon::join(
            || ids.par_iter().map(column).collect::<Vec<_>>(),
            || rows::check(self.snapshot, self.options, self.entry, &segment),
        );
        checked.problems = columns.into_iter().flatten().collect();
        if let Err(error) = segment.check_length() {
            checked.problems.push(self.damage(number, None, 0..self.entry.rows, error));
        }
        let readable = !checked.problems.iter().any(Damage::is_unreadable);
        checked.unchecked = rows.unchecked;
        for wrong in rows.wrong {
            // Columns that cannot be read have been named.
            if readable || !wrong.is_unreadable() {
                checked.problems.push(Damage { segment: Some(number), ..wrong });
            }
        }
        checked
    }

    /// Bypasses the cache of open segments, which remember what was verified before.
    fn open(&self) -> Result<Segment> {
        let mapped = self.snapshot.map(self.entry)?;
        let end = self.entry.offset.saturating_add(self.entry.length);
        let length = mapped.len() as u64;
        if end > length {
            let what = format!("the file ends here, but a segment in it ends at byte {end}");
            return Err(Error::corrupt(length, what));
        }
        let budget = self.snapshot.budget().clone();
        open_segment(self.entry, Arc::clone(&mapped), self.snapshot.path(self.entry), budget)
    }

    fn damage(&self, number: u64, id: Option<ColumnId>, rows: Range<u64>, error: Error) -> Damage {
        let named = |id| self.column_of(id).map(|column| Arc::clone(&column.name));
        let column = id.map(|id: ColumnId| {
            named(id).unwrap_or_else(|| format!("of id {}, dropped", id.0).into())
        });
        Damage { segment: Some(number), column, rows: Some(rows), ..Damage::of_table(error) }
    }

    fn column_of(&self, id: ColumnId) -> Option<&Column> {
        self.snapshot.schema().columns().iter().find(|column| column.id == id)
    }

    /// Everything that is wrong with a column.
    fn column(&self, segment: &Segment, id: ColumnId, number: u64) -> Vec<Damage> {
        let (offset, claim) = match self.claims.columns.get(&id) {
            Some((offset, known)) => (*offset, known.get(self.place)),
            None => (0, None),
        };
        let claimed = claim.and_then(Option::as_ref);
        let checked = segment.check_column(id, claimed.map(|known| &known.stats));
        let readable = checked.faults.is_empty() || checked.truth.is_some();
        let mut wrong = Vec::new();
        if let Some(column) = self.column_of(id) {
            let mut says = |kind: DamageKind, what: String, file: &Path, at: u64| {
                let error = Error::corrupt(at, what).in_file(file, 0);
                let damage = self.damage(number, Some(id), 0..self.entry.rows, error);
                wrong.push(Damage { kind, ..damage });
            };
            if claim.is_some() && readable {
                for what in against_manifest(claimed, &checked, self.entry.rows) {
                    let what = format!("what the manifest says of a segment is false: {what}");
                    says(DamageKind::Derived, what, &self.claims.path, offset);
                }
            }
            let file = self.snapshot.path(self.entry);
            if let Some((kind, what)) = against_schema(column, &checked, self.entry.rows) {
                says(kind, what, &file, self.entry.offset);
            }
        }
        let faults = checked.faults.into_iter().map(|fault| {
            let damage = self.damage(number, Some(id), fault.rows, fault.error);
            Damage { kind: fault.kind, ..damage }
        });
        faults.chain(wrong).collect()
    }
}

/// What a manifest says of a segment's column that is not so.
fn against_manifest(
    claimed: Option<&ColumnStats>,
    checked: &CheckedColumn,
    rows: u64,
) -> Vec<String> {
    match (claimed, &checked.data_type) {
        (None, None) => Vec::new(),
        (Some(says), None) if says.stats.nulls == rows => Vec::new(),
        (Some(_), None) => vec!["it has values, but the segment does not have the column".into()],
        (None, Some(_)) => match &checked.truth {
            Some(truth) if truth.nulls < truth.rows => {
                vec!["there is no such column, but the segment has it".into()]
            }
            _ => Vec::new(),
        },
        (Some(says), Some(data_type)) if says.data_type != *data_type => {
            vec![format!("its type is {}, but is {data_type}", says.data_type)]
        }
        (Some(says), Some(data_type)) => match &checked.truth {
            Some(truth) => contradictions(&says.stats, truth, data_type),
            None => Vec::new(),
        },
    }
}

/// What the table's schema says of a column that is not so.
fn against_schema(
    column: &Column,
    checked: &CheckedColumn,
    rows: u64,
) -> Option<(DamageKind, String)> {
    let Some(stored) = &checked.data_type else {
        let absent = !column.nullable && rows > 0 && checked.faults.is_empty();
        let what = "the column is NOT NULL, but the segment does not have it";
        return absent.then(|| (DamageKind::Required, what.into()));
    };
    let widens = |stored: &DataType| stored.widens_to(&column.data_type);
    if !widens(stored) {
        let what = format!("{stored} is stored, which is not a type within {}", column.data_type);
        return Some((DamageKind::Other, what));
    }
    let nulls = checked.truth.as_ref().map_or(0, |truth| truth.nulls);
    let what = || format!("the column is NOT NULL, but {nulls} rows have no value");
    (!column.nullable && nulls > 0).then(|| (DamageKind::Required, what()))
}
