//! `sty verify`: every byte of a store, checked.

use std::path::PathBuf;

use clap::Args;

use super::paths::Scope;
use stylobate::store::{Store, verify};

use crate::context::Context;
use crate::errors::Failure;
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
    /// A store, or one table of it
    #[arg(value_name = "STORE[/TABLE]")]
    path: PathBuf,
}

impl VerifyArgs {
    /// What is to be checked.
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(&self.path)
    }
}

/// Runs `sty verify`.
pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Result<(), Failure> {
    let (store, tables) = match args.scope() {
        Scope::Table(path) => (Store::open(path.store), vec![path.table]),
        Scope::Store(path) => {
            let store = Store::open(path);
            let tables = store.tables()?;
            (store, tables)
        }
    };
    let mut damaged = 0;
    for name in &tables {
        crate::signals::check()?;
        let snapshot = store.table(name)?.snapshot()?;
        let report = verify::verify(&snapshot);
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
