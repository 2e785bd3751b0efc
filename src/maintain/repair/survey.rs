//! What is there of a table: which generations and chunks can be read, and which cannot.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::quarantine;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::manifest::{ChunkRef, Id, Root, TableDir, commit, listing, presence, recover};
use crate::store::SegmentEntry;

/// The segments of a chunk, or what is damaged in it.
pub(super) type Listed = Result<Vec<SegmentEntry>>;

/// A generation whose root can be read.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) root: Root,
    /// What its chunks list, in order.
    pub(super) chunks: Vec<Arc<Listed>>,
    /// That its number of rows is not the sum of its chunks'. Only the newest may have that.
    pub(super) false_total: Option<String>,
}

impl Generation {
    /// Whether all of its chunks can be read.
    pub(super) fn is_whole(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.is_ok())
    }

    /// The segments of the chunks that can be read.
    pub(super) fn segments(&self) -> impl Iterator<Item = &SegmentEntry> {
        self.chunks.iter().filter_map(|chunk| chunk.as_ref().as_ref().ok()).flatten()
    }

    /// The files of these segments.
    pub(super) fn files(&self) -> HashSet<Id> {
        self.segments().map(|segment| segment.file).collect()
    }
}

/// What is there of a table.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The generation that `CURRENT` names; `None` if it is lost or damaged.
    pub(super) current: Option<u64>,
    /// The generations that can be read, newest first, none above the one in force.
    pub(super) readable: Vec<Generation>,
    /// The greatest generation that any file names, or that a repair meant to commit.
    pub(super) greatest: u64,
    /// Whether a root cannot be read.
    pub(super) lost_root: bool,
    /// What is wrong.
    pub(super) notes: Vec<String>,
    /// `CURRENT` and roots that are of no use.
    pub(super) useless: Vec<PathBuf>,
}

impl Survey {
    pub(super) fn new(disk: &dyn Disk, dir: &TableDir) -> Result<Survey> {
        let mut survey = Survey::default();
        match presence::read_current(disk, dir) {
            Ok(Some(generation)) => survey.current = Some(generation),
            Ok(None) => survey.notes.push("CURRENT is missing".to_owned()),
            Err(error) => survey.give_up(error, dir.current())?,
        }
        let roots = listing::roots(disk, dir)?;
        let first = if survey.current.is_none() { presence::begun(disk, dir)? } else { None };
        if first.is_some_and(|first| roots.iter().all(|generation| *generation <= first)) {
            return Err(Error::NotFound(format!(
                "the first commit of table '{}' was never finished; there is nothing to repair",
                dir.name()
            )));
        }
        // A repair that was stopped may have moved the newest root away. Sessions know tables by
        // their generations, so that none may ever get the number of another.
        let named = roots.last().copied().max(survey.current).unwrap_or(0);
        survey.greatest = named.max(quarantine::greatest(disk, dir)?);
        let mut known = HashMap::new();
        for generation in roots.into_iter().rev() {
            if survey.current.is_some_and(|current| generation > current) {
                survey.notes.push(format!("generation {generation} never came into force"));
                survey.useless.push(dir.root(generation));
                continue;
            }
            let read = recover::read_root_with_any_total(disk, dir, generation).and_then(|root| {
                // Rows of the newest are counted anew; an older one is given up.
                match root.check_total().map_err(|error| error.in_file(dir.root(generation), 0)) {
                    Ok(()) => Ok((root, None)),
                    Err(error) if survey.readable.is_empty() => Ok((root, Some(error.to_string()))),
                    Err(error) => Err(error),
                }
            });
            match read {
                Ok((root, false_total)) => {
                    let chunks = chunks(disk, dir, &root, &mut known)?;
                    survey.readable.push(Generation { root, chunks, false_total });
                }
                // Without CURRENT the table is damaged, whatever keeps a root from being read.
                Err(error) if survey.current.is_none() && !error.is_damage() => {
                    let what = format!(
                        "it is lost, and generation {generation} cannot be read: {error}; once it \
                         can, or its root is moved away, sty repair goes on"
                    );
                    return Err(Error::corrupt(0, what).in_file(dir.current(), 0));
                }
                Err(error) => {
                    survey.give_up(error, dir.root(generation))?;
                    survey.lost_root = true;
                }
            }
        }
        Ok(survey)
    }

    /// Gives up a damaged file. Another error tells nothing of the file and is returned.
    fn give_up(&mut self, error: Error, path: PathBuf) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        self.notes.push(error.to_string());
        self.useless.push(path);
        Ok(())
    }
}

/// What a chunk is known by: generations share chunks.
type Key = (Id, u64, u32, u32, u64);

/// What the chunks of a root list. Each is read once.
fn chunks(
    disk: &dyn Disk,
    dir: &TableDir,
    root: &Root,
    known: &mut HashMap<Key, Arc<Listed>>,
) -> Result<Vec<Arc<Listed>>> {
    let mut chunks = Vec::with_capacity(root.chunks.len());
    for reference in &root.chunks {
        let ChunkRef { id, length, crc, segments, rows, .. } = reference;
        let key = (*id, *length, *crc, *segments, *rows);
        let listed = match known.get(&key) {
            Some(listed) => Arc::clone(listed),
            None => {
                let listed = Arc::new(list(disk, dir, reference)?);
                known.insert(key, Arc::clone(&listed));
                listed
            }
        };
        chunks.push(listed);
    }
    Ok(chunks)
}

fn list(disk: &dyn Disk, dir: &TableDir, reference: &ChunkRef) -> Result<Listed> {
    let read = commit::open(disk, dir, reference).and_then(|chunk| {
        chunk.verify(reference)?;
        chunk.segments()
    });
    match read.map_err(|error| error.in_file(dir.chunk(&reference.id), 0)) {
        Err(error) if !error.is_damage() => Err(error),
        listed => Ok(listed),
    }
}
