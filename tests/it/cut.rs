//! Data files that another program cuts while a session has them open: an error that names the
//! file, and no signal, whichever way they are read.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use stylobate::{Error, Io, Parameters, Result, Session, SessionOptions, Store};

const STATEMENTS: [&str; 6] = [
    "SELECT sum(n % 7) FROM t",
    "SELECT s, count(*) FROM t GROUP BY s ORDER BY 2 DESC LIMIT 3",
    "SELECT n FROM t WHERE s LIKE '%999%'",
    "SELECT n, s FROM t ORDER BY s DESC LIMIT 5",
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.n = b.n + 1",
    "SELECT * FROM t",
];

fn run(session: &Session, sql: &str) -> Result<usize> {
    let mut rows = 0;
    session.run(sql, &Parameters::default(), |stream| {
        for batch in stream {
            rows += batch?.num_rows();
        }
        Ok(())
    })?;
    Ok(rows)
}

fn data_file(table: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(table.join("data")).unwrap();
    files.next().unwrap().unwrap().path()
}

fn open(store: &Path, io: Io) -> Session {
    let options = SessionOptions {
        threads: Some(2),
        io: Some(io),
        create: true,
        ..SessionOptions::default()
    };
    Session::open(&Store::open(store), &options).unwrap()
}

fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let create = "CREATE TABLE t AS SELECT value * value % 1000003 AS n, \
                  'text ' || (value * 7919 % 99991) AS s FROM generate_series(1, 200000)";
    run(&open(&db, Io::Mmap), create).unwrap();
    (dir, db)
}

#[test]
fn a_file_that_is_cut_under_a_session_is_an_error() {
    for sql in STATEMENTS {
        let (_dir, db) = store();
        let session = open(&db, Io::Mmap);
        let file = data_file(&db.join("t"));
        let length = file.metadata().unwrap().len();
        assert!(run(&session, sql).unwrap() > 0, "the file is open, and its blocks verified");
        // First the end, which is in every column's way, then almost everything.
        for left in [length - 10, length / 2, 4096] {
            OpenOptions::new().write(true).open(&file).unwrap().set_len(left).unwrap();
            let error = run(&session, sql).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{sql}: {error}");
            assert!(error.to_string().contains(&*file.to_string_lossy()), "{sql}: {error}");
        }
    }
}

#[test]
fn read_files_answer_as_mapped_ones_and_report_what_is_gone() {
    let (_dir, db) = store();
    let (mapped, read) = (open(&db, Io::Mmap), open(&db, Io::Read));
    for sql in STATEMENTS {
        assert_eq!(run(&mapped, sql).unwrap(), run(&read, sql).unwrap(), "{sql}");
    }
    let file = data_file(&db.join("t"));
    OpenOptions::new().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let error = run(&open(&db, Io::Read), STATEMENTS[0]).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}
