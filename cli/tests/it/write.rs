//! Tables that `sty query` makes and fills.

use super::shell::Shell;

#[test]
fn a_store_is_made_by_create_table_alone() {
    let shell = Shell::new();
    for sql in
        ["SELECT 1", "SELECT * FROM t", "INSERT INTO t VALUES (1)", "CREATE VIEW v AS SELECT 1"]
    {
        let (code, stdout, stderr) = shell.pipe("query db", sql);
        assert_eq!((code, stdout.as_str()), (6, ""), "{sql}");
        assert!(stderr.contains("no store at 'db'") && stderr.contains("CREATE TABLE"), "{stderr}");
    }
    let (code, _, stderr) = shell.pipe("query db", "");
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("no store at 'db' and no statement"), "{stderr}");
    let (code, _, stderr) = shell
        .pipe("query db", "CREATE TABLE t AS SELECT 1 / (1 - value) FROM generate_series(0, 5)");
    assert_eq!(code, 1, "{stderr}");
    assert!(!shell.path("db").exists());
    let sql = "CREATE TABLE t (a BIGINT NOT NULL, b TEXT); \
               INSERT INTO t VALUES (1, 'x'), (2, NULL); SELECT * FROM t";
    let (code, stdout, stderr) = shell.pipe("query db --format jsonl", sql);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout, "{\"count\":2}\n{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":null}\n");
    assert_eq!(
        shell.stdout("schema db/t"),
        "column,type,id,nullable\na,int64,0,false\nb,utf8,1,true\n"
    );
    shell.stdout("verify -q db");
}

#[test]
fn rows_go_between_files_ingest_and_sql() {
    let shell = Shell::new();
    shell.file("a.csv", "id,fare\n1,2.5\n2,\n").file("b.csv", "id,fare\n,3.5\n");
    let (code, _, stderr) =
        shell.pipe("query db", "CREATE TABLE t (id BIGINT NOT NULL, fare DOUBLE)");
    assert_eq!(code, 0, "{stderr}");
    shell.stdout("ingest -q db/t a.csv");
    let (code, _, stderr) = shell.run("ingest db/t b.csv");
    assert_eq!(code, 1);
    assert!(stderr.contains("column 'id' is NOT NULL"), "{stderr}");
    let (_, stdout, _) = shell.pipe("query db", "INSERT INTO t SELECT id + 10, fare FROM 'a.csv'");
    assert_eq!(stdout, "count\n2\n");
    let (_, stdout, _) = shell.pipe("query db", "SELECT * FROM t ORDER BY id");
    assert_eq!(stdout, "id,fare\n1,2.5\n2,\n11,2.5\n12,\n");
}

/// Not even root can make a directory there.
#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
    let (code, stdout, stderr) = Shell::new().pipe("query /sys", "CREATE TABLE t (a INT)");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("/sys/t"), "{stderr}");
}

/// The table's expressions decide on the partitions of inserted rows.
#[test]
fn a_table_that_is_partitioned_by_an_expression_takes_rows_of_sql() {
    let shell = Shell::new();
    shell.file("a.csv", "at,v\n2020-01-01 10:00:00,1\n");
    shell.stdout("ingest -q db/t a.csv --partition-by year(at)");
    shell.stdout_of(
        "query db",
        "INSERT INTO t VALUES ('2022-01-01 00:00:00', 2), ('2020-05-05 00:00:00', 3)",
    );
    let partitions = shell.stdout("partitions db/t");
    assert!(partitions.contains("2020") && partitions.contains("2022"), "{partitions}");
    assert_eq!(
        shell.stdout_of("query db", "SELECT v FROM t WHERE year(at) = 2020 ORDER BY v"),
        "v\n1\n3\n"
    );
}

/// Whoever repeats a command that has stored its rows stores them twice.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_printed_after_a_commit_says_that_the_rows_are_stored() {
    let shell = Shell::new();
    shell.file("a.csv", "a\n5\n");
    for (command, rows) in [
        ("sty query db 'CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2)'", 2),
        ("sty query db 'UPDATE t SET a = 3 WHERE a = 2'", 2),
        ("sty query db 'DELETE FROM t WHERE a = 3'", 1),
        ("sty ingest -q db/t a.csv --report json", 2),
        ("sty compact -q db/t --all --report json", 2),
    ] {
        let (code, _, stderr) = shell.sh(&format!("{command} > /dev/full"));
        assert_eq!(code, 7, "{command}: {stderr}");
        assert!(stderr.contains("stored and in force, but not reported: stdout: "), "{stderr}");
        let stored = shell.stdout_of("query db", "SELECT count(*) FROM t");
        assert_eq!(stored, format!("count(*)\n{rows}\n"), "{command}");
    }
    let (code, _, stderr) = shell.sh("sty query db 'SELECT * FROM t' > /dev/full");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.starts_with("error: stdout: "), "{stderr}");
    // A reader that has gone is no failure.
    assert_eq!(shell.sh("sty query db 'INSERT INTO t VALUES (9)' | true").0, 0);
}

/// Rejected rows that cannot be written where they should be are kept.
#[cfg(target_os = "linux")]
#[test]
fn rejected_rows_that_cannot_be_written_after_a_commit_are_kept() {
    let shell = Shell::new();
    shell.file("a.csv", "a\n5\nx\n");
    let load = "TMPDIR=. sty ingest -q db/t --schema a:int64 --rejects /dev/full a.csv";
    let (code, _, stderr) = shell.sh(load);
    assert_eq!(code, 7, "{stderr}");
    let (before, kept) = stderr.split_once("; the rejected rows are in ").unwrap();
    assert!(
        before.contains("generation 1 is in force and holds the rows up to here, but /dev/full: ")
    );
    let kept = std::fs::read_to_string(shell.path(kept.lines().next().unwrap())).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
    assert_eq!(shell.stdout_of("query db", "SELECT a FROM t"), "a\n5\n");
    // A reader that has gone is no failure.
    shell.file("many.csv", format!("a\n{}", "1\nx\n".repeat(30_000)));
    let load = "sty ingest -q db/u --schema a:int64 --commit-every 5000 --rejects >(true) many.csv";
    let (code, _, stderr) = shell.sh(&format!("bash -c '{load}'"));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM u"), "n\n30000\n");
}

/// Each format's writer has an error of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_in_every_format() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (a INT)");
    for format in ["csv", "tsv", "json", "jsonl", "markdown", "table", "arrow", "parquet"] {
        let sql = "SELECT value AS a FROM generate_series(1, 100000)";
        let (code, _, stderr) =
            shell.sh(&format!("sty query db '{sql}' --format {format} > /dev/full"));
        assert_eq!(code, 1, "{format}: {stderr}");
        assert!(stderr.starts_with("error: stdout: "), "{format}: {stderr}");
        assert_eq!(stderr.matches("stdout").count(), 1, "{format}: {stderr}");
    }
}

/// Directories that were there stay.
#[test]
fn what_stores_nothing_leaves_no_directories() {
    let shell = Shell::new();
    for (line, input) in [
        ("ingest new/db/t", ""),
        ("ingest new/db/t", "{\"a\": 1"),
        ("ingest db/t --on-error fail --schema a:int", "a\nx\n"),
    ] {
        assert_ne!(shell.pipe(line, input).0, 0, "{line}");
        assert!(!shell.path("new").exists() && !shell.path("db").exists(), "{line}");
    }
    shell.sh("mkdir db");
    assert_ne!(shell.pipe("ingest db/t", "").0, 0);
    assert_eq!(shell.sh("ls -A db").1, "");
    assert!(shell.path("db").exists());
    assert_eq!(shell.pipe("ingest more/db/t", "a\n1\n").0, 0);
    assert_ne!(shell.pipe("ingest more/db/u", "").0, 0);
    assert_eq!(shell.stdout_of("query more/db --no-header", "SELECT count(*) FROM t"), "1\n");
}
