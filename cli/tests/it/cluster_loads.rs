//! `sty ingest --cluster` and `sty cluster move`: each row comes to its machine, once, whatever
//! stops in between.

#![expect(clippy::disallowed_methods, reason = "the tests put stores back to what they were")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use tempfile::TempDir;

use crate::cluster::{SECRET, copy, free_ports, serve, write};

/// Machines with empty stores, and a store with what they are to have.
struct Machines {
    dir: TempDir,
    ports: Vec<u16>,
    nodes: Vec<Option<Child>>,
}

impl Machines {
    /// `tables` is what the file of the cluster says of them.
    fn start(count: u32, tables: &str) -> Machines {
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

    fn wake(&mut self, node: usize) {
        self.nodes[node] = Some(serve(self.dir.path(), node, self.ports[node]));
    }

    fn kill(&mut self, node: usize) {
        let mut process = self.nodes[node].take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sty(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sty"))
            .args(arguments)
            .current_dir(self.dir.path())
            .env("STY_CONFIG", "")
            .output()
            .unwrap()
    }

    /// What a command that goes well says on stdout and stderr.
    fn said(&self, arguments: &[&str]) -> (String, String) {
        let done = self.sty(arguments);
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{arguments:?}: {stderr}");
        (String::from_utf8(done.stdout).unwrap(), stderr)
    }

    /// What a command says that fails.
    fn refused(&self, arguments: &[&str]) -> String {
        let done = self.sty(arguments);
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success(), "{arguments:?}: {stderr}");
        stderr
    }

    fn load(&self, arguments: &[&str]) -> (String, String) {
        self.said(&[&["ingest", "--cluster", "nodes.toml"], arguments].concat())
    }

    /// The cluster has the rows of the table `all/t`, in the columns of that table.
    fn check(&self, table: &str) {
        let sql = |name: &str| format!("SELECT * FROM {name} ORDER BY ALL");
        let (one, _) = self.said(&["query", "all", &sql(table), "--format", "csv"]);
        let all = ["query", "--cluster", "nodes.toml", "-", &sql(table), "--format", "csv"];
        assert!(one.lines().count() > 1);
        assert_eq!(self.said(&all).0, one, "{table}");
    }

    /// The partitions that a machine has.
    fn partitions(&self, node: usize) -> Vec<String> {
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
fn csv(path: &Path, from: u32, rows: u32) {
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
    let mut machines = Machines::start(2, "[tables.c]\nplacement = 'copies'\n");
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
    let copies = wrong(&["--cluster", "nodes.toml", "c", "b.csv"]);
    assert!(copies.contains("c is in copies"), "{copies}");
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
fn what_has_stopped_goes_on_by_the_same_command_or_is_given_up() {
    let mut machines = Machines::start(2, "");
    csv(&machines.path("a.csv"), 0, 300);
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    let rows = |machines: &Machines| {
        let sql = "SELECT count(*) FROM t";
        let query = ["query", "--cluster", "nodes.toml", "-", sql, "--format", "csv"];
        machines.said(&query).0.lines().nth(1).unwrap().to_owned()
    };
    let of_n0 = |machines: &Machines| {
        let query = ["query", "n0", "SELECT count(*) FROM t", "--format", "csv"];
        machines.said(&query).0.lines().nth(1).unwrap().to_owned()
    };
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
    assert_eq!(rows(&machines), "300");
    // Where the file is gone, the load can be given up.
    machines.kill(1);
    std::fs::remove_dir_all(machines.path("n1/t")).unwrap();
    machines.wake(1);
    let forget = ["cluster", "forget", "t", "--cluster", "nodes.toml"];
    let (_, said) = machines.said(&forget);
    assert!(said.contains("a.csv: given up for nodes n1"), "{said}");
    assert_eq!(rows(&machines), of_n0(&machines));
    let (_, said) = machines.said(&forget);
    assert!(said.contains("no load of t has stopped"), "{said}");
    let again = machines.refused(&[&words[..], &["--partition-by", "part"]].concat());
    assert!(again.contains("was loaded before"), "{again}");
}

/// `MOVING` as `format-spec/directory.md` has it.
fn mark(id: &[u8], partition: &str, to: &str) -> Vec<u8> {
    let mut bytes = b"STYMOVE\0\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend([0; 24]);
    bytes.extend(id);
    for text in [partition, to] {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    bytes.extend((!crc).to_le_bytes());
    bytes
}

/// The identifier of the last move that the ledger of a table names.
fn last_move(table: &Path) -> Vec<u8> {
    let mut roots: Vec<PathBuf> = std::fs::read_dir(table.join("manifest"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "root"))
        .collect();
    roots.sort();
    let root = std::fs::read(roots.last().unwrap()).unwrap();
    let wanted = b"moved from node ";
    let at = root.windows(wanted.len()).rposition(|it| it == wanted).unwrap();
    let length = u32::from_le_bytes(root[at - 4..at].try_into().unwrap()) as usize;
    root[at + length + 32..][..16].to_vec()
}

#[test]
fn a_partition_moves_and_its_rows_count_once() {
    let mut machines = Machines::start(2, "[tables.t.partitions]\n'part=3' = 'n0'\n");
    csv(&machines.path("a.csv"), 0, 2600);
    let by = ["--partition-by", "part"];
    machines.said(&["ingest", "all/t", "a.csv", by[0], by[1]]);
    machines.load(&["t", "a.csv", by[0], by[1]]);
    let count = "SELECT count(*), sum(id) FROM t";
    let counted = |machines: &Machines| {
        let query = ["query", "--cluster", "nodes.toml", "-", count, "--format", "csv"];
        machines.said(&query).0
    };
    let all = counted(&machines);
    assert!(all.contains("2600,"), "{all}");
    let moving = |to: &str| {
        ["cluster", "move", "t", "part=3", "--to", to, "--cluster", "nodes.toml"].map(str::to_owned)
    };
    let moving = |to: &str, machines: &Machines| {
        let words = moving(to);
        machines.sty(&words.each_ref().map(String::as_str))
    };
    // Whoever asks meanwhile sees each row once.
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) || asked == 0 {
                assert_eq!(counted(&machines), all);
                asked += 1;
            }
        });
        for to in ["n1", "n0", "n1", "n0", "n1"] {
            let moved = moving(to, &machines);
            let said = String::from_utf8_lossy(&moved.stderr).into_owned();
            assert!(moved.status.success(), "{said}");
            assert!(said.contains("part=3: 200 rows"), "{said}");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        asking.join().unwrap();
    });
    machines.check("t");
    assert!(machines.partitions(1).contains(&"part=3".to_owned()));
    assert!(!machines.partitions(0).contains(&"part=3".to_owned()));
    let again = String::from_utf8(moving("n1", &machines).stderr).unwrap();
    assert!(again.contains("partition part=3 is on node n1 already"), "{again}");
    let status = ["cluster", "status", "t", "--cluster", "nodes.toml", "--format", "csv"];
    let (listed, _) = machines.said(&status);
    assert!(listed.contains("n1,ok,part=3,200,1,"), "{listed}");

    // A move that stopped after the other machine has committed: the first still has the rows.
    machines.said(&["query", "n1", "SELECT 1"]);
    assert!(moving("n0", &machines).status.success());
    copy(&machines.path("n0/t"), &machines.path("before"));
    assert!(moving("n1", &machines).status.success());
    let id = last_move(&machines.path("n1/t"));
    let restore = |machines: &mut Machines, id: &[u8]| {
        machines.kill(0);
        std::fs::remove_dir_all(machines.path("n0/t")).unwrap();
        copy(&machines.path("before"), &machines.path("n0/t"));
        let mark = mark(id, "part=3", "n1");
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(machines.path("n0/t/MOVING"))
            .and_then(|mut file| std::io::Write::write_all(&mut file, &mark))
            .unwrap();
        machines.wake(0);
    };
    restore(&mut machines, &id);
    assert_eq!(counted(&machines), all);
    machines.check("t");
    let groups = "SELECT part, count(*) FROM t GROUP BY part ORDER BY part";
    let query = ["query", "--cluster", "nodes.toml", "-", groups, "--format", "csv"];
    assert!(machines.said(&query).0.contains("\n3,200\n"));
    let busy = machines.refused(&["ingest", "n0/t", "a.csv", "--if-loaded", "again"]);
    assert!(busy.contains("is on its way to node n1"), "{busy}");
    let (listed, _) = machines.said(&["cluster", "status", "--cluster", "nodes.toml"]);
    assert!(listed.contains("part=3 to n1"), "{listed}");
    let finished = moving("n1", &machines);
    let said = String::from_utf8(finished.stderr).unwrap();
    assert!(finished.status.success() && said.contains("had come to node n1 before"), "{said}");
    assert!(!machines.path("n0/t/MOVING").exists());
    machines.check("t");

    // One that stopped before: the other machine has nothing of it.
    let (_, said) =
        machines.said(&["cluster", "move", "t", "part=3", "--to", "n0", "--cluster", "nodes.toml"]);
    assert!(said.contains("200 rows"), "{said}");
    restore(&mut machines, &[9; 16]);
    assert_eq!(counted(&machines), all);
    let moved = String::from_utf8(moving("n1", &machines).stderr).unwrap();
    assert!(moved.contains("part=3: 200 rows"), "{moved}");
    machines.check("t");

    let wrong = |words: &[&str]| {
        machines.refused(&[&["cluster", "move"], words, &["--cluster", "nodes.toml"]].concat())
    };
    assert!(wrong(&["t", "part=99", "--to", "n1"]).contains("no node has a partition 'part=99'"));
    assert!(wrong(&["t", "part=1", "--to", "n7"]).contains("n7 is none of the nodes of t: n0, n1"));
    assert!(wrong(&["t", "part=1"]).contains("needs a table, a partition and the node"));
    let none = machines.refused(&["cluster", "status", "none", "--cluster", "nodes.toml"]);
    assert!(none.contains("there is no table none on the nodes n0, n1"), "{none}");
}

#[test]
fn moves_that_cross_do_not_wait_for_each_other() {
    let machines = Machines::start(2, "[tables.t.partitions]\n'part=1' = 'n0'\n'part=2' = 'n1'\n");
    csv(&machines.path("a.csv"), 0, 1300);
    machines.said(&["ingest", "all/t", "a.csv", "--partition-by", "part"]);
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        let moves = [("part=1", "n1"), ("part=2", "n0")].map(|(part, to)| {
            let machines = &machines;
            scope.spawn(move || {
                machines.said(&[
                    "cluster",
                    "move",
                    "t",
                    part,
                    "--to",
                    to,
                    "--cluster",
                    "nodes.toml",
                ])
            })
        });
        moves.into_iter().for_each(|moved| drop(moved.join().unwrap()));
    });
    assert!(begun.elapsed() < std::time::Duration::from_secs(25), "{:?}", begun.elapsed());
    machines.check("t");
    assert!(machines.partitions(1).contains(&"part=1".to_owned()));
    assert!(machines.partitions(0).contains(&"part=2".to_owned()));
}
