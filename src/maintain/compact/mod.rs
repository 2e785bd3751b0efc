//! Compaction: merges small segments, and segments whose keys overlap, into large ones that are
//! sorted as a whole.
//!
//! Partitions are compacted one after another. Commits come at intervals of bytes and of time, so
//! that finished work is kept, and the manifest is not written once for each of many small
//! partitions. In an unsorted table, runs of neighbouring segments are joined and rows stay in
//! order. In a sorted one, segments whose ranges of the first key overlap form a cluster. A cluster
//! is read range by range of its keys; each range is read from all segments at once, sorted, and
//! cut into segments. The ranges come from a sample of the keys, so a cluster may be much larger
//! than memory.
//!
//! Unsorted segments are first sorted into temporary segments, as many at a time as memory allows,
//! like the runs of an external merge sort. If memory is too small for the number of runs,
//! neighbouring runs are merged into longer ones first.

mod clusters;
mod options;
mod ranges;
mod runs;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::clusters::{Candidate, clusters};
pub use self::options::{CompactForecast, CompactOptions, CompactReport};
use self::ranges::range_tasks;
use self::runs::{KeyOrder, SortedRun, fan_in, in_order, merge_groups};
use super::partitions::{Partition, no_partition};
use crate::encoding::{Options, Profile};
use crate::error::{Error, Result};
use crate::ingest::accounting::RowAccounting;
use crate::ingest::arrange::{Arrange, sort_keys};
use crate::ingest::load::{LoadOptions, pipeline_options, store_segment, thread_pool, write_parts};
use crate::ingest::pipeline::{self, PipelineOptions, Task};
use crate::ingest::rewrite;
use crate::ingest::tiers::LARGE_BYTES;
use crate::model::{Arrangement, ColumnId, Schema, SortKey};
use crate::segment::Segment;
use crate::segment::writer::EncodedSegment;
use crate::store::{
    Changes, ColumnStats, Edit, NewSegment, SegmentEntry, Table, TableOptions, TableWriter,
};

/// Bytes of new segments that are committed together.
const COMMIT_BYTES: u64 = 256 << 20;
/// Work of more time is committed before the next partition.
const COMMIT_TIME: Duration = Duration::from_secs(10);

/// Compacts a table.
pub fn compact(table: &Table, options: &CompactOptions) -> Result<CompactReport> {
    let mut writer = table.writer(None)?;
    let arrangement = arrangement(writer.arrangement(), writer.schema(), options)?;
    let write_volume = writer.base().map(|root| root.write_volume).unwrap_or_default();
    let sorted_anew = arrangement.sort_by != writer.arrangement().sort_by;
    let rewrite_all = options.all || options.profile.is_some() || sorted_anew;
    let mut compaction = Compaction::new(writer.options(), arrangement, rewrite_all, options)?;
    compaction.report.write_volume = write_volume;
    let segments = writer.segments()?;
    let paths = chosen_partitions(table, &segments, options)?;
    let mut candidates = by_partition(&segments);
    for path in &paths {
        let mine = candidates.remove(path).unwrap_or_default();
        if let Err(error) = compaction.partition(&writer, path, mine) {
            // What is finished is kept; if it cannot be, the first error says why.
            let _ = compaction.commit_edits(&mut writer);
            return Err(error);
        }
        if compaction.is_commit_due() {
            compaction.commit_edits(&mut writer)?;
            candidates = by_partition(&writer.segments()?);
        }
    }
    compaction.commit_edits(&mut writer)?;
    if sorted_anew {
        // New rows are sorted from now on, even if the table is empty.
        let arrangement = compaction.arrangement.clone();
        let changes = writer.changes();
        compaction.commit(&mut writer, Changes { arrangement, ..changes })?;
    }
    Ok(compaction.report)
}

/// What [`compact`] would rewrite of each partition. Nothing is written; of sorted tables, keys are
/// read.
pub fn would_compact(table: &Table, options: &CompactOptions) -> Result<Vec<CompactForecast>> {
    let snapshot = table.snapshot()?;
    table.check_writable()?;
    let before = &snapshot.root().arrangement;
    let arrangement = arrangement(before.clone(), snapshot.schema(), options)?;
    let rewrite_all =
        options.all || options.profile.is_some() || arrangement.sort_by != before.sort_by;
    let compaction = Compaction::new(snapshot.options(), arrangement, rewrite_all, options)?;
    let segments = snapshot.segments()?;
    let mut candidates = by_partition(&segments);
    let mut all = Vec::new();
    for path in chosen_partitions(table, &segments, options)? {
        let mine = candidates.remove(&path).unwrap_or_default();
        let mut found = Partition { path, segments: 0, rows: 0, bytes: 0 };
        for group in compaction.groups(|column| snapshot.column_stats(column), mine)? {
            if options.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let open = group.iter().map(|candidate| snapshot.open_segment(&candidate.entry));
            let open = open.collect::<Result<Vec<_>>>()?;
            if compaction.is_as_it_should_be(snapshot.schema(), &group, open)? {
                continue;
            }
            found.segments += group.len() as u64;
            found.rows += group.iter().map(|candidate| candidate.entry.rows).sum::<u64>();
            found.bytes += group.iter().map(|candidate| candidate.entry.length).sum::<u64>();
        }
        let is_exact = rewrite_all || !compaction.arrangement.sort_by.is_empty();
        all.push(CompactForecast { is_exact: is_exact || found.segments == 0, partition: found });
    }
    Ok(all)
}

/// The partitions to be compacted, in order.
fn chosen_partitions(
    table: &Table,
    segments: &[SegmentEntry],
    options: &CompactOptions,
) -> Result<Vec<Arc<str>>> {
    let mut paths: Vec<Arc<str>> =
        segments.iter().map(|entry| Arc::clone(&entry.partition)).collect();
    paths.retain(|path| options.covers(path));
    paths.sort();
    paths.dedup();
    match (&options.partition, paths.as_slice()) {
        (Some(partition), []) => Err(no_partition(table, partition)),
        _ => Ok(paths),
    }
}

/// The segments of each partition, with their places in the table.
fn by_partition(segments: &[SegmentEntry]) -> HashMap<Arc<str>, Vec<Candidate>> {
    let mut candidates: HashMap<Arc<str>, Vec<Candidate>> = HashMap::new();
    for (at, entry) in segments.iter().cloned().enumerate() {
        candidates.entry(Arc::clone(&entry.partition)).or_default().push(Candidate { at, entry });
    }
    candidates
}

fn arrangement(
    mut arrangement: Arrangement,
    schema: &Schema,
    options: &CompactOptions,
) -> Result<Arrangement> {
    if !options.sort_by.is_empty() {
        if options.partition.is_some() {
            return Err(Error::InvalidInput(
                "a sort order applies to the whole table: leave out --partition".into(),
            ));
        }
        arrangement.sort_by = sort_keys(&options.sort_by, schema)?;
    }
    Ok(arrangement)
}

/// A running compaction of a table.
struct Compaction {
    pool: Arc<rayon::ThreadPool>,
    pipeline: PipelineOptions,
    arrangement: Arrangement,
    rewrite_all: bool,
    cancelled: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    report: CompactReport,
    /// What is not committed yet, by the place of the segment that goes.
    edits: BTreeMap<usize, Edit<NewSegment>>,
    /// Bytes of the new segments in it.
    uncommitted: u64,
    /// When the last commit was.
    committed: Instant,
}

impl Compaction {
    fn new(
        table: TableOptions,
        arrangement: Arrangement,
        rewrite_all: bool,
        options: &CompactOptions,
    ) -> Result<Compaction> {
        let load = LoadOptions {
            threads: options.threads.max(1),
            memory_limit: options.memory_limit,
            profile: options.profile,
            ..LoadOptions::default()
        };
        Ok(Compaction {
            pool: Arc::new(thread_pool(load.threads)?),
            pipeline: pipeline_options(table, &load),
            arrangement,
            rewrite_all,
            cancelled: Arc::clone(&options.cancelled),
            done: Arc::clone(&options.done),
            report: CompactReport::default(),
            edits: BTreeMap::new(),
            uncommitted: 0,
            committed: Instant::now(),
        })
    }

    /// Compacts one partition.
    fn partition(&mut self, writer: &TableWriter, path: &str, mine: Vec<Candidate>) -> Result<()> {
        self.report.segments_before += mine.len() as u64;
        let goal = self.done.load(Ordering::Relaxed)
            + mine.iter().map(|one| one.entry.length).sum::<u64>();
        let mut after = mine.len() as u64;
        let mut edits: BTreeMap<usize, Edit<NewSegment>> = BTreeMap::new();
        for group in self.groups(|column| writer.column_stats_by_segment(column), mine)? {
            let Some(new) = self.rewrite(writer, path, &group)? else { continue };
            if !self.rewrite_all && self.arrangement.sort_by.is_empty() && new.len() >= group.len()
            {
                // The segments are already as large as their bytes allow. The new files go with the
                // commit, or with the writer.
                continue;
            }
            after = (after + new.len() as u64).saturating_sub(group.len() as u64);
            self.uncommitted += new.iter().map(|segment| segment.length).sum::<u64>();
            let mut new = Some(new);
            let mut places: Vec<usize> = group.iter().map(|candidate| candidate.at).collect();
            places.sort_unstable();
            for at in places {
                edits.insert(at, Edit { at, remove: 1, insert: new.take().unwrap_or_default() });
            }
        }
        self.report.segments_after += after;
        self.done.store(goal, Ordering::Relaxed);
        self.report.partitions += u64::from(!edits.is_empty());
        self.edits.append(&mut edits);
        Ok(())
    }

    fn is_commit_due(&self) -> bool {
        self.uncommitted >= COMMIT_BYTES || self.committed.elapsed() >= COMMIT_TIME
    }

    /// Commits what was done since the last commit.
    fn commit_edits(&mut self, writer: &mut TableWriter) -> Result<()> {
        let edits: Vec<_> = std::mem::take(&mut self.edits).into_values().collect();
        (self.uncommitted, self.committed) = (0, Instant::now());
        if edits.is_empty() {
            return Ok(());
        }
        let mut changes = Changes { edits, ..writer.changes() };
        if changes.arrangement.sort_by != self.arrangement.sort_by {
            // While some segments are in the old order, the table has no order.
            changes.arrangement.sort_by.clear();
        }
        self.commit(writer, changes)
    }

    fn commit(&mut self, writer: &mut TableWriter, changes: Changes) -> Result<()> {
        let commit = writer.commit_changes(changes)?;
        self.report.bytes_written += commit.written_bytes;
        self.report.write_volume = commit.write_volume;
        Ok(())
    }

    /// The groups of segments to rewrite, in the order of their rows or keys.
    fn groups(
        &self,
        known: impl Fn(ColumnId) -> Result<Vec<Option<ColumnStats>>>,
        mine: Vec<Candidate>,
    ) -> Result<Vec<Vec<Candidate>>> {
        let groups = match self.arrangement.sort_by.first() {
            Some(key) => clusters(mine, &self.arrangement.sort_by, &known(key.column)?),
            None => mine.into_iter().map(|candidate| vec![candidate]).collect(),
        };
        // Small neighbours are joined; overlapping segments are in one group already.
        let mut joined: Vec<(bool, Vec<Candidate>)> = Vec::new();
        for group in groups {
            let small = group.iter().all(|candidate| self.is_small(candidate));
            match joined.last_mut() {
                Some((before, last)) if self.rewrite_all || (*before && small) => {
                    last.extend(group)
                }
                _ => joined.push((small, group)),
            }
        }
        // A single segment needs no rewrite.
        Ok(joined
            .into_iter()
            .map(|(_, group)| group)
            .filter(|group| self.rewrite_all || group.len() > 1)
            .collect())
    }

    fn is_small(&self, candidate: &Candidate) -> bool {
        candidate.entry.rows < self.pipeline.segment.rows as u64
            && candidate.entry.length < LARGE_BYTES
    }

    /// Whether two neighbours of a group could be one segment.
    fn has_small_neighbours(&self, group: &[Candidate]) -> bool {
        group.windows(2).any(|pair| pair.iter().all(|candidate| self.is_small(candidate)))
    }

    /// Whether a group of a sorted table needs no rewrite.
    fn is_as_it_should_be(
        &self,
        schema: &Schema,
        group: &[Candidate],
        segments: Vec<Arc<Segment>>,
    ) -> Result<bool> {
        let is_sorted = !self.arrangement.sort_by.is_empty();
        if !is_sorted || self.rewrite_all || self.has_small_neighbours(group) {
            return Ok(false);
        }
        let order = KeyOrder::new(schema, &self.arrangement.sort_by, &segments)?;
        let mut runs = Vec::with_capacity(segments.len());
        for segment in segments.into_iter().filter(|segment| segment.rows() > 0) {
            match SortedRun::open(segment, &order, runs.len())? {
                Some(run) => runs.push(run),
                None => return Ok(false),
            }
        }
        Ok(in_order(&runs))
    }

    /// Rewrites a group; `None` if it turns out to be in order already.
    fn rewrite(
        &mut self,
        writer: &TableWriter,
        path: &str,
        group: &[Candidate],
    ) -> Result<Option<Vec<NewSegment>>> {
        let segments = group.iter().map(|candidate| writer.open_segment(&candidate.entry));
        let segments = segments.collect::<Result<Vec<_>>>()?;
        let rows: u64 = segments.iter().map(|segment| segment.rows()).sum();
        let bytes: u64 = group.iter().map(|candidate| candidate.entry.length).sum();
        let goal = self.done.load(Ordering::Relaxed) + bytes;
        let per_row = |bytes: u64| bytes as f64 / rows.max(1) as f64;
        let (schema, files) = (writer.schema().clone(), writer.data_files());
        if self.arrangement.sort_by.is_empty() {
            self.report.rows += rows;
            self.report.bytes_read += bytes;
            let tasks = rewrite::all_tasks(segments, &schema, self.pipeline.in_flight_bytes)?;
            let new = self.write(tasks, &[], self.pipeline, &schema, per_row(bytes), |segment| {
                store_segment(&files, path, segment)
            });
            return new.map(Some);
        }
        let room = self.pipeline.in_flight_bytes;
        let order = KeyOrder::new(&schema, &self.arrangement.sort_by, &segments)?;
        let (mut runs, mut unsorted) = (Vec::with_capacity(segments.len()), Vec::new());
        // Segments that share a first key overlap, but may be in order by all keys.
        let mut as_it_should_be = !self.rewrite_all && !self.has_small_neighbours(group);
        for segment in segments.into_iter().filter(|segment| segment.rows() > 0) {
            match SortedRun::open(Arc::clone(&segment), &order, runs.len())? {
                Some(run) => {
                    let tasks = rewrite::all_tasks(std::mem::take(&mut unsorted), &schema, room)?;
                    self.sort(writer, path, tasks, &order, per_row(bytes) / 2.0, &mut runs)?;
                    runs.push(run);
                }
                None => {
                    as_it_should_be = false;
                    unsorted.push(segment);
                }
            }
        }
        if as_it_should_be && in_order(&runs) {
            return Ok(None);
        }
        self.report.rows += rows;
        self.report.bytes_read += bytes;
        let tasks = rewrite::all_tasks(unsorted, &schema, room)?;
        self.sort(writer, path, tasks, &order, per_row(bytes) / 2.0, &mut runs)?;
        let most = fan_in(&runs, room);
        loop {
            let mut groups = merge_groups(runs, most);
            if groups.len() <= 1 {
                runs = groups.pop().unwrap_or_default();
                break;
            }
            runs = Vec::new();
            for group in groups {
                let tasks = range_tasks(
                    group,
                    &order,
                    Arc::clone(&self.pool),
                    room,
                    self.pipeline.segment.rows,
                );
                self.sort(writer, path, tasks, &order, 0.0, &mut runs)?;
            }
        }
        let tasks =
            range_tasks(runs, &order, Arc::clone(&self.pool), room, self.pipeline.segment.rows);
        let rest = per_row(goal.saturating_sub(self.done.load(Ordering::Relaxed)));
        let store = |segment| store_segment(&files, path, segment);
        self.write(tasks, &[], self.pipeline, &schema, rest, store).map(Some)
    }

    /// Writes rows to temporary sorted segments and adds them to `runs`. Their files are unlinked
    /// when this returns, so nothing is left once nobody reads them.
    fn sort(
        &mut self,
        writer: &TableWriter,
        path: &str,
        tasks: impl Iterator<Item = Result<Task>>,
        order: &Arc<KeyOrder>,
        done_with: f64,
        runs: &mut Vec<SortedRun>,
    ) -> Result<()> {
        let pipeline = PipelineOptions { encoding: Options::new(Profile::Fast), ..self.pipeline };
        let keys = self.arrangement.sort_by.clone();
        let files = writer.data_files();
        let sorted = self.write(tasks, &keys, pipeline, writer.schema(), done_with, |segment| {
            let mut file = files.create_in(path)?;
            write_parts(&mut file, segment.parts)?;
            writer.open_unlinked(file, segment.len)
        })?;
        for new in sorted {
            let run = SortedRun::open(new, order, runs.len())?;
            runs.push(
                run.ok_or_else(|| Error::corrupt(0, "a segment that was just sorted is not"))?,
            );
        }
        Ok(())
    }

    /// Runs rows through the pipeline, sorting each segment by `keys`, and passes the encoded
    /// segments to `store`. Each row adds `done_with` bytes to the progress.
    fn write<T>(
        &self,
        tasks: impl Iterator<Item = Result<Task>>,
        keys: &[SortKey],
        pipeline: PipelineOptions,
        schema: &Schema,
        done_with: f64,
        mut store: impl FnMut(EncodedSegment) -> Result<T>,
    ) -> Result<Vec<T>> {
        let table = Some(Arrangement { partition_by: Vec::new(), sort_by: keys.to_vec() });
        let arrange = Arrange { table, ..Arrange::default() };
        let mut written = Vec::new();
        let mut sink = |_, segment: EncodedSegment| {
            self.done.fetch_add((segment.rows as f64 * done_with) as u64, Ordering::Relaxed);
            written.push(store(segment)?);
            Ok(())
        };
        let stop =
            || if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) };
        let tasks = tasks.map(|task| stop().and(task));
        let mut schema = schema.clone();
        pipeline::run(
            &self.pool,
            tasks,
            &mut schema,
            &arrange,
            &pipeline,
            &mut RowAccounting::default(),
            &mut sink,
        )?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
