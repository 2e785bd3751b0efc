//! `sty drop-partition`: drops partitions of a table.

use clap::Args;
use stylobate::{drop_partitions, would_drop};

use crate::args::dry_run::DryRunArg;
use crate::args::names;
use crate::args::resources::WaitArg;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;
use crate::reports::dry_run::{self, of_partition};
use crate::units::{show_counted, show_size};

/// Drop partitions of a table, and those within them
///
/// No data is read or written; queries that have begun go on. The files are removed as soon as no
/// query and no kept generation needs them.
///
/// Examples:
///   sty drop-partition db/trips year=2009
///   sty drop-partition db/trips year=2009 --dry-run
///   sty drop-partition db/trips year=2009/month=1 year=2009/month=2
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DropPartitionArgs {
    #[command(flatten)]
    table: TableArg,
    /// Partitions, as `sty partitions` names them
    #[arg(value_name = "PARTITION", required = true, add = names::partition_paths())]
    partitions: Vec<String>,
    #[command(flatten)]
    dry_run: DryRunArg,
    #[command(flatten)]
    wait: WaitArg,
}

/// Runs `sty drop-partition`.
pub(crate) fn run(args: &DropPartitionArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.wait.of(context);
    let table = args.table.path.open(context)?;
    if let Some(format) = args.dry_run.asked() {
        let dropped = would_drop(&table, &args.partitions)?;
        let drop = of_partition("drop", &args.table.path.table, &dropped);
        return dry_run::print(&[drop], format, context);
    }
    let (_, dropped) = drop_partitions(&table, &args.partitions)?;
    context.note(&format!(
        "{} dropped: {}, {}",
        show_counted(dropped.rows, "row"),
        show_counted(dropped.segments, "segment"),
        show_size(dropped.bytes)
    ));
    Ok(())
}
