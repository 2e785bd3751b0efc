//! What clients ask about a server: its catalog and schema, its tables, their columns, its types,
//! and what its SQL can do. These answers are small, and wait behind no statement.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Command, CommandGetDbSchemas, CommandGetTables};
use arrow_schema::{Field, Schema, SchemaRef};
use stylobate::{Parameters, Session};
use tonic::Status;

use super::call::Call;
use super::errors::{Stop, invalid};
use super::info;
use super::keys;
use super::messages::{Encoder, schema_message};
use super::type_info;
use super::types::sent_type;
use super::work::{Answer, Work};
use crate::serve::users::User;

/// The one catalog of a store, and its one schema.
pub(super) const CATALOG: &str = "stylobate";
pub(super) const SCHEMA: &str = "public";
/// The kinds of tables.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
/// Where the name of a column's type stands.
const TYPE_NAME: &str = "ARROW:FLIGHT:SQL:TYPE_NAME";
/// The longest pattern, and the most kinds of tables and infos that are asked for at once.
const MOST_PATTERN: usize = 4096;
const MOST_ITEMS: usize = 1000;

/// The columns of the answer to a command; `None` if the command asks nothing about the server.
pub(super) fn columns(command: &Command) -> Result<Option<SchemaRef>, Status> {
    let failed = |error: FlightError| Status::internal(error.to_string());
    Ok(Some(match command {
        Command::CommandGetCatalogs(command) => command.into_builder().schema(),
        Command::CommandGetDbSchemas(command) => command.clone().into_builder().schema(),
        Command::CommandGetTables(command) => command.clone().into_builder().schema(),
        Command::CommandGetTableTypes(command) => command.into_builder().schema(),
        Command::CommandGetSqlInfo(_) => info::columns(),
        Command::CommandGetXdbcTypeInfo(_) => type_info::all().map_err(failed)?.schema(),
        Command::CommandGetPrimaryKeys(_) => keys::primary(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => keys::foreign(),
        _ => return Ok(None),
    }))
}

/// Answers a command that asks about the server.
pub(super) async fn answer(call: Call, command: Command) -> Result<Answer, Status> {
    let name = command.type_url().rsplit('.').next().unwrap_or_default().to_owned();
    let work = Work::about_server(call, &name)?;
    work.streamed(move |work, used, sending| {
        let rows = rows(command, used.session, &work.call.user)?;
        sending.send(schema_message(&rows.schema()))?;
        for piece in Encoder::new(rows.schema()).pieces(&rows) {
            sending.send(piece?)?;
        }
        Ok(())
    })
    .await
}

fn rows(command: Command, session: &Session, user: &User) -> Result<RecordBatch, Stop> {
    let failed = |error: FlightError| Stop::Status(Status::internal(error.to_string()));
    Ok(match command {
        Command::CommandGetCatalogs(command) => {
            let mut catalogs = command.into_builder();
            catalogs.append(CATALOG);
            catalogs.build().map_err(failed)?
        }
        Command::CommandGetDbSchemas(command) => schemas(command).map_err(failed)?,
        Command::CommandGetTables(command) => tables(command, session)?,
        Command::CommandGetTableTypes(_) => {
            let kinds: ArrayRef = Arc::new(StringArray::from(vec![TABLE, VIEW]));
            RecordBatch::try_from_iter([("table_type", kinds)])?
        }
        Command::CommandGetSqlInfo(command) => {
            check(command.info.len() <= MOST_ITEMS, "that many infos")?;
            let known = info::all(session, user).map_err(failed)?;
            known.record_batch(command.info).map_err(failed)?
        }
        Command::CommandGetXdbcTypeInfo(command) => {
            let known = type_info::all().map_err(failed)?;
            known.record_batch(command.data_type).map_err(failed)?
        }
        other => match columns(&other)? {
            Some(columns) => RecordBatch::new_empty(columns),
            None => return Err(invalid("the command asks nothing about the server").into()),
        },
    })
}

fn check(fits: bool, what: &str) -> Result<(), Stop> {
    match fits {
        true => Ok(()),
        false => Err(invalid(format!("{what} cannot be asked for at once")).into()),
    }
}

fn is_short(pattern: Option<&String>) -> bool {
    pattern.is_none_or(|pattern| pattern.len() <= MOST_PATTERN)
}

fn schemas(command: CommandGetDbSchemas) -> Result<RecordBatch, FlightError> {
    let is_short = is_short(command.db_schema_filter_pattern.as_ref());
    let mut schemas = command.into_builder();
    // Nothing is called by a name that is longer than any.
    if is_short {
        schemas.append(CATALOG, SCHEMA);
    }
    schemas.build()
}

fn tables(command: CommandGetTables, session: &Session) -> Result<RecordBatch, Stop> {
    let patterns = [&command.db_schema_filter_pattern, &command.table_name_filter_pattern];
    check(patterns.iter().all(|it| is_short(it.as_ref())), "a pattern of that length")?;
    check(command.table_types.len() <= MOST_ITEMS, "that many kinds of tables")?;
    let with_columns = command.include_schema;
    let mut found = command.into_builder();
    let failed = |error: FlightError| Stop::Status(Status::internal(error.to_string()));
    for name in session.table_names() {
        let kind = if session.stored_size(None, &name).is_some() { TABLE } else { VIEW };
        // A table that is damaged, or has gone meanwhile, has no columns to show.
        let columns = match with_columns {
            true => table_columns(session, &name).unwrap_or_else(|_| Schema::empty()),
            false => Schema::empty(),
        };
        found.append(CATALOG, SCHEMA, &name, kind, &columns).map_err(failed)?;
    }
    found.build().map_err(failed)
}

/// The columns of a table, with the names of their types.
fn table_columns(session: &Session, table: &str) -> Result<Schema, Stop> {
    let known = session.columns(None, table)?.unwrap_or_default();
    let mut fields = Vec::new();
    session.run(
        &format!("SELECT * FROM {} LIMIT 0", quoted(table)),
        &Parameters::default(),
        |it| {
            let schema = it.schema();
            fields.extend(schema.fields().iter().enumerate().map(|(place, field)| {
                let name = known.get(place).map(|column| column.data_type.clone());
                let metadata = name.map(|name| HashMap::from([(TYPE_NAME.to_owned(), name)]));
                Field::new(field.name(), sent_type(field.data_type()), field.is_nullable())
                    .with_metadata(metadata.unwrap_or_default())
            }));
            Ok(())
        },
    )?;
    Ok(Schema::new(fields))
}

/// A table's name as it stands in a statement.
pub(super) fn quoted(table: &str) -> String {
    format!("{SCHEMA}.\"{}\"", table.replace('"', "\"\""))
}
