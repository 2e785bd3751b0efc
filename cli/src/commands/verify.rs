//! `sty verify`: checks every byte of a store.

use clap::Args;
use stylobate::verify;

use crate::args::resources::ReadArgs;
use crate::args::table::ScopeArg;
use crate::context::Context;
use crate::errors::Failure;
use crate::signals;
use crate::units::{show_counted, show_size};

/// Read every byte of a store or a table and check it
///
/// Every checksum is computed again and every block decoded. Exit code 3 if anything is damaged;
/// each damage is named with its file and offset.
///
/// Examples:
///   sty verify db
///   sty verify db/trips && echo sound
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs `sty verify`.
pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Result<(), Failure> {
    let (store, tables) = args.scope.tables()?;
    let store = args.read.of(store);
    let mut damaged = 0;
    for name in &tables {
        signals::check()?;
        let snapshot = store.table(name)?.snapshot()?;
        let report = verify(&snapshot);
        for problem in report.problems {
            damaged += 1;
            Failure::from(problem).report(context.error_format, context.color_stderr());
        }
        context.note(&format!(
            "{name}: {} in {}, {} checked",
            show_counted(report.rows, "row"),
            show_counted(report.segments, "segment"),
            show_size(report.bytes)
        ));
    }
    match damaged {
        0 => Ok(()),
        n => Err(Failure::corrupt(format!(
            "{} found, named above",
            show_counted(n, "damaged place")
        ))),
    }
}
