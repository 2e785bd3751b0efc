//! `sty shell` on a terminal: keys go in, and what a person would see comes out. The terminal is
//! made by `script`, which every Linux has with util-linux.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::shell::Shell;

/// A shell that runs on a terminal of 100 columns and 30 rows.
struct Terminal {
    child: Child,
    keys: Arc<Mutex<ChildStdin>>,
    /// What was written to the terminal, without colours and movements.
    seen: Arc<Mutex<String>>,
    /// How much of it a test has looked at.
    looked: usize,
}

/// How long a busy machine may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

impl Terminal {
    /// Runs a command line in the directory of `shell`.
    fn open(shell: &Shell, line: &str, variables: &[(&str, &str)]) -> Terminal {
        let sty = env!("CARGO_BIN_EXE_sty");
        let line = format!("stty cols 100 rows 30 && exec {}", line.replacen("sty", sty, 1));
        let mut child = Command::new("script")
            .args(["-qfec", &line, "/dev/null"])
            .current_dir(shell.path(""))
            .env("TERM", "xterm")
            .env("XDG_STATE_HOME", shell.path("state"))
            .env("STY_CONFIG", "")
            .env_remove("STY_HISTORY")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        let seen = Arc::new(Mutex::new(String::new()));
        let (answers, shown) = (Arc::clone(&keys), Arc::clone(&seen));
        let mut output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let (mut buffer, mut raw) = ([0; 4096], Vec::new());
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                raw.extend_from_slice(&buffer[..read]);
                let (text, asks, left) = understood(&raw);
                raw.drain(..raw.len() - left);
                shown.lock().unwrap().push_str(&text);
                for _ in 0..asks {
                    let _ = answers.lock().unwrap().write_all(b"\x1b[10;1R");
                }
            }
        });
        Terminal { child, keys, seen, looked: 0 }
    }

    fn keys(&self, keys: &str) {
        self.keys.lock().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a text is seen that was not there before.
    fn wait_for(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if let Some(at) = seen[self.looked..].find(text) {
                self.looked += at + text.len();
                return;
            }
            let new = &seen[self.looked..];
            assert!(started.elapsed() < PATIENCE, "no {text:?} in:\n{new}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a line, as slowly as a person would, and waits for the answer.
    fn answer(&mut self, line: &str, answer: &str) {
        std::thread::sleep(Duration::from_millis(300));
        self.keys(&format!("{line}\r"));
        self.wait_for(answer);
    }

    /// The exit code.
    fn end(mut self) -> i32 {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(started.elapsed() < PATIENCE, "{}", self.seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The text in what was written, how often it asks where the cursor is, and how many bytes at its
/// end are not complete.
fn understood(raw: &[u8]) -> (String, usize, usize) {
    let (mut text, mut asks, mut at) = (Vec::new(), 0, 0);
    while at < raw.len() {
        if raw[at] != 0x1b {
            text.push(raw[at]);
            at += 1;
            continue;
        }
        let is_end = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'~';
        let Some(length) = raw[at..].iter().skip(2).position(is_end) else { break };
        asks += usize::from(&raw[at..at + length + 3] == b"\x1b[6n");
        at += length + 3;
    }
    (String::from_utf8_lossy(&text).into_owned(), asks, raw.len() - at)
}

/// A store with a table of three rows.
fn store() -> Shell {
    let shell = Shell::new();
    shell.file("t.csv", "city,\"fare amount\"\nBern,12.5\nBasel,9.0\nBern,7.25\n");
    assert_eq!(shell.run("ingest db/t t.csv").0, 0);
    shell
}

/// Takes longer than any test.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000000) a(x), \
                    generate_series(1, 3000000) b(y) WHERE x * y % 7 = 3;";

#[test]
fn statements_are_answered_cancelled_and_paged_in_one_session() {
    let shell = store();
    let pager = [("STY_PAGER", "sed s/^/paged:/")];
    let mut terminal = Terminal::open(&shell, "sty shell db", &pager);
    terminal.wait_for("1 table");
    terminal.answer("SELECT 40 + 2 AS answer;", "│     42 │");
    terminal.wait_for("(1 row, ");
    terminal.answer("SET sty.native = off;", "(done, ");
    // Over several lines, with a semicolon in a text.
    terminal.keys("SELECT ';',\r");
    terminal.answer("count(*) + 39 AS n FROM t;", "│ 42 │");
    terminal.answer(".tables", "│ t     │");
    terminal.answer(".schema t", "fare amount");
    terminal.answer(".tabels", "did you mean .tables?");
    terminal.answer("SELECT citi FROM t;", "did you mean city?");
    // Ctrl-C ends the statement, and not the session, which has its view still.
    terminal.answer("CREATE VIEW v AS SELECT 7 * 6 AS six;", "(done, ");
    terminal.keys(&format!("{LONG}\r"));
    std::thread::sleep(Duration::from_millis(1500));
    let cancelled = Instant::now();
    terminal.keys("\x03");
    terminal.wait_for("interrupted");
    assert!(cancelled.elapsed() < Duration::from_secs(20));
    terminal.answer("SELECT six FROM v;", "│  42 │");
    // Statements do not wait for threads that are in the middle of a join.
    let grouped = "SELECT count(*) + 40 AS n FROM t GROUP BY city ORDER BY 1 DESC LIMIT 1;";
    terminal.answer(grouped, "│ 42 │");
    // What does not fit on the screen goes to the pager, and .last goes there again.
    terminal.answer("SELECT value FROM generate_series(1, 900) s(value);", "paged:│   900 │");
    terminal.wait_for("(900 rows, ");
    terminal.answer(".mode csv", "db> ");
    terminal.answer(".last", "paged:900");
    // On a screen, each answer stands for itself.
    terminal.answer(".mode json", "db> ");
    terminal.answer("SELECT 41 + 1 AS one;", "\"one\":42");
    terminal.answer("SELECT 42 + 1 AS two;", "\"two\":43");
    terminal.answer(".output out.parquet", "db> ");
    terminal.answer("SELECT city FROM t;", "(3 rows, ");
    terminal.answer(".last", "holds only one");
    terminal.answer(".output", "(wrote out.parquet: 1 answer)");
    terminal.keys("\x04");
    assert_eq!(terminal.end(), 0);
    let (code, rows, _) = shell.sh("sty query db \"SELECT count(*) AS n FROM 'out.parquet'\"");
    assert_eq!((code, rows.as_str()), (0, "n\n3\n"));
}

#[test]
fn a_store_alone_and_nothing_open_a_shell() {
    let shell = store();
    let mut terminal = Terminal::open(&shell, "sty db", &[]);
    terminal.wait_for("1 table");
    terminal.answer("SELECT 6 * 7 AS n;", "42");
    terminal.keys(".quit\r");
    assert_eq!(terminal.end(), 0);
    let mut terminal = Terminal::open(&shell, "sty", &[]);
    terminal.wait_for("no store");
    terminal.answer("SELECT count(*) + 39 AS n FROM 't.csv';", "42");
    terminal.keys("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
#[cfg(feature = "editor")]
fn names_are_completed_and_statements_remembered() {
    use std::os::unix::fs::PermissionsExt as _;

    let shell = store();
    let mut terminal = Terminal::open(&shell, "sty shell db", &[]);
    terminal.wait_for("1 table");
    terminal.wait_for("db> ");
    terminal.keys("SELECT sum(fare\t");
    terminal.wait_for("\"fare amount\"");
    terminal.answer(") AS all_fares FROM t;", "28.75");
    // The tables may be named behind the cursor.
    std::thread::sleep(Duration::from_millis(600));
    terminal.keys("SELECT x.cit FROM t x;");
    terminal.keys(&"\x1b[D".repeat(" FROM t x;".len()));
    std::thread::sleep(Duration::from_millis(600));
    terminal.keys("\t");
    std::thread::sleep(Duration::from_millis(600));
    terminal.answer("", "│ Basel │");
    // A menu that is left alone is gone behind the name.
    terminal.keys("SELECT c\t");
    terminal.wait_for("city");
    std::thread::sleep(Duration::from_millis(600));
    terminal.answer("ity, 1 + 1 AS two FROM t LIMIT 1;", "│   2 │");
    std::thread::sleep(Duration::from_millis(600));
    // Ctrl-R finds it again; Ctrl-C clears a line.
    for keys in ["SELECT nothing", "\x03", "\x12", "AS all_f"] {
        terminal.keys(keys);
        std::thread::sleep(Duration::from_millis(600));
    }
    terminal.wait_for("'AS all_f'");
    // Enter takes what was found, and another one runs it.
    terminal.answer("", "all_fares FROM t;");
    terminal.answer("", "28.75");
    std::thread::sleep(Duration::from_millis(600));
    terminal.keys("\x04");
    assert_eq!(terminal.end(), 0);
    let history = shell.path("state/sty/history");
    let typed = std::fs::read_to_string(&history).unwrap();
    let sum = "SELECT sum(\"fare amount\") AS all_fares FROM t;\n";
    let two = "SELECT city, 1 + 1 AS two FROM t LIMIT 1;\n";
    assert_eq!(typed, format!("{sum}SELECT x.city FROM t x;\n{two}{sum}"));
    assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
#[cfg(feature = "editor")]
fn a_long_script_is_pasted_at_once() {
    let shell = store();
    let mut terminal = Terminal::open(&shell, "sty shell db", &[]);
    terminal.wait_for("db> ");
    let script = "-- a line of a script that somebody has pasted into the shell\n".repeat(8000);
    assert!(script.len() > 480_000);
    terminal.keys(&format!("\x1b[200~{script}SELECT 6 * 7 AS pasted;\x1b[201~"));
    terminal.wait_for("AS pasted;");
    terminal.keys("\r");
    terminal.wait_for("│     42 │");
    terminal.answer("SELECT 6 * 8 AS after;", "│    48 │");
    terminal.keys("\x04");
    assert_eq!(terminal.end(), 0);
}

/// A line that was begun is still there after Ctrl-Z, and a shell that waits takes no processor.
#[test]
#[cfg(all(feature = "editor", target_os = "linux"))]
fn a_shell_that_is_suspended_or_idle_rests() {
    let shell = store();
    let mut terminal = Terminal::open(&shell, "sty shell db", &[]);
    terminal.wait_for("db> ");
    terminal.keys("SELECT 40 + ");
    terminal.wait_for("40 + ");
    // Here nobody controls jobs, so the shell goes on at once.
    terminal.keys("\x1a");
    std::thread::sleep(Duration::from_millis(600));
    terminal.answer("2 AS n;", "│ 42 │");
    let script = terminal.child.id();
    let children = std::fs::read_to_string(format!("/proc/{script}/task/{script}/children"));
    let sty = children.unwrap().trim().to_owned();
    let wakes = || -> u64 {
        let threads = std::fs::read_dir(format!("/proc/{sty}/task")).unwrap();
        let of = |thread: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        threads.map(of).sum()
    };
    std::thread::sleep(Duration::from_secs(1));
    let before = wakes();
    std::thread::sleep(Duration::from_secs(1));
    let after = wakes();
    assert!(after - before < 20, "{} wake-ups in a second", after - before);
    terminal.keys("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_script_on_stdin_runs_as_with_query() {
    let shell = store();
    let script = "SELECT count(*) AS n FROM t; SELECT 2 AS m;";
    let query = shell.pipe("query db -f -", script);
    assert_eq!(shell.pipe("shell db", script), query);
    assert_eq!(query, (0, "n\n3\nm\n2\n".to_owned(), String::new()));
    for wrong in ["SELECT 1 AS n; SELEC 2;", "SELECT x FROM nothing;"] {
        assert_eq!(shell.pipe("shell db", wrong), shell.pipe("query db -f -", wrong));
    }
    let (code, out, _) =
        shell.pipe("shell db", ".mode json\nSELECT city FROM t LIMIT 1;\n.quit\nx");
    assert_eq!((code, out.trim()), (0, "[\n{\"city\":\"Bern\"}\n]"));
    let (code, _, err) = shell.pipe("shell db", ".mode json\n.read no.sql\nSELECT 1;\n");
    assert_eq!(code, 6);
    assert!(err.contains("no.sql"), "{err}");
    // SQL may begin with a comment.
    let (code, out, err) = shell.sh("sty query db '--how many\nSELECT count(*) AS n FROM t'");
    assert_eq!((code, out.as_str()), (0, "n\n3\n"), "{err}");
    let (code, out, _) = shell.run("shell db -c .tables");
    assert_eq!((code, out.as_str()), (0, "table,rows,columns\nt,3,2\n"));
}
