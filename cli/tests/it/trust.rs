//! Damaged tables beside sound ones, outputs in the wrong place, sessions with fewer rights, and
//! names that would control a terminal.

#![expect(clippy::disallowed_methods, reason = "the tests damage stores")]

use std::fs;

use crate::shell::Shell;

/// A store with a sound table and one in partitions.
fn two_tables() -> Shell {
    let shell = Shell::new();
    shell.file("a.csv", "id,kind\n1,x\n2,y\n").file("b.csv", "id,kind\n3,x\n");
    shell.stdout("ingest -q db/sound a.csv");
    shell.stdout("ingest -q db/t a.csv --partition-by kind");
    shell
}

#[test]
fn a_table_that_lost_current_is_damage_for_every_command_and_hides_no_other() {
    for also_manifest in [false, true] {
        let shell = two_tables();
        fs::remove_file(shell.path("db/t/CURRENT")).unwrap();
        if also_manifest {
            fs::remove_dir_all(shell.path("db/t/manifest")).unwrap();
        }
        let before = shell.files("db/t/data/kind=x", "sty");
        for line in [
            "verify db",
            "verify db/t",
            "tables db",
            "gc db",
            "gc db/t",
            "schema db/t",
            "partitions db/t",
            "export db/t -o -",
            "compact db/t",
            "ingest db/t b.csv",
            "ingest db/t b.csv --if-loaded again",
        ] {
            let (code, _, stderr) = shell.run(line);
            assert_eq!(code, 3, "{line}: {stderr}");
            assert!(stderr.contains("CURRENT: corrupt at byte 0: it is missing"), "{stderr}");
        }
        for sql in ["SELECT * FROM t", "INSERT INTO t VALUES (9, 'z')", "CREATE TABLE t (a INT)"] {
            let (code, _, stderr) = shell.pipe("query db", sql);
            assert_eq!(code, 3, "{sql}: {stderr}");
        }
        assert_eq!(shell.files("db/t/data/kind=x", "sty"), before);
        let (_, listed, _) = shell.run("tables db --format csv");
        assert!(listed.contains("\nsound,2,2,1,"), "{listed}");
        assert!(listed.ends_with(",sound\nt,,,,,damaged\n"), "{listed}");
        let (_, _, stderr) = shell.run("verify db");
        assert!(stderr.contains("sound: 2 rows"), "{stderr}");
        assert_eq!(shell.pipe("query db", "SELECT count(*) FROM sound").0, 0);
        assert_eq!(shell.run("verify db/sound").0, 0);
    }
}

#[test]
fn missing_files_of_the_manifest_are_damage() {
    for suffix in ["chunk", "root"] {
        let shell = two_tables();
        shell.files("db/t/manifest", suffix).iter().for_each(|file| fs::remove_file(file).unwrap());
        for line in ["verify db", "tables db", "export db/t -o -"] {
            let (code, _, stderr) = shell.run(line);
            assert_eq!(code, 3, "{suffix}: {line}: {stderr}");
        }
        assert_eq!(shell.pipe("query db", "SELECT id FROM t").0, 3);
    }
}

#[test]
fn outputs_in_the_directory_of_a_table_are_refused() {
    let shell = two_tables();
    shell.file("bad.csv", "id,kind\n4,x,1\n");
    std::os::unix::fs::symlink("db/t/data", shell.path("link")).unwrap();
    let refused = |line: &str| {
        let (code, _, stderr) = shell.run(line);
        assert!(code == 1 && stderr.contains("is in the directory of a table"), "{line}: {stderr}");
    };
    refused("export db/sound -o db/t/x.csv");
    refused("export db/sound -o db/t/CURRENT --force");
    refused("export db/sound -o db/t/data/out/");
    refused("export db/sound -o link/x.csv");
    refused("ingest db/sound bad.csv --rejects db/t/bad.csv");
    refused("ingest db/new bad.csv --rejects db/new/bad.csv");
    let (code, _, stderr) = shell.pipe("query db -o db/t/manifest/x.csv", "SELECT 1 AS one");
    assert!(code == 1 && stderr.contains("is in the directory of a table"), "{stderr}");
    shell.stdout("export -q db/sound -o db/x.csv");
    shell.stdout("verify -q db");
    assert!(!shell.path("db/t/data/out").exists());
}

#[test]
fn sessions_that_only_read_and_sessions_without_files() {
    let shell = two_tables();
    let run = |options: &str, sql: &str| shell.pipe(&format!("query db {options}"), sql);
    for sql in [
        "INSERT INTO t VALUES (9, 'z')",
        "CREATE TABLE u (a INT)",
        "CREATE TABLE u AS SELECT 1 AS a",
        "SELECT 1 AS a INTO u",
        "DELETE FROM t",
        "UPDATE t SET id = 0",
        "PREPARE p AS INSERT INTO t VALUES (9, 'z'); EXECUTE p",
    ] {
        let (code, _, stderr) = run("--read-only", sql);
        assert!(code == 1 && stderr.contains("read-only"), "{sql}: {code} {stderr}");
    }
    let (code, _, stderr) = run("--read-only", "COPY t TO 'out.csv'");
    assert!(code == 1 && !shell.path("out.csv").exists(), "{stderr}");
    let read = "CREATE TEMP VIEW v AS SELECT id FROM t; SELECT count(*) FROM v";
    assert_eq!(run("--read-only", read).1, "count(*)\n2\n");
    assert_eq!(run("--read-only --no-files", read).1, "count(*)\n2\n");
    assert_eq!(shell.pipe("query nosuch --read-only", "CREATE TABLE u (a INT)").0, 6);
    assert!(!shell.path("nosuch").exists() && !shell.path("db/u").exists());

    for sql in [
        "SELECT * FROM 'a.csv'",
        "SELECT * FROM 'nosuch.parquet'",
        "SELECT * FROM '*.csv'",
        "SELECT * FROM '-'",
        "INSERT INTO t SELECT * FROM 'b.csv'",
        "CREATE VIEW v AS SELECT * FROM 'b.csv'",
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'a.csv'",
        "SET datafusion.runtime.temp_directory = '/tmp'",
    ] {
        let (code, _, stderr) = run("--no-files", sql);
        assert!(code == 1 && stderr.contains("no files outside its store"), "{sql}: {stderr}");
    }
    assert_eq!(run("--no-files", "COPY t TO 'out.csv'").0, 1);
    assert_eq!(run("--no-files", "INSERT INTO t VALUES (9, 'z')").0, 0);
    assert_eq!(run("", "SELECT count(*) FROM 'a.csv'").1, "count(*)\n2\n");
    for (option, sql) in [("--read-only", "DELETE FROM t"), ("--no-files", "SELECT * FROM 'a.csv'")]
    {
        let (code, _, stderr) = shell.pipe(&format!("bench db --runs 1 {option}"), sql);
        assert!(code == 1 && stderr.contains("this session"), "{stderr}");
    }
}

#[test]
fn control_characters_in_names_are_printed_escaped() {
    let shell = two_tables();
    let (table, escaped) = ("t\u{1b}]0;x\u{7}", "t\\u{1b}]0;x\\u{7}");
    fs::rename(shell.path("db/t"), shell.path(&format!("db/{table}"))).unwrap();
    let is_plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    let (code, stdout, stderr) = shell.run(&format!("manifest db/{table}"));
    assert!(code == 0 && is_plain(&stdout) && stdout.contains(escaped), "{stdout}{stderr}");
    for line in ["tables db", "tables db --format tsv", "tables db --format table", "verify db"] {
        let (code, stdout, stderr) = shell.run(line);
        assert!(code == 0 && is_plain(&stdout) && is_plain(&stderr), "{line}: {stdout}{stderr}");
        assert!((stdout + &stderr).contains(escaped), "{line}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&shell.stdout("tables db --format json")).unwrap();
    assert_eq!(json[1]["table"], table);
    fs::remove_file(shell.path(&format!("db/{table}/CURRENT"))).unwrap();
    for line in ["tables db", "verify db", "gc db", "verify db --error-format json"] {
        let (code, stdout, stderr) = shell.run(line);
        assert!(code == 3 && is_plain(&stdout) && is_plain(&stderr), "{line}: {stdout}{stderr}");
    }
    let (code, _, stderr) = shell.pipe("query db", "SELECT \"a\u{1b}[2J\" FROM sound");
    assert!(code == 1 && is_plain(&stderr), "{stderr}");
    let (code, stdout, _) =
        shell.pipe("query db --format table", "SELECT 1 AS \"a\u{1b}[2J\", 'x\u{7}' AS b");
    assert!(code == 0 && is_plain(&stdout), "{stdout}");
}

#[test]
fn a_flipped_bit_is_damage_and_no_newer_version() {
    let shell = two_tables();
    let manifest = |extension: &str| shell.files("db/sound/manifest", extension).remove(0);
    // The version and the features in front of each file.
    for (path, places) in [
        (shell.path("db/sound/CURRENT"), [10, 11, 12]),
        (manifest("root"), [8, 16, 23]),
        (manifest("chunk"), [8, 16, 23]),
    ] {
        let whole = fs::read(&path).unwrap();
        for at in places {
            let mut flipped = whole.clone();
            flipped[at] ^= 2;
            fs::write(&path, &flipped).unwrap();
            for line in ["verify db/sound", "export db/sound -o -"] {
                let (code, _, stderr) = shell.run(line);
                assert_eq!(code, 3, "{} {at} {line}: {stderr}", path.display());
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(shell.run("verify db/sound").0, 0);
}

#[test]
fn a_row_of_text_may_have_an_eighth_of_the_memory_limit() {
    let shell = Shell::new();
    assert_eq!(shell.pipe("query -q db", "CREATE TABLE t (a INT)").0, 0);
    let long = "x".repeat(13 << 20);
    shell.file("long.csv", format!("a,b\n1,{long}\n2,y\n"));
    shell.file("long.jsonl", format!("{{\"a\": 1, \"b\": \"{long}\"}}\n"));
    for name in ["long.csv", "long.jsonl"] {
        let sql = format!("SELECT sum(a) AS s, max(length(b)) AS m FROM '{name}'");
        let query =
            |limit: &str| shell.pipe(&format!("query db --memory-limit {limit}"), sql.as_str());
        let load = |limit: &str| {
            shell.run(&format!("ingest -q {name}.db/t {name} --memory-limit {limit}"))
        };
        for (code, _, stderr) in [query("64MiB"), load("64MiB")] {
            assert!(code != 0 && stderr.contains("an eighth of the memory limit"), "{stderr}");
        }
        for (code, _, stderr) in [query("512MiB"), load("512MiB")] {
            assert_eq!(code, 0, "{stderr}");
        }
    }
}

#[test]
fn a_line_break_in_a_name_does_not_break_the_line_of_a_message() {
    let shell = two_tables();
    shell.file("a\nb.csv", "x\n1\n");
    let lines = [
        ("query db", "SELECT * FROM \"t\nu\"", 6, "t\\nu"),
        ("query db", "SELECT \"t\nu\" FROM (SELECT 1 AS a)", 1, "t\\nu"),
        ("query db", "SELECT * FROM 'a\nb.parquet'", 6, "a\\nb.parquet"),
        ("query db", "SELECT no_such(1, 'a\nb')", 1, "no_such"),
        ("query db", "SELECT CAST('1\n2' AS INT)", 1, "1\\n2"),
    ];
    for (line, sql, exit, shown) in lines {
        let (code, _, stderr) = shell.pipe(line, sql);
        assert!(code == exit && stderr.contains(shown), "{sql}: {code} {stderr}");
        assert!(stderr.lines().count() <= 2, "{sql}: {stderr}");
    }
    let (code, _, stderr) = shell.sh("sty ingest db/t \"$(printf 'a\\nb.csv')\" --schema y:int");
    assert!(code != 0 && stderr.contains("a\\nb.csv"), "{stderr}");
}

#[test]
fn files_of_any_length_in_a_manifest_are_not_read() {
    for kind in ["chunk", "root"] {
        let shell = two_tables();
        let name = shell.files("db/t/manifest", kind).pop().unwrap();
        let file = fs::OpenOptions::new().write(true).open(&name).unwrap();
        // A hole takes no disk, and reading it would take all memory.
        file.set_len(1 << 40).unwrap();
        for line in ["query db", "verify db/t", "tables db", "export db/t -o -"] {
            let (code, _, stderr) = shell.pipe(line, "SELECT * FROM t");
            assert_eq!(code, 3, "{line}: {stderr}");
            assert!(stderr.contains("it has 1099511627776 bytes, and "), "{stderr}");
        }
    }
}

#[test]
fn few_wide_rows_are_not_many_in_memory() {
    let shell = Shell::new();
    shell.file("a.csv", "id\n1\n");
    shell.stdout("ingest -q db/t a.csv");
    // Each would take gigabytes: a text or a list, repeated for each of 20,000 rows or more.
    let many = "generate_series(1, 20000) t(v)";
    let text = "string_agg(repeat('x', 1000), ',')";
    let wide = format!("SELECT repeat('x', 10000 - length(v::text)) || v AS a FROM {many}");
    for (sql, answer) in [
        (
            format!(
                "SELECT count(*) FROM (SELECT repeat('x', 300000) s, v FROM {many}) \
                  WHERE s <> v::text"
            ),
            "20000",
        ),
        (
            format!(
                "SELECT max(length(s)) FROM (SELECT {text} s FROM generate_series(1, 1000)) a, \
                  generate_series(1, 300) WHERE s <> value::text"
            ),
            "1000999",
        ),
        (
            format!(
                "SELECT max(length(s || v)) FROM (SELECT (SELECT {text} FROM \
                  generate_series(1, 1000)) s, v FROM generate_series(1, 300) t(v))"
            ),
            "1001002",
        ),
        (
            format!(
                "SELECT count(*) FROM (SELECT unnest(range(0, 3)), repeat('x', 300000) s, v \
                  FROM {many}) WHERE s <> v::text"
            ),
            "60000",
        ),
        (format!("SELECT max(length(a || a)) FROM ({wide})"), "20000"),
        (
            format!("SELECT count(*) FROM (SELECT a FROM ({wide}) UNION SELECT a FROM ({wide}))"),
            "20000",
        ),
        (
            format!(
                "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY a) r, a FROM ({wide})) WHERE a > ''"
            ),
            "20000",
        ),
    ] {
        let options = "--memory-limit 64MiB --stats=json --format csv --no-header";
        let (code, out, stderr) = shell.pipe(&format!("query db {options}"), sql.as_str());
        assert_eq!((code, out.trim()), (0, answer), "{sql}: {stderr}");
        let stats: serde_json::Value = serde_json::from_str(&stderr).unwrap();
        let peak = stats["peak_memory_bytes"].as_u64().unwrap();
        assert!(peak < 320 << 20, "{sql}: {peak}");
    }
    let sql = format!("SELECT length(array_to_string(array_agg(a), '')) FROM ({wide})");
    let (code, _, stderr) = shell.pipe("query db --memory-limit 64MiB", sql.as_str());
    assert!(code == 5 && stderr.contains("limit exceeded"), "{code} {stderr}");
}

#[test]
fn a_table_is_no_store_and_neither_is_any_other_directory() {
    let shell = Shell::new();
    fs::create_dir(shell.path("other")).unwrap();
    shell.file("other/a.csv", "a\n1\n");
    shell.stdout_of("query db", "CREATE TABLE t AS SELECT 1 AS a");
    for (line, sql) in [
        ("query db/t", "CREATE TABLE data AS SELECT 2 AS b"),
        ("query db/t/data", "CREATE TABLE x AS SELECT 2 AS b"),
        ("query db/t", "SELECT 1 FROM t"),
        ("ingest db/t/x other/a.csv", ""),
        ("tables db/t", ""),
        ("verify db/t/data", ""),
    ] {
        let (code, _, stderr) = shell.pipe(line, sql);
        assert!(code != 0 && stderr.contains("is no store"), "{line}: {code} {stderr}");
    }
    assert_eq!(shell.stdout_of("query db", "SELECT a FROM t"), "a\n1\n");
    for line in ["tables other", "verify other", "gc other"] {
        let (code, _, stderr) = shell.run(line);
        assert!(code == 6 && stderr.contains("there are no tables in it"), "{line}: {stderr}");
    }
}

#[test]
fn kept_generations_are_verified_if_asked() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t AS SELECT 1 AS a");
    shell.stdout("alter db/t keep 7d");
    for value in 2..5 {
        shell.stdout_of("query db", &format!("INSERT INTO t VALUES ({value})"));
    }
    let mut roots = shell.files("db/t/manifest", "root");
    roots.sort();
    assert!(roots.len() > 2);
    shell.stdout("verify db --kept");
    let mut bytes = std::fs::read(&roots[0]).unwrap();
    bytes[40..60].fill(0);
    shell.rewrite(roots[0].to_str().unwrap(), bytes);
    shell.stdout("verify db");
    let (code, _, stderr) = shell.run("verify db --kept");
    assert!(code == 3 && stderr.contains("(table 't@"), "{code} {stderr}");
}
