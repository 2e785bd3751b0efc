//! Merges small segments at the end of a table or partition into larger ones, as part of a commit.
//!
//! Whenever eight segments of similar size (within a factor of eight) stand at the end, they become
//! one, and so on (`manifest::tiers`). A table that receives a hundred rows at a time has O(log n)
//! small segments, and each row is written O(log n) times. Where there is no space for that, the
//! segments stay as they are: a later commit merges them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::accounting::RowAccounting;
use super::arrange::Arrange;
use super::options::PipelineOptions;
use super::pipeline;
use super::rewrite;
use super::segment_files::store_segment;
use crate::disk::temporary::is_full;
use crate::error::{Error, Result};
use crate::manifest::commit::MERGE_BYTES;
use crate::manifest::tiers::TierPolicy;
use crate::model::{Arrangement, Schema};
use crate::segment::Segment;
use crate::store::{Edit, NewSegment, SegmentEntry, TableWriter};

/// Approximate bytes of a segment in the manifest: a commit of n segments may rewrite n times as
/// many in addition.
const ENTRY_BYTES: u64 = 4096;

/// From this stored size on, a segment may have been closed for its size in memory, so it counts as
/// full.
pub(crate) const LARGE_BYTES: u64 = 16 << 20;

/// Segments are merged by eights, to at most `max_rows` rows.
fn policy(max_rows: u64) -> TierPolicy {
    TierPolicy {
        fan_in: 8,
        max_count: max_rows,
        max_bytes: 2 * LARGE_BYTES,
        full_bytes: LARGE_BYTES,
    }
}

/// A segment at the end of a partition.
#[derive(Clone, Debug)]
enum TailSegment {
    Old(usize),
    New(NewSegment),
}

impl TailSegment {
    fn into_new(self) -> Option<NewSegment> {
        match self {
            TailSegment::New(segment) => Some(segment),
            TailSegment::Old(_) => None,
        }
    }
}

/// The edits that add `new` segments (by partition, in row order) to the table, with those at the
/// end of each partition merged. The merged segments are written on `pool`.
pub(crate) fn append(
    writer: &TableWriter,
    new: Vec<(Arc<str>, NewSegment)>,
    schema: &Schema,
    arrangement: &Arrangement,
    pool: &rayon::ThreadPool,
    options: &PipelineOptions,
) -> Result<Vec<Edit<NewSegment>>> {
    let max_rows = options.segment.rows as u64;
    let mut budget = MERGE_BYTES.max(new.len() as u64 * ENTRY_BYTES);
    let mut partitions: BTreeMap<Arc<str>, Vec<NewSegment>> = BTreeMap::new();
    for (partition, segment) in new {
        partitions.entry(partition).or_default().push(segment);
    }
    let small =
        |segments: &Vec<NewSegment>| segments.last().is_some_and(|last| last.rows < max_rows);
    let old = match writer.has_segments() && partitions.values().any(small) {
        true => writer.segments()?,
        false => Vec::new(),
    };
    let chunks = ChunkLengths::new(writer);
    let (mut removed, mut insert, mut touched) = (Vec::new(), Vec::new(), HashSet::new());
    let mut has_space = true;
    let mut of_partition: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, entry) in old.iter().enumerate() {
        if partitions.contains_key(&entry.partition) {
            of_partition.entry(&entry.partition).or_default().push(at);
        }
    }
    for (partition, mut segments) in partitions {
        let places = of_partition.get(&*partition).map_or(&[][..], Vec::as_slice);
        let sizes =
            places.iter().filter_map(|at| old.get(*at)).map(|entry| (entry.rows, entry.length));
        let sizes: Vec<_> =
            sizes.chain(segments.iter().map(|segment| (segment.rows, segment.length))).collect();
        let merged = if small(&segments) { policy(max_rows).tail_to_merge(&sizes) } else { 0 };
        let from_new = merged.min(segments.len());
        let from_old = places.get(places.len() - (merged - from_new)..).unwrap_or_default();
        let cost = chunks.cost(from_old, &touched);
        if merged < 2 || cost > budget || !has_space {
            insert.extend(segments);
            continue;
        }
        budget -= cost;
        touched.extend(from_old.iter().filter_map(|at| chunks.number(*at)));
        let tail: Vec<TailSegment> = from_old
            .iter()
            .map(|at| TailSegment::Old(*at))
            .chain(segments.split_off(segments.len() - from_new).into_iter().map(TailSegment::New))
            .collect();
        insert.extend(segments);
        let made = writer.data_files().made();
        match merge(writer, &partition, &old, &tail, schema, arrangement, pool, options) {
            Ok(merged) => {
                insert.extend(merged);
                removed.extend_from_slice(from_old);
            }
            Err(Error::Io { source, .. }) if is_full(&source) => {
                has_space = false;
                writer.data_files().discard_all_but(&made);
                insert.extend(tail.into_iter().filter_map(TailSegment::into_new));
            }
            Err(error) => return Err(error),
        }
    }
    removed.sort_unstable();
    let mut edits: Vec<Edit<NewSegment>> = Vec::new();
    for at in removed {
        match edits.last_mut() {
            Some(edit) if edit.at + edit.remove == at => edit.remove += 1,
            _ => edits.push(Edit { at, remove: 1, insert: Vec::new() }),
        }
    }
    if !insert.is_empty() {
        edits.push(Edit { at: writer.count(), remove: 0, insert });
    }
    Ok(edits)
}

/// The manifest chunks of a table: (end, as a segment number; length in bytes).
struct ChunkLengths(Vec<(usize, u64)>);

impl ChunkLengths {
    fn new(writer: &TableWriter) -> ChunkLengths {
        let mut end = 0;
        let chunks = writer.base().into_iter().flat_map(|root| &root.chunks);
        let ends = chunks.map(|chunk| {
            end += chunk.segments as usize;
            (end, chunk.length)
        });
        ChunkLengths(ends.collect())
    }

    /// The chunk that has a segment.
    fn number(&self, segment: usize) -> Option<usize> {
        let at = self.0.partition_point(|(end, _)| *end <= segment);
        (at < self.0.len()).then_some(at)
    }

    /// Bytes of the chunks that have these segments and are not rewritten anyway.
    fn cost(&self, segments: &[usize], touched: &HashSet<usize>) -> u64 {
        let numbers: HashSet<usize> = segments.iter().filter_map(|at| self.number(*at)).collect();
        numbers.difference(touched).filter_map(|at| self.0.get(*at)).map(|(_, length)| length).sum()
    }
}

/// Writes the rows of some segments as one segment, or as several if they are too many bytes.
#[expect(clippy::too_many_arguments, reason = "one caller, which has them all")]
fn merge(
    writer: &TableWriter,
    partition: &str,
    old: &[SegmentEntry],
    tail: &[TailSegment],
    schema: &Schema,
    arrangement: &Arrangement,
    pool: &rayon::ThreadPool,
    options: &PipelineOptions,
) -> Result<Vec<NewSegment>> {
    let open = |tail: &TailSegment| -> Result<Arc<Segment>> {
        match tail {
            TailSegment::New(segment) => writer.open_new(segment),
            TailSegment::Old(at) => match old.get(*at) {
                Some(entry) => writer.open_segment(entry),
                None => Err(Error::InvalidInput("a segment to merge is not there".into())),
            },
        }
    };
    let segments = tail.iter().map(open).collect::<Result<Vec<_>>>()?;
    // They are all of one partition.
    let table =
        Some(Arrangement { partition_by: Vec::new(), sort_by: arrangement.sort_by.clone() });
    let arrange = Arrange { table, ..Arrange::default() };
    let (files, mut written) = (writer.data_files(), Vec::new());
    let mut sink = |_, segment| {
        written.push(store_segment(&files, partition, segment)?);
        Ok(())
    };
    let tasks = rewrite::all_tasks(segments, schema, options.in_flight_bytes)?;
    pipeline::run(
        pool,
        tasks,
        &mut schema.clone(),
        &arrange,
        options,
        &mut RowAccounting::default(),
        &mut sink,
    )?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_segments_are_not_merged() {
        assert_eq!(policy(1 << 20).tail_to_merge(&[(400_000, LARGE_BYTES); 20]), 1);
        let mut segments = vec![(400_000, LARGE_BYTES); 20];
        segments.extend([(100, 1000); 8]);
        assert_eq!(policy(1 << 20).tail_to_merge(&segments), 8);
    }

    /// Five of these are as many rows as a segment may have: none is left behind when they merge.
    #[test]
    fn a_steady_stream_leaves_full_segments() {
        let mut segments = Vec::<u64>::new();
        for _ in 0..180 {
            segments.push(200_000);
            let sizes: Vec<_> = segments.iter().map(|rows| (*rows, rows * 8)).collect();
            let merged = policy(1 << 20).tail_to_merge(&sizes);
            let tail = segments.split_off(segments.len() - merged);
            segments.push(tail.iter().sum());
        }
        assert_eq!(segments, [1_000_000; 36]);
    }

    #[test]
    fn small_appends_leave_few_segments_and_are_written_few_times() {
        for rows in [1, 100, 5_000] {
            let (mut segments, mut written, appends) = (Vec::<u64>::new(), 0, 20_000u64);
            for _ in 0..appends {
                segments.push(rows);
                let sizes: Vec<_> = segments.iter().map(|rows| (*rows, rows / 10)).collect();
                let merged = policy(1 << 20).tail_to_merge(&sizes);
                let tail = segments.split_off(segments.len() - merged);
                let sum: u64 = tail.iter().sum();
                assert!(sum <= 1 << 20);
                written += sum;
                segments.push(sum);
            }
            let total = rows * appends;
            assert_eq!(segments.iter().sum::<u64>(), total);
            // The segments below the largest tier, and full ones, which may be an eighth short.
            let most = (total >> 20) * 8 / 7 + 8 * (u64::from(total.ilog(8)) + 1);
            assert!(
                (segments.len() as u64) <= most,
                "{} segments of {rows}, at most {most}",
                segments.len()
            );
            assert!(written <= total * (u64::from(total.ilog(8)) + 2), "{} times", written / total);
        }
    }
}
