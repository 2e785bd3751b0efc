//! What is stored where a machine, its connection or whoever asks is lost between the commits of
//! two machines: nothing twice, and the error says what to do.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cluster::{free_ports, write};
use crate::cluster_loads::{Machines, csv};
use crate::serve::wait_for;

/// The file of a cluster in which machine 1 is reached through [`Between`].
const FAULTY: [&str; 2] = ["--cluster", "faulty.toml"];
const SOUND: [&str; 2] = ["--cluster", "nodes.toml"];

/// The fault that meets a commit message on its way to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connection is lost before the message arrives.
    Before,
    /// It is lost before the machine's answer comes back.
    After,
    /// This process is killed before the message arrives: a machine, or the command itself. 0 is
    /// one whose number is not known yet.
    Kill(u32),
}

/// Passes on what goes to machine 1 and comes from it, until a fault is wanted.
struct Between {
    wanted: Mutex<Option<Fault>>,
    /// How many commit messages were caught.
    caught: AtomicU32,
}

impl Between {
    /// Writes `faulty.toml`, too.
    fn start(machines: &Machines) -> Arc<Between> {
        let (port, to) = (free_ports(1)[0], machines.ports[1]);
        let file = std::fs::read_to_string(machines.path("nodes.toml")).unwrap();
        let file = file.replace(&format!(":{to}'"), &format!(":{port}'"));
        write(machines.path("faulty.toml"), file);
        let between = Arc::new(Between { wanted: Mutex::default(), caught: AtomicU32::new(0) });
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let all = Arc::clone(&between);
        // They end with the process.
        std::thread::spawn(move || {
            for asking in listener.incoming().flatten() {
                let Ok(node) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let _ = (asking.set_nodelay(true), node.set_nodelay(true));
                let is_cut = Arc::new(AtomicBool::new(false));
                let (from, back) = (asking.try_clone().unwrap(), node.try_clone().unwrap());
                let (up, down) = (Arc::clone(&all), Arc::clone(&all));
                let cut = Arc::clone(&is_cut);
                std::thread::spawn(move || up.pass(from, node, true, &cut));
                std::thread::spawn(move || down.pass(back, asking, false, &is_cut));
            }
        });
        between
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_up: bool, is_cut: &AtomicBool) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let came = &buffer[..count];
            let wanted = is_up.then(|| *self.wanted.lock().unwrap()).flatten();
            let Some(fault) = wanted.filter(|_| has_commit(came)) else {
                // After the cut, the machine is no longer heard.
                if !is_cut.load(Ordering::Relaxed) && to.write_all(came).is_err() {
                    break;
                }
                continue;
            };
            self.caught.fetch_add(1, Ordering::Relaxed);
            match fault {
                Fault::Before => {}
                Fault::After => {
                    is_cut.store(true, Ordering::Relaxed);
                    let _ = to.write_all(came);
                    std::thread::sleep(Duration::from_millis(500));
                }
                Fault::Kill(_) => {
                    let of = || match *self.wanted.lock().unwrap() {
                        Some(Fault::Kill(process)) => process,
                        _ => 0,
                    };
                    wait_for("the process is known", || of() > 0);
                    // The other machines hear theirs.
                    std::thread::sleep(Duration::from_millis(300));
                    let kill = Command::new("kill").args(["-9", &of().to_string()]).status();
                    assert!(kill.unwrap().success());
                }
            }
            break;
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn wants(&self, fault: Option<Fault>) {
        *self.wanted.lock().unwrap() = fault;
    }

    /// What a command says that comes to a fault, and fails.
    fn fails(&self, machines: &Machines, fault: Fault, arguments: &[&str]) -> String {
        self.wants(Some(fault));
        let caught = self.caught.load(Ordering::Relaxed);
        let done = machines.sty(arguments);
        self.wants(None);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(self.caught.load(Ordering::Relaxed), caught + 1, "{arguments:?}: {said}");
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("node n1 (http://127.0.0.1:"), "{said}");
        assert!(said.contains("nodes n0, n2 have ") && said.contains(" (n1): "), "{said}");
        said
    }
}

/// Whether bytes have a frame of HTTP/2 with data of one byte, which is the word of commit.
fn has_commit(bytes: &[u8]) -> bool {
    bytes.windows(10).any(|it| it.starts_with(&[0, 0, 1, 0, 0, 0, 0]) && it[9] == b'C')
}

fn query<'q>(of: [&'q str; 2], sql: &'q str) -> [&'q str; 6] {
    ["query", of[0], of[1], "-", sql, "--format=csv"]
}

/// What a statement over all machines answers, without the line of names.
fn ask(machines: &Machines, sql: &str) -> String {
    let (said, _) = machines.said(&query(SOUND, sql));
    said.lines().skip(1).collect::<Vec<_>>().join(" ")
}

/// Three machines, with 100 rows of each of 13 partitions.
fn with_rows(tables: &str) -> (Machines, Arc<Between>) {
    let machines = Machines::start(3, tables);
    let between = Between::start(&machines);
    csv(&machines.path("a.csv"), 0, 1300);
    machines.load(&["t", "a.csv", "--partition-by", "part"]);
    (machines, between)
}

/// Rows of the table, and of machine 1.
fn counts(machines: &Machines) -> (String, u64) {
    let all = ask(machines, "SELECT count(*), count(DISTINCT id) FROM t");
    (all, machines.rows(&["n1"]).parse().unwrap())
}

#[test]
fn a_load_that_loses_a_machine_between_two_commits_goes_on() {
    let (mut machines, between) = with_rows("");
    let of_one = counts(&machines).1;
    let mut rows = 1300;
    let faults = [Fault::Before, Fault::After, Fault::Kill(machines.process(1))];
    for (number, fault) in (1_u64..).zip(faults) {
        let file = format!("{number}.csv");
        csv(&machines.path(&file), 1300 * number as u32, 1300);
        let load = |of: [&'static str; 2]| ["ingest", of[0], of[1], "t"].map(str::to_owned);
        let words = |of| [&load(of)[..], std::slice::from_ref(&file)].concat();
        let (faulty, sound) = (words(FAULTY), words(SOUND));
        let faulty: Vec<&str> = faulty.iter().map(String::as_str).collect();
        let sound: Vec<&str> = sound.iter().map(String::as_str).collect();
        let said = between.fails(&machines, fault, &faulty);
        assert!(said.contains("the same command goes on with the others"), "{said}");
        if let Fault::Kill(_) = fault {
            machines.kill(1);
            machines.wake(1);
        }
        match fault {
            // The machine has committed, and nobody has heard it.
            Fault::After => {
                let again = machines.refused(&sound);
                assert!(again.contains("was loaded before"), "{again}");
            }
            _ => {
                let other = machines.refused(&["ingest", SOUND[0], SOUND[1], "t", "a.csv"]);
                assert!(other.contains("has stopped before nodes n1 had it"), "{other}");
                let (_, said) = machines.said(&sound);
                assert!(said.contains("going on with nodes n1, which lack the rows"), "{said}");
            }
        }
        rows += 1300;
        assert_eq!(counts(&machines), (format!("{rows},{rows}"), of_one * (number + 1)));
    }
}

#[test]
fn a_load_whose_process_is_killed_between_two_commits_goes_on() {
    let (machines, between) = with_rows("");
    let of_one = counts(&machines).1;
    csv(&machines.path("b.csv"), 1300, 1300);
    between.wants(Some(Fault::Kill(0)));
    let mut load = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["ingest", FAULTY[0], FAULTY[1], "t", "b.csv"])
        .current_dir(machines.path(""))
        .env("STY_CONFIG", "")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    between.wants(Some(Fault::Kill(load.id())));
    assert_eq!(load.wait().unwrap().code(), None, "it was killed");
    between.wants(None);
    // Nobody was told, and the ledgers know.
    let other = machines.refused(&["ingest", SOUND[0], SOUND[1], "t", "a.csv"]);
    assert!(other.contains("has stopped before nodes n1 had it"), "{other}");
    let insert = machines.refused(&query(SOUND, "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')"));
    assert!(insert.contains("has stopped before nodes n1 had it"), "{insert}");
    machines.load(&["t", "b.csv"]);
    assert_eq!(counts(&machines), ("2600,2600".to_owned(), of_one * 2));
}

#[test]
fn a_load_of_several_commits_goes_on_with_its_files() {
    let (machines, between) = with_rows("");
    let of_one = counts(&machines).1;
    csv(&machines.path("b.csv"), 1300, 1300);
    csv(&machines.path("c.csv"), 2600, 1300);
    let load = |of: [&'static str; 2]| {
        ["ingest", of[0], of[1], "t", "b.csv", "c.csv", "--commit-every", "1"]
    };
    let said = between.fails(&machines, Fault::Before, &load(FAULTY));
    assert!(said.contains("the same command goes on with the others"), "{said}");
    let there = 2600 - of_one;
    assert_eq!(counts(&machines), (format!("{there},{there}"), of_one));
    let (_, said) = machines.said(&load(SOUND));
    assert!(said.contains("going on with nodes n1, which lack the rows"), "{said}");
    assert_eq!(counts(&machines), ("3900,3900".to_owned(), of_one * 3));
}

#[test]
fn statements_that_lose_a_machine_between_two_commits_say_what_to_do() {
    let (mut machines, between) = with_rows("");
    let of_one = counts(&machines).1;
    for fault in [Fault::Before, Fault::After, Fault::Kill(machines.process(1))] {
        let fails =
            |machines: &Machines, sql: &str| between.fails(machines, fault, &query(FAULTY, sql));
        let is_done = fault == Fault::After;
        let back = |machines: &mut Machines| {
            if let Fault::Kill(_) = fault {
                machines.kill(1);
                machines.wake(1);
            }
        };
        // Rows are there once, or not at all.
        let said = fails(&machines, "INSERT INTO t SELECT id + 100000, part, name FROM t");
        assert!(said.contains("the same statement would add these rows once more"), "{said}");
        back(&mut machines);
        let there = if is_done { 2600 } else { 2600 - of_one };
        let of_node = if is_done { of_one * 2 } else { of_one };
        assert_eq!(counts(&machines), (format!("{there},{there}"), of_node));
        machines.said(&query(SOUND, "DELETE FROM t WHERE id >= 100000"));
        assert_eq!(counts(&machines), ("1300,1300".to_owned(), of_one));
        if let Fault::Kill(_) = fault {
            // The number of the process is another one by now.
            break;
        }
        // The same DELETE goes on, unless it reads what it has changed.
        let delete = "DELETE FROM t WHERE id % 2 = 0";
        let said = fails(&machines, delete);
        assert!(said.contains("the same statement goes on with the others"), "{said}");
        machines.said(&query(SOUND, delete));
        assert_eq!(ask(&machines, "SELECT count(*), min(id % 2) FROM t"), "650,1");
        let said = fails(&machines, "DELETE FROM t WHERE id > (SELECT avg(id) FROM t)");
        assert!(said.contains("reads the table that it deletes from"), "{said}");
        assert!(!said.contains("goes on with the others"), "{said}");
        let said = fails(&machines, "UPDATE t SET name = 'new'");
        assert!(said.contains("would change these rows once more"), "{said}");
        machines.said(&query(SOUND, "DELETE FROM t"));
        machines.load(&["t", "a.csv", "--if-loaded", "again"]);
        // A table is made, or dropped, on some machines.
        let said = fails(&machines, "CREATE TABLE u AS SELECT value AS id FROM range(9)");
        assert!(said.contains("DROP TABLE u drops it where it is"), "{said}");
        machines.said(&query(SOUND, "DROP TABLE u"));
        machines.said(&query(SOUND, "CREATE TABLE u AS SELECT value AS id FROM range(9)"));
        let said = fails(&machines, "DROP TABLE u");
        assert!(said.contains("the same statement drops it on the others"), "{said}");
        machines.said(&query(SOUND, "DROP TABLE IF EXISTS u"));
        assert!(machines.refused(&query(SOUND, "FROM u")).contains("no table u"));
    }
}

#[test]
fn copies_that_lose_a_machine_between_two_commits_are_made_the_same() {
    let (machines, between) = with_rows("[tables.c]\nplacement = 'copies'\n");
    let copies = |of: [&'static str; 2]| ["cluster", "copy", "c", of[0], of[1]];
    let of_nodes = |sql: &str| {
        ["n0", "n1", "n2"].map(|node| {
            let (said, _) = machines.said(&["query", node, sql, "--format", "csv"]);
            said.lines().nth(1).unwrap().to_owned()
        })
    };
    machines.said(&query(SOUND, "CREATE TABLE c AS SELECT value AS id FROM range(100)"));
    let mut rows = 100;
    for (fault, of_one) in [(Fault::Before, 0), (Fault::After, 10)] {
        let insert = "INSERT INTO c SELECT value + 1000 FROM range(10)";
        let said = between.fails(&machines, fault, &query(FAULTY, insert));
        assert!(said.contains("sty cluster copy c brings the rows to all of them"), "{said}");
        rows += 10;
        let one = rows - 10 + of_one;
        let expected = [rows, one, rows].map(|rows| rows.to_string());
        assert_eq!(of_nodes("SELECT count(*) FROM c"), expected);
        machines.said(&copies(SOUND));
        assert_eq!(ask(&machines, "SELECT count(*) FROM c"), rows.to_string());
    }
    // So does the command that makes them the same, and each copy is one commit.
    machines.said(&["query", "n0", "DELETE FROM c WHERE id >= 1000"]);
    let roots = |node: &str| {
        let files = std::fs::read_dir(machines.path(&format!("{node}/c/manifest"))).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".root")).max().unwrap()
    };
    assert_ne!(roots("n2"), roots("n0"));
    let said = {
        between.wants(Some(Fault::Before));
        let said = machines.refused(&copies(FAULTY));
        between.wants(None);
        said
    };
    assert!(said.contains("nodes n2 have the new generation"), "{said}");
    assert!(said.contains("(n1): the same command goes on with the others"), "{said}");
    assert_eq!(roots("n2"), roots("n0"));
    assert_ne!(roots("n1"), roots("n0"));
    machines.said(&copies(SOUND));
    assert_eq!(roots("n1"), roots("n0"));
    assert_eq!(of_nodes("SELECT count(*) FROM c"), ["100", "100", "100"].map(str::to_owned));
}
