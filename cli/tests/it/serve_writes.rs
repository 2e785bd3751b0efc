//! `sty serve` under many clients that write, and what its query log says of statements.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::serve::{Server, wait_for};

/// Inserts rows `0…` of a client in turn over HTTP, until it is told to stop or the server is gone;
/// notes those that were acknowledged.
fn insert_until(
    server: &Server,
    client: u64,
    stop: &AtomicBool,
    acknowledged: &Mutex<BTreeSet<u64>>,
) {
    for row in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let id = client * 1_000_000 + row;
        let body = match row % 3 {
            0 => format!("INSERT INTO t VALUES ({id}, 'v')"),
            1 => format!("INSERT INTO t FORMAT TSV\n{id}\tt\n"),
            _ => format!("INSERT INTO t FORMAT JSONEachRow\n{{\"id\": {id}, \"s\": \"j\"}}\n"),
        };
        // The server may be killed at any moment.
        let Ok(mut stream) = std::net::TcpStream::connect(server.address()) else { return };
        let length = body.len();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n\
             {body}"
        );
        let mut reply = String::new();
        let is_sent = stream.write_all(request.as_bytes()).is_ok();
        if !is_sent || stream.read_to_string(&mut reply).is_err() || reply.is_empty() {
            return;
        }
        assert!(reply.starts_with("HTTP/1.1 200"), "{body}: {reply}");
        acknowledged.lock().unwrap().insert(id);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let mut server = Server::start(&["--query-log"]);
    server.ask("CREATE TABLE t (id BIGINT NOT NULL, s TEXT)");
    let acknowledged = Mutex::new(BTreeSet::new());
    for round in 0..3 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (server, stop, acknowledged) = (&server, &stop, &acknowledged);
                scope.spawn(move || insert_until(server, round * 8 + client, stop, acknowledged));
            }
            std::thread::sleep(Duration::from_millis(1500));
            server.kill();
            stop.store(true, Ordering::Relaxed);
        });
        server = server.kill_and_start(&["--query-log"]);
        let stored = server.ask("SELECT id FROM t ORDER BY id");
        let stored: Vec<u64> = stored.lines().map(|line| line.parse().unwrap()).collect();
        let distinct: BTreeSet<u64> = stored.iter().copied().collect();
        assert_eq!(distinct.len(), stored.len(), "no row is stored twice");
        let acknowledged = acknowledged.lock().unwrap();
        assert!(!acknowledged.is_empty());
        assert!(acknowledged.is_subset(&distinct), "{:?}", acknowledged.difference(&distinct));
    }
}

#[test]
fn inserts_of_many_clients_keep_their_errors_and_counts() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT NOT NULL, small TINYINT)");
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, failed) = (&server, &failed);
            scope.spawn(move || {
                for row in 0..10 {
                    let id = client * 100 + row;
                    let (body, part) = match (client + row) % 5 {
                        0 => (format!("INSERT INTO t VALUES ({id}, 1000)"), "does not hold"),
                        1 => ("INSERT INTO t (small) VALUES (1)".to_owned(), "NOT NULL"),
                        2 => (format!("INSERT INTO t FORMAT TSV\n{id}\tx\n"), "small"),
                        _ => (format!("INSERT INTO t VALUES ({id}, 1)"), ""),
                    };
                    let reply = server.post("/", &body);
                    let is_right = reply.status == 200;
                    assert_eq!(is_right, part.is_empty(), "{body}: {}", reply.text());
                    assert!(reply.text().contains(part), "{body}: {}", reply.text());
                    failed.fetch_add(u64::from(!is_right), Ordering::Relaxed);
                    if is_right {
                        let summary = reply.header("x-clickhouse-summary").unwrap();
                        assert!(summary.contains("\"written_rows\":\"1\""), "{summary}");
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 48);
    let all = "SELECT count(*), count(DISTINCT id), sum(small) FROM t";
    assert_eq!(server.ask(all), "32\t32\t32\n");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("\nsty_rows_received_total 32\n"), "{metrics}");
    assert!(metrics.contains(&format!("\nsty_statements_failed_total {failed}\n")), "{metrics}");
}

#[test]
fn statements_that_read_what_they_write_do_so_in_turn() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (id BIGINT)");
    // It takes its time to be planned, so that others commit meanwhile.
    let others: Vec<String> = (1..300).map(|at| format!("-{at} + 0")).collect();
    let others = others.join(", ");
    let next =
        format!("INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t WHERE id NOT IN ({others})");
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (server, next) = (&server, &next);
            scope.spawn(move || {
                for _ in 0..5 {
                    match client % 2 {
                        0 => server.ask(next),
                        _ => server.ask("INSERT INTO t VALUES (NULL)"),
                    };
                }
            });
        }
    });
    let all = "SELECT count(*), count(DISTINCT id), max(id) FROM t";
    assert_eq!(server.ask(all), "30\t15\t15\n");
}

#[test]
fn the_query_log_has_what_has_ended() {
    let mut server = Server::start(&["--query-log=7d"]);
    server.ask("CREATE TABLE t (id BIGINT)");
    server.ask("INSERT INTO t VALUES (1), (2), (3)");
    server.post("/?query_id=mine", "SELECT id FROM t ORDER BY id LIMIT 2");
    assert_eq!(server.post("/", "SELECT * FROM nosuch").status, 404);
    let endless = "SELECT count(*) FROM generate_series(1, 1000000) a, \
                   generate_series(1, 1000000) b WHERE a.value + b.value < 0";
    assert_eq!(server.post("/?max_execution_time=0.2", endless).status, 408);
    let count = || server.ask("SELECT count(*) FROM system.query_log WHERE ended = 'timeout'");
    wait_for("the log is written", || count() == "1\n");
    let shown = server.ask(
        "SELECT type, \"user\", interface, result_rows, result_bytes, written_rows, exception_code, \
         exception LIKE '%nosuch%', ended, trim(left(query, 13)) FROM query_log WHERE query NOT \
         LIKE '%query_log%' ORDER BY query_start_time",
    );
    let expected = "QueryFinish\tdefault\thttp\t0\t0\t0\t0\t\\N\t\\N\tCREATE TABLE\n\
         QueryFinish\tdefault\thttp\t0\t0\t3\t0\t\\N\t\\N\tINSERT INTO t\n\
         QueryFinish\tdefault\thttp\t2\t4\t0\t0\t\\N\t\\N\tSELECT id FRO\n\
         ExceptionWhileProcessing\tdefault\thttp\t0\t0\t0\t60\ttrue\t\\N\tSELECT * FROM\n\
         ExceptionWhileProcessing\tdefault\thttp\t0\t0\t0\t159\tfalse\ttimeout\tSELECT count(\n";
    assert_eq!(shown, expected);
    let checks = "SELECT count(*) FROM query_log WHERE query_id = 'mine' AND query_duration_ms > 0 \
                  AND event_time >= query_start_time AND event_date = event_time::date";
    assert_eq!(server.ask(checks), "1\n");
    let described = server.ask("DESCRIBE TABLE system.query_log");
    assert!(described.starts_with("type\tNullable(String)\t"), "{described}");
    // The graceful end writes the rest, and old days go when a server begins.
    server.ask("INSERT INTO query_log (event_date, query) VALUES ('2001-01-31', 'old')");
    server.post("/?query_id=last", "SELECT 1");
    server.end();
    server = server.kill_and_start(&["--query-log=7d"]);
    assert_eq!(server.ask("SELECT count(*) FROM query_log WHERE query_id = 'last'"), "1\n");
    let old = || server.ask("SELECT count(*) FROM query_log WHERE query = 'old'");
    wait_for("an old day goes", || old() == "0\n");
    // Without it, nothing is written.
    let server = server.kill_and_start(&[]);
    server.post("/?query_id=silent", "SELECT 1");
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(server.ask("SELECT count(*) FROM query_log WHERE query_id = 'silent'"), "0\n");
}

#[test]
fn uuids_and_intervals_come_in_every_text_format() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE u (id UUID, d INTERVAL, n INT)");
    let id = "B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
    let insert = |format: &str, body: String| {
        server.post(&format!("/?query=INSERT+INTO+u+FORMAT+{format}"), &body)
    };
    for (format, body) in [
        ("CSV", format!("{id},1 day,1\n")),
        ("CSVWithNames", format!("id,d,n\n{id},-2:30:00,2\n")),
        ("JSONEachRow", format!("{{\"id\":\"{id}\",\"d\":\"2 hours\",\"n\":3}}\n")),
        ("TSV", format!("{id}\t1 day -02:30:00\t4\n")),
    ] {
        let reply = insert(format, body);
        assert_eq!(reply.status, 200, "{format}: {}", reply.text());
    }
    for (format, body) in [
        ("CSV", "nope,1 day,5\n".to_owned()),
        ("CSV", format!("{id},5,5\n")),
        ("TSV", format!("{id}\t5\t5\n")),
        ("TSV", format!("{id}\t1 hour 30\t5\n")),
    ] {
        let reply = insert(format, body.clone());
        assert!(reply.status >= 400, "{format} {body}: {}", reply.text());
    }
    let id = id.to_lowercase();
    let stored = ["1 days", "-2 hours -30 mins", "2 hours", "1 days -2 hours -30 mins"];
    let rows = stored.iter().zip(1..).map(|(d, n)| format!("{id}\t{d}\t{n}\n"));
    assert_eq!(server.ask("SELECT * FROM u ORDER BY n"), rows.collect::<String>());
}

/// A body without rows stores none, and is no error.
#[test]
fn bodies_without_rows_are_taken() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (a INT, b TEXT)");
    let insert = |format: &str, body: &str| {
        server.post(&format!("/?query=INSERT+INTO+t+FORMAT+{format}"), body.as_bytes())
    };
    for format in [
        "CSV",
        "CSVWithNames",
        "TSV",
        "JSON",
        "JSONEachRow",
        "JSONCompact",
        "JSONCompactEachRow",
        "JSONCompactEachRowWithNames",
        "JSONCompactEachRowWithNamesAndTypes",
        "Native",
        "RowBinary",
        "Values",
    ] {
        let none = insert(format, "");
        assert_eq!(none.status, 200, "{format}: {}", none.text());
    }
    for format in ["JSONCompact", "JSONCompactEachRowWithNamesAndTypes", "JSON", "CSVWithNames"] {
        let answer = server.ask(&format!("SELECT * FROM t FORMAT {format}"));
        let none = insert(format, &answer);
        assert_eq!(none.status, 200, "{format}: {}", none.text());
    }
    let one = insert("JSONCompactEachRow", "[1,\"x\"]\n");
    assert_eq!(one.status, 200, "{}", one.text());
    assert_eq!(server.ask("SELECT * FROM t"), "1\tx\n");
}

/// A decimal of more digits than its type has is a wrong row.
#[test]
fn a_decimal_that_is_too_long_is_a_mistake_of_the_client() {
    let server = Server::start(&[]);
    server.ask("CREATE TABLE t (d DECIMAL(38, 2))");
    let insert = |value: i128| {
        let body = [&[0][..], &value.to_le_bytes()].concat();
        server.post("/?query=INSERT+INTO+t+FORMAT+RowBinary", body)
    };
    for value in [i128::MIN, i128::MAX, 10_i128.pow(38)] {
        let refused = insert(value);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(refused.header("x-clickhouse-exception-code"), Some("36"));
    }
    assert_eq!(insert(-10_i128.pow(38) + 1).status, 200);
    assert_eq!(server.ask("SELECT * FROM t"), "-999999999999999999999999999999999999.99\n");
}
