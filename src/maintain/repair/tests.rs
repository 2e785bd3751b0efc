//! Tables that lost `CURRENT`, roots, chunks and segments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Int64Array;

use super::*;
use crate::disk::RealDisk;
use crate::encoding::{Options, Profile};
use crate::maintain::verify::verify;
use crate::model::{ColumnId, DataType, Schema};
use crate::segment::writer::{InputColumn, SegmentInput, encode};
use crate::store::{Changes, Edit as StoreEdit, NewSegment, Store, TableOptions};

const ROWS: usize = 100;

/// A table of three segments of a hundred numbers each, from 0 on, each with a commit of its own.
fn three(dir: &Path, keep: u64) -> Table {
    let table = Store::open(dir).table("t").unwrap();
    (0..3).for_each(|number| append(&table, number, keep));
    table
}

fn append(table: &Table, number: i64, keep: u64) {
    let schema = Schema::from_names([("id", DataType::Int64)]).unwrap();
    let mut writer = table.writer(Some((schema, TableOptions::default()))).unwrap();
    let start = number * ROWS as i64;
    let array = Int64Array::from_iter_values(start..start + ROWS as i64);
    let (id, data_type) = (ColumnId(0), DataType::Int64);
    let column = InputColumn { id, data_type, arrays: vec![Arc::new(array)] };
    let input = SegmentInput { rows: ROWS, block_rows: 1024, columns: vec![column] };
    let encoded = encode(&input, &Options::new(Profile::Balanced)).unwrap();
    let mut file = writer.new_data_file().unwrap();
    file.write_all(&encoded.parts.concat()).unwrap();
    let new = NewSegment {
        file: file.uuid(),
        offset: 0,
        length: encoded.len,
        uuid: encoded.uuid,
        footer_crc: encoded.footer_crc,
        rows: encoded.rows,
        stats: encoded.stats,
    };
    let at = writer.count();
    let edits = vec![StoreEdit { at, remove: 0, insert: vec![new] }];
    writer.commit_changes(Changes { edits, keep, ..writer.changes() }).unwrap();
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
        assert!(report.lost.is_empty() && report.moved.len() == usize::from(!lost));
        append(&table, 3, 0);
        assert_eq!(sound_rows(dir.path()), 400);
    }
}

#[test]
fn a_damaged_root_falls_back_and_nothing_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let table = three(dir.path(), 3_600_000);
    let last = segment_paths(&table).remove(2);
    flip(&table.dir().root(3), 60);
    let report = fix(dir.path(), false);
    assert_eq!((report.base, report.generation, report.rows), (2, Some(4), 200));
    assert!(report.moved.iter().any(|(from, to)| *from == last && to.exists()), "{report:?}");
    // The next writers read all roots that are kept.
    append(&table, 3, 3_600_000);
    table.writer(None).unwrap().free(3_600_000).unwrap();
    assert_eq!(sound_rows(dir.path()), 300);
    assert!(report.moved.iter().all(|(_, to)| to.exists()));
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
    assert_eq!((lost.segment, lost.rows, &*lost.bounds), (Some(1), 100, "id 100 to 199"));
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
    assert_eq!((report.lost[0].segment, report.lost[0].rows), (None, chunk.rows));
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
