//! `--timeout`, `--memory-limit` and `--threads` of all commands.

use super::run;
use super::shell::Shell;

/// Every command that works on a table.
const COMMANDS: [&str; 18] = [
    "ingest db/t x.csv",
    "query db SELECT(1)",
    "tables db",
    "schema db/t",
    "partitions db/t",
    "manifest db/t",
    "export db/t -o -",
    "compact db/t --all",
    "alter db/t add b:utf8",
    "alter db/t keep 1d",
    "drop-partition db/t year=2009",
    "gc db",
    "bench db SELECT(1)",
    "inspect db/t",
    "verify db",
    "repair db",
    "config",
    "completions bash",
];

fn store() -> Shell {
    let shell = Shell::new();
    shell.file("x.csv", "a,year\n1,2009\n2,2010\n3,2010\n");
    shell.stdout("ingest -q db/t x.csv --partition-by year");
    shell
}

#[test]
fn all_commands_take_limits() {
    let shell = store();
    for command in COMMANDS {
        let limits = "--threads 1 --memory-limit 64MiB --timeout 1m";
        let again = if command.starts_with("ingest") { "--if-loaded again" } else { "" };
        let (code, _, stderr) = shell.run(&format!("{command} {again} {limits}"));
        assert_eq!(code, 0, "{command}: {stderr}");
    }
}

#[test]
fn a_timeout_ends_every_command() {
    let shell = store();
    let before = shell.stdout("manifest db/t --format json");
    for command in COMMANDS {
        let (code, stdout, stderr) = shell.run(&format!("{command} --timeout 1ns"));
        assert_eq!((code, stdout.as_str()), (5, ""), "{command}: {stderr}");
        assert_eq!(stderr, "error: timeout of 0 µs reached\n", "{command}");
    }
    assert_eq!(shell.stdout("manifest db/t --format json"), before);
    if Shell::has("mkfifo") {
        // Nobody reads what is written.
        assert_eq!(shell.sh("mkfifo pipe").0, 0);
        for command in
            ["export db/t -o pipe", "query db VALUES(1) -o pipe", "manifest db/t -o pipe"]
        {
            let (code, _, stderr) = shell.run(&format!("{command} --timeout 100ms"));
            assert_eq!((code, stderr.as_str()), (5, "error: timeout of 100 ms reached\n"));
        }
    }
}

#[test]
fn a_timeout_holds_for_rows_and_statements_that_do_not_come() {
    let shell = store();
    for line in ["sty ingest -q db/u -", "sty query db", "sty bench db"] {
        let (code, _, stderr) = shell.sh(&format!("sleep 1 | {line} --timeout 200ms"));
        assert_eq!((code, stderr.as_str()), (5, "error: timeout of 200 ms reached\n"), "{line}");
    }
    // What has been committed on the way stays.
    let line =
        "(echo '{\"a\": 1}'; sleep 2) | sty ingest -q db/u --commit-every 50ms --timeout 1s -";
    let (code, _, stderr) = shell.sh(line);
    assert_eq!((code, stderr.as_str()), (5, "error: timeout of 1.00 s reached\n"));
    assert_eq!(shell.sh("sty query db 'SELECT a FROM u' --no-header").1, "1\n");
}

#[test]
fn a_memory_limit_holds_for_what_is_decoded() {
    let shell = Shell::new();
    // One text that every row has: a few stored bytes that unfold to many.
    let sql = "CREATE TABLE t AS SELECT repeat('x', 200000) || (value % 3) AS a FROM \
               generate_series(1, 400)";
    shell.stdout_of("query -q db", sql);
    let store = shell.path("db");
    let table = store.join("t");
    let (store, table) = (store.to_str().unwrap(), table.to_str().unwrap());
    let commands: [&[&str]; 5] = [
        &["export", table, "-o", "/dev/null", "--format", "csv"],
        &["verify", store],
        &["inspect", table],
        &["repair", store],
        &["query", store, "SELECT string_agg(a, '') FROM t"],
    ];
    for command in commands {
        let limited = [command, &["--memory-limit", "4MiB"]].concat();
        let (code, _, stderr) = run(&limited);
        assert!(code == 5 || code == 0, "{command:?}: {code} {stderr}");
        assert_eq!(run(&[command, &["--memory-limit", "1GiB"]].concat()).0, 0, "{command:?}");
    }
}

#[test]
fn a_thousand_queries_are_joined() {
    let shell = Shell::new();
    let one = |number: usize| format!("SELECT * FROM (SELECT {number} AS a) s{number}");
    let all: Vec<String> = (0..1000).map(one).collect();
    let sql = format!("SELECT count(*) FROM ({})", all.join(" UNION ALL "));
    shell.file("all.sql", &sql);
    assert_eq!(shell.stdout("query - -f all.sql --no-header"), "1000\n");
}

#[test]
fn statements_longer_than_the_memory_are_not_read_whole() {
    let shell = Shell::new();
    let long = format!("SELECT 1 -- {}", "ä".repeat(1 << 20));
    shell.file("long.sql", &long);
    let too_long = "long.sql: statements of more than 1048576 bytes";
    let (code, _, stderr) = shell.run("query - -f long.sql --memory-limit 1MiB");
    assert!(code == 5 && stderr.contains(too_long), "{code} {stderr}");
    let (code, _, stderr) = shell.pipe("query - - --memory-limit 1MiB", long.as_str());
    assert!(code == 5 && stderr.contains("stdin: statements of more"), "{code} {stderr}");
    assert_eq!(shell.stdout("query - -f long.sql --no-header"), "1\n");
}
