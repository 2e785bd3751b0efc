//! Bulk ingest: rows that a client sends go to a table in one commit, as they come. The table is
//! made of their columns where the client asks for that; if rows fail, nothing is stored.

use arrow_array::RecordBatch;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use stylobate::{Error, Session};
use tonic::{Code, Status};

use super::call::Call;
use super::errors::{Stop, invalid, status};
use super::metadata::{CATALOG, SCHEMA};
use super::received::Received;
use super::work::Work;

/// What becomes of a table that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfThere {
    Fail,
    Append,
    Replace,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    /// Whether a table that is not there is made.
    creates: bool,
    if_there: IfThere,
}

/// Stores rows in the table that a command names; returns how many.
pub(super) async fn run(
    call: Call,
    command: CommandStatementIngest,
    received: Received,
) -> Result<u64, Status> {
    let mode = mode(command.table_definition_options.as_ref())?;
    check(&command)?;
    let shown = format!("INGEST INTO \"{}\"", command.table.replace('"', "\"\""));
    let work = Work::new(call, None, shown)?;
    work.on_thread(move |work, used| {
        let batches = received.batches()?;
        let batches = batches.ok_or_else(|| invalid("no columns and rows have come"))?;
        let wrong = batches.wrong();
        let columns = batches.schema.clone();
        let session = used.session;
        let exists = exists(session, &command.table)?;
        let stored = match (exists, mode.if_there) {
            (true, IfThere::Append) => append(session, &command.table, &columns, batches),
            (true, IfThere::Fail) => {
                let what = format!("there is a table or view {} already", command.table);
                return Err(status(Code::AlreadyExists, &what).into());
            }
            (false, _) if !mode.creates => {
                let what = format!("there is no table {} to append to", command.table);
                return Err(status(Code::NotFound, &what).into());
            }
            (replaces, _) => session.create_table(&command.table, &columns, replaces, batches),
        };
        let stored = match (stored, wrong.get()) {
            (_, Some(status)) => return Err(status.clone().into()),
            (stored, None) => stored?,
        };
        work.has_stored(stored);
        Ok(stored)
    })
    .await
}

/// Whether a name is that of a table to which rows may go.
fn exists(session: &Session, table: &str) -> Result<bool, Stop> {
    match session.columns_to_write(table) {
        Ok(_) => Ok(true),
        Err(Error::NotFound(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

/// Adds rows by the names of their columns.
fn append(
    session: &Session,
    table: &str,
    columns: &arrow_schema::Schema,
    batches: impl Iterator<Item = stylobate::Result<RecordBatch>>,
) -> stylobate::Result<u64> {
    let names: Vec<String> = columns.fields().iter().map(|field| field.name().clone()).collect();
    if names.is_empty() {
        return Err(Error::InvalidInput("the rows have no columns".into()));
    }
    session.insert(table, &names, batches)
}

/// What a client asks for: without options, rows are added to the table, which is made if need be.
/// Half of an option that is left open is refused once it matters.
fn mode(options: Option<&TableDefinitionOptions>) -> Result<Mode, Status> {
    let Some(options) = options else {
        return Ok(Mode { creates: true, if_there: IfThere::Append });
    };
    let creates = match TableNotExistOption::try_from(options.if_not_exist) {
        Ok(TableNotExistOption::Create) => true,
        Ok(TableNotExistOption::Fail | TableNotExistOption::Unspecified) => false,
        Err(_) => return Err(invalid("what to do without a table is not known")),
    };
    let if_there = match TableExistsOption::try_from(options.if_exists) {
        Ok(TableExistsOption::Append) => IfThere::Append,
        Ok(TableExistsOption::Replace) => IfThere::Replace,
        Ok(TableExistsOption::Fail | TableExistsOption::Unspecified) => IfThere::Fail,
        Err(_) => return Err(invalid("what to do with a table that exists is not known")),
    };
    Ok(Mode { creates, if_there })
}

/// Refuses what a store does not have.
fn check(command: &CommandStatementIngest) -> Result<(), Status> {
    let other = |name: &Option<String>, own: &str| {
        name.as_ref().is_some_and(|name| !name.is_empty() && name != own)
    };
    if other(&command.catalog, CATALOG) || other(&command.schema, SCHEMA) {
        let what = format!("a store has one schema, {CATALOG}.{SCHEMA}");
        return Err(status(Code::NotFound, &what));
    }
    if command.temporary {
        return Err(status(Code::Unimplemented, "there are no temporary tables"));
    }
    if command.transaction_id.as_ref().is_some_and(|id| !id.is_empty()) {
        return Err(no_transaction());
    }
    match command.table.is_empty() {
        true => Err(invalid("the table has no name")),
        false => Ok(()),
    }
}

/// What is said of transactions.
pub(super) fn no_transaction() -> Status {
    status(Code::Unimplemented, "there are no transactions: each statement is a commit of its own")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read() {
        let of = |if_not_exist, if_exists| {
            mode(Some(&TableDefinitionOptions { if_not_exist, if_exists })).ok()
        };
        let is = |creates, if_there| Some(Mode { creates, if_there });
        // As adbc_ingest has them: create, append, replace, create_append.
        assert_eq!(of(1, 1), is(true, IfThere::Fail));
        assert_eq!(of(2, 2), is(false, IfThere::Append));
        assert_eq!(of(1, 3), is(true, IfThere::Replace));
        assert_eq!(of(1, 2), is(true, IfThere::Append));
        assert_eq!(of(7, 1), None);
    }
}
