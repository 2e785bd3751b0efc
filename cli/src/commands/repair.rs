//! `sty repair`: restores what can be restored of a damaged store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::{
    Lost, RepairOptions, RepairReport, Rewritten, SqlExpressions, Store, VerifyOptions, repair,
};

use crate::args::resources::WaitArg;
use crate::args::table::{ScopeArg, TablesInScope};
use crate::context::{Context, Failures};
use crate::errors::Failure;
use crate::printers::Format;
use crate::progress::{Seen, Unit};
use crate::signals;
use crate::units::show_counted;

/// Restore what can be restored of a damaged store or table
///
/// Goes on with the newest generation whose root can be read, leaves out chunks and segments that
/// cannot be read, and commits the rest as a new generation. Nothing is deleted: what is damaged,
/// and data files that only lost metadata named, go to the folder damaged/ of the table. Each lost
/// segment, chunk and data file is named with its rows, partition and bounds, as far as they are
/// known. Segments whose values can be read, but whose statistics, dictionary, order or partition
/// are recorded wrongly, are rewritten from their values, and no row is lost. --format prints what
/// is lost or rewritten as a list on stdout. Copy the store first if it is your only copy.
///
/// Examples:
///   sty repair db --dry-run
///   sty repair db/trips
///   sty repair db/trips --format json > lost.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    scope: ScopeArg,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArg,
    /// Print the segments that are lost or written anew as a list on stdout, in this format
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// Runs `sty repair`.
pub(crate) fn run(args: &RepairArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.wait.of(context);
    let TablesInScope { store, names: tables, .. } = args.scope.tables(context)?;
    if tables.is_empty() {
        context.note(&format!("{}: no tables, nothing to repair", store.path().display()));
    }
    let mut listed = Vec::new();
    let done = repair_all(&store, tables, &mut listed, args, context);
    // Tables repaired before a signal are reported, too.
    if args.format.is_some() {
        context.print_batch(&list(&listed)?, args.format)?;
    }
    done
}

/// A row of the list: what is lost, or written anew.
struct Listed {
    table: String,
    outcome: &'static str,
    segment: Option<u64>,
    rows: Option<u64>,
    partition: Arc<str>,
    bounds: String,
    file: String,
    offset: u64,
    why: String,
}

impl Listed {
    fn lost(table: &str, lost: Lost) -> Listed {
        Listed {
            table: table.to_owned(),
            outcome: "lost",
            segment: lost.segment,
            rows: lost.rows,
            partition: lost.partition,
            bounds: lost.bounds,
            file: lost.file.display().to_string(),
            offset: lost.offset,
            why: lost.why,
        }
    }

    fn rewritten(table: &str, rewritten: Rewritten) -> Listed {
        Listed {
            table: table.to_owned(),
            outcome: "rewritten",
            segment: Some(rewritten.segment),
            rows: Some(rewritten.rows),
            partition: rewritten.partition,
            bounds: String::new(),
            file: rewritten.file.display().to_string(),
            offset: rewritten.offset,
            why: rewritten.why.join("; "),
        }
    }
}

/// Repairs tables, and collects what is lost or written anew of each. One that cannot be repaired
/// does not keep the others from it.
fn repair_all(
    store: &Store,
    tables: Vec<String>,
    listed: &mut Vec<Listed>,
    args: &RepairArgs,
    context: &Context,
) -> Result<(), Failure> {
    let options = RepairOptions {
        dry_run: args.dry_run,
        verify: VerifyOptions {
            threads: context.thread_count(),
            compile: Arc::new(SqlExpressions::stopped_by(signals::cancellation())),
            cancelled: signals::cancellation(),
            done: Arc::default(),
        },
    };
    let done = Arc::clone(&options.verify.done);
    // How much there is to check is what a repair finds out.
    let progress = context.progress(move || {
        let done = done.load(Ordering::Relaxed);
        Some(Seen { done, total: None, unit: Unit::Bytes, rows: None })
    });
    let mut failures = Failures::default();
    for name in tables {
        signals::check()?;
        match store.table(&name).and_then(|table| repair(&table, &options)) {
            Ok(report) => {
                tell(&name, &report, args, context);
                listed.extend(report.lost.into_iter().map(|lost| Listed::lost(&name, lost)));
                let anew = report.rewritten.into_iter();
                listed.extend(anew.map(|rewritten| Listed::rewritten(&name, rewritten)));
            }
            Err(error) => failures.add(error.into(), context)?,
        }
    }
    drop(progress);
    failures.finish()
}

/// Says on stderr what was done to a table.
fn tell(name: &str, report: &RepairReport, args: &RepairArgs, context: &Context) {
    if report.is_sound() {
        return context.note(&format!("{name}: sound, nothing to repair"));
    }
    report.notes.iter().for_each(|note| context.note(&format!("{name}: {note}")));
    if !report.needed {
        return context.note(&format!("{name}: left as it is"));
    }
    for lost in report.lost.iter().filter(|_| args.format.is_none()) {
        context.note(&format!("{name}: lost: {}", describe(lost)));
    }
    let anew = if args.dry_run { "would be written anew" } else { "written anew" };
    for rewritten in report.rewritten.iter().filter(|_| args.format.is_none()) {
        let (rows, why) = (show_counted(rewritten.rows, "row"), rewritten.why.join("; "));
        context.note(&format!("{name}: {anew}: segment {}, {rows}: {why}", rewritten.segment));
    }
    let moves = if args.dry_run { "would be moved" } else { "moved" };
    for (from, to) in &report.moved {
        context.detail(&format!("{name}: {moves}: {} → {}", from.display(), to.display()));
    }
    let (rows, lost) = (show_counted(report.rows, "row"), show_lost(&report.lost));
    let files = show_counted(report.moved.len() as u64, "file");
    let segments = match report.rewritten.len() as u64 {
        0 => String::new(),
        count if args.dry_run => format!("write {} anew, ", show_counted(count, "segment")),
        count => format!("wrote {} anew, ", show_counted(count, "segment")),
    };
    context.note(&match report.generation {
        Some(generation) => format!(
            "{name}: committed generation {generation} of {rows}, {segments}lost {lost} and moved \
             {files} to damaged/"
        ),
        None => format!(
            "{name}: would commit a new generation of {rows}, {segments}lose {lost} and move \
             {files} to damaged/"
        ),
    });
}

/// What is lost, how much of it and why.
fn describe(lost: &Lost) -> String {
    let what = match lost.segment {
        Some(number) => format!("segment {number}"),
        None => lost.file.file_name().map_or_else(String::new, |name| name.display().to_string()),
    };
    let rows = lost
        .rows
        .map_or_else(|| "an unknown number of rows".to_owned(), |rows| show_counted(rows, "row"));
    let mut line = format!("{what}, {rows}");
    for (what, text) in [("partition", &*lost.partition), ("with", lost.bounds.as_str())] {
        if !text.is_empty() {
            line += &format!(", {what} {text}");
        }
    }
    format!("{line}: {}", lost.why)
}

/// The number of lost rows, as far as it is known.
fn show_lost(lost: &[Lost]) -> String {
    let rows = show_counted(lost.iter().filter_map(|lost| lost.rows).sum(), "row");
    match lost.iter().all(|lost| lost.rows.is_some()) {
        true => rows,
        false => format!("at least {rows}"),
    }
}

/// One row for each segment, chunk or file that is lost, or segment that is written anew.
fn list(listed: &[Listed]) -> Result<RecordBatch, Failure> {
    let texts = |text: &dyn Fn(&Listed) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(listed.iter().map(text)))
    };
    let numbers = |number: &dyn Fn(&Listed) -> Option<u64>| -> ArrayRef {
        Arc::new(listed.iter().map(number).collect::<UInt64Array>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", texts(&|row| &row.table)),
        ("outcome", texts(&|row| row.outcome)),
        ("segment", numbers(&|row| row.segment)),
        ("rows", numbers(&|row| row.rows)),
        ("partition", texts(&|row| &row.partition)),
        ("bounds", texts(&|row| &row.bounds)),
        ("file", texts(&|row| &row.file)),
        ("offset", numbers(&|row| Some(row.offset))),
        ("why", texts(&|row| &row.why)),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}
