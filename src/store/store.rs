//! The directory of tables.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::outside::enclosing_table;
use super::{Caches, Table};
#[cfg(feature = "sql")]
use crate::budget::Budget;
use crate::disk::{Disk, Io, LockWait, RealDisk, is_missing};
use crate::error::{Error, Result};
use crate::limits;
use crate::manifest::{TableDir, presence};

/// A store; clones share its caches.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    caches: Arc<Caches>,
    wait: LockWait,
    /// Set once it is known that the directory is not that of a table.
    is_none_of_table: Arc<OnceLock<()>>,
}

impl Store {
    /// The store in a local directory. Nothing is read yet, and the directory need not exist.
    pub fn open(path: impl Into<PathBuf>) -> Store {
        Store::open_with(Arc::new(RealDisk), path)
    }

    /// The store in a directory of `disk`.
    pub(crate) fn open_with(disk: Arc<dyn Disk>, path: impl Into<PathBuf>) -> Store {
        Store {
            path: path.into(),
            disk,
            caches: Arc::default(),
            wait: LockWait::default(),
            is_none_of_table: Arc::default(),
        }
    }

    /// The same store; decoding refuses to hold more than `bytes` of memory at a time, which is
    /// 70 % of the machine's or of the cgroup's unless this is called. A session over the store
    /// replaces it by its own limit.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Store {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.caches.budget.connect(bytes, None);
        self.caches.known_rows.within(bytes);
        self
    }

    /// The same store, whose data files are read in another way from now on.
    #[must_use]
    pub fn with_io(self, io: Io) -> Store {
        self.set_io(io);
        self
    }

    /// The same store, whose writers wait for those of other processes.
    #[must_use]
    pub fn with_wait(self, wait: LockWait) -> Store {
        Store { wait, ..self }
    }

    /// How writers wait for those of other processes.
    pub(crate) fn wait(&self) -> &LockWait {
        &self.wait
    }

    /// Keeps rows that are known to meet conditions in a part of this memory.
    #[cfg(feature = "sql")]
    pub(crate) fn keep_known_rows_within(&self, memory: usize) {
        self.caches.known_rows.within(memory);
    }

    /// Reads data files in another way from now on.
    pub(crate) fn set_io(&self, io: Io) {
        self.caches.segments.clear();
        self.caches.mappings.set_io(io);
    }

    /// What decoding is charged to.
    #[cfg(feature = "sql")]
    pub(crate) fn budget(&self) -> &Budget {
        &self.caches.budget
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory exists.
    pub fn exists(&self) -> Result<bool> {
        self.disk.exists(&self.path)
    }

    /// Refuses a path that is, or is inside, the directory of a table: dropping either table would
    /// remove files of the other.
    fn check_path(&self) -> Result<()> {
        if self.is_none_of_table.get().is_some() {
            return Ok(());
        }
        if let Some(table) = enclosing_table(&self.path)? {
            let (path, store) = (self.path.display(), table.parent().unwrap_or(&table).display());
            let table = table.display();
            return Err(Error::InvalidInput(format!(
                "'{path}' is no store: it belongs to the table {table}, whose store is {store}"
            )));
        }
        let () = self.is_none_of_table.get_or_init(|| ());
        Ok(())
    }

    /// The names of the tables, sorted. A damaged one is among them, as is a directory of which the
    /// system does not tell whether it is a table: opening it says what is wrong.
    pub fn tables(&self) -> Result<Vec<String>> {
        self.check_path()?;
        let entries = self.disk.list(&self.path).map_err(|error| match error {
            error if is_missing(&error) => {
                Error::NotFound(format!("there is no store at '{}'", self.path.display()))
            }
            error => error,
        })?;
        let mut tables = Vec::new();
        for entry in entries {
            let named = entry.is_dir && check_name(&entry.name).is_ok();
            if named && !matches!(presence::current(&*self.disk, &self.dir(&entry.name)), Ok(None))
            {
                tables.push(entry.name);
            }
        }
        Ok(tables)
    }

    /// The names, sorted, under which first loads have begun and not ended: they run, or were
    /// killed.
    pub fn begun(&self) -> Result<Vec<String>> {
        let mut begun = Vec::new();
        for entry in self.disk.list(&self.path)? {
            if entry.is_dir
                && check_name(&entry.name).is_ok()
                && matches!(self.table(&entry.name)?.is_begun(), Ok(true))
            {
                begun.push(entry.name);
            }
        }
        Ok(begun)
    }

    /// A table by name; it need not exist yet.
    pub fn table(&self, name: &str) -> Result<Table> {
        check_name(name)?;
        self.check_path()?;
        Ok(self.at(self.dir(name)))
    }

    /// Where it is.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// A table in a directory of the store, whose name may be hidden.
    #[cfg(feature = "sql")]
    pub(crate) fn table_in(&self, path: PathBuf) -> Table {
        self.at(TableDir::new(path))
    }

    /// Whether there is a table of this name; an error if it is damaged.
    pub fn has_table(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        Ok(presence::current(&*self.disk, &self.dir(name))?.is_some())
    }

    /// Removes the directory if nothing is in it, best effort.
    #[cfg(feature = "sql")]
    pub(crate) fn remove_empty(&self) {
        let _ = self.disk.remove_dir(&self.path);
    }

    fn at(&self, dir: TableDir) -> Table {
        let (disk, caches) = (Arc::clone(&self.disk), Arc::clone(&self.caches));
        Table::new(dir, disk, caches, self.wait.clone())
    }

    fn dir(&self, name: &str) -> TableDir {
        TableDir::new(self.path.join(name))
    }
}

/// Refuses names that a table cannot have: a table is a directory, and not a hidden one.
pub fn check_name(name: &str) -> Result<()> {
    let long = name.is_empty() || name.len() > limits::MAX_TABLE_NAME_BYTES;
    if long || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
        return Err(Error::InvalidInput(format!(
            "'{name}' is not a table name: 1 to {} bytes, no '/' and no '.' at the start",
            limits::MAX_TABLE_NAME_BYTES
        )));
    }
    Ok(())
}
