//! Files that are complete or do not exist: write, fsync, rename, fsync the directory.

use std::path::{Path, PathBuf};

use super::Disk;
use crate::error::Result;

/// The suffix of files that were not renamed to their final names yet; sweeps remove such files.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Writes a new file and makes its bytes durable. Its name becomes durable with the next sync of
/// the directory.
pub(crate) fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = disk.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}

/// Replaces a file, atomically: after a crash it has its old or its new contents. It is the new
/// ones for certain once the directory is synced, which is left to the caller: if that fails, the
/// file is replaced all the same.
pub(crate) fn swap(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary_name(path);
    let written = write_new(disk, &temporary, bytes).and_then(|()| disk.rename(&temporary, path));
    if let Err(error) = written {
        // Best effort; otherwise the next writer sweeps it.
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    Ok(())
}

/// Replaces a file, atomically and durably.
#[cfg(test)]
pub(crate) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    swap(disk, path, bytes)?;
    disk.sync_dir(parent(path))
}

/// Creates a directory and its missing ancestors, and makes their names durable. Returns those that
/// were missing, inner ones first.
pub(crate) fn create_dir(disk: &dyn Disk, path: &Path) -> Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    let mut at = Some(path);
    while let Some(dir) = at.filter(|dir| !dir.as_os_str().is_empty()) {
        if disk.exists(dir)? {
            break;
        }
        missing.push(dir.to_path_buf());
        at = dir.parent();
    }
    disk.create_dir_all(path)?;
    for dir in &missing {
        disk.sync_dir(parent(dir))?;
    }
    Ok(missing)
}

/// The directory that holds `path`; `.` for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", uuid::Uuid::now_v7().simple()));
    name.push(TEMPORARY);
    PathBuf::from(name)
}
