//! Rewrites segments whose values can be read but whose statistics or order are recorded wrongly.
//!
//! Rows are decoded block by block, all of them and in their order, and the new segments are made
//! from the values alone, as of any rows that come in: no statistics are asked, nothing is pruned,
//! and codes are replaced by values, because a dictionary may be out of order.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::report::RepairOptions;
use crate::error::{Error, Result};
use crate::ingest::accounting::RowAccounting;
use crate::ingest::arrange::Arrange;
use crate::ingest::load::{LoadOptions, pipeline_options, store_segment, thread_pool};
use crate::ingest::options::PipelineOptions;
use crate::ingest::{pipeline, rewrite};
use crate::maintain::verify::DamageKind;
use crate::manifest::commit::SegmentWithStats;
use crate::manifest::{ColumnStats, Root, recover};
use crate::model::{Arrangement, ColumnId};
use crate::store::{DataFiles, NewSegment, SegmentEntry, Snapshot, Table};

/// A segment to write anew.
#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) entry: SegmentEntry,
    /// What is false.
    pub(super) kinds: HashSet<DamageKind>,
}

/// Writes segments of a root anew, durably, and returns by their numbers what to put in their
/// places.
pub(super) fn rewrite(
    table: &Table,
    root: &Root,
    faulty: &BTreeMap<u64, Faulty>,
    options: &RepairOptions,
) -> Result<BTreeMap<u64, Vec<SegmentWithStats>>> {
    if faulty.is_empty() {
        return Ok(BTreeMap::new());
    }
    // The old files are left to the next writer's sweep, as are the new ones after a crash.
    recover::mark_unswept(table.disk(), table.dir())?;
    table.disk().sync_dir(table.dir().path())?;
    let files = table.data_files();
    let written = write_all(&files, table, root, faulty, options);
    let durable = written.and_then(|written| files.sync().map(|()| written));
    if durable.is_err() {
        files.discard();
    }
    durable
}

fn write_all(
    files: &DataFiles,
    table: &Table,
    root: &Root,
    faulty: &BTreeMap<u64, Faulty>,
    options: &RepairOptions,
) -> Result<BTreeMap<u64, Vec<SegmentWithStats>>> {
    let snapshot = table.snapshot_of(root.clone())?;
    let threads = options.verify.threads.max(1);
    let pool = thread_pool(threads)?;
    let load = LoadOptions { threads, ..LoadOptions::default() };
    let pipeline = pipeline_options(root.options, &load);
    let mut all = BTreeMap::new();
    for (number, faulty) in faulty {
        if options.verify.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let arrange = arrange(root, faulty, options);
        let new = write(&snapshot, faulty, &arrange, files, &pool, &pipeline)?;
        all.insert(*number, new.into_iter().map(|new| entry(root, new)).collect());
    }
    Ok(all)
}

/// Rows stay where they are, unless that is what is wrong.
fn arrange(root: &Root, faulty: &Faulty, options: &RepairOptions) -> Arrange {
    let mut arrangement = root.arrangement.clone();
    if !faulty.kinds.contains(&DamageKind::Partition) {
        arrangement.partition_by.clear();
        if !faulty.kinds.contains(&DamageKind::Order) {
            arrangement = Arrangement::default();
        }
    }
    let compile = Some(Arc::clone(&options.verify.compile));
    Arrange { table: Some(arrangement), compile, ..Arrange::default() }
}

fn entry(root: &Root, (partition, new): (Arc<str>, NewSegment)) -> SegmentWithStats {
    let NewSegment { file, offset, length, uuid, footer_crc, rows, stats } = new;
    let known = |id: &ColumnId| root.schema.columns().iter().any(|column| column.id == *id);
    let stats = stats.into_iter().filter(|(id, ..)| known(id));
    let stats =
        stats.map(|(id, data_type, stats)| (id, ColumnStats { data_type, stats })).collect();
    (SegmentEntry { file, partition, offset, length, uuid, footer_crc, rows }, stats)
}

/// Writes the rows of a segment into new ones, each with its partition.
fn write(
    snapshot: &Snapshot,
    faulty: &Faulty,
    arrange: &Arrange,
    files: &DataFiles,
    pool: &rayon::ThreadPool,
    pipeline: &PipelineOptions,
) -> Result<Vec<(Arc<str>, NewSegment)>> {
    let entry = &faulty.entry;
    let segment = snapshot.open_segment(entry)?;
    let mut schema = snapshot.schema().clone();
    let tasks = rewrite::decode_value_tasks(segment, &schema, pipeline.segment.bytes)?;
    let mut new = Vec::new();
    let mut sink = |partition: Arc<str>, segment| {
        let partition = if arrange.is_partitioned() { &partition } else { &entry.partition };
        new.push((Arc::clone(partition), store_segment(files, partition, segment)?));
        Ok(())
    };
    let mut accounting = RowAccounting::default();
    pipeline::run(pool, tasks, &mut schema, arrange, pipeline, &mut accounting, &mut sink)?;
    let rows: u64 = new.iter().map(|(_, segment)| segment.rows).sum();
    if rows != entry.rows {
        let what = format!("{rows} rows were read of {}, so none was written anew", entry.rows);
        return Err(Error::corrupt(entry.offset, what).in_file(snapshot.path(entry), 0));
    }
    Ok(new)
}
