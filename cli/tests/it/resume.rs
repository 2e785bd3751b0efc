//! Loads that stop and go on: every row is once in the table or in the rejects file.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::shell::Shell;

const ROWS: usize = 400_000;

/// Several chunks of text in which every 1000th row is bad, and the number of bad rows.
fn rows_with_faults() -> (String, usize) {
    let mut csv = String::from("id,v\n");
    for row in 0..ROWS {
        let _ = match row % 1000 {
            7 => writeln!(csv, "x{row},\"a\"\"b, {row}\""),
            _ => writeln!(csv, "{row},some text of row {row} that takes its room"),
        };
    }
    (csv, ROWS / 1000)
}

const LOAD: &str = "ingest -q db/t --schema id:int64 --commit-every 30000 --rejects bad.csv a.csv";

/// Checks that the table and the rejects file together hold all rows.
fn check(shell: &Shell, bad: usize, about: &str) {
    let stored =
        shell.stdout_of("query db", "SELECT count(*) AS n, count(DISTINCT id) AS d FROM t");
    assert_eq!(stored, format!("n,d\n{0},{0}\n", ROWS - bad), "{about}");
    let rejects = std::fs::read_to_string(shell.path("bad.csv")).unwrap();
    let expected: String = (0..bad)
        .map(|n| {
            let row = n * 1000 + 7;
            format!(
                "a.csv,{},id,'x{row}' is not of type int64,\"x{row},\"\"a\"\"\"\"b, {row}\"\"\"\n",
                row + 2
            )
        })
        .collect();
    assert!(
        rejects == format!("file,line,column,reason,raw\n{expected}"),
        "{about}: {} lines",
        rejects.lines().count()
    );
}

#[test]
fn a_killed_load_goes_on_with_its_rejects() {
    let (csv, bad) = rows_with_faults();
    let mut stopped = 0;
    for (at, force) in
        [(5_u64, ""), (40, ""), (60, ""), (80, " --force"), (110, ""), (150, ""), (200, " --force")]
    {
        let shell = Shell::new();
        shell.file("a.csv", &csv);
        let line = format!("{LOAD}{force}");
        for wait in [at, at / 2 + 20] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_sty"))
                .args(line.split_whitespace())
                .current_dir(shell.path(""))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(wait));
            child.kill().unwrap();
            stopped += usize::from(!child.wait().unwrap().success());
        }
        let (code, _, stderr) = shell.run(&line);
        // The load is refused if it was complete before it was killed.
        assert!(
            code == 0 || stderr.contains("was loaded before") || stderr.contains("exists already"),
            "{stderr}"
        );
        check(&shell, bad, &format!("killed after {at} ms{force}"));
    }
    assert!(stopped > 5, "{stopped}");
}

#[test]
fn a_load_that_had_too_many_rejects_goes_on_with_them() {
    let shell = Shell::new();
    let (csv, bad) = rows_with_faults();
    shell.file("a.csv", &csv);
    for most in [150, 151, 300] {
        let (code, _, stderr) = shell.run(&format!("{LOAD} --max-errors {most}"));
        assert_eq!(code, 4, "{stderr}");
        assert!(shell.path("bad.csv").exists(), "a commit came before");
    }
    // Another file lacks the rows that the table counts, and foreign rows are not taken for them.
    let (code, _, stderr) = shell.run(&LOAD.replace("bad.csv", "other.csv"));
    assert!(code == 1 && stderr.contains("the file does not hold them"), "{stderr}");
    let foreign = format!("file,line,column,reason,raw\n{}", "z.csv,1,,reason,raw\n".repeat(bad));
    shell.file("foreign.csv", &foreign);
    let (code, _, stderr) = shell.run(&LOAD.replace("bad.csv", "foreign.csv"));
    assert!(code == 1 && stderr.contains("the file does not hold them"), "{stderr}");
    assert_eq!(std::fs::read_to_string(shell.path("foreign.csv")).unwrap(), foreign);
    assert_eq!(shell.run(LOAD), (0, String::new(), String::new()));
    check(&shell, bad, "after three stops");
    let left: Vec<_> = std::fs::read_dir(shell.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 4, "{left:?}");
    // The load is complete, and its rejects file is not continued by another load.
    let (code, _, stderr) = shell.run(LOAD);
    assert!(code == 2 && stderr.contains("bad.csv: exists already"), "{stderr}");
}

#[test]
fn a_file_that_grows_is_loaded_again_and_again() {
    let shell = Shell::new();
    shell.file("x.csv", "id,v\n1,a\n");
    shell.stdout("ingest -q db/t x.csv");
    shell.rewrite("x.csv", "id,v\n1,a\n2,b\n");
    let (code, stdout, stderr) = shell.run("ingest db/t x.csv");
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    for part in ["x.csv was loaded before with 9 bytes and has 13 now", "--if-loaded new-rows"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    let (code, _, stderr) = shell.run("ingest db/t x.csv --if-loaded skip");
    let note = "x.csv has changed since it was loaded (9 bytes then, 13 now): left out";
    assert!(code == 0 && stderr.contains(note), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/t x.csv --if-loaded new-rows");
    let note = "x.csv: only what was added after the first 9 bytes, which were loaded before";
    assert!(code == 0 && stderr.contains(note) && stderr.contains("1 row: "), "{stderr}");
    let report = shell.stdout("ingest -q db/t x.csv --if-loaded new-rows --report json");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["rows_read"], 0);
    assert_eq!(report["loaded_before"], serde_json::json!(["x.csv"]));
    shell.rewrite("x.csv", "id,v\n1,a\n2,b\n3,c\n4\n");
    let report =
        shell.stdout("ingest -q db/t x.csv --if-loaded new-rows --report json --rejects bad.csv");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["rows_stored"], &report["rows_rejected"]), (&1.into(), &1.into()));
    assert_eq!(report["added"], serde_json::json!(["x.csv"]));
    let bad = std::fs::read_to_string(shell.path("bad.csv")).unwrap();
    assert!(bad.ends_with("x.csv,5,,\"1 field, expected 2\",4\n"), "{bad}");
    shell.rewrite("x.csv", "id,v\n1,z\n2,b\n3,c\n4\n5,e\n");
    let (code, _, stderr) = shell.run("ingest db/t x.csv --if-loaded new-rows");
    assert!(code == 1 && stderr.contains("not those that were loaded"), "{stderr}");
    // The same bytes under another name.
    shell.file("y.csv", "id,v\n9,y\n").file("elsewhere.csv", "id,v\n9,y\n");
    shell.stdout("ingest -q db/t y.csv");
    let (code, _, stderr) = shell.run("ingest db/t elsewhere.csv --if-loaded skip");
    assert!(code == 0 && stderr.contains("elsewhere.csv was loaded before"), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/t elsewhere.csv");
    assert!(code == 0 && stderr.contains("elsewhere.csv has the bytes of "), "{stderr}");
    let stored = shell.stdout_of("query db", "SELECT id FROM t ORDER BY id");
    assert_eq!(stored, "id\n1\n2\n3\n9\n9\n");
}

/// Killed at any moment, a load of new rows has stored all of them or none.
#[test]
fn a_killed_load_of_new_rows_neither_loses_nor_doubles_any() {
    let line = "ingest -q db/t a.csv --if-loaded new-rows --commit-every 30000";
    for at in [5_u64, 40, 80, 120, 200] {
        let shell = Shell::new();
        let rows = |to: usize| {
            (0..to).fold(String::from("id,v\n"), |mut csv, row| {
                let _ = writeln!(csv, "{row},some text of row {row} that takes its room");
                csv
            })
        };
        shell.file("a.csv", rows(1000));
        shell.stdout("ingest -q db/t a.csv");
        shell.rewrite("a.csv", rows(ROWS));
        let mut child = Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(line.split_whitespace())
            .current_dir(shell.path(""))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(at));
        child.kill().unwrap();
        child.wait().unwrap();
        // It grows once more in between.
        shell.rewrite("a.csv", rows(ROWS + 10));
        assert_eq!(shell.run(line), (0, String::new(), String::new()), "killed after {at} ms");
        let stored =
            shell.stdout_of("query db", "SELECT count(*) AS n, count(DISTINCT id) AS d FROM t");
        assert_eq!(stored, format!("n,d\n{0},{0}\n", ROWS + 10), "killed after {at} ms");
    }
}
