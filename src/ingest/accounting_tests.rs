use super::super::rejects_file::HEADER;
use std::path::Path;
use std::sync::Arc;

use super::*;

fn reject(line: u64, raw: &str) -> Reject {
    Reject {
        file: Arc::from(Path::new("a, b.csv")),
        line,
        column: Arc::from("id"),
        reason: "'x' is not of type int64".to_owned(),
        raw: raw.as_bytes().to_vec(),
    }
}

fn to_file(path: &Path, replace: bool, max_errors: Option<u64>) -> Result<RowAccounting> {
    RowAccounting::open(
        &OnError::Reject { file: path.to_path_buf(), replace },
        max_errors,
        &PriorRejects::default(),
    )
}

/// `rows` rejected rows of the input that [`reject`] names.
fn rejected(rows: u64) -> PriorRejects {
    PriorRejects { rejected: vec![(Arc::from("/in/a, b.csv"), rows)], ..PriorRejects::default() }
}

fn names(directory: &Path) -> Vec<String> {
    directory
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn rows_are_counted_by_input_and_written_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let mut accounting = to_file(&path, false, Some(3)).unwrap();
    accounting.store(0, 7);
    accounting.reject(0, vec![reject(3, "x,\"1\""), reject(5, "x\ny")].into()).unwrap();
    accounting.reject(1, Rejects::default()).unwrap();
    accounting.store(2, 1);
    accounting.reject(2, vec![Reject { column: Arc::from(""), ..reject(2, "") }].into()).unwrap();
    accounting.seal().unwrap();
    assert!(!path.exists(), "the file has its name after the commit");
    accounting.publish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let reason = "'x' is not of type int64";
    assert_eq!(
        text,
        format!(
            "{HEADER}\"a, b.csv\",3,id,{reason},\"x,\"\"1\"\"\"\n\
             \"a, b.csv\",5,id,{reason},\"x\ny\"\n\
             \"a, b.csv\",2,,{reason},\n"
        )
    );
    assert_eq!(names(directory.path()), ["bad.csv"]);
    assert_eq!(accounting.counts(0), RowCounts { stored: 7, rejected: 2, left_out: 0, blank: 0 });
    assert_eq!(accounting.counts(1), RowCounts::default());
    assert_eq!(accounting.total(), RowCounts { stored: 8, rejected: 3, left_out: 0, blank: 0 });
    assert_eq!(accounting.first().len(), SHOWN_REJECTS);
}

#[test]
fn the_bound_ends_it_with_the_count_and_the_first_reasons() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let mut accounting = to_file(&path, false, Some(2)).unwrap();
    accounting.reject(0, vec![reject(2, "x"), reject(3, "y")].into()).unwrap();
    let error = accounting
        .reject(0, (4..9).map(|line| reject(line, "z")).collect::<Vec<_>>().into())
        .unwrap_err();
    assert!(matches!(error, Error::Rejected { rejected: 7, allowed: 2, .. }), "{error:?}");
    let message = error.to_string();
    for part in [
        "7 rows rejected",
        "at most 2",
        "nothing was stored",
        "a, b.csv: line 2, column 'id': 'x'",
        "line 4",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("line 5"), "{message}");
    drop(accounting);
    assert_eq!(names(directory.path()), [""; 0], "nothing is left of a failed ingest");
    let none = RowAccounting::open(&OnError::Fail, None, &PriorRejects::default())
        .unwrap()
        .reject(0, vec![reject(2, "x")].into());
    assert!(matches!(none, Err(Error::Rejected { rejected: 1, allowed: 0, .. })));
}

#[test]
fn a_file_is_replaced_on_request_and_not_made_without_rejects() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let once = |replace| -> Result<()> {
        let mut accounting = to_file(&path, replace, None)?;
        accounting.reject(0, vec![reject(2, "x")].into())?;
        accounting.seal()?;
        accounting.publish()
    };
    once(false).unwrap();
    let refused = once(false).unwrap_err().to_string();
    assert!(refused.contains("bad.csv") && refused.contains("--force"), "{refused}");
    once(true).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);

    let mut nothing = to_file(&directory.path().join("none.csv"), false, None).unwrap();
    nothing.seal().unwrap();
    nothing.publish().unwrap();
    nothing.finish();
    assert_eq!(names(directory.path()), ["bad.csv"]);
    assert!(to_file(directory.path(), true, None).unwrap_err().to_string().contains("directory"));
    assert!(to_file(&directory.path().join("no/such"), false, None).is_err());
}

/// A file that appears during the load is not replaced, and the rejected rows are not lost.
#[test]
fn a_name_that_is_taken_in_the_meantime_keeps_the_rows_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let mut accounting = to_file(&path, false, None).unwrap();
    accounting.reject(0, vec![reject(2, "x")].into()).unwrap();
    accounting.seal().unwrap();
    std::fs::File::create_new(&path).unwrap();
    let error = accounting.publish().unwrap_err().to_string();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    let kept = names(directory.path()).into_iter().find(|name| name.starts_with(".sty-")).unwrap();
    assert!(error.contains(&kept), "{error}");
    assert!(std::fs::read_to_string(directory.path().join(kept)).unwrap().contains(",2,id,"));
}

/// A killed load leaves rows after those of its last commit; the load that resumes keeps only the
/// committed ones.
#[test]
fn a_load_that_goes_on_continues_the_file_behind_the_rows_that_the_ledger_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let on_error = OnError::Reject { file: path.clone(), replace: false };
    let mut killed = to_file(&path, false, None).unwrap();
    killed.reject(0, vec![reject(2, "x\n\"y\""), reject(3, "z")].into()).unwrap();
    killed.seal().unwrap();
    killed.publish().unwrap();
    killed.reject(0, vec![reject(4, "lost")].into()).unwrap();
    killed.seal().unwrap();
    let before = std::fs::read_to_string(&path).unwrap();
    assert!(before.contains("lost"));
    drop(killed);
    let mut accounting = RowAccounting::open(&on_error, Some(3), &rejected(2)).unwrap();
    accounting.reject(0, vec![reject(4, "found")].into()).unwrap();
    accounting.seal().unwrap();
    accounting.publish().unwrap();
    accounting.finish();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before.replace("lost", "found"));
    let error = accounting.reject(0, vec![reject(5, "more")].into()).unwrap_err().to_string();
    assert!(
        error.contains("4 rows rejected") && error.contains("committed before stays"),
        "{error}"
    );
    let refused = RowAccounting::open(&on_error, None, &rejected(4)).unwrap_err().to_string();
    assert!(refused.contains("rejected 4 rows") && refused.contains("--force"), "{refused}");
    assert_eq!(names(directory.path()), ["bad.csv"]);
}

/// After a kill between the first commit and publishing, the rejects are found again; rows of
/// another load are told apart by their inputs.
#[test]
fn rows_of_a_killed_load_are_found_under_its_temporary_name_and_not_taken_from_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    let on_error = |replace| OnError::Reject { file: path.clone(), replace };
    let kill = |line: u64| {
        let mut killed = to_file(&path, true, None).unwrap();
        killed.reject(0, vec![reject(line, "a\n\"b\""), reject(3, "z")].into()).unwrap();
        killed.seal().unwrap();
        std::mem::forget(killed);
    };
    // Twice: a load that never committed leaves a file of that name, too.
    kill(9);
    kill(2);
    for replace in [false, true] {
        let mut accounting = RowAccounting::open(&on_error(replace), None, &rejected(2)).unwrap();
        accounting.reject(0, vec![reject(4, "more")].into()).unwrap();
        accounting.seal().unwrap();
        accounting.publish().unwrap();
        accounting.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("csv\",2,id,") && text.ends_with(",more\n") && text.lines().count() == 5,
            "{text}"
        );
    }
    assert_eq!(names(directory.path()), ["bad.csv"]);
    let others =
        PriorRejects { rejected: vec![(Arc::from("/in/other.csv"), 2)], ..PriorRejects::default() };
    assert!(
        RowAccounting::open(&on_error(false), None, &others)
            .unwrap_err()
            .to_string()
            .contains("rejected 2 rows")
    );
    let mut anew = RowAccounting::open(&on_error(true), None, &others).unwrap();
    anew.seal().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), HEADER);
}
