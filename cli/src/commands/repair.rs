//! `sty repair`: restores what can be restored of a damaged store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::{Lost, RepairOptions, RepairReport, SqlExpressions, Store, VerifyOptions, repair};

use crate::args::resources::ThreadsArg;
use crate::args::table::TablePath;
use crate::context::Context;
use crate::errors::Failure;
use crate::printers::Format;
use crate::signals;
use crate::units::show_counted;

/// Restore what can be restored of a damaged store or table, and say what was lost
///
/// Falls back to the newest generation that can be read where CURRENT or its root is damaged or
/// lost, leaves out segments with bytes that cannot be read, and commits the rest as a new
/// generation. Nothing is deleted: what is damaged goes to the folder damaged/ of the table. Each
/// lost segment is named with its rows, partition and bounds; --format prints them as a list on
/// stdout. Copy the store first if it is your only copy.
///
/// Examples:
///   sty repair db --dry-run
///   sty repair db/trips
///   sty repair db/trips --format json > lost.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RepairArgs {
    /// A store, or one table of it
    #[arg(value_name = "STORE[/TABLE]")]
    path: PathBuf,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the lost segments as a list on stdout, in this format
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    threads: ThreadsArg,
}

/// Runs `sty repair`.
pub(crate) fn run(args: &RepairArgs, context: &Context) -> Result<(), Failure> {
    let (store, tables) = tables(&args.path)?;
    let options = RepairOptions {
        dry_run: args.dry_run,
        verify: VerifyOptions {
            threads: args.threads.count(),
            compile: Arc::new(SqlExpressions::default()),
            cancelled: signals::cancellation(),
        },
    };
    let (mut lost, mut failed) = (Vec::new(), None);
    for name in tables {
        signals::check()?;
        match repair(&store.table(&name)?, &options) {
            Ok(report) => {
                tell(&name, &report, args, context);
                lost.extend(report.lost.into_iter().map(|segment| (name.clone(), segment)));
            }
            // What cannot be repaired does not keep the other tables from it.
            Err(error) => {
                let failure = Failure::from(error);
                failure.report(context.error_format, context.color_stderr());
                failed = failed.or(Some(failure));
            }
        }
    }
    if args.format.is_some() {
        context.print_batch(&list(&lost)?, args.format)?;
    }
    match failed {
        None => Ok(()),
        Some(failure) => {
            let what = "a table could not be repaired, for the reason named above";
            Err(Failure { message: what.into(), hint: None, ..failure })
        }
    }
}

/// The tables in question, also those that have lost their `CURRENT`.
fn tables(path: &Path) -> Result<(Store, Vec<String>), Failure> {
    let is_table =
        |path: &Path| ["CURRENT", "manifest", "data"].iter().any(|name| path.join(name).exists());
    let one = path.to_str().and_then(|text| text.parse::<TablePath>().ok());
    if let Some(one) = one.filter(|one| is_table(path) || (!path.exists() && one.store.is_dir())) {
        return Ok((Store::open(one.store), vec![one.table]));
    }
    let entries = std::fs::read_dir(path).map_err(|error| Failure::io(path, &error))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Failure::io(path, &error))?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_table(&entry.path()) && stylobate::internal::store::check_name(&name).is_ok() {
            names.push(name);
        }
    }
    names.sort();
    Ok((Store::open(path), names))
}

/// Says on stderr what was done to a table.
fn tell(name: &str, report: &RepairReport, args: &RepairArgs, context: &Context) {
    if report.is_sound() {
        return context.note(&format!("{name}: sound, nothing to repair"));
    }
    report.notes.iter().for_each(|note| context.note(&format!("{name}: {note}")));
    for lost in report.lost.iter().filter(|_| args.format.is_none()) {
        let segment = lost.segment.map_or_else(|| "a chunk".into(), |n| format!("segment {n}"));
        let mut line = format!("{name}: lost: {segment}, {}", show_counted(lost.rows, "row"));
        for (what, text) in [("partition", &*lost.partition), ("with", lost.bounds.as_str())] {
            if !text.is_empty() {
                line += &format!(", {what} {text}");
            }
        }
        context.note(&format!("{line}: {}", lost.why));
    }
    let (would, moved) = match args.dry_run {
        true => ("would be ", "to be moved"),
        false => ("", "moved"),
    };
    for (from, to) in &report.moved {
        context.detail(&format!("{name}: {moved}: {} → {}", from.display(), to.display()));
    }
    let rows: u64 = report.lost.iter().map(|lost| lost.rows).sum();
    context.note(&format!(
        "{name}: {would}generation {}, of {}; {} lost, {} {moved} to damaged/",
        report.generation.map_or_else(|| "new".into(), |generation| generation.to_string()),
        show_counted(report.rows, "row"),
        show_counted(rows, "row"),
        show_counted(report.moved.len() as u64, "file"),
    ));
}

/// One row for each lost segment.
fn list(lost: &[(String, Lost)]) -> Result<RecordBatch, Failure> {
    let texts = |text: &dyn Fn(&(String, Lost)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(lost.iter().map(text)))
    };
    let numbers = |number: &dyn Fn(&Lost) -> Option<u64>| -> ArrayRef {
        Arc::new(lost.iter().map(|(_, lost)| number(lost)).collect::<UInt64Array>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", texts(&|(table, _)| table.clone())),
        ("segment", numbers(&|lost| lost.segment)),
        ("rows", numbers(&|lost| Some(lost.rows))),
        ("partition", texts(&|(_, lost)| lost.partition.to_string())),
        ("bounds", texts(&|(_, lost)| lost.bounds.clone())),
        ("file", texts(&|(_, lost)| lost.file.display().to_string())),
        ("offset", numbers(&|lost| Some(lost.offset))),
        ("why", texts(&|(_, lost)| lost.why.clone())),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}
