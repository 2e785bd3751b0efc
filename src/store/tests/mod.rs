//! Tables on the real disk; `faults.rs` has those on a simulated disk that fails at every call.

mod damage;
mod faults;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::block::{Bound, Stats};
use crate::budget::Budget;
use crate::disk::simulated::SimulatedDisk;
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType, Scalar, Schema};

fn schema() -> Schema {
    Schema::from_names([("id", DataType::Int64), ("name", DataType::Utf8)]).unwrap()
}

fn created() -> Option<(Schema, TableOptions)> {
    Some((schema(), TableOptions::default()))
}

/// Writes a data file whose bytes and statistics are derived from `seed`.
fn segment(writer: &TableWriter, seed: u8, sync: bool) -> Result<NewSegment> {
    segment_in("", writer, seed, sync)
}

fn segment_in(partition: &str, writer: &TableWriter, seed: u8, sync: bool) -> Result<NewSegment> {
    let mut file = writer.data_files().create_in(partition)?;
    file.write_all(&[seed; 100])?;
    if sync {
        file.sync()?;
    }
    let bound = Some(Bound { value: Scalar::Int(seed.into()), exact: true });
    let stats = Stats { rows: 10, min: bound.clone(), max: bound, ..Stats::default() };
    Ok(NewSegment {
        file: file.uuid(),
        offset: 0,
        length: 100,
        uuid: [seed; 16],
        footer_crc: 1,
        rows: 10,
        stats: vec![(ColumnId(0), DataType::Int64, stats)],
    })
}

/// Appends one segment with a new writer.
fn append(table: &Table, seed: u8) -> Result<Commit> {
    let mut writer = table.writer(created())?;
    let new = segment(&writer, seed, seed.is_multiple_of(2))?;
    writer.commit(schema(), vec![new])
}

/// The seeds of a snapshot's segments, after checking that every file has its bytes.
fn seeds(snapshot: &Snapshot) -> Vec<u8> {
    let segments = snapshot.segments().unwrap();
    assert_eq!(segments.iter().map(|s| s.rows).sum::<u64>(), snapshot.rows());
    let known = snapshot.column_stats(ColumnId(0)).unwrap();
    assert_eq!(known.len(), segments.len());
    let check = |(segment, known): (&SegmentEntry, &Option<ColumnStats>)| {
        let seed = segment.uuid[0];
        assert_eq!(
            snapshot.map(segment).unwrap().bytes(0..100, Budget::UNLIMITED).unwrap(),
            [seed; 100]
        );
        let min = known.as_ref().unwrap().stats.min.as_ref().unwrap();
        assert_eq!(min.value, Scalar::Int(seed.into()));
        seed
    };
    segments.iter().zip(&known).map(check).collect()
}

#[test]
fn tables_are_created_appended_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("a/db"));
    assert!(matches!(store.tables(), Err(Error::NotFound(_))));
    let table = store.table("trips").unwrap();
    assert!(matches!(table.snapshot(), Err(Error::NotFound(_))));
    assert!(matches!(table.writer(None), Err(Error::NotFound(_))));
    let first = table.writer(created()).unwrap().commit(schema(), vec![]).unwrap();
    assert_eq!(first.generation, 1);
    assert_eq!(table.snapshot().unwrap().rows(), 0);
    for seed in 1..40 {
        assert_eq!(append(&table, seed).unwrap().generation, u64::from(seed) + 1);
    }
    let snapshot = table.snapshot().unwrap();
    assert_eq!(seeds(&snapshot), (1..40).collect::<Vec<_>>());
    assert!(snapshot.chunks().len() < 10);
    assert_eq!(store.tables().unwrap(), ["trips"]);
    for bad in ["", ".hidden", "a/b", "..", "a\0"] {
        assert!(store.table(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_writer_that_does_not_commit_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    let table = store.table("t").unwrap();
    let writer = table.writer(created()).unwrap();
    segment(&writer, 1, true).unwrap();
    drop(writer);
    assert!(!table.path().exists());
    append(&table, 2).unwrap();
    let before = files(&table);
    let writer = table.writer(None).unwrap();
    segment(&writer, 3, false).unwrap();
    drop(writer);
    assert_eq!(files(&table), before);
    assert_eq!(seeds(&table.snapshot().unwrap()), [2]);
}

fn files(table: &Table) -> BTreeSet<String> {
    let list = |dir: &str| RealDisk.list(&table.path().join(dir)).unwrap();
    ["", "manifest", "data"].iter().flat_map(|dir| list(dir)).map(|entry| entry.name).collect()
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    append(&table, 1).unwrap();
    let writer = table.writer(None).unwrap();
    let refusal = table.writer(None).unwrap_err();
    assert!(refusal.to_string().contains("table 't' is being written"), "{refusal}");
    assert_eq!(seeds(&table.snapshot().unwrap()), [1]);
    drop(writer);
    append(&table, 2).unwrap();
}

#[test]
fn a_reader_keeps_its_generation() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    append(&table, 1).unwrap();
    let old = table.snapshot().unwrap();
    for seed in 2..12 {
        append(&table, seed).unwrap();
    }
    // Nothing of it was opened before, and its chunk has been merged away since.
    assert_eq!((old.generation(), seeds(&old)), (1, vec![1]));
    let roots = |table: &Table| files(table).iter().filter(|name| name.ends_with(".root")).count();
    assert_eq!(roots(&table), 2);
    drop(old);
    append(&table, 12).unwrap();
    assert_eq!(roots(&table), 1);
    let chunks = files(&table).iter().filter(|name| name.ends_with(".chunk")).count();
    assert_eq!(chunks, table.snapshot().unwrap().chunks().len());
}

#[test]
fn readers_and_a_writer_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path());
    append(&store.table("t").unwrap(), 1).unwrap();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let table = Store::open(dir.path()).table("t").unwrap();
            for seed in 2..60 {
                append(&table, seed).unwrap();
            }
        });
        let mut last = 0;
        while !writing.is_finished() {
            // A new store each time, so that nothing comes from a cache.
            let snapshot = Store::open(dir.path()).table("t").unwrap().snapshot().unwrap();
            let found = seeds(&snapshot);
            assert_eq!(found, (1..=snapshot.generation() as u8).collect::<Vec<_>>());
            assert!(snapshot.generation() >= last);
            last = snapshot.generation();
        }
    });
}

#[test]
fn a_lost_current_is_an_error_and_nothing_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    for seed in 1..3 {
        append(&table, seed).unwrap();
        let current = table.path().join("CURRENT");
        let contents = RealDisk.read(&current, 256).unwrap();
        RealDisk.remove(&current).unwrap();
        let before = files(&table);
        let refusal = table.writer(created()).unwrap_err();
        assert!(matches!(refusal, Error::Corrupt { .. }), "{refusal}");
        assert_eq!(files(&table), before);
        assert!(refusal.to_string().contains("sty repair"), "{refusal}");
        RealDisk.create(&current).unwrap().write_all(&contents).unwrap();
        assert_eq!(seeds(&table.snapshot().unwrap()), (1..=seed).collect::<Vec<_>>());
    }
}

#[test]
fn an_unfinished_first_commit_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    append(&table, 1).unwrap();
    // As after a crash right before the rename of CURRENT.
    RealDisk.remove(&table.path().join("CURRENT")).unwrap();
    RealDisk.create(&table.path().join("CREATING")).unwrap();
    let before = files(&table);
    append(&table, 2).unwrap();
    assert_eq!(seeds(&table.snapshot().unwrap()), [2]);
    assert!(!files(&table).contains("CREATING"));
    assert_eq!(
        files(&table).intersection(&before).filter(|name| name.contains('.')).count(),
        1,
        "the root's name"
    );
    // The marker has no meaning if there is a CURRENT.
    RealDisk.create(&table.path().join("CREATING")).unwrap();
    append(&table, 3).unwrap();
    assert_eq!(seeds(&table.snapshot().unwrap()), [2, 3]);
    assert!(!files(&table).contains("CREATING"));
}

#[test]
fn a_data_file_that_is_missing_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    append(&table, 1).unwrap();
    let snapshot = table.snapshot().unwrap();
    let path = snapshot.path(&snapshot.segments().unwrap()[0]);
    RealDisk.remove(&path).unwrap();
    let error = snapshot.map(&snapshot.segments().unwrap()[0]).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { file, .. } if *file == path), "{error}");
}

#[test]
fn dropped_column_ids_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    append(&table, 1).unwrap();
    let columns = schema().columns()[..1].to_vec();
    let narrow = Schema::from_parts(columns, 2).unwrap();
    table.writer(None).unwrap().commit(narrow, vec![]).unwrap();
    assert!(table.writer(None).unwrap().commit(schema(), vec![]).is_err());
}

#[test]
fn random_edits_give_the_expected_list() {
    let disk = SimulatedDisk::new(Path::new("/"));
    let store = Store::open_with(Arc::new(disk.clone()), "/s");
    let table = store.table("t").unwrap();
    let mut writer = table.writer(created()).unwrap();
    // Many columns, so that segments are large in the manifest and there are many chunks.
    let wide = |seed: u8| {
        let mut new = segment(&writer, seed, false).unwrap();
        let stats = new.stats[0].2.clone();
        new.stats.extend((1..1000).map(|id| (ColumnId(id), DataType::Int64, stats.clone())));
        new
    };
    let columns: Vec<String> = (0..1000).map(|i| format!("c{i}")).collect();
    let schema = Schema::from_names(columns.iter().map(|name| (&**name, DataType::Int64))).unwrap();
    let first: Vec<u8> = (0..60).collect();
    let new = first.iter().map(|seed| wide(*seed)).collect();
    writer.commit(schema, new).unwrap();
    let (mut model, mut state, mut most_chunks) = (first, 7u64, 0);
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..120 {
        let (mut edits, mut next, mut from) = (Vec::new(), Vec::new(), 0);
        while from <= model.len() && edits.len() < 4 {
            let at = from + random(model.len() - from + 1);
            let remove = random(model.len() - at + 1).min(random(12));
            let seeds: Vec<u8> =
                (0..random(if remove == 0 { 6 } else { 3 })).map(|_| random(200) as u8).collect();
            let insert = seeds.iter().map(|seed| segment(&writer, *seed, false).unwrap()).collect();
            next.extend_from_slice(&model[from..at]);
            next.extend(seeds);
            edits.push(Edit { at, remove, insert });
            from = at + remove.max(1);
            next.extend_from_slice(&model[(at + remove).min(model.len())..from.min(model.len())]);
        }
        next.extend_from_slice(&model[from.min(model.len())..]);
        writer.commit_changes(Changes { edits, ..writer.changes() }).unwrap();
        model = next;
        let snapshot = table.snapshot().unwrap();
        assert_eq!(seeds(&snapshot), model, "round {round}");
        assert_eq!(snapshot.segments().unwrap().to_vec(), writer.segments().unwrap());
        most_chunks = most_chunks.max(snapshot.chunks().len());
        drop(snapshot);
        let data = disk
            .files()
            .into_keys()
            .filter(|path| path.extension().is_some_and(|e| e == "sty"))
            .count();
        // Files of the previous generation may still exist.
        assert!(data <= model.len() + 60, "{data} files of {} segments", model.len());
    }
    assert!(most_chunks > 3 && most_chunks < 60, "{most_chunks}");
    let beyond = Edit { at: model.len() - 1, remove: 2, insert: vec![] };
    assert!(writer.commit_changes(Changes { edits: vec![beyond], ..writer.changes() }).is_err());
}

#[test]
fn generations_are_kept_for_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let table = Store::open(dir.path()).table("t").unwrap();
    let mut writer = table.writer(created()).unwrap();
    let new = segment(&writer, 1, false).unwrap();
    writer.commit(schema(), vec![new]).unwrap();
    let insert = vec![segment(&writer, 2, false).unwrap()];
    let edits = vec![Edit { at: 0, remove: 1, insert }];
    writer.commit_changes(Changes { keep: 3_600_000, edits, ..writer.changes() }).unwrap();
    drop(writer);
    append(&table, 3).unwrap();
    for (generation, expected) in [(1, vec![1]), (2, vec![2]), (3, vec![2, 3])] {
        assert_eq!(seeds(&table.snapshot_at(generation).unwrap()), expected);
    }
    let held = table.snapshot_at(2).unwrap();
    let mut writer = table.writer(None).unwrap();
    assert_eq!(writer.free(3_600_000).unwrap().generations, 0);
    let freed = writer.free(0).unwrap();
    assert_eq!((freed.generations, freed.oldest), (1, 2));
    assert!(matches!(table.snapshot_at(1), Err(Error::NotFound(_))));
    assert_eq!(seeds(&held), [2]);
    drop(held);
    assert_eq!(writer.free(0).unwrap().generations, 1);
    assert_eq!(table.generations().unwrap(), [3]);
}
