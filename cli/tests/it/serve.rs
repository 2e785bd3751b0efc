//! `sty serve` as its clients see it: HTTP as ClickHouse speaks it.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server over a store of its own, which ends with the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    address: SocketAddr,
    dir: TempDir,
}

/// A reply: status, head, body.
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        Server::start_in(dir, options)
    }

    fn start_in(dir: TempDir, options: &[&str]) -> Server {
        std::fs::create_dir_all(dir.path().join("db")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(["serve", "db", "--http", "0"])
            .args(options)
            .current_dir(dir.path())
            .env("STY_CONFIG", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("//").next().unwrap().trim_end_matches('/').to_owned();
        let address = address.parse().unwrap_or_else(|_| panic!("{line}"));
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Server { process, address, dir }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks the server to end, and waits for it.
    pub(crate) fn end(&mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.process.wait().unwrap();
    }

    /// Kills the server, as another process would.
    pub(crate) fn kill(&self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
    }

    /// Kills the server, and starts another one over what it has left.
    pub(crate) fn kill_and_start(mut self, options: &[&str]) -> Server {
        let _ = self.process.kill();
        self.process.wait().unwrap();
        Server::start_in(std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap()), options)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request on a connection of its own, and reads the reply.
    pub(crate) fn request(&self, head: &str, body: &[u8]) -> Reply {
        let mut stream = self.connect();
        send(&mut stream, &format!("{head}\r\nConnection: close"), body);
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        parse(&reply)
    }

    pub(crate) fn post(&self, url: &str, body: impl AsRef<[u8]>) -> Reply {
        self.request(&format!("POST {url} HTTP/1.1\r\nHost: x"), body.as_ref())
    }

    pub(crate) fn get(&self, url: &str) -> Reply {
        self.request(&format!("GET {url} HTTP/1.1\r\nHost: x"), b"")
    }

    /// The answer to a statement, which must have one.
    pub(crate) fn ask(&self, sql: &str) -> String {
        let reply = self.post("/", sql);
        assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
        reply.text()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn send(stream: &mut TcpStream, head: &str, body: &[u8]) {
    let length = body.len();
    stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
}

/// A reply as it came, its body put together if it came in pieces.
pub(crate) fn parse(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &bytes[end + 4..];
    let mut reply = Reply { status, head, body: Vec::new() };
    if reply.header("transfer-encoding") != Some("chunked") {
        reply.body = rest.to_vec();
        return reply;
    }
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        reply.body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
        if size == 0 {
            break;
        }
    }
    reply
}

/// A text as a part of a URL.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
    }
    encoded
}

#[test]
fn statements_are_answered_in_the_format_asked_for() {
    let server = Server::start(&[]);
    assert_eq!(server.get("/").text(), "Ok.\n");
    assert_eq!(server.get("/ping").text(), "Ok.\n");
    assert_eq!(server.ask("SELECT 1"), "1\n");
    assert_eq!(server.ask("SELECT 1 AS a, 'x' AS b FORMAT JSONEachRow"), "{\"a\":1,\"b\":\"x\"}\n");
    let reply = server.get("/?query=SELECT%201,%202&default_format=CSV&query_id=mine");
    assert_eq!(reply.text(), "1,2\n");
    assert_eq!(reply.header("x-clickhouse-query-id"), Some("mine"));
    assert_eq!(reply.header("x-clickhouse-format"), Some("CSV"));
    assert!(reply.header("content-type").unwrap().starts_with("text/csv"));
    assert!(reply.header("x-clickhouse-summary").unwrap().contains("\"result_rows\":\"1\""));
    let reply = server.post("/?param_n=5&param_s=it's", "SELECT {n:UInt8} + 1, {s:String}");
    assert_eq!(reply.text(), "6\tit\\'s\n");
    let reply = server.post("/?param_l=[1,2]", "SELECT {l:Array(Int32)} AS l, array_length(l)");
    assert_eq!(reply.text(), "[1,2]\t2\n");
    assert_eq!(server.ask("SELECT number FROM system.one, (SELECT 7 AS number)"), "7\n");
    assert_eq!(server.get("/nothing").status, 404);
}

/// Texts with `E` and `U&` have escapes of their own, and others those of ClickHouse.
#[test]
fn texts_with_escapes_mean_what_they_mean_elsewhere() {
    let server = Server::start(&[]);
    for (sql, answer) in [
        (r"SELECT length(E'a\\n'), E'\\', E'\101\u0042'", "3\t\\\\\tAB\n"),
        (r"SELECT U&'\0041', length('a\\n'), '\101'", "A\t3\t\\\\101\n"),
        ("SELECT /* /* 'a' */ it's */ 1", "1\n"),
    ] {
        assert_eq!(server.ask(sql), answer, "{sql}");
    }
}

#[test]
fn rows_come_in_and_are_there() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (a BIGINT, b VARCHAR, c DOUBLE)");
    let insert = |sql: &str, rows: &[u8]| {
        let reply = server.post(&format!("/?query={}", encoded(sql)), rows);
        assert_eq!(reply.status, 200, "{sql}: {}", reply.text());
        reply.header("x-clickhouse-summary").unwrap().to_owned()
    };
    let summary = insert("INSERT INTO t FORMAT CSV", b"1,\"x, y\",0.5\n2,,\n");
    assert!(summary.contains("\"written_rows\":\"2\""), "{summary}");
    insert("INSERT INTO t FORMAT TSV", b"3\ta\\tb\t\\N\n");
    insert("INSERT INTO t (b, a) FORMAT JSONEachRow", b"{\"a\": 4, \"b\": \"j\"}\n{\"a\": 5}\n");
    insert("INSERT INTO t (a) FORMAT RowBinary", &[&[0][..], &6_i64.to_le_bytes()].concat());
    server.ask("INSERT INTO t FORMAT CSVWithNames\nb,a\nnamed,7\n");
    server.ask("INSERT INTO t VALUES (8, 'it''s', 1e3)");
    let rows = server.ask("SELECT * FROM t ORDER BY a FORMAT CSV");
    let expected = "1,\"x, y\",0.5\n2,\\N,\\N\n3,\"a\tb\",\\N\n4,\"j\",\\N\n5,\\N,\\N\n6,\\N,\\N\n\
                    7,\"named\",\\N\n8,\"it's\",1000\n";
    assert_eq!(rows, expected);
    // Bodies that come in many pieces, in a format of each reader.
    let rows: String = (0..200_000).map(|row| format!("{row},text {row},0.5\n")).collect();
    let summary = insert("INSERT INTO t FORMAT CSV", rows.as_bytes());
    assert!(summary.contains("\"written_rows\":\"200000\""), "{summary}");
    let rows: String = (0..100_000).map(|row| format!("({row}, 'it''s {row}', 1e3),")).collect();
    server.ask(&format!("INSERT INTO t VALUES {}", rows.trim_end_matches(',')));
    let counted = server.ask("SELECT count(*), count(DISTINCT b) FROM t WHERE b > 'it' FORMAT CSV");
    assert_eq!(counted, "300004,300004\n");
    server.ask("DELETE FROM t WHERE b LIKE 'text %' OR b LIKE 'it''s %'");
    // A failure that is known before stores nothing, and no other table is meant.
    let reply = server.post("/?default_format=Nothing", "INSERT INTO t VALUES (9, 'x', 1)");
    assert_eq!(reply.status, 404, "{}", reply.text());
    assert_eq!(server.post("/", "INSERT INTO other.t FORMAT CSV\n9,x,1\n").status, 404);
    server.ask("INSERT INTO T (A) FORMAT JSONEachRow\n{\"a\": 9, \"b\": \"left out\"}\n");
    assert_eq!(server.ask("SELECT b FROM t WHERE a = 9"), "\\N\n");
    server.ask("DELETE FROM t WHERE a = 9");
    // What one client has stored, all see; a wrong row stores nothing of its body.
    let reply = server.post("/?query=INSERT%20INTO%20t%20FORMAT%20CSV", "9,x,1\nten,x,1\n");
    assert!(reply.status >= 400 && reply.text().contains("ten"), "{}", reply.text());
    assert_eq!(server.ask("SELECT count(*) FROM default.t"), "8\n");
}

#[test]
fn bodies_that_do_not_come_at_once_are_read_to_their_end() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (a BIGINT, b VARCHAR)");
    let rows: String = (0..200_000).map(|row| format!("{row},a text of {row}\n")).collect();
    let reply = server.post("/?query=INSERT+INTO+t+FORMAT+CSV", rows);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(server.ask("SELECT count(*), sum(a) FROM t"), "200000\t19999900000\n");
}

#[test]
fn failures_have_their_number() {
    let server = Server::start(&[]);
    for (sql, status, part) in [
        ("SELEC 1", 400, "(SYNTAX_ERROR)"),
        ("SELECT * FROM nothing", 404, "Code: 60. DB::Exception: no table nothing"),
        ("SELECT 1 FORMAT Nothing", 404, "(UNKNOWN_FORMAT)"),
        ("SELECT {x:UInt8}", 400, "(UNKNOWN_QUERY_PARAMETER)"),
        ("SELECT * FROM '/etc/x.csv'", 400, "reads and writes no files outside its store"),
        ("INSERT INTO nothing FORMAT CSV\n1\n", 404, "(UNKNOWN_TABLE)"),
        ("SELECT 1; SELECT 2", 400, "a request has one statement"),
    ] {
        let reply = server.post("/", sql);
        assert_eq!(reply.status, status, "{sql}: {}", reply.text());
        assert!(reply.text().contains(part), "{sql}: {}", reply.text());
        assert!(reply.header("x-clickhouse-exception-code").is_some(), "{sql}");
    }
    // By GET, nothing changes.
    let reply = server.get(&format!("/?query={}", encoded("CREATE TABLE t (a INT)")));
    assert!(reply.text().contains("(READONLY)"), "{}", reply.text());
    let reply = server.get(&format!("/?session_id=s&query={}", encoded("CREATE TABLE t (a INT)")));
    assert!(reply.text().contains("(READONLY)"), "{}", reply.text());
    let page = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://example.com";
    assert_eq!(server.request(page, b"SELECT 1").status, 403);
    // Nor does a text of signs that nothing ends keep a thread busy.
    assert_eq!(server.post("/", format!("SELECT {}", "{'".repeat(400_000))).status, 400);
    // A failure behind the head of the reply is told behind the rows.
    let sql = "SELECT CASE WHEN value < 900000 THEN value ELSE CAST('x' || value AS INT) END \
               FROM generate_series(1, 1000000)";
    let reply = server.post("/", sql);
    let tag = reply.header("x-clickhouse-exception-tag").unwrap().to_owned();
    assert_eq!(reply.status, 200);
    let end = reply.text();
    let end = end.get(end.len() - 600..).unwrap();
    assert!(end.ends_with(&format!("{tag}\r\n__exception__\r\n")), "{end}");
    assert!(end.contains("DB::Exception"), "{end}");
    // What has been cut short lacks its last chunk, unless the client looks for the marks.
    for (url, is_cut) in [("/", true), ("/?cut_short=0", false)] {
        let mut stream = server.connect();
        let head = format!("POST {url} HTTP/1.1\r\nHost: x\r\nConnection: close");
        send(&mut stream, &head, sql.as_bytes());
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.ends_with(b"\r\n0\r\n\r\n"), !is_cut, "{url}");
    }
}

/// Waits until something holds.
pub(crate) fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A statement that runs for minutes.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b \
                    WHERE a.value + b.value < 0";

#[test]
fn statements_end_by_time_by_kill_and_with_their_client() {
    let server = Server::start(&[]);
    let reply = server.post("/?max_execution_time=0.3", LONG);
    assert_eq!(reply.status, 408, "{}", reply.text());
    let running =
        || server.ask("SELECT count(*) FROM system.processes WHERE query LIKE '%series%'");
    // Its own query is among those that run.
    let mine = "1\n";
    let mut client = server.connect();
    send(&mut client, "POST /?query_id=long HTTP/1.1\r\nHost: x", LONG.as_bytes());
    wait_for("it runs", || running() == "2\n");
    drop(client);
    wait_for("it ends with its client", || running() == mine);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| server.post("/?query_id=l%27ong", LONG));
        wait_for("it runs", || running() == "2\n");
        let killed = server.ask("KILL QUERY WHERE query_id = 'l''ong'");
        assert!(killed.starts_with("waiting\tl\\'ong\t"), "{killed}");
        let reply = client.join().unwrap();
        assert!(reply.text().contains("(QUERY_WAS_CANCELLED)"), "{}", reply.text());
    });
}

#[test]
fn a_crowd_is_let_in_one_by_one() {
    let server =
        Server::start(&["--max-running", "1", "--max-waiting", "1", "--max-wait", "200ms"]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.post("/?query_id=long", LONG));
        let running = || server.ask("SHOW PROCESSLIST").contains("long");
        wait_for("it runs", running);
        let second = scope.spawn(|| server.post("/", "SELECT 1 + 1"));
        std::thread::sleep(Duration::from_millis(50));
        let third = server.post("/", "SELECT 1 + 2");
        assert_eq!((third.status, third.header("retry-after")), (503, Some("1")));
        assert_eq!(second.join().unwrap().status, 503);
        // What costs nothing is answered all the same.
        assert_eq!(server.get("/ping").text(), "Ok.\n");
        let metrics = server.get("/metrics").text();
        assert!(metrics.contains("sty_statements_refused_total 2"), "{metrics}");
        server.ask("KILL QUERY WHERE query_id = 'long'");
        first.join().unwrap();
    });
    assert_eq!(server.ask("SELECT 1 + 3"), "4\n");
}

#[test]
fn sessions_keep_what_is_set_and_statements_alone_do_not() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t AS SELECT 1 AS a");
    server.ask("CREATE TEMP VIEW v AS SELECT a + 1 AS b FROM t");
    assert_eq!(server.post("/", "SELECT * FROM v").status, 404);
    let view = "CREATE TEMP VIEW v AS SELECT a + 1 AS b FROM t";
    assert_eq!(server.post("/?session_id=s", view).status, 200);
    assert_eq!(server.post("/?session_id=s", "SELECT * FROM v").text(), "2\n");
    assert_eq!(server.post("/?session_id=other&session_check=1", "SELECT 1").status, 404);
    // A session that waits keeps nobody from dropping a table.
    server.ask("DROP TABLE t");
    assert_eq!(server.post("/?session_id=s", "SELECT * FROM v").status, 404);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of users is none of a store")]
fn users_do_what_they_may() {
    let dir = tempfile::tempdir().unwrap();
    let hash = |secret: &str| {
        let mut hash = crate::sty(&["serve", "--new-password"]);
        let output = hash.write_stdin(format!("{secret}\n")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let users = format!(
        "[users.anna]\n{}[users.bob]\n{}read_only = true\ntables = ['log_*']\n",
        hash("one"),
        hash("two")
    );
    std::fs::write(dir.path().join("users.toml"), users).unwrap();
    let server = Server::start_in(dir, &["--users", "users.toml", "--files"]);
    let by = |user: &str, password: &str, sql: &str| {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {password}"
        );
        server.request(&head, sql.as_bytes())
    };
    assert_eq!(server.post("/", "SELECT 1").status, 403);
    assert_eq!(by("anna", "two", "SELECT 1").status, 403);
    assert_eq!(server.get("/ping").text(), "Ok.\n");
    for table in ["log_1", "secret"] {
        let reply = by("anna", "one", &format!("CREATE TABLE {table} AS SELECT 1 AS a"));
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!(by("bob", "two", "SELECT a FROM log_1").text(), "1\n");
    assert_eq!(by("bob", "two", "SHOW TABLES").text(), "log_1\n");
    assert_eq!(by("bob", "two", "SELECT a FROM secret").status, 404);
    assert_eq!(by("bob", "two", "DELETE FROM log_1").status, 403);
    // A store is made of files, which lead around what is hidden.
    assert_eq!(by("anna", "one", "ATTACH 'db' AS again").status, 200);
    let attach = by("bob", "two", "ATTACH 'db' AS again");
    assert!(attach.text().contains("no files outside its store"), "{}", attach.text());
    assert_eq!(by("bob", "two", "INSERT INTO log_1 FORMAT CSV\n1\n").status, 403);
    assert!(server.dir.path().join("db/secret").exists());
}

#[test]
fn a_server_ends_in_order() {
    let mut server = Server::start(&["--grace", "200ms"]);
    let answer = std::thread::scope(|scope| {
        let client = scope.spawn(|| server.post("/?query_id=long", LONG));
        wait_for("it runs", || server.ask("SHOW PROCESSLIST").contains("long"));
        let pid = server.process.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().unwrap().success());
        client.join().unwrap()
    });
    assert!(answer.text().contains("the server ends"), "{}", answer.text());
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[test]
fn another_address_needs_users() {
    let (code, _, stderr) = crate::run(&["serve", "db", "--http", "0.0.0.0:0"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--users") && stderr.contains("--anyone"), "{stderr}");
}
