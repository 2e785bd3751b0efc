//! The command line: what all commands share, and the list of commands.

use std::ffi::OsString;
use std::io::Write as _;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory as _, Parser};

use crate::commands::Command;
use crate::context::Context;
use crate::errors::{ErrorFormat, Failure};
use crate::exit::{self, Exit};
use crate::terminal::When;

/// Columnar tables on disk: rows in with `ingest`, SQL answers out with `query`.
///
/// A STORE is a directory of tables. Results go to stdout and nothing else does; progress,
/// summaries and errors go to stderr. `-` is stdin wherever a file is read and stdout wherever one
/// is written.
#[derive(Debug, Parser)]
#[command(name = "sty", version, after_long_help = exit::HELP, disable_help_subcommand = true)]
#[command(after_help = "`sty --help` tells more; `sty COMMAND --help` has examples.")]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, Args)]
struct Globals {
    /// How an error looks on stderr; `json` is one object: code, message, file, offset, hint
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        env = "STY_ERROR_FORMAT"
    )]
    #[arg(help_heading = "Everywhere", hide_env = true)]
    error_format: ErrorFormat,
    /// Colours; `auto` uses them on a terminal unless NO_COLOR is set or TERM is dumb
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        env = "STY_COLOR"
    )]
    #[arg(help_heading = "Everywhere", hide_env = true)]
    color: When,
    /// No notes and summaries on stderr
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    quiet: bool,
    /// More of them; repeat for more still
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    #[arg(help_heading = "Everywhere")]
    verbose: u8,
}

/// Reads the command line; help, version and usage errors are answered here.
pub(crate) fn parse() -> Result<(Cli, Context), Exit> {
    match Cli::try_parse() {
        Ok(cli) => {
            let Globals { error_format, color, quiet, verbose } = cli.globals;
            Ok((cli, Context { error_format, color, quiet, verbose }))
        }
        Err(error) => Err(answer(&error)),
    }
}

/// Prints help or version to stdout, a usage error to stderr, and gives the exit code.
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

/// The command line could not be parsed, so `--error-format json` is looked for by hand.
fn asks_for_json(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.collect();
    let pair = args
        .windows(2)
        .any(|pair| matches!(pair, [flag, value] if flag == "--error-format" && value == "json"));
    let joined = args.iter().any(|arg| arg == "--error-format=json");
    pair || joined || std::env::var_os("STY_ERROR_FORMAT").is_some_and(|value| value == "json")
}

/// The help of one command, for when it has nothing to read; the exit is that of a usage error.
pub(crate) fn missing_input(command: &str) -> Failure {
    let mut cli = Cli::command();
    // Building it gives the command its full name and the options of all commands.
    cli.build();
    if let Some(found) = cli.find_subcommand_mut(command) {
        let _ = writeln!(std::io::stderr().lock(), "{}", found.render_help());
    }
    Failure::usage("nothing to read: stdin is a terminal")
        .hint(format!("name the input or pipe it in; `sty {command} --help` has examples"))
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
