//! Restores what can be restored of a damaged table, and says what was lost.
//!
//! A repair goes on with the newest generation whose root can be read: it leaves out the chunks
//! that cannot be read and the segments that have bytes which cannot be read, and commits the rest
//! as a new generation: new chunks and a new root beside the old ones, then `CURRENT`, each durable
//! before the next, as every writer does. It deletes nothing. What is damaged, and data files that
//! no generation names any more because the root or chunk that named them is lost, is moved to the
//! folder `damaged/` of the table. That is done before the commit: a crash in between leaves a
//! table that lacks no more than what could not be read, and the next repair goes on.
//!
//! Numbers of rows in the root that are not those of its segments are counted anew.
//!
//! Where values can be read and something false is said of them (statistics, the order of a
//! dictionary, the order or partition of rows), the segment is written anew from its values, and
//! loses no row; a column that is said to be NOT NULL and is null somewhere may be null from then
//! on.
//!
//! Older generations that are whole stay readable for as long as the table keeps generations. A
//! data file that they name is left to them if it has sound segments.
//!
//! This file finds out what to do (`Plan`), which is all that a dry run does; `survey.rs` tells
//! what is there and can be read, `report.rs` what was found, `quarantine.rs` moves files.

mod quarantine;
mod report;
mod rewrite;
mod segments;
mod survey;
#[cfg(test)]
mod false_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::report::{Lost, RepairOptions, RepairReport, Rewritten};
use self::rewrite::Faulty;
use self::survey::{Generation, Survey};
use super::verify;
use crate::budget::Budget;
use crate::disk::{Disk, Io};
use crate::error::{Error, Result};
use crate::manifest::commit::{self, Change, Edit, SegmentWithStats};
use crate::manifest::{History, Id, Root, TableDir, WriteVolume, listing};
use crate::segment::Segment;
use crate::store::{SegmentEntry, Table, no_table};

/// Repairs a table. A table that is sound is left as it is.
pub fn repair(table: &Table, options: &RepairOptions) -> Result<RepairReport> {
    let (disk, dir) = (table.disk(), table.dir());
    if !disk.exists(dir.path())? {
        return Err(no_table(disk, dir));
    }
    let _lock = if options.dry_run { None } else { Some(table.lock()?) };
    let mut plan = Plan::new(Survey::new(disk, dir)?, dir)?;
    plan.check_ledger(disk, dir)?;
    plan.check_segments(table, options)?;
    plan.find_unnamed(disk, dir)?;
    plan.find_places(disk, dir)?;
    if !options.dry_run {
        quarantine::settle(disk, dir, plan.report.current.unwrap_or(0))?;
        if plan.report.needed {
            let written = rewrite::rewrite(table, &plan.root, &plan.faulty, options)?;
            plan.commit(disk, dir, written)?;
        }
    }
    Ok(plan.report)
}

/// What is to be done.
struct Plan {
    report: RepairReport,
    /// The root to go on with; chunks that cannot be read are taken out.
    root: Root,
    /// What these chunks and those of older generations that stay name, newest first.
    kept: Vec<Generation>,
    /// The greatest generation that was ever named.
    greatest: u64,
    /// Segments to leave out, by their number.
    bad: BTreeMap<u64, SegmentEntry>,
    /// Segments to write anew, by their number.
    faulty: BTreeMap<u64, Faulty>,
    /// Files to move.
    files: Vec<PathBuf>,
    /// The root to go on with, if it is to be moved once there is a new one: because chunks of it
    /// cannot be read, or it cannot itself, so that no later writer could find out which files it
    /// needs; or because no `CURRENT` tells that it was ever in force. A commit that failed may
    /// have left it, and its bytes need not be durable, as those of the new root are.
    outdated: Option<PathBuf>,
    /// Whether files may be there that only lost metadata names.
    lost_metadata: bool,
    /// False statements about what can be read.
    lies: u64,
}

impl Plan {
    /// Decides on the root to go on with, and on the generations that stay.
    fn new(survey: Survey, dir: &TableDir) -> Result<Plan> {
        let mut readable = survey.readable.into_iter();
        let Some(base) = readable.next() else {
            let lost =
                if survey.current.is_none() { "CURRENT names no generation, and " } else { "" };
            let what = format!(
                "{lost}no root can be read: there is no generation to fall back to; segments in \
                 data/ are left as they are"
            );
            return Err(Error::corrupt(0, what).in_file(dir.manifest(), 0));
        };
        if base.root.unknown != 0 {
            return Err(Error::Unsupported(format!(
                "the table has features {:#x} that this build can read but not write",
                base.root.unknown
            )));
        }
        let is_in_force = survey.current == Some(base.root.generation);
        let mut plan = Plan {
            report: RepairReport {
                current: survey.current,
                base: base.root.generation,
                needed: !is_in_force,
                notes: survey.notes,
                ..RepairReport::default()
            },
            root: base.root.clone(),
            kept: Vec::new(),
            greatest: survey.greatest,
            bad: BTreeMap::new(),
            faulty: BTreeMap::new(),
            files: survey.useless,
            outdated: survey.current.is_none().then(|| dir.root(base.root.generation)),
            // The root of the generation in force may be gone without a trace.
            lost_metadata: survey.lost_root || !is_in_force || base.false_total.is_some(),
            lies: 0,
        };
        if let Some(current) = survey.current.filter(|_| !is_in_force) {
            plan.report.notes.push(format!(
                "falls back to generation {}: what was stored, changed or deleted up to \
                 generation {current} is undone",
                base.root.generation
            ));
        }
        if let Some(what) = &base.false_total {
            plan.report.notes.push(format!("{what}, which is put right"));
            plan.report.needed = true;
            // No later writer could read it.
            plan.outdated = Some(dir.root(base.root.generation));
        }
        let is_whole = base.is_whole();
        plan.leave_out_chunks(&base, dir);
        plan.keep_older(&base, is_whole, readable, dir);
        plan.kept.insert(0, base);
        plan.root.rows = plan.root.chunks.iter().map(|chunk| chunk.rows).sum();
        plan.report.rows = plan.root.rows;
        Ok(plan)
    }

    /// Takes the chunks that cannot be read out of the root, and puts right what it says of the
    /// others.
    fn leave_out_chunks(&mut self, base: &Generation, dir: &TableDir) {
        self.root.chunks.clear();
        for (chunk, listed) in base.root.chunks.iter().zip(&base.chunks) {
            let path = dir.chunk(&chunk.id);
            let segments = match &**listed {
                Ok(segments) => segments,
                Err(error) => {
                    self.report.lost.push(Lost {
                        segment: None,
                        rows: Some(chunk.rows),
                        partition: Arc::clone(&chunk.first_partition),
                        file: path.clone(),
                        offset: 0,
                        bounds: String::new(),
                        why: format!("{error} (it lists {} segments)", chunk.segments),
                    });
                    self.files.push(path);
                    self.outdated = Some(dir.root(base.root.generation));
                    self.lost_metadata = true;
                    continue;
                }
            };
            let mut chunk = chunk.clone();
            let wrong = verify::false_reference(&chunk, segments);
            if !wrong.is_empty() {
                let notes = wrong.iter().map(|what| format!("{what}, which is put right"));
                self.report.notes.extend(notes);
                self.report.needed = true;
                chunk.rows = segments.iter().map(|segment| segment.rows).sum();
                let paths = || segments.iter().map(|segment| &segment.partition);
                if let (Some(first), Some(last)) = (paths().min(), paths().max()) {
                    (chunk.first_partition, chunk.last_partition) = (first.clone(), last.clone());
                }
            }
            self.root.chunks.push(chunk);
        }
    }

    /// Lets older generations stay that are whole, and moves the roots of the others: no later
    /// writer could find out which files they need.
    fn keep_older(
        &mut self,
        base: &Generation,
        is_whole: bool,
        older: impl Iterator<Item = Generation>,
        dir: &TableDir,
    ) {
        let files = base.files();
        for generation in older {
            let number = generation.root.generation;
            // Rows of a lost chunk may be in an older generation, and nowhere else. The next writer
            // would free it if the table keeps none.
            if !generation.is_whole() || (!is_whole && base.root.history.keep == 0) {
                let what = format!("generation {number} can no longer be read: chunks are lost");
                self.report.notes.push(what);
                self.files.push(dir.root(number));
                self.lost_metadata = true;
                continue;
            }
            let only = generation.segments().filter(|segment| !files.contains(&segment.file));
            let rows: u64 = only.map(|segment| segment.rows).sum();
            if !is_whole && rows > 0 {
                self.report.notes.push(format!(
                    "generation {number} stays readable for as long as the table keeps \
                     generations; {rows} rows of it are in files that the new generation does not \
                     have, and rows of lost chunks may be among them"
                ));
            }
            self.kept.push(generation);
        }
    }

    /// Leaves out files of the ledger that cannot be read: loading what they name is no longer
    /// refused.
    fn check_ledger(&mut self, disk: &dyn Disk, dir: &TableDir) -> Result<()> {
        let (generation, root) = (self.root.generation, dir.root(self.root.generation));
        let recent = &self.root.ledger.recent;
        self.lies += verify::false_sources(generation, recent, &root, false).count() as u64;
        for file in std::mem::take(&mut self.root.ledger.files) {
            let path = dir.ledger(&file.id);
            match commit::read_ledger(disk, dir, &file) {
                Ok(sources) => {
                    let lies = verify::false_sources(generation, &sources, &path, true);
                    self.lies += lies.count() as u64;
                    self.root.ledger.files.push(file);
                }
                Err(error) if error.is_damage() => {
                    self.report.notes.push(format!(
                        "{error}; the ledger loses {} sources, which can be loaded twice",
                        file.sources
                    ));
                    self.report.needed = true;
                    self.files.push(path);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds data files that no generation names which stays: with the metadata that named them
    /// they would be removed by the next sweep.
    fn find_unnamed(&mut self, disk: &dyn Disk, dir: &TableDir) -> Result<()> {
        if !self.lost_metadata {
            return Ok(());
        }
        let named: HashSet<Id> = self.kept.iter().flat_map(|kept| kept.files()).collect();
        let mut unnamed = Vec::new();
        listing::data_files(disk, dir, &mut |path, id| {
            if !named.contains(&id) {
                unnamed.push(path);
            }
            std::ops::ControlFlow::Continue(())
        })?;
        // Where the newest root can be read, it tells what was in force.
        if self.report.current != Some(self.report.base) {
            for path in &unnamed {
                let partition = path.parent().and_then(|at| at.strip_prefix(dir.data()).ok());
                self.report.lost.push(Lost {
                    segment: None,
                    rows: rows_of(disk, path)?,
                    partition: partition.map_or("".into(), |path| path.to_string_lossy().into()),
                    file: path.clone(),
                    offset: 0,
                    bounds: String::new(),
                    why: "no generation that can be read names it, but a lost root may have"
                        .to_owned(),
                });
            }
        }
        self.files.extend(unnamed);
        Ok(())
    }

    /// Decides where files are moved.
    fn find_places(&mut self, disk: &dyn Disk, dir: &TableDir) -> Result<()> {
        self.files.sort();
        self.files.dedup();
        let folder = quarantine::folder(dir, self.greatest + 1);
        for path in self.files.iter().chain(&self.outdated) {
            let inside = path.strip_prefix(dir.path()).unwrap_or(path);
            if disk.exists(path)? {
                self.report.moved.push((path.clone(), folder.join(inside)));
            }
        }
        self.report.needed |= !self.report.moved.is_empty() || !self.report.lost.is_empty();
        Ok(())
    }

    /// Puts the new generation in force, with segments in the place of others by their numbers.
    fn commit(
        &mut self,
        disk: &dyn Disk,
        dir: &TableDir,
        written: BTreeMap<u64, Vec<SegmentWithStats>>,
    ) -> Result<()> {
        let is_outdated = |(from, _): &(PathBuf, PathBuf)| Some(from) == self.outdated.as_ref();
        let (later, first): (Vec<_>, Vec<_>) =
            self.report.moved.iter().cloned().partition(is_outdated);
        quarantine::move_all(disk, &first)?;
        let bytes = written.values().flatten().map(|(entry, _)| entry.length).sum();
        let removed = self.bad.keys().map(|number| (*number, Vec::new()));
        let changed: BTreeMap<u64, Vec<SegmentWithStats>> = removed.chain(written).collect();
        let edits = changed.into_iter().map(|(number, insert)| Edit {
            at: number as usize,
            remove: 1,
            insert,
        });
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
            edits: edits.collect(),
            sources: Vec::new(),
            write_volume: WriteVolume { loaded: 0, written: bytes },
        };
        let done = commit::commit(disk, dir, change)?;
        quarantine::move_all(disk, &later)?;
        self.report.generation = Some(done.root.generation);
        self.report.rows = done.root.rows;
        Ok(())
    }
}

/// The rows of a data file that no manifest tells of; `None` if it is damaged or has several
/// segments.
fn rows_of(disk: &dyn Disk, path: &Path) -> Result<Option<u64>> {
    let read = disk.map(path, Io::Mmap).and_then(|mapped| {
        let length = mapped.len() as u64;
        let segment = Segment::open_within(Arc::new(mapped), path, 0, length, Budget::default())?;
        // Offsets count from the start of a segment, so a column is found here only if the file
        // holds a single segment.
        let column = segment.footer().columns.first().map(|entry| entry.column);
        column.map(|column| segment.column(column)).transpose()?;
        Ok(segment.rows())
    });
    match read {
        Ok(rows) => Ok(Some(rows)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}
