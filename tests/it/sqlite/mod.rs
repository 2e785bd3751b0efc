//! SQLite's sqllogictest over stored tables of several segments, with the executor and without.
//!
//! The files are SQLite's, in the public domain, and not part of this project: `STY_SQLITE_SUITE`
//! names the folder that holds them (its `test`), without which nothing is tested.
//! `STY_SQLITE_FILES` selects files by a part of their paths, `STY_SQLITE_LIMIT` ends each file
//! after that number of records, and `STY_SQLITE_FROM` begins with the file of that number.

mod records;
mod tables;
mod values;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_schema::Field;

use crate::both::{Answer, Both};
use records::{Kind, Query, Record, Records};
use tables::{Outcome, Tables};

/// The folders and files that are run; the others test triggers, keys and SQLite's own notions.
const PARTS: [&str; 7] =
    ["select1", "select2", "select3", "select4", "select5", "random/", "index/"];
/// The number of files that run at a time.
const RUNNERS: usize = 2;
/// The threads of the sessions over a file, by the file's number.
const THREADS: [usize; 3] = [1, 2, 4];
/// The number of failures that are shown in full.
const SHOWN: usize = 25;

/// The outcomes of the records.
#[derive(Debug, Default)]
struct Tally {
    files: u64,
    queries: u64,
    statements: u64,
    passed: u64,
    skipped: u64,
    /// Failures by message, without names and numbers, with the first of each kind.
    refused: BTreeMap<String, (u64, String)>,
    /// Accepted differences by their reason.
    explained: BTreeMap<&'static str, u64>,
    /// Files with a row that could not be stored.
    left: Vec<String>,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.files += other.files;
        self.queries += other.queries;
        self.statements += other.statements;
        self.passed += other.passed;
        self.skipped += other.skipped;
        for (what, (count, first)) in other.refused {
            self.refused.entry(what).or_insert((0, first)).0 += count;
        }
        for (what, count) in other.explained {
            *self.explained.entry(what).or_default() += count;
        }
        self.left.extend(other.left);
        self.wrong.extend(other.wrong);
    }

    fn refuse(&mut self, message: &str, place: &str, sql: &str) {
        self.refused.entry(kind_of(message)).or_insert_with(|| (0, format!("{place} {sql}"))).0 +=
            1;
    }

    fn report(&self) -> String {
        let Tally { files, queries, statements, passed, skipped, .. } = self;
        let refused: u64 = self.refused.values().map(|(count, _)| count).sum();
        let explained: u64 = self.explained.values().sum();
        let mut text = format!(
            "{files} files, {queries} queries and {statements} other statements: {passed} passed, \
             {explained} explained, {refused} refused, {} wrong; {skipped} skipped, \
             {} files left\n",
            self.wrong.len(),
            self.left.len()
        );
        let mut kinds: Vec<_> = self.refused.iter().collect();
        kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (what, (count, first)) in kinds {
            let _ = writeln!(text, "{count:>8} {what}\n         e.g. {first}");
        }
        for (what, count) in &self.explained {
            let _ = writeln!(text, "{count:>8} explained: {what}");
        }
        for what in &self.left {
            let _ = writeln!(text, "left: {what}");
        }
        text
    }
}

/// A message without the parts that differ from statement to statement.
fn kind_of(message: &str) -> String {
    let quoted = |c: char| matches!(c, '"' | '\'' | '`');
    let parts: Vec<&str> = message.lines().next().unwrap_or_default().split(quoted).collect();
    let plain: String = parts.iter().step_by(2).copied().collect::<Vec<_>>().join("…");
    plain.chars().filter(|c| !c.is_ascii_digit()).take(100).collect()
}

/// Intended differences, matched as narrowly as possible.
fn explained(on: &Answer, off: &Answer) -> Option<&'static str> {
    let divides = |answer: &Answer| matches!(answer, Err(what) if what.contains("Divide by zero"));
    match (divides(on), divides(off)) {
        // SQLite, MySQL and DuckDB give NULL; the standard, PostgreSQL and DataFusion give an
        // error.
        (true, true) => Some("division by zero is an error"),
        // The order in which conditions are tested is not specified.
        (true, false) | (false, true) => {
            Some("division by zero is an error for one, and not met by the other")
        }
        (false, false) => None,
    }
}

/// Whether a column of integers in SQLite is one of doubles here.
fn has_double_for_integer(query: &Query<'_>, answer: &Answer) -> bool {
    let Ok(batches) = answer else { return false };
    let double =
        |(letter, field): (char, &Arc<Field>)| letter == 'I' && field.data_type().is_floating();
    batches
        .first()
        .is_some_and(|batch| query.letters.chars().zip(batch.schema().fields()).any(double))
}

/// In SQLite, values have types, not columns: the quotient of an integer that came out of a CASE
/// with doubles is an integer.
fn may_mix_types(sql: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| sql.contains(word));
    has(&["/"]) && has(&["AVG", "REAL"]) && has(&["COALESCE", "NULLIF", "CASE"])
}

fn variable(name: &str) -> Option<usize> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let wanted = std::env::var("STY_SQLITE_FILES").unwrap_or_default();
    let mut files = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
            let part = PARTS
                .iter()
                .any(|part| name.starts_with(part) || name.contains(&format!("/{part}")));
            if part && name.ends_with(".test") && name.contains(&wanted) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Checks the answer to a query, and says what is wrong with it.
fn check(
    query: &Query<'_>,
    record: &Record<'_>,
    place: &str,
    answers: [Answer; 2],
    tally: &mut Tally,
) {
    let [on, off] = answers;
    if let Some(why) = explained(&on, &off) {
        *tally.explained.entry(why).or_default() += 1;
        return;
    }
    let print = |answer: &Answer| match answer {
        Ok(batches) => values::printed(batches, query),
        Err(what) => Err(what.clone()),
    };
    let mixes_types = has_double_for_integer(query, &on) && may_mix_types(&record.sql);
    let (on, off) = (print(&on), print(&off));
    let expects = |answer: &Result<Vec<String>, String>| {
        answer.as_ref().is_ok_and(|values| values::agree(values, &query.expected))
    };
    if expects(&on) && on == off {
        tally.passed += 1;
        return;
    }
    if mixes_types && on == off {
        let why = "coalesce, nullif and CASE of integers and doubles are doubles in every row";
        *tally.explained.entry(why).or_default() += 1;
        return;
    }
    match (&on, &off) {
        (Err(what), Err(_)) if !what.contains("panic") => tally.refuse(what, place, &record.sql),
        _ => tally.wrong.push(format!(
            "{place} {}\n  expected: {}\n  executor: {}\n  without:  {}",
            record.sql,
            shown(&format!("{:?}", query.expected)),
            shown(&format!("{on:?}")),
            shown(&format!("{off:?}"))
        )),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Runs all records of a file.
fn run(path: &Path, threads: usize) -> Tally {
    let limit = variable("STY_SQLITE_LIMIT").unwrap_or(usize::MAX);
    let directory = tempfile::tempdir().unwrap();
    let mut tables = Tables::over(Both::open(&directory.path().join("db"), threads));
    let text = std::fs::read_to_string(path).unwrap();
    let mut tally = Tally { files: 1, ..Tally::default() };
    let name = path.iter().rev().take(3).map(|part| part.to_string_lossy()).collect::<Vec<_>>();
    let name = name.iter().rev().map(|part| &**part).collect::<Vec<_>>().join("/");
    for record in Records::new(&text).take(limit) {
        let place = format!("{name}:{}", record.line);
        let outcome = match &record.kind {
            Kind::Statement { .. } => tables.run(&record.sql),
            Kind::Query(_) => tables.store().map_or_else(Outcome::Refused, |()| Outcome::Done),
        };
        match (&record.kind, outcome) {
            (Kind::Query(query), Outcome::Done) => {
                tally.queries += 1;
                check(query, &record, &place, tables.both.ask(&record.sql), &mut tally);
            }
            (Kind::Statement { .. }, Outcome::Skipped) => tally.skipped += 1,
            (Kind::Statement { succeeds }, outcome) => {
                tally.statements += 1;
                match outcome {
                    Outcome::Refused(what) if *succeeds => tally.refuse(&what, &place, &record.sql),
                    Outcome::Done if !succeeds => {
                        tally.wrong.push(format!("{place} {}\n  expected: an error", record.sql));
                    }
                    _ => tally.passed += 1,
                }
            }
            (Kind::Query(_), other) => {
                tally.left.push(format!("{place} {other:?}"));
                return tally;
            }
        }
    }
    tally
}

#[test]
fn sqlites_own_tests() {
    let Some(directory) = std::env::var_os("STY_SQLITE_SUITE") else {
        eprintln!("STY_SQLITE_SUITE names no folder with SQLite's sqllogictest: nothing is tested");
        return;
    };
    let files = files(Path::new(&directory));
    assert!(!files.is_empty(), "no files of the suite in {}", Path::new(&directory).display());
    let next = AtomicUsize::new(variable("STY_SQLITE_FROM").unwrap_or(0));
    let total = Mutex::new(Tally::default());
    let work = || {
        while let Some((number, file)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, files.get(n)?)))
        {
            let begun = std::time::Instant::now();
            let tally = run(file, THREADS[number % THREADS.len()]);
            let seconds = begun.elapsed().as_secs_f64();
            eprintln!(
                "{number}/{} {} in {seconds:.1} s: {}",
                files.len(),
                file.display(),
                tally.report()
            );
            tally.wrong.iter().take(SHOWN).for_each(|wrong| eprintln!("WRONG {wrong}"));
            total.lock().unwrap().add(tally);
        }
    };
    std::thread::scope(|scope| {
        (0..RUNNERS).for_each(|_| drop(scope.spawn(work)));
    });
    let tally = total.into_inner().unwrap();
    eprintln!("{}", tally.report());
    let few: Vec<&str> = tally.wrong.iter().take(SHOWN).map(String::as_str).collect();
    assert!(tally.wrong.is_empty(), "{} wrong:\n{}", tally.wrong.len(), few.join("\n"));
}
