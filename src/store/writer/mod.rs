//! The only writer of a table: it makes new data files, then commits them.
//!
//! This file opens tables for writing; `data_files.rs` writes data files, `commit.rs` commits them,
//! `adopt.rs` puts a generation in force that was made elsewhere, `cleanup.rs` removes files that
//! are not needed any more, and `begun.rs` those of writers in the middle when the process ends
//! itself.
//!
//! **A table knows its write amplification.** Every byte that a writer puts into a file is counted
//! here, and the root keeps two sums over the table's life: what loads wrote as rows came in, and
//! all that was written, with merges, sorted runs, rewritten segments and the manifest itself.

#[cfg(feature = "cluster")]
mod adopt;
mod begun;
mod cleanup;
mod commit;
mod data_files;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use self::begun::Begun;
pub use self::begun::remove_uncommitted;
pub(super) use self::cleanup::abandon;
pub(crate) use self::commit::missing_value;
pub use self::commit::{commits_ended, forbid_commits};
pub use self::data_files::{DataFile, DataFiles};
use super::outside::refuse_foreign;
use super::snapshot::open_segment;
use super::{ColumnStats, SegmentEntry, TableOptions, views};
use crate::block::Stats;
use crate::budget::Budget;
use crate::disk::{Disk, Io, LockWait, WriterLock, durable, is_missing, missing_is_damage};
use crate::error::{Error, Result};
use crate::manifest::commit::{self as manifest_commit, Edit};
use crate::manifest::recover::{self, Retention, Scope};
use crate::manifest::{Id, LoadedSource, Root, TableDir, WriteVolume, moving, presence};
use crate::model::{Arrangement, ColumnId, DataType, Schema};
use crate::segment::Segment;

/// The right to write a table, until dropped. Files that are not committed by then are removed.
#[derive(Debug)]
pub struct TableWriter {
    dir: TableDir,
    disk: Arc<dyn Disk>,
    base: Option<Root>,
    schema: Schema,
    options: TableOptions,
    files: DataFiles,
    /// What is decoded of segments is charged to it.
    budget: Budget,
    state: CommitState,
    /// Whether there may be data files that are neither needed by the generation in force nor in
    /// `retired`.
    strays: bool,
    /// An entry for the ledger, if the segments of the table are not here, but on other machines.
    elsewhere: Option<LoadedSource>,
    /// Data files that are no longer in the table, each with the last generation that has it.
    retired: Vec<(u64, PathBuf)>,
    /// For a process that ends itself before the next commit.
    begun: Option<Begun>,
    _lock: WriterLock,
}

/// Whether the writer knows which generation is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitState {
    /// `base` is in force.
    Known,
    /// A commit failed half way: only the next writer can find out.
    Unknown,
}

/// A segment that was written, to be committed.
#[derive(Clone, Debug)]
pub struct NewSegment {
    /// The file, by [`DataFile::uuid`].
    pub file: Id,
    /// Offset of the segment in the file.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Identity of the contents.
    pub uuid: Id,
    /// CRC32 of the footer.
    pub footer_crc: u32,
    /// Rows of the segment.
    pub rows: u64,
    /// Stored types and statistics of the columns.
    pub stats: Vec<(ColumnId, DataType, Stats)>,
}

/// The changes that a commit puts in force.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The new columns.
    pub schema: Schema,
    /// The new arrangement of rows.
    pub arrangement: Arrangement,
    /// How long generations stay readable after they are no longer in force, in milliseconds.
    pub keep: u64,
    /// Segments to add and remove, in ascending order of their indices.
    pub edits: Vec<Edit<NewSegment>>,
    /// The sources that were loaded.
    pub sources: Vec<LoadedSource>,
    /// Bytes of the segments of a load, as it wrote them.
    pub loaded: u64,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The generation now in force.
    pub generation: u64,
    /// Bytes of manifest files written for it.
    pub metadata_bytes: u64,
    /// All bytes written since the previous commit, including these and temporary files.
    pub written_bytes: u64,
    /// Bytes written since the table was created.
    pub write_volume: WriteVolume,
}

impl TableWriter {
    pub(super) fn open(
        dir: &TableDir,
        disk: &Arc<dyn Disk>,
        budget: &Budget,
        wait: &LockWait,
        create: Option<(Schema, TableOptions)>,
        is_mover: bool,
    ) -> Result<TableWriter> {
        let what = format!("table '{}'", dir.name());
        if let Some((_, options)) = &create {
            options.check()?;
        }
        let is_new = create.is_some();
        let made_dirs = RefCell::new(Vec::new());
        let prepare = || match is_new {
            true => {
                views::refuse_table(&**disk, dir)?;
                refuse_foreign(&**disk, dir)?;
                let missing = durable::create_dir(&**disk, dir.path())?;
                made_dirs.borrow_mut().extend(missing);
                Ok(())
            }
            false if presence::current(&**disk, dir)?.is_none() => {
                Err(views::no_table(&**disk, dir))
            }
            false => Ok(()),
        };
        let lock = match WriterLock::acquire(&**disk, &dir.lock(), &what, wait, prepare) {
            Err(error) if is_missing(&error) && !is_new => return Err(gone(&what)),
            acquired => acquired?,
        };
        if !is_mover {
            moving::refuse(&**disk, dir)?;
        }
        let unswept = disk.exists(&dir.unswept())?;
        let base = recover::recover(&**disk, dir)?;
        if let Some(unknown) =
            base.as_ref().map(|root| root.unknown).filter(|unknown| *unknown != 0)
        {
            return Err(Error::Unsupported(format!(
                "{what} has features {unknown:#x} that this build can read but not write; \
                 a newer one is needed"
            )));
        }
        let keep = base.as_ref().map_or(0, |root| root.history.keep);
        let scope = if unswept || base.is_none() { Scope::Everything } else { Scope::Manifest };
        let retention = Retention { now: unix_millis(), keep };
        let swept = recover::sweep(&**disk, dir, base.as_ref(), scope, retention)?;
        let (schema, options) = match (&base, create) {
            (Some(root), _) => (root.schema.clone(), root.options),
            (None, Some(created)) => created,
            (None, None) => return Err(gone(&what)),
        };
        let files = DataFiles::new(dir.clone(), Arc::clone(disk)).within(made_dirs.into_inner());
        let begun = Some(Begun::new(&files, base.is_none())?);
        if base.is_none() {
            recover::mark_creating(&**disk, dir)?;
        }
        for path in [dir.manifest(), dir.data()] {
            disk.create_dir_all(&path)?;
        }
        if base.is_none() {
            // Even if they exist: a writer that made them may have stopped before the sync.
            for path in [dir.data(), dir.manifest(), dir.path().to_path_buf()] {
                disk.sync_dir(durable::parent(&path))?;
            }
            let store = durable::parent(dir.path());
            disk.sync_dir(durable::parent(store))?;
        }
        Ok(TableWriter {
            dir: dir.clone(),
            disk: Arc::clone(disk),
            strays: base.as_ref().is_some_and(|root| root.generation != swept.oldest),
            elsewhere: None,
            base,
            schema,
            options,
            files,
            budget: budget.clone(),
            state: CommitState::Known,
            retired: Vec::new(),
            begun,
            _lock: lock,
        })
    }

    /// The name of the table.
    #[cfg(feature = "sql")]
    pub(crate) fn table_name(&self) -> &str {
        self.dir.name()
    }

    /// The columns in force, or those with which the table will be created.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The table's options.
    pub fn options(&self) -> TableOptions {
        self.options
    }

    /// Whether there is no table yet: the first commit makes it.
    pub fn is_new(&self) -> bool {
        self.base.is_none()
    }

    /// Rows in force.
    pub fn rows(&self) -> u64 {
        self.base.as_ref().map_or(0, |root| root.rows)
    }

    /// A handle that makes data files, on any thread.
    #[doc(hidden)]
    pub fn data_files(&self) -> DataFiles {
        self.files.clone()
    }

    /// A new data file.
    #[doc(hidden)]
    pub fn new_data_file(&self) -> Result<DataFile> {
        self.files.create()
    }

    /// How rows are arranged.
    #[doc(hidden)]
    pub fn arrangement(&self) -> Arrangement {
        self.base.as_ref().map_or_else(Arrangement::default, |root| root.arrangement.clone())
    }

    /// The generation in force, `None` before the first commit.
    pub(crate) fn base(&self) -> Option<&Root> {
        self.base.as_ref()
    }

    /// The segments in force, in the order of their rows.
    #[doc(hidden)]
    pub fn segments(&self) -> Result<Vec<SegmentEntry>> {
        let mut all = Vec::new();
        for reference in self.base.iter().flat_map(|root| &root.chunks) {
            let chunk = manifest_commit::open(&*self.disk, &self.dir, reference)?;
            chunk
                .append_segments(&mut all)
                .map_err(|error| error.in_file(self.dir.chunk(&reference.id), 0))?;
        }
        Ok(all)
    }

    /// Statistics of a column, one entry for each of [`TableWriter::segments`]; `None` where the
    /// segment lacks it.
    pub(crate) fn column_stats_by_segment(
        &self,
        column: ColumnId,
    ) -> Result<Vec<Option<ColumnStats>>> {
        let mut all = Vec::new();
        for reference in self.base.iter().flat_map(|root| &root.chunks) {
            let chunk = manifest_commit::open(&*self.disk, &self.dir, reference)?;
            let known = chunk
                .column_stats(column)
                .map_err(|error| error.in_file(self.dir.chunk(&reference.id), 0))?;
            all.extend(known.unwrap_or_else(|| vec![None; reference.segments as usize]));
        }
        Ok(all)
    }

    /// Opens a segment in force.
    pub(crate) fn open_segment(&self, entry: &SegmentEntry) -> Result<Arc<Segment>> {
        let path = self.dir.data_file(&entry.partition, &entry.file);
        let mapped =
            self.disk.map(&path, Io::Mmap).map_err(|error| missing_is_damage(error, &path))?;
        Ok(Arc::new(open_segment(entry, Arc::new(mapped), path, self.budget.clone())?))
    }

    /// Opens a segment that was written but not committed.
    pub(crate) fn open_new(&self, segment: &NewSegment) -> Result<Arc<Segment>> {
        let Some(partition) = self.files.lock().made.get(&segment.file).cloned() else {
            return Err(Error::InvalidInput(
                "a segment is in a file that this writer did not make".into(),
            ));
        };
        let path = self.dir.data_file(&partition, &segment.file);
        let mapped = Arc::new(self.disk.map(&path, Io::Mmap)?);
        let (offset, length) = (segment.offset, segment.length);
        Ok(Arc::new(Segment::open_within(mapped, path, offset, length, self.budget.clone())?))
    }

    /// Refuses a segment that was written and is not what is said of it.
    #[cfg(feature = "cluster")]
    pub(crate) fn check_new(&self, new: &NewSegment) -> Result<()> {
        let NewSegment { file, offset, length, uuid, footer_crc, rows, .. } = *new;
        let partition = self.files.lock().made.get(&file).cloned().unwrap_or_default();
        let path = self.dir.data_file(&partition, &file);
        let mapped = Arc::new(self.disk.map(&path, Io::Mmap)?);
        let entry = SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows };
        open_segment(&entry, mapped, path, self.budget.clone()).map(drop)
    }

    /// Opens a file that holds one segment of `length` bytes and unlinks it, so that nothing is
    /// left of it once the segment is dropped.
    pub(crate) fn open_unlinked(&self, file: DataFile, length: u64) -> Result<Arc<Segment>> {
        let (uuid, path) = (file.uuid, file.path.clone());
        drop(file);
        let mapped = Arc::new(self.disk.map(&path, Io::Mmap)?);
        let segment = Segment::open_within(mapped, path.clone(), 0, length, self.budget.clone())?;
        self.disk.remove(&path)?;
        let mut written = self.files.lock();
        written.made.remove(&uuid);
        written.unsynced.remove(&path);
        Ok(Arc::new(segment))
    }

    /// All entries of the ledger, oldest first.
    #[doc(hidden)]
    pub fn sources(&self) -> Result<Vec<LoadedSource>> {
        self.base.as_ref().map_or_else(
            || Ok(Vec::new()),
            |root| manifest_commit::sources(&*self.disk, &self.dir, root),
        )
    }

    /// The changes of a commit that changes nothing, as a starting point.
    #[doc(hidden)]
    pub fn changes(&self) -> Changes {
        Changes {
            schema: self.schema.clone(),
            arrangement: self.arrangement(),
            keep: self.base.as_ref().map_or(0, |root| root.history.keep),
            edits: Vec::new(),
            sources: Vec::new(),
            loaded: 0,
        }
    }

    /// Whether its segments are here.
    pub(crate) fn has_segments(&self) -> bool {
        self.elsewhere.is_none()
    }

    /// The number of segments in force, which is the index of an edit that appends.
    pub(crate) fn count(&self) -> usize {
        self.base.iter().flat_map(|root| &root.chunks).map(|chunk| chunk.segments as usize).sum()
    }
}

/// The error for a table that another process has dropped.
fn gone(what: &str) -> Error {
    Error::NotFound(format!("there is no {what} any more"))
}

/// Milliseconds since 1970, by the system clock.
pub(super) fn unix_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
