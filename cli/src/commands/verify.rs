//! `sty verify`: checks every byte of a store.

use clap::Args;
use stylobate::verify;

use crate::args::table::ScopeArg;
use crate::context::{Context, Failures};
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
}

/// Runs `sty verify`.
pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Result<(), Failure> {
    let (store, tables) = args.scope.tables()?;
    let mut failures = Failures::default();
    for name in &tables {
        signals::check()?;
        let snapshot = match store.table(name).and_then(|table| table.snapshot()) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                failures.add(error.into(), context)?;
                continue;
            }
        };
        let report = verify(&snapshot);
        for problem in report.problems {
            failures.add(problem.into(), context)?;
        }
        context.note(&format!(
            "{name}: {} in {}, {} checked",
            show_counted(report.rows, "row"),
            show_counted(report.segments, "segment"),
            show_size(report.bytes)
        ));
    }
    failures.finish()
}
