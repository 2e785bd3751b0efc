//! A whole store with a damaged file: opened, queried, verified and looked at by repair. Nothing
//! panics, and nothing takes long. Where checksums are left as they were, an answer is the right
//! one or an error.
//!
//! `STY_MUTANTS=n` tries n times 100 mutants, `STY_MUTANTS_SEED=n` others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use stylobate::{
    Parameters, RepairOptions, Session, SessionOptions, Store, VerifyOptions, repair, verify,
};

use crate::differential::random::Random;
use crate::fuzz::{files, mutants, targets};

/// A store of two tables with columns of all kinds of values, in several generations.
const STORE: [&str; 6] = [
    "CREATE TABLE numbers AS
     SELECT value AS n, value * 7919 % 1000 AS small, value / 4.0 AS quarter,
            sqrt(value) AS root, CAST(value AS DECIMAL(20, 2)) / 10 AS amount,
            CASE WHEN value % 7 = 0 THEN NULL ELSE value % 3 = 0 END AS flag,
            DATE '2020-01-01' + CAST(value % 900 AS INT) AS day,
            to_timestamp(value * 1000003) AS moment
     FROM generate_series(1, 5000)",
    "CREATE TABLE words AS
     SELECT value AS n, 'word ' || value % 50 AS few,
            CASE WHEN value % 5 > 0 THEN 'https://example.org/' || md5(CAST(value AS TEXT)) END
                AS many,
            CAST(md5(CAST(value % 9 AS TEXT)) AS BYTEA) AS bytes
     FROM generate_series(1, 4000)",
    "INSERT INTO numbers SELECT n + 5000, 1, NULL, 1e300, amount, NULL, day, moment FROM numbers
     WHERE n <= 2000",
    "INSERT INTO words SELECT n + 4000, NULL, many, bytes FROM words WHERE n % 2 = 0",
    "DELETE FROM words WHERE n BETWEEN 100 AND 120",
    "UPDATE numbers SET small = small + 100000 WHERE n = 77",
];

/// Statements that read every column, by the executor and by DataFusion's operators.
const QUERIES: [&str; 8] = [
    "SELECT * FROM numbers ORDER BY n",
    "SELECT * FROM words ORDER BY n",
    "SELECT small, count(*), sum(n), min(amount), max(moment), sum(quarter) FROM numbers
     GROUP BY small ORDER BY small",
    "SELECT few, count(*), count(DISTINCT many), max(bytes) FROM words GROUP BY few ORDER BY few",
    "SELECT count(*), min(root), max(day) FROM numbers WHERE quarter <= 600.5 AND flag",
    "SELECT n, many FROM words WHERE many LIKE '%ab%' AND few <> 'word 3' ORDER BY n DESC LIMIT 9",
    "SELECT n, root FROM numbers ORDER BY root DESC, n LIMIT 20",
    "SELECT w.few, count(*) FROM numbers AS n JOIN words AS w ON w.n = n.small GROUP BY 1 ORDER BY 1",
];

type Answer = Result<Vec<RecordBatch>, String>;

fn ask(session: &Session, sql: &str) -> Answer {
    let mut batches = Vec::new();
    let run = session.run(sql, &Parameters::default(), |stream| {
        batches = stream.collect::<stylobate::Result<Vec<_>>>()?;
        Ok(())
    });
    run.map(|()| batches).map_err(|error| error.to_string())
}

/// The answers to all queries, and how many problems verify and repair find.
fn examine(directory: &Path) -> (Vec<Answer>, usize) {
    let store = Store::open(directory);
    let options = SessionOptions {
        threads: Some(2),
        memory_limit: Some(256 << 20),
        create: true,
        ..SessionOptions::default()
    };
    let answers = match Session::open(&store, &options) {
        Ok(session) => QUERIES.iter().map(|sql| ask(&session, sql)).collect(),
        Err(error) => vec![Err(error.to_string()); QUERIES.len()],
    };
    let mut problems = 0;
    for name in ["numbers", "words"] {
        let table = store.table(name).unwrap();
        problems += match table.snapshot() {
            Ok(snapshot) => verify(&snapshot).problems.len(),
            Err(_) => 1,
        };
        let dry_run = RepairOptions { dry_run: true, verify: VerifyOptions::default() };
        problems += usize::from(repair(&table, &dry_run).is_err());
    }
    (answers, problems)
}

/// Changes some bytes, inserts or removes some, or cuts the end off.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        // The end of a file has footers and the checksums of roots.
        let within = if random.chance(40) { bytes.len().min(600) } else { bytes.len() };
        let at = bytes.len() - 1 - random.below(within);
        match random.below(10) {
            0 => bytes.truncate(at.max(1)),
            1 => drop(bytes.splice(at..at, [0xff; 3])),
            2 => drop(bytes.drain(at..(at + 5).min(bytes.len()))),
            3 => {
                let from = random.below(bytes.len());
                let part = bytes[from..(from + 16).min(bytes.len())].to_vec();
                bytes.splice(at..(at + part.len()).min(bytes.len()), part);
            }
            4 | 5 => bytes[at] = random.choose(&[0, 1, 0x7f, 0x80, 0xff]),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "damages a file, and need not be durable")]
fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("mutant");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn damaged_stores_are_errors_or_right_answers() {
    let mutants = 100 * mutants();
    let seed = std::env::var("STY_MUTANTS_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(17);
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    {
        let options = SessionOptions { create: true, ..SessionOptions::default() };
        let session = Session::open(&Store::open(&store), &options).unwrap();
        STORE.iter().for_each(|sql| drop(ask(&session, sql).unwrap()));
    }
    let (right, problems) = examine(&store);
    assert_eq!(problems, 0);
    assert!(right.iter().all(Result::is_ok), "{right:?}");
    let files: Vec<PathBuf> =
        files(&store).into_iter().filter(|file| fs::metadata(file).unwrap().len() > 0).collect();

    let (mut random, mut slowest) = (Random::new(seed), Duration::ZERO);
    let (mut errors, mut found) = (0, 0);
    for number in 0..mutants {
        let path = random.choose(&files);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        mutate(&mut random, &mut bytes);
        let repaired = random.chance(70);
        if repaired {
            targets::repair::repair(&mut bytes);
        }
        replace(&path, &bytes);
        let started = Instant::now();
        let (answers, problems) = examine(&store);
        slowest = slowest.max(started.elapsed());
        errors += answers.iter().filter(|answer| answer.is_err()).count();
        found += usize::from(problems > 0);
        let place = format!("mutant {number}, {}", path.display());
        for ((answer, right), sql) in answers.iter().zip(&right).zip(QUERIES) {
            let same = answer.is_err() || answer == right;
            assert!(repaired || same, "{place}: {sql}\n{answer:?}");
            // The guard around operators makes this error of a panic.
            let guarded = |error: &String| error.contains("the query engine failed");
            assert!(!answer.as_ref().is_err_and(guarded), "{place}: {sql}\n{answer:?}");
        }
        replace(&path, &whole);
    }
    println!(
        "{mutants} mutants: {errors} statements of {} failed, verify or repair found {found}, \
        the slowest took {slowest:?}",
        mutants * QUERIES.len()
    );
    assert!(errors > mutants, "{errors}");
    assert!(slowest < Duration::from_secs(60), "{slowest:?}");
}
