//! Compaction: small segments, and segments whose keys overlap, become large ones that are sorted
//! as a whole.
//!
//! One partition after another, each with a commit of its own, so that what is done stays done. In
//! a table that is not sorted, runs of neighbours are joined and rows stay in order. In a sorted
//! one, segments whose ranges of the first key overlap form a cluster; a cluster is read range by
//! range of its keys, each range from all segments at once, sorted, and cut into segments. The
//! ranges come from a sample of the keys, so a cluster may be any number of times larger than
//! memory.
//!
//! Segments that are not yet sorted are first sorted, as many at a time as memory allows, into
//! temporary segments, as an external merge sort writes its runs. Where memory is small for their
//! number, neighbours among them are merged to longer ones first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::compact_ranges::{Order, SortedRun, fan_in, groups, in_order, ranges};
use super::partitions::no_partition;
use crate::block::Bound;
use crate::encoding::{Options, Profile};
use crate::error::{Error, Result};
use crate::ingest::arrange::{Arrange, SortBy, sort_keys};
use crate::ingest::load::{LoadOptions, pipeline_options, store_segment, thread_pool, write_parts};
use crate::ingest::pipeline::{self, PipelineOptions, Task};
use crate::ingest::rejects::Tally;
use crate::ingest::rewrite;
use crate::ingest::tiers::LARGE_BYTES;
use crate::manifest::WriteVolume;
use crate::model::{Arrangement, Schema, SortKey};
use crate::segment::writer::EncodedSegment;
use crate::store::{Changes, ColumnStats, Edit, NewSegment, SegmentEntry, Table, TableWriter};

/// How to compact.
#[derive(Clone, Debug, Default)]
pub struct CompactOptions {
    /// Only partitions whose path starts with this.
    pub partition: Option<String>,
    /// Sort by these columns from now on.
    pub sort_by: Vec<SortBy>,
    /// Write all segments anew, under this profile.
    pub profile: Option<Profile>,
    /// Write all segments anew.
    pub all: bool,
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to stop; what is committed by then stays.
    pub cancelled: Arc<AtomicBool>,
    /// Told on the way: how many bytes of the segments of all chosen partitions are done with.
    pub done: Arc<AtomicU64>,
}

impl CompactOptions {
    /// Whether a partition is to be compacted.
    pub fn cover(&self, partition: &str) -> bool {
        self.partition.as_deref().is_none_or(|wanted| is_within(partition, wanted))
    }
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Partitions that were changed; a table without partitions is one.
    pub partitions: u64,
    /// Segments before, of all partitions that were looked at.
    pub segments_before: u64,
    /// Segments after.
    pub segments_after: u64,
    /// Rows written anew.
    pub rows: u64,
    /// Bytes of segments read.
    pub bytes_read: u64,
    /// Bytes written: new segments, temporary ones, manifest files.
    pub bytes_written: u64,
    /// What was written for the table since it was made.
    pub write_volume: WriteVolume,
}

/// A segment that may be rewritten.
struct Candidate {
    /// Its place in the table.
    at: usize,
    entry: SegmentEntry,
}

/// Compacts a table.
pub fn compact(table: &Table, options: &CompactOptions) -> Result<CompactReport> {
    let mut writer = table.writer(None)?;
    let arrangement = arrangement(&writer, options)?;
    let write_volume = writer.base().map(|root| root.write_volume).unwrap_or_default();
    let sorted_anew = arrangement.sort_by != writer.arrangement().sort_by;
    let everything = options.all || options.profile.is_some() || sorted_anew;
    let load = LoadOptions {
        threads: options.threads.max(1),
        memory_limit: options.memory_limit,
        profile: options.profile,
        ..LoadOptions::default()
    };
    let mut work = Work {
        pool: Arc::new(thread_pool(load.threads)?),
        pipeline: pipeline_options(&writer, &load),
        arrangement,
        everything,
        cancelled: Arc::clone(&options.cancelled),
        done: Arc::clone(&options.done),
        report: CompactReport { write_volume, ..CompactReport::default() },
    };
    let mut paths: Vec<Arc<str>> =
        writer.segments()?.into_iter().map(|entry| entry.partition).collect();
    paths.retain(|path| options.cover(path));
    paths.sort();
    paths.dedup();
    if let (Some(partition), []) = (&options.partition, paths.as_slice()) {
        return Err(no_partition(table, partition));
    }
    for path in &paths {
        work.partition(&mut writer, path)?;
    }
    if sorted_anew {
        // New rows are sorted from now on, whether there were any or not.
        let arrangement = work.arrangement.clone();
        let changes = writer.changes();
        work.commit(&mut writer, Changes { arrangement, ..changes })?;
    }
    Ok(work.report)
}

/// Whether a partition is the wanted one, or one within it.
pub(super) fn is_within(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn arrangement(writer: &TableWriter, options: &CompactOptions) -> Result<Arrangement> {
    let mut arrangement = writer.arrangement();
    if !options.sort_by.is_empty() {
        if options.partition.is_some() {
            return Err(Error::InvalidInput(
                "an order is the whole table's: leave out --partition".into(),
            ));
        }
        arrangement.sort_by = sort_keys(&options.sort_by, writer.schema())?;
    }
    Ok(arrangement)
}

/// What stays the same from partition to partition.
struct Work {
    pool: Arc<rayon::ThreadPool>,
    pipeline: PipelineOptions,
    arrangement: Arrangement,
    everything: bool,
    cancelled: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    report: CompactReport,
}

impl Work {
    /// Compacts one partition, with one commit.
    fn partition(&mut self, writer: &mut TableWriter, path: &Arc<str>) -> Result<()> {
        let entries = writer.segments()?.into_iter().enumerate();
        let mine = entries.filter(|(_, entry)| entry.partition == *path);
        let mine: Vec<Candidate> = mine.map(|(at, entry)| Candidate { at, entry }).collect();
        self.report.segments_before += mine.len() as u64;
        let goal = self.done.load(Ordering::Relaxed)
            + mine.iter().map(|one| one.entry.length).sum::<u64>();
        let mut after = mine.len() as u64;
        let mut edits: BTreeMap<usize, Edit<NewSegment>> = BTreeMap::new();
        for group in self.groups(writer, mine)? {
            let Some(new) = self.rewrite(writer, path, &group)? else { continue };
            if !self.everything && self.arrangement.sort_by.is_empty() && new.len() >= group.len() {
                // They are as large as their bytes allow; the new ones go with the commit, or with
                // the writer.
                continue;
            }
            after = (after + new.len() as u64).saturating_sub(group.len() as u64);
            let mut new = Some(new);
            let mut places: Vec<usize> = group.iter().map(|candidate| candidate.at).collect();
            places.sort_unstable();
            for at in places {
                edits.insert(at, Edit { at, remove: 1, insert: new.take().unwrap_or_default() });
            }
        }
        self.report.segments_after += after;
        self.done.store(goal, Ordering::Relaxed);
        if edits.is_empty() {
            return Ok(());
        }
        self.report.partitions += 1;
        let mut changes = Changes { edits: edits.into_values().collect(), ..writer.changes() };
        if changes.arrangement.sort_by != self.arrangement.sort_by {
            // While some segments are in the old order, the table is in neither.
            changes.arrangement.sort_by.clear();
        }
        self.commit(writer, changes)?;
        Ok(())
    }

    fn commit(&mut self, writer: &mut TableWriter, changes: Changes) -> Result<()> {
        let commit = writer.commit_changes(changes)?;
        self.report.bytes_written += commit.written_bytes;
        self.report.write_volume = commit.write_volume;
        Ok(())
    }

    /// The groups of segments to be written anew, in the order of their rows or keys.
    fn groups(&self, writer: &TableWriter, mine: Vec<Candidate>) -> Result<Vec<Vec<Candidate>>> {
        let groups = match self.arrangement.sort_by.first() {
            Some(key) => clusters(
                mine,
                &self.arrangement.sort_by,
                &writer.column_stats_by_segment(key.column)?,
            ),
            None => mine.into_iter().map(|candidate| vec![candidate]).collect(),
        };
        // Neighbours that are small are joined; what overlaps is together already.
        let mut joined: Vec<(bool, Vec<Candidate>)> = Vec::new();
        for group in groups {
            let small = group.iter().all(|candidate| self.is_small(candidate));
            match joined.last_mut() {
                Some((before, last)) if self.everything || (*before && small) => last.extend(group),
                _ => joined.push((small, group)),
            }
        }
        // One that is alone is as it should be.
        Ok(joined
            .into_iter()
            .map(|(_, group)| group)
            .filter(|group| self.everything || group.len() > 1)
            .collect())
    }

    fn is_small(&self, candidate: &Candidate) -> bool {
        candidate.entry.rows < self.pipeline.segment.rows as u64
            && candidate.entry.length < LARGE_BYTES
    }

    /// Whether two of a group could be one.
    fn has_small_neighbours(&self, group: &[Candidate]) -> bool {
        group.windows(2).any(|pair| pair.iter().all(|candidate| self.is_small(candidate)))
    }

    /// Writes a group anew; `None` if it turns out to be as it should be.
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
        let of_a_row = |bytes: u64| bytes as f64 / rows.max(1) as f64;
        let (schema, files) = (writer.schema().clone(), writer.data_files());
        if self.arrangement.sort_by.is_empty() {
            self.report.rows += rows;
            self.report.bytes_read += bytes;
            let tasks = rewrite::all_tasks(segments, &schema, self.pipeline.in_flight_bytes)?;
            let new = self.write(tasks, &[], self.pipeline, &schema, of_a_row(bytes), |segment| {
                store_segment(&files, path, segment)
            });
            return new.map(Some);
        }
        let room = self.pipeline.in_flight_bytes;
        let order = Order::new(&schema, &self.arrangement.sort_by, &segments)?;
        let (mut runs, mut unsorted) = (Vec::with_capacity(segments.len()), Vec::new());
        // Segments that share a first key overlap by it, and may be in order by all keys.
        let mut as_it_should_be = !self.everything && !self.has_small_neighbours(group);
        for segment in segments.into_iter().filter(|segment| segment.rows() > 0) {
            match SortedRun::open(Arc::clone(&segment), &order, runs.len())? {
                Some(run) => {
                    let tasks = rewrite::all_tasks(std::mem::take(&mut unsorted), &schema, room)?;
                    self.sort(writer, path, tasks, &order, of_a_row(bytes) / 2.0, &mut runs)?;
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
        self.sort(writer, path, tasks, &order, of_a_row(bytes) / 2.0, &mut runs)?;
        let most = fan_in(&runs, room);
        loop {
            let mut groups = groups(runs, most);
            if groups.len() <= 1 {
                runs = groups.pop().unwrap_or_default();
                break;
            }
            runs = Vec::new();
            for group in groups {
                let tasks =
                    ranges(group, &order, Arc::clone(&self.pool), room, self.pipeline.segment.rows);
                self.sort(writer, path, tasks, &order, 0.0, &mut runs)?;
            }
        }
        let tasks = ranges(runs, &order, Arc::clone(&self.pool), room, self.pipeline.segment.rows);
        let rest = of_a_row(goal.saturating_sub(self.done.load(Ordering::Relaxed)));
        let store = |segment| store_segment(&files, path, segment);
        self.write(tasks, &[], self.pipeline, &schema, rest, store).map(Some)
    }

    /// Writes rows to sorted segments that are not for long, and adds them to `runs`. They have no
    /// names any more when this returns: nothing is left of them once nobody reads them.
    fn sort(
        &mut self,
        writer: &TableWriter,
        path: &str,
        tasks: impl Iterator<Item = Result<Task>>,
        order: &Arc<Order>,
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

    /// Runs rows through the pipeline, each segment sorted by `keys`, and hands what becomes of
    /// them to `store`. With each row, `done_with` bytes of what there was are done with.
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
            &mut Tally::default(),
            &mut sink,
        )?;
        Ok(written)
    }
}

/// Segments by the ranges of their first key: those that overlap are together. Rising in the order
/// of the table.
fn clusters(
    mine: Vec<Candidate>,
    keys: &[SortKey],
    known: &[Option<ColumnStats>],
) -> Vec<Vec<Candidate>> {
    let descending = keys.first().is_some_and(|key| key.descending);
    // Where there are nulls or no bounds, or types differ, nothing is known.
    let data_type = known.iter().flatten().map(|known| &known.data_type).next();
    let bounds = |candidate: &Candidate| -> Option<(Bound, Bound)> {
        let known = known
            .get(candidate.at)?
            .as_ref()
            .filter(|known| Some(&known.data_type) == data_type)?;
        let (min, max) = known.stats.min.clone().zip(known.stats.max.clone())?;
        (known.stats.nulls == 0).then_some(if descending { (max, min) } else { (min, max) })
    };
    let mut sorted: Vec<(Bound, Bound, Candidate)> = Vec::with_capacity(mine.len());
    let mut unknown = Vec::new();
    for candidate in mine {
        match bounds(&candidate) {
            Some((start, end)) => sorted.push((start, end, candidate)),
            None => unknown.push(candidate),
        }
    }
    if !unknown.is_empty() {
        // They may overlap with any.
        unknown.extend(sorted.into_iter().map(|(.., candidate)| candidate));
        unknown.sort_by_key(|candidate| candidate.at);
        return vec![unknown];
    }
    let before = |a: &Bound, b: &Bound| {
        let order = a.value.total_cmp(&b.value).unwrap_or(std::cmp::Ordering::Equal);
        if descending { order.reverse() } else { order }
    };
    sorted.sort_by(|a, b| before(&a.0, &b.0).then(a.2.at.cmp(&b.2.at)));
    let mut clusters: Vec<(Bound, Vec<Candidate>)> = Vec::new();
    for (start, end, candidate) in sorted {
        match clusters.last_mut() {
            // Rows with equal first keys may be out of order by the others.
            Some((last, cluster)) if before(&start, last).is_le() => {
                if before(last, &end).is_lt() {
                    *last = end;
                }
                cluster.push(candidate);
            }
            _ => clusters.push((end, vec![candidate])),
        }
    }
    clusters
        .into_iter()
        .map(|(_, mut cluster)| {
            cluster.sort_by_key(|candidate| candidate.at);
            cluster
        })
        .collect()
}
