//! The crash matrix: each operation, with each call failing once, and with a crash at each call.
//!
//! `cargo test --no-default-features --lib crash_tests::matrix -- --nocapture` prints it.

use std::collections::BTreeMap;

use super::operations::{self, Operation};
use super::{State, check, check_next_writer, fresh_disk, read, read_snapshot, table};
use crate::disk::simulated::{Fault, PowerLoss, SimulatedDisk};
use crate::error::{Error, Result};

/// What happens at a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// It fails, and the next one does not.
    Fails { after_effect: bool },
    /// It and all later ones fail; then the process starts again.
    Killed,
    /// It is the last one before power goes.
    Crashes(PowerLoss),
}

impl Trouble {
    pub(super) const ALL: [Trouble; 8] = [
        Trouble::Fails { after_effect: false },
        Trouble::Fails { after_effect: true },
        Trouble::Killed,
        Trouble::Crashes(PowerLoss::Nothing),
        Trouble::Crashes(PowerLoss::Everything),
        Trouble::Crashes(PowerLoss::Some(1)),
        Trouble::Crashes(PowerLoss::Some(2)),
        Trouble::Crashes(PowerLoss::Some(3)),
    ];

    fn name(self) -> &'static str {
        match self {
            Trouble::Fails { .. } => "fails once",
            Trouble::Killed => "killed",
            Trouble::Crashes(PowerLoss::Nothing) => "crash, all lost",
            Trouble::Crashes(PowerLoss::Everything) => "crash, none lost",
            Trouble::Crashes(PowerLoss::Some(_)) => "crash, torn and reordered",
        }
    }

    pub(super) fn fault(self, at: u64) -> Fault {
        match self {
            Trouble::Fails { after_effect } => Fault { at, forever: false, after_effect },
            Trouble::Killed => Fault { at, forever: true, after_effect: false },
            Trouble::Crashes(_) => Fault { at, forever: true, after_effect: true },
        }
    }
}

/// How often an operation ended how.
#[derive(Debug, Default)]
struct Counts {
    runs: u64,
    /// Reported as done, and so it was.
    done: u64,
    /// Reported as a failure, with the old rows in force.
    old: u64,
    /// Reported as in force but unconfirmed, and the new rows are in force.
    unconfirmed: u64,
    /// Not reported as done, with some or all of the new rows in force.
    new: u64,
}

/// One run of an operation on a copy of `base`.
fn run(
    base: &SimulatedDisk,
    before: &State,
    operation: &Operation,
    (at, trouble): (u64, Trouble),
    counts: &mut Counts,
) {
    let what = format!("{} with trouble at call {at}: {trouble:?}", operation.name());
    let disk = base.fork();
    let held = before.as_ref().map(|_| table(&disk).snapshot().unwrap());
    disk.set_fault(Some(trouble.fault(at)));
    let reported = operation.run(&table(&disk));
    disk.set_fault(None);
    let states = operation.states(before);
    let (first, last) = (&states[..1], &states[states.len() - 1..]);
    // A reader that began earlier still has its rows.
    if let Some(held) = &held {
        let seen = read_snapshot(held).unwrap_or_else(|error| panic!("{what}: reader: {error}"));
        assert_eq!(Some(seen), *before, "{what}: reader");
    }
    drop(held);
    let has_many_commits = states.len() > 2;
    let allowed = match (&reported, trouble) {
        (Ok(()), _) => last,
        // Without a crash, the report is exact.
        (Err(Error::Unconfirmed { .. }), Trouble::Fails { .. } | Trouble::Killed) => &states[1..],
        (Err(_), Trouble::Fails { .. }) if !has_many_commits => first,
        _ => &states,
    };
    if let Trouble::Crashes(outcome) = trouble {
        // Seeds differ between calls, so that together they reach many subsets.
        disk.lose_power(match outcome {
            PowerLoss::Some(seed) => PowerLoss::Some(seed + 1000 * at),
            other => other,
        });
    }
    let mut found = check(&disk, allowed, &what);
    counts.runs += 1;
    match &reported {
        Ok(()) => counts.done += 1,
        Err(Error::Unconfirmed { .. }) if found != *before => counts.unconfirmed += 1,
        Err(_) if found == *before => counts.old += 1,
        Err(_) => counts.new += 1,
    }
    if matches!(operation, Operation::IngestFiles { .. }) {
        // The same load again adds what is missing, and nothing twice.
        operation.run(&table(&disk)).unwrap_or_else(|error| panic!("{what}: again: {error}"));
        found = check(&disk, last, &format!("{what}, and once more"));
    }
    check_next_writer(&disk, &found, &what);
}

/// The counts of an operation, by kind of trouble, and the calls that it makes.
fn rows_of_matrix(
    base: &SimulatedDisk,
    before: &State,
    operation: &Operation,
) -> (u64, BTreeMap<&'static str, Counts>) {
    let disk = base.fork();
    disk.set_fault(None);
    operation.run(&table(&disk)).unwrap();
    let calls = disk.calls();
    let found = check(&disk, &operation.states(before)[1..], operation.name());
    check_next_writer(&disk, &found, operation.name());
    let mut counts: BTreeMap<&'static str, Counts> = BTreeMap::new();
    for at in 1..=calls + 1 {
        for trouble in Trouble::ALL {
            run(base, before, operation, (at, trouble), counts.entry(trouble.name()).or_default());
        }
    }
    (calls, counts)
}

/// A table in three partitions, with generations that are kept.
pub(super) fn base() -> Result<(SimulatedDisk, State)> {
    let disk = fresh_disk();
    let mut state = None;
    for operation in [
        Operation::Ingest { from: 0, count: 30 },
        Operation::Alter,
        Operation::Append { from: 30, count: 20 },
        Operation::Delete { divisor: 7 },
    ] {
        operation.run(&table(&disk))?;
        state = operation.states(&state).pop().flatten();
    }
    assert_eq!(read(&table(&disk))?, state);
    // As after a while: all of it is durable.
    disk.lose_power(PowerLoss::Everything);
    Ok((disk, state))
}

#[test]
fn every_call_of_every_operation_fails_once_and_crashes_once() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, state) = base().unwrap();
    let new = fresh_disk();
    let operations = [
        (&new, &None, Operation::Ingest { from: 100, count: 9 }),
        (&new, &None, operations::files(dir.path(), 200, 6, 3)),
        (&disk, &state, Operation::Ingest { from: 300, count: 9 }),
        (&disk, &state, operations::files(dir.path(), 400, 6, 3)),
        (&disk, &state, Operation::Append { from: 500, count: 9 }),
        (&disk, &state, Operation::Delete { divisor: 5 }),
        (&disk, &state, Operation::Update { divisor: 4 }),
        (&disk, &state, Operation::Compact),
        (&disk, &state, Operation::Alter),
        (&disk, &state, Operation::DropPartition { kind: "k1".into() }),
        (&disk, &state, Operation::Gc),
        (&disk, &state, Operation::Repair),
    ];
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((number, (base, before, operation))) = {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    operations.get(number).map(|operation| (number, operation))
                } {
                    let rows = rows_of_matrix(base, before, operation);
                    done.lock().unwrap().insert(number, rows);
                }
            });
        }
    });
    let (mut calls_of_all, mut runs) = (0, 0);
    println!("operation, calls, trouble: runs = done + old rows + unconfirmed + new rows, bad");
    for (number, (calls, counts)) in done.into_inner().unwrap() {
        let (_, before, operation) = &operations[number];
        let on = if before.is_none() { " (new table)" } else { "" };
        calls_of_all += calls;
        for (trouble, counts) in counts {
            let Counts { runs: all, done, old, unconfirmed, new } = counts;
            assert_eq!(all, done + old + unconfirmed + new);
            runs += all;
            println!(
                "{}{on}, {calls}, {trouble}: {all} = {done} + {old} + {unconfirmed} + {new}, 0",
                operation.name()
            );
        }
    }
    println!("in all: {} operations, {calls_of_all} calls, {runs} runs, 0 bad", operations.len());
}
