//! Conventions of every command: help, exit codes, the form of errors, closed pipes. `POINTS.md`
//! beside this folder says what people expect, and which tests hold it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{run, sty};
use crate::shell::Shell;

#[test]
fn help_goes_to_stdout_and_names_the_exit_codes() {
    let (code, stdout, stderr) = run(&["--help"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for line in ["Exit codes:", "2  the command line is wrong", "130  interrupted"] {
        assert!(stdout.contains(line), "{stdout}");
    }
    let (code, short, _) = run(&["-h"]);
    assert_eq!(code, 0);
    assert!(short.len() < stdout.len());
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(
        run(&["--version"]),
        (0, format!("sty {}\n", env!("CARGO_PKG_VERSION")), String::new())
    );
}

#[test]
fn a_wrong_command_line_is_2_and_leaves_stdout_alone() {
    for args in
        [&[][..], &["frobnicate"], &["completions"], &["completions", "bash", "--color", "mauve"]]
    {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(!stderr.is_empty());
    }
}

/// What a newcomer types.
#[test]
fn what_is_no_command_or_no_store_says_what_to_type() {
    let shell = Shell::new();
    shell.file("sales.csv", "city,amount\nBern,3\n");
    for (line, hint) in [
        ("sty sales.csv", "sty query \"FROM 'sales.csv'\" reads it, sty ingest db/sales sales.csv"),
        ("sty query sales.csv", "sty query \"FROM 'sales.csv'\""),
        ("sty query sales.csv 'SELECT 1'", "sty query \"FROM 'sales.csv'\""),
        ("sty shell sales.csv -c 'SELECT 1'", "sty query \"FROM 'sales.csv'\""),
        ("sty 'SELECT 1'", "sty query 'SELECT …'"),
        ("sty import", "did you mean 'ingest'?"),
        ("sty tabels", "did you mean 'tables'?"),
    ] {
        let (code, stdout, stderr) = shell.sh(line);
        assert_eq!((code, stdout.as_str()), (2, ""), "{line}");
        assert!(stderr.contains(hint), "{line}: {stderr}");
    }
    // The hints work.
    assert_eq!(shell.sh("sty query \"FROM 'sales.csv'\"").0, 0);
    assert_eq!(shell.sh("sty ingest db/sales sales.csv").0, 0);
}

#[test]
fn errors_as_json_are_one_object() {
    for args in
        [&["--error-format", "json", "frobnicate"][..], &["frobnicate", "--error-format=json"]]
    {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.as_str()), (2, ""));
        let object: serde_json::Value = serde_json::from_str(&stderr).unwrap();
        assert_eq!(object["code"], "usage");
        assert!(object["message"].as_str().unwrap().contains("frobnicate"));
        for key in ["file", "offset", "hint"] {
            assert!(object.get(key).is_some(), "{key}");
        }
    }
    let output = sty(&["frobnicate"]).env("STY_ERROR_FORMAT", "json").output().unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stderr).is_ok());
}

#[test]
fn a_closed_stdout_is_success_and_silent() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["completions", "bash"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn stdout_that_is_not_open_is_as_good_as_a_null_device() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE t (a INT)");
    for line in ["sty query db 'SELECT 1' >&-", "sty completions bash >&-", "sty --help >&-"] {
        assert_eq!(shell.sh(line), (0, String::new(), String::new()), "{line}");
    }
    let (code, stdout, _) = shell.sh("sty query db 'SELEC 1' >&- 2>&-");
    assert_eq!((code, stdout.as_str()), (1, ""));
}

#[test]
fn no_folder_for_a_file_is_told_by_the_name_that_was_given() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE t (a INT)");
    for line in ["sty query db 'FROM t' -o no/x.csv", "sty export db/t -o no/x.csv"] {
        let (code, _, stderr) = shell.sh(line);
        assert_eq!(code, 6, "{stderr}");
        assert_eq!(stderr, "error: no/x.csv: No such file or directory (os error 2)\n", "{line}");
    }
    shell.file("a.csv", "a\nx\n");
    let (code, _, stderr) = shell.run("ingest -q db/u a.csv --schema a:int --rejects no/x.csv");
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.starts_with("error: no: No such file") && !stderr.contains(".sty"), "{stderr}");
}

#[test]
fn a_timeout_of_zero_is_none() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE t (a INT)");
    for zero in ["0", "0s", "0ms"] {
        assert_eq!(shell.sh(&format!("sty query db 'SELECT 1 AS a' --timeout {zero}")).1, "a\n1\n");
    }
    assert_eq!(shell.sh("STY_TIMEOUT=0 sty query db 'SELECT 1 AS a'").1, "a\n1\n");
}

/// A table of tests is worth something only while they are there.
#[test]
fn every_point_names_tests_that_are_there() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let points = read(&project.join("cli/tests/POINTS.md"));
    let mut held = Vec::new();
    for row in points.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let (point, tests) = (row.split(" | ").next().unwrap(), row.rsplit(" | ").next().unwrap());
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row}");
        for name in named {
            let (file, test) = name.rsplit_once("::").unwrap_or((name, ""));
            let path = match file.ends_with(".rs") {
                true => project.join(file),
                false => project.join(format!("cli/tests/it/{file}.rs")),
            };
            assert!(read(&path).contains(&format!("fn {test}() {{")), "{name} is no test");
        }
        held.push(point.trim_start_matches("| ").to_owned());
    }
    for point in 1..=15 {
        assert!(held.contains(&point.to_string()), "no test holds point {point}");
    }
}
