//! Statements that write over a cluster: rows come to their machines as those of a load do, and
//! change on all machines as they do in one store.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster_loads::{Machines, csv};
use crate::serve::wait_for;

/// Where a statement asks all machines.
const CLUSTER: [&str; 4] = ["query", "--cluster", "nodes.toml", "-"];

impl Machines {
    /// What a statement over all machines answers.
    fn ask(&self, sql: &str) -> String {
        self.said(&[&CLUSTER[..], &[sql, "--format", "csv"]].concat()).0
    }

    /// What is said of a statement over all machines that fails.
    fn fails(&self, sql: &str) -> String {
        self.refused(&[&CLUSTER[..], &[sql]].concat())
    }

    /// What a statement answers on the store of one machine, or another one.
    fn on(&self, store: &str, sql: &str) -> String {
        self.said(&["query", store, sql, "--format", "csv"]).0
    }

    /// A process that writes a table of one machine as long as it lives.
    fn writer(&self, table: &str) -> Child {
        let mut writer = self.begin(&["ingest", "-q", table, "-"], Stdio::piped());
        writer.stdin.as_mut().unwrap().write_all(b"id\n1\n").unwrap();
        let lock = self.path(table).join("LOCK");
        wait_for("it writes", || std::fs::read(&lock).is_ok_and(|it| !it.is_empty()));
        writer
    }

    fn begin(&self, arguments: &[&str], input: Stdio) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sty"));
        command.args(arguments).current_dir(self.path("")).env("STY_CONFIG", "");
        command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The same statement over all machines and in the store `all`, with the same answer.
    fn both(&self, sql: &str) {
        assert_eq!(self.ask(sql), self.on("all", sql), "{sql}");
    }
}

#[test]
fn rows_of_statements_come_to_their_machines() {
    let machines = Machines::start(3, "[tables.copied]\nplacement = 'copies'\n");
    csv(&machines.path("a.csv"), 0, 2000);
    let by = ["t", "a.csv", "--partition-by", "part"];
    machines.load(&by);
    machines.said(&[&["ingest", "all/t"], &by[1..]].concat());
    // Each partition stays on one machine.
    machines.both("INSERT INTO t VALUES (5000, 20, 'new'), (5001, 3, 'old'), (5002, 21, NULL)");
    machines.both("INSERT INTO t (part, id) SELECT part + 1, id + 10000 FROM t WHERE id < 900");
    machines.both("INSERT INTO t SELECT * FROM t WHERE id < 0");
    machines.check("t");
    let mut all: Vec<String> = (0..3).flat_map(|node| machines.partitions(node)).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "a partition is on two machines: {all:?}");

    // A table without partitions is on all machines, and its rows come to one after the other.
    machines.both("CREATE TABLE u (id BIGINT NOT NULL, name VARCHAR)");
    machines.both("INSERT INTO u VALUES (1, 'one'), (2, NULL)");
    machines.both("INSERT INTO u SELECT id, name FROM t WHERE id % 3 = 0");
    machines.check("u");
    assert!((0..3).all(|node| machines.on(&format!("n{node}"), "SHOW TABLES").contains("u")));
    let null = machines.fails("INSERT INTO u VALUES (NULL, 'none')");
    assert!(null.contains("NOT NULL"), "{null}");
    machines.both("CREATE TABLE IF NOT EXISTS u (other INT)");
    assert!(machines.fails("CREATE TABLE u AS SELECT 1 AS one").contains("there is a table"));
    machines.both("CREATE TABLE v AS SELECT part, count(*) AS n FROM t GROUP BY part");
    machines.check("v");
    machines.both("CREATE TABLE none AS SELECT * FROM v WHERE part < 0");
    machines.both("SELECT count(*) FROM none");

    // Copies all get all rows.
    machines.ask("CREATE TABLE copied AS SELECT part, n FROM v WHERE part < 9");
    machines.ask("INSERT INTO copied VALUES (100, 1)");
    let sum = "SELECT count(*), sum(n) FROM copied";
    let one = machines.ask(sum);
    assert!((0..3).all(|node| machines.on(&format!("n{node}"), sum) == one));
}

#[test]
fn rows_change_as_in_one_store() {
    let machines = Machines::start(2, "[tables.copied]\nplacement = 'copies'\n");
    csv(&machines.path("a.csv"), 0, 4000);
    let by = ["t", "a.csv", "--partition-by", "part"];
    machines.load(&by);
    machines.said(&[&["ingest", "all/t"], &by[1..]].concat());
    machines.both("CREATE TABLE u AS SELECT id, name, id / 4.0 AS x FROM t");
    machines.ask("CREATE TABLE copied AS SELECT id, name FROM t");
    machines.on("all", "CREATE TABLE copied AS SELECT id, name FROM t");
    for table in ["t", "u", "copied"] {
        for sql in [
            "DELETE FROM @ WHERE id % 7 = 3",
            "UPDATE @ SET name = name || '!' WHERE id BETWEEN 100 AND 300 AND name LIKE '%3'",
            "UPDATE @ SET id = id + 100000, name = NULL WHERE name IN ('name 1', 'nothing')",
            // A few values, and more values than a list may have.
            "DELETE FROM @ WHERE id IN (SELECT id + 1 FROM @ WHERE id < 50)",
            "DELETE FROM @ WHERE id IN (SELECT id * 2 FROM @ WHERE id < 2500)",
            "UPDATE @ SET name = 'rest' WHERE id NOT IN (SELECT max(id) FROM @) AND id > 3000",
            "UPDATE @ SET name = upper(name) WHERE length(name) > (SELECT 4) OR name IS NULL",
            "DELETE FROM @ AS it WHERE it.id = 3 OR CASE WHEN it.id > 9 THEN it.id = 77 END",
            "DELETE FROM @ WHERE id < 0",
            "DELETE FROM @ WHERE id = 1 AND id = 2",
        ] {
            machines.both(&sql.replace('@', table));
        }
        machines.check(table);
    }
    // What is computed once is the same on all machines.
    machines.ask("UPDATE u SET name = now()::VARCHAR");
    assert!(machines.ask("SELECT count(DISTINCT name) FROM u").ends_with("\n1\n"));
    // Rows do not change their machines.
    let moves = machines.fails("UPDATE t SET part = 1 WHERE id = 5");
    assert!(moves.contains("by which t is partitioned"), "{moves}");
    machines.check("t");
    machines.both("DELETE FROM t");
    machines.both("SELECT count(*) FROM t");
    machines.both("TRUNCATE copied");
    machines.both("SELECT count(*) FROM copied");
}

#[test]
fn nothing_is_written_while_a_machine_is_gone() {
    let mut machines = Machines::start(2, "[tables.copied]\nplacement = 'copies'\n");
    machines.ask("CREATE TABLE t AS SELECT value AS id FROM range(100)");
    machines.ask("INSERT INTO t SELECT value + 100 FROM range(100)");
    machines.ask("CREATE TABLE copied AS SELECT value AS id FROM range(10)");
    machines.kill(1);
    for sql in [
        "INSERT INTO t VALUES (1000)",
        "DELETE FROM t WHERE id < 50",
        "UPDATE t SET id = 7",
        "DROP TABLE t",
        "CREATE TABLE w (id INT)",
        "INSERT INTO copied VALUES (1000)",
        "DELETE FROM copied",
        "DROP TABLE copied",
    ] {
        let said = machines.fails(sql);
        assert!(said.contains("node n1 (http://127.0.0.1:"), "{sql}: {said}");
    }
    machines.wake(1);
    assert!(machines.ask("SELECT count(*), sum(id) FROM t").ends_with("\n200,19900\n"));
    assert!(machines.ask("SELECT count(*), sum(id) FROM copied").ends_with("\n10,45\n"));
    assert!(machines.fails("SELECT * FROM w").contains("no table w"));
}

#[test]
fn tables_are_dropped_on_all_machines() {
    let machines = Machines::start(2, "[tables.copied]\nplacement = 'copies'\n");
    for table in ["t", "copied"] {
        machines.ask(&format!("CREATE TABLE {table} AS SELECT value AS id FROM range(100)"));
        machines.ask(&format!("SELECT sum(id) FROM {table} WHERE id > 3"));
        machines.ask(&format!("DROP TABLE {table}"));
        assert!(machines.fails(&format!("DROP TABLE {table}")).contains("no table"));
        machines.ask(&format!("DROP TABLE IF EXISTS {table}"));
    }
    let listed = |node: &str| machines.on(node, "SHOW TABLES").lines().count();
    assert_eq!((listed("n0"), listed("n1")), (1, 1));
    // One that is on some machines only is dropped there.
    machines.on("n0", "CREATE TABLE half (id INT)");
    let half = machines.fails("CREATE TABLE half (id INT)");
    assert!(half.contains("nodes n0 have a table half, and nodes n1 have none"), "{half}");
    machines.ask("DROP TABLE half");
    machines.ask("CREATE TABLE half (id INT)");
    machines.ask("INSERT INTO half VALUES (1)");
    assert!(machines.ask("SELECT * FROM half").ends_with("\n1\n"));
}

/// A statement that waits for other writers on its machines is stopped, and nothing is stored.
#[test]
fn a_statement_that_waits_for_machines_is_interrupted() {
    let machines = Machines::start(2, "[tables.copied]\nplacement = 'copies'\n");
    for table in ["t", "copied"] {
        machines.ask(&format!("CREATE TABLE {table} AS SELECT value AS id FROM range(10)"));
        let writers = ["n0", "n1"].map(|node| machines.writer(&format!("{node}/{table}")));
        let insert = format!("INSERT INTO {table} SELECT value FROM range(10)");
        let insert = [&CLUSTER[..], &[&insert, "--wait"]].concat();
        let mut insert = machines.begin(&insert, Stdio::null());
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(insert.try_wait().unwrap(), None, "{table}: it waits");
        let id = insert.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
        let since = Instant::now();
        let ended = loop {
            match insert.try_wait().unwrap() {
                Some(ended) => break Some(ended),
                None if since.elapsed() > Duration::from_secs(20) => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let _ = insert.kill();
        for mut writer in writers {
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        assert_eq!(ended.and_then(|it| it.code()), Some(130), "{table}");
        assert!(machines.ask(&format!("SELECT count(*) FROM {table}")).ends_with("\n10\n"));
    }
}
