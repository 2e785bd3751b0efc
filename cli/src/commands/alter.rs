//! `sty alter`: columns added, dropped, renamed, widened; how long generations stay.

use std::time::Duration;

use clap::{Args, Subcommand};
use stylobate::maintain::{Alteration, alter};
use stylobate::model::DataType;
use stylobate::store::Store;

use super::ingest::parse_schema;
use super::paths::TablePath;
use crate::context::Context;
use crate::errors::Failure;
use crate::units::parse_duration;

/// Change the columns of a table, or how long old generations stay; no data is touched
///
/// Examples:
///   sty alter db/trips add 'note:utf8'
///   sty alter db/trips drop tolls
///   sty alter db/trips rename fare fare_amount
///   sty alter db/trips widen passenger_count:int64
///   sty alter db/trips keep 7d
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AlterArgs {
    /// The table
    #[arg(value_name = "STORE/TABLE")]
    table: TablePath,
    #[command(subcommand)]
    change: Change,
}

/// What to change.
#[derive(Debug, Subcommand)]
enum Change {
    /// Add a column at the end; it is null in the rows that are there
    Add {
        /// Its name and type, as in fare:decimal(9,2)
        #[arg(value_name = "NAME:TYPE", value_parser = parse_column)]
        column: (String, DataType),
    },
    /// Drop a column
    Drop {
        /// Its name
        name: String,
    },
    /// Rename a column
    Rename {
        /// What it is called
        from: String,
        /// What it is to be called
        to: String,
    },
    /// Give a column a wider type, which holds all its values exactly
    Widen {
        /// Its name and the type
        #[arg(value_name = "NAME:TYPE", value_parser = parse_column)]
        column: (String, DataType),
    },
    /// Keep generations readable for so long after another has taken their place
    Keep {
        /// Such as 12h or 7d; 0s for not at all
        #[arg(value_name = "TIME", value_parser = parse_duration)]
        time: Duration,
    },
}

/// Runs `sty alter`.
pub(crate) fn run(args: AlterArgs, context: &Context) -> Result<(), Failure> {
    let table = Store::open(&args.table.store).table(&args.table.table)?;
    let alteration = match args.change {
        Change::Add { column: (name, data_type) } => Alteration::Add { name, data_type },
        Change::Drop { name } => Alteration::Drop { name },
        Change::Rename { from, to } => Alteration::Rename { from, to },
        Change::Widen { column: (name, data_type) } => Alteration::Widen { name, data_type },
        Change::Keep { time } => Alteration::Keep(time.as_millis() as u64),
    };
    let commit = alter(&table, &[alteration])?;
    context.note(&format!("generation {}", commit.generation));
    Ok(())
}

/// One `name:type`.
fn parse_column(text: &str) -> Result<(String, DataType), String> {
    match parse_schema(text)?.0.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(format!("'{text}' is not NAME:TYPE, as in fare:decimal(9,2)")),
    }
}
