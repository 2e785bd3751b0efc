//! `sty completions`: the completion script of a shell.

use std::io::Write as _;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Cli;
use crate::errors::Failure;
use crate::output::Output;

/// Print the completion script of a shell
///
/// Examples:
///   sty completions bash > ~/.local/share/bash-completion/completions/sty
///   sty completions zsh  > ~/.zfunc/_sty
///   sty completions fish > ~/.config/fish/completions/sty.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script to stdout.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sty", &mut script);
    let mut output = Output::stdout()?;
    output.write_all(&script).map_err(|error| output.failure(&error))
}
