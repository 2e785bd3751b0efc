//! `sty serve --flight` where an answer has several endpoints.

use std::time::{Duration, Instant};

use arrow_flight::{Action, FlightInfo, RenewFlightEndpointRequest};
use prost::Message as _;
use tonic::Code;

use crate::serve_flight::{Client, Server, code, fetch_from, numbers};

fn info(server: &Server, client: &mut Client, sql: &str) -> FlightInfo {
    server.wait(client.execute(sql.to_owned(), None)).unwrap_or_else(|it| panic!("{sql}: {it}"))
}

/// A table of 600,000 rows in two segments.
fn table(server: &Server, client: &mut Client) {
    for sql in [
        "CREATE TABLE t AS SELECT value AS a, value % 10 AS k FROM generate_series(1, 300000)",
        "INSERT INTO t SELECT value, value % 10 FROM generate_series(300001, 600000)",
    ] {
        server.update(client, sql);
    }
}

#[test]
fn parts_of_an_answer_are_of_one_generation() {
    let server = Server::start(&["--threads", "2"]);
    let mut client = server.connect();
    client.set_header("endpoints", "2");
    table(&server, &mut client);
    let some = info(&server, &mut client, "SELECT a + 1 AS b FROM t WHERE k <> 3");
    assert_eq!((some.endpoint.len(), some.ordered), (2, false));
    let all = info(&server, &mut client, "SELECT * FROM t");
    // What happens then is not seen, also if a part is fetched twice.
    server.update(&mut client, "DELETE FROM t WHERE a % 2 = 0");
    server.update(&mut client, "INSERT INTO t SELECT -1, 3 FROM generate_series(1, 300000)");
    let (mut one, mut other) = (server.connect(), server.connect());
    for _ in 0..2 {
        let (left, right) = server.wait(async {
            let left = fetch_from(&mut one, &some.endpoint[0]);
            let right = fetch_from(&mut other, &some.endpoint[1]);
            tokio::join!(left, right)
        });
        let parts = [left.unwrap(), right.unwrap()];
        assert!(parts.iter().all(|part| part.num_rows() > 0));
        let mut rows: Vec<i64> = parts.iter().flat_map(|part| numbers(part, 0)).collect();
        rows.sort_unstable();
        let right: Vec<i64> = (1..=600_000).filter(|a| a % 10 != 3).map(|a| a + 1).collect();
        assert!(rows == right, "{} rows", rows.len());
    }
    let first = server.wait(fetch_from(&mut client, &all.endpoint[0])).unwrap();
    assert_eq!(numbers(&first, 0).len(), 300_000);
    // Its second part holds the table; renewing it does as well.
    let request = RenewFlightEndpointRequest::new(all.endpoint[1].clone());
    let action = Action::new("RenewFlightEndpoint", request.encode_to_vec());
    server.wait(client.do_action(action)).unwrap();
    let drop = "DROP TABLE t";
    let refused = server.wait(client.execute_update(drop.to_owned(), None)).unwrap_err();
    assert!(refused.to_string().contains("is being read"), "{refused}");
    server.wait(fetch_from(&mut client, &all.endpoint[1])).unwrap();
    let begun = Instant::now();
    while server.wait(client.execute_update(drop.to_owned(), None)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
    let over = server.wait(fetch_from(&mut client, &all.endpoint[1])).unwrap_err();
    assert_eq!(code(over), Code::NotFound);
}

#[test]
fn other_answers_are_whole() {
    let server = Server::start(&["--threads", "2"]);
    let mut client = server.connect();
    table(&server, &mut client);
    assert_eq!(info(&server, &mut client, "SELECT * FROM t").endpoint.len(), 1, "nobody asked");
    client.set_header("endpoints", "7");
    server.update(&mut client, "CREATE TABLE small AS SELECT 1 AS a");
    server.update(&mut client, "CREATE VIEW v AS SELECT * FROM t WHERE k = 1");
    for (sql, parts) in [
        ("SELECT * FROM t", 2),
        ("SELECT a FROM t ORDER BY a", 1),
        ("SELECT a FROM t LIMIT 500000", 1),
        ("SELECT a FROM t OFFSET 1", 1),
        ("SELECT DISTINCT a FROM t", 1),
        ("SELECT count(*) FROM t", 1),
        ("SELECT a, now() FROM t", 1),
        ("SELECT a, random() FROM t", 1),
        ("SELECT a, row_number() OVER () FROM t", 1),
        ("SELECT a FROM t WHERE a > (SELECT min(a) FROM t)", 1),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM small)", 1),
        ("SELECT x.a FROM t AS x JOIN t AS y USING (a)", 1),
        ("SELECT a FROM t UNION ALL SELECT a FROM t", 1),
        ("SELECT unnest([a, k]) FROM t", 1),
        ("SELECT a FROM t TABLESAMPLE SYSTEM (90 PERCENT)", 1),
        ("SELECT a FROM t WHERE a < 1000", 1),
        ("SELECT * FROM v", 1),
        ("SELECT * FROM small", 1),
        ("SHOW TABLES", 1),
    ] {
        assert_eq!(info(&server, &mut client, sql).endpoint.len(), parts, "{sql}");
    }
    let mut prepared = server.wait(client.prepare("SELECT * FROM t".into(), None)).unwrap();
    assert_eq!(server.wait(prepared.execute()).unwrap().endpoint.len(), 2);
    client.set_header("endpoints", "0");
    let refused = server.wait(client.execute("SELECT 1".to_owned(), None)).unwrap_err();
    assert!(refused.to_string().contains("a number from 1 to 64"), "{refused}");
    client.set_header("endpoints", "2");
    // A session with a name answers one call at a time.
    client.set_header("session_id", "s");
    assert_eq!(info(&server, &mut client, "SELECT * FROM t").endpoint.len(), 1);
}
