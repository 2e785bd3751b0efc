//! Edits of the files of a whole store, which is then opened, queried, verified and looked at by
//! repair: nothing panics. Where checksums are not compared, an answer may be wrong, so it is not
//! looked at; `tests/it/mutants.rs` does that for the same store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow_array::RecordBatch;
use stylobate::{
    Parameters, RepairOptions, Session, SessionOptions, Store, VerifyOptions, repair, verify,
};
use tempfile::TempDir;

use super::repair::repair as repair_checksums;

/// A store of two tables with columns of all kinds of values, in several generations.
const TABLES: [&str; 6] = [
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
pub const QUERIES: [&str; 8] = [
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

/// The rows, or the error.
pub type Answer = Result<Vec<RecordBatch>, String>;

/// The answer to a statement.
pub fn ask(session: &Session, sql: &str) -> Answer {
    let mut batches = Vec::new();
    let run = session.run(sql, &Parameters::default(), |stream| {
        batches = stream.collect::<stylobate::Result<Vec<_>>>()?;
        Ok(())
    });
    run.map(|()| batches).map_err(|error| error.to_string())
}

/// The answers to all queries, and how many problems verify and repair find.
pub fn examine(directory: &Path) -> (Vec<Answer>, usize) {
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

/// Makes the store.
pub fn create(store: &Path) {
    let options = SessionOptions { create: true, ..SessionOptions::default() };
    let session = Session::open(&Store::open(store), &options).unwrap();
    TABLES.iter().for_each(|sql| drop(ask(&session, sql).unwrap()));
}

/// Puts other bytes in the place of a file.
#[expect(clippy::disallowed_methods, reason = "damages a file, and need not be durable")]
pub fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("mutant");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

/// A store of this process, and its files with the bytes that they should have.
struct Pristine {
    directory: TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
}

fn pristine() -> &'static Pristine {
    static PRISTINE: OnceLock<Pristine> = OnceLock::new();
    PRISTINE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        create(&directory.path().join("db"));
        let files = super::files(directory.path()).into_iter();
        let files = files.map(|path| (path.clone(), fs::read(path).unwrap()));
        // Locks are empty.
        let files = files.filter(|(_, bytes)| !bytes.is_empty()).collect();
        Pristine { directory, files }
    })
}

/// The target. Each edit is 6 bytes: which file, what to do, where (2 bytes, from the start or the
/// end), and two bytes to write.
pub fn run(bytes: &[u8]) {
    let store = pristine();
    let mut edited: Vec<(usize, Vec<u8>)> = Vec::new();
    for edit in bytes.chunks_exact(6).take(8) {
        let &[file, what, low, high, first, second] = edit else { continue };
        let number = usize::from(file) % store.files.len();
        if edited.iter().all(|(other, _)| *other != number) {
            edited.push((number, store.files[number].1.clone()));
        }
        let (_, bytes) = edited.iter_mut().find(|(other, _)| *other == number).unwrap();
        let at = usize::from(u16::from_le_bytes([low, high])).min(bytes.len());
        let at = if what & 1 == 0 { at } else { bytes.len() - at };
        let up_to = |length: usize, bytes: &[u8]| at..(at + length).min(bytes.len());
        match what >> 1 & 7 {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, [first, second])),
            2 => drop(bytes.drain(up_to(usize::from(first), bytes))),
            3 => {
                let from = usize::from(u16::from_le_bytes([first, second])).min(bytes.len());
                let part = bytes[from..(from + 16).min(bytes.len())].to_vec();
                bytes.splice(up_to(part.len(), bytes), part);
            }
            4 | 5 => drop(bytes.splice(up_to(2, bytes), [first, second])),
            _ => drop(bytes.splice(up_to(1, bytes), [first])),
        }
    }
    for (number, bytes) in &mut edited {
        repair_checksums(bytes);
        replace(&store.files[*number].0, bytes);
    }
    let (answers, _) = examine(&store.directory.path().join("db"));
    for (number, _) in edited {
        let (path, bytes) = &store.files[number];
        replace(path, bytes);
    }
    for answer in answers {
        // The guard around operators makes this error of a panic.
        assert!(!answer.is_err_and(|error| error.contains("the query engine failed")));
    }
}
