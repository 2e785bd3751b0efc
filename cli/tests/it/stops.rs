//! Commands that are stopped: by a timeout, by a signal, and where they do not look.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use super::run;
use super::shell::Shell;

/// A command that reads what it is fed.
fn fed(directory: &Path, args: &[&str]) -> (Child, ChildStdin) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

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

/// Starts a command in a directory whose `tmp` has the temporary files, sends it a signal after a
/// moment, and waits for its end. Its stdin stays open.
fn stopped(directory: &Path, args: &[&str], signal: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(args)
        .current_dir(directory)
        .env("TMPDIR", directory.join("tmp"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    std::thread::sleep(Duration::from_millis(400));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

fn names(directory: &Path) -> Vec<String> {
    let entries = directory.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_signal_ends_every_command_and_leaves_no_temporary_file() {
    let sort = "SELECT * FROM generate_series(1, 30000000) ORDER BY value % 1000, value DESC";
    let commands: [&[&str]; 8] = [
        &["query", "db", &hard_to_plan()],
        // Statements and rows from a pipe in which nothing comes.
        &["query", "db"],
        &["bench", "db"],
        &["ingest", "db/t", "-"],
        &["query", "db", sort, "--memory-limit", "1GiB", "-o", "answer.csv"],
        &["gen", "trips", "--rows", "100000000", "-o", "trips"],
        &["gen", "trips", "--rows", "100000000", "--format", "parquet", "-o", "trips"],
        &["demo", "--rows", "100000000"],
    ];
    for (at, args) in commands.iter().enumerate() {
        let signal = if at % 2 == 0 { "TERM" } else { "INT" };
        let directory = tempfile::tempdir().unwrap();
        let (directory, temporary) = (directory.path(), directory.path().join("tmp"));
        std::fs::DirBuilder::new().create(&temporary).unwrap();
        let store = directory.join("db");
        let create = "CREATE TABLE t AS SELECT 1 AS a";
        assert_eq!(run(&["query", store.to_str().unwrap(), create]).0, 0);
        let output = stopped(directory, args, signal);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{args:?}: {stderr}");
        assert_eq!(stderr.matches("interrupted").count(), 1, "{args:?}: {stderr}");
        assert_eq!(names(&temporary), [""; 0], "{args:?}");
        let mut left = names(directory);
        left.retain(|name| name != "trips");
        left.sort_unstable();
        assert_eq!(left, ["db", "tmp"], "{args:?}");
        if directory.join("trips").exists() {
            assert_eq!(names(&directory.join("trips")), [""; 0], "{args:?}");
        }
    }
}

/// A command has a stack of its own, however little the system gives to the process.
#[test]
fn a_small_stack_is_enough() {
    let shell = Shell::new();
    let (code, stdout, stderr) =
        shell.sh("ulimit -s 64 && sty query 'SELECT sum(v) FROM generate_series(1, 4) g(v)'");
    assert_eq!((code, &*stdout), (0, "sum(v)\n10\n"), "{stderr}");
}

/// Where the system starts no thread, a second signal ends a command, and no timeout is promised.
#[test]
fn a_command_without_threads_ends() {
    // Limits of processes do not hold for root.
    let is_root = std::fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("Uid:\t0"));
    let user = "setpriv --reuid 54321 --clear-groups ";
    let line = format!("{}prlimit --nproc=1", if is_root { user } else { "" });
    let sty = |args: &[&str]| {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(env!("CARGO_BIN_EXE_sty")).args(args).env("STY_CONFIG", "");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    if !sty(&["--version"]).output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let timed = sty(&["query", "--timeout", "9s", "SELECT 1"]).output().unwrap();
    let stderr = String::from_utf8(timed.stderr).unwrap();
    assert_eq!(timed.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("--timeout needs a thread"), "{stderr}");
    let mut child = sty(&["query", "--threads", "1"]).spawn().unwrap();
    let id = child.id().to_string();
    let mut code = None;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(400));
        code = child.try_wait().unwrap().map(|status| status.code());
        if code.is_some() {
            break;
        }
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    }
    child.kill().unwrap();
    assert_eq!(code, Some(Some(130)));
}

/// Where memory or processes are few, a query has its answer or an error, and does not wait.
#[test]
fn limits_of_the_system_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.parquet");
    let file = file.to_str().unwrap();
    let copy = format!("COPY (SELECT * FROM range(1000)) TO '{file}'");
    assert_eq!(run(&["query", &copy]).0, 0);
    let query = format!("SELECT count(*) FROM '{file}'");
    for limit in ["--data=220000000", "--data=300000000", "--as=600000000", "--as=900000000"] {
        let mut command = Command::new("prlimit");
        command.args([limit, env!("CARGO_BIN_EXE_sty"), "query", "--threads", "3", &query]);
        command.env("STY_CONFIG", "").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else { return };
        let ended = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(ended && matches!(output.status.code(), Some(0 | 5)), "{limit}: {stderr}");
        assert!(!stderr.contains("panicked"), "{limit}: {stderr}");
    }
}

/// What a first load has stored goes with it; of one that is killed, with `gc`.
#[test]
fn a_load_that_is_stopped_leaves_no_table() {
    for signal in ["INT", "TERM", "KILL"] {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, mut stdin) =
            fed(directory.path(), &["ingest", "db/t", "-", "--memory-limit", "32MiB"]);
        let row = format!("{}\n", "x".repeat(1000));
        stdin.write_all(format!("a\n{}", row.repeat(30_000)).as_bytes()).unwrap();
        let table = directory.path().join("db/t");
        let has_data = || table.join("data").read_dir().is_ok_and(|files| files.count() > 0);
        assert!((0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            has_data()
        }));
        let store = directory.path().join("db");
        let gc = || run(&["gc", store.to_str().unwrap()]);
        // It is under way.
        assert_eq!(gc().0, 0);
        assert!(has_data());
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        let code = child.wait().unwrap().code();
        drop(stdin);
        if signal == "KILL" {
            assert_eq!(code, None);
            assert!(has_data());
            let (code, _, stderr) = gc();
            assert_eq!(code, 0, "{stderr}");
            assert!(stderr.contains("of a load that did not end removed"), "{stderr}");
        } else {
            assert_eq!(code, Some(130));
        }
        assert!(!table.exists(), "{signal}");
    }
}

/// Rows that were rejected before anything is committed go with the load.
#[test]
fn a_signal_leaves_no_file_of_rejected_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (child, mut stdin) = fed(
        directory.path(),
        &["ingest", "db/t", "-", "--rejects", "bad.csv", "--schema", "a:bigint"],
    );
    // More than is read before the first rows are parsed.
    stdin.write_all(format!("a\nx\n{}", "1\n".repeat(8 << 20)).as_bytes()).unwrap();
    let rejects = || {
        let all = names(directory.path()).into_iter();
        all.filter(|name| name.contains("rejects") || name == "bad.csv").count()
    };
    for _ in 0..100 {
        if rejects() == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(rejects(), 1, "the load has begun");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    // It waits for more rows, which do not come.
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    drop(stdin);
    assert_eq!(rejects(), 0);
}

/// A load of a named pipe that nobody writes to, and of a compressed pipe that goes on.
#[test]
fn a_signal_ends_pipes_of_every_kind() {
    let shell = Shell::new();
    if !(Shell::has("mkfifo") && Shell::has("gzip")) {
        return;
    }
    let load = |pipe: &str, writer: &str| {
        let line = format!(
            "mkfifo {pipe}; {writer} sty ingest db/{pipe} --commit-every 100ms {pipe} & sleep 2; \
             kill -s TERM $!; sleep 0.05; kill -s TERM $!; wait $!"
        );
        shell.sh(&line)
    };
    let (code, _, stderr) = load("silent", "");
    assert!(code == 0 && stderr.contains("ended by a signal"), "{stderr}");
    // The first bytes tell the format, and so do fewer if they are a line. `timeout` sends its
    // signal twice, as `load` does.
    let (code, _, stderr) = load("short", "(printf 'a\\n1\\n'; exec sleep 4) > short &");
    assert!(code == 0 && stderr.contains("ended by a signal"), "{stderr}");
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM short"), "n\n1\n");
    // What gzip has handed on is a whole member.
    let writer = "(printf 'a\\n1\\n2\\n3\\n4\\n' | gzip; sleep 4) > zipped &";
    let (code, _, stderr) = load("zipped", writer);
    assert!(code == 0 && stderr.contains("ended by a signal"), "{stderr}");
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM zipped"), "n\n4\n");
}

/// Rows of a pipe that goes on are seen at intervals, and a signal stores what has come.
#[test]
fn a_stream_commits_by_time_and_ends_with_what_has_come() {
    let directory = tempfile::tempdir().unwrap();
    let (child, mut stdin) = fed(
        directory.path(),
        &["ingest", "db/log", "--commit-every", "100ms", "--rejects", "bad.csv", "-"],
    );
    let store = directory.path().join("db");
    let count = || {
        let (code, stdout, _) =
            run(&["query", store.to_str().unwrap(), "SELECT count(*) FROM log"]);
        if code == 0 { stdout.lines().nth(1).unwrap().parse().unwrap() } else { 0 }
    };
    let wait_for = |rows: u64| {
        let found = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            count() == rows
        });
        assert!(found, "{} rows instead of {rows}", count());
    };
    stdin.write_all(b"{\"a\": 1}\n{\"a\": 2}\n").unwrap();
    wait_for(2);
    stdin.write_all(b"this is no row\n{\"a\": 3}\n{\"a\": ").unwrap();
    wait_for(3);
    stdin.write_all(b"4}\n{\"a\": 5").unwrap();
    wait_for(4);
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("ended by a signal"), "{stderr}");
    assert_eq!(count(), 4);
    let rejects = std::fs::read_to_string(directory.path().join("bad.csv")).unwrap();
    assert!(rejects.contains("this is no row"), "{rejects}");
    drop(stdin);
}
