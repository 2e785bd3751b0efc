//! Random sequences of operations, failures and crashes, with readers that hold old generations
//! and readers beside the writer.

use std::sync::atomic::{AtomicBool, Ordering};

use super::operations::{self, Operation};
use super::{State, check, check_next_writer, fresh_disk, read, read_snapshot, table};
use crate::disk::simulated::{Fault, PowerLoss, SimulatedDisk};

const SEQUENCES: u64 = 24;
const STEPS: usize = 24;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// An operation that makes sense in a state. `next` is the first id that was never used.
fn choose(random: &mut Random, state: &State, next: i64, dir: &std::path::Path) -> Operation {
    let count = 1 + random.below(12) as i64;
    let Some(model) = state.as_ref().filter(|model| !model.rows.is_empty()) else {
        return Operation::Ingest { from: next, count };
    };
    let divisor = 2 + random.below(6) as i64;
    match random.below(11) {
        0 => Operation::Ingest { from: next, count },
        1 => operations::files(dir, next, count, 1 + random.below(3) as i64),
        2 | 3 => Operation::Append { from: next, count },
        4 => Operation::Delete { divisor },
        5 => Operation::Update { divisor },
        6 => Operation::Compact,
        7 => Operation::Alter,
        8 => {
            let at = random.below(model.rows.len() as u64) as usize;
            let kind = model.rows.values().nth(at).map(|row| row.0.clone());
            Operation::DropPartition { kind: kind.unwrap_or_default() }
        }
        9 => Operation::Repair,
        _ => Operation::Gc,
    }
}

/// Runs an operation while another thread reads: it sees one of the states at any time.
fn run_beside_a_reader(disk: &SimulatedDisk, operation: &Operation, states: &[State], what: &str) {
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let last = finished.load(Ordering::Relaxed);
                let seen = read(&table(disk)).unwrap_or_else(|e| panic!("{what}: reader: {e}"));
                assert!(states.contains(&seen), "{what}: a reader sees {seen:?}");
                if last {
                    return;
                }
            }
        });
        let done = operation.run(&table(disk));
        finished.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|error| panic!("{what}: {error}"));
        reader.join().unwrap();
    });
}

#[test]
fn random_sequences_of_operations_failures_and_crashes_keep_to_the_model() {
    for seed in 0..SEQUENCES {
        sequence(seed);
    }
}

fn sequence(seed: u64) {
    let mut random = Random(seed * 7919 + 1);
    let (disk, dir) = (fresh_disk(), tempfile::tempdir().unwrap());
    let (mut state, mut next): (State, i64) = (None, 0);
    let mut held = Vec::new();
    let mut log = String::new();
    for step in 0..STEPS {
        let operation = choose(&mut random, &state, next, dir.path());
        next += 100;
        let states = operation.states(&state);
        let (at, trouble) = (1 + random.below(70), random.below(8));
        log += &format!("\nstep {step}: {}, trouble {trouble} at {at}", operation.name());
        let what = format!("sequence {seed}{log}");
        let after_effect = random.below(2) == 0;
        state = match trouble {
            0..=2 => {
                run_beside_a_reader(&disk, &operation, &states, &what);
                check(&disk, &states[states.len() - 1..], &what)
            }
            3..=5 => {
                disk.set_fault(Some(Fault { at, forever: trouble == 3, after_effect }));
                let done = operation.run(&table(&disk)).is_ok();
                disk.set_fault(None);
                check(&disk, &states[if done { states.len() - 1 } else { 0 }..], &what)
            }
            _ => {
                // Locks and open files of readers are gone too.
                disk.set_fault(Some(Fault { at, forever: true, after_effect }));
                let done = operation.run(&table(&disk)).is_ok();
                held.clear();
                disk.lose_power(match random.below(5) {
                    0 => PowerLoss::Nothing,
                    1 => PowerLoss::Everything,
                    _ => PowerLoss::Some(random.below(1 << 30)),
                });
                check(&disk, &states[if done { states.len() - 1 } else { 0 }..], &what)
            }
        };
        for (snapshot, expected) in &held {
            let seen = read_snapshot(snapshot).unwrap_or_else(|e| panic!("{what}: held: {e}"));
            assert_eq!(seen, *expected, "{what}: a snapshot of earlier");
        }
        if let Some(model) = state.as_ref().filter(|_| random.below(3) == 0) {
            held.push((table(&disk).snapshot().unwrap(), model.clone()));
        }
        if held.len() > 3 {
            held.remove(0);
        }
    }
    held.clear();
    check_next_writer(&disk, &state, &format!("sequence {seed}{log}"));
}
