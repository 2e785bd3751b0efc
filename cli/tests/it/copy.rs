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

#[test]
fn files_are_compressed_as_their_names_say() {
    let shell = Shell::new();
    let run = |sql: &str| shell.pipe("query db", sql);
    assert_eq!(run("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 3)").0, 0);
    let (gzip, zstd): (&[u8], &[u8]) = (&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]);
    for (sql, args, name, magic) in [
        ("COPY t TO 'copied.csv.gz'", "query db", "copied.csv.gz", gzip),
        ("COPY t TO 'copied.tsv.zst'", "query db", "copied.tsv.zst", zstd),
        ("FROM t WHERE a < 3; FROM t WHERE a = 3", "query db -o a.jsonl.GZ", "a.jsonl.GZ", gzip),
        ("", "export db/t -o exported.csv.zst", "exported.csv.zst", zstd),
        (
            ".output o.jsonl.gz\nFROM t WHERE a < 3;\nFROM t WHERE a = 3;",
            "shell db",
            "o.jsonl.gz",
            gzip,
        ),
    ] {
        let (code, _, stderr) = shell.pipe(args, sql);
        assert_eq!(code, 0, "{name}: {stderr}");
        assert!(std::fs::read(shell.path(name)).unwrap().starts_with(magic), "{name}");
        let (code, stdout, stderr) = run(&format!("SELECT sum(a) AS s, count(*) FROM '{name}'"));
        assert_eq!((code, stdout.ends_with("\n6,3\n")), (0, true), "{name}: {stdout}{stderr}");
    }
    let (code, _, stderr) = shell.pipe("export db/t -o t.parquet.gz", "");
    assert!(code == 2 && stderr.contains("name the file t.parquet"), "{stderr}");
    let (code, _, stderr) = shell.pipe("query db -o t.csv.bz2", "FROM t");
    assert!(code == 2 && stderr.contains(".gz or .zst"), "{stderr}");
    // A statement that fails leaves the answers before it whole.
    let failing = ".output f.csv.gz\nSELECT 1 AS a;\n\
                   SELECT 1 / (a - 100000) FROM generate_series(1, 100000) AS g(a);";
    let (_, _, stderr) = shell.pipe("shell db", failing);
    assert!(stderr.contains("division") || stderr.contains("Divide"), "{stderr}");
    assert_eq!(run("SELECT count(*) FROM 'f.csv.gz'").1, "count(*)\n1\n");
}

#[test]
fn rows_are_spread_over_directories() {
    let shell = Shell::new();
    let rows = "(VALUES (1, 'x', DATE '2024-01-31', 1.5::double), (2, 'a/b', DATE '2024-02-01', 2.5), \
                (3, NULL, DATE '2024-02-02', 3.5)) v(id, \"a key\", day, x)";
    let run = |sql: &str| shell.pipe("query --no-header", sql);
    let (code, stdout, stderr) =
        run(&format!("COPY (FROM {rows}) TO 'one' (FORMAT parquet, PARTITION_BY (\"a key\"))"));
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("3 rows in 3 files in one"), "{stderr}");
    let names = shell.sh("find one -type f | sort").1;
    assert_eq!(
        names,
        "one/a%20key=__HIVE_DEFAULT_PARTITION__/part-000000.parquet\n\
         one/a%20key=a%2Fb/part-000000.parquet\none/a%20key=x/part-000000.parquet\n"
    );
    // The column is in the names of the directories alone, and comes back from them.
    assert_eq!(run("FROM 'one/a%20key=x/part-000000.parquet'").1, "1,2024-01-31,1.5,x\n");
    assert_eq!(
        run("SELECT id, \"a key\", day, x FROM 'one/' ORDER BY id").1,
        "1,x,2024-01-31,1.5\n2,a/b,2024-02-01,2.5\n3,,2024-02-02,3.5\n"
    );
    // By several keys and expressions, in other formats, and with the keys in the files.
    let sql = format!(
        "COPY (FROM {rows}) TO 'two' (FORMAT csv, PARTITION_BY (month(day), x), \
         WRITE_PARTITION_COLUMNS true)"
    );
    assert_eq!(run(&sql).0, 0);
    assert_eq!(
        std::fs::read_to_string(shell.path("two/month_day=2/x=3.5/part-000000.csv")).unwrap(),
        "id,a key,day,x\n3,,2024-02-02,3.5\n"
    );
    let (code, _, stderr) = run(&sql);
    assert!(code == 2 && stderr.contains("two has files of an export already"), "{stderr}");
    assert_eq!(shell.pipe("query --force", sql.as_str()).0, 0);
    assert_eq!(run("COPY (SELECT 1 AS a, 2 AS b) TO 'three' PARTITIONED BY (a)").0, 0);
    assert!(shell.path("three/a=1/part-000000.csv").exists());
    for (options, said) in [
        ("PARTITION_BY (a, b)", "all columns are keys"),
        ("PARTITION_BY (c)", "c"),
        ("PARTITION_BY (a), FORMAT markdown", "files in directories are parquet"),
    ] {
        let (code, _, stderr) = run(&format!("COPY (SELECT 1 AS a, 2 AS b) TO 'four' ({options})"));
        assert!(code != 0 && stderr.contains(said), "{options}: {stderr}");
        assert!(!shell.path("four").exists(), "{options}");
    }
    // What fails in between leaves no file.
    let sql = "COPY (SELECT value % 2 AS a, 10 / (500 - value) AS b FROM generate_series(1, 1000)) \
               TO 'five' (FORMAT csv, PARTITION_BY (a))";
    assert_eq!(run(sql).0, 1);
    assert_eq!(shell.sh("find five -type f").1, "");
}
