//! Verifies a whole generation: every byte of the manifest and of every segment, and everything
//! that is said of the values, which are all decoded: statistics of blocks, segments and manifest,
//! dictionaries, sort order, NOT NULL, and what partitions are named.
//!
//! A checksum shows that bytes are those that were written, not that their writer was right. What
//! readers take from statistics without a look at the values would be a wrong answer if they lied,
//! and nothing else would ever find it.
//!
//! This file reads the manifest; `segments.rs` has the checks of a segment's columns against it,
//! `rows.rs` those that need several columns of a row, and `report.rs` what is found. Columns of a
//! segment and segments of a chunk are checked in parallel, each thread with a few vectors of one
//! column at a time. Verification goes on after whatever it finds.

mod report;
mod rows;
mod segments;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

pub use self::report::{Damage, DamageKind, VerifyOptions, VerifyReport};
use crate::error::{Error, Result};
use crate::ingest::options::thread_pool;
use crate::manifest::{Chunk, ChunkRef, LoadedSource, SegmentKey, commit, recover};
use crate::store::{SegmentEntry, Snapshot, Table};

/// Verifies a generation with the default options; see [`verify_with`].
pub fn verify(snapshot: &Snapshot) -> VerifyReport {
    verify_with(snapshot, &VerifyOptions::default())
}

/// The generation as if it did not have the segments that are damaged, and what is damaged.
///
/// # Errors
///
/// What keeps a segment from being verified and is no damage: a file without permission, a memory
/// limit.
pub fn skip_damaged(
    snapshot: &Snapshot,
    options: &VerifyOptions,
) -> Result<(Snapshot, Vec<Damage>)> {
    let mut problems = verify_with(snapshot, options).problems;
    if options.cancelled.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    if let Some(other) = problems.iter().position(|problem| !problem.error.is_damage()) {
        return Err(problems.swap_remove(other).error);
    }
    let damaged: BTreeSet<u64> = problems.iter().filter_map(|damage| damage.segment).collect();
    let chunks = (0..snapshot.chunks().len()).any(|at| snapshot.segments_of_chunk(at).is_err());
    match damaged.is_empty() && !chunks {
        true => Ok((snapshot.clone(), problems)),
        false => Ok((snapshot.without(&damaged)?, problems)),
    }
}

/// Verifies every byte of a generation, and everything that is said of its values. It continues
/// after damage, to find all.
pub fn verify_with(snapshot: &Snapshot, options: &VerifyOptions) -> VerifyReport {
    let mut report = VerifyReport::default();
    let problems = &mut report.problems;
    // The root is read again, because the snapshot's copy was verified when it was opened.
    match recover::read_root(snapshot.disk(), snapshot.dir(), snapshot.generation()) {
        Ok(root) if root != *snapshot.root() => {
            let error = Error::corrupt(0, "the root has changed since it was opened");
            let path = snapshot.dir().root(snapshot.generation());
            problems.push(Damage::of_table(error.in_file(path, 0)));
        }
        Ok(_) => {}
        Err(error) => problems.push(Damage::of_table(error)),
    }
    problems.extend(ledger(snapshot).into_iter().map(Damage::of_table));
    if let Err(error) = check_contents(snapshot, options, &mut report) {
        report.problems.push(Damage::of_table(error));
    }
    report
}

/// Verifies the older generations that a table keeps, and returns a report for each. Segments that
/// `newest` or a later generation shares are not verified again.
///
/// # Errors
///
/// The directory of the table cannot be listed.
pub fn verify_kept(
    table: &Table,
    newest: &Snapshot,
    options: &VerifyOptions,
) -> Result<Vec<(u64, VerifyReport)>> {
    let mut verified: HashSet<SegmentKey> = HashSet::new();
    let mut add = |snapshot: &Snapshot| -> Result<BTreeSet<u64>> {
        let segments = snapshot.segments()?;
        let known = (0..).zip(segments.iter()).filter(|(_, entry)| !verified.insert(entry.key()));
        Ok(known.map(|(number, _)| number).collect())
    };
    // The caller has verified the newest generation, and has its damage.
    let _ = add(newest);
    let mut reports = Vec::new();
    let older = table.generations()?.into_iter().filter(|number| *number < newest.generation());
    for generation in older.rev() {
        let mut report = VerifyReport::default();
        let verified = table.snapshot_at(generation).and_then(|snapshot| {
            let root = recover::read_root(snapshot.disk(), snapshot.dir(), generation);
            report.problems.extend(root.err().map(Damage::of_table));
            report.problems.extend(ledger(&snapshot).into_iter().map(Damage::of_table));
            let others = snapshot.without(&add(&snapshot)?)?;
            check_contents(&others, options, &mut report)
        });
        match verified {
            // It has been freed meanwhile.
            Err(Error::NotFound(_)) => continue,
            Err(error) => report.problems.push(Damage::of_table(error)),
            Ok(()) => {}
        }
        // Segments are numbered without those that are verified.
        report.problems.iter_mut().for_each(|damage| damage.segment = None);
        reports.push((generation, report));
    }
    Ok(reports)
}

/// Verifies the chunks and segments of a generation. An error says that none was verified.
pub(super) fn check_contents(
    snapshot: &Snapshot,
    options: &VerifyOptions,
    report: &mut VerifyReport,
) -> Result<()> {
    let pool = thread_pool(options.threads.max(1))?;
    pool.install(|| chunks(snapshot, options, report));
    Ok(())
}

/// What is wrong with the ledger.
fn ledger(snapshot: &Snapshot) -> Vec<Error> {
    let (root, mut wrong) = (snapshot.root(), Vec::new());
    let mut check = |sources: &[LoadedSource], path: &Path, is_file: bool| {
        wrong.extend(false_sources(root.generation, sources, path, is_file));
    };
    check(&root.ledger.recent, &snapshot.dir().root(root.generation), false);
    let mut unreadable = Vec::new();
    for file in &root.ledger.files {
        match commit::read_ledger(snapshot.disk(), snapshot.dir(), file) {
            Ok(sources) => check(&sources, &snapshot.dir().ledger(&file.id), true),
            Err(error) => unreadable.push(error),
        }
    }
    wrong.extend(unreadable);
    wrong
}

/// What entries of the ledger say that cannot be; `path` is the root or file that holds them.
pub(super) fn false_sources(
    generation: u64,
    sources: &[LoadedSource],
    path: &Path,
    is_file: bool,
) -> impl Iterator<Item = Error> {
    sources.iter().filter_map(move |source| {
        let what = if source.generation > generation {
            "is of a generation that does not exist yet"
        } else if source.rejected > source.rows {
            "has more rows rejected than read"
        } else if is_file && !source.done {
            "is not done, but is in a file"
        } else {
            return None;
        };
        let what = format!("the ledger's entry of '{}' {what}", source.path);
        Some(Error::corrupt(0, what).in_file(path, 0))
    })
}

fn chunks(snapshot: &Snapshot, options: &VerifyOptions, report: &mut VerifyReport) {
    let mut seen = Seen::default();
    let mut first = 0;
    for (at, reference) in snapshot.chunks().iter().enumerate() {
        if options.cancelled.load(Ordering::Relaxed) {
            return;
        }
        let path = snapshot.dir().chunk(&reference.id);
        report.chunks += 1;
        report.bytes += reference.length;
        let checked = match snapshot.chunk(at) {
            Ok(Some(chunk)) => check_chunk(snapshot, &chunk, reference),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = checked {
            report.problems.push(Damage::of_table(error.in_file(&path, 0)));
        }
        segments_of(snapshot, at, first, options, &mut seen, report);
        first += u64::from(reference.segments);
    }
}

/// Checks a chunk's bytes, and what the root says of it.
fn check_chunk(snapshot: &Snapshot, chunk: &Chunk, reference: &ChunkRef) -> Result<()> {
    chunk.verify(reference)?;
    match false_reference(reference, &chunk.segments()?).into_iter().next() {
        Some(what) => {
            let root = snapshot.dir().root(snapshot.generation());
            Err(Error::corrupt(0, what).in_file(root, 0))
        }
        None => Ok(()),
    }
}

/// What a root says of the rows and partitions of a chunk that is not so.
pub(super) fn false_reference(reference: &ChunkRef, segments: &[SegmentEntry]) -> Vec<String> {
    let (says, rows) = (reference.rows, segments.iter().map(|segment| segment.rows).sum::<u64>());
    let total = (says != rows)
        .then(|| format!("the root says that a chunk has {says} rows, but it has {rows}"));
    let paths = || segments.iter().map(|segment| &segment.partition);
    let ends =
        [(paths().min(), &reference.first_partition), (paths().max(), &reference.last_partition)];
    let wrong = ends.into_iter().find(|(found, says)| found.is_some_and(|found| found != *says));
    let wrong = wrong
        .map(|(_, says)| format!("the root says that a chunk has partition '{says}' at an end"));
    total.into_iter().chain(wrong).collect()
}

/// The segments that were seen before, by file and offset: listed twice, rows would count twice.
type Seen = HashSet<([u8; 16], u64)>;

/// Checks the segments of a chunk, which are numbered from `first`, in parallel.
fn segments_of(
    snapshot: &Snapshot,
    at: usize,
    first: u64,
    options: &VerifyOptions,
    seen: &mut Seen,
    report: &mut VerifyReport,
) {
    let Ok(Some(chunk)) = snapshot.chunk(at) else { return };
    let Some(reference) = snapshot.chunks().get(at) else { return };
    // Why they cannot be read has been reported.
    let Ok(entries) = chunk.segments() else { return };
    let path = snapshot.dir().chunk(&reference.id);
    for (entry, number) in entries.iter().zip(first..) {
        report.segments += 1;
        report.rows += entry.rows;
        report.bytes += entry.length;
        if !seen.insert((entry.file, entry.offset)) {
            let error = Error::corrupt(0, "a segment is listed twice").in_file(&path, 0);
            report.problems.push(Damage { segment: Some(number), ..Damage::of_table(error) });
        }
    }
    let claims = segments::Claims::read(snapshot, &chunk, &path);
    let checked: Vec<segments::CheckedSegment> = entries
        .par_iter()
        .enumerate()
        .map(|(place, entry)| {
            let check = segments::SegmentCheck { snapshot, options, entry, claims: &claims, place };
            check.run(first + place as u64)
        })
        .collect();
    for segment in checked {
        report.problems.extend(segment.problems);
        for unchecked in segment.unchecked {
            if !report.unchecked.contains(&unchecked) {
                report.unchecked.push(unchecked);
            }
        }
    }
}
