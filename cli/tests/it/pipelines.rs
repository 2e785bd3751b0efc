//! Pipelines with the programs that people use; a test of a program that is not here passes.

use std::process::Command;

use super::shell::Shell;

/// A table of 200,000 rows, and a few cities.
fn store() -> Shell {
    let shell = Shell::new();
    let sql = "CREATE TABLE t AS SELECT value AS id, value % 7 AS k, 'n' || (value % 3) AS name \
               FROM generate_series(1, 200000) ORDER BY value";
    shell.stdout_of("query -q db", sql);
    shell
}

/// Runs a line of bash with pipefail, which must succeed.
fn bash(shell: &Shell, line: &str) -> String {
    shell.file("line.sh", format!("set -euo pipefail\n{line}\n"));
    let (code, stdout, stderr) = shell.sh("bash line.sh");
    std::fs::DirBuilder::new().recursive(true).create(shell.path("used")).unwrap();
    assert_eq!(shell.sh("mv line.sh used/").0, 0);
    assert_eq!((code, stderr.as_str()), (0, ""), "{line}");
    stdout
}

/// Python that has these modules.
fn python(modules: &str) -> Option<String> {
    let named = std::env::var("STY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {modules}");
    let found = Command::new(&named).args(["-c", &import]).output();
    found.is_ok_and(|output| output.status.success()).then_some(named)
}

#[test]
fn a_reader_that_has_enough_ends_the_query_with_success() {
    let shell = store();
    for format in ["csv", "tsv", "jsonl", "json", "markdown"] {
        let line = format!("sty query db 'SELECT * FROM t' --format {format} | head -1 | wc -l");
        assert_eq!(bash(&shell, &line).trim(), "1", "{format}");
    }
    assert_eq!(bash(&shell, "sty export db/t -o - | head -3 | tail -1"), "2,2,n2\n");
    // Rows without end.
    let endless = "SELECT a.id FROM t a, t b, t c";
    assert_eq!(bash(&shell, &format!("sty query db '{endless}' | head -2 | wc -l")).trim(), "2");
    assert_eq!(bash(&shell, "sty completions bash | head -1 | wc -l").trim(), "1");
    for pager in ["less", "more"] {
        if Shell::has(pager) {
            let line = format!(
                "sty query db 'SELECT id FROM t WHERE id < 4 ORDER BY id' | {pager} | tail -1"
            );
            assert_eq!(bash(&shell, &line), "3\n", "{pager}");
        }
    }
}

#[test]
fn pipefail_sees_a_failed_query() {
    let shell = store();
    shell.file("p.sh", "set -o pipefail\nsty query db 'SELECT no FROM t' -q | sort | head -1\n");
    let (code, stdout, stderr) = shell.sh("bash p.sh");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.starts_with("error: "), "{stderr}");
}

#[test]
fn named_pipes_are_read_and_written() {
    if !Shell::has("mkfifo") {
        return;
    }
    let shell = store();
    let line = "mkfifo in out
sty query db 'SELECT id FROM t WHERE id < 6' -o out --format csv &
sort -n out | tail -1
printf 'a,b\\n1,x\\n2,y\\n' > in &
sty ingest -q db/piped in
wait
sty query db 'SELECT sum(a) FROM piped' --no-header";
    assert_eq!(bash(&shell, line), "5\n3\n");
}

#[test]
fn process_substitution_and_xargs() {
    let shell = store();
    let line = "sty ingest -q db/s <(printf 'a\\n1\\n') <(printf 'a\\n2\\n'); \
                sty query db 'SELECT sum(a) FROM s' --no-header";
    assert_eq!(bash(&shell, line), "3\n");
    let line = "diff <(sty query db --no-header 'SELECT id FROM t WHERE k = 1 ORDER BY id') \
                <(sty query db 'SELECT * FROM t' | awk -F, '$2==1 {print $1}' | sort -n); echo same";
    assert_eq!(bash(&shell, line), "same\n");
    let line = "seq 0 6 | xargs -P 4 -I{} sty query db -p k={} --no-header -q \
                'SELECT count(*) FROM t WHERE k = $k' | awk '{n += $1} END {print n}'";
    assert_eq!(bash(&shell, line), "200000\n");
    // One writer at a time: the others say so, and nothing is lost or doubled.
    let line = "seq 1 6 | xargs -P 3 -I{} sh -c 'printf \"a\\n{}\\n\" > w{}.csv; \
                until sty ingest -q db/w w{}.csv 2> /dev/null; do sleep 0.05; done'; \
                sty query db 'SELECT count(*), sum(a) FROM w' --no-header";
    assert_eq!(bash(&shell, line), "6,21\n");
}

#[test]
fn answers_become_tables_and_meet_rows_on_stdin() {
    let shell = store();
    let line = "sty query db 'SELECT * FROM t WHERE k = 3' --format csv | sty ingest -q db/c -";
    bash(&shell, line);
    for (format, table) in [("tsv", "v"), ("jsonl", "j"), ("arrow", "a"), ("parquet", "p")] {
        let line = format!(
            "sty query db 'SELECT * FROM c' --format {format} | sty ingest -q db/{table} -; \
             sty query db 'SELECT count(*), sum(id), min(name) FROM {table}' --no-header"
        );
        let expected = "28572,2857242858,n0\n";
        assert_eq!(bash(&shell, &line), expected, "{format}");
    }
    let line = "printf 'k,city\\n1,Rome\\n2,Oslo\\n' | sty query db --no-header \
                \"SELECT city, count(*) FROM '-' JOIN t USING (k) GROUP BY 1 ORDER BY 1\"";
    assert_eq!(bash(&shell, line), "Oslo,28572\nRome,28572\n");
    let line = "printf 'a\\n1\\n2\\n' | gzip | sty ingest -q db/z; \
                sty export -q db/z -o - --format jsonl | gzip | gunzip";
    assert_eq!(bash(&shell, line), "{\"a\":1}\n{\"a\":2}\n");
}

#[test]
fn rows_are_what_sort_join_and_awk_take() {
    let shell = store();
    let sql = "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k";
    let line = format!(
        "export STY_FORMAT=tsv STY_NO_HEADER=1
         sty query db '{sql}' > n.tsv
         sty query db 'SELECT k, min(id) FROM t GROUP BY k ORDER BY k' > m.tsv
         join -t \"$(printf '\\t')\" n.tsv m.tsv | awk -F '\\t' 'NF == 3 {{print $1, $3}}' | sort -rn | head -2"
    );
    assert_eq!(bash(&shell, &line), "6 6\n5 5\n");
    if Shell::has("jq") {
        let line = format!("sty query db '{sql}' --format jsonl | jq -s 'map(.n) | add'");
        assert_eq!(bash(&shell, &line), "200000\n");
        let line = "sty tables db --format json | jq -r '.[0].table'";
        assert_eq!(bash(&shell, line), "t\n");
    }
}

#[test]
fn other_programs_read_arrow_and_parquet_on_stdin() {
    let shell = store();
    let query = "sty query db 'SELECT id, k, name FROM t'";
    let sum = "200000 20000100000";
    for (modules, format, code) in [
        (
            "pyarrow",
            "arrow",
            "import sys, pyarrow as pa, pyarrow.compute as pc; \
             t = pa.ipc.open_stream(sys.stdin.buffer).read_all(); \
             print(t.num_rows, pc.sum(t['id']))",
        ),
        (
            "pyarrow",
            "parquet",
            "import sys, pyarrow as pa, pyarrow.parquet as pq, pyarrow.compute as pc; \
             t = pq.read_table(pa.BufferReader(sys.stdin.buffer.read())); \
             print(t.num_rows, pc.sum(t['id']))",
        ),
        (
            "polars",
            "arrow",
            "import sys, polars as pl; t = pl.read_ipc_stream(sys.stdin.buffer); \
             print(t.height, t['id'].sum())",
        ),
        (
            "polars",
            "parquet",
            "import sys, io, polars as pl; t = pl.read_parquet(io.BytesIO(sys.stdin.buffer.read())); \
             print(t.height, t['id'].sum())",
        ),
        (
            "duckdb, pyarrow",
            "arrow",
            "import sys, duckdb, pyarrow as pa; t = pa.ipc.open_stream(sys.stdin.buffer).read_all(); \
             print(*duckdb.sql('SELECT count(*), sum(id) FROM t').fetchone())",
        ),
        (
            "duckdb",
            "csv",
            "import duckdb; print(*duckdb.sql(\"SELECT count(*), sum(id) FROM \
             read_csv('/dev/stdin', header=true, auto_detect=false, columns={'id': 'BIGINT', \
             'k': 'BIGINT', 'name': 'VARCHAR'})\").fetchone())",
        ),
    ] {
        let Some(python) = python(modules) else { continue };
        shell.sh("rm -f read.py");
        shell.file("read.py", code);
        let line = format!("{query} --format {format} | {python} read.py");
        assert_eq!(bash(&shell, &line).trim(), sum, "{modules} {format}");
    }
}

#[test]
fn a_full_disk_and_closed_streams() {
    let shell = store();
    if std::path::Path::new("/dev/full").exists() {
        for line in [
            "sty query db 'SELECT * FROM t' > /dev/full",
            "sty query db 'SELECT 1' > /dev/full",
            "sty tables db > /dev/full",
            "sty export db/t -o - > /dev/full",
            "sty manifest db/t > /dev/full",
            "sty config > /dev/full",
            "sty completions bash > /dev/full",
        ] {
            let (code, _, stderr) = shell.sh(line);
            assert_eq!(code, 1, "{line}: {stderr}");
            assert!(stderr.starts_with("error: stdout: No space left"), "{line}: {stderr}");
        }
    }
    // A closed stdin has no rows and no statements.
    let (code, _, stderr) = shell.sh("sty query db <&-");
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(shell.sh("sty query db 'SELECT 1 AS a' <&-").1, "a\n1\n");
    let (code, _, _) = shell.sh("sty ingest -q db/n - <&-");
    assert!(code == 0 || code == 1, "{code}");
    // What never ends is not waited for.
    let line = "yes 1 | sty ingest -q db/y - --timeout 300ms";
    let (code, _, stderr) = shell.sh(line);
    assert_eq!((code, stderr.as_str()), (5, "error: timeout of 300 ms reached\n"));
    let (code, _, _) = shell.sh("yes 'SELECT 1;' | head -100 | sty query db -q | wc -l");
    assert_eq!(code, 0);
}
