//! Conventions of every command: help, exit codes, the form of errors, closed pipes.
//!
//! What people who use command lines expect, and the tests that hold it. Files are in this folder
//! unless another is named.
//!
//! | point | what is expected | held by |
//! | --- | --- | --- |
//! | 1 | `-` is stdin and stdout; help instead of a wait for a terminal | `ingest`, `files`, `pipelines::answers_become_tables_and_meet_rows_on_stdin` |
//! | 2 | stdout has data only | `a_wrong_command_line_is_2_and_leaves_stdout_alone`, `codes`, `pipelines` |
//! | 3 | formats, and one rule for values, which read back the same | `src/printers/tests.rs`, `files`, `pipelines::other_programs_read_arrow_and_parquet_on_stdin` |
//! | 4 | exit codes; a closed stdout stops the scan and is success | `codes`, `a_closed_stdout_is_success_and_silent`, `pipelines::a_reader_that_has_enough_ends_the_query_with_success`, `stops` |
//! | 5 | `--error-format json`: one object, stable codes | `codes`, `errors_as_json_are_one_object` |
//! | 6 | progress on a terminal only; `-q`, `-v`, `NO_COLOR`, `TERM=dumb` | `progress`, `src/terminal.rs`, `config::settings_are_in_force` |
//! | 7 | SQL as an argument, a file, stdin; parameters; files as tables | `files`, `write`, `pipelines::process_substitution_and_xargs` |
//! | 8 | inputs and compressions by their first bytes; patterns, directories, stdin | `ingest`, `files`, `pipelines::named_pipes_are_read_and_written` |
//! | 9 | options of CSV; rejects name file, line, column, value and type | `ingest`, `resume` |
//! | 10 | `--threads`, `--memory-limit`, `--timeout`, `--temp-dir` with human units | `limits`, `stops`, `src/units.rs` |
//! | 11 | `--dry-run` says what would be read; `--stats` what was | `dry_run`, `stats`, `schemas` |
//! | 12 | flag before variable before config file before default; scripts get the same everywhere | `config` |
//! | 13 | the shell | `interactive`, `answers`, `src/shell/` |
//! | 14 | files appear when complete; nothing is replaced without `--force` | `src/output.rs`, `answers`, `files`, `stops` |
//! | 15 | no network, no prompt; a quick start | `tests/it/supply.rs` of the library; `sty bench`, `benches/versus` |

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
