//! Tables that lost `CURRENT`, roots, chunks and segments.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::Int64Array;

use super::*;
use crate::disk::RealDisk;
use crate::disk::simulated::SimulatedDisk;
use crate::encoding::{Options, Profile};
use crate::maintain::verify::verify;
use crate::manifest::LoadedSource;
use crate::model::{ColumnId, DataType, Schema};
use crate::segment::writer::{InputColumn, SegmentInput, encode};
use crate::store::{
    Changes, DataFile, Edit as StoreEdit, NewSegment, Store, TableOptions, TableWriter,
};

const ROWS: usize = 100;
const HOUR: u64 = 3_600_000;

/// A table of three segments of a hundred numbers each, from 0 on, each with a commit of its own.
fn three(dir: &Path, keep: u64) -> Table {
    let table = Store::open(dir).table("t").unwrap();
    (0..3).for_each(|number| append(&table, number, keep));
    table
}

fn writer(table: &Table) -> TableWriter {
    let schema = Schema::from_names([("id", DataType::Int64)]).unwrap();
    table.writer(Some((schema, TableOptions::default()))).unwrap()
}

fn append(table: &Table, number: i64, keep: u64) {
    let mut writer = writer(table);
    let mut file = writer.new_data_file().unwrap();
    let insert = vec![write_segment(&mut file, number, 0)];
    let edits = vec![StoreEdit { at: writer.count(), remove: 0, insert }];
    writer.commit_changes(Changes { edits, keep, ..writer.changes() }).unwrap();
}

/// Writes the segment of this number at an offset of a file.
fn write_segment(file: &mut DataFile, number: i64, offset: u64) -> NewSegment {
    let start = number * ROWS as i64;
    let array = Int64Array::from_iter_values(start..start + ROWS as i64);
    let (id, data_type) = (ColumnId(0), DataType::Int64);
    let column = InputColumn { id, data_type, arrays: vec![Arc::new(array)] };
    let input = SegmentInput { rows: ROWS, block_rows: 1024, columns: vec![column] };
    let encoded = encode(&input, &Options::new(Profile::Balanced)).unwrap();
    file.write_all(&encoded.parts.concat()).unwrap();
    NewSegment {
        file: file.uuid(),
        offset,
        length: encoded.len,
        uuid: encoded.uuid,
        footer_crc: encoded.footer_crc,
        rows: encoded.rows,
        stats: encoded.stats,
    }
}

/// Commits sources that were loaded, and nothing else.
fn add_sources(table: &Table, sources: Vec<LoadedSource>) {
    let mut writer = writer(table);
    writer.commit_changes(Changes { sources, ..writer.changes() }).unwrap();
}

fn source(number: u64) -> LoadedSource {
    LoadedSource { path: format!("/{number}.csv").into(), done: true, ..LoadedSource::default() }
}

/// The path of each segment's file.
fn segment_paths(table: &Table) -> Vec<PathBuf> {
    let snapshot = table.snapshot().unwrap();
    snapshot.segments().unwrap().iter().map(|entry| snapshot.path(entry)).collect()
}

#[expect(clippy::disallowed_methods, reason = "damages a file, and need not be durable")]
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// The rows of a table whose generation is sound, opened without what is cached.
fn sound_rows(dir: &Path) -> u64 {
    let snapshot = Store::open(dir).table("t").unwrap().snapshot().unwrap();
    let found = verify(&snapshot).problems;
    assert!(found.is_empty(), "{found:?}");
    snapshot.rows()
}

fn fix(dir: &Path, dry_run: bool) -> RepairReport {
    let options = RepairOptions { dry_run, ..RepairOptions::default() };
    repair(&Store::open(dir).table("t").unwrap(), &options).unwrap()
}

#[test]
fn a_sound_table_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 0);
    let report = fix(dir.path(), false);
    assert!(report.is_sound() && report.generation.is_none(), "{report:?}");
    assert_eq!((table.generation().unwrap(), sound_rows(dir.path())), (Some(3), 300));
}

#[test]
fn a_lost_or_damaged_current_is_written_again() {
    for lost in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let table = three(dir.path(), 0);
        let current = table.dir().current();
        match lost {
            true => RealDisk.remove(&current).unwrap(),
            false => flip(&current, 20),
        }
        let report = fix(dir.path(), true);
        assert!(!report.is_sound() && table.snapshot().is_err());
        let report = fix(dir.path(), false);
        assert_eq!((report.base, report.generation, report.rows), (3, Some(4), 300));
        // The root goes, too: a commit that failed may have left it.
        assert!(report.lost.is_empty() && report.moved.len() == 1 + usize::from(!lost));
        append(&table, 3, 0);
        assert_eq!(sound_rows(dir.path()), 400);
    }
}

#[test]
fn a_lost_or_damaged_root_falls_back_and_nothing_is_deleted() {
    for lost in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let table = three(dir.path(), HOUR);
        let last = segment_paths(&table).remove(2);
        let root = table.dir().root(3);
        match lost {
            true => RealDisk.remove(&root).unwrap(),
            false => flip(&root, 60),
        }
        for dry_run in [true, false] {
            let report = fix(dir.path(), dry_run);
            assert_eq!((report.base, report.rows, report.lost.len()), (2, 200, 1), "{report:?}");
            assert_eq!((&report.lost[0].file, report.lost[0].rows), (&last, Some(100)));
            assert_eq!(report.generation, (!dry_run).then_some(4));
            assert!(report.moved.iter().any(|(from, to)| *from == last && to.exists() != dry_run));
        }
        stays_sound(&table, 300);
    }
}

/// Appends and sweeps: the next writers read all roots that are kept, and remove nothing that was
/// moved.
fn stays_sound(table: &Table, rows: u64) {
    let moved = |dir: &Path| {
        let mut files = Vec::new();
        let mut dirs = vec![dir.to_path_buf()];
        while let Some(dir) = dirs.pop() {
            for entry in RealDisk.list(&dir).unwrap() {
                let path = dir.join(&entry.name);
                if entry.is_dir { dirs.push(path) } else { files.push(path) }
            }
        }
        files
    };
    let before = moved(&table.dir().damaged());
    append(table, 3, HOUR);
    for keep in [HOUR, 0] {
        table.writer(None).unwrap().free(keep).unwrap();
        assert_eq!(sound_rows(table.path().parent().unwrap()), rows);
    }
    assert!(!before.is_empty() && moved(&table.dir().damaged()) == before);
}

#[test]
fn the_newest_root_is_gone_on_with_although_an_older_generation_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), HOUR);
    let (chunks, data) = (table.snapshot().unwrap().chunks().to_vec(), segment_paths(&table));
    assert_eq!(chunks.len(), 3);
    flip(&table.dir().chunk(&chunks[1].id), 100);
    let report = fix(dir.path(), false);
    assert_eq!((report.base, report.generation, report.rows), (3, Some(4), 200));
    assert_eq!((report.lost.len(), report.lost[0].rows), (1, Some(100)), "{report:?}");
    let moved: Vec<&PathBuf> = report.moved.iter().map(|(from, _)| from).collect();
    assert!(moved.contains(&&data[1]) && !moved.contains(&&data[0]), "{report:?}");
    assert!(data[2].exists() && table.dir().root(1).exists() && !table.dir().root(2).exists());
    assert_eq!(table.snapshot_at(1).unwrap().rows(), 100);
    stays_sound(&table, 300);
}

#[test]
fn rows_of_a_lost_chunk_that_an_older_generation_has_are_not_freed() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), HOUR);
    let data = segment_paths(&table);
    // The fourth append merges the chunks of those before it, and the table keeps no more.
    let reader = table.snapshot().unwrap();
    append(&table, 4, 0);
    drop(reader);
    let chunk = table.snapshot().unwrap().chunks()[0].clone();
    assert_eq!((chunk.segments, table.dir().root(3).exists()), (4, true));
    RealDisk.remove(&table.dir().chunk(&chunk.id)).unwrap();
    let report = fix(dir.path(), false);
    assert_eq!((report.base, report.rows, report.lost[0].rows), (4, 0, Some(400)));
    let moved = report.moved.iter().filter(|(from, to)| data.contains(from) && to.exists());
    assert_eq!(moved.count(), 3, "{report:?}");
    stays_sound(&table, 100);
}

#[test]
fn a_file_with_sound_segments_of_an_older_generation_stays() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    let mut writer = writer(&table);
    let mut file = writer.new_data_file().unwrap();
    let first = write_segment(&mut file, 0, 0);
    let second = write_segment(&mut file, 1, first.length);
    let edits = vec![StoreEdit { at: 0, remove: 0, insert: vec![first, second] }];
    writer.commit_changes(Changes { edits, keep: HOUR, ..writer.changes() }).unwrap();
    let edits = vec![StoreEdit { at: 1, remove: 1, insert: vec![] }];
    writer.commit_changes(Changes { edits, ..writer.changes() }).unwrap();
    drop(writer);
    let path = segment_paths(&table).remove(0);
    flip(&path, 17);
    let report = fix(dir.path(), false);
    assert_eq!((report.rows, report.lost.len(), report.moved.len()), (0, 1, 0), "{report:?}");
    assert!(report.notes[0].contains("generation 1 has sound segments in it"), "{report:?}");
    assert!(path.exists() && table.snapshot_at(1).unwrap().rows() == 200);
}

#[test]
fn a_number_that_was_in_force_is_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), HOUR);
    flip(&table.dir().current(), 20);
    flip(&table.dir().root(3), 60);
    // A repair that stops after the first moves.
    let mut plan = Plan::new(Survey::new(&RealDisk, table.dir()).unwrap(), table.dir()).unwrap();
    plan.outdated = None;
    plan.find_places(&RealDisk, table.dir()).unwrap();
    quarantine::move_all(&RealDisk, &plan.report.moved).unwrap();
    assert!(!table.dir().root(3).exists() && plan.report.moved.len() == 2);
    let report = fix(dir.path(), false);
    assert_eq!((report.base, report.generation), (2, Some(5)));
    assert!(plan.report.moved.iter().all(|(_, to)| to.exists()));
}

#[test]
fn what_was_not_checked_is_not_called_sound() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 0);
    for flipped in [false, true] {
        let options = RepairOptions::default();
        options.verify.cancelled.store(true, Ordering::Relaxed);
        let refusal = repair(&table, &options).unwrap_err();
        assert!(matches!(refusal, Error::Cancelled), "{refusal}");
        assert_eq!(table.generation().unwrap(), Some(3));
        if !flipped {
            flip(&segment_paths(&table)[1], 17);
        }
    }
}

#[test]
fn what_may_not_be_read_is_not_damage() {
    let disk = SimulatedDisk::new(Path::new("/"));
    let table = || Store::open_with(Arc::new(disk.clone()), "/db").table("t").unwrap();
    append(&table(), 0, 0);
    let path = segment_paths(&table()).remove(0);
    disk.deny(Some(&path));
    let problems = verify(&table().snapshot().unwrap()).problems;
    assert!(!problems.is_empty() && problems.iter().all(|damage| !damage.error.is_damage()));
    let refusal = repair(&table(), &RepairOptions::default()).unwrap_err();
    assert!(matches!(refusal, Error::Io { .. }), "{refusal}");
    disk.deny(None);
    assert!(repair(&table(), &RepairOptions::default()).unwrap().is_sound());
}

#[test]
fn a_file_of_the_ledger_is_given_up_only_if_it_is_damaged() {
    let disk = SimulatedDisk::new(Path::new("/"));
    let table = Store::open_with(Arc::new(disk.clone()), "/db").table("t").unwrap();
    append(&table, 0, 0);
    add_sources(&table, (0..200).map(source).collect());
    let file = table.snapshot().unwrap().root().ledger.files[0].clone();
    let path = table.dir().ledger(&file.id);
    disk.deny(Some(&path));
    let refusal = repair(&table, &RepairOptions::default()).unwrap_err();
    assert!(matches!(refusal, Error::Io { .. }), "{refusal}");
    disk.deny(None);
    assert!(repair(&table, &RepairOptions::default()).unwrap().is_sound());
    assert_eq!(table.snapshot().unwrap().sources().unwrap().len(), 200);
    disk.remove(&path).unwrap();
    let report = repair(&table, &RepairOptions::default()).unwrap();
    assert!(report.notes[0].contains("the ledger loses 200 sources"), "{report:?}");
    assert!(table.snapshot().unwrap().sources().unwrap().is_empty());
}

#[test]
fn false_statements_are_named_and_those_of_the_root_put_right() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 0);
    add_sources(&table, vec![LoadedSource { rejected: 1, ..source(1) }]);
    // The ledger's are left as they are, and need no new generation.
    assert_eq!(verify(&table.snapshot().unwrap()).problems.len(), 1);
    for _ in 0..2 {
        let report = fix(dir.path(), false);
        assert!(!report.is_sound() && !report.needed, "{report:?}");
        assert!(report.generation.is_none() && report.notes[0].contains("1 false statements"));
    }
    let mut root = table.snapshot().unwrap().root().clone();
    root.ledger.recent.clear();
    root.chunks[0].first_partition = "a=1".into();
    root.chunks[0].last_partition = "a=2".into();
    write_root(&table, &root);
    assert_eq!(verify(&table.snapshot().unwrap()).problems.len(), 1);
    let report = fix(dir.path(), false);
    assert!(report.notes[0].contains("has partition 'a=1' at an end"), "{report:?}");
    assert_eq!((report.generation, sound_rows(dir.path())), (Some(5), 300));
}

#[test]
fn false_numbers_of_rows_are_counted_anew() {
    for (keep, total, of_chunk) in [(0, 7, 100), (HOUR, u64::MAX, 100), (0, 307, 107)] {
        let dir = tempfile::tempdir().unwrap();
        let table = three(dir.path(), keep);
        let mut root = table.snapshot().unwrap().root().clone();
        let last = root.chunks.last_mut().unwrap();
        let true_rows = last.rows;
        last.rows = true_rows - 100 + of_chunk;
        root.rows = total;
        write_root(&table, &root);
        let plan = fix(dir.path(), true);
        assert!(plan.needed && plan.generation.is_none() && plan.rows == 300, "{plan:?}");
        let report = fix(dir.path(), false);
        assert!(report.notes[0].contains("which is put right"), "{report:?}");
        assert!(report.lost.is_empty() && report.base == 3, "{report:?}");
        assert_eq!((report.generation, report.rows, sound_rows(dir.path())), (Some(4), 300, 300));
        assert!(fix(dir.path(), false).is_sound());
        append(&table, 3, keep);
        table.writer(None).unwrap().free(keep).unwrap();
        assert_eq!(sound_rows(dir.path()), 400);
        assert!(keep == 0 || table.snapshot_at(2).unwrap().rows() == 200);
    }
}

#[expect(clippy::disallowed_methods, reason = "writes a false root, which need not be durable")]
fn write_root(table: &Table, root: &Root) {
    std::fs::write(table.dir().root(root.generation), root.encode()).unwrap();
}

#[test]
fn damaged_segments_are_moved_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 0);
    let path = segment_paths(&table).remove(1);
    flip(&path, 17);
    let plan = fix(dir.path(), true);
    assert_eq!((plan.lost.len(), plan.rows, path.exists()), (1, 200, true));
    let report = fix(dir.path(), false);
    let lost = &report.lost[0];
    assert_eq!((lost.segment, lost.rows, &*lost.bounds), (Some(1), Some(100), "id 100 to 199"));
    assert_eq!((&lost.file, report.generation), (&path, Some(4)));
    let moved = &report.moved[0].1;
    assert!(moved.exists() && !path.exists() && moved.starts_with(dir.path().join("t/damaged")));
    assert_eq!(sound_rows(dir.path()), 200);
    append(&table, 3, 0);
    table.writer(None).unwrap().free(0).unwrap();
    assert!(moved.exists() && sound_rows(dir.path()) == 300);
    // A file that is gone is damage, too, and there is nothing to move.
    RealDisk.remove(&segment_paths(&table)[0]).unwrap();
    let report = fix(dir.path(), false);
    assert!(report.lost[0].why.contains("it is missing") && report.moved.is_empty());
    assert_eq!(sound_rows(dir.path()), 200);
}

#[test]
fn a_lost_chunk_takes_its_rows_but_not_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 0);
    let chunk = table.snapshot().unwrap().chunks()[0].clone();
    let data = segment_paths(&table);
    RealDisk.remove(&table.dir().chunk(&chunk.id)).unwrap();
    let report = fix(dir.path(), false);
    assert_eq!((report.lost[0].segment, report.lost[0].rows), (None, Some(chunk.rows)));
    let moved = report.moved.iter().filter(|(from, to)| data.contains(from) && to.exists());
    assert_eq!(moved.count(), chunk.segments as usize, "{report:?}");
    assert_eq!(sound_rows(dir.path()), 300 - chunk.rows);
    append(&table, 3, 0);
    assert_eq!(sound_rows(dir.path()), 400 - chunk.rows);
}

#[test]
fn without_any_root_there_is_nothing_to_fall_back_to() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 0);
    flip(&table.dir().root(3), 60);
    let refusal = repair(&table, &RepairOptions::default()).unwrap_err();
    assert!(matches!(refusal, Error::Corrupt { .. }), "{refusal}");
    assert!(table.dir().root(3).exists());
}
