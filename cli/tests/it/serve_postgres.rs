//! `sty serve --pg` as clients of PostgreSQL see it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use tempfile::TempDir;

/// A server over a store of its own, which ends with the test.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), options)
    }

    fn start_in(dir: TempDir, options: &[&str]) -> Server {
        std::fs::create_dir_all(dir.path().join("db")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(["serve", "db", "--http", "0", "--pg", "0"])
            .args(options)
            .current_dir(dir.path())
            .env("STY_CONFIG", "")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut lines = String::new();
        said.read_line(&mut lines).unwrap();
        said.read_line(&mut lines).unwrap();
        let url = lines.trim().rsplit("postgresql://").next().unwrap();
        let address = url.trim_end_matches('/').parse().unwrap_or_else(|_| panic!("{lines}"));
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Server { process, address, _dir: dir }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A connection that has named its user.
    fn begin(&self, user: &str) -> Client {
        Client::begin(self.address, user)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A message: its kind, and its body.
pub(crate) type Message = (u8, Vec<u8>);

pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    /// A connection to any server.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let mut client = Client::begin(address, "anna");
        client.until(b'Z');
        client
    }

    fn begin(address: SocketAddr, user: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = Client { stream };
        let parameters = format!("user\0{user}\0database\0db\0application_name\0test\0\0");
        client.send_first(&[&196_608_i32.to_be_bytes(), parameters.as_bytes()].concat());
        client
    }

    fn send_first(&mut self, body: &[u8]) {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.stream.write_all(&[&length, body].concat()).unwrap();
    }

    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.stream.write_all(&[&[kind], &length[..], body].concat()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Message {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).unwrap();
        (head[0], body)
    }

    /// All messages up to one of this kind.
    pub(crate) fn until(&mut self, kind: u8) -> Vec<Message> {
        let mut found = vec![self.receive()];
        while found.last().unwrap().0 != kind {
            found.push(self.receive());
        }
        found
    }

    pub(crate) fn query(&mut self, sql: &str) -> Vec<Message> {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
        self.until(b'Z')
    }

    /// What a text of statements answers: rows with `|` between values, tags, errors as `!code`,
    /// and the status at the end.
    pub(crate) fn ask(&mut self, sql: &str) -> String {
        show(&self.query(sql))
    }
}

pub(crate) fn show(messages: &[Message]) -> String {
    let one = |(kind, body): &Message| match kind {
        b'D' => values(body).join("|"),
        b'C' => text(body),
        b'E' => format!("!{}", field(body, b'C')),
        b'N' => format!("?{}", field(body, b'C')),
        b'Z' => char::from(body[0]).to_string(),
        other => char::from(*other).to_string(),
    };
    let told = messages.iter().filter(|(kind, _)| *kind != b'T');
    told.map(one).collect::<Vec<_>>().join(" ")
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body)).into_owned()
}

/// A field of an error.
pub(crate) fn field(body: &[u8], name: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let found = fields.find(|field| field.first() == Some(&name));
    found.map(|field| text(&field[1..])).unwrap_or_default()
}

/// The values of a row as texts.
fn values(body: &[u8]) -> Vec<String> {
    let raw = raw_values(body);
    raw.into_iter().map(|value| value.map_or("NULL".to_owned(), |it| text(&it))).collect()
}

fn raw_values(body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let (mut rest, mut found) = (&body[2..], Vec::new());
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        rest = &rest[4..];
        found.push(usize::try_from(length).ok().map(|length| {
            let (value, after) = rest.split_at(length);
            rest = after;
            value.to_vec()
        }));
    }
    found
}

/// The names and types of a row's columns.
fn columns(body: &[u8]) -> Vec<(String, u32)> {
    let (mut rest, mut found) = (&body[2..], Vec::new());
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).unwrap();
        let oid = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
        found.push((text(&rest[..end]), oid));
        rest = &rest[end + 19..];
    }
    found
}

#[test]
fn simple_queries_are_answered() {
    let server = Server::start(&[]);
    let mut client = server.begin("anna");
    let hello = client.until(b'Z');
    let settings = hello.iter().filter(|(kind, _)| *kind == b'S').map(|(_, body)| text(body));
    let settings: Vec<String> = settings.collect();
    assert!(settings.contains(&"client_encoding\0UTF8".to_owned()), "{settings:?}");
    assert!(settings.contains(&"application_name\0test".to_owned()), "{settings:?}");
    assert!(settings.iter().any(|it| it.starts_with("server_version\x0016.")), "{settings:?}");

    let create = "CREATE TABLE t (a INT, b VARCHAR, c DOUBLE, d TIMESTAMP, e BOOLEAN); \
                  INSERT INTO t VALUES (1, 'x;', 1.5, '2020-01-02 03:04:05.5', true), \
                  (2, NULL, 'inf', NULL, false)";
    assert_eq!(client.ask(create), "CREATE TABLE INSERT 0 2 I");
    let rows = client.query("SELECT * FROM t ORDER BY a");
    let expected = [("a", 23), ("b", 25), ("c", 701), ("d", 1114), ("e", 16)];
    let expected = expected.map(|(name, oid)| (name.to_owned(), oid));
    assert_eq!(columns(&rows[0].1), expected);
    let shown = "1|x;|1.5|2020-01-02 03:04:05.5|t 2|NULL|Infinity|NULL|f SELECT 2 I";
    assert_eq!(show(&rows), shown);
    for (sql, shown) in [
        ("", "I I"),
        (";-- nothing\n;", "I I"),
        ("SELECT 1; SELECT 2", "1 SELECT 1 2 SELECT 1 I"),
        ("SELECT 1.50::DECIMAL(5,2), DATE '2020-01-02', [1, NULL], x'00ff'", "*"),
        ("SELECT nope FROM t", "!42703 I"),
        ("SELECT * FROM nope", "!42P01 I"),
        ("SELCT 1; SELECT 2", "!42601 I"),
        ("SELECT 1; SELECT nope; SELECT 2", "1 SELECT 1 !42703 I"),
        ("UPDATE t SET b = 'y' WHERE a = 2", "UPDATE 1 I"),
        ("DELETE FROM t WHERE a = 2", "DELETE 1 I"),
        ("SELECT current_schema(), current_user", "public|anna SELECT 1 I"),
        ("SHOW transaction isolation level", "read committed SHOW I"),
        ("SET extra_float_digits = 3; SHOW extra_float_digits", "SET 3 SHOW I"),
        ("SET client_encoding TO 'LATIN1'", "!22023 I"),
        ("DROP TABLE t", "DROP TABLE I"),
    ] {
        let shown = match shown {
            "*" => "1.50|2020-01-02|{1,NULL}|\\x00ff SELECT 1 I",
            other => other,
        };
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
}

#[test]
fn statements_are_prepared_and_run_in_parts() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t AS SELECT value AS a, value / 2.0 AS b FROM generate_series(1, 9)");
    // Parse and Describe, without a declared type; the first parameter's follows from the column.
    client.send(b'P', b"s\0SELECT a, b FROM t WHERE a > $1 ORDER BY a LIMIT $2\0\0\0");
    client.send(b'D', b"Ss\0");
    client.send(b'S', b"");
    let described = client.until(b'Z');
    assert_eq!(show(&described), "1 t I");
    assert_eq!(
        described[1].1,
        [&[0, 2], &20_u32.to_be_bytes()[..], &20_u32.to_be_bytes()].concat()
    );
    assert_eq!(columns(&described[2].1), [("a".to_owned(), 20), ("b".to_owned(), 701)]);
    // Values in text and binary; the answer in binary; two rows, and the rest.
    let values = [&b"\0\0\0\x012\0\0\0\x08"[..], &7_i64.to_be_bytes()].concat();
    let bind = [&b"p\0s\0\0\x02\0\0\0\x01\0\x02"[..], &values, b"\0\x01\0\x01"].concat();
    client.send(b'B', &bind);
    client.send(b'E', b"p\0\0\0\0\x02");
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'S', b"");
    let answer = client.until(b'Z');
    let kinds: Vec<u8> = answer.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, b"2DDsDDDDDCZ");
    let row = raw_values(&answer[1].1);
    assert_eq!(row[0].as_deref(), Some(&3_i64.to_be_bytes()[..]));
    assert_eq!(row[1].as_deref(), Some(&1.5_f64.to_be_bytes()[..]));
    assert_eq!(text(&answer[9].1), "SELECT 5");
    // After an error, messages are left out up to Sync.
    client.send(b'P', b"\0SELECT nope\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\0");
    client.send(b'D', b"P\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(show(&client.until(b'Z')), "1 2 !42703 I");
    // Describing an INSERT runs nothing.
    client.send(b'P', b"i\0INSERT INTO t (a) VALUES ($1)\0\0\0");
    client.send(b'D', b"Si\0");
    client.send(b'S', b"");
    assert_eq!(show(&client.until(b'Z')), "1 t n I");
    assert_eq!(client.ask("SELECT count(*) FROM t"), "9 SELECT 1 I");
    client.send(b'B', b"\0i\0\0\0\0\x01\0\0\0\x0210\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'C', b"Si\0");
    client.send(b'B', b"\0i\0\0\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(show(&client.until(b'Z')), "2 INSERT 0 1 3 !26000 I");
    assert_eq!(client.ask("SELECT max(a) FROM t"), "10 SELECT 1 I");
}

#[test]
fn blocks_take_nothing_after_an_error_and_cursors_give_rows() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 5)");
    for (sql, shown) in [
        ("BEGIN", "BEGIN T"),
        ("SELECT nope", "!42703 E"),
        ("SELECT 1", "!25P02 E"),
        ("COMMIT", "ROLLBACK I"),
        // No block follows by itself, so that none must be taken to be open.
        ("BEGIN", "BEGIN T"),
        ("COMMIT AND CHAIN", "!0A000 E"),
        ("ROLLBACK WORK AND CHAIN", "!0A000 E"),
        ("ROLLBACK AND NO CHAIN", "ROLLBACK I"),
        ("BEGIN; SAVEPOINT s; SELECT nope", "BEGIN SAVEPOINT !42703 E"),
        ("ROLLBACK TO SAVEPOINT s", "ROLLBACK T"),
        ("DELETE FROM t WHERE a = 5; ROLLBACK", "DELETE 1 ?01000 ROLLBACK I"),
        ("SELECT count(*) FROM t", "4 SELECT 1 I"),
        ("BEGIN READ ONLY; DELETE FROM t", "BEGIN !25006 E"),
        ("ROLLBACK", "ROLLBACK I"),
        ("DECLARE c CURSOR FOR SELECT a FROM t", "!25P01 I"),
        ("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a", "BEGIN DECLARE CURSOR T"),
        ("FETCH 2 FROM c; MOVE 1 FROM c", "1 2 FETCH 2 MOVE 1 T"),
        ("FETCH ALL FROM c; CLOSE c", "4 FETCH 1 CLOSE CURSOR T"),
        ("FETCH c", "!34000 E"),
        ("END", "ROLLBACK I"),
    ] {
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
}

#[test]
fn rows_are_copied_in_and_out() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (a INT, b VARCHAR)");
    let mut copy = |sql: &str, rows: &[&str]| {
        client.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
        assert_eq!(client.receive().0, b'G');
        for rows in rows {
            client.send(b'd', rows.as_bytes());
        }
        client.send(b'c', b"");
        show(&client.until(b'Z'))
    };
    assert_eq!(copy("COPY t FROM STDIN", &["1\tx\\ty\n2", "\t\\N\n"]), "COPY 2 I");
    let csv = "COPY t (b, a) FROM STDIN WITH (FORMAT csv, HEADER)";
    assert_eq!(copy(csv, &["b,a\n\"q,\"\"\",", "3\n,4\n\\.\n"]), "COPY 2 I");
    assert_eq!(copy("COPY t FROM STDIN", &["5\n"]), "!22P04 I");
    assert_eq!(copy("COPY t FROM STDIN", &["no\tx\n"]), "!22P02 I");
    client.send(b'Q', b"COPY t FROM STDIN\0");
    assert_eq!(client.receive().0, b'G');
    client.send(b'd', b"6\tx\n");
    client.send(b'f', b"given up\0");
    assert_eq!(show(&client.until(b'Z')), "!57014 I");
    let rows = |messages: Vec<Message>| {
        let rows = messages.iter().filter(|(kind, _)| *kind == b'd').map(|(_, body)| text(body));
        rows.collect::<String>()
    };
    let out = client.query("COPY (SELECT * FROM t ORDER BY a) TO STDOUT");
    assert_eq!(rows(out), "1\tx\\ty\n2\t\\N\n3\tq,\"\n4\t\\N\n");
    let out = client.query("COPY t (a) TO STDOUT (FORMAT binary)");
    let first = &out.iter().find(|(kind, _)| *kind == b'd').unwrap().1;
    assert_eq!(first[..21], *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01");
    assert_eq!(first[21..], *b"\0\0\0\x04\0\0\0\x01");
}

/// A statement that does not end by itself.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b \
                    WHERE a.value * b.value % 7 = 3";

#[test]
fn a_client_for_which_there_is_no_room_is_told_so() {
    let server = Server::start(&["--max-connections", "1"]);
    let _first = server.connect();
    let mut second = Client { stream: TcpStream::connect(server.address).unwrap() };
    // Libraries do not show an error that comes before the start-up message.
    second.send_first(&80_877_103_i32.to_be_bytes());
    let mut answer = [0];
    second.stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    second.send_first(&[&196_608_i32.to_be_bytes(), &b"user\0anna\0\0"[..]].concat());
    let (kind, error) = second.receive();
    assert_eq!((kind, field(&error, b'C').as_str()), (b'E', "53300"));
}

#[test]
fn statements_are_cancelled_and_end_with_their_time() {
    let server = Server::start(&[]);
    let mut client = server.begin("anna");
    let hello = client.until(b'Z');
    let key = hello.iter().find(|(kind, _)| *kind == b'K').unwrap().1.clone();
    assert_eq!(client.ask(&format!("SET statement_timeout = '100ms'; {LONG}")), "SET !57014 I");
    assert_eq!(client.ask("RESET statement_timeout; SELECT 1"), "RESET 1 SELECT 1 I");
    let cancel = |key: &[u8]| {
        let stream = TcpStream::connect(server.address).unwrap();
        let mut other = Client { stream };
        other.send_first(&[&80_877_102_i32.to_be_bytes(), key].concat());
        // The server closes it.
        let _ = other.stream.read(&mut [0]);
    };
    client.send(b'Q', &[LONG.as_bytes(), b"\0"].concat());
    let mut wrong = key.clone();
    wrong[7] ^= 1;
    cancel(&wrong);
    client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(client.stream.peek(&mut [0]).is_err());
    client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    cancel(&key);
    assert_eq!(show(&client.until(b'Z')), "!57014 I");
    assert_eq!(client.ask("SELECT 1"), "1 SELECT 1 I");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of users is none of a store")]
fn users_prove_who_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut hash = crate::sty(&["serve", "--new-password"]);
    let password = hash.write_stdin("secret\n").output().unwrap().stdout;
    let users = [b"[users.anna]\nread_only = true\n", &password[..]].concat();
    std::fs::write(dir.path().join("users.toml"), users).unwrap();
    let server = Server::start_in(dir, &["--users", "users.toml"]);
    let mut client = server.begin("anna");
    prove(&mut client, "secret");
    client.until(b'Z');
    assert_eq!(client.ask("CREATE TABLE t (a INT)"), "!25006 I");
    assert_eq!(client.ask("SELECT current_user"), "anna SELECT 1 I");
    for (user, password) in [("anna", "wrong"), ("bob", "secret")] {
        let mut client = server.begin(user);
        prove(&mut client, password);
        let (kind, error) = client.receive();
        assert_eq!((kind, field(&error, b'C').as_str()), (b'E', "28P01"));
    }
}

/// Proves that a password is known, by SCRAM-SHA-256.
fn prove(client: &mut Client, password: &str) {
    let (kind, offered) = client.receive();
    assert_eq!((kind, &offered[4..17]), (b'R', &b"SCRAM-SHA-256"[..]));
    let bare = "n=,r=abc";
    let first = format!("n,,{bare}");
    let length = (first.len() as u32).to_be_bytes();
    client.send(b'p', &[b"SCRAM-SHA-256\0", &length[..], first.as_bytes()].concat());
    let (_, server_first) = client.receive();
    let server_first = String::from_utf8(server_first[4..].to_vec()).unwrap();
    let mut parts = server_first.split(',').map(|part| &part[2..]);
    let (nonce, salt, rounds) =
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let salt = STANDARD.decode(salt).unwrap();
    let mut salted = [0; 32];
    let rounds = rounds.parse().unwrap();
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
    let sign = |key: &[u8], text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
    };
    let client_key = sign(&salted, "Client Key");
    let stored_key = digest::digest(&digest::SHA256, &client_key);
    let without_proof = format!("c=biws,r={nonce}");
    let signature = sign(stored_key.as_ref(), &format!("{bare},{server_first},{without_proof}"));
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    let last = format!("{without_proof},p={}", STANDARD.encode(proof));
    client.send(b'p', last.as_bytes());
}

#[test]
fn what_is_no_message_ends_the_connection_and_nothing_else() {
    let server = Server::start(&[]);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0, 0, 0, 0],
        &[0, 0, 0, 8, 0, 3, 0, 0],
        &[0, 0, 0, 9, 0, 3, 0, 0, 0],
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(matches!(answer.first(), None | Some(b'E')), "{answer:?}");
    }
    let mut client = server.connect();
    client.send(b'B', b"cut");
    let (kind, error) = client.receive();
    assert_eq!((kind, field(&error, b'C').as_str()), (b'E', "08P01"));
    assert_eq!(server.connect().ask("SELECT 1"), "1 SELECT 1 I");
}

#[test]
fn the_query_log_has_statements_and_their_failures() {
    let server = Server::start(&["--query-log"]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (a INT NOT NULL)");
    client.ask("INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a");
    client.query("INSERT INTO t VALUES (NULL)");
    client.query("SELECT 1 / (a - 1) FROM t");
    let log = "SELECT interface, \"user\", written_rows, result_rows, exception_code, \
               left(exception, 6), left(query, 8) FROM query_log \
               WHERE query NOT LIKE '%query_log%' ORDER BY query_start_time";
    let since = std::time::Instant::now();
    let mut found = Vec::new();
    while found.len() < 5 {
        assert!(since.elapsed() < Duration::from_secs(30), "{found:?}");
        std::thread::sleep(Duration::from_millis(100));
        let rows = client.query(log);
        let rows = rows.iter().filter(|(kind, _)| *kind == b'D');
        found = rows.map(|(_, body)| values(body).join("|")).collect();
    }
    let ok = ["2|0|0|NULL|INSERT I", "0|2|0|NULL|SELECT a"].map(|it| format!("postgres|anna|{it}"));
    assert_eq!(found[1..3], ok, "{found:?}");
    let failed = ["0|0|1002|23502:|INSERT I", "0|0|1002|22012:|SELECT 1"];
    assert_eq!(found[3..], failed.map(|it| format!("postgres|anna|{it}")), "{found:?}");
}
