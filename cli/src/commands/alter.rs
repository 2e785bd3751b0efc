//! `sty alter`: adds, drops, renames and widens columns, converts their values to other types, and
//! says how long generations stay.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand};
use stylobate::{Alteration, Cast, CastOptions, DataType, alter, cast, would_alter, would_cast};

use crate::args::columns::parse_column_type;
use crate::args::dry_run::DryRunArg;
use crate::args::names;
use crate::args::resources::WaitArg;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;
use crate::progress::{Seen, Unit};
use crate::reports::dry_run;
use crate::signals;
use crate::units::{parse_duration, show_counted};

/// Change the columns of a table, or how long old generations stay
///
/// No data is touched, except by cast, which writes all segments anew.
///
/// Examples:
///   sty alter db/trips add 'note:utf8'
///   sty alter db/trips drop tolls
///   sty alter db/trips rename fare fare_amount
///   sty alter db/trips widen passenger_count:int64
///   sty alter db/flights cast arr_delay:int64 --null NA
///   sty alter db/trips keep 7d
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, disable_help_subcommand = true)]
pub(crate) struct AlterArgs {
    #[command(flatten)]
    table: TableArg,
    #[command(flatten)]
    dry_run: DryRunArg,
    #[command(flatten)]
    wait: WaitArg,
    #[command(subcommand)]
    change: Change,
}

/// What to change.
#[derive(Debug, Subcommand)]
enum Change {
    /// Add a column at the end; it is null in the rows that are there
    Add {
        /// The name and type of the column, as in fare:decimal(9,2)
        #[arg(value_name = "NAME:TYPE", value_parser = parse_column_type)]
        column: (String, DataType),
    },
    /// Drop a column
    Drop {
        /// The name of the column
        #[arg(add = names::columns())]
        name: String,
    },
    /// Rename a column
    Rename {
        /// The name of the column
        #[arg(add = names::columns())]
        from: String,
        /// Its new name
        to: String,
    },
    /// Give a column a wider type, which holds all its values exactly
    Widen {
        /// The name of the column and its new type
        #[arg(value_name = "NAME:TYPE", value_parser = parse_column_type)]
        column: (String, DataType),
    },
    /// Give a column another type, and convert its values exactly
    Cast {
        /// The name of the column and its new type
        #[arg(value_name = "NAME:TYPE", value_parser = parse_column_type)]
        column: (String, DataType),
        /// A text that means null; may be repeated
        #[arg(long = "null", value_name = "TEXT")]
        nulls: Vec<String>,
    },
    /// Keep generations readable for this long after they are replaced
    Keep {
        /// Such as 12h or 7d; 0s keeps none
        #[arg(value_name = "TIME", value_parser = parse_duration)]
        time: Duration,
    },
}

/// Runs `sty alter`.
pub(crate) fn run(args: AlterArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.wait.of(context);
    let table = args.table.path.open(context)?;
    let alteration = match args.change {
        Change::Cast { column: (column, data_type), nulls } => {
            let options = CastOptions {
                threads: context.thread_count(),
                memory_limit: context.memory_limit,
                cancelled: signals::cancellation(),
                done: Arc::default(),
            };
            let (total, done) = (table.snapshot()?.rows(), Arc::clone(&options.done));
            let progress = context.progress(move || {
                let done = done.load(Ordering::Relaxed);
                Some(Seen { done, total: Some(total), unit: Unit::Rows, rows: None })
            });
            let asked = Cast { column, data_type, nulls };
            if let Some(format) = args.dry_run.asked() {
                let schema = would_cast(&table, &asked, &options);
                drop(progress);
                let schema = schema?;
                let columns = dry_run::of_columns(&args.table.path.table, &schema, true);
                return dry_run::print(&columns, format, context);
            }
            let cast = cast(&table, &asked, &options);
            drop(progress);
            let (commit, report) = cast?;
            context.note(&format!(
                "generation {}: {} in {} written anew",
                commit.generation,
                show_counted(report.rows, "row"),
                show_counted(report.rewritten, "segment"),
            ));
            return Ok(());
        }
        Change::Add { column: (name, data_type) } => Alteration::Add { name, data_type },
        Change::Drop { name } => Alteration::Drop { name },
        Change::Rename { from, to } => Alteration::Rename { from, to },
        Change::Widen { column: (name, data_type) } => Alteration::Widen { name, data_type },
        Change::Keep { time } => Alteration::Keep(time.as_millis() as u64),
    };
    if let Some(format) = args.dry_run.asked() {
        let schema = would_alter(&table, &[alteration])?;
        let columns = dry_run::of_columns(&args.table.path.table, &schema, true);
        return dry_run::print(&columns, format, context);
    }
    let commit = alter(&table, &[alteration])?;
    context.note(&format!("generation {}", commit.generation));
    Ok(())
}
