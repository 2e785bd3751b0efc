//! The codes of errors, as programs see them: each is met here, has a row in `docs/reference.md`,
//! and comes as one object that fits its schema, also where the command line is wrong.

use std::collections::BTreeSet;
use std::path::Path;

use super::schemas::{check, schema};
use super::shell::Shell;

/// The table is written by a load that waits for its first row.
const BUSY: &str = "mkfifo rows; sty ingest -q db/t rows & exec 3> rows
    while ! grep -q . db/t/LOCK; do sleep 0.01; done
    sty compact db/t 3>&-; code=$?; echo a >&3; exec 3>&-; wait; exit $code";

/// What each code comes of, with the exit code. An unconfirmed commit needs a disk that fails: the
/// unit tests of `errors.rs` have one.
const CASES: [(&str, i32, &str); 28] = [
    ("usage", 2, "sty frobnicate"),
    ("usage", 2, "sty query db --no-such-option"),
    ("usage", 2, "sty query db 'SELECT 1' --threads many"),
    ("usage", 2, "sty"),
    ("config", 2, "STY_THREADS=none sty tables db"),
    ("usage", 2, "sty query db 'SELECT 1' -o a.csv"),
    ("usage", 2, "sty ingest db/t a.csv --max-errors 1"),
    ("config", 2, "STY_CONFIG=wrong.toml sty tables db"),
    ("not-found", 6, "sty tables nowhere"),
    ("not-found", 6, "sty query db 'SELECT * FROM nowhere'"),
    ("not-found", 6, "sty schema db/nowhere"),
    ("not-found", 6, "sty ingest db/t nowhere.csv"),
    ("not-found", 6, "sty inspect db/t --column nowhere"),
    ("not-found", 6, "STY_CONFIG=nowhere.toml sty tables db"),
    ("invalid-input", 1, "sty query db 'SELEC 1'"),
    ("invalid-input", 1, "sty query db 'SELECT nothing FROM t'"),
    ("invalid-input", 1, "sty ingest db/t a.csv"),
    ("busy", 1, BUSY),
    ("unreachable", 1, "sty query --cluster nodes.toml 'SELECT * FROM t'"),
    ("unsupported", 1, "sty query db 'CREATE TABLE x (a INT PRIMARY KEY)'"),
    ("io", 1, "sty query db 'SELECT 1' > /dev/full"),
    ("rejected", 4, "sty ingest db/u bad.csv --schema a:int --on-error skip --max-errors 0"),
    ("limit-exceeded", 5, "sty query db 'SELECT 1' --timeout 1ns"),
    ("limit-exceeded", 5, "sty query db \"SELECT length(repeat('x', 3000000000))\""),
    ("unreported", 7, "sty query db 'INSERT INTO t VALUES (5)' > /dev/full"),
    ("corrupt", 3, "rm db/t/CURRENT && sty query db 'SELECT * FROM t'"),
    ("corrupt", 3, "sty ingest db/t b.csv"),
    ("cancelled", 130, "sleep 2 2> /dev/null | sty query db & sleep 0.5; kill -TERM $!; wait $!"),
];

#[test]
fn every_code_is_met_documented_and_one_object() {
    let shell = Shell::new();
    shell.file("a.csv", "a\n1\n2\n").file("b.csv", "a\n3\n").file("bad.csv", "a\n1\nx\n");
    shell.file("wrong.toml", "[query]\nnothing = 1\n");
    // Nobody listens at port 9.
    let nodes = "secret = '0123456789abcdef'\n[nodes]\na = 'http://127.0.0.1:9'\n";
    shell.file("nodes.toml", nodes);
    shell.stdout("ingest -q db/t a.csv");
    let mut met = BTreeSet::new();
    for (code, exit, line) in CASES {
        if line.contains("/dev/full") && !Path::new("/dev/full").exists() {
            met.insert(code.to_owned());
            continue;
        }
        let (status, stdout, stderr) = shell.sh(&format!("export STY_ERROR_FORMAT=json; {line}"));
        assert_eq!((status, stdout.as_str()), (exit, ""), "{line}: {stderr}");
        assert_eq!(stderr.matches('\n').count(), 1, "{line}: {stderr}");
        let error = check("error", &stderr);
        assert_eq!(error["code"], code, "{line}: {stderr}");
        met.insert(code.to_owned());
    }
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let (_, table) = reference.split_once("\n| code | meaning |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let all = schema("error")["properties"]["code"]["enum"].clone();
    for code in all.as_array().unwrap() {
        let code = code.as_str().unwrap();
        assert!(table.contains(&format!("`{code}`")), "docs/reference.md lacks {code}");
        let only_by_fault = ["unconfirmed", "failed", "partly-stored"];
        assert!(met.contains(code) || only_by_fault.contains(&code), "{code} is not met");
    }
    for (code, exit, _) in CASES {
        let row = |line: &&str| line.starts_with(&format!("| {exit} |"));
        let name = format!("`{code}`");
        assert!(table.lines().filter(row).any(|line| line.contains(&name)), "{exit} of {code}");
    }
}
