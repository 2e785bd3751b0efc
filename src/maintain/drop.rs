//! Drops a table, or puts another one in its place.
//!
//! A table that is dropped gets a hidden name in its store, durably; then its files are removed.
//! What a crash leaves of it under that name is removed by the next drop. Nobody reads it
//! meanwhile: the locks of all its generations are held.
//!
//! A new table that is to replace one is written under a hidden name, and the two exchange their
//! names at once. What a crash leaves of either is removed by the next statement that replaces or
//! drops the table, whose writer it holds. Where the file system cannot exchange names, there are
//! two renames; [`restore_replaced`] takes back the first if a crash came before the second.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::disk::{Disk, Lock, LockMode};
use crate::error::{Error, Result};
use crate::store::{Store, Table, TableWriter};

/// How the hidden names begin: of what was dropped, of what is to replace a table, and of what has
/// been replaced. The name of the table follows in the last two.
const DROPPED: &str = ".dropped-";
const NEW: &str = ".new-";
const REPLACED: &str = ".replaced-";

const MOST_OF_NAME: usize = 200;

/// The pause between two looks whether a table is still read.
const PAUSE: Duration = Duration::from_millis(20);

/// Drops a table with all its generations. An error if another process reads or writes it.
pub fn drop_table(store: &Store, name: &str) -> Result<()> {
    let table = store.table(name)?;
    let writer = table.writer(None)?;
    Dropping::begin(store, &table, writer, Duration::ZERO, || ())?.finish()
}

/// A table that nobody reads or writes until it is dropped. It stays if this is dropped before.
#[derive(Debug)]
pub(crate) struct Dropping<'s> {
    store: &'s Store,
    table: &'s Table,
    writer: TableWriter,
    locks: Vec<Lock>,
}

impl<'s> Dropping<'s> {
    /// Locks a table, whose writer the caller holds. An error if somebody still reads it after
    /// this long; `close` closes it where this process has it open.
    pub(crate) fn begin(
        store: &'s Store,
        table: &'s Table,
        writer: TableWriter,
        patience: Duration,
        close: impl Fn(),
    ) -> Result<Dropping<'s>> {
        let begun = Instant::now();
        loop {
            close();
            match lock_generations(table) {
                Ok(locks) => return Ok(Dropping { store, table, writer, locks }),
                Err(Error::InvalidInput(_)) if begun.elapsed() < patience => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Drops it.
    pub(crate) fn finish(self) -> Result<()> {
        let Dropping { store, table, mut writer, locks } = self;
        let hidden = hidden(store, DROPPED, "");
        table.disk().rename(table.path(), &hidden)?;
        writer.has_moved();
        table.disk().sync_dir(store.path())?;
        remove_hidden(store, table.disk(), DROPPED, "");
        remove_leftovers(store, table);
        drop((locks, writer));
        Ok(())
    }
}

/// A table under a hidden name, which is to replace another one, whose writer is held.
#[cfg(feature = "sql")]
pub(crate) fn replacement(store: &Store, table: &Table) -> Table {
    remove_leftovers(store, table);
    store.table_in(hidden(store, NEW, table.name()))
}

/// Puts a new table in the place of one, whose writer is held since before the new one was begun:
/// nobody has added rows that would go with the old one.
#[cfg(feature = "sql")]
pub(crate) fn replace_table(
    store: &Store,
    table: &Table,
    mut writer: TableWriter,
    new: &Table,
) -> Result<()> {
    let locks = lock_generations(table)?;
    let disk = table.disk();
    let mut old = new.path().to_path_buf();
    writer.has_moved();
    if !disk.exchange(new.path(), table.path())? {
        if short(table.name()) != table.name() {
            return Err(Error::Unsupported(format!(
                "this file system cannot replace a table whose name has more than {MOST_OF_NAME} \
                 bytes"
            )));
        }
        old = hidden(store, REPLACED, table.name());
        disk.rename(table.path(), &old)?;
        if let Err(error) = disk.rename(new.path(), table.path()) {
            // The old one is whole.
            disk.rename(&old, table.path())?;
            return Err(error);
        }
    }
    disk.sync_dir(store.path())?;
    let _ = remove_all(disk, &old);
    drop((locks, writer));
    Ok(())
}

/// Gives tables their names back whose replacement a crash has ended between two renames.
#[cfg(feature = "sql")]
pub(crate) fn restore_replaced(store: &Store) -> Result<()> {
    let Ok(entries) = store.disk().list(store.path()) else { return Ok(()) };
    for entry in entries {
        let Some(name) = entry.name.strip_prefix(REPLACED).and_then(table_of) else { continue };
        let (table, hidden) = (store.table(name)?, store.table_in(store.path().join(&entry.name)));
        if store.disk().exists(table.path())? {
            continue;
        }
        // Between its renames, a replacement holds the lock.
        if let Ok(mut writer) = hidden.writer(None) {
            writer.has_moved();
            store.disk().rename(hidden.path(), table.path())?;
            store.disk().sync_dir(store.path())?;
        }
    }
    Ok(())
}

/// Removes what crashes have left of replacements of a table, whose writer is held: none is under
/// way.
fn remove_leftovers(store: &Store, table: &Table) {
    for prefix in [NEW, REPLACED] {
        remove_hidden(store, table.disk(), prefix, table.name());
    }
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

fn hidden(store: &Store, prefix: &str, table: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (id, now, table) = (std::process::id(), now.as_nanos(), short(table));
    store.path().join(format!("{prefix}{id}-{now}-{table}"))
}

/// As much of a table's name as a hidden name has room for.
fn short(table: &str) -> &str {
    table.get(..table.floor_char_boundary(MOST_OF_NAME)).unwrap_or_default()
}

/// The table of a hidden name without its prefix.
fn table_of(rest: &str) -> Option<&str> {
    rest.splitn(3, '-').nth(2)
}

/// Removes what is under hidden names of a table, best effort.
fn remove_hidden(store: &Store, disk: &dyn Disk, prefix: &str, table: &str) {
    for entry in disk.list(store.path()).unwrap_or_default() {
        let of = entry.name.strip_prefix(prefix).map(|rest| table_of(rest).unwrap_or_default());
        if entry.is_dir && of == Some(short(table)) {
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
