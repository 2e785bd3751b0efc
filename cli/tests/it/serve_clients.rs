//! What clients that people have for ClickHouse ask of `sty serve`; `tests/clients` has the clients
//! themselves.

use std::io::Read as _;

use crate::serve::{Server, encoded, send};

/// Inserts a body, and returns the reply's status and text.
fn insert(server: &Server, sql: &str, rows: &[u8]) -> (u16, String) {
    let reply = server.post(&format!("/?query={}", encoded(sql)), rows);
    (reply.status, reply.text())
}

#[test]
fn tables_are_made_in_words_of_clickhouse() {
    let server = Server::start(&[]);
    server.ask(
        "CREATE TABLE IF NOT EXISTS t (a UInt8, b Int8, c Nullable(String), d DateTime64(3), \
         e LowCardinality(Nullable(String)), f Date32, g Decimal(10, 2), h FixedString(3)) \
         ENGINE = MergeTree() PARTITION BY toYYYYMM(d) ORDER BY (a, b) SETTINGS x = 1",
    );
    let described = server.ask("DESCRIBE TABLE t");
    let types: Vec<&str> = described.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    let expected =
        ["UInt8", "Int8", "String", "DateTime64(3)", "String", "Date32", "Decimal(10, 2)"];
    let expected = expected.iter().map(|it| format!("Nullable({it})"));
    assert_eq!(types[..7], expected.collect::<Vec<_>>());
    for (sql, part) in [
        ("CREATE TABLE u (a INT) ENGINE = SummingMergeTree ORDER BY a", "(UNKNOWN_STORAGE)"),
        ("CREATE TABLE u (a INT) ENGINE = MergeTree ORDER BY a TTL a + 1", "(NOT_IMPLEMENTED)"),
        ("CREATE TABLE t (a INT)", "(TABLE_ALREADY_EXISTS)"),
        ("SELECT x FROM t", "(UNKNOWN_IDENTIFIER)"),
        ("SELECT nothing(1)", "(UNKNOWN_FUNCTION)"),
        ("SELECT 1 / 0", "(ILLEGAL_DIVISION)"),
    ] {
        let reply = server.post("/", sql).text();
        assert!(reply.contains(part), "{sql}: {reply}");
    }
    let reply = server.post("/?database=nothing", "SELECT 1");
    assert!(reply.status == 404 && reply.text().contains("(UNKNOWN_DATABASE)"), "{}", reply.text());
    assert_eq!(server.post("/?database=default", "SELECT 1").text(), "1\n");
    // The tables that stand for those of `system` are not among the tables.
    let names = "SELECT name, engine_full FROM system.tables";
    assert_eq!(server.ask(names), "t\tMergeTree\n");
}

#[test]
fn columns_have_the_names_and_types_that_were_asked_for() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT, b TINYINT)");
    server.ask("INSERT INTO t VALUES (1, 1), (2, 2), (3, NULL)");
    for (sql, expected) in [
        ("SELECT revision() AS r", "r\nUInt32\n54460\n"),
        ("SELECT CAST(1 AS Int8) AS Byte", "Byte\nInt8\n1\n"),
        ("SELECT CAST(NULL AS Nullable(Int16)) AS x", "x\nNullable(Int16)\n\\N\n"),
        (
            "SELECT id AS userId FROM t WHERE id IN [1, 3] ORDER BY userId DESC",
            "userId\nNullable(Int64)\n3\n1\n",
        ),
        (
            "WITH q AS (SELECT id AS userId FROM t) SELECT q.userId FROM q WHERE userId IN ([2])",
            "userId\nNullable(Int64)\n2\n",
        ),
    ] {
        let reply = server.ask(&format!("{sql} FORMAT TSVWithNamesAndTypes"));
        assert_eq!(reply, expected, "{sql}");
    }
    // Statements that run are listed as they came.
    let sql = "SELECT query AS Query FROM system.processes";
    assert_eq!(server.ask(sql), format!("{sql}\n"));
}

#[test]
fn statements_are_read_as_clickhouse_reads_them() {
    let server = Server::start(&[]);
    server.ask("CREATE DATABASE IF NOT EXISTS default");
    let reply = server.post("/", "CREATE DATABASE other").text();
    assert!(reply.contains("(NOT_IMPLEMENTED)"), "{reply}");
    server.ask("CREATE TABLE t (id BIGINT, d DOUBLE, f Float32) ENGINE = Memory");
    server.ask("INSERT INTO t VALUES (1, inf, -Inf), (2, nan, 1.5), (3, 0.25, NULL)");
    let rows = "1\tinf\t-inf\n2\tnan\t1.5\n3\t0.25\t\\N\n";
    assert_eq!(server.ask("SELECT * FROM t ORDER BY id"), rows);
    assert_eq!(server.ask(r"SELECT '\x41\xC3\xA9'"), "Aé\n");
    let reply = server.post("/", r"SELECT '\xff'");
    assert!(reply.status == 400 && reply.text().contains("no UTF-8"), "{}", reply.text());
    for (condition, expected) in [
        ("id IN {ids:Array(Int64)}", "1\n3\n"),
        ("id IN ({ids:Array(Int64)})", "1\n3\n"),
        ("id NOT IN {ids:Array(Int64)}", "2\n"),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
        let reply = server.post("/?param_ids=%5B1,3%5D", &sql);
        assert_eq!(reply.text(), expected, "{sql}");
    }
    server.ask("DROP TABLE t SYNC");
    assert_eq!(server.ask("SHOW TABLES"), "");
}

#[test]
fn rows_come_in_as_arrays() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT, s VARCHAR)");
    let format = |name: &str| format!("INSERT INTO t FORMAT JSONCompactEachRow{name}");
    let rows = b"[1, \"a],[\\\"\"]\n[2, null]";
    assert_eq!(insert(&server, &format(""), rows), (200, String::new()));
    let rows = b"[\"s\", \"id\"]\n[\"x\", 3]";
    assert_eq!(insert(&server, &format("WithNames"), rows), (200, String::new()));
    let rows = b"[\"id\"]\n[\"Int64\"]\n[4]";
    assert_eq!(insert(&server, &format("WithNamesAndTypes"), rows), (200, String::new()));
    let rows = server.ask("SELECT * FROM t ORDER BY id FORMAT CSV");
    assert_eq!(rows, "1,\"a],[\"\"\"\n2,\\N\n3,\"x\"\n4,\\N\n");
    let (status, text) = insert(&server, &format(""), b"[5, \"x\"]\n[6]");
    assert_eq!(status, 400);
    assert!(text.contains("Code: 117.") && text.contains("row 2 of the body: 1 values"), "{text}");
    assert_eq!(server.ask("SELECT count(*) FROM t"), "4\n");
}

#[test]
fn answers_come_in_as_they_went_out() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT, s VARCHAR, d DOUBLE, day DATE)");
    server.ask(
        "INSERT INTO t VALUES (1, 'a]}\"\\,{', 1.5, DATE '2024-02-29'), (NULL, NULL, NULL, NULL), \
         (9007199254740993, 'é\n', -0.25, DATE '1969-12-31')",
    );
    let all = server.ask("SELECT * FROM t ORDER BY id FORMAT TSV");
    for format in ["JSON", "JSONCompact"] {
        let answer = server.ask(&format!("SELECT * FROM t ORDER BY id FORMAT {format}"));
        server.ask(&format!("CREATE TABLE of_{format} (day DATE, d DOUBLE, s VARCHAR, id BIGINT)"));
        let sql = format!("INSERT INTO of_{format} FORMAT {format}");
        assert_eq!(insert(&server, &sql, answer.as_bytes()), (200, String::new()), "{answer}");
        let again =
            server.ask(&format!("SELECT id, s, d, day FROM of_{format} ORDER BY id FORMAT TSV"));
        assert_eq!(again, all, "{answer}");
        let cut = &answer.as_bytes()[..answer.rfind(']').unwrap()];
        let (status, text) = insert(&server, &sql, cut);
        assert!(status == 400 && text.contains("the body ends within the answer"), "{text}");
        assert_eq!(server.ask(&format!("SELECT count(*) FROM of_{format}")), "3\n");
    }
}

/// A backslash before a tab or a line feed stands for it, as some clients write texts.
#[test]
fn line_feeds_stand_behind_backslashes() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT, s VARCHAR)");
    let reply = server.post("/?param_s=a%5C%0Ab%5C%09c%5Cd", "SELECT {s:String}");
    assert_eq!(reply.text(), "a\\nb\\tc\\\\d\n");
    assert_eq!(server.ask("SELECT 'a\\\nb\\\tc\\d'"), "a\\nb\\tc\\\\d\n");
    let rows = b"1\ta\\\nb\\\tc\n2\tx\\\\\n3\ty\n";
    assert_eq!(insert(&server, "INSERT INTO t FORMAT TSV", rows), (200, String::new()));
    let rows = server.ask("SELECT * FROM t ORDER BY id FORMAT TSV");
    assert_eq!(rows, "1\ta\\nb\\tc\n2\tx\\\\\n3\ty\n");
    let (status, text) = insert(&server, "INSERT INTO t FORMAT TSV", b"4\ta\\\nb\nx\ty\n");
    assert!(status == 400 && text.contains('x'), "{text}");
}

#[test]
fn settings_stand_where_clients_put_them() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT, s VARCHAR)");
    server.ask("INSERT INTO t SETTINGS async_insert=1, wait_for_async_insert=1 VALUES (1, 'x')");
    server.ask("INSERT INTO t (s, id) SETTINGS x=0.5 SELECT 'y', 2");
    server.ask("INSERT INTO t SETTINGS async_insert=1 FORMAT TSV\n3\tz\n");
    let sql = "SELECT id, s FROM t ORDER BY id FORMAT CSV SETTINGS x=1";
    assert_eq!(server.ask(sql), "1,\"x\"\n2,\"y\"\n3,\"z\"\n");
    // They are read there, too.
    for sql in [
        "SELECT id FROM t FORMAT CSV SETTINGS max_result_rows=1",
        "SELECT id FROM t SETTINGS max_result_rows=1 FORMAT CSV",
    ] {
        let reply = server.post("/?wait_end_of_query=1", sql).text();
        assert!(reply.contains("more than 1 rows"), "{sql}: {reply}");
    }
    let reply = server.post("/", "INSERT INTO t SETTINGS readonly=1 VALUES (4, 'x')");
    assert!(reply.text().contains("(READONLY)"), "{}", reply.text());
}

#[test]
fn a_uuid_is_checked() {
    let server = Server::start(&[]);
    let ask = |value: &str| server.post(&format!("/?param_u={value}"), "SELECT {u:UUID}");
    let uuid = "61f0c404-5cb3-11e7-907b-a6006ad3dba0";
    assert_eq!(ask(&uuid.to_uppercase()).text(), format!("{uuid}\n"));
    let reply = ask("zz");
    assert!(reply.status == 400 && reply.text().contains("'zz' is no UUID"), "{}", reply.text());
}

/// Bodies of some megabytes are read as they come.
#[test]
fn large_bodies_come_in() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT, s VARCHAR)");
    let rows = |line: fn(usize) -> String| (0..300_000).map(line).collect::<String>();
    for (format, body) in [
        ("CSV", rows(|id| format!("{id},text {id}\n"))),
        ("TSV", rows(|id| format!("{id}\ttext {id}\n"))),
        ("JSONEachRow", rows(|id| format!("{{\"id\":{id},\"s\":\"text {id}\"}}\n"))),
        ("JSONCompactEachRow", rows(|id| format!("[{id},\"text {id}\"]\n"))),
    ] {
        let sql = format!("INSERT INTO t FORMAT {format}");
        assert_eq!(insert(&server, &sql, body.as_bytes()), (200, String::new()), "{format}");
    }
    let counted = server.ask("SELECT count(*), count(DISTINCT id), count(DISTINCT s) FROM t");
    assert_eq!(counted, "1200000\t300000\t300000\n");
}

/// A client that does not look for the marks of a failure still finds that rows are missing.
#[test]
fn an_answer_that_fails_is_cut_short() {
    let server = Server::start(&[]);
    let sql = "SELECT CASE WHEN value < 900000 THEN value ELSE CAST('x' || value AS INT) END \
               FROM generate_series(1, 1000000)";
    for url in ["/", "/?compress=1", "/?enable_http_compression=1"] {
        let mut stream = server.connect();
        let head = format!("POST {url} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: deflate");
        send(&mut stream, &head, sql.as_bytes());
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        assert!(reply.starts_with(b"HTTP/1.1 200"), "{url}");
        assert!(!reply.ends_with(b"\r\n0\r\n\r\n"), "{url}");
        if url == "/" {
            let end = String::from_utf8_lossy(&reply[reply.len() - 60..]).into_owned();
            assert!(end.contains("\r\n__exception__\r\n"), "{end}");
        }
    }
}
