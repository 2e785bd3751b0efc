//! How far a command is, on stderr: lines where there is no terminal, a bar on one.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::shell::Shell;

/// Rows of which the second half comes after a second.
const SLOW: &str = "(seq 1 1000; sleep 1; seq 1001 2000)";

#[test]
fn lines_are_printed_where_there_is_no_terminal() {
    let shell = Shell::new();
    let ingest = "sty ingest db/t --names a --no-header -";
    let (code, stdout, stderr) = shell.sh(&format!("{SLOW} | {ingest} --progress always"));
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    // The input is a pipe: how much will come is not known.
    assert!(lines.len() >= 2 && lines[0].contains("iB, "), "{stderr}");
    assert!(lines[lines.len() - 1].starts_with("2,000 rows: "), "{stderr}");
    assert!(!stderr.contains('\x1b') && !stderr.contains('\r'), "{stderr}");

    for quiet in ["", "--progress never", "--progress always -q", "--progress auto"] {
        let (_, _, stderr) = shell.sh(&format!("{SLOW} | {ingest} {quiet}"));
        assert!(stderr.lines().count() <= 1, "{quiet}: {stderr}");
    }
    let variable = format!("{SLOW} | STY_PROGRESS=always {ingest}");
    assert!(shell.sh(&variable).2.lines().count() >= 2);
}

#[test]
fn what_takes_no_time_shows_nothing() {
    let shell = Shell::new();
    shell.stdout_of("query db -q", "CREATE TABLE t (a INT)");
    let (_, stdout, stderr) = shell.sh("sty query db 'SELECT 1 AS a' --progress always");
    assert_eq!((stdout.as_str(), stderr.as_str()), ("a\n1\n", ""));
}

/// On a terminal the bar comes, and is gone when the answer and the summary are there.
#[test]
fn a_bar_is_drawn_and_erased_on_a_terminal() {
    if !Shell::has("tmux") {
        return;
    }
    let shell = Shell::new();
    let numbers: String = (0..400_000).map(|n| format!("{n},{}\n", n % 7)).collect();
    shell.file("t.csv", format!("a,b\n{numbers}"));
    let directory = shell.path(".");
    let socket = directory.join("tmux");
    let tmux = |args: &[&str]| {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&socket).args(args).current_dir(&directory);
        let output = tmux.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let sty = env!("CARGO_BIN_EXE_sty");
    // A FIFO that is a regular file's size behind keeps the bar there long enough to be seen.
    let command = format!(
        "mkfifo f; (head -c 1000000 t.csv; sleep 2; tail -c +1000001 t.csv) > f & \
         STY_CONFIG= {sty} ingest db/t - < f; echo END; sleep 30"
    );
    tmux(&["new-session", "-d", "-x", "80", "-y", "24", &format!("sh -c '{command}'")]);
    let started = Instant::now();
    let (mut drawn, mut last) = (false, String::new());
    while started.elapsed() < Duration::from_secs(60) && !last.contains("END") {
        std::thread::sleep(Duration::from_millis(50));
        last = tmux(&["capture-pane", "-p"]);
        drawn |= last.contains(" KiB, ") || last.contains(" MiB, ");
    }
    tmux(&["kill-server"]);
    assert!(drawn, "{last}");
    let lines: Vec<&str> = last.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[0].starts_with("400,000 rows: "), "{last}");
    assert_eq!(lines.last(), Some(&"END"), "{last}");
}
