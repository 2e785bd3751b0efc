//! `sty ingest --cluster`: each row comes to its machine, once, whatever
//! stops in between.

#![expect(clippy::disallowed_methods, reason = "the tests put stores back to what they were")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use tempfile::TempDir;

use crate::cluster::{SECRET, copy, free_ports, serve, write};

/// Machines with empty stores, and a store with what they are to have.
pub(crate) struct Machines {
    dir: TempDir,
    pub(crate) ports: Vec<u16>,
    nodes: Vec<Option<Child>>,
}

/// Where a statement asks all machines.
const CLUSTER: [&str; 3] = ["--cluster", "nodes.toml", "-"];

impl Machines {
    /// `tables` is what the file of the cluster says of them.
    pub(crate) fn start(count: u32, tables: &str) -> Machines {
        let dir = tempfile::tempdir().unwrap();
        let ports = free_ports(count);
        let mut file = format!("secret = '{SECRET}'\n[nodes]\n");
        for (node, port) in ports.iter().enumerate() {
            file += &format!("n{node} = 'http://127.0.0.1:{port}'\n");
            std::fs::create_dir(dir.path().join(format!("n{node}"))).unwrap();
        }
        write(dir.path().join("nodes.toml"), file + tables);
        let mut machines = Machines { dir, ports, nodes: Vec::new() };
        machines.nodes.resize_with(count as usize, || None);
        (0..count as usize).for_each(|node| machines.wake(node));
        machines
    }

    pub(crate) fn wake(&mut self, node: usize) {
        self.nodes[node] = Some(serve(self.dir.path(), node, self.ports[node]));
    }

    /// The number of a machine's process.
    pub(crate) fn process(&self, node: usize) -> u32 {
        self.nodes[node].as_ref().unwrap().id()
    }

    pub(crate) fn kill(&mut self, node: usize) {
        let mut process = self.nodes[node].take().unwrap();
        // It may be gone.
        let _ = process.kill();
        process.wait().unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn sty(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(arguments)
            .current_dir(self.dir.path())
            .env("STY_CONFIG", "")
            .output()
            .unwrap()
    }

    /// How many rows table t has there.
    pub(crate) fn rows(&self, at: &[&str]) -> String {
        let sql = ["SELECT count(*) FROM t", "--format", "csv"];
        let (said, _) = self.said(&[&["query"], at, &sql].concat());
        said.lines().nth(1).unwrap().to_owned()
    }

    /// What a command that goes well says on stdout and stderr.
    pub(crate) fn said(&self, arguments: &[&str]) -> (String, String) {
        let done = self.sty(arguments);
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{arguments:?}: {stderr}");
        (String::from_utf8(done.stdout).unwrap(), stderr)
    }

    /// What a command says that fails.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let done = self.sty(arguments);
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success(), "{arguments:?}: {stderr}");
        stderr
    }

    pub(crate) fn load(&self, arguments: &[&str]) -> (String, String) {
        self.said(&[&["ingest", "--cluster", "nodes.toml"], arguments].concat())
    }

    /// The cluster has the rows of the table `all/t`, in the columns of that table.
    pub(crate) fn check(&self, table: &str) {
        let sql = |name: &str| format!("SELECT * FROM {name} ORDER BY ALL");
        let (one, _) = self.said(&["query", "all", &sql(table), "--format", "csv"]);
        let all = ["query", "--cluster", "nodes.toml", "-", &sql(table), "--format", "csv"];
        assert!(one.lines().count() > 1);
        assert_eq!(self.said(&all).0, one, "{table}");
    }

    /// The partitions that a machine has.
    pub(crate) fn partitions(&self, node: usize) -> Vec<String> {
        let table = format!("n{node}/t");
        let (said, _) = self.said(&["partitions", &table, "--format", "csv"]);
        said.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for node in self.nodes.iter_mut().flatten() {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// A file of `rows` rows from `from` on.
pub(crate) fn csv(path: &Path, from: u32, rows: u32) {
    let mut text = String::from("id,part,name\n");
    for id in from..from + rows {
        text += &format!("{id},{},name {}\n", id % 13, id % 5);
    }
    write(path.to_path_buf(), text);
}

#[test]
fn each_partition_comes_to_one_machine() {
    let machines = Machines::start(3, "[tables.t.partitions]\n'part=3' = 'n2'\n");
    csv(&machines.path("a.csv"), 0, 5000);
    csv(&machines.path("b.csv"), 5000, 700);
    let by = ["--partition-by", "part", "--sort-by", "name"];
    let both = |files: &[&str], options: &[&str]| {
        machines.said(&[&["ingest", "all/t"], files, options].concat());
        machines.load(&[&["t"], files, options].concat())
    };
    let (report, said) = both(&["a.csv"], &[&by[..], &["--report", "json"]].concat());
    assert!(said.contains("5,000 rows:") && said.contains("node n1: "), "{said}");
    let report: serde_json::Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    let rows = |node: &serde_json::Value| node["rows"].as_u64().unwrap();
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), nodes.iter().map(rows).sum::<u64>()), (3, 5000));
    machines.check("t");
    let mut all: Vec<String> = (0..3).flat_map(|node| machines.partitions(node)).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 13, "no partition is on two machines: {all:?}");
    assert!(machines.partitions(2).contains(&"part=3".to_owned()));
    assert!((0..3).all(|node| !machines.partitions(node).is_empty()));

    // The ledger is that of all.
    let again = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "a.csv"]);
    assert!(again.contains("was loaded before"), "{again}");
    let (_, skipped) = both(&["a.csv", "b.csv"], &["--if-loaded", "skip"]);
    assert!(skipped.contains("700 rows:"), "{skipped}");
    machines.check("t");
    // Wider types come to all machines, also to those that get no row of them.
    write(machines.path("c.csv"), "id,part,name\n9999999999.5,1,wide\n".to_owned());
    both(&["c.csv"], &[]);
    machines.check("t");
    let (schema, _) = machines.said(&["schema", "n2/t"]);
    assert!(schema.contains("float64"), "{schema}");
}

#[test]
fn segments_without_partitions_go_in_turn() {
    let machines = Machines::start(2, "");
    // A segment is closed for its bytes, or at its most rows.
    let sql = "COPY (SELECT value AS id, value % 1000 AS k FROM range(2500000)) TO 'big.parquet'";
    machines.said(&["query", "all", "CREATE TABLE u AS SELECT 1 AS one"]);
    machines.said(&["query", "all", sql]);
    machines.load(&["t", "big.parquet"]);
    let counted = |store: &str| {
        let (rows, _) =
            machines.said(&["query", store, "SELECT count(*) FROM t", "--format", "csv"]);
        rows.lines().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let (one, other) = (counted("n0"), counted("n1"));
    assert_eq!(one + other, 2_500_000);
    assert!(one.min(other) >= 400_000, "{one} {other}");
    let sums = "SELECT sum(id), count(DISTINCT k) FROM t";
    let (all, _) =
        machines.said(&["query", "--cluster", "nodes.toml", "-", sums, "--format", "csv"]);
    assert!(all.contains("3124998750000,1000"), "{all}");
}

#[test]
fn a_load_that_stops_between_two_machines_is_finished_by_the_same_command() {
    let mut machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    csv(&machines.path("b.csv"), 300, 400);
    csv(&machines.path("c.csv"), 700, 50);
    let by = ["--partition-by", "part"];
    for files in [&["a.csv"][..], &["b.csv"]] {
        machines.said(&[&["ingest", "all/t"], files, &by].concat());
    }
    machines.load(&["t", "a.csv", by[0], by[1]]);
    // Node 1 has not committed the second load: its table is what it was before.
    copy(&machines.path("n1/t"), &machines.path("before"));
    machines.load(&["t", "b.csv"]);
    machines.check("t");
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    copy(&machines.path("before"), &machines.path("n1/t"));
    machines.wake(1);

    let other = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "c.csv"]);
    assert!(other.contains("has stopped before nodes n1 had it"), "{other}");
    assert!(other.contains("b.csv"), "{other}");
    // Another file of the same name is not it.
    let b = std::fs::read_to_string(machines.path("b.csv")).unwrap();
    write(machines.path("b.csv"), b.replace("name 3", "name 4"));
    let changed = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "b.csv"]);
    assert!(changed.contains("gives other rows than those"), "{changed}");
    write(machines.path("b.csv"), b);
    // It goes on, and then loads what is new.
    machines.said(&["ingest", "all/t", "c.csv"]);
    let (_, said) = machines.load(&["t", "b.csv", "c.csv"]);
    assert!(said.contains("going on with nodes n1, which lack the rows"), "{said}");
    assert!(said.contains("400 rows:") && said.contains("50 rows:"), "{said}");
    machines.check("t");
    let again = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "b.csv", "c.csv"]);
    assert!(again.contains("was loaded before"), "{again}");
}

#[test]
fn a_machine_that_is_gone_leaves_all_as_it_was() {
    let mut machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    csv(&machines.path("b.csv"), 300, 300);
    machines.load(&["t", "a.csv"]);
    machines.said(&["ingest", "all/t", "a.csv"]);
    machines.kill(1);
    let gone = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "b.csv"]);
    assert!(gone.contains("node n1 (http://127.0.0.1:"), "{gone}");
    machines.wake(1);
    machines.check("t");
    // Another writer of the table on a machine is waited for, and named.
    let wrong = |arguments: &[&str]| machines.refused(&[&["ingest"], arguments].concat());
    let of_store = wrong(&["--cluster", "nodes.toml", "all/t", "b.csv"]);
    assert!(of_store.contains("a table of a cluster has a name alone"), "{of_store}");
    let alone = wrong(&["t", "b.csv"]);
    assert!(alone.contains("'t' names no table; write STORE/TABLE"), "{alone}");
    // The file of rejected rows appears once the other rows are stored.
    write(machines.path("bad.csv"), "id,part,name\n1,x,y\n2,2,z\n".to_owned());
    let rejects = ["--cluster", "nodes.toml", "t", "bad.csv", "--rejects", "rejects.csv"];
    machines.said(&[&["ingest"], &rejects[..], &["--schema", "part:int64"]].concat());
    let kept = std::fs::read_to_string(machines.path("rejects.csv")).unwrap();
    assert!(kept.contains("bad.csv,2,"), "{kept}");
    assert!(wrong(&rejects).contains("rejects.csv"));
    machines.said(&["ingest", "all/t", "bad.csv", "--on-error", "skip", "--schema", "part:int64"]);
    machines.check("t");
}

#[test]
fn the_same_file_is_loaded_once_however_often_it_comes() {
    let machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    csv(&machines.path("big.csv"), 300, 60_000);
    let by = ["--partition-by", "part"];
    machines.load(&["t", "a.csv", by[0], by[1]]);
    // Two at the same time.
    let words = ["ingest", "--cluster", "nodes.toml", "t", "big.csv"];
    let both: Vec<bool> = std::thread::scope(|scope| {
        let load = || machines.sty(&words).status.success();
        let both = [scope.spawn(load), scope.spawn(load)];
        both.map(|load| load.join().unwrap()).to_vec()
    });
    assert_eq!(both.iter().filter(|succeeds| **succeeds).count(), 1, "{both:?}");
    for file in ["a.csv", "big.csv"] {
        machines.said(&["ingest", "all/t", file, by[0], by[1]]);
    }
    machines.check("t");
    // A pipe cannot be read again, and files can.
    let mixed = machines.refused(&["ingest", "--cluster", "nodes.toml", "t", "a.csv", "-"]);
    assert!(mixed.contains("files and a pipe"), "{mixed}");
    // Rows that are new since the last load, whichever machine had the one before.
    csv(&machines.path("log.csv"), 0, 10);
    machines.said(&["ingest", "n1/log", "log.csv"]);
    machines.said(&[
        "query",
        "n0",
        "CREATE TABLE log AS SELECT 1 AS id, 1 AS part, 'x' AS name LIMIT 0",
    ]);
    for rows in [20, 30] {
        csv(&machines.path("log.csv"), 0, rows);
        let (_, said) = machines.load(&["log", "log.csv", "--if-loaded", "new-rows"]);
        assert!(said.contains("10 rows:"), "{said}");
    }
}

#[test]
fn files_beside_those_of_a_stopped_load_are_loaded_as_the_command_says() {
    let mut machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    csv(&machines.path("b.csv"), 300, 400);
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    copy(&machines.path("n1/t"), &machines.path("before"));
    machines.load(&["t", "b.csv"]);
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    copy(&machines.path("before"), &machines.path("n1/t"));
    machines.wake(1);
    // The rows of the stopped load come once, and those of the file before it once more.
    let (_, said) = machines.load(&["t", "a.csv", "b.csv", "--if-loaded", "again"]);
    assert!(said.contains("going on with nodes n1"), "{said}");
    assert!(said.contains("400 rows:") && said.contains("300 rows:"), "{said}");
    assert_eq!(machines.rows(&CLUSTER), "1000");
}

#[test]
fn what_has_stopped_goes_on_by_the_same_command_or_is_given_up() {
    let mut machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    // The table is new, and node 1 has not made it.
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    machines.wake(1);
    let words = ["ingest", "--cluster", "nodes.toml", "t", "a.csv"];
    let other = machines.refused(&words);
    assert!(other.contains("rows are divided otherwise than those"), "{other}");
    assert!(!machines.path("n1/t/CURRENT").exists());
    let (_, said) = machines.said(&[&words[..], &["--partition-by", "part"]].concat());
    assert!(said.contains("going on with nodes n1"), "{said}");
    assert_eq!(machines.rows(&CLUSTER), "300");
    // Where the file is gone, the load can be given up.
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    machines.wake(1);
    let forget = ["cluster", "forget", "t", "--cluster", "nodes.toml"];
    let (_, said) = machines.said(&forget);
    assert!(said.contains("a.csv: given up for nodes n1"), "{said}");
    assert_eq!(machines.rows(&CLUSTER), machines.rows(&["n0"]));
    let (_, said) = machines.said(&forget);
    assert!(said.contains("no load of t has stopped"), "{said}");
    let again = machines.refused(&[&words[..], &["--partition-by", "part"]].concat());
    assert!(again.contains("was loaded before"), "{again}");
}

#[test]
fn a_dry_run_knows_what_all_machines_have() {
    let machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    csv(&machines.path("b.csv"), 300, 400);
    let dry = |files: &[&str]| {
        let options = ["--if-loaded", "skip", "--dry-run=csv"];
        machines.load(&[&["t"], files, &options].concat()).0
    };
    let first = dry(&["a.csv"]);
    assert!(first.contains("load") && first.contains("a.csv"), "{first}");
    assert!(["n0", "n1"].iter().all(|node| !machines.path(node).join("t").exists()));
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    let second = dry(&["a.csv", "b.csv"]);
    let line = |file: &str| second.lines().find(|line| line.contains(file)).unwrap_or_default();
    assert!(line("a.csv").starts_with("skip"), "{second}");
    assert!(line("b.csv").starts_with("load"), "{second}");
    machines.said(&["ingest", "all/t", "a.csv"]);
    machines.check("t");
}

#[test]
fn files_are_committed_one_after_the_other() {
    let machines = Machines::start(2, "[tables.copied]\nplacement = 'copies'\n");
    for (file, from, rows) in [("a.csv", 0, 300), ("b.csv", 300, 400), ("c.csv", 700, 50)] {
        csv(&machines.path(file), from, rows);
    }
    let files = ["a.csv", "b.csv", "c.csv", "--partition-by", "part"];
    machines.said(&[&["ingest", "all/t"][..], &files].concat());
    let load = |table: &str, every: &str| {
        machines.load(&[&[table][..], &files, &["--commit-every", every]].concat()).1
    };
    let said = load("t", "1000000");
    for rows in ["300 rows:", "400 rows:", "50 rows:", "generation 1", "generation 3"] {
        assert!(said.contains(rows), "{rows}: {said}");
    }
    machines.check("t");
    // All files together are smaller than the size, and are one commit.
    let said = load("u", "1GiB");
    assert!(said.contains("750 rows:") && !said.contains("generation 2"), "{said}");
    let said = load("copied", "10s");
    assert!(said.contains("node n1: 50 rows, "), "{said}");
    // A load that has stopped between two files goes on without those that are stored.
    csv(&machines.path("d.csv"), 750, 20);
    machines.said(&["ingest", "all/t", "d.csv"]);
    let more = ["t", "c.csv", "d.csv", "--commit-every", "1"];
    let wrong = |arguments: &[&str]| {
        machines.refused(&[&["ingest", "--cluster", "nodes.toml"], arguments].concat())
    };
    assert!(wrong(&more).contains("c.csv was loaded before"));
    let (_, said) = machines.load(&[&more[..], &["--if-loaded", "skip"]].concat());
    assert!(said.contains("20 rows:"), "{said}");
    machines.check("t");
    let twice = wrong(&["v", "a.csv", "b.csv", "a.csv", "--commit-every", "1"]);
    assert!(twice.contains("a.csv is named twice"), "{twice}");
    let pipe = wrong(&["v", "-", "--commit-every", "10s"]);
    assert!(pipe.contains("what came through a pipe cannot be read again"), "{pipe}");
    // The bound of rejected rows is one of all files.
    for file in ["x.csv", "y.csv", "z.csv"] {
        let rows = format!("id,part,name\n1,{file},bad\n2,2,good\n");
        write(machines.path(file), rows);
    }
    let bad = ["w", "x.csv", "y.csv", "z.csv", "--schema", "part:int64", "--on-error", "skip"];
    let bound = ["--max-errors", "2", "--commit-every", "1"];
    let done = machines.sty(&[&["ingest", "--cluster", "nodes.toml"], &bad[..], &bound].concat());
    assert_eq!(done.status.code(), Some(4), "{}", String::from_utf8_lossy(&done.stderr));
    let count = ["query", "--cluster", "nodes.toml", "-", "SELECT count(*) AS n FROM w"];
    let (said, _) = machines.said(&[&count[..], &["--format", "csv"]].concat());
    assert_eq!(said, "n\n2\n");
}
