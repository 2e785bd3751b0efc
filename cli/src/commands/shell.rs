//! `sty shell`: statements are typed, completed and run one after the other.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::Args;
use stylobate::Session;

use crate::args::names;
use crate::args::session::SessionArgs;
use crate::args::statements::{check_is_no_file, read_statements};
use crate::context::Context;
use crate::errors::Failure;
use crate::printers::Format;
use crate::shell::{Opened, run as run_shell, run_script};

/// Type SQL and see the answers, in one session
///
/// Statements end with a semicolon and may have several lines. Tab completes names, functions and
/// files; Ctrl-R searches what was typed before; Ctrl-C clears the line, or stops the statement
/// that runs and keeps the session; Ctrl-D leaves. Commands of the shell begin with a dot: .help
/// lists them. An answer that does not fit on the screen opens in $STY_PAGER, $PAGER or less.
///
/// Without a STORE, files are tables by name: FROM 'x.csv'. If stdin is no terminal, it is a
/// script: the shell runs it up to the first error and ends.
///
/// Examples:
///   sty shell db
///   sty db
///   sty shell db < report.sql
///   sty shell db -c '.tables'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShellArgs {
    /// The store's directory
    #[arg(add = names::stores())]
    store: Option<PathBuf>,
    /// Run these statements and commands of the shell, and end
    #[arg(short, long, value_name = "SQL")]
    command: Option<String>,
    /// Format of the answers [default: table on a terminal, else csv]
    #[arg(long, value_enum, env = "STY_FORMAT", hide_env = true)]
    format: Option<Format>,
    #[command(flatten)]
    session: SessionArgs,
}

impl ShellArgs {
    /// Whether a person types what runs.
    pub(crate) fn is_interactive(&self) -> bool {
        self.command.is_none() && io::stdin().is_terminal()
    }
}

/// Runs `sty shell`.
pub(crate) fn run(args: &ShellArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.session.wait.of(context);
    let script = match &args.command {
        Some(command) => Some(command.clone()),
        None if args.is_interactive() => None,
        None => Some(read_statements(io::stdin().lock(), Path::new("stdin"), context)?),
    };
    let (_, format, _) = context.open_result(args.format, None, false)?;
    if format.is_binary() && script.is_none() {
        let hint = "leave --format out, and use .output FILE in the shell";
        return Err(Failure::usage("a terminal cannot show this format").hint(hint));
    }
    args.store.as_deref().map_or(Ok(()), check_is_no_file)?;
    let store = args.store.as_deref().map(|store| context.store(store));
    let options = args.session.options(context)?;
    let session = match &store {
        Some(store) => {
            let exists = store.exists()?;
            if !exists && script.is_none() {
                context.note("there is no store yet; CREATE TABLE makes it");
            }
            Session::open(store, &options)?
        }
        None => Session::new(&options)?,
    };
    let parameters = args.session.parameters()?;
    let skip_damaged = args.session.skip_damaged;
    let no_files = options.no_files;
    let opened = Opened { store, session, parameters, format, skip_damaged, no_files };
    match script {
        Some(text) => run_script(opened, &text, context),
        None => run_shell(opened, context),
    }
}
