//! Queries that are stopped: by a timeout, by a signal, and where they do not look.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::run;

/// Keeps the planner busy for a while, which does not look at the clock.
fn hard_to_plan() -> String {
    format!("SELECT {}", vec![format!("1{}", " + 1".repeat(900)); 30].join(", "))
}

#[test]
fn a_timeout_ends_planning_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let answer = directory.path().join("answer.csv");
    let (store, answer) = (store.to_str().unwrap(), answer.to_str().unwrap());
    assert_eq!(run(&["query", store, "CREATE TABLE t AS SELECT 1 AS a"]).0, 0);
    let args = ["query", store, &hard_to_plan(), "--timeout", "100ms", "-o", answer];
    let (code, stdout, stderr) = run(&args);
    assert_eq!((code, stdout.as_str()), (5, ""), "{stderr}");
    assert_eq!(stderr.matches("timeout of 100 ms reached").count(), 1, "{stderr}");
    let left: Vec<_> =
        directory.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["db"]);
}

#[test]
fn a_signal_ends_planning() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let store = store.to_str().unwrap();
    assert_eq!(run(&["query", store, "CREATE TABLE t AS SELECT 1 AS a"]).0, 0);
    for signal in ["INT", "TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(["query", store, &hard_to_plan()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal}: {stderr}");
        assert_eq!(stderr.matches("interrupted").count(), 1, "{signal}: {stderr}");
    }
}
