//! `sty cluster move`: the rows of a partition that moves count once, whatever stops in between.

#![expect(clippy::disallowed_methods, reason = "the tests put stores back to what they were")]

use std::path::{Path, PathBuf};

use crate::cluster::copy;
use crate::cluster_loads::{Machines, csv};

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

/// Puts the table t of machine 0 back to what it was, and marks it: rows are on their way to n1.
fn restore(machines: &mut Machines, id: &[u8], partition: &str) {
    machines.kill(0);
    std::fs::remove_dir_all(machines.path("n0/t")).unwrap();
    copy(&machines.path("before"), &machines.path("n0/t"));
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(machines.path("n0/t/MOVING"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, &mark(id, partition, "n1")))
        .unwrap();
    machines.wake(0);
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
    assert!(again.contains("partition part=3 of t is on node n1 already"), "{again}");
    let status = ["cluster", "status", "t", "--cluster", "nodes.toml", "--format", "csv"];
    let (listed, _) = machines.said(&status);
    assert!(listed.contains("n1,ok,part=3,200,1,"), "{listed}");

    // A move that stopped after the other machine has committed: the first still has the rows.
    machines.said(&["query", "n1", "SELECT 1"]);
    assert!(moving("n0", &machines).status.success());
    copy(&machines.path("n0/t"), &machines.path("before"));
    assert!(moving("n1", &machines).status.success());
    let id = last_move(&machines.path("n1/t"));
    restore(&mut machines, &id, "part=3");
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
    restore(&mut machines, &[9; 16], "part=3");
    assert_eq!(counted(&machines), all);
    let moved = String::from_utf8(moving("n1", &machines).stderr).unwrap();
    assert!(moved.contains("part=3: 200 rows"), "{moved}");
    machines.check("t");

    let wrong = |words: &[&str]| {
        machines.refused(&[&["cluster", "move"], words, &["--cluster", "nodes.toml"]].concat())
    };
    assert!(wrong(&["t", "part=99", "--to", "n1"]).contains("no node has partition part=99 of t"));
    assert!(wrong(&["t", "part=1", "--to", "n7"]).contains("n7 is none of the nodes of t: n0, n1"));
    assert!(wrong(&["t", "part=1"]).contains("needs a table and the node that gets its rows"));
    let none = wrong(&["t", "--to", "n1"]);
    assert!(none.contains("no node has the part of t that is in no partition"), "{none}");
    let none = machines.refused(&["cluster", "status", "none", "--cluster", "nodes.toml"]);
    assert!(none.contains("there is no table none on the nodes n0, n1"), "{none}");
}

#[test]
fn readers_beside_moves_get_their_answers() {
    let machines = Machines::start(3, "");
    csv(&machines.path("a.csv"), 0, 2600);
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let sql = "SELECT count(*), sum(id * 1.5), count(DISTINCT name) FROM t WHERE id >= 0";
    let query = ["query", "--cluster", "nodes.toml", "-", sql, "--format", "csv"];
    let all = machines.said(&query).0;
    assert!(all.contains("2600,"), "{all}");
    std::thread::scope(|scope| {
        let readers = [(); 4].map(|()| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(machines.said(&query).0, all);
                }
            })
        });
        // Each goes round, so that generations go as fast as they come.
        for round in 0..4 {
            for part in 0..6 {
                let part = format!("part={part}");
                let to = format!("n{}", (round + 1) % 3);
                let moving = ["cluster", "move", "t", &part, "--to", &to];
                let moved = machines.sty(&[&moving[..], &["--cluster", "nodes.toml"]].concat());
                let said = String::from_utf8_lossy(&moved.stderr).into_owned();
                assert!(moved.status.success() || said.contains("already"), "{said}");
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
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

#[test]
fn the_rows_of_a_table_without_partitions_move_and_count_once() {
    let mut machines = Machines::start(2, "");
    machines.said(&["query", "n0", "CREATE TABLE t AS SELECT value AS id FROM range(100)"]);
    machines.said(&["query", "n1", "CREATE TABLE t AS SELECT value AS id FROM range(100, 150)"]);
    // The second one is not answered by the manifests.
    let counts =
        "SELECT count(*), sum(id) FROM t; SELECT count(*), sum(id) FROM t WHERE id % 2 = 0";
    let counted = |machines: &Machines| {
        let query = ["query", "--cluster", "nodes.toml", "-", counts, "--format", "csv"];
        machines.said(&query).0
    };
    let all = counted(&machines);
    assert!(all.contains("150,11175\n") && all.contains("75,5550\n"), "{all}");
    let by = ["--cluster", "nodes.toml"];
    let several = machines.refused(&["cluster", "move", "t", "--to", "n1", by[0], by[1]]);
    assert!(several.contains("nodes n0, n1 have rows of the part of t"), "{several}");
    let moved = |machines: &Machines, from: &str, to: &str| {
        machines.said(&["cluster", "move", "t", "--from", from, "--to", to, by[0], by[1]]).1
    };
    let said = moved(&machines, "n0", "n1");
    assert!(said.contains("t: 100 rows, "), "{said}");
    assert_eq!((machines.rows(&["n0"]), machines.rows(&["n1"])), ("0".into(), "150".into()));
    assert_eq!(counted(&machines), all);
    // A move that stopped after the other machine has committed: both have the rows.
    let said = moved(&machines, "n1", "n0");
    assert!(said.contains("t: 150 rows, "), "{said}");
    copy(&machines.path("n0/t"), &machines.path("before"));
    moved(&machines, "n0", "n1");
    let id = last_move(&machines.path("n1/t"));
    restore(&mut machines, &id, "");
    assert_eq!((machines.rows(&["n0"]), machines.rows(&["n1"])), ("150".into(), "150".into()));
    assert_eq!(counted(&machines), all);
    let busy = machines.refused(&["query", "n0", "INSERT INTO t VALUES (1)"]);
    assert!(busy.contains("the part of t that is in no partition is on its way"), "{busy}");
    let said = moved(&machines, "n0", "n1");
    assert!(said.contains("t had come to node n1 before"), "{said}");
    assert!(!machines.path("n0/t/MOVING").exists());
    assert_eq!((machines.rows(&["n0"]), counted(&machines)), ("0".into(), all));
}
