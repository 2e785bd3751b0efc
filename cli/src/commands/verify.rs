//! `sty verify`: checks every byte of a store, and everything that is said of its values.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::{
    Damage, DamageKind, Error, SqlExpressions, Store, VerifyOptions, verify_kept, verify_with,
};

use crate::args::resources::IoArg;
use crate::args::table::{ScopeArg, TablesInScope};
use crate::context::{Context, Failures};
use crate::errors::Failure;
use crate::printers::Format;
use crate::progress::{Seen, Unit};
use crate::signals;
use crate::units::{show_counted, show_size};

/// Read every byte of a store or a table and check it
///
/// Every checksum is computed again and every value decoded, and everything that is said of them is
/// compared with the values: statistics of blocks, segments and manifest, dictionaries, sort order,
/// NOT NULL, partitions, the ledger; and the texts of views. Goes on after damage; exit code 3 if
/// there is any. Each is named on stderr with its table, file and byte, segment, column and rows;
/// --format prints them as a list on stdout instead.
///
/// Examples:
///   sty verify db
///   sty verify db/trips && echo sound
///   sty verify db --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    scope: ScopeArg,
    /// Also verify older generations that are kept (sty alter … keep), as far as they have other
    /// segments
    #[arg(long)]
    kept: bool,
    /// Print what is damaged as a list on stdout, in this format
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    io: IoArg,
}

/// Runs `sty verify`.
pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Result<(), Failure> {
    let mut scope = args.scope.tables(context)?;
    scope.store = args.io.of(scope.store);
    let TablesInScope { store, names, .. } = &scope;
    let options = VerifyOptions {
        threads: context.thread_count(),
        compile: Arc::new(SqlExpressions::stopped_by(signals::cancellation())),
        cancelled: signals::cancellation(),
        done: Arc::default(),
    };
    // Those of a table that goes away meanwhile are unknown, too.
    let total = names.iter().map(|name| segment_bytes(store, name)).sum();
    let done = Arc::clone(&options.done);
    let progress = context.progress(move || {
        let done = done.load(Ordering::Relaxed);
        Some(Seen { done, total, unit: Unit::Bytes, rows: None })
    });
    let mut found: Vec<(String, Damage)> = Vec::new();
    for name in names {
        signals::check()?;
        let opened = store.table(name).and_then(|table| Ok((table.snapshot()?, table)));
        let (snapshot, table) = match opened {
            Ok(opened) => opened,
            Err(error) if scope.has_gone(name, &error) => continue,
            // One damaged table does not hide the others.
            Err(error) => {
                found.push((name.clone(), Damage::from(error)));
                continue;
            }
        };
        let report = verify_with(&snapshot, &options);
        signals::check()?;
        found.extend(report.problems.into_iter().map(|damage| (name.clone(), damage)));
        for unchecked in report.unchecked {
            context.note(&format!("{name}: not checked: {unchecked}"));
        }
        context.note(&format!(
            "{name}: {} in {}, {} checked",
            show_counted(report.rows, "row"),
            show_counted(report.segments, "segment"),
            show_size(report.bytes)
        ));
        let kept = match args.kept {
            true => verify_kept(&table, &snapshot, &options)?,
            false => Vec::new(),
        };
        for (generation, report) in kept {
            signals::check()?;
            let name = format!("{name}@{generation}");
            found.extend(report.problems.into_iter().map(|damage| (name.clone(), damage)));
        }
    }
    drop(progress);
    let damaged_tables = found.len();
    if scope.whole {
        for name in store.views()? {
            if let Err(error) = store.view(&name) {
                found.push((name, Damage::from(error)));
            }
        }
    }
    if args.format.is_some() {
        context.print_batch(&list(&found)?, args.format)?;
    }
    let of_tables = || found.iter().take(damaged_tables).map(|(_, damage)| damage);
    let damage = || of_tables().filter(|it| it.error.is_damage());
    let hint = match damage().next() {
        Some(_) if damage().any(Damage::is_unreadable) => {
            Some("sty repair restores what can be restored")
        }
        Some(_) if damage().all(|damage| damage.kind == DamageKind::Other) => {
            Some("all values can be read: export the table and ingest it into a new one")
        }
        Some(_) => Some("all values can be read: sty repair puts right what is said of them"),
        None => None,
    };
    let mut failures = Failures::default();
    for (at, (table, damage)) in found.into_iter().enumerate() {
        let what = if at < damaged_tables { "table" } else { "view" };
        let place = damage.place();
        let mut failure = Failure::from(damage.error);
        let place = if place.is_empty() { String::new() } else { format!(", {place}") };
        failure.message = format!("{} ({what} '{table}'{place})", failure.message).into();
        failure.hint = None;
        match args.format {
            None => failures.add(failure, context)?,
            Some(_) => drop(failures.count(failure)?),
        }
    }
    failures.finish().map_err(|failure| match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// Bytes of a table's segments, unless damage hides them.
fn segment_bytes(store: &Store, name: &str) -> Option<u64> {
    let segments = store.table(name).ok()?.snapshot().ok()?.segments().ok()?;
    Some(segments.iter().map(|segment| segment.length).sum())
}

/// One row for each damage.
fn list(found: &[(String, Damage)]) -> Result<RecordBatch, Failure> {
    let at = |damage: &Damage| match &damage.error {
        Error::Corrupt { file, offset, what } => {
            (Some(file.display().to_string()), Some(*offset), what.clone())
        }
        Error::Io { path, source } => (Some(path.display().to_string()), None, source.to_string()),
        other => (None, None, other.to_string()),
    };
    let texts = |text: &dyn Fn(&(String, Damage)) -> Option<String>| -> ArrayRef {
        Arc::new(found.iter().map(text).collect::<StringArray>())
    };
    let numbers = |number: &dyn Fn(&Damage) -> Option<u64>| -> ArrayRef {
        Arc::new(found.iter().map(|(_, damage)| number(damage)).collect::<UInt64Array>())
    };
    let kind = |damage: &Damage| if damage.is_unreadable() { "unreadable" } else { "false" };
    let first = |damage: &Damage| damage.rows.as_ref().map(|rows| rows.start);
    let count = |damage: &Damage| damage.rows.as_ref().map(|rows| rows.end - rows.start);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", texts(&|(table, _)| Some(table.clone()))),
        ("file", texts(&|(_, damage)| at(damage).0)),
        ("offset", numbers(&|damage| at(damage).1)),
        ("segment", numbers(&|damage| damage.segment)),
        ("column", texts(&|(_, damage)| damage.column.as_deref().map(str::to_owned))),
        ("first_row", numbers(&first)),
        ("rows", numbers(&count)),
        ("kind", texts(&|(_, damage)| Some(kind(damage).to_owned()))),
        ("what", texts(&|(_, damage)| Some(at(damage).2))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}
