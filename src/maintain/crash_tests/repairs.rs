//! `repair` of tables that are damaged in several ways, with trouble at each call that it makes.
//!
//! What is promised: whenever it stops, the next repair restores what it would have restored. The
//! number of the new generation is above all that were ever in force, and no data file is gone,
//! neither then nor after the next writer has swept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::matrix::{Trouble, base};
use super::operations::Operation;
use super::{State, check, check_next_writer, read, table};
use crate::block::Order;
use crate::disk::simulated::{PowerLoss, SimulatedDisk};
use crate::disk::{Disk, durable};
use crate::manifest::WriteVolume;
use crate::manifest::commit::{Change, Edit, commit};
use crate::store::{Snapshot, Table};

/// What is damaged.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// A chunk of the two newest generations. Older ones have its rows in others.
    Chunk,
    Segment,
    /// The root of the generation in force is gone.
    LostRoot,
    /// That root is damaged, and `CURRENT`.
    RootAndCurrent,
    Current,
    /// What the manifest says of the values of a segment is false.
    Statistics,
}

impl Broken {
    const ALL: [Broken; 6] = [
        Broken::Chunk,
        Broken::Segment,
        Broken::LostRoot,
        Broken::RootAndCurrent,
        Broken::Current,
        Broken::Statistics,
    ];

    fn apply(self, disk: &SimulatedDisk, table: &Table) {
        let (snapshot, dir) = (table.snapshot().unwrap(), table.dir());
        let root = dir.root(snapshot.generation());
        match self {
            Broken::Chunk => {
                assert_eq!(snapshot.chunks().len(), 2);
                flip(disk, &dir.chunk(&snapshot.chunks()[0].id), 100);
            }
            Broken::Segment => flip(disk, &snapshot.path(&snapshot.segments().unwrap()[1]), 17),
            Broken::LostRoot => disk.remove(&root).unwrap(),
            Broken::RootAndCurrent => {
                flip(disk, &root, 60);
                flip(disk, &dir.current(), 20);
            }
            Broken::Current => flip(disk, &dir.current(), 20),
            Broken::Statistics => lie(disk, &snapshot),
        }
        disk.lose_power(PowerLoss::Everything);
    }
}

fn flip(disk: &SimulatedDisk, path: &Path, at: usize) {
    let mut bytes = disk.files().remove(path).unwrap();
    bytes[at] ^= 1;
    durable::replace(disk, path, &bytes).unwrap();
}

/// Commits a generation whose manifest says nothing true of a segment's values.
fn lie(disk: &SimulatedDisk, snapshot: &Snapshot) {
    let (root, entry) = (snapshot.root(), snapshot.segments().unwrap()[1].clone());
    let columns = root.schema.columns().iter();
    let known = columns.filter_map(|column| {
        let mut known = snapshot.column_stats(column.id).unwrap().swap_remove(1)?;
        known.stats.min = known.stats.max.clone();
        known.stats.order = Order { ascending: true, descending: true, strict: true };
        Some((column.id, known))
    });
    let edits = vec![Edit { at: 1, remove: 1, insert: vec![(entry, known.collect())] }];
    let change = Change {
        base: Some(root),
        schema: root.schema.clone(),
        options: root.options,
        arrangement: root.arrangement.clone(),
        history: root.history,
        edits,
        sources: Vec::new(),
        write_volume: WriteVolume::default(),
    };
    commit(disk, snapshot.dir(), change).unwrap();
}

/// Fails without a print of all bytes.
fn assert_same(
    found: &BTreeMap<PathBuf, Vec<u8>>,
    expected: &BTreeMap<PathBuf, Vec<u8>>,
    what: &str,
) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    assert!(found == expected, "{what}: other bytes");
}

/// The data files, by their names alone, of those that `broken` has. What a repair has written
/// anew comes beside them.
fn data_files(disk: &SimulatedDisk, broken: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_data = |path: &Path| path.extension().is_some_and(|extension| extension == "sty");
    let name = |path: &Path| PathBuf::from(path.file_name().unwrap());
    let known: BTreeSet<_> = broken.files().keys().map(|path| name(path)).collect();
    let files = disk.files().into_iter().filter(|(path, _)| is_data(path));
    let files = files.map(|(path, bytes)| (name(&path), bytes));
    files.filter(|(name, _)| known.contains(name)).collect()
}

/// The files that were moved away, of those that were there before. A root that never came into
/// force may not be durable.
fn moved(disk: &SimulatedDisk, broken: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap().to_owned();
    let known: BTreeSet<_> = broken.files().keys().map(|path| name(path)).collect();
    let damaged = table(disk).dir().damaged();
    let files = disk.files().into_iter();
    files.filter(|(path, _)| path.starts_with(&damaged) && known.contains(&name(path))).collect()
}

/// One repair of a copy of `broken`, with trouble, and one without.
fn run(
    broken: &SimulatedDisk,
    (newest, expected): (u64, &State),
    (at, trouble): (u64, Trouble),
    what: &str,
) {
    let what = format!("{what} with trouble at call {at}: {trouble:?}");
    let disk = broken.fork();
    disk.set_fault(Some(trouble.fault(at)));
    let reported = Operation::Repair.run(&table(&disk));
    disk.set_fault(None);
    if let Trouble::Crashes(outcome) = trouble {
        disk.lose_power(match outcome {
            PowerLoss::Some(seed) => PowerLoss::Some(seed + 1000 * at),
            other => other,
        });
    }
    let files = data_files(broken, broken);
    assert_same(&data_files(&disk, broken), &files, &format!("{what}: data files"));
    if reported.is_err() {
        Operation::Repair.run(&table(&disk)).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    check(&disk, std::slice::from_ref(expected), &what);
    assert!(table(&disk).generation().unwrap() > Some(newest), "{what}: a number comes again");
    assert_same(&data_files(&disk, broken), &files, &format!("{what}: data files"));
    let before = moved(&disk, broken);
    check_next_writer(&disk, expected, &what);
    assert_same(&moved(&disk, broken), &before, &format!("{what}: moved files"));
}

#[test]
fn every_call_of_a_repair_fails_once_and_crashes_once() {
    std::thread::scope(|scope| {
        Broken::ALL.into_iter().for_each(|broken| drop(scope.spawn(move || every_call(broken))));
    });
}

fn every_call(broken: Broken) {
    let (disk, before) = base().unwrap();
    let append = Operation::Append { from: 50, count: 10 };
    append.run(&table(&disk)).unwrap();
    let before = append.states(&before).pop().unwrap();
    let newest = table(&disk).generation().unwrap().unwrap();
    broken.apply(&disk, &table(&disk));
    let repaired = disk.fork();
    repaired.set_fault(None);
    Operation::Repair.run(&table(&repaired)).unwrap();
    let calls = repaired.calls();
    let expected = read(&table(&repaired)).unwrap();
    let rows = |state: &State| state.as_ref().unwrap().rows.len();
    let is_whole = matches!(broken, Broken::Current | Broken::Statistics);
    assert_eq!(expected == before, is_whole, "{broken:?}");
    println!("{broken:?}: {calls} calls, {} of {} rows", rows(&expected), rows(&before));
    for at in 1..=calls + 1 {
        for trouble in Trouble::ALL {
            run(&disk, (newest, &expected), (at, trouble), &format!("{broken:?}"));
        }
    }
}
