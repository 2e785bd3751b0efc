//! COPY … TO and COPY … FROM, as commands.

use crate::shell::Shell;

#[test]
fn copy_writes_files_and_reads_them() {
    let shell = Shell::new();
    let run = |sql: &str| shell.pipe("query db", sql);
    assert_eq!(run("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x;y'), (2, NULL)) v(a, s)").0, 0);
    let (code, stdout, stderr) = run("COPY t TO 'out.csv'");
    assert!(code == 0 && stdout.is_empty() && stderr.contains("2 rows in out.csv"), "{stderr}");
    assert_eq!(std::fs::read_to_string(shell.path("out.csv")).unwrap(), "a,s\n1,x;y\n2,\n");
    let (code, _, stderr) = run("COPY t TO 'out.csv'");
    assert!(code == 2 && stderr.contains("--force"), "{stderr}");
    let (code, _, stderr) = run("COPY (FROM t WHERE a > 1) TO 'two.tsv' (HEADER false)");
    assert_eq!(
        (code, std::fs::read_to_string(shell.path("two.tsv")).unwrap()),
        (0, "2\t\n".into()),
        "{stderr}"
    );
    let (code, _, stderr) = run(
        "COPY (SELECT a FROM t) TO 'rows' (FORMAT parquet); SELECT sum(a) FROM read_parquet('rows')",
    );
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = run("COPY t TO 'x.csv' (COMPRESSION zip)");
    assert!(code == 1 && stderr.contains("it knows FORMAT"), "{stderr}");
    assert!(!shell.path("x.csv").exists());
    let (code, stdout, stderr) =
        run("COPY t FROM 'out.csv' (DELIMITER ','); SELECT count(*) FROM t");
    assert!(code == 0 && stdout.ends_with("4\n"), "{stdout}{stderr}");
    let (code, _, stderr) = run("COPY nosuch TO 'y.csv'");
    assert!(code == 6 && !shell.path("y.csv").exists(), "{stderr}");
}

#[test]
fn files_that_come_later_are_rows_of_an_external_table() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("days")).unwrap();
    shell.file("days/1.csv", "a\n1\n");
    let sql = "CREATE EXTERNAL TABLE days STORED AS CSV LOCATION 'days/' OPTIONS ('has_header' 'true'); \
               SELECT count(*) FROM days; COPY (SELECT 2 AS a) TO 'days/2.csv'; \
               SELECT count(*) FROM days";
    let (code, stdout, stderr) = shell.pipe("query - --no-header", sql);
    assert_eq!((code, stdout.as_str()), (0, "1\n2\n"), "{stderr}");
}
