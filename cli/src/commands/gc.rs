//! `sty gc`: frees generations that nobody needs any more, and their files.

use std::time::Duration;

use clap::Args;
use stylobate::Store;

use crate::args::dry_run::DryRunArg;
use crate::args::resources::WaitArg;
use crate::args::table::ScopeArg;
use crate::context::{Context, Failures};
use crate::errors::Failure;
use crate::reports::dry_run::{self, Action};
use crate::signals;
use crate::units::{parse_duration, show_counted};

/// Free old generations of a table or store, and their files
///
/// A generation that queries read is never freed, nor is one that `--keep` of its table still holds
/// (`sty alter … keep`); every commit frees what it can, so this is for what was kept or read at
/// that time. It also removes what a load that was killed has left of a table that it was to make.
///
/// Examples:
///   sty gc db
///   sty gc db/trips --keep 0s
///   sty gc db --dry-run
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    scope: ScopeArg,
    /// Keep generations that were replaced less than this long ago, such as 7d [default: the
    /// table's]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    keep: Option<Duration>,
    #[command(flatten)]
    dry_run: DryRunArg,
    #[command(flatten)]
    wait: WaitArg,
}

/// Runs `sty gc`.
pub(crate) fn run(args: &GcArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.wait.of(context);
    let mut scope = args.scope.tables(context)?;
    if scope.whole {
        scope.names.extend(scope.store.begun()?);
        scope.names.sort_unstable();
    }
    let (mut failures, mut actions) = (Failures::default(), Vec::new());
    for name in &scope.names {
        signals::check()?;
        let done = match args.dry_run.asked() {
            Some(_) => would_free(&scope.store, name, args.keep).map(|action| actions.push(action)),
            None => free(&scope.store, name, args.keep).map(|note| context.note(&note)),
        };
        match done {
            Err(error) if !scope.has_gone(name, &error) => failures.add(error.into(), context)?,
            _ => {}
        }
    }
    if let Some(format) = args.dry_run.asked() {
        dry_run::print(&actions, format, context)?;
    }
    failures.finish()
}

/// What would be freed of a table.
fn would_free(store: &Store, name: &str, keep: Option<Duration>) -> stylobate::Result<Action> {
    let keep = keep.map(|keep| keep.as_millis() as u64);
    let table = store.table(name)?;
    let freed = match table.free_begun(false)? {
        Some(freed) => freed,
        None => table.would_free(keep)?,
    };
    let (generations, files) =
        (show_counted(freed.generations, "generation"), show_counted(freed.files, "file"));
    Ok(Action {
        action: "free",
        table: Some(name.to_owned()),
        bytes: Some(freed.bytes),
        exact: true,
        note: Some(format!("{generations}, {files}")),
        ..Action::default()
    })
}

/// Frees the generations of a table, and says what was done.
fn free(store: &Store, name: &str, keep: Option<Duration>) -> Result<String, stylobate::Error> {
    let table = store.table(name)?;
    if let Some(freed) = table.free_begun(true)? {
        let files = show_counted(freed.files, "file");
        return Ok(format!("{name}: {files} of a load that did not end removed"));
    }
    let mut writer = table.writer(None)?;
    let before = table.generations()?.len();
    let keep = keep.map_or_else(|| writer.changes().keep, |keep| keep.as_millis() as u64);
    let swept = writer.free(keep)?;
    let after = table.generations()?.len();
    Ok(format!(
        "{name}: {} freed, {} removed, {} left",
        show_counted((before - after.min(before)) as u64, "generation"),
        show_counted(swept.files, "file"),
        show_counted(after as u64, "generation")
    ))
}
