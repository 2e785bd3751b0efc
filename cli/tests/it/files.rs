//! Files in queries: a query gets the same rows, columns and types from a file as `sty ingest`, and
//! loses nothing.

use std::fmt::Write as _;
use std::io::Write as _;

use super::shell::Shell;

/// A random sequence with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len())]
    }
}

/// A shell in which there is a store, with one table.
fn with_store() -> Shell {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE there (x INT)");
    shell
}

/// The possible values of a key, which are of one kind or of several.
const KINDS: [&[&str]; 12] = [
    &["1", "-7", "null", "9223372036854775807"],
    &["18446744073709551615", "0", "9223372036854775808"],
    &["18446744073709551616", "1"],
    &["1", "2.5", "1e3"],
    &["1.10", "\"x\"", "true"],
    &["\"2024-02-29\"", "\"2024-03-01\"", "null"],
    &["\"2024-02-29\"", "\"2024-03-01 10:00:00.5\""],
    &["\"007\"", "\"8\""],
    &["true", "false"],
    &["{\"a\":[1, 2]}", "[1]", "null"],
    &["\"\"", "\"ü\\n\\\"x\"", "\"z\""],
    &["\"10:00:00\"", "null"],
];

/// Objects with the same keys in varying order. Some rows lack some, and a key may first appear in
/// a late row.
fn objects(random: &mut Random) -> Vec<String> {
    let names = ["x", "a", "m", "Z", "b c", "k"];
    let kinds: Vec<_> =
        names.iter().map(|name| (*name, KINDS[random.below(KINDS.len())])).collect();
    let rows = 1 + random.below(20);
    (0..rows)
        .map(|row| {
            let mut fields = Vec::new();
            let first = random.below(kinds.len());
            for at in 0..kinds.len() {
                let (name, values) = kinds[(at + first) % kinds.len()];
                if random.below(4) > 0 || row == 0 && at == 0 {
                    fields.push(format!("\"{name}\": {}", random.pick(values)));
                }
            }
            format!("{{{}}}", fields.join(", "))
        })
        .collect()
}

/// Ingests a file and stores a query over it, which must give the same table.
fn check(shell: &Shell, number: usize, name: &str, about: &str) {
    let said = shell.run(&format!("ingest -q db/i{number} {name}"));
    assert_eq!(said.0, 0, "{about}: {said:?}");
    let ingested = shell.stdout_of("query db -q", &format!("SELECT * FROM i{number}"));
    let queried = shell.pipe("query db -q", format!("SELECT * FROM '{name}'"));
    assert_eq!(queried, (0, ingested, String::new()), "{about}");
    // A column without values has no type in a query.
    let (code, _, stderr) =
        shell.pipe("query db -q", format!("CREATE TABLE q{number} AS SELECT * FROM '{name}'"));
    match code {
        0 => assert_eq!(
            types(shell, &format!("q{number}")),
            types(shell, &format!("i{number}")),
            "{about}"
        ),
        _ => assert!(stderr.contains("has no type"), "{about}: {stderr}"),
    }
}

/// The only argument is SQL, a store, or neither; the standard input is a table.
#[test]
fn no_store_is_needed() {
    let shell = Shell::new();
    shell.file("x.csv", "a,b\n1,x\n2,y\n");
    let ok = |text: &str| (0, text.to_owned(), String::new());
    assert_eq!(shell.sh("sty query \"SELECT sum(a) AS s FROM 'x.csv'\""), ok("s\n3\n"));
    assert_eq!(shell.sh("echo 'SELECT 1 AS one' | sty query"), ok("one\n1\n"));
    assert_eq!(shell.sh("echo 'SELECT 1 AS one' | sty query -"), ok("one\n1\n"));
    shell.file("q.sql", "SELECT b FROM stdin WHERE a > 1");
    assert_eq!(shell.sh("sty query -f q.sql < x.csv"), ok("b\ny\n"));
    assert_eq!(shell.sh("sty query - 'SELECT b FROM STDIN WHERE a = 1' < x.csv"), ok("b\nx\n"));
    assert_eq!(
        shell.sh("sty query \"SELECT count(*) AS n FROM '/dev/stdin'\" < x.csv"),
        ok("n\n2\n")
    );
    // Tables, views and WITH queries of this name go before it.
    let (code, _, stderr) = shell.sh("sty query db 'CREATE TABLE stdin AS SELECT 7 AS a'");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(shell.sh("sty query db 'SELECT a FROM stdin' < x.csv"), ok("a\n7\n"));
    assert_eq!(shell.sh("sty query db \"SELECT sum(a) AS a FROM '-'\" < x.csv"), ok("a\n3\n"));
    let sql = "CREATE VIEW stdin AS SELECT 9 AS a; SELECT a FROM stdin";
    assert_eq!(shell.sh(&format!("sty query '{sql}' < x.csv")), ok("a\n9\n"));
    let sql = "SELECT count(*) AS n FROM (WITH stdin AS (SELECT 1) FROM stdin) a CROSS JOIN stdin";
    assert_eq!(shell.sh(&format!("sty query '{sql}' < x.csv")), ok("n\n2\n"));
    let sql = "WITH stdin AS (SELECT 8 AS a) SELECT stdin.a FROM stdin";
    assert_eq!(shell.sh(&format!("sty query '{sql}' < x.csv")), ok("a\n8\n"));
    let (code, stdout, stderr) = shell.sh("sty query 'CREATE TABLE t AS SELECT 1 AS a'");
    assert_eq!((code, &*stdout), (1, ""));
    assert!(stderr.contains("sty query STORE"), "{stderr}");
    let (code, _, stderr) = shell.sh("sty query 'my store'");
    assert!(code == 1 && stderr.contains("hint: the only argument is read as SQL"), "{stderr}");
    let (code, _, stderr) = shell.sh("sty query 'FROM x'");
    assert!(code == 6 && stderr.contains("no store is open"), "{stderr}");
    std::fs::create_dir(shell.path("my store")).unwrap();
    assert_eq!(shell.sh("echo 'SELECT 1 AS one' | sty query 'my store'"), ok("one\n1\n"));
}

/// Parquet and Arrow are read from the standard input, and compressed, too.
#[test]
fn binary_formats_are_piped_in() {
    let shell = Shell::new();
    let sql = "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL";
    for format in ["arrow", "parquet"] {
        let write = format!("sty query --format {format} \"{sql}\"");
        let read = "sty query - 'SELECT sum(a) AS s, count(b) AS n FROM stdin'";
        let answer = (0, "s,n\n3,1\n".to_owned(), String::new());
        assert_eq!(shell.sh(&format!("{write} | {read}")), answer, "{format}");
        assert_eq!(shell.sh(&format!("{write} | gzip | {read}")), answer, "{format}");
        let (code, _, stderr) = shell.sh(&format!("{write} | gzip > x.{format}.gz"));
        assert_eq!(code, 0, "{stderr}");
        let read = format!("sty query \"SELECT a FROM 'x.{format}.gz' WHERE b = 'x'\"");
        assert_eq!(shell.sh(&read), (0, "a\n1\n".to_owned(), String::new()), "{format}");
        let (code, _, stderr) =
            shell.sh(&format!("{write} | head -c 100 | sty query 'FROM stdin'"));
        assert!(code == 1 && stderr.contains("standard input: cannot be read as"), "{stderr}");
    }
}

#[test]
fn a_file_that_was_cut_is_named_as_it_is_typed() {
    let shell = Shell::new();
    shell.sh("sty query -o whole.parquet 'SELECT * FROM generate_series(1, 10000)'");
    shell.sh("head -c 3000 whole.parquet > cut.parquet");
    let (code, _, asked) = shell.sh("sty query \"SELECT * FROM 'cut.parquet'\"");
    assert_eq!(code, 1, "{asked}");
    assert!(asked.starts_with("error: cut.parquet: cannot be read as Parquet: "), "{asked}");
    assert!(asked.contains("is the file complete?"), "{asked}");
    assert_eq!(shell.run("ingest db/t cut.parquet").2, asked);
    let (code, _, stderr) = shell.run("export db/t x.parquet");
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("sty export db/t -o x.parquet"), "{stderr}");
}

/// The names and types of a table's columns.
fn types(shell: &Shell, table: &str) -> String {
    let sql = format!(
        "SELECT column_name, data_type FROM information_schema.columns \
         WHERE table_name = '{table}'"
    );
    shell.stdout_of("query db -q", &sql)
}

#[test]
fn a_query_over_json_reads_what_ingest_does() {
    let shell = Shell::new();
    for number in 0..30 {
        let rows = objects(&mut Random(number as u64 * 977 + 5));
        let (name, text) = match number % 3 {
            0 => (format!("{number}.jsonl"), rows.join("\n")),
            1 => (format!("{number}.json"), format!("[{}]", rows.join(",\n"))),
            _ => (format!("{number}.ndjson"), rows.join("\r\n") + "\r\n"),
        };
        shell.file(&name, &text);
        check(&shell, number, &name, &text);
    }
}

#[test]
fn a_query_over_csv_reads_what_ingest_does() {
    let shell = Shell::new();
    let texts = [
        "a,b\n007,1\n8,2\n",
        "a,b\n2024-02-29,2024-02-29 10:00:00\n,2024-02-29\n",
        "a,b\n9223372036854775808,18446744073709551616\n1,2\n",
        "a,b\n\"\",\n,\"\"\nx,y\n",
        "1,2\n3,4.5\n",
        "a;b\n1;2,5\n",
        "alice,berlin\nbob,paris\n",
        "b,a\n1,2\n",
        "a,a,\n1,2,3\n",
    ];
    for (number, text) in texts.iter().enumerate() {
        let name = format!("{number}.csv");
        shell.file(&name, text);
        check(&shell, number, &name, text);
    }
}

#[test]
fn json_fills_columns_by_the_order_of_its_keys_and_keeps_large_numbers() {
    let shell = Shell::new();
    shell.file("x.jsonl", "{\"x\":1,\"a\":2,\"m\":3}\n");
    shell.file("big.json", "[{\"id\":18446744073709551615},{\"id\":9223372036854775808}]");
    shell.stdout_of(
        "query db",
        "CREATE TABLE t (x INT, a INT, m INT); INSERT INTO t SELECT * FROM 'x.jsonl'",
    );
    assert_eq!(shell.stdout_of("query db", "SELECT * FROM t"), "x,a,m\n1,2,3\n");
    shell.stdout_of("query db", "CREATE TABLE u AS SELECT * FROM 'big.json'");
    assert_eq!(
        shell.stdout_of("query db", "SELECT id FROM u"),
        "id\n18446744073709551615\n9223372036854775808\n"
    );
    // From a compressed file, and from a pipe.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"{\"x\":1}\n{\"x\":2.5}\n").unwrap();
    shell.file("p.jsonl.gz", packed.finish().unwrap());
    assert_eq!(shell.stdout_of("query db", "SELECT sum(x) FROM 'p.jsonl.gz'"), "sum(x)\n3.5\n");
    let (code, stdout, stderr) = shell.sh("cat x.jsonl | sty query db \"SELECT m, a FROM '-'\"");
    assert_eq!((code, stdout.as_str()), (0, "m,a\n3,2\n"), "{stderr}");
}

#[test]
fn files_of_a_pattern_are_matched_by_name() {
    let shell = with_store();
    shell
        .file("p1.jsonl", "{\"a\":1,\"b\":\"x\"}\n")
        .file("p2.jsonl", "{\"b\":\"2024-01-01\",\"c\":true,\"a\":2.5}\n");
    shell.file("p3.jsonl", "").file("r1.csv", "a,b\n1,x\n").file("r2.csv", "b,a\ny,2\n");
    let rows = shell.stdout_of("query db", "SELECT 1; SELECT * FROM 'p*.jsonl' ORDER BY a");
    assert!(rows.ends_with("a,b,c\n1.0,x,\n2.5,2024-01-01,true\n"), "{rows}");
    assert_eq!(shell.stdout_of("query db", "SELECT * FROM 'r*.csv' ORDER BY a"), "a,b\n1,x\n2,y\n");
}

/// As a load does, which begins anew; a type that was asked for, and JSON, are as strict as there.
#[test]
fn a_column_that_only_text_holds_in_all_files_is_text() {
    let shell = with_store();
    shell.file("s1.csv", "id,v\n1,5\n2,NA\n").file("s2.csv", "v,id\n,3\nx,4\n");
    let sql = "SELECT id, v FROM read_csv(['s1.csv', 's2.csv'])";
    let (code, rows, stderr) = shell.pipe("query", format!("{sql} ORDER BY id"));
    assert_eq!((code, rows.as_str()), (0, "id,v\n1,5\n2,NA\n3,\n4,x\n"), "{stderr}");
    assert!(stderr.contains("column 'v' is read as text"), "{stderr}");
    shell.stdout("ingest db/same s1.csv s2.csv -q");
    let same = format!("{sql} EXCEPT SELECT id, v FROM same");
    assert_eq!(shell.stdout_of("query db", &same), "id,v\n");
    let typed = sql.replace("])", "], types => {'v': 'int'})");
    let (code, _, stderr) = shell.pipe("query", typed);
    assert!(code == 1 && stderr.contains("s2.csv: line 3"), "{code} {stderr}");
}

/// After the rows that types are inferred from, a value of another type and a new key are errors,
/// so that nothing is lost.
#[test]
fn what_comes_late_in_a_large_file_is_not_lost() {
    let shell = with_store();
    let mut text = String::new();
    let filler = "f".repeat(1000);
    for row in 0..70_000 {
        let _ = writeln!(text, "{{\"id\":{row},\"filler\":\"{filler}\"}}");
    }
    shell.file("key.jsonl", format!("{text}{{\"id\":1,\"late\":2}}\n"));
    shell.file("type.jsonl", format!("{text}{{\"id\":1.5}}\n"));
    let (code, _, stderr) = shell.pipe("query db", "CREATE TABLE t AS SELECT * FROM 'key.jsonl'");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("line 70001: the key 'late' is in none of the first rows"), "{stderr}");
    assert_eq!(
        shell.stdout_of("query db", "SELECT 1; SELECT max(id) AS m FROM 'key.jsonl'"),
        "1\n1\nm\n69999\n"
    );
    let (code, _, stderr) = shell.pipe("query db", "SELECT max(id) FROM 'type.jsonl'");
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("line 70001, column 'id': 1.5 is not of type int64; its first rows"),
        "{stderr}"
    );
    assert_eq!(shell.stdout_of("query db", "SELECT id FROM 'key.jsonl' LIMIT 1"), "id\n0\n");
}

#[test]
fn guesses_are_reported_once_on_stderr() {
    let shell = with_store();
    shell.file("people.csv", "alice,berlin\nbob,paris\n").file("swapped.csv", "b,a\n1,2\n");
    let (code, _, stderr) = shell.pipe("query db", "SELECT * FROM 'people.csv' x, 'people.csv' y");
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("taken for column names (alice, berlin)") && stderr.lines().count() == 1,
        "{stderr}"
    );
    shell.stdout_of("query db", "CREATE TABLE t (a INT, b INT)");
    let (code, _, stderr) = shell.pipe("query db", "INSERT INTO t SELECT * FROM 'swapped.csv'");
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.starts_with("INSERT goes by position, not by name: a, b get the values of b, a"),
        "{stderr}"
    );
    assert_eq!(shell.stdout_of("query db", "SELECT * FROM t"), "a,b\n1,2\n");
    for sql in [
        "INSERT INTO t (b, a) SELECT * FROM 'swapped.csv'",
        "INSERT INTO t SELECT b AS x, a AS y FROM 'swapped.csv'",
    ] {
        let (code, _, stderr) = shell.pipe("query db", sql);
        assert_eq!((code, stderr.as_str()), (0, ""), "{sql}");
    }
}

#[test]
fn bytes_and_tables_without_rows_go_out_and_in_again() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE t (k INT, b BYTEA)");
    let rows = r"INSERT INTO t VALUES (1, '\x00ff'), (2, 'abc'), (3, NULL), (4, '')";
    shell.stdout_of("query db -q", rows);
    shell.stdout_of("query db -q", "CREATE TABLE e (i INT, s TEXT, d DECIMAL(9,2), at TIMESTAMP)");
    let stored = "k,b\n1,\\x00ff\n2,\\x616263\n3,\n4,\\x\n";
    for format in ["csv", "tsv", "jsonl"] {
        shell.stdout(&format!("export -q db/t -o t.{format}"));
        shell.stdout(&format!("ingest -q db/{format} t.{format} --schema b:binary"));
        shell.stdout(&format!("ingest -q db/{format} t.{format} --if-loaded again"));
        let read = |rows| {
            shell.stdout_of("query db -q", &format!("SELECT k, b FROM {format} ORDER BY k {rows}"))
        };
        let pairs: Vec<String> =
            stored.lines().skip(1).map(|row| format!("{row}\n{row}\n")).collect();
        assert_eq!(read(""), format!("k,b\n{}", pairs.concat()), "{format}");
    }
    for format in ["parquet", "arrow"] {
        shell.stdout(&format!("export -q db/e -o e.{format}"));
        shell.stdout(&format!("ingest -q db/empty_{format} e.{format}"));
        assert_eq!(types(&shell, &format!("empty_{format}")), types(&shell, "e"), "{format}");
    }
}

#[test]
fn rows_that_end_with_a_carriage_return_are_rows() {
    let shell = Shell::new();
    let text = "a,b\r1,x\r2,y\r";
    shell.file("cr.csv", text).file("cr.tsv", text.replace(',', "\t"));
    check(&shell, 0, "cr.csv", text);
    check(&shell, 1, "cr.tsv", text);
    for table in ["i0", "i1"] {
        assert_eq!(shell.stdout_of("query db -q", &format!("FROM {table}")), "a,b\n1,x\n2,y\n");
    }
}

#[test]
fn an_empty_table_becomes_a_file_with_its_columns() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE e (i INT, s TEXT)");
    let texts = [("csv", "i,s\n"), ("tsv", "i\ts\n"), ("jsonl", "")];
    for (format, text) in texts {
        for (place, file) in
            [("one.", format!("one.{format}")), ("d/", format!("d/part-000000.{format}"))]
        {
            let output = if place == "d/" { "d/".to_owned() } else { file.clone() };
            shell.stdout(&format!("export -q db/e -o {output} --format {format}"));
            assert_eq!(std::fs::read_to_string(shell.path(&file)).unwrap(), text, "{file}");
        }
    }
    for format in ["parquet", "arrow"] {
        shell.stdout(&format!("export -q db/e -o d/ --format {format}"));
        shell.stdout(&format!("export -q db/e -o p_{format}/ --format {format} --partition-by i"));
        for directory in ["d".to_owned(), format!("p_{format}")] {
            let sql = format!("SELECT * FROM '{directory}/part-000000.{format}'");
            let read = shell.stdout_of("query db -q", &sql);
            assert_eq!(read, "i,s\n", "{format}");
        }
    }
}

#[test]
fn arrow_streams_are_tables_and_pipes_are_refused() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE t (a INT)");
    shell.stdout_of("query db -q --format arrow -o a.arrows", "SELECT 1 AS a, 'x' AS b");
    assert_eq!(shell.stdout_of("query db -q", "FROM 'a.arrows'"), "a,b\n1,x\n");
    let script = "mkfifo p p.csv p.arrow; for f in ./p p.csv p.arrow; do \
        sty query db -q \"FROM '$f'\"; echo $?; done";
    let (_, stdout, stderr) = shell.sh(script);
    assert_eq!(stdout, "1\n1\n1\n", "{stderr}");
    assert_eq!(stderr.matches(" is a pipe or a device, and a query reads files").count(), 3);
    let (code, _, stderr) = shell.sh("cat a.arrows | sty query db -q \"FROM '/dev/fd/0'\"");
    assert!(code == 1 && stderr.contains("is a pipe or a device"), "{stderr}");
    let (_, _, stderr) = shell.sh("sty query db -q --no-files \"FROM './p'\"");
    assert!(!stderr.contains("pipe"), "{stderr}");
}

#[test]
fn thousands_of_columns_are_selected_at_once() {
    let shell = Shell::new();
    let line = |cell: &dyn Fn(usize) -> String| (0..8000).map(cell).collect::<Vec<_>>().join(",");
    let (names, row) = (line(&|at| format!("c{at}")), line(&|at| at.to_string()));
    shell.file("w.csv", format!("{names}\n{row}\n"));
    shell.stdout("ingest -q db/w w.csv");
    for sql in [
        "FROM w",
        "SELECT w.* FROM w WHERE c1 = 1 ORDER BY c7 DESC LIMIT 3",
        "SELECT * FROM (SELECT * FROM w WHERE c2 = 2) AS v WHERE v.c1 = 1",
    ] {
        let answer = shell.stdout_of("query db -q --timeout 3s", sql);
        assert_eq!(answer, format!("{names}\n{row}\n"), "{sql}");
    }
}

/// The text is read piece by piece, and the first piece may have nothing but the names.
#[test]
fn a_long_first_row_decides_on_types() {
    let shell = Shell::new();
    shell.file("x.csv", format!("a,b\n1,{}\n2,short\n", "x".repeat(5 << 20)));
    shell.stdout_of("query db", "CREATE TABLE t (a INT)");
    let sql = "SELECT a + 1 AS a, length(b) AS b FROM '-' ORDER BY a";
    let (code, stdout, stderr) = shell.sh(&format!("sty query db \"{sql}\" < x.csv"));
    assert_eq!((code, stdout.as_str()), (0, "a,b\n2,5242880\n3,5\n"), "{stderr}");
}

#[test]
fn files_are_read_with_options() {
    let shell = with_store();
    shell.file("a.txt", "junk\n1;NA;x\n2;3.5;''\n");
    shell.file("b.txt", "junk\n3;4.5;z\n");
    let sql = "SELECT id, v, t FROM read_csv(['a.txt', 'b*.txt'], delim = ';', skip => 1, \
               header := false, null => 'NA', quote => '''', names => ['id', 'v', 't'], \
               types => {'id': 'smallint'}) ORDER BY id";
    let query = |sql: &str| shell.stdout_of("query db", sql);
    assert_eq!(query(sql), "id,v,t\n1,,x\n2,3.5,\"\"\n3,4.5,z\n");
    let described = format!("SELECT arrow_typeof(id), sum(v) FROM ({sql}) GROUP BY 1");
    assert_eq!(query(&described).lines().nth(1), Some("Int16,8.0"));
    shell.file("c.log", "{\"k\": 1}\n{\"k\": 2}\n");
    assert_eq!(query("SELECT sum(r.k) AS s FROM read_json('c.log') r"), "s\n3\n");
    let (code, _, refused) = shell.pipe("query db", "FROM read_csv('a.txt', delimeter => ';')");
    assert!(code == 1 && refused.contains("did you mean delimiter?"), "{code} {refused}");
    let (code, _, refused) = shell.pipe("query db --no-files", "FROM read_csv('a.txt')");
    assert!(code == 1 && refused.contains("reads and writes no files"), "{code} {refused}");
    // An empty field is a text where that is said, and no number; no rows have known columns.
    shell.file("e.csv", "1,,x\n2,b,x\n").file("none.csv", "").file("none.jsonl", "");
    let typed = "header => false, names => ['id', 'a', 'b'], types => {'id': 'int'}";
    let sql = format!("SELECT a IS NULL AS n FROM read_csv('e.csv', {typed}, null => 'x'");
    assert_eq!(query(&format!("{sql}) ORDER BY id")), "n\ntrue\nfalse\n");
    assert_eq!(query(&format!("{sql}, empty_is_null => false) ORDER BY id")), "n\nfalse\nfalse\n");
    let number = typed.replace("'id': 'int'", "'a': 'int'");
    let sql = format!("FROM read_csv('e.csv', {number}, empty_is_null => false)");
    let (code, _, refused) = shell.pipe("query db", sql);
    assert!(code == 1 && refused.contains("line 1"), "{code} {refused}");
    for read in ["read_csv('none.csv', header => true", "read_json('none.jsonl'"] {
        let sql =
            format!("SELECT a, count(*) OVER () FROM {read}, preferred_types => {{'a': 'int'}})");
        assert_eq!(query(&sql).lines().count(), 1, "{read}");
    }
    // The standard input, in another encoding, and read as one thing only.
    let shell_line = "printf 'a;\\344\\n' | sty query db \"SELECT * FROM read_csv('-', \
                      delim => ';', encoding => 'latin1', header => false)\"";
    assert_eq!(shell.sh(shell_line).1, "column0,column1\na,ä\n");
    let twice = "printf 'a;b' | sty query db \"FROM '-'; FROM read_csv('-', header => true)\"";
    assert!(shell.sh(twice).2.contains("has been read as - already"));
}

/// Parquet's bounds of floats leave NaN out, which is greater than all other numbers.
#[test]
fn a_nan_in_parquet_is_the_greatest_number() {
    let shell = with_store();
    let values = "VALUES ('NaN'::double, 'NaN'::real), (1.5::double, 2.5::real)";
    let rows = format!("CREATE TABLE n AS SELECT * FROM ({values}) AS v(x, y)");
    shell.stdout_of("query db", &rows);
    shell.stdout("export -q db/n -o n.parquet");
    for (what, answer) in [
        ("SELECT x, y FROM 'n.parquet'", "x,y\nNaN,NaN\n1.5,2.5\n"),
        ("SELECT max(x) AS x, max(y) AS y FROM 'n.parquet'", "x,y\nNaN,NaN\n"),
        ("SELECT count(*) AS n FROM 'n.parquet' WHERE x > 2 AND y > 3", "n\n1\n"),
        ("SELECT count(*) AS n FROM 'n.parquet' WHERE x = 'NaN'::double", "n\n1\n"),
        ("SELECT count(*) AS n FROM 'n.parquet' WHERE x <> 1.5", "n\n1\n"),
    ] {
        assert_eq!(shell.stdout_of("query db", what), answer, "{what}");
    }
}
