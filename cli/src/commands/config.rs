//! `sty config`: the settings in force.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use clap::Args;

use crate::args::choices::ListFormat;
use crate::config::InForce;
use crate::context::Context;
use crate::errors::Failure;

/// List the settings in force, and where each comes from
///
/// A setting is the default of an option. A flag goes before an environment variable (STY_THREADS
/// for --threads), that before the config file, that before what is built in. The config file is
/// $XDG_CONFIG_HOME/sty/config.toml, or else ~/.config/sty/config.toml; /etc/sty/config.toml holds
/// for the machine; STY_CONFIG names another file instead, or none if it is empty. Settings at its
/// top hold for all commands that have the option, those in a section for one command. How an
/// answer looks (format, max-rows, no-header) is set by a file on terminals only, so that scripts
/// get the same everywhere; --no-config leaves the files out. --timer=false turns off what is on:
///
///   threads = 4
///   memory-limit = "2GiB"
///
///   [ingest]
///   null = ["NA", "-"]
///
/// Examples:
///   sty config
///   sty config --origin
///   sty config ingest --origin --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ConfigArgs {
    /// A command: what is in force for it
    pub(crate) command: Option<String>,
    /// Say where each comes from: a flag, a variable, a file and its line, or the default
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    list: ListFormat,
    /// What the command line, the environment and config files have led to.
    #[arg(skip)]
    pub(crate) in_force: Option<Vec<InForce>>,
}

/// Runs `sty config`.
pub(crate) fn run(args: &ConfigArgs, context: &Context) -> Result<(), Failure> {
    let Some(all) = &args.in_force else {
        let name = args.command.as_deref().unwrap_or_default();
        let failure = Failure::usage(format!("there is no command '{name}'"));
        return Err(failure.hint("`sty --help` lists them"));
    };
    let names = all.iter().map(|one| match &one.command {
        Some(command) => format!("{command}.{}", one.name),
        None => one.name.clone(),
    });
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let values: ArrayRef =
        Arc::new(all.iter().map(|one| one.value.clone()).collect::<StringArray>());
    let mut columns = vec![("setting", names), ("value", values)];
    if args.origin {
        let origins = all.iter().map(|one| one.origin.to_string());
        columns.push(("origin", Arc::new(StringArray::from_iter_values(origins))));
    }
    context.print_batch(&RecordBatch::try_from_iter(columns)?, args.list.format)
}
