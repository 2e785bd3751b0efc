//! The one writer of a table: new data files, then a commit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::snapshot::open_segment;
use super::{ColumnStats, SegmentEntry, TableOptions};
use crate::block::Stats;
use crate::disk::{Disk, DiskFile, WriterLock, durable};
use crate::error::{Error, Result};
use crate::manifest::commit::{self, Change, Edit};
use crate::manifest::layout::{check_partition, new_id};
use crate::manifest::recover::{self, Retention, Scope, Swept};
use crate::manifest::{History, Id, Root, Source, TableDir, Traffic};
use crate::model::{Arrangement, Column, ColumnId, DataType, Schema};
use crate::segment::Segment;

/// More files than this without a sync of their own are made durable by one sync of the file
/// system.
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
    /// Whether there may be data files that neither the generation in force needs nor `retired`
    /// names.
    strays: bool,
    /// Data files that are no longer in the table, each with the last generation that had it.
    retired: Vec<(u64, PathBuf)>,
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

/// What a commit is to put in force.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The columns from now on.
    pub schema: Schema,
    /// How rows are arranged from now on.
    pub arrangement: Arrangement,
    /// For so many milliseconds generations stay readable that are no longer in force.
    pub keep: u64,
    /// Segments that are added and taken away, by rising place.
    pub edits: Vec<Edit<NewSegment>>,
    /// What was loaded from where.
    pub sources: Vec<Source>,
    /// Bytes of the segments of a load, as it wrote them.
    pub loaded: u64,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The generation now in force.
    pub generation: u64,
    /// Bytes of manifest files written for it.
    pub metadata_bytes: u64,
    /// All bytes written for it since the commit before, these and temporary ones among them.
    pub written_bytes: u64,
    /// What was written for the table since it was made.
    pub traffic: Traffic,
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
        let unswept = disk.exists(&dir.unswept())?;
        let base = recover::recover(&**disk, dir)?;
        if let Some(unknown) =
            base.as_ref().map(|root| root.unknown).filter(|unknown| *unknown != 0)
        {
            return Err(Error::Unsupported(format!(
                "{what} has features {unknown:#x} that this build can read and not write; a newer one is needed"
            )));
        }
        let keep = base.as_ref().map_or(0, |root| root.history.keep);
        let scope = if unswept || base.is_none() { Scope::Everything } else { Scope::Manifest };
        let swept =
            recover::sweep(&**disk, dir, base.as_ref(), scope, Retention { now: now(), keep })?;
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
            strays: base.as_ref().is_some_and(|root| root.generation != swept.oldest),
            base,
            schema,
            options,
            files,
            state: State::Known,
            retired: Vec::new(),
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

    /// How rows are arranged.
    pub fn arrangement(&self) -> Arrangement {
        self.base.as_ref().map_or_else(Arrangement::default, |root| root.arrangement.clone())
    }

    /// The generation in force, `None` before the first commit.
    pub fn base(&self) -> Option<&Root> {
        self.base.as_ref()
    }

    /// The segments in force, in the order of their rows.
    pub fn segments(&self) -> Result<Vec<SegmentEntry>> {
        let mut all = Vec::new();
        for reference in self.base.iter().flat_map(|root| &root.chunks) {
            let chunk = commit::open(&*self.disk, &self.dir, reference)?;
            chunk
                .append_segments(&mut all)
                .map_err(|error| error.at(self.dir.chunk(&reference.id), 0))?;
        }
        Ok(all)
    }

    /// What is known of a column, one for each of [`TableWriter::segments`]; `None` where the
    /// segment lacks it.
    pub fn column_stats_by_segment(&self, column: ColumnId) -> Result<Vec<Option<ColumnStats>>> {
        let mut all = Vec::new();
        for reference in self.base.iter().flat_map(|root| &root.chunks) {
            let chunk = commit::open(&*self.disk, &self.dir, reference)?;
            let known = chunk
                .column_stats(column)
                .map_err(|error| error.at(self.dir.chunk(&reference.id), 0))?;
            all.extend(known.unwrap_or_else(|| vec![None; reference.segments as usize]));
        }
        Ok(all)
    }

    /// Opens a segment in force.
    pub fn open_segment(&self, entry: &SegmentEntry) -> Result<Arc<Segment>> {
        let path = self.dir.data_file(&entry.partition, &entry.file);
        let mapped = Arc::new(self.disk.map(&path)?);
        Ok(Arc::new(open_segment(entry, mapped, path)?))
    }

    /// Opens a segment that was written and is not in force.
    pub fn open_new(&self, segment: &NewSegment) -> Result<Arc<Segment>> {
        let Some(partition) = self.files.lock().made.get(&segment.file).cloned() else {
            return Err(Error::InvalidInput(
                "a segment is in a file that this writer did not make".into(),
            ));
        };
        let path = self.dir.data_file(&partition, &segment.file);
        let mapped = Arc::new(self.disk.map(&path)?);
        Ok(Arc::new(Segment::open(mapped, path, segment.offset, segment.length)?))
    }

    /// Opens a file that holds one segment of `length` bytes and takes its name away: once the
    /// segment is dropped, nothing is left of it.
    pub fn open_nameless(&self, file: DataFile, length: u64) -> Result<Arc<Segment>> {
        let (uuid, path) = (file.uuid, file.path.clone());
        drop(file);
        let mapped = Arc::new(self.disk.map(&path)?);
        let segment = Segment::open(mapped, path.clone(), 0, length)?;
        self.disk.remove(&path)?;
        let mut written = self.files.lock();
        written.made.remove(&uuid);
        written.unsynced.remove(&path);
        Ok(Arc::new(segment))
    }

    /// All entries of the ledger, oldest first.
    pub fn sources(&self) -> Result<Vec<Source>> {
        self.base
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |root| commit::sources(&*self.disk, &self.dir, root))
    }

    /// What a commit without any change would say.
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

    /// Adds segments and puts `schema` in force, all or nothing; see
    /// [`TableWriter::commit_changes`].
    pub fn commit(&mut self, schema: Schema, segments: Vec<NewSegment>) -> Result<Commit> {
        let mut changes = Changes { schema, ..self.changes() };
        if !segments.is_empty() {
            changes.edits.push(Edit { at: self.count(), remove: 0, insert: segments });
        }
        self.commit_changes(changes)
    }

    /// How many segments are in force: the place of an edit that appends.
    pub fn count(&self) -> usize {
        self.base.iter().flat_map(|root| &root.chunks).map(|chunk| chunk.segments as usize).sum()
    }

    /// Puts changes in force, all or nothing. Returns when they would survive the loss of power.
    /// Files of new segments that no edit names are removed.
    ///
    /// After an error the table has its old generation or, if the disk failed at the very end, the
    /// new one: the next writer finds out, this one writes no more.
    pub fn commit_changes(&mut self, changes: Changes) -> Result<Commit> {
        if self.state == State::Unknown {
            return Err(Error::InvalidInput(
                "a commit failed before; open the table for writing again".into(),
            ));
        }
        let Changes { schema, arrangement, keep, edits, sources, loaded } = changes;
        self.check_schema(&schema)?;
        let unchanged = edits.is_empty() && sources.is_empty();
        let same = |base: &&Root| {
            unchanged
                && base.schema == schema
                && base.arrangement == arrangement
                && base.history.keep == keep
        };
        if let Some(base) = self.base.as_ref().filter(same) {
            let (generation, traffic) = (base.generation, base.traffic);
            return Ok(Commit { generation, metadata_bytes: 0, written_bytes: 0, traffic });
        }
        let new = || edits.iter().flat_map(|edit| &edit.insert);
        new().try_for_each(|segment| check_required(&schema, segment))?;
        let named: HashSet<Id> = new().map(|segment| segment.file).collect();
        self.remove_made_but(&named);
        let list = |edit: Edit<NewSegment>| {
            let insert = edit
                .insert
                .into_iter()
                .map(|segment| self.list(segment, &schema))
                .collect::<Result<_>>()?;
            Ok(Edit { at: edit.at, remove: edit.remove, insert })
        };
        let edits = edits.into_iter().map(list).collect::<Result<Vec<_>>>()?;
        self.state = State::Unknown;
        self.files.sync()?;
        let written = std::mem::take(&mut self.files.lock().bytes);
        let change = Change {
            base: self.base.as_ref(),
            schema,
            options: self.options,
            arrangement,
            history: History { committed: now(), keep },
            edits,
            sources,
            traffic: Traffic { loaded, written },
        };
        let done = commit::commit(&*self.disk, &self.dir, change)?;
        self.state = State::Known;
        self.files.lock().made.clear();
        let before = done.root.generation.saturating_sub(1);
        self.retire(before, &done.removed);
        self.schema = done.root.schema.clone();
        let (generation, traffic) = (done.root.generation, done.root.traffic);
        self.base = Some(done.root);
        // Best effort: what stays goes with the next commit or the next writer.
        let _ = self.sweep(Scope::Manifest, keep);
        Ok(Commit {
            generation,
            metadata_bytes: done.bytes,
            written_bytes: written + done.bytes,
            traffic,
        })
    }

    /// Frees the generations that nobody reads and that were out of force for `keep` milliseconds,
    /// and their files.
    pub fn free(&mut self, keep: u64) -> Result<Swept> {
        self.sweep(Scope::Everything, keep)
    }

    fn sweep(&mut self, scope: Scope, keep: u64) -> Result<Swept> {
        let retention = Retention { now: now(), keep };
        let before = std::mem::replace(&mut self.strays, true);
        let mut swept =
            recover::sweep(&*self.disk, &self.dir, self.base.as_ref(), scope, retention)?;
        self.strays = match scope {
            Scope::Manifest => before,
            // Generations that are kept may need files that the one in force does not.
            Scope::Everything => {
                self.base.as_ref().is_some_and(|root| root.generation != swept.oldest)
            }
        };
        for (last, path) in std::mem::take(&mut self.retired) {
            if last >= swept.oldest {
                self.retired.push((last, path));
            } else if self.disk.remove(&path).is_ok() {
                swept.files += 1;
                // The directories of its partition too, once they are empty.
                let data = self.dir.data();
                let mut dirs = path.ancestors().skip(1).take_while(|dir| *dir != data);
                while dirs.next().is_some_and(|dir| self.disk.remove_dir(dir).is_ok()) {}
            } else {
                self.strays |= scope == Scope::Manifest;
            }
        }
        Ok(swept)
    }

    /// Remembers files that only generations up to `last` need. A file with other segments too is
    /// left to a writer who looks at all of them.
    fn retire(&mut self, last: u64, removed: &[SegmentEntry]) {
        for segment in removed {
            let path = self.dir.data_file(&segment.partition, &segment.file);
            let whole =
                segment.offset == 0 && self.disk.len(&path).is_ok_and(|len| len == segment.length);
            if whole {
                self.retired.push((last, path));
            } else {
                self.strays = true;
            }
        }
    }

    /// Removes the files that are not among `named`, best effort: they were made, and are not
    /// needed after all.
    fn remove_made_but(&mut self, named: &HashSet<Id>) {
        let mut failed = false;
        let mut lock = self.files.lock();
        let written = &mut *lock;
        written.made.retain(|file, partition| {
            let keep = named.contains(file);
            if !keep {
                let path = self.dir.data_file(partition, file);
                // The directory of a partition may be left empty.
                failed |= self.disk.remove(&path).is_err() || !partition.is_empty();
                written.unsynced.remove(&path);
            }
            keep
        });
        drop(lock);
        self.strays |= failed;
    }

    /// Ids are permanent: none is issued twice, and old columns keep theirs.
    fn check_schema(&self, schema: &Schema) -> Result<()> {
        let next = self.base.as_ref().map_or(0, |root| root.schema.next_id());
        let old: Vec<u32> =
            self.base.iter().flat_map(|root| root.schema.columns()).map(|c| c.id.0).collect();
        let reused = schema.columns().iter().find(|c| c.id.0 < next && !old.contains(&c.id.0));
        if schema.next_id() < next || reused.is_some() {
            return Err(Error::InvalidInput(
                "column ids are permanent: a dropped one cannot come back".into(),
            ));
        }
        Ok(())
    }

    fn list(&self, segment: NewSegment, schema: &Schema) -> Result<commit::Listed> {
        let Some(partition) = self.files.lock().made.get(&segment.file).cloned() else {
            return Err(Error::InvalidInput(
                "a segment is in a file that this writer did not make".into(),
            ));
        };
        let known = |id: &ColumnId| schema.columns().iter().any(|column| column.id == *id);
        let stats = segment.stats.into_iter().filter(|(id, ..)| known(id));
        let stats =
            stats.map(|(id, data_type, stats)| (id, ColumnStats { data_type, stats })).collect();
        let NewSegment { file, offset, length, uuid, footer_crc, rows, .. } = segment;
        Ok((SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows }, stats))
    }
}

/// Milliseconds since 1970, by the machine's clock.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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
    Error::InvalidInput(format!(
        "column '{column}' is NOT NULL, and a row has no value in it; nothing was stored"
    ))
}

impl Drop for TableWriter {
    /// Takes away what was not committed, best effort: otherwise the next writer does.
    fn drop(&mut self) {
        if self.state == State::Unknown {
            return;
        }
        self.remove_made_but(&HashSet::new());
        if self.base.is_some() && !self.strays && self.retired.is_empty() {
            let _ = self.disk.remove(&self.dir.unswept());
        }
        if self.base.is_none() {
            let _ = self.disk.remove_dir(&self.dir.data());
            let _ = self.disk.remove_dir(&self.dir.manifest());
            // Last of what there may be: without it, a root would be a table that lost its CURRENT.
            let _ = self.disk.remove(&self.dir.creating());
            let _ = self.disk.remove(&self.dir.unswept());
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
    /// Bytes written since the last commit.
    bytes: u64,
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
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.unsynced.insert(self.path.clone());
            written.bytes += bytes.len() as u64;
        }
        self.file.write_all(bytes)
    }

    /// Makes the bytes durable now, on the caller's thread; otherwise the commit does.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).unsynced.remove(&self.path);
        Ok(())
    }
}
