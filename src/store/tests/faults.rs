//! A table survives any call that fails, and a power loss after any call.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{append, created, schema, seeds, segment, segment_in};
use crate::disk::Disk;
use crate::disk::simulated::{Fault, PowerLoss, SimulatedDisk};
use crate::error::{Error, Result};
use crate::store::{Changes, Edit, LoadedSource, Store};

const ROOT: &str = "/store";

/// Creates a table, appends three times, the last time several files at once, and edits it; the
/// sweep after each commit collects garbage. `reported` counts the commits that returned.
fn scenario(disk: &SimulatedDisk, reported: &mut usize) -> Result<()> {
    let table = Store::open_with(Arc::new(disk.clone()), ROOT).table("t")?;
    append(&table, 1)?;
    *reported = 1;
    let mut writer = table.writer(None)?;
    let reader = table.snapshot()?;
    let new = segment(&writer, 2, false)?;
    writer.commit(schema(), vec![new])?;
    *reported = 2;
    let new = segment(&writer, 3, false)?;
    writer.commit(schema(), vec![new])?;
    *reported = 3;
    drop(reader);
    let many = (4..24).map(|seed| segment(&writer, seed, false)).collect::<Result<Vec<_>>>()?;
    writer.commit(schema(), many)?;
    *reported = 4;
    // The first three become one, five in the middle are removed, and the sources are too many to
    // stand in the root: they need a ledger file.
    let insert = vec![segment_in("k=1/l=2", &writer, 40, false)?];
    let edits = vec![Edit { at: 0, remove: 3, insert }, Edit { at: 10, remove: 5, insert: vec![] }];
    let sources = (0..200)
        .map(|i| LoadedSource { path: i.to_string().into(), done: true, ..LoadedSource::default() })
        .collect();
    // A file that no edit names is not kept.
    segment_in("k=2", &writer, 41, false)?;
    writer.commit_changes(Changes { edits, sources, ..writer.changes() })?;
    *reported = 5;
    Ok(())
}

/// All commits of the scenario.
const COMMITS: usize = 5;

fn expected(commits: usize) -> Vec<u8> {
    match commits {
        COMMITS => [40].into_iter().chain(4..11).chain(16..24).collect(),
        _ => (1..[1, 2, 3, 4, 24][commits]).collect(),
    }
}

/// What the table has.
fn stored(disk: &SimulatedDisk) -> Vec<u8> {
    let table = Store::open_with(Arc::new(disk.clone()), ROOT).table("t").unwrap();
    match table.snapshot() {
        Ok(snapshot) => seeds(&snapshot),
        Err(Error::NotFound(_)) => vec![],
        Err(error) => panic!("{error}"),
    }
}

/// Whatever happened before: the table is complete, at the last reported generation or the one in
/// flight; the next writer can append, and leaves no file that the table does not need.
fn check(disk: &SimulatedDisk, reported: usize, what: &str) {
    let table = Store::open_with(Arc::new(disk.clone()), ROOT).table("t").unwrap();
    let before = stored(disk);
    let in_flight = expected((reported + 1).min(COMMITS));
    assert!(
        before == expected(reported) || before == in_flight,
        "{what}: {reported} reported, found {before:?}"
    );
    append(&table, 99).unwrap_or_else(|error| panic!("{what}: {error}"));
    // Power is lost again: everything that the sweep and the append relied on must be durable.
    disk.lose_power(PowerLoss::Nothing);
    drop(table.writer(None).unwrap());
    let snapshot = table.snapshot().unwrap();
    assert_eq!(seeds(&snapshot), [before, vec![99]].concat(), "{what}");
    let mut needed: BTreeSet<_> =
        snapshot.segments().unwrap().iter().map(|segment| snapshot.path(segment)).collect();
    let dir = snapshot.dir();
    needed.extend(snapshot.chunks().iter().map(|chunk| dir.chunk(&chunk.id)));
    needed.extend(snapshot.root().ledger.files.iter().map(|file| dir.ledger(&file.id)));
    needed.extend([dir.root(snapshot.generation()), dir.current(), dir.lock()]);
    assert_eq!(disk.files().into_keys().collect::<BTreeSet<_>>(), needed, "{what}");
    // If the table now loses its CURRENT, nothing else is removed.
    disk.remove(&snapshot.dir().current()).unwrap();
    drop(snapshot);
    let left = disk.files().into_keys().collect::<Vec<_>>();
    assert!(matches!(table.writer(created()), Err(Error::Corrupt { .. })), "{what}");
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), left, "{what}");
}

fn fresh() -> SimulatedDisk {
    let disk = SimulatedDisk::new(Path::new("/"));
    disk.set_fault(None);
    disk
}

fn calls_of_scenario() -> u64 {
    let disk = fresh();
    scenario(&disk, &mut 0).unwrap();
    disk.calls()
}

#[test]
fn every_call_may_fail() {
    for at in 1..=calls_of_scenario() {
        for (forever, after_effect) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let (disk, mut reported) = (fresh(), 0);
            disk.set_fault(Some(Fault { at, forever, after_effect }));
            let done = scenario(&disk, &mut reported);
            disk.set_fault(None);
            assert!(done.is_err() || reported == COMMITS);
            // As long as the disk can be read, the error says which generation is in force.
            if !forever && done.is_err() {
                let in_force = matches!(done, Err(Error::Unconfirmed { .. }));
                let commits = reported + usize::from(in_force);
                assert_eq!(stored(&disk), expected(commits), "call {at}: {done:?}");
            }
            check(
                &disk,
                reported,
                &format!("call {at} failed (forever {forever}, after effect {after_effect})"),
            );
        }
    }
}

#[test]
fn power_may_go_after_every_call() {
    let outcomes =
        [PowerLoss::Nothing, PowerLoss::Everything].into_iter().chain((0..6).map(PowerLoss::Some));
    let outcomes: Vec<PowerLoss> = outcomes.collect();
    for at in 1..=calls_of_scenario() + 1 {
        for outcome in &outcomes {
            // Seeds differ between calls, so that together they reach many subsets.
            let outcome = match outcome {
                PowerLoss::Some(seed) => PowerLoss::Some(seed + 1000 * at),
                other => *other,
            };
            let (disk, mut reported) = (fresh(), 0);
            disk.set_fault(Some(Fault { at, forever: true, after_effect: true }));
            let _ = scenario(&disk, &mut reported);
            disk.lose_power(outcome);
            check(&disk, reported, &format!("power lost after call {at} ({outcome:?})"));
        }
    }
}

/// Makes a view, replaces it, and drops it.
fn views(disk: &SimulatedDisk, reported: &mut usize) -> Result<()> {
    let store = Store::open_with(Arc::new(disk.clone()), ROOT);
    store.keep_view("v", VIEWS[1].unwrap_or_default(), None)?;
    *reported = 1;
    store.keep_view("v", VIEWS[2].unwrap_or_default(), Some(true))?;
    *reported = 2;
    store.drop_view("v")?;
    *reported = 3;
    Ok(())
}

/// What is there after each step.
const VIEWS: [Option<&str>; 4] =
    [None, Some("CREATE VIEW v AS SELECT 1"), Some("CREATE VIEW v AS SELECT 1, 2"), None];

#[test]
fn a_view_is_what_it_was_or_what_it_becomes() {
    let fresh = || {
        let disk = SimulatedDisk::new(Path::new("/"));
        disk.create_dir_all(Path::new(ROOT)).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk
    };
    let disk = fresh();
    let before = disk.calls();
    views(&disk, &mut 0).unwrap();
    let calls = disk.calls() - before;
    assert!(calls >= 12, "{calls}");
    let check = |disk: &SimulatedDisk, reported: usize, what: &str| {
        let found = Store::open_with(Arc::new(disk.clone()), ROOT).view("v").unwrap();
        let mut possible = VIEWS.iter().skip(reported).take(2);
        assert!(possible.any(|view| *view == found.as_deref()), "{what}: {found:?}");
    };
    for at in 1..=calls + 1 {
        for (forever, after_effect) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let (disk, mut reported) = (fresh(), 0);
            let at = disk.calls() + at;
            disk.set_fault(Some(Fault { at, forever, after_effect }));
            let _ = views(&disk, &mut reported);
            disk.set_fault(None);
            check(&disk, reported, &format!("call {at} fails"));
            for outcome in [PowerLoss::Nothing, PowerLoss::Everything, PowerLoss::Some(at)] {
                let (disk, mut reported) = (fresh(), 0);
                disk.set_fault(Some(Fault { at, forever, after_effect }));
                let _ = views(&disk, &mut reported);
                disk.lose_power(outcome);
                check(&disk, reported, &format!("power lost after call {at} ({outcome:?})"));
            }
        }
    }
}
