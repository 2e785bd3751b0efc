//! `sty completions`: the completion script of a shell.

use std::io::Write as _;

use clap::Args;
use clap_complete::Shell;

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

/// Runs `sty completions`, for the command line that `definition` describes.
pub(crate) fn run(args: &CompletionsArgs, definition: &mut clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, definition, "sty", &mut script);
    let mut output = Output::stdout()?;
    output.write_all(&script).map_err(|error| output.failure(&error))
}
