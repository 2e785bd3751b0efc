//! A table that is replaced: one failure or crash at each call. Then the store has the old table or
//! the new one, and the next replacement leaves nothing of the first.

use std::path::Path;
use std::sync::Arc;

use super::model::State;
use super::operations::Operation;
use super::{check, fresh_disk, read, table};
use crate::disk::simulated::{Fault, PowerLoss, SimulatedDisk};
use crate::error::Result;
use crate::maintain::{drop_table, replace_table, replacement, restore_replaced};
use crate::store::Store;

const OLD: Operation = Operation::Append { from: 0, count: 5 };
const NEW: Operation = Operation::Append { from: 100, count: 7 };

fn store(disk: &SimulatedDisk) -> Store {
    Store::open_with(Arc::new(disk.clone()), "/store")
}

/// As CREATE OR REPLACE TABLE does it.
fn replace(disk: &SimulatedDisk) -> Result<()> {
    let store = store(disk);
    restore_replaced(&store)?;
    let old = store.table("t")?;
    let writer = old.writer(None)?;
    let new = replacement(&store, &old);
    NEW.run(&new)?;
    replace_table(&store, &old, writer, &new)
}

fn states() -> (State, State) {
    let of = |operation: &Operation| operation.states(&None).pop().unwrap();
    (of(&OLD), of(&NEW))
}

/// Nothing in the store but the table.
fn check_no_leftovers(disk: &SimulatedDisk, what: &str) {
    let is_of_table = |path: &Path| path.starts_with("/store/t");
    let others: Vec<_> = disk.files().into_keys().filter(|path| !is_of_table(path)).collect();
    assert!(others.is_empty(), "{what}: {others:?}");
}

fn every_crash(exchanges: bool) {
    let (old, new) = states();
    let sound = fresh_disk();
    OLD.run(&table(&sound)).unwrap();
    if !exchanges {
        sound.without_exchange();
    }
    let counted = sound.fork();
    counted.set_fault(None);
    replace(&counted).unwrap();
    let calls = counted.calls();
    assert_eq!(read(&table(&counted)).unwrap(), new);
    check_no_leftovers(&counted, "without a fault");
    for at in 1..=calls {
        for (forever, after_effect) in [(true, false), (true, true), (false, false)] {
            let disk = sound.fork();
            disk.set_fault(Some(Fault { at, forever, after_effect }));
            let replaced = replace(&disk);
            let outcomes = [
                PowerLoss::Nothing,
                PowerLoss::Everything,
                PowerLoss::Some(at),
                PowerLoss::Some(!at),
            ];
            for outcome in outcomes {
                let what = format!("call {at} of {calls}, {forever} {after_effect}, {outcome:?}");
                let disk = disk.fork();
                disk.set_fault(None);
                if forever {
                    disk.lose_power(outcome);
                }
                restore_replaced(&store(&disk)).unwrap();
                let allowed = match replaced.is_ok() {
                    true => vec![new.clone()],
                    false => vec![old.clone(), new.clone()],
                };
                check(&disk, &allowed, &what);
                replace(&disk).unwrap_or_else(|error| panic!("{what}: again: {error}"));
                assert_eq!(read(&table(&disk)).unwrap(), new, "{what}");
                check_no_leftovers(&disk, &what);
                // What the new table relies on is durable; a removal may not be.
                disk.lose_power(PowerLoss::Nothing);
                assert_eq!(read(&table(&disk)).unwrap(), new, "{what}: later");
            }
        }
    }
}

#[test]
fn replacements_are_whole_after_any_crash() {
    every_crash(true);
}

#[test]
fn replacements_are_whole_after_any_crash_where_names_cannot_be_exchanged() {
    every_crash(false);
}

#[test]
fn a_table_is_dropped_with_what_crashes_have_left_of_it() {
    let disk = fresh_disk();
    OLD.run(&table(&disk)).unwrap();
    let (store, old) = (store(&disk), table(&disk));
    NEW.run(&replacement(&store, &old)).unwrap();
    drop_table(&store, "t").unwrap();
    check_no_leftovers(&disk, "dropped");
    assert_eq!(read(&table(&disk)).unwrap(), None);
}
