//! `sty ingest` where the first rows say something else than those after them.

use super::shell::Shell;

/// More rows than types are inferred from, and then these.
fn long(first: &str, row: &str, last: &str) -> String {
    format!("{first}{}{last}", row.repeat(60_000))
}

#[test]
fn a_guess_that_later_rows_disprove_is_taken_back() {
    let shell = Shell::new();
    shell.file("nulls.csv", long("n,v\n1,NA\n", "2,5\n", "3,none\n"));
    let (code, _, stderr) = shell.run("ingest db/nulls nulls.csv");
    let note = "nulls.csv: line 60003, column 2 ('v'): 'none' is not of type int64; the load began \
                anew, with v as utf8\n60,002 rows";
    assert!(code == 0 && stderr.starts_with(note), "{stderr}");
    let sql = "SELECT v, count(*) AS n FROM nulls GROUP BY 1 ORDER BY 2, 1";
    assert_eq!(shell.stdout_of("query db", sql), "v,n\nNA,1\nnone,1\n5,60000\n");

    shell.file("days.csv", long("n,d\n", "2,31/01/2020\n", "3,unknown\n"));
    shell.file("words.csv", long("n,b\n1,no\n", "2,yes\n", "3,maybe\n"));
    shell.file("wide.jsonl", long("", "{\"n\": 1}\n", "{\"n\": 99999999999999999999}\n"));
    shell.file("strings.jsonl", long("", "{\"s\": \"2020-01-31\"}\n", "{\"s\": \"never\"}\n"));
    for (file, sql, answer) in [
        ("days.csv", "SELECT max(d) AS d FROM t", "d\nunknown\n"),
        ("words.csv", "SELECT min(b) AS b FROM t", "b\nmaybe\n"),
        ("wide.jsonl", "SELECT max(n) AS n FROM t", "n\n99999999999999999999\n"),
        ("strings.jsonl", "SELECT max(s) AS s FROM t", "s\nnever\n"),
    ] {
        let (code, _, stderr) = shell.run(&format!("ingest store-{file}/t {file}"));
        assert!(code == 0 && stderr.contains("the load began anew"), "{stderr}");
        assert_eq!(shell.stdout_of(&format!("query store-{file}"), sql), answer, "{file}");
    }

    // In several files, too.
    shell.file("a.csv", "n,v\n1,NA\n2,5\n").file("b.csv", "n,v\n3,none\n");
    let (code, _, stderr) = shell.run("ingest db/files a.csv b.csv");
    assert!(code == 0 && stderr.contains("; the load began anew, with v as utf8"), "{stderr}");
    assert_eq!(shell.stdout_of("query db", "SELECT v FROM files"), "v\nNA\n5\nnone\n");
}

#[test]
fn what_is_no_guess_or_cannot_be_read_again_remains_an_error() {
    let shell = Shell::new();
    let text = long("n,v\n1,NA\n", "2,5\n", "3,none\n");
    let (code, _, stderr) = shell.pipe("ingest db/t -", text.clone());
    assert!(code == 1 && stderr.contains("'none' is not of type int64"), "{stderr}");
    shell.file("plain.csv", long("n,v\n", "2,5\n", "3,none\n")).file("nulls.csv", text);
    let (code, _, stderr) = shell.run("ingest db/t plain.csv");
    assert!(code == 1 && !stderr.contains("anew"), "{stderr}");
    // The table's own type is none.
    shell.stdout_of("query db", "CREATE TABLE typed (n BIGINT, v BIGINT)");
    let (code, _, stderr) = shell.run("ingest db/typed nulls.csv");
    assert!(code == 1 && !stderr.contains("anew"), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/left nulls.csv --on-error skip");
    assert!(code == 0 && stderr.contains("60,001 stored + 1 rejected"), "{stderr}");
}

/// Types and a header are found out together.
#[test]
fn a_first_row_with_the_names_of_schema_is_a_header() {
    let shell = Shell::new();
    shell.file("a.csv", "city,zip(2020)\nUlm,00001\n");
    shell.stdout("ingest -q db/t a.csv --schema zip(2020):int64");
    assert_eq!(shell.stdout_of("query db", "SELECT * FROM t"), "city,zip(2020)\nUlm,1\n");
}

#[test]
fn a_load_that_goes_on_knows_the_order_of_its_dates() {
    let shell = Shell::new();
    shell.file("a.csv", "n,d\n1,13/02/2020\n").file("b.csv", "n,d\n2,01/02/2020,\n");
    let line = "ingest -q db/t a.csv b.csv --commit-every 1";
    let (code, _, stderr) = shell.run(line);
    assert!(code == 1 && stderr.contains("b.csv: line 2: 3 fields, expected 2"), "{stderr}");
    shell.rewrite("b.csv", "n,d\n2,01/02/2020\n");
    shell.stdout(line);
    let stored = shell.stdout_of("query db", "SELECT * FROM t");
    assert_eq!(stored, "n,d\n1,2020-02-13\n2,2020-02-01\n");
}

#[test]
fn keys_of_rejected_rows_make_no_columns() {
    let shell = Shell::new();
    shell.file("a.jsonl", "{\"a\": 1}\n{\"b\": 1,}\n{\"c\": 01}\n{\"a\": 2}\n");
    shell.stdout("ingest -q db/t a.jsonl --on-error skip");
    assert_eq!(shell.stdout_of("query db", "SELECT * FROM t"), "a\n1\n2\n");
}

#[test]
fn typed_inputs_name_the_row_without_a_value() {
    let shell = Shell::new();
    let rows = "CREATE TABLE t (id BIGINT, v TEXT); INSERT INTO t VALUES (1, 'a'), (NULL, 'b')";
    shell.stdout_of("query db", rows);
    shell.stdout_of("query db", "CREATE TABLE u (id BIGINT NOT NULL, v TEXT)");
    for file in ["a.parquet", "a.arrow"] {
        shell.stdout(&format!("export -q db/t -o {file}"));
        let (code, _, stderr) = shell.run(&format!("ingest db/u {file}"));
        let what =
            format!("{file}: row 2: column 'id' is NOT NULL, but the row has no value in it");
        assert!(code == 1 && stderr.contains(&what), "{stderr}");
    }
    shell.file("b.csv", "v\nx\n");
    let (code, _, stderr) = shell.run("ingest db/u b.csv");
    let what = "b.csv: it has no column 'id', which is NOT NULL in the table";
    assert!(code == 1 && stderr.contains(what), "{stderr}");
}

#[test]
fn a_column_that_an_append_adds_is_told() {
    let shell = Shell::new();
    shell.file("a.csv", "id,d\n1,2024-01-01\n").file("b.csv", "id,D,e\n2,2024-05-05,x\n");
    shell.file("c.csv", "id,d\n3,2024-01-01\n");
    let (code, _, stderr) = shell.run("ingest db/t a.csv");
    assert!(code == 0 && !stderr.contains("is new"), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/t b.csv");
    assert_eq!(code, 0, "{stderr}");
    let alike =
        "column 'D' is new in the table, null in its 1 row, whose column 'd' differs in case";
    assert!(stderr.starts_with(alike), "{stderr}");
    assert!(stderr.contains("\ncolumn 'e' is new in the table, null in its 1 row\n"), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/t c.csv");
    assert!(code == 0 && !stderr.contains("is new"), "{stderr}");
}

#[test]
fn a_store_is_not_made_a_table() {
    let shell = Shell::new();
    shell.file("f.csv", "a\n1\n");
    shell.run("ingest db/t f.csv");
    for line in ["ingest ./db f.csv", "ingest ./db f.csv --dry-run"] {
        let (code, _, stderr) = shell.run(line);
        assert_eq!(code, 1, "{stderr}");
        let says = "'./db' is a store, with the table 't', and cannot become a table; \
                    name a table in it, as in ./db/TABLE";
        assert!(stderr.contains(says), "{stderr}");
    }
    assert_eq!(shell.stdout_of("query db --no-header", "FROM t"), "1\n");
}

#[test]
fn a_file_with_two_columns_of_one_name_is_refused() {
    let shell = Shell::new();
    for file in ["dup.parquet", "dup.arrow"] {
        shell.stdout_of(&format!("query -o {file}"), "SELECT 1 a, 2 b, 3 a");
        for sql in [format!("FROM '{file}'"), format!("SELECT b FROM '{file}'")] {
            let (code, stdout, stderr) = shell.pipe("query", sql);
            assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
            assert!(stderr.contains(&format!("{file}: two columns are named 'a'")), "{stderr}");
        }
        let (code, _, stderr) = shell.run(&format!("ingest db/t {file}"));
        assert!(code == 1 && stderr.contains("two columns named 'a'"), "{stderr}");
    }
}

/// Pipes cannot be looked into again, so the first rows are while they are there.
#[test]
fn a_value_among_the_first_rows_of_a_pipe_is_located() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (id BIGINT, d DECIMAL(6,2))");
    shell.file("t.csv", "id,d\n5,1.5\n7,1.255\nfoo,2\n");
    for (input, id, d) in [
        ("id\n5\n\nfoo\nbar\n", "<stdin> (line 4: \"foo\")", ""),
        ("{\"id\":5}\n{\"id\":\"x\"}\n", "<stdin> (line 2: \"x\")", ""),
        ("d\n1.5\n1.255\n", "", "<stdin> (line 3: \"1.255\")"),
        ("{\"d\":1.5}\n{\"d\":1.255}\n", "", "<stdin> (line 2: \"1.255\")"),
    ] {
        let (code, _, stderr) = shell.pipe("ingest db/t -", input);
        assert!(code == 1 && stderr.contains(id) && stderr.contains(d), "{input}: {stderr}");
    }
    let (code, _, stderr) = shell.run("ingest db/t t.csv");
    assert!(code == 1 && stderr.contains("t.csv (line 4: \"foo\")"), "{stderr}");
    assert_eq!(shell.stdout_of("query db --no-header", "SELECT count(*) FROM t"), "0\n");
}

#[test]
fn integers_are_exact_in_columns_of_single_floats() {
    let shell = Shell::new();
    for (file, rows) in [("a.csv", "x\n1.5\n16777217\n"), ("a.jsonl", "{\"x\":16777217}\n")] {
        shell.file(file, rows);
        let store = format!("db-{file}");
        shell.stdout_of(&format!("query {store}"), "CREATE TABLE t (x REAL)");
        shell.stdout_of(&format!("query {store}"), "INSERT INTO t VALUES (16777216), (0.25)");
        assert_eq!(shell.run(&format!("ingest {store}/t {file}")).0, 0);
        // The column has become wider.
        let sql = "SELECT max(x) AS x, min(x) AS y FROM t";
        assert_eq!(shell.stdout_of(&format!("query {store}"), sql), "x,y\n16777217.0,0.25\n");
    }
    // A type that is named rounds.
    assert_eq!(shell.run("ingest db/t a.csv --schema x:float32").0, 0);
    assert_eq!(shell.stdout_of("query db --no-header", "SELECT max(x) FROM t"), "16777216.0\n");
}

#[test]
fn what_is_printed_of_distant_years_is_read_back() {
    let shell = Shell::new();
    let sql = "CREATE TABLE t AS SELECT make_date(-44, 3, 15) AS d, make_date(12024, 1, 1) AS e, \
               TIMESTAMP '2024-01-01 10:00:00.5' - INTERVAL '3000 years' AS ts";
    shell.stdout_of("query db", sql);
    let whole = shell.stdout_of("query db", "FROM t");
    assert!(whole.contains("-0044-03-15,+12024-01-01,-0976-01-01 10:00:00.5"), "{whole}");
    for format in ["csv", "jsonl", "tsv"] {
        assert_eq!(shell.run(&format!("export db/t -o t.{format}")).0, 0);
        assert_eq!(shell.run(&format!("ingest {format}/t t.{format}")).0, 0);
        assert_eq!(shell.stdout_of(&format!("query {format}"), "FROM t"), whole, "{format}");
        let types = "SELECT arrow_typeof(d), arrow_typeof(e) FROM t";
        let types = shell.stdout_of(&format!("query --no-header {format}"), types);
        assert_eq!(types, "Date32,Date32\n", "{format}");
    }
    shell.stdout_of("query db", "INSERT INTO t (d) VALUES ('-0044-03-16')");
    assert_eq!(shell.stdout_of("query db --no-header", "SELECT max(d) FROM t"), "-0044-03-16\n");
}

#[test]
fn a_first_line_that_looks_like_a_comment_has_a_hint() {
    let shell = Shell::new();
    shell.file("c.csv", "# note\na,b\n1,2\n");
    let (code, _, stderr) = shell.run("ingest db/t c.csv");
    assert!(code == 1 && stderr.contains("--comment '#'"), "{stderr}");
    let (code, _, stderr) = shell.pipe("query", "FROM 'c.csv'");
    assert!(code == 1 && stderr.contains("comment => '#'"), "{stderr}");
}
