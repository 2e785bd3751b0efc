//! Values as clients of PostgreSQL write and read them: literals, COPY, parameters.

use crate::serve_postgres::{Client, Server, show};

/// What a COPY from the client answers to these rows.
fn copied(client: &mut Client, copy: &str, rows: &str) -> String {
    client.send(b'Q', format!("{copy}\0").as_bytes());
    assert_eq!(client.receive().0, b'G', "{copy}");
    client.send(b'd', rows.as_bytes());
    client.send(b'c', b"");
    show(&client.until(b'Z'))
}

/// What a statement with one parameter, whose value is a text of this type, answers.
fn asked(client: &mut Client, sql: &str, oid: u32, value: &str) -> String {
    let parse = [&b"\0"[..], sql.as_bytes(), b"\0\0\x01", &oid.to_be_bytes()].concat();
    client.send(b'P', &parse);
    let length = (value.len() as u32).to_be_bytes();
    client.send(b'B', &[&b"\0\0\0\0\0\x01"[..], &length, value.as_bytes(), b"\0\0"].concat());
    client.send(b'E', b"\0\0\0\0\0");
    client.send(b'S', b"");
    let answer = show(&client.until(b'Z'));
    answer.trim_start_matches("1 2 ").to_owned()
}

#[test]
fn texts_with_escapes_are_read_by_the_parser() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (sql, shown) in [
        (r"SELECT E'\101', E'\x41', E'\u0041', E'\U0001F600'", "A|A|A|😀 SELECT 1 I"),
        (r"SELECT length(E'\n\t\b\\\''), E'\q'", "5|q SELECT 1 I"),
        (r"SELECT E'\\x00ff'::bytea, 'a%' LIKE 'a\%' ESCAPE E'\\'", r"\x00ff|t SELECT 1 I"),
        (r"SELECT E'\x00ff'", "!42601 I"),
        (r"SET application_name = E'\x41\102'; SHOW application_name", "S SET AB SHOW I"),
        ("SELECT /* /* */ 2, */ $$it's$$", "it's SELECT 1 I"),
    ] {
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
}

#[test]
fn a_header_that_has_to_match_does() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (a TEXT, b TEXT)");
    for (options, rows, shown) in [
        ("(format csv, header match)", "b,a\nB,A\n", "!22P04 I"),
        ("(format csv, header match)", "a\nA\n", "!22P04 I"),
        ("(format csv, header match)", "\"a\",b\nA,B\n", "COPY 1 I"),
        ("(header match)", "b\ta\nB\tA\n", "!22P04 I"),
        ("(header match)", "a\tb\nA\tB\n", "COPY 1 I"),
        ("(format csv, header)", "\"any\n thing\",at all\nA,B\n", "COPY 1 I"),
    ] {
        let copy = format!("COPY t FROM STDIN {options}");
        assert_eq!(copied(&mut client, &copy, rows), shown, "{options} {rows}");
    }
    let swapped = copied(&mut client, "COPY t (b, a) FROM STDIN CSV HEADER MATCH", "b,a\nB,A\n");
    assert_eq!(swapped, "COPY 1 I");
    assert_eq!(client.ask("SELECT DISTINCT a, b FROM t"), "A|B SELECT 1 I");
    assert_eq!(client.ask("SELECT count(*) FROM t"), "4 SELECT 1 I");
    assert_eq!(client.ask("COPY t TO STDOUT (HEADER MATCH)"), "!0A000 I");
}

/// With another text for null, an empty field is the empty text, and no number.
#[test]
fn an_empty_field_is_null_only_if_null_is_empty() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("CREATE TABLE t (id INT, a TEXT, b TEXT)");
    let copy = "COPY t FROM STDIN (FORMAT csv, NULL 'N!')";
    assert_eq!(copied(&mut client, copy, "1,,x\n2,N!,\"N!\"\n"), "COPY 2 I");
    let first = copied(&mut client, copy, ",y,x\n");
    assert!(first.starts_with('!'), "{first}");
    assert_eq!(copied(&mut client, "COPY t FROM STDIN CSV", "3,,\"\"\n"), "COPY 1 I");
    let rows = client.ask("SELECT id, a IS NULL, length(a), b FROM t ORDER BY id");
    assert_eq!(rows, "1|f|0|x 2|t|NULL|N! 3|t|NULL| SELECT 3 I");
}

#[test]
fn items_of_arrays_are_read_as_values_are() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    client.ask(&format!("CREATE TABLE t (u UUID); INSERT INTO t VALUES ('{id}')"));
    let plain = id.replace('-', "");
    let one = "1 SELECT 1 I";
    let any = "SELECT count(*) FROM t WHERE u = ANY($1)";
    assert_eq!(asked(&mut client, any, 2951, &format!("{{{plain}}}")), one);
    assert_eq!(asked(&mut client, "SELECT count(*) FROM t WHERE u = $1", 2950, &plain), one);
    let shown = asked(&mut client, "SELECT $1::uuid", 2950, &plain.to_uppercase());
    assert_eq!(shown, format!("{id} SELECT 1 I"));
    assert_eq!(asked(&mut client, "SELECT $1::uuid", 2950, "a0ee"), "1 !22P02 I");
    for (oid, array) in
        [(1001, r#"{"\\x61","\\xff",NULL}"#), (1000, "{t,f}"), (1009, r#"{a,"",NULL,"b c"}"#)]
    {
        assert_eq!(asked(&mut client, "SELECT $1", oid, array), format!("{array} SELECT 1 I"));
    }
    assert_eq!(asked(&mut client, "SELECT $1", 1001, r#"{"\\x6"}"#), "1 !22P02 I");
    for oid in [114, 3802] {
        let json = r#"{"a": [1, null]}"#;
        assert_eq!(asked(&mut client, "SELECT $1", oid, json), format!("{json} SELECT 1 I"));
    }
}

/// A timestamp in nanoseconds keeps its date when it is sent in microseconds.
#[test]
fn timestamps_before_1970_stay_in_their_second() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask(
        "CREATE TABLE t (at TIMESTAMP(9)); \
         INSERT INTO t VALUES ('1969-12-31 23:59:59.999999999')",
    );
    assert_eq!(client.ask("SELECT at FROM t"), "1969-12-31 23:59:59.999999 SELECT 1 I");
    let micros = client.ask("SELECT CAST(at AS TIMESTAMP(6)) FROM t");
    assert_eq!(micros, "1969-12-31 23:59:59.999999 SELECT 1 I");
}

/// Of a level that is not kept as it is meant, that is said.
#[test]
fn levels_of_isolation_that_are_not_kept_are_warned_of() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (sql, shown) in [
        ("BEGIN; COMMIT", "BEGIN COMMIT I"),
        ("BEGIN ISOLATION LEVEL READ COMMITTED; COMMIT", "BEGIN COMMIT I"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ; COMMIT", "BEGIN COMMIT I"),
        ("BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN ?01000 SET T"),
        ("COMMIT", "COMMIT I"),
        ("SET default_transaction_isolation = 'serializable'", "?01000 SET I"),
        ("BEGIN; SHOW transaction_isolation; COMMIT", "BEGIN serializable SHOW COMMIT I"),
        ("SET default_transaction_isolation = 'Read Committed'", "SET I"),
        ("BEGIN; SHOW transaction_isolation; COMMIT", "BEGIN read committed SHOW COMMIT I"),
        ("SET default_transaction_isolation = 'some'", "!22023 I"),
    ] {
        assert_eq!(client.ask(sql), shown, "{sql}");
    }
}

/// From REPEATABLE READ on, a block reads each table as it was when it first read it.
#[test]
fn a_block_reads_one_generation_of_each_table() {
    let server = Server::start(&[]);
    let (mut reader, mut writer) = (server.connect(), server.connect());
    let asked = |client: &mut Client, sql: &str, shown: &str| {
        assert_eq!(client.ask(sql), shown, "{sql}");
    };
    writer.ask("CREATE TABLE t (x INT); INSERT INTO t VALUES (1); CREATE TABLE u (x INT)");
    for begin in [
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET default_transaction_isolation = 'REPEATABLE READ'; BEGIN",
    ] {
        writer.ask("TRUNCATE t; INSERT INTO t VALUES (1); TRUNCATE u");
        reader.ask(begin);
        for _ in 0..3 {
            asked(&mut reader, "SELECT count(*) FROM t", "1 SELECT 1 T");
            writer.ask("INSERT INTO t VALUES (2); INSERT INTO u VALUES (1), (2)");
        }
        asked(&mut reader, "SELECT (SELECT sum(x) FROM T), count(*) FROM u", "1|6 SELECT 1 T");
        // What a view is made of is read as it was, too, and so are the rows of a cursor.
        writer.ask("CREATE OR REPLACE VIEW v AS SELECT count(*) AS n FROM t");
        asked(&mut reader, "SELECT n FROM v", "1 SELECT 1 T");
        reader.ask("DECLARE c CURSOR FOR SELECT x FROM t");
        asked(&mut reader, "FETCH ALL FROM c", "1 FETCH 1 T");
        asked(&mut reader, "COMMIT", "COMMIT I");
        asked(&mut reader, "SELECT count(*) FROM t", "4 SELECT 1 I");
        reader.ask("SET default_transaction_isolation TO DEFAULT");
    }
    // At READ COMMITTED, each statement reads what there is.
    reader.ask("BEGIN; SELECT count(*) FROM t");
    writer.ask("INSERT INTO t VALUES (9)");
    asked(&mut reader, "SELECT count(*) FROM t", "5 SELECT 1 T");
    asked(&mut reader, "ROLLBACK", "ROLLBACK I");
}

/// A block reads what it has written itself. What it changes are the rows that it has seen.
#[test]
fn a_block_of_one_generation_sees_its_own_writes() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let asked = |client: &mut Client, sql: &str, shown: &str| {
        assert_eq!(client.ask(sql), shown, "{sql}");
    };
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t";
    other.ask("CREATE TABLE t (x INT); INSERT INTO t VALUES (1)");
    asked(&mut client, begin, "BEGIN 1 SELECT 1 T");
    asked(&mut client, "INSERT INTO t VALUES (2), (3)", "INSERT 0 2 T");
    asked(&mut client, "SELECT count(*) FROM t", "3 SELECT 1 T");
    asked(&mut client, "UPDATE t SET x = x + 1 WHERE x > 1", "UPDATE 2 T");
    asked(&mut client, "SELECT sum(x) FROM t", "8 SELECT 1 T");
    asked(&mut client, "COMMIT", "COMMIT I");
    // Rows that this block has not seen are neither changed nor read for a change.
    for change in [
        "UPDATE t SET x = 0",
        "DELETE FROM t WHERE x >= 1",
        "INSERT INTO t SELECT x FROM t",
        "CREATE OR REPLACE TABLE t AS SELECT x FROM t",
    ] {
        asked(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN T");
        client.ask("SELECT count(*) FROM t");
        other.ask("INSERT INTO t VALUES (100)");
        asked(&mut client, change, "!40001 E");
        asked(&mut client, "ROLLBACK", "ROLLBACK I");
    }
    asked(&mut client, "SELECT count(*), sum(x) FROM t", "7|408 SELECT 1 I");
    // What it only adds is added, and read with what others have added before.
    asked(&mut client, begin, "BEGIN 7 SELECT 1 T");
    other.ask("INSERT INTO t VALUES (100)");
    asked(&mut client, "INSERT INTO t VALUES (4)", "INSERT 0 1 T");
    asked(&mut client, "SELECT count(*) FROM t", "9 SELECT 1 T");
    asked(&mut client, "COMMIT", "COMMIT I");
}
