//! Reading the generation in force, and clearing away what no generation names.
//!
//! A generation is live while `CURRENT` names it, a reader holds a shared lock on its root, or it
//! is to be kept for a time. [`sweep`] is run by the writer alone: when it opens the table, if the
//! writer before it left something behind, and after each commit (what the commit before needed and
//! nobody reads any more).

use std::collections::HashSet;
use std::path::Path;

use super::layout::{Kind, kind};
use super::{Id, Root, TableDir, codec, commit, root};
use crate::disk::{Disk, Entry, LockMode, durable, is_missing};
use crate::error::{Error, Result};

/// `CURRENT` is one short line.
const CURRENT_BYTES: u64 = 256;
/// How deep partition directories nest.
const MAX_DEPTH: usize = 16;

/// The generation in force; `None` if the directory holds no table.
pub fn current(disk: &dyn Disk, dir: &TableDir) -> Result<Option<u64>> {
    let path = dir.current();
    match disk.read(&path, CURRENT_BYTES) {
        Ok(bytes) => codec::read_current(&bytes).map(Some).map_err(|error| error.at(path, 0)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the root of a generation.
pub fn read_root(disk: &dyn Disk, dir: &TableDir, generation: u64) -> Result<Root> {
    let path = dir.root(generation);
    let bytes = disk.read(&path, root::MAX_BYTES)?;
    Root::parse(&bytes, generation).map_err(|error| error.at(path, 0))
}

/// Generations whose roots are there, oldest first, none newer than that in force.
pub fn generations(disk: &dyn Disk, dir: &TableDir) -> Result<Vec<u64>> {
    let Some(now) = current(disk, dir)? else { return Ok(Vec::new()) };
    let roots =
        list(disk, &dir.manifest())?.into_iter().filter_map(|entry| match kind(&entry.name) {
            Kind::Root(generation) if generation <= now => Some(generation),
            _ => None,
        });
    let mut generations: Vec<u64> = roots.collect();
    generations.sort_unstable();
    Ok(generations)
}

/// The generation in force, as the holder of the writer's lock sees it: made durable first, for a
/// writer before us may have lost power or heart between the rename of `CURRENT` and the sync of
/// its directory.
pub fn recover(disk: &dyn Disk, dir: &TableDir) -> Result<Option<Root>> {
    let Some(generation) = current(disk, dir)? else {
        return no_generation(disk, dir).map(|()| None);
    };
    let root = read_root(disk, dir, generation);
    // What this build must not write it does not mark.
    if root.as_ref().is_ok_and(|root| root.unknown == 0) {
        mark(disk, dir)?;
    }
    disk.sync_dir(dir.path())?;
    root.map(Some).map_err(|error| match error {
        error if is_missing(&error) => {
            Error::corrupt(0, format!("it names generation {generation}, whose root is missing"))
                .at(dir.current(), 0)
        }
        error => error,
    })
}

/// Without `CURRENT` the table is new, or its first commit was not finished: then its mark is
/// there, which was durable before any root was written. Anything else means that `CURRENT` was
/// lost, and nothing may be swept.
fn no_generation(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    let roots =
        list(disk, &dir.manifest())?.into_iter().filter_map(|entry| match kind(&entry.name) {
            Kind::Root(generation) => Some(generation),
            _ => None,
        });
    // A first commit writes generation 1; the mark may outlive it, for nobody waits until its
    // removal is durable.
    match roots.max() {
        Some(generation) if generation > 1 || !disk.exists(&dir.creating())? => {
            let line =
                String::from_utf8_lossy(&codec::write_current(generation)).trim_end().to_owned();
            let what = format!(
                "it is missing, and manifest/ has generation {generation}: it was lost, and nothing was changed; \
                 restore it, or write the line '{line}' to it to use that generation"
            );
            Err(Error::corrupt(0, what).at(dir.current(), 0))
        }
        _ => Ok(()),
    }
}

/// Makes the mark of a table that needs a sweep, to be made durable before anything else is
/// written. A writer that leaves nothing behind takes it away: as long as all do, none looks
/// through the data files of the table for what may be removed.
fn mark(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    if !disk.exists(&dir.unswept())? {
        disk.create(&dir.unswept())?;
    }
    Ok(())
}

/// Marks the table as one whose first commit is not done, durably, before anything else of it is
/// written. The sweep after that commit removes the mark.
pub fn begin(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    let creating = dir.creating();
    if disk.exists(&creating)? {
        // Whoever made it may not have come to this point.
        disk.sync_file(&creating)?;
    } else {
        durable::write_new(disk, &creating, &[])?;
    }
    mark(disk, dir)?;
    disk.sync_dir(dir.path())
}

/// How much of a table to sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Roots, chunks and the ledger: enough after a commit, whose writer knows what data files it
    /// has taken out of the table. No chunk is opened for it.
    Manifest,
    /// Data files too.
    Everything,
}

/// For how long generations stay that are no longer in force; in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The time, since 1970.
    pub now: u64,
    /// How long after another has taken its place.
    pub keep: u64,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files removed.
    pub files: u64,
    /// Generations freed, whose roots are among those files.
    pub generations: u64,
    /// The oldest generation that is left; 0 without any.
    pub oldest: u64,
}

/// Names of files that live generations need.
#[derive(Debug, Default)]
struct Live {
    chunks: HashSet<Id>,
    ledgers: HashSet<Id>,
    data: HashSet<Id>,
}

/// Frees generations that nobody reads and whose time is over, then removes every file of ours that
/// no live generation names. Only for the holder of the writer's lock, with no transaction open.
pub fn sweep(
    disk: &dyn Disk,
    dir: &TableDir,
    current: Option<&Root>,
    scope: Scope,
    retention: Retention,
) -> Result<Swept> {
    let entries = list(disk, &dir.manifest())?;
    let mut removed = 0;
    let mut live = Live::default();
    let mut roots: Vec<Root> = current.cloned().into_iter().collect();
    let generations = entries.iter().filter_map(|entry| match kind(&entry.name) {
        Kind::Root(generation) => Some(generation),
        _ => None,
    });
    let mut generations: Vec<u64> = generations.collect();
    generations.sort_unstable_by(|a, b| b.cmp(a));
    // From the newest on: what came after a generation says when its time began to run out.
    let mut since = current.map_or(0, |root| root.history.committed);
    for generation in generations {
        let now = current.map_or(0, |root| root.generation);
        if generation == now {
            continue;
        }
        // One beyond that in force was never in force.
        let over = generation > now || since.saturating_add(retention.keep) <= retention.now;
        if over && remove_root(disk, dir, generation)? {
            removed += 1;
        } else {
            let root = read_root(disk, dir, generation)?;
            since = root.history.committed;
            roots.push(root);
        }
    }
    let mut swept = Swept { files: 0, generations: removed, oldest: 0 };
    swept.oldest = roots.iter().map(|root| root.generation).min().unwrap_or(0);
    if removed > 0 {
        // No root may come back that names files which are about to go.
        disk.sync_dir(&dir.manifest())?;
    }
    for root in &roots {
        live.add(disk, dir, root, scope)?;
    }
    for entry in &entries {
        let dead = match kind(&entry.name) {
            Kind::Chunk(id) => !live.chunks.contains(&id),
            Kind::Ledger(id) => !live.ledgers.contains(&id),
            Kind::Temporary => true,
            Kind::Root(_) | Kind::Data(_) | Kind::Creating | Kind::Unswept | Kind::Foreign => false,
        };
        if dead {
            disk.remove(&dir.manifest().join(&entry.name))?;
            removed += 1;
        }
    }
    for entry in list(disk, dir.path())? {
        let dead = match kind(&entry.name) {
            Kind::Temporary => true,
            // Without a generation in force it still means something.
            Kind::Creating => current.is_some(),
            _ => false,
        };
        if dead && !entry.is_dir {
            disk.remove(&dir.path().join(&entry.name))?;
            removed += 1;
        }
    }
    if scope == Scope::Everything {
        sweep_data(disk, &dir.data(), &live, MAX_DEPTH, &mut removed)?;
    }
    Ok(Swept { files: removed, ..swept })
}

/// Removes a root unless a reader holds it. The exclusive lock is kept until the name is gone: a
/// reader that locks the root later sees that it has lost its name, and starts again from
/// `CURRENT`.
fn remove_root(disk: &dyn Disk, dir: &TableDir, generation: u64) -> Result<bool> {
    let path = dir.root(generation);
    let Some(_lock) = disk.try_lock(&path, LockMode::Exclusive)? else { return Ok(false) };
    disk.remove(&path)?;
    Ok(true)
}

impl Live {
    fn add(&mut self, disk: &dyn Disk, dir: &TableDir, root: &Root, scope: Scope) -> Result<()> {
        self.ledgers.extend(root.ledger.files.iter().map(|file| file.id));
        for reference in &root.chunks {
            if self.chunks.insert(reference.id) && scope == Scope::Everything {
                let chunk = commit::open(disk, dir, reference)?;
                let segments =
                    chunk.segments().map_err(|error| error.at(dir.chunk(&reference.id), 0))?;
                self.data.extend(segments.iter().map(|segment| segment.file));
            }
        }
        Ok(())
    }
}

/// Returns whether nothing is left in the directory.
fn sweep_data(
    disk: &dyn Disk,
    dir: &Path,
    live: &Live,
    depth: usize,
    removed: &mut u64,
) -> Result<bool> {
    let mut empty = true;
    for entry in list(disk, dir)? {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            // Somebody else may have put something there.
            let gone = depth > 0
                && sweep_data(disk, &path, live, depth - 1, removed)?
                && disk.remove_dir(&path).is_ok();
            empty &= gone;
            continue;
        }
        let dead = match kind(&entry.name) {
            Kind::Data(id) => !live.data.contains(&id),
            Kind::Temporary => true,
            Kind::Root(_)
            | Kind::Chunk(_)
            | Kind::Ledger(_)
            | Kind::Creating
            | Kind::Unswept
            | Kind::Foreign => false,
        };
        if dead {
            disk.remove(&path)?;
            *removed += 1;
        }
        empty &= dead;
    }
    Ok(empty)
}

/// The entries of a directory that may not be there yet.
fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<Entry>> {
    match disk.list(dir) {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        listed => listed,
    }
}
