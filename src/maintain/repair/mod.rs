//! Restores what can be restored of a damaged table, and says what was lost.
//!
//! A repair falls back to the newest generation whose root and chunks can be read, leaves out the
//! segments that have bytes which cannot be read, and commits the rest as a new generation: new
//! chunks and a new root beside the old ones, then `CURRENT`, each durable before the next, as
//! every writer does. It deletes nothing. What is damaged, and segment files that no generation
//! names any more because the root or chunk that named them is lost, is moved to the folder
//! `damaged/` of the table. That is done before the commit: a crash in between leaves a table that
//! lacks no more than what could not be read, and the next repair goes on.
//!
//! This file finds out what to do (`Plan`), which is all that a dry run does; `generations.rs`
//! tells what can be read, `quarantine.rs` moves files.

mod generations;
mod quarantine;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use self::generations::{broken_chunks, is_damage, roots};
use super::verify::{Damage, VerifyOptions, verify_with};
use crate::disk::{Disk, WriterLock};
use crate::error::{Error, Result};
use crate::manifest::commit::{self, Change, Edit};
use crate::manifest::{ChunkRef, History, Id, Root, TableDir, WriteVolume, presence, recover};
use crate::store::{SegmentEntry, Snapshot, Table};

/// Columns whose bounds are named for a lost segment.
const NAMED_BOUNDS: usize = 8;

/// How to repair.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Only finds out what to do, without the writer's lock.
    pub dry_run: bool,
    /// How segments are checked.
    pub verify: VerifyOptions,
}

/// Rows that a table loses in a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The number of the segment in the table's order; `None` if a chunk is lost, with all that it
    /// lists.
    pub segment: Option<u64>,
    /// The rows.
    pub rows: u64,
    /// The partition; empty without partitions.
    pub partition: Arc<str>,
    /// The file, and the byte at which the segment starts.
    pub file: PathBuf,
    /// Offset of the segment in the file.
    pub offset: u64,
    /// Bounds of some columns, as far as the manifest knows them, such as `id 0 to 99`.
    pub bounds: String,
    /// What is damaged.
    pub why: String,
}

/// What a repair did, or would do.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// The generation that `CURRENT` names; `None` if it is lost or damaged.
    pub current: Option<u64>,
    /// The generation on which the table goes on.
    pub base: u64,
    /// The new generation, if one was committed.
    pub generation: Option<u64>,
    /// Rows of the table from now on.
    pub rows: u64,
    /// Rows that are lost, by segment.
    pub lost: Vec<Lost>,
    /// Files that were moved, or would be, with their new places.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// What else was done or found.
    pub notes: Vec<String>,
}

impl RepairReport {
    /// Whether there is nothing to repair.
    pub fn is_sound(&self) -> bool {
        self.lost.is_empty() && self.notes.is_empty() && self.moved.is_empty()
    }
}

/// Repairs a table. A table that is sound is left as it is.
pub fn repair(table: &Table, options: &RepairOptions) -> Result<RepairReport> {
    let (disk, dir) = (table.disk(), table.dir());
    if !disk.exists(dir.path())? {
        return Err(Error::NotFound(format!("there is no table '{}'", table.name())));
    }
    let _lock = match options.dry_run {
        true => None,
        false => {
            let what = format!("table '{}'", table.name());
            Some(WriterLock::acquire(disk, &dir.lock(), &what)?)
        }
    };
    let mut plan = Plan::new(disk, dir)?;
    plan.check_ledger(disk, dir);
    plan.check_segments(table, options)?;
    plan.find_files(disk, dir)?;
    if plan.report.is_sound() || options.dry_run {
        return Ok(plan.report);
    }
    plan.commit(disk, dir)?;
    Ok(plan.report)
}

/// What is to be done.
struct Plan {
    report: RepairReport,
    /// The root to go on with; chunks that cannot be read are taken out.
    root: Root,
    /// The greatest generation that any file names.
    greatest: u64,
    /// Segments to leave out, by their number.
    bad: BTreeMap<u64, SegmentEntry>,
    /// Files to move.
    files: Vec<PathBuf>,
    /// Roots to move once there is a new one, because chunks of theirs cannot be read: no later
    /// writer could find out which files they need.
    outdated: Vec<PathBuf>,
    /// Whether files may be there that only lost metadata names.
    lost_metadata: bool,
}

/// A root, and those of its chunks that cannot be read, with the reasons.
type Readable = (Root, Vec<(ChunkRef, Error)>);

impl Plan {
    /// Finds the newest good generation.
    fn new(disk: &dyn Disk, dir: &TableDir) -> Result<Plan> {
        let mut report = RepairReport::default();
        let mut files = Vec::new();
        match presence::read_current(disk, dir) {
            Ok(Some(generation)) => report.current = Some(generation),
            Ok(None) => report.notes.push("CURRENT is missing".to_owned()),
            Err(error) if is_damage(&error) => {
                report.notes.push(error.to_string());
                files.push(dir.current());
            }
            Err(error) => return Err(error),
        }
        let all = roots(disk, dir)?;
        let lost = report.current.is_none();
        if lost && disk.exists(&dir.creating())? && all.iter().all(|generation| *generation == 1) {
            return Err(Error::NotFound(format!(
                "the first commit of table '{}' was never finished; there is nothing to repair",
                dir.name()
            )));
        }
        let greatest = all.first().copied().unwrap_or(0).max(report.current.unwrap_or(0));
        let mut best: Option<Readable> = None;
        let (mut bad_roots, mut outdated) = (0, Vec::new());
        for generation in all {
            let path = dir.root(generation);
            if report.current.is_some_and(|current| generation > current) {
                report.notes.push(format!("generation {generation} never came into force"));
                files.push(path);
                continue;
            }
            let root = match recover::read_root(disk, dir, generation) {
                Ok(root) => root,
                Err(error) if is_damage(&error) => {
                    report.notes.push(error.to_string());
                    files.push(path);
                    bad_roots += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let broken = broken_chunks(disk, dir, &root)?;
            let whole = broken.is_empty();
            if !whole {
                outdated.push(path);
            }
            if best.as_ref().is_none_or(|(_, worse)| whole && !worse.is_empty()) {
                best = Some((root, broken));
            }
        }
        let Some((mut root, broken)) = best else {
            let what = "no root can be read: there is no generation to fall back to; segments in \
                        data/ are left as they are";
            return Err(Error::corrupt(0, what).in_file(dir.manifest(), 0));
        };
        if root.unknown != 0 {
            return Err(Error::Unsupported(format!(
                "the table has features {:#x} that this build can read but not write",
                root.unknown
            )));
        }
        report.base = root.generation;
        if report.current.is_some_and(|current| current != root.generation) {
            report.notes.push(format!("falls back to generation {}", root.generation));
        }
        let lost_metadata = bad_roots > 0 || !broken.is_empty() || lost;
        for (chunk, error) in broken {
            root.chunks.retain(|other| other.id != chunk.id);
            files.push(dir.chunk(&chunk.id));
            report.lost.push(Lost {
                segment: None,
                rows: chunk.rows,
                partition: chunk.first_partition,
                file: dir.chunk(&chunk.id),
                offset: 0,
                bounds: String::new(),
                why: format!("{error} (it lists {} segments)", chunk.segments),
            });
        }
        root.rows = root.chunks.iter().map(|chunk| chunk.rows).sum();
        report.rows = root.rows;
        let bad = BTreeMap::new();
        Ok(Plan { report, root, greatest, bad, files, outdated, lost_metadata })
    }

    /// Leaves out files of the ledger that cannot be read: loading what they name is no longer
    /// refused.
    fn check_ledger(&mut self, disk: &dyn Disk, dir: &TableDir) {
        let notes = &mut self.report.notes;
        let files = &mut self.files;
        self.root.ledger.files.retain(|file| match commit::read_ledger(disk, dir, file) {
            Ok(_) => true,
            Err(error) => {
                notes.push(format!(
                    "{error}; the ledger loses {} sources, which can be loaded twice",
                    file.sources
                ));
                files.push(dir.ledger(&file.id));
                false
            }
        });
    }

    /// Finds segments with bytes that cannot be read.
    fn check_segments(&mut self, table: &Table, options: &RepairOptions) -> Result<()> {
        let snapshot = table.snapshot_of(self.root.clone())?;
        let mut why: BTreeMap<u64, String> = BTreeMap::new();
        let mut lies = 0;
        for damage in verify_with(&snapshot, &options.verify).problems {
            let Damage { segment: Some(segment), unreadable, error, .. } = damage else { continue };
            if !unreadable {
                lies += 1;
                continue;
            }
            if !is_damage(&error) {
                // No permission, or a newer version: nothing is known of the bytes.
                return Err(error);
            }
            why.entry(segment).or_insert_with(|| error.to_string());
        }
        if lies > 0 {
            self.report.notes.push(format!(
                "{lies} false statements about readable values are left as they are: sty verify \
                 names them; export and ingest write them anew"
            ));
        }
        let entries = snapshot.segments()?;
        for (number, why) in why {
            let Some(entry) = entries.get(number as usize) else { continue };
            self.report.lost.push(Lost {
                segment: Some(number),
                rows: entry.rows,
                partition: Arc::clone(&entry.partition),
                file: snapshot.path(entry),
                offset: entry.offset,
                bounds: bounds(&snapshot, number as usize),
                why,
            });
            self.report.rows -= entry.rows;
            self.bad.insert(number, entry.clone());
        }
        let sound = entries.iter().zip(0..).filter(|(_, number)| !self.bad.contains_key(number));
        let shared: HashSet<Id> = sound.map(|(entry, _)| entry.file).collect();
        for entry in self.bad.values() {
            let path = snapshot.path(entry);
            if shared.contains(&entry.file) {
                self.report.notes.push(format!(
                    "{} stays where it is: it has sound segments, too",
                    path.display()
                ));
            } else {
                self.files.push(path);
            }
        }
        Ok(())
    }

    /// Lists all files to move, with their new places.
    fn find_files(&mut self, disk: &dyn Disk, dir: &TableDir) -> Result<()> {
        if self.lost_metadata {
            self.files.extend(quarantine::unnamed(disk, dir)?);
        }
        self.files.sort();
        self.files.dedup();
        let folder = dir.damaged().join(format!("generation-{}", self.greatest + 1));
        for path in self.files.iter().chain(&self.outdated) {
            let inside = path.strip_prefix(dir.path()).unwrap_or(path);
            if disk.exists(path)? {
                self.report.moved.push((path.clone(), folder.join(inside)));
            }
        }
        Ok(())
    }

    fn commit(&mut self, disk: &dyn Disk, dir: &TableDir) -> Result<()> {
        let outdated = |(from, _): &(PathBuf, PathBuf)| self.outdated.contains(from);
        let (later, first): (Vec<_>, Vec<_>) =
            self.report.moved.iter().cloned().partition(|moved| outdated(moved));
        quarantine::move_all(disk, &first)?;
        let mut edits: Vec<Edit> = Vec::new();
        for number in self.bad.keys().map(|number| *number as usize) {
            match edits.last_mut() {
                Some(edit) if edit.at + edit.remove == number => edit.remove += 1,
                _ => edits.push(Edit { at: number, remove: 1, insert: Vec::new() }),
            }
        }
        // The new generation comes after all that were ever written.
        let base = Root { generation: self.greatest, ..self.root.clone() };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let committed = now.map_or(0, |since| since.as_millis() as u64);
        let change = Change {
            base: Some(&base),
            schema: base.schema.clone(),
            options: base.options,
            arrangement: base.arrangement.clone(),
            history: History { committed, keep: base.history.keep },
            edits,
            sources: Vec::new(),
            write_volume: WriteVolume::default(),
        };
        let done = commit::commit(disk, dir, change)?;
        quarantine::move_all(disk, &later)?;
        self.report.generation = Some(done.root.generation);
        self.report.rows = done.root.rows;
        Ok(())
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
