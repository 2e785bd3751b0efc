//! Tables that lost files, files out of reach, and commits that the disk does not confirm.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{append, created, schema, seeds, segment_in};
use crate::disk::Disk;
use crate::disk::simulated::{Fault, SimulatedDisk};
use crate::error::{Error, Result};
use crate::store::{Changes, Edit, LoadedSource, Store, Table};

fn store(disk: &SimulatedDisk) -> Store {
    Store::open_with(Arc::new(disk.clone()), "/store")
}

/// A store with the tables `sound` and `t`; the latter has a partition and a file of the ledger.
fn two_tables() -> (SimulatedDisk, Table) {
    let disk = SimulatedDisk::new(Path::new("/"));
    append(&store(&disk).table("sound").unwrap(), 9).unwrap();
    let table = store(&disk).table("t").unwrap();
    append(&table, 1).unwrap();
    let mut writer = table.writer(None).unwrap();
    let insert = vec![segment_in("k=1/l=2", &writer, 2, false).unwrap()];
    let sources = (0..200)
        .map(|i| LoadedSource { path: i.to_string().into(), done: true, ..LoadedSource::default() })
        .collect();
    let edits = vec![Edit { at: 1, remove: 0, insert }];
    writer.commit_changes(Changes { edits, sources, ..writer.changes() }).unwrap();
    drop(writer);
    (disk, table)
}

fn is_corrupt<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Corrupt { .. }))
}

fn paths(disk: &SimulatedDisk, part: &str) -> Vec<PathBuf> {
    disk.files().into_keys().filter(|path| path.display().to_string().contains(part)).collect()
}

#[test]
fn a_table_without_current_is_damaged_as_long_as_anything_shows_that_it_was_one() {
    // Each bit says which kind of file stays.
    let kinds = [".root", ".chunk", ".ledger", "/t/data/k=1", "/t/data/0"];
    for keep in 0..1 << kinds.len() {
        let (disk, table) = two_tables();
        let current = table.path().join("CURRENT");
        disk.remove(&current).unwrap();
        for (_, kind) in kinds.iter().enumerate().filter(|(bit, _)| keep & 1 << bit == 0) {
            for path in paths(&disk, kind).iter().filter(|path| path.starts_with("/store/t")) {
                disk.remove(path).unwrap();
            }
        }
        let left = disk.files();
        let is_empty = !left
            .keys()
            .any(|path| path.starts_with("/store/t/manifest") || path.starts_with("/store/t/data"));
        if is_empty {
            assert_eq!(store(&disk).tables().unwrap(), ["sound"]);
            assert!(append(&table, 5).is_ok());
            continue;
        }
        assert!(is_corrupt(table.generation()) && is_corrupt(table.snapshot()), "{keep}");
        assert!(is_corrupt(table.generations()) && is_corrupt(table.snapshot_at(1)));
        assert!(is_corrupt(store(&disk).has_table("t")));
        assert!(is_corrupt(table.writer(None)) && is_corrupt(table.writer(created())));
        assert_eq!(store(&disk).tables().unwrap(), ["sound", "t"]);
        assert_eq!(disk.files(), left, "nothing is removed or written");
        assert_eq!(seeds(&store(&disk).table("sound").unwrap().snapshot().unwrap()), [9]);
    }
}

#[test]
fn a_current_that_names_nothing_is_damage() {
    let (disk, table) = two_tables();
    let current = table.path().join("CURRENT");
    let line = disk.read(&current, 256).unwrap();
    for wrong in [vec![], line[1..].to_vec(), line.repeat(9)] {
        disk.remove(&current).unwrap();
        disk.create(&current).unwrap().write_all(&wrong).unwrap();
        assert!(is_corrupt(table.snapshot()) && is_corrupt(table.writer(created())));
        assert_eq!(store(&disk).tables().unwrap(), ["sound", "t"]);
    }
    disk.remove(&current).unwrap();
    disk.create_dir_all(&current).unwrap();
    assert!(is_corrupt(table.snapshot()));
}

#[test]
fn files_that_the_manifest_names_and_that_are_missing_are_damage() {
    for part in [".chunk", ".ledger", "/data/", ".root"] {
        let (disk, table) = two_tables();
        for path in paths(&disk, part).iter().filter(|path| path.starts_with("/store/t")) {
            disk.remove(path).unwrap();
        }
        if part == ".root" {
            assert!(is_corrupt(table.snapshot()) && is_corrupt(table.snapshot_at(2)));
            assert!(is_corrupt(table.writer(None)));
            continue;
        }
        let snapshot = table.snapshot().unwrap();
        match part {
            ".chunk" => assert!(is_corrupt(snapshot.segments())),
            ".ledger" => assert!(is_corrupt(snapshot.sources())),
            _ => {
                let entry = &snapshot.segments().unwrap()[0];
                assert!(is_corrupt(snapshot.map(entry)));
                assert!(is_corrupt(table.writer(None).unwrap().open_segment(entry)));
                // The files that the manifest does not name may be the table's own.
                let before = paths(&disk, "");
                assert!(is_corrupt(table.writer(None).unwrap().free(0)));
                let after = paths(&disk, "").into_iter().filter(|path| !path.ends_with("UNSWEPT"));
                assert_eq!(after.collect::<Vec<_>>(), before);
            }
        }
    }
}

#[test]
fn what_is_out_of_reach_is_neither_missing_nor_damaged() {
    let (disk, table) = two_tables();
    let is_denied = |error: &Error| {
        matches!(error, Error::Io { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied)
    };
    for path in ["/store/t", "/store/t/CURRENT"] {
        disk.deny(Some(Path::new(path)));
        assert!(is_denied(&table.generation().unwrap_err()));
        assert!(is_denied(&table.snapshot().unwrap_err()));
        assert!(is_denied(&table.writer(created()).unwrap_err()));
        assert!(is_denied(&store(&disk).has_table("t").unwrap_err()));
        assert_eq!(store(&disk).tables().unwrap(), ["sound", "t"], "it does not hide others");
    }
    disk.deny(Some(Path::new("/store")));
    assert!(is_denied(&store(&disk).tables().unwrap_err()));
    assert!(is_denied(&store(&disk).exists().unwrap_err()));
    disk.deny(None);
    disk.remove(&table.path().join("CURRENT")).unwrap();
    for part in ["manifest", "data"] {
        disk.deny(Some(&table.path().join(part)));
        let error = table.generation().unwrap_err();
        assert!(is_denied(&error) || part == "data", "{error}");
    }
    disk.deny(None);
    assert_eq!(store(&disk).table("sound").unwrap().generation().unwrap(), Some(1));
}

#[test]
fn a_store_with_tables_called_data_and_manifest_is_no_lost_table() {
    let disk = SimulatedDisk::new(Path::new("/"));
    for name in ["data", "manifest"] {
        append(&store(&disk).table(name).unwrap(), 1).unwrap();
    }
    let outer = Store::open_with(Arc::new(disk.clone()), "/");
    assert!(!outer.has_table("store").unwrap());
    disk.remove(Path::new("/store/data/CURRENT")).unwrap();
    assert!(!outer.has_table("store").unwrap());
    assert!(is_corrupt(store(&disk).has_table("data")));
}

#[test]
fn a_sync_that_fails_after_the_swap_is_reported_with_the_generation_in_force() {
    let disk = SimulatedDisk::new(Path::new("/"));
    let table = store(&disk).table("t").unwrap();
    append(&table, 1).unwrap();
    let mut reported = 0;
    for at in 1..60 {
        for after_effect in [false, true] {
            let disk = disk.fork();
            let table = store(&disk).table("t").unwrap();
            disk.set_fault(Some(Fault { at, forever: false, after_effect }));
            let done = append(&table, 2);
            disk.set_fault(None);
            let in_force = table.generation().unwrap();
            match done {
                Err(Error::Unconfirmed { generation, current, source }) => {
                    assert_eq!((Some(generation), generation), (in_force, 2), "call {at}");
                    assert_eq!(current, table.path().join("CURRENT"));
                    assert!(source.to_string().contains("injected"), "{source}");
                    reported += 1;
                }
                Err(error) => assert_eq!(in_force, Some(1), "call {at}: {error}"),
                Ok(_) => assert_eq!(in_force, Some(2), "call {at}"),
            }
            // The next writer makes it durable first.
            let expected = if in_force == Some(2) { vec![1, 2, 3] } else { vec![1, 3] };
            append(&table, 3).unwrap();
            assert_eq!(seeds(&table.snapshot().unwrap()), expected);
        }
    }
    // The rename that happened and failed, and the sync that failed with and without effect.
    assert_eq!(reported, 3);
    let mut writer = table.writer(None).unwrap();
    disk.set_fault(Some(Fault { at: 1, forever: false, after_effect: false }));
    assert!(writer.commit(schema(), vec![]).is_ok(), "without a change there is no commit");
}
