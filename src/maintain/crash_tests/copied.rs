//! A copy of a table that becomes a generation of another one: one failure or crash at each call.
//! Then the copy has the old rows or the new ones, and becomes the generation if that is tried
//! again.

use std::sync::atomic::AtomicBool;

use super::model::State;
use super::operations::Operation;
use super::{check, check_next_writer, fresh_disk, read, table};
use crate::disk::simulated::{Fault, PowerLoss, SimulatedDisk};
use crate::error::Result;
use crate::maintain::replica::{Replica, bytes_of, state_of};

const FIRST: Operation = Operation::Ingest { from: 0, count: 30 };
const LATER: [Operation; 3] = [
    Operation::Append { from: 100, count: 7 },
    Operation::Delete { divisor: 3 },
    Operation::Ingest { from: 200, count: 5 },
];

/// Makes the table of `copy` what that of `source` is.
fn become_same(copy: &SimulatedDisk, source: &SimulatedDisk) -> Result<()> {
    let from = table(source);
    let newest = from.snapshot()?;
    let old = table(copy).snapshot().ok();
    let segments = old.as_ref().map(|old| old.segments()).transpose()?;
    let before = old.as_ref().map(|old| old.root()).zip(segments.as_deref().map(Vec::as_slice));
    if before.is_some_and(|(root, _)| state_of(root) == state_of(newest.root())) {
        // If a sync has failed, the next writer makes it durable, as after any commit.
        drop(old);
        return table(copy).writer(None).map(drop);
    }
    let replica = Replica::new(before, newest.root(), &newest.segments()?);
    let stopped = AtomicBool::default();
    let bytes: Vec<u8> =
        bytes_of(&from, &replica.files, &stopped).collect::<Result<Vec<_>>>()?.concat();
    // Readers need not be in the way.
    drop(old);
    let mut writer = replica.open(&table(copy))?;
    replica.arrive(&writer, &mut &bytes[..])?;
    writer.adopt(replica.after)
}

fn every_crash(first: &[Operation]) {
    let source = fresh_disk();
    let mut old = None;
    for operation in first {
        operation.run(&table(&source)).unwrap();
        old = operation.states(&old).pop().unwrap();
    }
    let sound = source.fork();
    let mut new: State = old.clone();
    for operation in &LATER {
        operation.run(&table(&source)).unwrap();
        new = operation.states(&new).pop().unwrap();
    }
    let is_same = |disk: &SimulatedDisk, what: &str| {
        assert_eq!(read(&table(disk)).unwrap(), new, "{what}");
        let roots = [disk, &source].map(|it| state_of(table(it).snapshot().unwrap().root()));
        assert_eq!(roots[0], roots[1], "{what}");
    };
    let counted = sound.fork();
    counted.set_fault(None);
    become_same(&counted, &source).unwrap();
    let calls = counted.calls();
    is_same(&counted, "without a fault");
    for at in 1..=calls {
        for (forever, after_effect) in [(true, false), (true, true), (false, false)] {
            let disk = sound.fork();
            disk.set_fault(Some(Fault { at, forever, after_effect }));
            let became = become_same(&disk, &source);
            for outcome in [PowerLoss::Nothing, PowerLoss::Everything, PowerLoss::Some(at)] {
                let what = format!("call {at} of {calls}, {forever} {after_effect}, {outcome:?}");
                let disk = disk.fork();
                disk.set_fault(None);
                if forever {
                    disk.lose_power(outcome);
                }
                let allowed = match became.is_ok() {
                    true => vec![new.clone()],
                    false => vec![old.clone(), new.clone()],
                };
                let found = check(&disk, &allowed, &what);
                check_next_writer(&disk.fork(), &found, &what);
                become_same(&disk, &source)
                    .unwrap_or_else(|error| panic!("{what}: again: {error}"));
                disk.lose_power(PowerLoss::Nothing);
                is_same(&disk, &what);
                check_next_writer(&disk, &new, &what);
            }
        }
    }
}

#[test]
fn copies_are_whole_after_any_crash() {
    every_crash(&[FIRST]);
}

#[test]
fn new_copies_are_whole_after_any_crash() {
    every_crash(&[]);
}

#[test]
fn what_changed_on_its_way_is_refused() {
    let source = fresh_disk();
    FIRST.run(&table(&source)).unwrap();
    let from = table(&source);
    let newest = from.snapshot().unwrap();
    let replica = Replica::new(None, newest.root(), &newest.segments().unwrap());
    let stopped = AtomicBool::default();
    let pieces = bytes_of(&from, &replica.files, &stopped).collect::<Result<Vec<_>>>();
    let bytes = pieces.unwrap().concat();
    for at in (0..bytes.len()).step_by(97) {
        let mut other = bytes.clone();
        other[at] ^= 1;
        for (bytes, what) in [(&other[..], "a byte"), (&bytes[..at], "fewer bytes")] {
            let disk = fresh_disk();
            let writer = replica.open(&table(&disk)).unwrap();
            assert!(replica.arrive(&writer, &mut &bytes[..]).is_err(), "{what}, {at}");
            drop(writer);
            assert_eq!(read(&table(&disk)).unwrap(), None);
        }
    }
}
