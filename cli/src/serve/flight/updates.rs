//! Statements that clients run for what they do, and not for an answer: how many rows were stored,
//! deleted or changed is told. Rows of values for a prepared INSERT of parameters alone are stored
//! in one commit, as they come; other statements run once for each row of values.

use arrow_array::RecordBatch;
use stylobate::{BatchStream, Parameters};
use tonic::Status;

use super::call::Call;
use super::errors::{Stop, invalid};
use super::parameters::{check_count, row};
use super::prepared::Prepared;
use super::received::Received;
use super::statements::{Filled, insert_of_parameters, numbered};
use super::work::{Used, Work};
use crate::serve::running::rows_changed;

/// Runs a statement; returns how many rows it has stored, deleted or changed.
pub(super) async fn update(call: Call, sql: String) -> Result<u64, Status> {
    let work = Work::new(call, None, sql)?;
    work.on_thread(|work, used| {
        let statement = used.parse(&work.sql)?;
        finish(work, used.session.execute(&statement, &Parameters::default())?)
    })
    .await
}

/// Runs a prepared statement with values that the client sends, or else with those that it has
/// bound before.
pub(super) async fn update_with(
    call: Call,
    prepared: Prepared,
    received: Received,
) -> Result<u64, Status> {
    let work = Work::new(call, None, prepared.sql.to_string())?;
    work.on_thread(move |work, used| {
        // Columns without any stand for no values, too.
        let batches = received.batches()?.filter(|it| !it.schema.fields().is_empty());
        let Some(batches) = batches else { return run_bound(work, used, &prepared) };
        let wrong = batches.wrong();
        let done = match insert_of_parameters(&work.sql) {
            Some(filled) => {
                let rows = batches.map(|batch| checked(batch, &filled));
                store(work, used, &filled, rows)
            }
            None => {
                let mut all = batches.map(|batch| run_each(work, used, &prepared, &batch?));
                all.try_fold(0, |sum, rows| Ok(sum + rows?))
            }
        };
        match wrong.get() {
            Some(status) => Err(status.clone().into()),
            None => done,
        }
    })
    .await
}

/// Runs a prepared statement with the values that are bound to it, or without any.
fn run_bound(work: &Work, used: &Used, prepared: &Prepared) -> Result<u64, Stop> {
    let Some(values) = &prepared.values else {
        let statement = used.parse(&numbered(&work.sql).0)?;
        return finish(work, used.session.execute(&statement, &Parameters::default())?);
    };
    match insert_of_parameters(&work.sql) {
        Some(filled) => {
            let rows = checked(Ok(values.clone()), &filled);
            store(work, used, &filled, std::iter::once(rows))
        }
        None => run_each(work, used, prepared, values),
    }
}

fn checked(
    batch: stylobate::Result<RecordBatch>,
    filled: &Filled,
) -> stylobate::Result<RecordBatch> {
    let batch = batch?;
    match batch.num_columns() == filled.values {
        true => Ok(batch),
        false => Err(stylobate::Error::InvalidInput(format!(
            "the statement takes {} values, and {} are bound",
            filled.values,
            batch.num_columns()
        ))),
    }
}

/// Stores rows of values in one commit.
fn store(
    work: &Work,
    used: &Used,
    filled: &Filled,
    rows: impl Iterator<Item = stylobate::Result<RecordBatch>>,
) -> Result<u64, Stop> {
    let stored = used.session.insert(&filled.table, &filled.columns, rows)?;
    work.has_stored(stored);
    Ok(stored)
}

/// Runs a statement for each row of values.
fn run_each(
    work: &Work,
    used: &Used,
    prepared: &Prepared,
    values: &RecordBatch,
) -> Result<u64, Stop> {
    let (types, values) =
        (&prepared.description.parameters, prepared.description.in_order(values.clone())?);
    check_count(types.len(), &values)?;
    let statement = used.parse(&numbered(&work.sql).0)?;
    let mut sum = 0;
    for at in 0..values.num_rows() {
        let stream = used.session.execute(&statement, &row(&values, at, types)?)?;
        sum += finish(work, stream)?;
    }
    Ok(sum)
}

/// Runs a statement to its end; returns how many rows it has stored, deleted or changed.
fn finish(work: &Work, mut stream: BatchStream) -> Result<u64, Stop> {
    if !stream.has_committed() && !stream.schema().fields().is_empty() {
        return Err(invalid("the statement has an answer; it is a query and no update").into());
    }
    let has_committed = stream.has_committed();
    let rows = rows_changed(&mut stream)?;
    if has_committed {
        work.has_stored(rows);
    }
    Ok(rows)
}
