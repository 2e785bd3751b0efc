//! Moves files out of a table's way, into a folder of its directory `damaged/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, durable};
use crate::error::Result;
use crate::manifest::{TableDir, listing};

/// What the name of a folder begins with; the generation follows that the repair commits.
const FOLDER: &str = "generation-";

/// The folder for what is moved before this generation is committed.
pub(super) fn folder(dir: &TableDir, generation: u64) -> PathBuf {
    dir.damaged().join(format!("{FOLDER}{generation}"))
}

/// The generations with a folder.
fn folders(disk: &dyn Disk, dir: &TableDir) -> Result<Vec<u64>> {
    let entries = listing::list(disk, &dir.damaged())?;
    let named = |name: &str| name.strip_prefix(FOLDER)?.parse::<u64>().ok();
    Ok(entries.iter().filter_map(|entry| named(&entry.name)).collect())
}

/// The greatest generation with a folder, which is above all that were there when it was made; 0 if
/// there is no folder.
pub(super) fn greatest(disk: &dyn Disk, dir: &TableDir) -> Result<u64> {
    Ok(folders(disk, dir)?.into_iter().max().unwrap_or(0))
}

/// Makes durable what a repair has moved that was stopped: power may not bring it back after the
/// table is repaired, and into the way of the next sweep. Its folder is not below `current`, the
/// generation in force.
pub(super) fn settle(disk: &dyn Disk, dir: &TableDir, current: u64) -> Result<()> {
    let unfinished = folders(disk, dir)?.into_iter().filter(|generation| *generation >= current);
    let mut dirs: Vec<(PathBuf, PathBuf)> =
        unfinished.map(|generation| (folder(dir, generation), dir.path().into())).collect();
    // A folder has the same directories as the table.
    while let Some((to, from)) = dirs.pop() {
        disk.sync_dir(&to)?;
        if disk.exists(&from)? {
            disk.sync_dir(&from)?;
        }
        let within = listing::list(disk, &to)?.into_iter().filter(|entry| entry.is_dir);
        let dirs_within = within.map(|entry| (to.join(&entry.name), from.join(&entry.name)));
        // A link that leads back to itself was moved like any file.
        let is_loop = |path: &Path| disk.len(path).is_err_and(|error| error.is_damage());
        dirs.extend(dirs_within.filter(|(to, _)| !is_loop(to)));
    }
    Ok(())
}

/// Moves files, durably.
pub(super) fn move_all(disk: &dyn Disk, moves: &[(PathBuf, PathBuf)]) -> Result<()> {
    let (mut from_dirs, mut to_dirs): (BTreeSet<&Path>, BTreeSet<&Path>) = Default::default();
    for (from, to) in moves {
        durable::create_dir(disk, durable::parent(to))?;
        disk.rename(from, to)?;
        from_dirs.insert(durable::parent(from));
        to_dirs.insert(durable::parent(to));
    }
    // The new names first: no file may be without any.
    to_dirs.into_iter().chain(from_dirs).try_for_each(|dir| disk.sync_dir(dir))
}
