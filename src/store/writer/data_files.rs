//! Data files that are being written, and what a commit has to make durable.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cleanup::abandon;
use super::commit;
use crate::disk::{Disk, DiskFile, is_missing};
use crate::error::{Error, Result};
use crate::manifest::layout::{check_partition, new_id};
use crate::manifest::{Id, TableDir};

/// If more files than this are not durable, one sync of the file system replaces syncs of each.
const FILES_TO_SYNC: usize = 16;

/// Makes the data files of one transaction; clones share it, and threads may use it concurrently.
#[derive(Clone, Debug)]
pub struct DataFiles {
    dir: TableDir,
    disk: Arc<dyn Disk>,
    written: Arc<Mutex<Uncommitted>>,
    /// Directories that the writer has made for the table, inner ones first.
    made_dirs: Arc<[PathBuf]>,
}

#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    /// The partition of each file made since the last commit.
    pub(super) made: HashMap<Id, Arc<str>>,
    /// Files whose bytes may not be durable.
    pub(super) unsynced: BTreeSet<PathBuf>,
    /// Directories whose entries may not be durable.
    dirs: BTreeSet<PathBuf>,
    /// Bytes written since the last commit.
    pub(super) bytes: u64,
}

impl DataFiles {
    pub(crate) fn new(dir: TableDir, disk: Arc<dyn Disk>) -> Self {
        DataFiles { dir, disk, written: Arc::default(), made_dirs: Arc::default() }
    }

    /// The same of a writer that has made these directories for the table, inner ones first: they
    /// go with it if it is never committed.
    #[must_use]
    pub(super) fn within(self, made_dirs: Vec<PathBuf>) -> Self {
        DataFiles { made_dirs: made_dirs.into(), ..self }
    }

    /// A new file outside any partition.
    pub fn create(&self) -> Result<DataFile> {
        self.create_in("")
    }

    /// A new file of a partition, given as a relative path such as `year=2015/month=1`.
    pub fn create_in(&self, partition: &str) -> Result<DataFile> {
        self.create_as(partition, new_id())
    }

    /// A new file of a partition, under an identifier that nothing else has.
    pub(crate) fn create_as(&self, partition: &str, uuid: Id) -> Result<DataFile> {
        check_partition(partition)?;
        if commit::are_forbidden() {
            return Err(Error::Cancelled);
        }
        if !partition.is_empty() {
            self.disk.create_dir_all(&self.dir.partition(partition))?;
        }
        let path = self.dir.data_file(partition, &uuid);
        {
            let mut written = self.lock();
            written.made.insert(uuid, Arc::from(partition));
            written.unsynced.insert(path.clone());
            let data = self.dir.data();
            let up = path.ancestors().skip(1).take_while(|dir| dir.starts_with(&data));
            written.dirs.extend(up.map(PathBuf::from));
        }
        let file = self.disk.create(&path)?;
        Ok(DataFile { uuid, path, file, written: Arc::clone(&self.written) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Uncommitted> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that were made since the last commit.
    pub(crate) fn made(&self) -> HashSet<Id> {
        self.lock().made.keys().copied().collect()
    }

    /// Removes the files made since the last commit, except `kept`; best effort.
    pub(crate) fn discard_all_but(&self, kept: &HashSet<Id>) {
        let mut written = self.lock();
        let others: Vec<_> = written.made.extract_if(|file, _| !kept.contains(file)).collect();
        for (file, partition) in others {
            let path = self.dir.data_file(&partition, &file);
            written.unsynced.remove(&path);
            let _ = self.disk.remove(&path);
        }
    }

    /// Removes the files again that no commit has named, best effort.
    pub(crate) fn discard(&self) {
        for path in std::mem::take(&mut *self.lock()).made_paths(&self.dir) {
            let _ = self.disk.remove(&path);
        }
    }

    /// Removes the table, whose first commit is not done, best effort: a thread that was about to
    /// make a file may still do so.
    pub(super) fn abandon(&self) {
        for _ in 0..5 {
            match self.abandon_now() {
                Err(error) if !is_missing(&error) => std::thread::sleep(Duration::from_millis(2)),
                _ => return,
            }
        }
    }

    /// Removes the table, whose first commit is not done, and directories that were made for it, if
    /// nothing else is in them.
    pub(super) fn abandon_now(&self) -> Result<()> {
        abandon(&*self.disk, &self.dir)?;
        let outer = self.made_dirs.iter().filter(|dir| dir.as_path() != self.dir.path());
        for dir in outer {
            if self.disk.remove_dir(dir).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Makes every file and its directory entry durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut written = self.lock();
        let everything =
            written.unsynced.len() > FILES_TO_SYNC && self.disk.sync_fs(&self.dir.data())?;
        if !everything {
            for path in &written.unsynced {
                self.disk.sync_file(path)?;
            }
            for dir in &written.dirs {
                self.disk.sync_dir(dir)?;
            }
        }
        written.unsynced.clear();
        written.dirs.clear();
        Ok(())
    }
}

impl Uncommitted {
    fn made_paths(&self, dir: &TableDir) -> Vec<PathBuf> {
        self.made.iter().map(|(file, partition)| dir.data_file(partition, file)).collect()
    }
}

/// A data file being written. Its segments become visible when they are committed.
#[derive(Debug)]
pub struct DataFile {
    pub(super) uuid: Id,
    pub(super) path: PathBuf,
    file: Box<dyn DiskFile>,
    written: Arc<Mutex<Uncommitted>>,
}

impl DataFile {
    /// The identifier by which a [`NewSegment`] refers to the file.
    pub fn uuid(&self) -> Id {
        self.uuid
    }

    /// The path of the file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Appends bytes.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.unsynced.insert(self.path.clone());
            written.bytes += bytes.len() as u64;
        }
        self.file.write_all(bytes)
    }

    /// Makes the bytes durable now, on the caller's thread, instead of in the commit.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).unsynced.remove(&self.path);
        Ok(())
    }
}
