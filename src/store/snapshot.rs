//! One generation of a table, protected from garbage collection while it is in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
#[cfg(feature = "cluster")]
use std::sync::PoisonError;
use std::sync::{Arc, Mutex, OnceLock};

use super::distinct::distinct_values;
use super::known_rows::OfConditions;
use super::ranges::as_ranges;
use super::{Caches, ColumnStats, LoadedSource, SegmentEntry, TableOptions, views};
use crate::block::Order;
use crate::budget::{Budget, Charge};
#[cfg(feature = "cluster")]
use crate::disk::RealDisk;
use crate::disk::{Disk, Lock, LockMode, Mapped, is_missing, missing_is_damage};
use crate::error::{Error, Result};
use crate::manifest::{
    Chunk, ChunkBuilder, ChunkRef, Root, TableDir, commit, layout, presence, recover,
};
use crate::model::{ColumnId, Schema};
use crate::segment::footer::TAIL_BYTES;
use crate::segment::{Footer, Segment};

/// How often a reader starts again because a writer freed the generation that it was about to open.
const RETRIES: usize = 1000;

/// The ends of this many segments are prefetched at a time.
const PREFETCHED_SEGMENTS: usize = 64;

/// An immutable generation of a table; clones share it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: TableDir,
    disk: Arc<dyn Disk>,
    caches: Arc<Caches>,
    root: Root,
    chunks: Vec<OnceLock<Arc<Chunk>>>,
    segments: OnceLock<(Arc<Vec<SegmentEntry>>, Charge)>,
    /// A shared lock on the root, which the system releases if the process dies; `None` if the data
    /// is on other machines. It may be let go of.
    lock: Option<Arc<Mutex<Option<Lock>>>>,
}

impl Snapshot {
    pub(super) fn open(
        dir: &TableDir,
        disk: &Arc<dyn Disk>,
        caches: &Arc<Caches>,
    ) -> Result<Snapshot> {
        Ok(Snapshot::new(dir, disk, caches, lock_current(&**disk, dir)?))
    }

    pub(super) fn open_at(
        dir: &TableDir,
        disk: &Arc<dyn Disk>,
        caches: &Arc<Caches>,
        generation: u64,
    ) -> Result<Snapshot> {
        let newest = presence::current(&**disk, dir)?;
        // A generation above the one in force is an unfinished commit.
        let held = if newest.is_some_and(|newest| generation <= newest) {
            lock_generation(&**disk, dir, generation)?
        } else {
            None
        };
        if held.is_none() && newest == Some(generation) {
            // If it is still in force, its root is lost; otherwise a writer has freed it.
            if presence::current(&**disk, dir)? == newest {
                return Err(root_is_missing(dir, generation));
            }
        }
        let held = held.ok_or_else(|| {
            let kept = recover::generations(&**disk, dir).unwrap_or_default();
            Error::NotFound(format!(
                "table '{}' has no generation {generation} any more; kept: {}",
                dir.name(),
                as_ranges(&kept)
            ))
        })?;
        Ok(Snapshot::new(dir, disk, caches, held))
    }

    fn new(
        dir: &TableDir,
        disk: &Arc<dyn Disk>,
        caches: &Arc<Caches>,
        (root, lock): (Root, Lock),
    ) -> Snapshot {
        let chunks = root.chunks.iter().map(|_| OnceLock::new()).collect();
        let inner = Inner {
            dir: dir.clone(),
            disk: Arc::clone(disk),
            caches: Arc::clone(caches),
            root,
            chunks,
            segments: OnceLock::new(),
            lock: Some(Arc::new(Mutex::new(Some(lock)))),
        };
        Snapshot { inner: Arc::new(inner) }
    }

    /// The generation of a root that was read by other means, such as `CURRENT`, which may be lost;
    /// chunks may have been taken out of its list.
    pub(super) fn of_root(
        dir: &TableDir,
        disk: &Arc<dyn Disk>,
        caches: &Arc<Caches>,
        root: Root,
    ) -> Result<Snapshot> {
        let path = dir.root(root.generation);
        let lock = disk.try_lock(&path, LockMode::Shared)?.ok_or_else(|| {
            Error::InvalidInput(format!("{} is in use; try again", path.display()))
        })?;
        Ok(Snapshot::new(dir, disk, caches, (root, lock)))
    }

    /// The same generation as if it did not have the segments with some numbers, nor those of
    /// chunks that cannot be read.
    pub(crate) fn without(&self, left_out: &BTreeSet<u64>) -> Result<Snapshot> {
        let (mut root, mut chunks) = (self.inner.root.clone(), Vec::new());
        let (mut references, mut first) = (Vec::new(), 0);
        for (at, reference) in self.inner.root.chunks.iter().enumerate() {
            let numbers = first..first + u64::from(reference.segments);
            first = numbers.end;
            let Ok(Some(chunk)) = self.chunk(at) else { continue };
            if left_out.range(numbers.clone()).next().is_none() {
                references.push(reference.clone());
                chunks.push(OnceLock::from(chunk));
                continue;
            }
            let Ok(segments) = chunk.segments_with_stats() else { continue };
            let mut builder = ChunkBuilder::default();
            for ((entry, stats), number) in segments.into_iter().zip(numbers) {
                if !left_out.contains(&number) {
                    builder.push(entry, stats);
                }
            }
            if builder.is_empty() {
                continue;
            }
            let (bytes, reference) = builder.encode(layout::new_id());
            let chunk = Chunk::open(Arc::new(Mapped::from_bytes(&bytes)), &reference)?;
            references.push(reference);
            chunks.push(OnceLock::from(Arc::new(chunk)));
        }
        root.rows = references.iter().map(|reference| reference.rows).sum();
        root.chunks = references;
        let inner = Inner {
            dir: self.inner.dir.clone(),
            disk: Arc::clone(&self.inner.disk),
            caches: Arc::clone(&self.inner.caches),
            root,
            chunks,
            segments: OnceLock::new(),
            lock: self.inner.lock.clone(),
        };
        Ok(Snapshot { inner: Arc::new(inner) })
    }

    /// A table whose data is on other machines: what the manifests of its parts say of it. Nothing
    /// that needs a look at a segment works.
    #[cfg(feature = "cluster")]
    pub(crate) fn remote(name: &str, mut root: Root, chunks: Vec<(ChunkRef, Arc<Chunk>)>) -> Self {
        let (references, chunks): (Vec<_>, Vec<_>) = chunks.into_iter().unzip();
        root.rows = references.iter().map(|reference| reference.rows).sum();
        root.chunks = references;
        let inner = Inner {
            dir: TableDir::new(name),
            disk: Arc::new(RealDisk),
            caches: Arc::default(),
            root,
            chunks: chunks.into_iter().map(OnceLock::from).collect(),
            segments: OnceLock::new(),
            lock: None,
        };
        Snapshot { inner: Arc::new(inner) }
    }

    /// Whether its segments can be read here.
    pub(crate) fn is_here(&self) -> bool {
        self.inner.lock.is_some()
    }

    /// The table's name.
    pub fn table_name(&self) -> &str {
        self.inner.dir.name()
    }

    /// Lets go of the lock on the generation, for all snapshots that share it: its files may go
    /// while they are read, which is an error then.
    #[cfg(feature = "cluster")]
    pub(crate) fn let_go(&self) {
        if let Some(lock) = &self.inner.lock {
            drop(lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// The number of the generation.
    pub fn generation(&self) -> u64 {
        self.inner.root.generation
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.inner.root.schema
    }

    /// The options of the table.
    pub fn options(&self) -> TableOptions {
        self.inner.root.options
    }

    /// The number of rows, from the root alone.
    pub fn rows(&self) -> u64 {
        self.inner.root.rows
    }

    /// The root's references to chunks.
    pub(crate) fn chunks(&self) -> &[ChunkRef] {
        &self.inner.root.chunks
    }

    /// The directory of the table.
    #[doc(hidden)]
    pub fn dir(&self) -> &TableDir {
        &self.inner.dir
    }

    /// What decoding is charged to.
    pub(crate) fn budget(&self) -> &Budget {
        &self.inner.caches.budget
    }

    /// The disk that the table is on.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.inner.disk
    }

    /// The root of this generation.
    #[doc(hidden)]
    pub fn root(&self) -> &Root {
        &self.inner.root
    }

    /// A chunk, opened at first use. `None` past the last one.
    pub(crate) fn chunk(&self, at: usize) -> Result<Option<Arc<Chunk>>> {
        let Some((slot, reference)) = self.inner.chunks.get(at).zip(self.inner.root.chunks.get(at))
        else {
            return Ok(None);
        };
        if let Some(chunk) = slot.get() {
            return Ok(Some(Arc::clone(chunk)));
        }
        let chunk = Arc::new(commit::open(&*self.inner.disk, &self.inner.dir, reference)?);
        Ok(Some(Arc::clone(slot.get_or_init(|| chunk))))
    }

    /// The stored form of a chunk.
    #[cfg(feature = "cluster")]
    pub(crate) fn chunk_bytes(&self, reference: &ChunkRef) -> Result<Vec<u8>> {
        self.inner.disk.read(&self.inner.dir.chunk(&reference.id), reference.length)
    }

    /// All segments, in the order of their rows.
    #[doc(hidden)]
    pub fn segments(&self) -> Result<Arc<Vec<SegmentEntry>>> {
        if let Some((segments, _)) = self.inner.segments.get() {
            return Ok(Arc::clone(segments));
        }
        let mut count = 0;
        self.each_chunk(|chunk| {
            count += chunk.count();
            Ok(())
        })?;
        let charge = self.budget().charge(count.saturating_mul(size_of::<SegmentEntry>()))?;
        let mut all = Vec::with_capacity(count);
        self.each_chunk(|chunk| chunk.append_segments(&mut all))?;
        let (segments, _) = self.inner.segments.get_or_init(|| (all.into(), charge));
        Ok(Arc::clone(segments))
    }

    /// Statistics of a column in the manifest, one entry for each of [`Snapshot::segments`]; `None`
    /// where the segment lacks the column (all its rows are null). Reads only this column's section
    /// of each chunk.
    #[doc(hidden)]
    pub fn column_stats(&self, column: ColumnId) -> Result<Vec<Option<ColumnStats>>> {
        let mut all = Vec::new();
        let mut charge = self.budget().charge(0)?;
        for at in 0..self.inner.root.chunks.len() {
            let more = self.segments_of_chunk(at)? * size_of::<Option<ColumnStats>>();
            charge.grow(more)?;
            all.extend(self.column_stats_of_chunk(column, at)?);
        }
        Ok(all)
    }

    /// The number of segments in a chunk.
    pub(crate) fn segments_of_chunk(&self, at: usize) -> Result<usize> {
        Ok(self.chunk(at)?.map_or(0, |chunk| chunk.count()))
    }

    /// [`Snapshot::column_stats`] of one chunk.
    pub(crate) fn column_stats_of_chunk(
        &self,
        column: ColumnId,
        at: usize,
    ) -> Result<Vec<Option<ColumnStats>>> {
        let (Some(chunk), Some(reference)) = (self.chunk(at)?, self.inner.root.chunks.get(at))
        else {
            return Ok(Vec::new());
        };
        let known = chunk
            .column_stats(column)
            .map_err(|error| error.in_file(self.inner.dir.chunk(&reference.id), 0))?;
        Ok(known.unwrap_or_else(|| vec![None; chunk.count()]))
    }

    /// All entries of the ledger, oldest first.
    #[doc(hidden)]
    pub fn sources(&self) -> Result<Vec<LoadedSource>> {
        commit::sources(&*self.inner.disk, &self.inner.dir, &self.inner.root)
    }

    /// The order of all rows of the table by a column, as far as the manifest proves it.
    pub(crate) fn column_order(&self, column: ColumnId) -> Result<Order> {
        // Rows of several machines come in no order.
        if !self.is_here() {
            return Ok(Order::default());
        }
        let known = self.column_stats(column)?;
        let mut segments = known.iter().map(|known| known.as_ref().map(|known| &known.stats));
        let Some(Some(first)) = segments.next() else { return Ok(Order::default()) };
        let all = segments.try_fold(first.clone(), |before, next| Some(before.followed_by(next?)));
        Ok(all.map_or_else(Order::default, |all| all.order))
    }

    /// An estimate of the number of distinct values of a column, without null. `None` if it is
    /// unknown for some segment.
    pub(crate) fn distinct_values(&self, column: ColumnId) -> Result<Option<u64>> {
        Ok(distinct_values(&self.column_stats(column)?))
    }

    fn each_chunk(&self, mut visit: impl FnMut(&Chunk) -> Result<()>) -> Result<()> {
        for (at, reference) in self.inner.root.chunks.iter().enumerate() {
            if let Some(chunk) = self.chunk(at)? {
                visit(&chunk)
                    .map_err(|error| error.in_file(self.inner.dir.chunk(&reference.id), 0))?;
            }
        }
        Ok(())
    }

    /// The file that holds a segment.
    #[doc(hidden)]
    pub fn path(&self, segment: &SegmentEntry) -> PathBuf {
        self.inner.dir.data_file(&segment.partition, &segment.file)
    }

    /// The mapped file that holds a segment, from the store's cache of mappings. The segment is its
    /// range `offset..offset + length`, which may be beyond the end of a damaged file.
    #[doc(hidden)]
    pub fn map(&self, segment: &SegmentEntry) -> Result<Arc<Mapped>> {
        let path = self.path(segment);
        let mapped = self.inner.caches.mappings.get(&*self.inner.disk, &path);
        mapped.map_err(|error| missing_is_damage(error, &path))
    }

    /// An open segment, from the store's cache: its parts are parsed and verified only once while
    /// it stays there.
    #[doc(hidden)]
    pub fn open_segment(&self, entry: &SegmentEntry) -> Result<Arc<Segment>> {
        if !self.is_here() {
            return Err(Error::Unsupported("a look at rows of other machines".into()));
        }
        let Caches { budget, segments, known_rows, mappings } = &*self.inner.caches;
        if budget.is_tight() {
            // Dictionaries that only the cache holds are decoded again when they are needed, and
            // parts of files that only it holds are read again.
            segments.clear();
            known_rows.clear();
            mappings.release_memory();
        }
        let open = || open_segment(entry, self.map(entry)?, self.path(entry), budget.clone());
        segments.get_or_open(&entry.key(), open)
    }

    /// The rows of the table that are known to meet conditions; no others have their text.
    pub(crate) fn known_rows(&self, conditions: &str) -> Result<Arc<OfConditions>> {
        let text = format!("{}\n{conditions}", self.inner.dir.path().display());
        let known = self.inner.caches.known_rows.of(&text);
        known.forget_replaced(self.generation(), self.segments()?.iter());
        Ok(known)
    }

    /// Opens segments one after the other, and prefetches the ends of the next ones.
    pub(crate) fn open_segments<'a>(
        &'a self,
        entries: &'a [&SegmentEntry],
    ) -> impl Iterator<Item = Result<Arc<Segment>>> + 'a {
        let mut prefetched = 0;
        entries.iter().enumerate().map(move |(at, entry)| {
            if at == prefetched {
                prefetched = entries.len().min(at + PREFETCHED_SEGMENTS);
                entries
                    .get(at..prefetched)
                    .unwrap_or_default()
                    .iter()
                    .for_each(|next| self.prefetch(next));
            }
            self.open_segment(entry)
        })
    }

    /// Prefetches the parts of a segment that opening it reads, unless it is in the cache; does not
    /// wait. A missing file is reported only when the segment is opened.
    pub(crate) fn prefetch(&self, entry: &SegmentEntry) {
        if !self.inner.caches.segments.has(&entry.key())
            && let Ok(mapped) = self.map(entry)
        {
            Segment::prefetch(&mapped, entry.offset, entry.length);
        }
    }
}

/// Opens a segment, and checks that it is the one in the manifest.
pub(crate) fn open_segment(
    entry: &SegmentEntry,
    mapped: Arc<Mapped>,
    path: PathBuf,
    budget: Budget,
) -> Result<Segment> {
    let (offset, length) = (entry.offset, entry.length);
    let segment = Segment::open_within(Arc::clone(&mapped), &path, offset, length, budget)?;
    // Opening has checked that the range is in the file, and the footer's stored checksum.
    let end = entry.offset.saturating_add(entry.length);
    let tail = (end as usize).saturating_sub(TAIL_BYTES)..end as usize;
    let tail = mapped.bytes(tail, Budget::UNLIMITED).map_err(|error| error.in_file(&path, 0))?;
    let footer_crc = Footer::stored_crc(tail);
    let same = segment.footer().uuid == entry.uuid && segment.rows() == entry.rows;
    if !same || footer_crc != Some(entry.footer_crc) {
        return Err(Error::corrupt(
            entry.offset,
            "this is not the segment that the manifest names",
        )
        .in_file(path, 0));
    }
    Ok(segment)
}

/// Reads the generation in force and takes a shared lock on its root. If a writer freed it in
/// between, there is a newer one, which is tried next.
fn lock_current(disk: &dyn Disk, dir: &TableDir) -> Result<(Root, Lock)> {
    let mut generation = 0;
    for _ in 0..RETRIES {
        generation = match presence::current(disk, dir)? {
            Some(generation) => generation,
            None => return Err(views::no_table(disk, dir)),
        };
        if let Some(held) = lock_generation(disk, dir, generation)? {
            return Ok(held);
        }
    }
    Err(root_is_missing(dir, generation))
}

/// The error that `CURRENT` names a generation that is not there.
fn root_is_missing(dir: &TableDir, generation: u64) -> Error {
    Error::corrupt(0, format!("it names generation {generation}, whose root is missing"))
        .in_file(dir.current(), 0)
}

/// The root of a generation under a shared lock; `None` if it does not exist, or a writer is about
/// to free it.
fn lock_generation(
    disk: &dyn Disk,
    dir: &TableDir,
    generation: u64,
) -> Result<Option<(Root, Lock)>> {
    let lock = match disk.try_lock(&dir.root(generation), LockMode::Shared) {
        Ok(lock) => lock,
        Err(error) if is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    match lock {
        Some(lock) if lock.is_linked()? => {
            Ok(Some((recover::read_root(disk, dir, generation)?, lock)))
        }
        _ => Ok(None),
    }
}
