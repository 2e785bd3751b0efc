//! The state of PostgreSQL connections between statements, and the codes of failed statements.

use crate::serve_postgres::{Client, Server, field, show};

/// Settings of each kind, what changes them, and what puts one after the other right again.
const SHOWN: &str = "SHOW sty.dialect; SHOW sty.partial_answers; SHOW sty.wait; \
                     SHOW datafusion.execution.batch_size; \
                     SHOW datafusion.execution.target_partitions; \
                     SHOW application_name; SHOW statement_timeout; SHOW session_authorization";
const CHANGED: &str = "SET sty.dialect = 'locustdb'; SET sty.partial_answers = on; \
                       SET sty.wait = '7s'; SET datafusion.execution.batch_size = 100; \
                       SET datafusion.execution.target_partitions = 7; \
                       SET application_name = 'x'; SET statement_timeout = '5s'";
const RESET: &str = "RESET sty.dialect; RESET sty.partial_answers; RESET sty.wait; \
                     RESET datafusion.execution.batch_size; \
                     RESET datafusion.execution.target_partitions; \
                     RESET application_name; RESET statement_timeout";

#[test]
fn settings_go_back_to_those_of_a_new_connection() {
    let server = Server::start(&["--threads", "3", "--wait=9s"]);
    let mut client = server.connect();
    let begun = client.ask(SHOWN);
    assert!(begun.contains("target_partitions|3 ") && begun.contains("test SHOW"), "{begun}");
    for (reset, tag) in
        [("RESET ALL", " RESET I"), ("DISCARD ALL", " DISCARD ALL I"), (RESET, " RESET I")]
    {
        client.ask(CHANGED);
        assert!(client.ask(SHOWN).contains("target_partitions|7 "));
        let told = client.ask(reset);
        assert!(told.ends_with(tag) && !told.contains('!'), "{reset}: {told}");
        assert_eq!(client.ask(SHOWN), begun, "{reset}");
    }
    // In another dialect, this is another statement.
    client.ask("CREATE TABLE t AS SELECT value % 2 AS a FROM generate_series(1, 4)");
    client.ask("SET sty.dialect = 'locustdb'; RESET ALL");
    assert_eq!(client.ask("SELECT a, count(*) FROM t"), "!42803 I");
}

#[test]
fn what_a_connection_has_made_is_discarded() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let make = |client: &mut Client| {
        client.ask("CREATE TEMP VIEW v AS SELECT 1 AS a; PREPARE p AS SELECT 2 AS a");
        client.ask("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT value FROM generate_series(4, 9)");
        assert_eq!(client.ask("COMMIT; FETCH c"), "COMMIT 4 FETCH 1 I");
        client.send(b'P', b"s\0SELECT 3\0\0\0");
        client.send(b'S', b"");
        assert_eq!(show(&client.until(b'Z')), "1 I");
    };
    client.ask("CREATE TABLE t AS SELECT 5 AS a");
    make(&mut client);
    assert_eq!(client.ask("SELECT * FROM v; EXECUTE p"), "1 SELECT 1 2 SELECT 1 I");
    assert_eq!(client.ask("DISCARD PLANS; DISCARD TEMP"), "DISCARD PLANS DISCARD TEMP I");
    assert_eq!(client.ask("EXECUTE p; FETCH c; SELECT * FROM v"), "2 SELECT 1 5 FETCH 1 !42P01 I");
    assert_eq!(client.ask("BEGIN; DISCARD ALL"), "BEGIN !25001 E");
    assert_eq!(client.ask("ROLLBACK"), "ROLLBACK I");
    client.ask("DISCARD ALL");
    for (sql, shown) in [
        ("SELECT * FROM v", "!42P01 I"),
        ("EXECUTE p", "!26000 I"),
        ("FETCH c", "!34000 I"),
        ("SELECT * FROM t", "5 SELECT 1 I"),
    ] {
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
    client.send(b'B', b"\0s\0\0\0\0\0\0\0");
    client.send(b'S', b"");
    assert_eq!(show(&client.until(b'Z')), "!26000 I");
    // All of the names are free again.
    make(&mut client);
}

#[test]
fn a_cursor_reads_what_there_was_at_its_declare() {
    let server = Server::start(&[]);
    let (mut one, mut other) = (server.connect(), server.connect());
    one.ask("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 5)");
    let declared = one.ask("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a");
    assert_eq!(declared, "BEGIN DECLARE CURSOR T");
    let changed = other.ask("DELETE FROM t WHERE a > 1; INSERT INTO t VALUES (9)");
    assert_eq!(changed, "DELETE 4 INSERT 0 1 I");
    assert_eq!(one.ask("FETCH 2 FROM c"), "1 2 FETCH 2 T");
    assert_eq!(one.ask("FETCH ALL FROM c; FETCH c"), "3 4 5 FETCH 3 FETCH 0 T");
    assert_eq!(one.ask("COMMIT; SELECT a FROM t ORDER BY a"), "COMMIT 1 9 SELECT 2 I");
    // What is wrong with the query is said when it is declared, and nothing is changed by it.
    assert_eq!(one.ask("BEGIN; DECLARE c CURSOR FOR SELECT nope FROM t"), "BEGIN !42703 E");
    assert_eq!(one.ask("ROLLBACK"), "ROLLBACK I");
    assert_eq!(one.ask("DECLARE c CURSOR WITH HOLD FOR DELETE FROM t"), "!42601 I");
    assert_eq!(one.ask("SELECT count(*) FROM t"), "2 SELECT 1 I");
    // Nothing is held any more.
    assert_eq!(other.ask("DROP TABLE t"), "DROP TABLE I");
}

#[test]
fn savepoints_have_names() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (sql, shown) in [
        ("BEGIN; SAVEPOINT a; SAVEPOINT b; RELEASE a", "BEGIN SAVEPOINT SAVEPOINT RELEASE T"),
        // It has gone with the one before it, and the block stays failed.
        ("ROLLBACK TO b", "!3B001 E"),
        ("SELECT 1", "!25P02 E"),
        ("ROLLBACK; BEGIN; SAVEPOINT a; COMMIT; BEGIN", "ROLLBACK BEGIN SAVEPOINT COMMIT BEGIN T"),
        ("ROLLBACK TO SAVEPOINT a", "!3B001 E"),
        ("ROLLBACK; BEGIN; SAVEPOINT a; SAVEPOINT \"A\"", "ROLLBACK BEGIN SAVEPOINT SAVEPOINT T"),
        ("SELECT nope", "!42703 E"),
        ("ROLLBACK TO \"A\"; ROLLBACK TO A", "ROLLBACK ROLLBACK T"),
        ("RELEASE SAVEPOINT a", "RELEASE T"),
        ("RELEASE a", "!3B001 E"),
        ("ROLLBACK; RELEASE a", "ROLLBACK !25P01 I"),
    ] {
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
}

#[test]
fn settings_are_set_by_calls() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (sql, shown) in [
        ("SELECT set_config('statement_timeout', '7s', false)", "7s SELECT 1 I"),
        ("SHOW statement_timeout", "7s SHOW I"),
        ("BEGIN; SELECT set_config('search_path', 'x', true) AS a", "BEGIN x SELECT 1 T"),
        ("SHOW search_path; COMMIT", "x SHOW COMMIT I"),
        ("SHOW search_path", "\"$user\", public SHOW I"),
        ("SELECT set_config('timezone', 'Europe/Berlin', false)", "!22023 I"),
        // PostgreSQL reports changes of this setting to the client.
        ("SELECT pg_catalog.set_config('application_name', 'x', false)", "S x SELECT 1 I"),
        ("SET work_mem = '64MB'; SHOW work_mem", "SET 64MB SHOW I"),
        ("SELECT INTERVAL '1 day 02:00:00'", "1 day 02:00:00 SELECT 1 I"),
        ("SET IntervalStyle = iso_8601", "S SET I"),
        ("SELECT INTERVAL '1 day 02:00:00', ARRAY[INTERVAL '1 day']", "P1DT2H|{P1D} SELECT 1 I"),
    ] {
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
}

#[test]
fn failures_have_the_codes_of_their_kind() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (a INT NOT NULL, b VARCHAR); INSERT INTO t VALUES (1, 'x')");
    for (sql, code) in [
        ("INSERT INTO t VALUES (NULL, 'x')", "23502"),
        ("INSERT INTO t (b) VALUES ('x')", "23502"),
        ("INSERT INTO t SELECT NULL, 'x'", "23502"),
        ("UPDATE t SET a = NULL", "23502"),
        ("INSERT INTO t VALUES (99999999999, 'x')", "22003"),
        ("INSERT INTO t VALUES ('abc', 'x')", "22P02"),
        ("INSERT INTO t SELECT * FROM (VALUES (1, 2, 3)) v", "42601"),
        ("INSERT INTO t (nope) VALUES (1)", "42703"),
        ("SELECT CAST(300 AS TINYINT)", "22003"),
        ("SELECT (SELECT a FROM (VALUES (1), (2)) x(a))", "21000"),
        ("SELECT DATE 'zz'", "22007"),
        ("SELECT 1 LIMIT -1", "2201W"),
        ("SELECT sum(count(*)) FROM t", "42803"),
        ("SHOW nope.x", "42704"),
        ("SET sty.nope = 1", "42704"),
        ("CREATE TABLE u (a INT, a INT)", "42701"),
        ("CREATE TABLE u (a FOO)", "42704"),
    ] {
        assert_eq!(client.ask(sql), format!("!{code} I"), "{sql}");
    }
    for (sql, rows) in
        [("COPY t FROM STDIN", "\\N\tx\n"), ("COPY t FROM STDIN (FORMAT csv)", "2,y\n,x\n")]
    {
        client.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
        assert_eq!(client.receive().0, b'G');
        client.send(b'd', rows.as_bytes());
        client.send(b'c', b"");
        assert_eq!(show(&client.until(b'Z')), "!23502 I", "{sql}");
    }
    assert_eq!(client.ask("SELECT count(*) FROM t"), "1 SELECT 1 I");
}

#[test]
fn a_day_without_an_end_is_refused_in_binary_and_as_text() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (d DATE, ts TIMESTAMP)");
    let insert = b"i\0INSERT INTO t VALUES ($1, $2)\0\0\x02\0\0\x04\x3a\0\0\x04\x5a";
    client.send(b'P', insert);
    client.send(b'S', b"");
    assert_eq!(show(&client.until(b'Z')), "1 I");
    let day = |day: i32| [&[0, 0, 0, 4], &day.to_be_bytes()[..]].concat();
    let time = |time: i64| [&[0, 0, 0, 8], &time.to_be_bytes()[..]].concat();
    let text = |text: &str| [&(text.len() as i32).to_be_bytes()[..], text.as_bytes()].concat();
    let infinity = "infinity";
    for (formats, values, shown) in [
        (b"\0\x01\0\x01", [day(0), time(0)].concat(), "2 INSERT 0 1 I"),
        (b"\0\x01\0\x01", [day(i32::MAX), time(0)].concat(), "!22008 I"),
        (b"\0\x01\0\x01", [day(0), time(i64::MIN)].concat(), "!22008 I"),
        (b"\0\0\0\0", [text(infinity), text("2020-01-01")].concat(), "!22008 I"),
        (b"\0\0\0\0", [text("2020-01-01"), text("-infinity")].concat(), "!22008 I"),
    ] {
        let bind = [&b"\0i\0\0\x02"[..], formats, b"\0\x02", &values, b"\0\0"].concat();
        client.send(b'B', &bind);
        client.send(b'E', b"\0\0\0\0\0");
        client.send(b'S', b"");
        assert_eq!(show(&client.until(b'Z')), shown, "{values:?}");
    }
    assert_eq!(client.ask("SELECT * FROM t"), "2000-01-01|2000-01-01 00:00:00 SELECT 1 I");
}

#[test]
fn a_line_feed_behind_a_backslash_is_copied_in() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (a INT, b VARCHAR)");
    client.send(b'Q', b"COPY t FROM STDIN\0");
    assert_eq!(client.receive().0, b'G');
    for rows in [&b"1\tx\\"[..], b"\ny\n2\tz\\\\", b"\n"] {
        client.send(b'd', rows);
    }
    client.send(b'c', b"");
    assert_eq!(show(&client.until(b'Z')), "COPY 2 I");
    let rows = client.ask("SELECT replace(b, chr(10), '/') FROM t ORDER BY a");
    assert_eq!(rows, "x/y z\\ SELECT 2 I");
}

#[test]
fn catalogs_are_not_among_the_tables_of_a_user() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (a INT); CREATE TEMP VIEW v AS SELECT 1 AS a");
    for sql in [
        "SELECT count(*) FROM pg_class",
        "SELECT count(*) FROM information_schema.columns",
        "SELECT pg_table_size('t'::regclass)",
    ] {
        let shown = client.ask(sql);
        assert!(shown.ends_with("SELECT 1 I"), "{sql}: {shown}");
    }
    let failed = client.query("SELECT * FROM nope");
    let (_, error) = failed.iter().find(|(kind, _)| *kind == b'E').unwrap();
    assert_eq!(field(error, b'M'), "no table nope; there are: t, v");
    let shown = client.ask("SHOW TABLES");
    assert!(!shown.contains("pg_class") && !shown.contains("sty_relations"), "{shown}");
    // They are still there for who asks.
    let names = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') ORDER BY relname";
    assert_eq!(client.ask(names), "t v SELECT 2 I");
}
