//! The commands of `sty`: one file each, with its arguments and its `run`.

mod alter;
mod arrange_args;
mod bench;
mod bench_memory;
mod compact;
mod completions;
mod demo;
mod export;
mod gc;
mod r#gen;
mod ingest;
mod ingest_report;
mod inspect;
mod manifest;
mod partitions;
mod paths;
mod query;
mod query_stats;
mod schema;
mod tables;
mod verify;

use clap::Subcommand;

use crate::args::Cli;
use crate::context::Context;
use crate::errors::Failure;

/// What `sty` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ingest(ingest::IngestArgs),
    Query(query::QueryArgs),
    Tables(tables::TablesArgs),
    Schema(schema::SchemaArgs),
    Partitions(partitions::PartitionsArgs),
    Manifest(manifest::ManifestArgs),
    Export(export::ExportArgs),
    Compact(compact::CompactArgs),
    Alter(alter::AlterArgs),
    DropPartition(partitions::DropPartitionArgs),
    Gc(gc::GcArgs),
    Bench(bench::BenchArgs),
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Demo(demo::DemoArgs),
    Gen(r#gen::Args),
    Completions(completions::CompletionsArgs),
}

/// Runs the command.
pub(crate) fn run(cli: Cli, context: &Context) -> Result<(), Failure> {
    match cli.command {
        Command::Ingest(args) => ingest::run(&args, context),
        Command::Query(args) => query::run(&args, context),
        Command::Tables(args) => tables::run(&args, context),
        Command::Schema(args) => schema::run(&args, context),
        Command::Partitions(args) => partitions::run(&args, context),
        Command::Manifest(args) => manifest::run(&args, context),
        Command::Export(args) => export::run(&args, context),
        Command::Compact(args) => compact::run(&args, context),
        Command::Alter(args) => alter::run(args, context),
        Command::DropPartition(args) => partitions::run_drop(&args, context),
        Command::Gc(args) => gc::run(&args, context),
        Command::Bench(args) => bench::run(&args, context),
        Command::Inspect(args) => inspect::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Demo(args) => demo::run(&args, context),
        Command::Gen(args) => Ok(r#gen::run(&args)?),
        Command::Completions(args) => completions::run(&args),
    }
}
