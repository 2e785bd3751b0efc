//! How far a statement is: what tables, files and made rows add to it, with and without pruning.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::sql::store_tests::Both;
use crate::sql::tests::rows;

/// Runs a statement, and says how far it is before each batch and after the last one.
fn steps(session: &Session, sql: &str) -> Vec<ReadSoFar> {
    let progress = session.progress();
    let mut steps = Vec::new();
    session
        .run(sql, &Parameters::default(), |mut stream| {
            loop {
                steps.push(progress.now().unwrap());
                if stream.next().transpose()?.is_none() {
                    break;
                }
            }
            steps.push(progress.now().unwrap());
            Ok(())
        })
        .unwrap();
    assert_eq!(progress.now(), None, "nothing runs");
    assert!(steps.is_sorted_by_key(|step| step.rows), "{sql}\n{steps:?}");
    steps
}

/// The first and the last totals, and the rows in the end.
fn totals(session: &Session, sql: &str) -> (Option<u64>, Option<u64>, u64) {
    let steps = steps(session, sql);
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    (first.total_rows, last.total_rows, last.rows)
}

#[test]
fn scans_and_fragments_count_what_pruning_has_left() {
    // Segments of 16,384 rows, 20,000 of them in each of two loads; blocks of 2,048.
    let both = Both::new();
    let of = |sql: &str| totals(&both.session, sql);
    assert_eq!(of("SELECT * FROM t"), (Some(40_000), Some(40_000), 40_000));
    assert_eq!(of("SELECT word, sum(float) FROM t GROUP BY word").2, 40_000);
    // The manifest leaves two segments, their zone maps two blocks.
    let narrow = "WHERE id BETWEEN 19000 AND 20500";
    assert_eq!(of(&format!("SELECT * FROM t {narrow}")), (Some(20_000), Some(3616), 3616));
    let grouped = format!("SELECT word, sum(float) FROM t {narrow} GROUP BY word");
    assert_eq!(of(&grouped).1, Some(3616));
    assert_eq!(of(&grouped).2, 3616);
    // First rows, whose threshold leaves blocks out.
    let (_, all, rows) = of("SELECT id, word FROM t ORDER BY id DESC LIMIT 5");
    assert_eq!((all, rows), (Some(40_000), 40_000));
    // The manifest answers.
    assert_eq!(of("SELECT count(*) FROM t").2, 0);
    // Several scans add up, and are known before they begin.
    let join = "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id + 1 AND a.small = b.small";
    assert_eq!(of(join), (Some(80_000), Some(80_000), 80_000));
}

#[test]
fn changes_count_the_rows_that_they_look_at() {
    let both = Both::new();
    let progress = both.session.progress();
    // The answer is made when the statement is done.
    rows(&both.session, "UPDATE t SET word = 'x' WHERE id < 100 OR small = 3", &[]).unwrap();
    assert_eq!(progress.now(), None);
    let sql = "INSERT INTO t (id, word) SELECT id, word FROM t WHERE id > 39990";
    rows(&both.session, sql, &[]).unwrap();
    assert_eq!(progress.now(), None);
}

#[test]
fn files_of_text_are_counted_as_they_are_compressed() {
    let session = Session::new(&SessionOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.csv.gz");
    let mut file = GzEncoder::new(std::fs::File::create_new(&path).unwrap(), Compression::fast());
    writeln!(file, "a,b").unwrap();
    (0..50_000).for_each(|n| writeln!(file, "{n},{}", n * 7919 % 10_007).unwrap());
    file.finish().unwrap();
    let size = path.metadata().unwrap().len();
    let name = path.display();
    let steps = steps(&session, &format!("SELECT sum(b) FROM '{name}'"));
    assert!(steps.iter().all(|step| step.bytes.is_some_and(|(read, all)| read <= all)));
    assert_eq!(steps[0].bytes.map(|(_, all)| all), Some(size));
    let last = steps[steps.len() - 1];
    assert_eq!(last, ReadSoFar { rows: 50_000, total_rows: None, bytes: Some((size, size)) });
}

#[test]
fn of_made_rows_nobody_knows_how_many_come() {
    let session = Session::new(&SessionOptions::default()).unwrap();
    let last = *steps(&session, "SELECT count(*) FROM generate_series(1, 50000)").last().unwrap();
    assert_eq!(last, ReadSoFar { rows: 50_000, total_rows: None, bytes: None });
    // Beside a table, they do not matter.
    let both = Both::new();
    let sql = "SELECT count(*) FROM t JOIN generate_series(1, 100) AS s(n) ON t.small = s.n";
    assert_eq!(steps(&both.session, sql).last().unwrap().total_rows, Some(40_000));
}
