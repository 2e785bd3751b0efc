//! All operations on a table, on a disk that fails and loses power at every call, against a model
//! of the rows in memory.
//!
//! | file | holds |
//! | --- | --- |
//! | `model.rs` | what a table should hold |
//! | `operations.rs` | the operations, and what each does to the model |
//! | `matrix.rs` | each operation, with one failure or crash at each call that it makes |
//! | `repairs.rs` | `repair` of damaged tables, with the same at each of its calls |
//! | `replaced.rs` | a table that is replaced, with the same |
//! | `copied.rs` | a table that becomes what another one is, with the same |
//! | `sequences.rs` | random sequences of them, with random failures, and readers beside them |
//!
//! What is promised after any trouble: the table has the rows of before or of after the operation
//! (of a load with several commits: of one of them), `verify` finds no damage, the next writer can
//! append, and then no file is left that the table does not need.

#[cfg(feature = "cluster")]
mod copied;
mod matrix;
mod model;
mod operations;
mod repairs;
#[cfg(feature = "sql")]
mod replaced;
mod sequences;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use self::model::{Model, State};
use self::operations::Operation;
use crate::disk::simulated::{PowerLoss, SimulatedDisk};
use crate::error::{Error, Result};
use crate::maintain::verify;
use crate::maintain::{blocks, read_block};
use crate::store::{Snapshot, Store, Table};

/// The table, as a process sees it that has just started.
fn table(disk: &SimulatedDisk) -> Table {
    Store::open_with(Arc::new(disk.clone()), "/store").table("t").unwrap()
}

fn fresh_disk() -> SimulatedDisk {
    SimulatedDisk::new(Path::new("/"))
}

/// What is stored. Rows that are there twice are an error.
fn read(table: &Table) -> Result<State> {
    match table.snapshot() {
        Ok(snapshot) => read_snapshot(&snapshot).map(Some),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_snapshot(snapshot: &Snapshot) -> Result<Model> {
    let columns = snapshot.schema().columns().iter().map(|column| column.name.to_string());
    let mut model = Model { columns: columns.collect(), ..Model::default() };
    for place in blocks(snapshot)? {
        let batch = read_block(snapshot, &place)?;
        let column = |name: &str, data_type: &arrow_schema::DataType| {
            arrow_cast::cast(batch.column_by_name(name).unwrap(), data_type).unwrap()
        };
        let (ids, values) = (
            column("id", &arrow_schema::DataType::Int64),
            column("value", &arrow_schema::DataType::Int64),
        );
        let kinds = column("kind", &arrow_schema::DataType::Utf8);
        let (ids, values) = (ids.as_primitive::<Int64Type>(), values.as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let kind = kinds.as_string::<i32>().value(row).to_owned();
            let before = model.rows.insert(ids.value(row), (kind, values.value(row)));
            if before.is_some() {
                return Err(Error::InvalidInput(format!("row {} is there twice", ids.value(row))));
            }
        }
    }
    assert_eq!(model.rows.len() as u64, snapshot.rows());
    Ok(model)
}

/// Checks all that is promised after trouble, and returns what the table has. `allowed` are the
/// states that it may have. The disk must be sound again.
fn check(disk: &SimulatedDisk, allowed: &[State], what: &str) -> State {
    let found = read(&table(disk)).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(allowed.contains(&found), "{what}: found {found:?}\nallowed {allowed:?}");
    if found.is_some() {
        let problems = verify(&table(disk).snapshot().unwrap()).problems;
        assert!(problems.is_empty(), "{what}: {problems:?}");
    }
    found
}

/// Appends a row and loses power: all that the new writer relied on must be durable. Then nothing
/// is left that the table does not need. Returns the new state.
fn check_next_writer(disk: &SimulatedDisk, found: &State, what: &str) -> State {
    let next = Operation::Ingest { from: 1_000_000, count: 1 };
    let after = next.states(found).pop().unwrap();
    next.run(&table(disk)).unwrap_or_else(|error| panic!("{what}: the next writer: {error}"));
    disk.lose_power(PowerLoss::Nothing);
    assert_eq!(read(&table(disk)).unwrap(), after, "{what}: after the next writer");
    Operation::Gc.run(&table(disk)).unwrap();
    let snapshot = table(disk).snapshot().unwrap();
    let dir = snapshot.dir();
    let mut needed: BTreeSet<_> =
        snapshot.segments().unwrap().iter().map(|segment| snapshot.path(segment)).collect();
    needed.extend(snapshot.root().chunks.iter().map(|chunk| dir.chunk(&chunk.id)));
    needed.extend(snapshot.root().ledger.files.iter().map(|file| dir.ledger(&file.id)));
    needed.extend([dir.root(snapshot.generation()), dir.current(), dir.lock()]);
    // What a repair has moved away is not part of the table.
    let files = disk.files().into_keys().filter(|path| !path.starts_with(dir.damaged()));
    assert_eq!(files.collect::<BTreeSet<_>>(), needed, "{what}: files");
    after
}
