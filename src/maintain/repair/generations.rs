//! Which generations and chunks there are, and which of them can be read.

use crate::disk::{Disk, is_missing};
use crate::error::{Error, Result};
use crate::manifest::layout::{FileKind, file_kind};
use crate::manifest::{ChunkRef, Root, TableDir, commit};

/// The errno of a device that cannot read a sector.
const EIO: i32 = 5;

/// Whether an error says that bytes are damaged or gone, and not that they may not be read.
pub(super) fn is_damage(error: &Error) -> bool {
    let unreadable =
        matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(EIO));
    matches!(error, Error::Corrupt { .. }) || unreadable || is_missing(error)
}

/// The generations that have a root, newest first.
pub(super) fn roots(disk: &dyn Disk, dir: &TableDir) -> Result<Vec<u64>> {
    let entries = match disk.list(&dir.manifest()) {
        Err(error) if is_missing(&error) => Vec::new(),
        listed => listed?,
    };
    let mut generations: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match file_kind(&entry.name) {
            FileKind::Root(generation) => Some(generation),
            _ => None,
        })
        .collect();
    generations.sort_unstable_by(|a, b| b.cmp(a));
    Ok(generations)
}

/// The chunks of a root that cannot be read.
pub(super) fn broken_chunks(
    disk: &dyn Disk,
    dir: &TableDir,
    root: &Root,
) -> Result<Vec<(ChunkRef, Error)>> {
    let mut broken = Vec::new();
    for reference in &root.chunks {
        let path = dir.chunk(&reference.id);
        let read = commit::open(disk, dir, reference).and_then(|chunk| chunk.verify(reference));
        match read.map_err(|error| error.in_file(&path, 0)) {
            Ok(()) => {}
            Err(error) if is_damage(&error) => broken.push((reference.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    Ok(broken)
}
