//! Tables in copies: loads come to all of them, and `sty cluster copy` makes them the same.

#![expect(clippy::disallowed_methods, reason = "the tests put stores back to what they were")]

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::{copy, write};
use crate::cluster_loads::Machines;

const COPIES: &str = "[tables.t]\nplacement = 'copies'\n";
const COPY: [&str; 3] = ["cluster", "copy", "t"];
const BY: [&str; 2] = ["--cluster", "nodes.toml"];

fn csv(path: &Path, first: u32, rows: u32) {
    let row = |id: u32| format!("{id},{},name {}\n", id % 5, id % 7);
    let rows: String = (first..first + rows).map(row).collect();
    write(path.to_path_buf(), format!("id,part,name\n{rows}"));
}

impl Machines {
    /// `sty cluster copy t`, and what it says.
    fn copy(&self, arguments: &[&str]) -> String {
        self.said(&[&COPY[..], &BY, arguments].concat()).1
    }

    /// The copies are the same, and have these rows.
    fn check_copies(&self, of: usize, rows: &str) {
        assert_eq!(self.copy(&[]), "the copies of t are the same\n");
        for node in 0..of {
            let store = format!("n{node}");
            self.said(&["verify", &format!("{store}/t")]);
            assert_eq!(self.rows(&[&store]), rows, "{store}");
            let current = |node: &str| {
                let table = self.path(&format!("{node}/t"));
                let files = std::fs::read_dir(table.join("manifest")).unwrap();
                let newest = files
                    .map(|file| file.unwrap().path())
                    .filter(|path| path.extension().is_some_and(|extension| extension == "root"));
                let newest = newest.max().unwrap();
                let name = newest.file_name().unwrap().to_owned();
                let read = |path: &Path| std::fs::read(path).unwrap();
                (read(&table.join("CURRENT")), name, read(&newest))
            };
            assert_eq!(current(&store), current("n0"), "{store}");
        }
        // Each of them answers in turn.
        let statements = "SELECT count(*) AS n FROM t;".repeat(of);
        let (said, _) = self.said(&["query", BY[0], BY[1], "-", &statements, "--format", "jsonl"]);
        assert_eq!(said.matches(&format!("{{\"n\":{rows}}}")).count(), of, "{said}");
    }
}

#[test]
fn a_load_comes_to_all_copies() {
    let machines = Machines::start(3, COPIES);
    csv(&machines.path("a.csv"), 0, 300);
    let (_, said) = machines.load(&["t", "a.csv", "--partition-by", "part", "--sort-by", "name"]);
    for node in 0..3 {
        assert!(said.contains(&format!("node n{node}: 300 rows, ")), "{said}");
    }
    machines.check_copies(3, "300");
    // Small loads one after the other, one with a column that is new, and one with another type.
    for first in (300..1_200).step_by(100) {
        let file = machines.path("b.csv");
        csv(&file, first, 100);
        machines.load(&["t", "b.csv", "--if-loaded", "again"]);
    }
    machines.check_copies(3, "1200");
    write(machines.path("c.csv"), "id,part,name,new\n1,9,x,1.5\n".to_owned());
    let (_, said) = machines.load(&["t", "c.csv"]);
    assert!(said.contains("node n2: 1 row, "), "{said}");
    machines.check_copies(3, "1201");
    for file in ["a.csv", "c.csv"] {
        let again = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", file]);
        assert!(again.contains("was loaded before"), "{again}");
    }
}

#[test]
fn a_load_that_stopped_between_two_copies_is_finished() {
    let mut machines = Machines::start(3, COPIES);
    for (at, file) in ["a.csv", "b.csv", "c.csv"].into_iter().enumerate() {
        csv(&machines.path(file), 300 * at as u32, 300);
    }
    machines.load(&["t", "a.csv"]);
    machines.kill(1);
    copy(&machines.path("n1/t"), &machines.path("before"));
    // All copies or none.
    let gone = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "b.csv"]);
    assert!(gone.contains("node n1 (http://127.0.0.1:"), "{gone}");
    machines.wake(1);
    machines.check_copies(3, "300");
    machines.load(&["t", "b.csv"]);
    // One of them lacks what the others have.
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    copy(&machines.path("before"), &machines.path("n1/t"));
    machines.wake(1);
    let differ = machines.refused(&["query", "--cluster", "nodes.toml", "-", "FROM t"]);
    assert!(differ.contains("table t is not the same on all nodes"), "{differ}");
    assert!(differ.contains(": sty cluster copy t makes them the same"), "{differ}");
    let (_, said) = machines.load(&["t", "b.csv", "c.csv"]);
    assert!(said.contains("t: nodes n1 are behind the others"), "{said}");
    machines.check_copies(3, "900");
    // The same command succeeds where nothing is left to load.
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    machines.wake(1);
    let (_, said) = machines.load(&["t", "c.csv"]);
    assert!(said.contains("t: nodes n1 are behind the others"), "{said}");
    machines.check_copies(3, "900");
    let again = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "b.csv"]);
    assert!(again.contains("was loaded before"), "{again}");
    // A file that is another one by now is not what has come from the other machines.
    machines.kill(1);
    copy(&machines.path("n1/t"), &machines.path("older"));
    machines.wake(1);
    machines.load(&["t", "c.csv", "--if-loaded", "again"]);
    // Nobody keeps a generation that is two loads old, but the ledger names it.
    csv(&machines.path("d.csv"), 9_000, 10);
    machines.load(&["t", "d.csv"]);
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    copy(&machines.path("older"), &machines.path("n1/t"));
    machines.wake(1);
    csv(&machines.path("c.csv"), 5_000, 17);
    let (_, said) = machines.load(&["t", "c.csv", "--if-loaded", "again"]);
    assert!(said.contains("node n1: 17 rows"), "{said}");
    machines.check_copies(3, "1227");
}

#[test]
fn copies_become_the_same_and_lose_nothing() {
    let mut machines = Machines::start(3, COPIES);
    machines.said(&["query", "n0", "CREATE TABLE t AS SELECT value AS id FROM range(1000)"]);
    let said = machines.copy(&[]);
    assert!(said.contains("node n1: generation 1 from node n0, "), "{said}");
    machines.check_copies(3, "1000");
    // A copy becomes what came from it, as long as that generation is kept.
    machines.said(&["query", "n2", "INSERT INTO t VALUES (1000)"]);
    let said = machines.copy(&["--to", "n1"]);
    assert!(said.contains("node n1: generation 2 from node n2, "), "{said}");
    assert!(!said.contains("node n0"), "{said}");
    machines.copy(&[]);
    machines.check_copies(3, "1001");
    machines.said(&["query", "n0", "DELETE FROM t WHERE id < 500"]);
    machines.copy(&[]);
    machines.check_copies(3, "501");
    // If it is not, nobody knows, also where all segments of the copy are in the newer one.
    machines.kill(0);
    machines.said(&["query", "n0", "INSERT INTO t VALUES (1)"]);
    machines.said(&["query", "n0", "INSERT INTO t VALUES (2)"]);
    machines.wake(0);
    let said = machines.refused(&[&COPY[..], &BY].concat());
    assert!(said.contains("may not have come from generation 3"), "{said}");
    write(machines.path("ids.csv"), "id\n5000\n".to_owned());
    let said = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "ids.csv"]);
    assert!(said.contains("sty cluster copy t --from n0 --to n1 --force"), "{said}");
    machines.copy(&["--force"]);
    machines.check_copies(3, "503");
    // Two that were written are left as they are.
    machines.said(&["query", "n0", "INSERT INTO t VALUES (1)"]);
    machines.said(&["query", "n1", "INSERT INTO t VALUES (2)"]);
    let said = machines.refused(&[&COPY[..], &BY, &["--force"]].concat());
    assert!(said.contains("have each written their copy of t"), "{said}");
    let said = machines.refused(&[&COPY[..], &BY, &["--from", "n2", "--to", "n0"]].concat());
    assert!(said.contains("and node n2 an older one"), "{said}");
    machines.kill(1);
    machines.said(&["query", "n1", "DROP TABLE t"]);
    machines.said(&["query", "n1", "CREATE TABLE t AS SELECT 1 AS id"]);
    machines.wake(1);
    let said = machines.refused(&[&COPY[..], &BY].concat());
    assert!(said.contains("are not copies of each other"), "{said}");
    machines.kill(1);
    machines.said(&["query", "n1", "DROP TABLE t"]);
    machines.wake(1);
    machines.copy(&["--from", "n0"]);
    machines.check_copies(3, "504");
    // A machine that is new gets a generation that is not its first.
    machines.kill(1);
    machines.said(&["query", "n1", "DROP TABLE t"]);
    machines.wake(1);
    let said = machines.copy(&[]);
    assert!(said.contains("node n1: generation "), "{said}");
    machines.check_copies(3, "504");
    // What is wrong about the command.
    let wrong =
        |arguments: &[&str]| machines.refused(&[&["cluster", "copy"], arguments, &BY].concat());
    assert!(wrong(&["t", "--from", "x"]).contains("x is none of the nodes of t"));
    assert!(wrong(&["u"]).contains("u is not in copies"));
    assert!(wrong(&["t", "part=1"]).contains("no partition"));
    let status = machines.refused(&["cluster", "status", "--force", BY[0], BY[1]]);
    assert!(status.contains("--force is for sty cluster copy"), "{status}");
    machines.kill(2);
    assert!(machines.refused(&[&COPY[..], &BY].concat()).contains("node n2 (http://127.0.0.1:"));
    let said = machines.copy(&["--from", "n0", "--to", "n1"]);
    assert_eq!(said, "there is nothing to copy of t between these nodes\n");
}

#[test]
fn a_machine_that_hears_and_does_not_answer_is_waited_for_once() {
    let mut machines = Machines::start(2, COPIES);
    csv(&machines.path("a.csv"), 0, 300);
    machines.load(&["t", "a.csv"]);
    machines.kill(1);
    let mute = TcpListener::bind(("127.0.0.1", machines.ports[1])).unwrap();
    // Each of them would wait for a second.
    let statements = "SELECT count(*) FROM t;".repeat(20);
    let begun = Instant::now();
    let (said, _) = machines.said(&["query", "--cluster", "nodes.toml", "-", &statements]);
    assert_eq!(said.matches("300").count(), 20, "{said}");
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    drop(mute);
}

#[test]
fn tables_are_listed_that_only_machines_know() {
    let machines = Machines::start(2, COPIES);
    machines.said(&["query", "n1", "CREATE TABLE only_there AS SELECT 1 AS a"]);
    let (said, _) = machines.said(&["query", "--cluster", "nodes.toml", "-", "SHOW TABLES"]);
    assert!(said.contains("only_there"), "{said}");
    let wrong = ["query", "--cluster", "nodes.toml", "-", "FROM only_here"];
    assert!(machines.refused(&wrong).contains("only_there"));
    // A table that is not on all machines is in no list of columns, and does not end it.
    let columns =
        "SELECT count(*) > 0 AS some FROM information_schema.columns WHERE table_name <> 'x'";
    machines.said(&["query", "n0", "CREATE TABLE t AS SELECT 1 AS a"]);
    machines.said(&["cluster", "copy", "t", "--cluster", "nodes.toml"]);
    let (said, _) = machines.said(&["query", "--cluster", "nodes.toml", "-", columns]);
    assert!(said.contains("true"), "{said}");
    let stray = ["query", "--cluster", "nodes.toml", "-", "FROM only_there"];
    assert!(machines.refused(&stray).contains("node n0 has no table only_there"));
}
