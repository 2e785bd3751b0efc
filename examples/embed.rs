//! Stylobate inside a program: makes a store in a temporary directory, loads a CSV file and a batch
//! from memory, asks for sums, changes rows, reads the table without SQL, compacts and verifies it.
//!
//! `cargo run --release --example embed`

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringViewArray};
use stylobate::{
    CompactOptions, Input, LoadOptions, Parameters, Schema, Session, SessionOptions, Store,
    TableOptions, blocks, compact, load, load_batches, read_block, verify,
};

const TRIPS: &str = "city,fare,day\nBern,12.5,2024-05-01\nBasel,9.0,2024-05-01\nBern,,2024-05-02\n";

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("trips.csv");
    File::create_new(&file)?.write_all(TRIPS.as_bytes())?;

    // A table that does not exist is made by its first writer. It takes its columns and their
    // types from the first load.
    let store = Store::open(directory.path().join("db"));
    let table = store.table("trips")?;
    let writer = table.writer(Some((Schema::default(), TableOptions::default())))?;
    let report = load(writer, vec![Input::path(&file)], &LoadOptions::default())?;
    println!("{} rows of CSV in {} segment", report.rows_stored, report.segments);

    // Batches match the table's columns by name; a column that they lack is null.
    let fares: ArrayRef = Arc::new(Float64Array::from(vec![21.0, 4.5]));
    let cities: ArrayRef = Arc::new(StringViewArray::from(vec!["Chur", "Basel"]));
    let batch = RecordBatch::try_from_iter([("fare", fares), ("city", cities)])?;
    let batches = [Ok(batch)].into_iter();
    let report = load_batches(table.writer(None)?, batches, &LoadOptions::default())?;
    println!("{} rows from memory, now generation {}", report.rows_stored, report.generation);

    let session = Session::open(&store, &SessionOptions::default())?;
    print_fares(&session, "9")?;

    // A statement that writes has committed when `run` returns.
    session.run("DELETE FROM trips WHERE fare IS NULL", &Parameters::default(), |_| Ok(()))?;
    print_fares(&session, "0")?;

    // A snapshot stays as it is, whatever is committed while it is held.
    let snapshot = table.snapshot()?;
    let report = compact(&table, &CompactOptions { all: true, ..CompactOptions::default() })?;
    println!("compaction: {} segments, then {}", report.segments_before, report.segments_after);
    for place in blocks(&snapshot)? {
        let batch = read_block(&snapshot, &place)?;
        println!("a block of {} rows and {} columns", batch.num_rows(), batch.num_columns());
    }
    let problems = verify(&table.snapshot()?).problems;
    println!("verified: {} problems", problems.len());
    Ok(())
}

/// Prints the sum and number of fares of each city that are above `least`.
fn print_fares(session: &Session, least: &str) -> stylobate::Result<()> {
    let mut parameters = Parameters::default();
    parameters.add(&format!("least={least}"))?;
    let sql = "SELECT city, sum(fare), count(*) FROM trips WHERE fare >= $least
               GROUP BY city ORDER BY city";
    session.run(sql, &parameters, |batches| {
        for batch in batches {
            let batch = batch?;
            let cities = batch.column(0).as_string_view();
            let sums = batch.column(1).as_primitive::<Float64Type>();
            let counts = batch.column(2).as_primitive::<Int64Type>();
            for ((city, sum), count) in cities.iter().zip(sums).zip(counts) {
                println!("{city:?}: {sum:?} in {count:?} trips");
            }
        }
        Ok(())
    })
}
