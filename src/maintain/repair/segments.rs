//! Decides which segments are lost, and which are written anew.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::rewrite::Faulty;
use super::survey::Generation;
use super::{Lost, Plan, RepairOptions, Rewritten};
use crate::error::{Error, Result};
use crate::maintain::verify::{self, Damage, DamageKind, VerifyReport};
use crate::manifest::Id;
use crate::store::{Snapshot, Table};

/// Columns whose bounds are named for a lost segment.
const NAMED_BOUNDS: usize = 8;

impl Plan {
    /// Finds segments that cannot be read in full, and those with false statistics or order.
    pub(super) fn check_segments(&mut self, table: &Table, options: &RepairOptions) -> Result<()> {
        let snapshot = table.snapshot_of(self.root.clone())?;
        let mut found = VerifyReport::default();
        verify::check_contents(&snapshot, &options.verify, &mut found)?;
        if options.verify.cancelled.load(Ordering::Relaxed) {
            // What was not checked is not in the report.
            return Err(Error::Cancelled);
        }
        let mut why: BTreeMap<u64, String> = BTreeMap::new();
        let mut lies: BTreeMap<u64, Vec<Damage>> = BTreeMap::new();
        for damage in found.problems {
            match damage.segment {
                Some(segment) if !damage.is_unreadable() => {
                    lies.entry(segment).or_default().push(damage);
                }
                Some(segment) if damage.error.is_damage() => {
                    why.entry(segment).or_insert_with(|| damage.error.to_string());
                }
                // No permission, or a newer version: nothing is known of the bytes. Or a chunk
                // could not be read that was read a moment ago.
                _ => return Err(damage.error),
            }
        }
        lies.retain(|segment, _| !why.contains_key(segment));
        self.decide(lies, &snapshot)?;
        if self.lies > 0 {
            self.report.notes.push(format!(
                "{} false statements that do not follow from other values are left as they are: \
                 sty verify names them; export and ingest write all of it anew",
                self.lies
            ));
        }
        let entries = snapshot.segments()?;
        for (number, why) in why {
            let Some(entry) = entries.get(number as usize) else { continue };
            self.report.lost.push(Lost {
                segment: Some(number),
                rows: Some(entry.rows),
                partition: Arc::clone(&entry.partition),
                file: snapshot.path(entry),
                offset: entry.offset,
                bounds: bounds(&snapshot, number as usize),
                why,
            });
            self.report.rows -= entry.rows;
            self.bad.insert(number, entry.clone());
        }
        let sound = (0..).zip(entries.iter()).filter(|(number, _)| !self.bad.contains_key(number));
        let sound: HashSet<Id> = sound.map(|(_, entry)| entry.file).collect();
        self.move_bad(&snapshot, &sound);
        Ok(())
    }

    /// Decides what is done about false statements, by segment.
    fn decide(&mut self, lies: BTreeMap<u64, Vec<Damage>>, snapshot: &Snapshot) -> Result<()> {
        let entries = snapshot.segments()?;
        for (number, lies) in lies {
            let Some(entry) = entries.get(number as usize) else { continue };
            let (required, lies): (Vec<Damage>, Vec<Damage>) =
                lies.into_iter().partition(|lie| lie.kind == DamageKind::Required);
            required.iter().for_each(|lie| self.allow_nulls(lie));
            if lies.iter().any(|lie| lie.kind == DamageKind::Other) {
                // What is not of its type cannot be written.
                self.lies += lies.len() as u64;
                continue;
            }
            if lies.is_empty() {
                continue;
            }
            self.report.rewritten.push(Rewritten {
                segment: number,
                rows: entry.rows,
                partition: Arc::clone(&entry.partition),
                file: snapshot.path(entry),
                offset: entry.offset,
                why: lies.iter().map(describe).collect(),
            });
            let kinds = lies.iter().map(|lie| lie.kind).collect();
            self.faulty.insert(number, Faulty { entry: entry.clone(), kinds });
        }
        self.report.needed |= !self.faulty.is_empty();
        Ok(())
    }

    /// Lets a column have nulls that has some.
    fn allow_nulls(&mut self, lie: &Damage) {
        let columns = self.root.schema.columns();
        let name = lie.column.as_deref().unwrap_or("");
        let column = columns.iter().find(|column| *column.name == *name && !column.nullable);
        if let Some(id) = column.map(|column| column.id) {
            self.root.schema.allow_nulls(id);
            self.report.needed = true;
            let what = format!("column '{name}' is no longer NOT NULL: {}", describe(lie));
            self.report.notes.push(what);
        }
    }

    /// Moves the files of bad segments, but none that has a sound segment of a generation that
    /// stays.
    fn move_bad(&mut self, snapshot: &Snapshot, sound: &HashSet<Id>) {
        let bad: HashSet<(Id, u64)> =
            self.bad.values().map(|entry| (entry.file, entry.offset)).collect();
        let paths: BTreeMap<Id, PathBuf> =
            self.bad.values().map(|entry| (entry.file, snapshot.path(entry))).collect();
        for (file, path) in paths {
            let named = |generation: &&Generation| {
                generation.segments().any(|segment| {
                    segment.file == file && !bad.contains(&(segment.file, segment.offset))
                })
            };
            let older = self.kept.iter().skip(1).find(named);
            let whose = match older {
                _ if sound.contains(&file) => "the table".to_owned(),
                Some(older) => format!("generation {}", older.root.generation),
                None => {
                    self.files.push(path);
                    continue;
                }
            };
            let note =
                format!("{} stays where it is: {whose} has sound segments in it", path.display());
            self.report.notes.push(note);
        }
    }
}

/// What is false, and in which column.
fn describe(lie: &Damage) -> String {
    let what = match &lie.error {
        Error::Corrupt { what, .. } => what.to_string(),
        other => other.to_string(),
    };
    match &lie.column {
        Some(column) => format!("column '{column}': {what}"),
        None => what,
    }
}

/// What the manifest knows of the values of a segment.
fn bounds(snapshot: &Snapshot, number: usize) -> String {
    let (mut at, mut place) = (0, number);
    while let Some(chunk) = snapshot.chunks().get(at).filter(|c| c.segments as usize <= place) {
        place -= chunk.segments as usize;
        at += 1;
    }
    let mut named = Vec::new();
    for column in snapshot.schema().columns() {
        if named.len() == NAMED_BOUNDS {
            break;
        }
        let Ok(known) = snapshot.column_stats_of_chunk(column.id, at) else { continue };
        let Some(known) = known.into_iter().nth(place).flatten() else { continue };
        if let (Some(min), Some(max)) = (&known.stats.min, &known.stats.max) {
            let (min, max) = (min.value.show(&known.data_type), max.value.show(&known.data_type));
            named.push(format!("{} {min} to {max}", column.name));
        }
    }
    named.join(", ")
}
