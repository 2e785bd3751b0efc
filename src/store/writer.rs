//! The one writer of a table: new data files, then a commit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ColumnStats, SegmentEntry, TableOptions};
use crate::block::Stats;
use crate::disk::{Disk, DiskFile, WriterLock, durable};
use crate::error::{Error, Result};
use crate::manifest::commit::{self, Change};
use crate::manifest::layout::{check_partition, new_id};
use crate::manifest::recover::{self, Scope};
use crate::manifest::{Id, Root, TableDir};
use crate::model::{Column, ColumnId, DataType, Schema};

/// More files than this without a sync of their own are made durable by one sync of the file system.
const FILES_TO_SYNC: usize = 16;

/// The right to write a table, until dropped. What was not committed by then is removed.
#[derive(Debug)]
pub struct TableWriter {
    dir: TableDir,
    disk: Arc<dyn Disk>,
    base: Option<Root>,
    schema: Schema,
    options: TableOptions,
    files: DataFiles,
    state: State,
    _lock: WriterLock,
}

/// Whether the writer knows what is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As `base` says.
    Known,
    /// A commit failed half way: only the next writer can tell.
    Unknown,
}

/// A segment that was written, to be committed.
#[derive(Clone, Debug)]
pub struct NewSegment {
    /// The file, by [`DataFile::uuid`].
    pub file: Id,
    /// Where the segment starts in it.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Identity of its contents.
    pub uuid: Id,
    /// CRC32 of its footer.
    pub footer_crc: u32,
    /// Its rows.
    pub rows: u64,
    /// Statistics of its columns, with the types in which it stores them.
    pub stats: Vec<(ColumnId, DataType, Stats)>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The generation now in force.
    pub generation: u64,
    /// Bytes of manifest files written for it.
    pub metadata_bytes: u64,
}

impl TableWriter {
    pub(super) fn open(
        dir: &TableDir,
        disk: &Arc<dyn Disk>,
        create: Option<(Schema, TableOptions)>,
    ) -> Result<TableWriter> {
        let what = format!("table '{}'", dir.name());
        if create.is_none() && recover::current(&**disk, dir)?.is_none() {
            return Err(Error::NotFound(format!("there is no {what} ({})", dir.path().display())));
        }
        if let Some((_, options)) = &create {
            options.check()?;
        }
        durable::create_dir(&**disk, dir.path())?;
        let lock = WriterLock::acquire(&**disk, &dir.lock(), &what)?;
        let base = recover::recover(&**disk, dir)?;
        recover::sweep(&**disk, dir, base.as_ref(), Scope::Everything)?;
        let (schema, options) = match (&base, create) {
            (Some(root), _) => (root.schema.clone(), root.options),
            (None, Some(created)) => created,
            (None, None) => return Err(Error::NotFound(format!("there is no {what} any more"))),
        };
        if base.is_none() {
            recover::begin(&**disk, dir)?;
        }
        for path in [dir.manifest(), dir.data()] {
            disk.create_dir_all(&path)?;
        }
        if base.is_none() {
            // Again, even if they are there: whoever made them may not have come to this point.
            for path in [dir.data(), dir.manifest(), dir.path().to_path_buf()] {
                disk.sync_dir(durable::parent(&path))?;
            }
            let store = durable::parent(dir.path());
            disk.sync_dir(durable::parent(store))?;
        }
        let files = DataFiles { dir: dir.clone(), disk: Arc::clone(disk), written: Arc::default() };
        Ok(TableWriter {
            dir: dir.clone(),
            disk: Arc::clone(disk),
            base,
            schema,
            options,
            files,
            state: State::Known,
            _lock: lock,
        })
    }

    /// The columns in force, or those to create the table with.
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

    /// Where data files are made, for any thread.
    pub fn data_files(&self) -> DataFiles {
        self.files.clone()
    }

    /// A new data file.
    pub fn new_data_file(&self) -> Result<DataFile> {
        self.files.create()
    }

    /// What is known of a column, one for each segment in force that has it, each in the type the segment stores.
    pub fn column_stats(&self, column: ColumnId) -> Result<Vec<ColumnStats>> {
        let mut all = Vec::new();
        for reference in self.base.iter().flat_map(|root| &root.chunks) {
            let chunk = commit::open(&*self.disk, &self.dir, reference)?;
            let known = chunk.column_stats(column).map_err(|error| error.at(self.dir.chunk(&reference.id), 0))?;
            all.extend(known.into_iter().flatten().flatten());
        }
        Ok(all)
    }

    /// Adds segments and puts `schema` in force, all or nothing. Returns when it would survive the loss of power.
    ///
    /// After an error the table has its old generation or, if the disk failed at the very end, the new one: the next
    /// writer finds out, this one writes no more.
    pub fn commit(&mut self, schema: Schema, segments: Vec<NewSegment>) -> Result<Commit> {
        if self.state == State::Unknown {
            return Err(Error::InvalidInput("a commit failed before; open the table for writing again".into()));
        }
        self.check_schema(&schema)?;
        if let Some(base) = self.base.as_ref().filter(|base| segments.is_empty() && base.schema == schema) {
            return Ok(Commit { generation: base.generation, metadata_bytes: 0 });
        }
        segments.iter().try_for_each(|segment| check_required(&schema, segment))?;
        let named: HashSet<Id> = segments.iter().map(|segment| segment.file).collect();
        let listed = segments.into_iter().map(|segment| self.list(segment, &schema)).collect::<Result<Vec<_>>>()?;
        self.state = State::Unknown;
        self.files.sync()?;
        let change = Change { base: self.base.as_ref(), schema, options: self.options, segments: listed };
        let (root, metadata_bytes) = commit::commit(&*self.disk, &self.dir, change)?;
        self.state = State::Known;
        self.files.lock().made.retain(|file, _| !named.contains(file));
        self.remove_made();
        self.schema = root.schema.clone();
        let generation = root.generation;
        self.base = Some(root);
        // Best effort: what stays goes with the next commit or the next writer.
        let _ = recover::sweep(&*self.disk, &self.dir, self.base.as_ref(), Scope::Manifest);
        Ok(Commit { generation, metadata_bytes })
    }

    /// Removes the files that no commit named, best effort.
    fn remove_made(&self) {
        for (file, partition) in self.files.lock().made.drain() {
            let _ = self.disk.remove(&self.dir.data_file(&partition, &file));
        }
    }

    /// Ids are permanent: none is issued twice, and old columns keep theirs.
    fn check_schema(&self, schema: &Schema) -> Result<()> {
        let next = self.base.as_ref().map_or(0, |root| root.schema.next_id());
        let old: Vec<u32> = self.base.iter().flat_map(|root| root.schema.columns()).map(|c| c.id.0).collect();
        let reused = schema.columns().iter().find(|c| c.id.0 < next && !old.contains(&c.id.0));
        if schema.next_id() < next || reused.is_some() {
            return Err(Error::InvalidInput("column ids are permanent: a dropped one cannot come back".into()));
        }
        Ok(())
    }

    fn list(&self, segment: NewSegment, schema: &Schema) -> Result<commit::Listed> {
        let Some(partition) = self.files.lock().made.get(&segment.file).cloned() else {
            return Err(Error::InvalidInput("a segment is in a file that this writer did not make".into()));
        };
        let known = |id: &ColumnId| schema.columns().iter().any(|column| column.id == *id);
        let stats = segment.stats.into_iter().filter(|(id, ..)| known(id));
        let stats = stats.map(|(id, data_type, stats)| (id, ColumnStats { data_type, stats })).collect();
        let NewSegment { file, offset, length, uuid, footer_crc, rows, .. } = segment;
        Ok((SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows }, stats))
    }
}

/// Refuses rows without a value in a column that needs one.
fn check_required(schema: &Schema, segment: &NewSegment) -> Result<()> {
    // A segment without the column has no value in any row.
    let complete: HashSet<ColumnId> =
        segment.stats.iter().filter(|(.., stats)| stats.nulls == 0).map(|(id, ..)| *id).collect();
    let lacks = |column: &&Column| !column.nullable && !complete.contains(&column.id);
    match schema.columns().iter().find(lacks).filter(|_| segment.rows > 0) {
        Some(column) => Err(missing_value(&column.name)),
        None => Ok(()),
    }
}

/// That a row has no value in a column that needs one.
pub(crate) fn missing_value(column: &str) -> Error {
    Error::InvalidInput(format!("column '{column}' is NOT NULL, and a row has no value in it; nothing was stored"))
}

impl Drop for TableWriter {
    /// Takes away what was not committed, best effort: otherwise the next writer does.
    fn drop(&mut self) {
        if self.state == State::Unknown {
            return;
        }
        self.remove_made();
        if self.base.is_none() {
            let _ = self.disk.remove_dir(&self.dir.data());
            let _ = self.disk.remove_dir(&self.dir.manifest());
            // Last of what there may be: without it, a root would be a table that lost its CURRENT.
            let _ = self.disk.remove(&self.dir.creating());
            let _ = self.disk.remove(&self.dir.lock());
            let _ = self.disk.remove_dir(self.dir.path());
        }
    }
}

/// Makes data files of one transaction; clones share it, and threads may use it at once.
#[derive(Clone, Debug)]
pub struct DataFiles {
    dir: TableDir,
    disk: Arc<dyn Disk>,
    written: Arc<Mutex<Written>>,
}

#[derive(Debug, Default)]
struct Written {
    /// The partition of each file made since the last commit.
    made: HashMap<Id, Arc<str>>,
    /// Files whose bytes may not be durable.
    unsynced: BTreeSet<PathBuf>,
    /// Directories whose names may not be durable.
    dirs: BTreeSet<PathBuf>,
}

impl DataFiles {
    /// A new file outside any partition.
    pub fn create(&self) -> Result<DataFile> {
        self.create_in("")
    }

    /// A new file of a partition, given as a relative path such as `year=2015/month=1`.
    pub fn create_in(&self, partition: &str) -> Result<DataFile> {
        check_partition(partition)?;
        if !partition.is_empty() {
            self.disk.create_dir_all(&self.dir.partition(partition))?;
        }
        let uuid = new_id();
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

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every file and its name durable.
    fn sync(&self) -> Result<()> {
        let mut written = self.lock();
        let everything = written.unsynced.len() > FILES_TO_SYNC && self.disk.sync_fs(&self.dir.data())?;
        if !everything {
            for path in &written.unsynced {
                self.disk.sync_file(path)?;
            }
        }
        for dir in &written.dirs {
            self.disk.sync_dir(dir)?;
        }
        written.unsynced.clear();
        written.dirs.clear();
        Ok(())
    }
}

/// A data file being written. Its segments count only once they are committed.
#[derive(Debug)]
pub struct DataFile {
    uuid: Id,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    written: Arc<Mutex<Written>>,
}

impl DataFile {
    /// The name by which a [`NewSegment`] refers to it.
    pub fn uuid(&self) -> Id {
        self.uuid
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Appends bytes.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).unsynced.insert(self.path.clone());
        self.file.write_all(bytes)
    }

    /// Makes the bytes durable now, on the caller's thread; otherwise the commit does.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).unsynced.remove(&self.path);
        Ok(())
    }
}
