//! `sty completions`: the completion script of a shell.
//!
//! The script asks `sty` itself what may come next, so that it knows the tables and columns of the
//! stores on the command line.

use std::io::Write as _;

use clap::Args;
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use crate::errors::{Failure, IoResult as _};
use crate::output::Output;

/// The end of a script for zsh, which reads the file only when it completes for the first time.
const ZSH_FIRST: &str = "
if [[ $funcstack[1] == _sty ]]; then
    _clap_dynamic_completer_sty \"$@\"
fi
";

/// The variable by which a script asks.
const VARIABLE: &str = "STY_COMPLETE";

/// Print the completion script of a shell
///
/// It completes commands, options, files, stores and their tables, and the columns of a table where
/// an option or SQL in quotes names them.
///
/// Examples:
///   sty completions bash > ~/.local/share/bash-completion/completions/sty
///   sty completions zsh > ~/.zfunc/_sty    # before compinit: fpath+=~/.zfunc
///   sty completions fish > ~/.config/fish/completions/sty.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `sty completions`.
pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let (shells, name) = (Shells::builtins(), args.shell.to_string());
    let mut script = Vec::new();
    if let Some(shell) = shells.completer(&name) {
        let written = shell.write_registration(VARIABLE, "sty", "sty", "sty", &mut script);
        written.with_path("the script")?;
    }
    if args.shell == Shell::Zsh {
        script.extend_from_slice(ZSH_FIRST.as_bytes());
    }
    let mut output = Output::stdout()?;
    output.write_all(&script).map_err(|error| output.failure(&error))
}

/// Answers the script of a shell; false if none has asked.
pub(crate) fn answer(definition: impl Fn() -> clap::Command) -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let here = std::env::current_dir().ok();
    let completer = CompleteEnv::with_factory(definition).var(VARIABLE);
    // Where nothing can be completed, the shell does what it does without a script.
    completer.try_complete(std::env::args_os(), here.as_deref()).unwrap_or(true)
}
