//! The command line: the options that all commands share, and the list of commands.

use std::ffi::OsString;
use std::io::Write as _;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    alter, bench, compact, completions, drop_partition, export, gc, ingest, inspect, manifest,
    partitions, query, repair, schema, tables, verify,
};
#[cfg(feature = "gen")]
use crate::commands::{demo, r#gen};
use crate::context::Context;
use crate::errors::{ErrorFormat, Failure};
use crate::exit::{self, Exit};
use crate::memory;
use crate::terminal::When;

/// Columnar tables on disk: rows in with `ingest`, SQL answers out with `query`.
///
/// A STORE is a directory of tables. Results go to stdout and nothing else does; progress,
/// summaries and errors go to stderr. `-` is stdin wherever a file is read and stdout wherever one
/// is written.
#[derive(Debug, Parser)]
#[command(name = "sty", version, after_long_help = exit::HELP, disable_help_subcommand = true)]
#[command(after_help = "`sty --help` tells more; `sty COMMAND --help` has examples.")]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, Args)]
struct Globals {
    /// How an error looks on stderr; `json` is one object: code, message, file, offset, hint
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    #[arg(help_heading = "Everywhere", env = "STY_ERROR_FORMAT", hide_env = true)]
    error_format: ErrorFormat,
    /// Colours; `auto` uses them on a terminal unless NO_COLOR is set or TERM is dumb
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(help_heading = "Everywhere", env = "STY_COLOR", hide_env = true)]
    color: When,
    /// No notes and summaries on stderr
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    quiet: bool,
    /// More notes on stderr; repeat for more still
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    #[arg(help_heading = "Everywhere")]
    verbose: u8,
}

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
    DropPartition(drop_partition::DropPartitionArgs),
    Gc(gc::GcArgs),
    Bench(bench::BenchArgs),
    Inspect(inspect::InspectArgs),
    Verify(verify::VerifyArgs),
    Repair(repair::RepairArgs),
    #[cfg(feature = "gen")]
    Demo(demo::DemoArgs),
    #[cfg(feature = "gen")]
    Gen(r#gen::GenArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs the command.
pub(crate) fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Ingest(args) => ingest::run(&args, context),
        Command::Query(args) => query::run(&args, context),
        Command::Tables(args) => tables::run(&args, context),
        Command::Schema(args) => schema::run(&args, context),
        Command::Partitions(args) => partitions::run(&args, context),
        Command::Manifest(args) => manifest::run(&args),
        Command::Export(args) => export::run(&args, context),
        Command::Compact(args) => compact::run(&args, context),
        Command::Alter(args) => alter::run(args, context),
        Command::DropPartition(args) => drop_partition::run(&args, context),
        Command::Gc(args) => gc::run(&args, context),
        Command::Bench(args) => bench::run(&args, context),
        Command::Inspect(args) => inspect::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Repair(args) => repair::run(&args, context),
        #[cfg(feature = "gen")]
        Command::Demo(args) => demo::run(&args, context),
        #[cfg(feature = "gen")]
        Command::Gen(args) => r#gen::run(&args, context),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
    }
}

/// Reads the command line. Help, version and usage errors are answered here.
pub(crate) fn parse() -> Result<(Command, Context), Exit> {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let command = matches.subcommand().map(|(_, command)| command);
        let limit = command.and_then(|command| command.try_get_one("memory_limit").ok()?.copied());
        memory::return_freed_at_once(limit);
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))
    });
    match parsed {
        Ok(cli) => {
            let Globals { error_format, color, quiet, verbose } = cli.globals;
            Ok((cli.command, Context { error_format, color, quiet, verbose }))
        }
        Err(error) => Err(answer(&error)),
    }
}

/// Prints help or version to stdout, or a usage error to stderr, and returns the exit code.
fn answer(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Exit::Done;
    }
    if asks_for_json(std::env::args_os()) {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let (message, hint) = text.split_once("\n\n").unwrap_or((text, ""));
        let failure = Failure::usage(message.trim());
        let hint = hint.split_whitespace().collect::<Vec<_>>().join(" ");
        let failure = if hint.is_empty() { failure } else { failure.hint(hint) };
        failure.report(ErrorFormat::Json, false);
    } else {
        let _ = error.print();
        let _ = std::io::stderr().flush();
    }
    Exit::Usage
}

/// Whether `--error-format json` is given. It is searched for by hand, since the command line could
/// not be parsed.
fn asks_for_json(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.collect();
    let pair = args
        .windows(2)
        .any(|pair| matches!(pair, [flag, value] if flag == "--error-format" && value == "json"));
    let joined = args.iter().any(|arg| arg == "--error-format=json");
    pair || joined || std::env::var_os("STY_ERROR_FORMAT").is_some_and(|value| value == "json")
}

/// Prints the help of one command to stderr.
pub(crate) fn print_help(command: &str) {
    let mut cli = Cli::command();
    // Building it gives the command its full name and the options of all commands.
    cli.build();
    if let Some(found) = cli.find_subcommand_mut(command) {
        let _ = writeln!(std::io::stderr().lock(), "{}", found.render_help());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_asked_for_in_either_spelling() {
        let asks = |args: &[&str]| asks_for_json(args.iter().map(OsString::from));
        assert!(asks(&["sty", "--error-format", "json", "nonsense"]));
        assert!(asks(&["sty", "nonsense", "--error-format=json"]));
        assert!(!asks(&["sty", "json", "--error-format", "human"]));
    }
}
