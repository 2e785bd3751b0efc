//! Mutants of Parquet and Arrow files by the SQL that reads files: rows or an error that names the
//! file, from plans, statistics, pruning and scans. `STY_MUTANTS` and `STY_MUTANTS_SEED` as in
//! `ingest/sources/whole_tests.rs`.

use std::io::Write;

use crate::error::{Error, Result};
use crate::ingest::mutants::Mutants;
use crate::ingest::whole::tests::files;
use crate::sql::{Parameters, Session, SessionOptions};
use crate::store::Store;

/// Mutants of each file in an ordinary run.
const MUTANTS: usize = 25;

fn session(folder: &std::path::Path) -> Session {
    let options = SessionOptions {
        threads: Some(2),
        memory_limit: Some(256 << 20),
        create: true,
        ..SessionOptions::default()
    };
    let session = Session::open(&Store::open(folder.join("db")), &options).unwrap();
    rows(&session, "CREATE TABLE made AS SELECT 1 AS a").unwrap();
    session
}

fn rows(session: &Session, sql: &str) -> Result<usize> {
    let mut rows = 0;
    session.run(sql, &Parameters::default(), |batches| {
        for batch in batches {
            rows += batch?.num_rows();
        }
        Ok(())
    })?;
    Ok(rows)
}

#[test]
fn mutants_end_in_rows_or_an_error() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let files = files();
    let count = number("STY_MUTANTS").map_or(MUTANTS, |all: usize| all / files.len());
    let seed = number("STY_MUTANTS_SEED").unwrap_or(2) as u64;
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    let (mut refused, mut number) = (0, 0);
    for (at, (name, whole)) in files.iter().enumerate() {
        let mutants = Mutants::new(whole, seed ^ (at as u64) << 32).take(count);
        for mutant in std::iter::once(whole.clone()).chain(mutants) {
            // Metadata are cached by the path of a file.
            number += 1;
            let mut file = tempfile::Builder::new()
                .prefix(&format!("{number}-"))
                .suffix(name.trim_start_matches('m'))
                .tempfile_in(folder.path())
                .unwrap();
            file.write_all(&mutant).unwrap();
            let path = file.path().display().to_string();
            let statements = [
                format!("SELECT * FROM '{path}'"),
                format!("SELECT count(*), max(t) FROM '{path}' WHERE n > 250 AND t < 'u'"),
                format!("SELECT n, lists FROM '{path}' ORDER BY n LIMIT 3"),
            ];
            for sql in statements {
                match rows(&session, &sql) {
                    Ok(rows) if mutant == *whole => assert!(rows > 0, "{sql}"),
                    Ok(_) => {}
                    Err(
                        error @ (Error::InvalidInput(_)
                        | Error::Unsupported(_)
                        | Error::NotFound(_)
                        | Error::LimitExceeded(_)
                        | Error::Io { .. }),
                    ) => {
                        assert!(mutant != *whole, "{sql}: {error}");
                        refused += 1;
                    }
                    Err(other) => panic!("file {at}, mutant {number}: {sql}: {other}"),
                }
            }
        }
    }
    println!("{refused} statements refused");
    assert!(refused > 0);
}
