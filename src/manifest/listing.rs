//! The files of a table, as its directories list them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::layout::{FileKind, file_kind};
use super::{Id, TableDir};
use crate::disk::{Disk, Entry, is_missing};
use crate::error::Result;

/// How deep partition directories nest.
pub(super) const MAX_DEPTH: usize = 16;

/// The entries of a directory, which may not exist yet.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<Entry>> {
    match disk.list(dir) {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        listed => listed,
    }
}

/// The generations that have a root, oldest first, whether they were ever in force or not.
pub(crate) fn roots(disk: &dyn Disk, dir: &TableDir) -> Result<Vec<u64>> {
    Ok(roots_among(&list(disk, &dir.manifest())?))
}

/// The generations that have a root among the entries of `manifest/`, oldest first.
pub(super) fn roots_among(entries: &[Entry]) -> Vec<u64> {
    let mut generations: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match file_kind(&entry.name) {
            FileKind::Root(generation) => Some(generation),
            _ => None,
        })
        .collect();
    generations.sort_unstable();
    generations
}

/// What looks at the path and the identifier of a segment file, and says whether to go on.
pub(crate) type Visit<'a> = dyn FnMut(PathBuf, Id) -> ControlFlow<()> + 'a;

/// Visits the segment files in `data/` and in the partitions below it. Other directories
/// are skipped, since a store may have a table called `data`.
pub(crate) fn data_files(disk: &dyn Disk, dir: &TableDir, visit: &mut Visit<'_>) -> Result<()> {
    walk(disk, &dir.data(), MAX_DEPTH, visit).map(|_| ())
}

fn walk(
    disk: &dyn Disk,
    dir: &Path,
    depth: usize,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>> {
    for entry in list(disk, dir)? {
        let path = dir.join(&entry.name);
        let flow = match file_kind(&entry.name) {
            FileKind::Data(id) if !entry.is_dir => visit(path, id),
            _ if entry.is_dir && depth > 0 && entry.name.contains('=') => {
                walk(disk, &path, depth - 1, visit)?
            }
            _ => ControlFlow::Continue(()),
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}
