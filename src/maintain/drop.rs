//! Drops a table, or puts another one in its place.
//!
//! A table that is dropped gets a hidden name in its store, durably; then its files are removed.
//! What a crash leaves of it under that name is removed by the next drop. Nobody reads it
//! meanwhile: the locks of all its generations are held.
//!
//! A table that is replaced gets another hidden name, which nothing but its own replacement
//! removes: a crash between the two renames leaves both tables under hidden names.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::disk::{Disk, Lock, LockMode};
use crate::error::{Error, Result};
#[cfg(feature = "sql")]
use crate::store::TableWriter;
use crate::store::{Store, Table};

/// How the hidden names begin.
const DROPPED: &str = ".dropped-";
#[cfg(feature = "sql")]
const NEW: &str = ".new-";
#[cfg(feature = "sql")]
const REPLACED: &str = ".replaced-";

/// Drops a table with all its generations. An error if another process reads or writes it.
pub fn drop_table(store: &Store, name: &str) -> Result<()> {
    let table = store.table(name)?;
    let _writer = table.writer(None)?;
    let locks = lock_generations(&table)?;
    let hidden = hidden(store, DROPPED);
    table.disk().rename(table.path(), &hidden)?;
    table.disk().sync_dir(store.path())?;
    remove_dropped(store, table.disk());
    drop(locks);
    Ok(())
}

/// A table under a hidden name, which is to replace another one.
#[cfg(feature = "sql")]
pub(crate) fn replacement(store: &Store) -> Table {
    store.table_in(hidden(store, NEW))
}

/// Puts a new table in the place of one, whose writer is held since before the new one was begun:
/// nobody has added rows that would go with the old one.
#[cfg(feature = "sql")]
pub(crate) fn replace_table(
    store: &Store,
    table: &Table,
    _: TableWriter,
    new: &Table,
) -> Result<()> {
    let locks = lock_generations(table)?;
    let hidden = hidden(store, REPLACED);
    let disk = table.disk();
    disk.rename(table.path(), &hidden)?;
    if let Err(error) = disk.rename(new.path(), table.path()) {
        // The old one is whole.
        disk.rename(&hidden, table.path())?;
        return Err(error);
    }
    disk.sync_dir(store.path())?;
    let _ = remove_all(disk, &hidden);
    drop(locks);
    Ok(())
}

/// Removes a new table that is to replace none, best effort.
#[cfg(feature = "sql")]
pub(crate) fn abandon(new: &Table) {
    let _ = remove_all(new.disk(), new.path());
}

/// Keeps everyone from reading a table.
fn lock_generations(table: &Table) -> Result<Vec<Lock>> {
    let mut locks = Vec::new();
    for generation in table.generations()? {
        match table.disk().try_lock(&table.dir().root(generation), LockMode::Exclusive)? {
            Some(lock) => locks.push(lock),
            None => {
                return Err(Error::InvalidInput(format!(
                    "table '{}' is being read; it can be dropped when those queries have ended",
                    table.name()
                )));
            }
        }
    }
    Ok(locks)
}

fn hidden(store: &Store, prefix: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    store.path().join(format!("{prefix}{}-{}", std::process::id(), now.as_nanos()))
}

/// Removes what was dropped, best effort.
fn remove_dropped(store: &Store, disk: &dyn Disk) {
    for entry in disk.list(store.path()).unwrap_or_default() {
        if entry.is_dir && entry.name.starts_with(DROPPED) {
            let _ = remove_all(disk, &store.path().join(&entry.name));
        }
    }
}

fn remove_all(disk: &dyn Disk, dir: &Path) -> Result<()> {
    for entry in disk.list(dir)? {
        let path = dir.join(&entry.name);
        match entry.is_dir {
            true => remove_all(disk, &path)?,
            false => disk.remove(&path)?,
        }
    }
    disk.remove_dir(dir)
}
