//! Moves files out of a table's way, and finds segment files that no readable root names.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::generations::{broken_chunks, roots};
use crate::disk::{Disk, durable, is_missing};
use crate::error::Result;
use crate::manifest::layout::{FileKind, file_kind};
use crate::manifest::{Id, TableDir, commit, recover};

/// How deep partition directories nest.
const MAX_DEPTH: usize = 16;

/// Segment files that no root names which can be read: with the metadata that named them they would
/// be removed by the next sweep.
pub(super) fn unnamed(disk: &dyn Disk, dir: &TableDir) -> Result<Vec<PathBuf>> {
    let mut named: HashSet<Id> = HashSet::new();
    for generation in roots(disk, dir)? {
        let Ok(root) = recover::read_root(disk, dir, generation) else { continue };
        let broken = broken_chunks(disk, dir, &root)?;
        for reference in &root.chunks {
            if broken.iter().any(|(other, _)| other.id == reference.id) {
                continue;
            }
            let segments = commit::open(disk, dir, reference)?.segments()?;
            named.extend(segments.iter().map(|segment| segment.file));
        }
    }
    let mut found = Vec::new();
    search(disk, &dir.data(), MAX_DEPTH, &named, &mut found)?;
    Ok(found)
}

fn search(
    disk: &dyn Disk,
    dir: &Path,
    depth: usize,
    named: &HashSet<Id>,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    let entries = match disk.list(dir) {
        Err(error) if is_missing(&error) => return Ok(()),
        listed => listed?,
    };
    for entry in entries {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            if depth > 0 {
                search(disk, &path, depth - 1, named, found)?;
            }
        } else if matches!(file_kind(&entry.name), FileKind::Data(id) if !named.contains(&id)) {
            found.push(path);
        }
    }
    Ok(())
}

/// Moves files, durably.
pub(super) fn move_all(disk: &dyn Disk, moves: &[(PathBuf, PathBuf)]) -> Result<()> {
    let mut dirs: BTreeSet<&Path> = BTreeSet::new();
    for (from, to) in moves {
        durable::create_dir(disk, durable::parent(to))?;
        disk.rename(from, to)?;
        dirs.extend([durable::parent(from), durable::parent(to)]);
    }
    dirs.into_iter().try_for_each(|dir| disk.sync_dir(dir))
}
