//! `--cluster`: several servers, each with rows of its own, answer as one store with all rows does.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Rows of all nodes: in many blocks, which are read by several threads, and in few.
const MANY: u32 = 300_000;
const FEW: u32 = 3_000;
pub(crate) const SECRET: &str = "a-secret-of-all-the-machines";

/// Servers over a store each, beside one store with the rows of all.
pub(crate) struct Cluster {
    dir: TempDir,
    nodes: Vec<Child>,
}

/// The columns of a row, by its number `i`.
fn columns(from: u32, rows: u32, step: u32) -> String {
    format!(
        "SELECT i AS id, i % 7 AS seven, i % 2 = 0 AS even, i / 8.0 - 1000 AS eighth, \
         CASE WHEN i % 5 = 0 THEN NULL ELSE 'name ' || (i % 23) END AS name, sqrt(i) AS root, \
         CAST(i % 1000 AS DECIMAL(9, 2)) / 4 AS price, \
         TIMESTAMP '2020-01-01' + i * INTERVAL '1 minute' AS at, \
         CASE WHEN i % 2 = 0 THEN 0.0::DOUBLE ELSE -(0.0::DOUBLE) END AS zero \
         FROM (SELECT CAST(value AS INT) AS i FROM range({from}, {rows}, {step}))"
    )
}

impl Cluster {
    pub(crate) fn start(count: u32, rows: u32) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let ports = free_ports(count);
        let mut file = format!("secret = '{SECRET}'\n[nodes]\n");
        for (node, port) in ports.iter().enumerate() {
            file += &format!("n{node} = 'http://127.0.0.1:{port}'\n");
        }
        file += "[tables.small]\nplacement = 'copies'\n[tables.dim]\nplacement = 'copies'\n";
        write(path.join("nodes.toml"), file);
        run(path, "all", &format!("CREATE TABLE t AS {}", columns(0, rows, 1)));
        let small = "CREATE TABLE small AS SELECT * FROM (VALUES (0, 'zero'), (1, 'one'), \
                     (2, NULL), (3, 'three'), (9, 'nine')) v(seven, word)";
        run(path, "all", small);
        for node in 0..count {
            let store = format!("n{node}");
            run(path, &store, &format!("CREATE TABLE t AS {}", columns(node, rows, count)));
        }
        // A copy has the table's identity, so it is one of files.
        for node in 0..count {
            copy(&path.join("all/small"), &path.join(format!("n{node}/small")));
        }
        let nodes = ports.iter().enumerate().map(|(n, port)| serve(path, n, *port)).collect();
        Cluster { dir, nodes }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(Child::id)
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_sty"))
            .arg("query")
            .args(arguments)
            .args(["--format", "csv"])
            .current_dir(self.dir.path())
            .env("STY_CONFIG", "")
            .output()
            .unwrap()
    }

    pub(crate) fn of_cluster(&self, sql: &str) -> std::process::Output {
        self.ask(&["--cluster", "nodes.toml", "-", sql])
    }

    /// The same answer from all nodes and from one store, in any order of rows.
    pub(crate) fn check(&self, sql: &str) {
        let (one, all) = (self.ask(&["all", sql]), self.of_cluster(sql));
        let lines = |output: &std::process::Output| {
            let text = String::from_utf8(output.stdout.clone()).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert!(one.status.success(), "{sql}: {}", String::from_utf8_lossy(&one.stderr));
        assert!(all.status.success(), "{sql}: {}", String::from_utf8_lossy(&all.stderr));
        assert_eq!(lines(&one), lines(&all), "{sql}");
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].kill().unwrap();
        self.nodes[node].wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

pub(crate) fn run(path: &Path, store: &str, sql: &str) {
    let done = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["query", store, sql])
        .current_dir(path)
        .env("STY_CONFIG", "")
        .output()
        .unwrap();
    assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn write(path: std::path::PathBuf, text: String) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

pub(crate) fn serve(path: &Path, node: usize, port: u16) -> Child {
    let mut process = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["serve", &format!("n{node}"), "--http", "0", "--flight", &port.to_string()])
        .args(["--node", "--cluster", "nodes.toml"])
        .current_dir(path)
        .env("STY_CONFIG", "")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
    }
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    process
}

/// Ports that nobody uses, below those that the system gives to whoever connects.
pub(crate) fn free_ports(count: u32) -> Vec<u16> {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = || NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() * 61);
    let mut tried = (0..PORTS).map(|_| (FIRST + next() % PORTS) as u16);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let free: Vec<u16> = tried.by_ref().filter(is_free).take(count as usize).collect();
    assert_eq!(free.len(), count as usize);
    free
}

#[test]
fn nodes_answer_as_one_store_does() {
    let cluster = Cluster::start(3, MANY);
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT count(*), count(name), min(id), max(id), min(name), max(at) FROM t",
        // Sums and means are the same, bit by bit.
        "SELECT sum(root), avg(root), sum(eighth), sum(price), avg(price), sum(id), avg(id) FROM t",
        // The last bit of a variance is that of how rows are stored.
        "SELECT round(stddev(root), 9), round(var_pop(eighth), 6) FROM t WHERE id % 3 = 1",
        "SELECT name, count(*), sum(root), avg(price), max(at) FROM t GROUP BY name",
        "SELECT seven, name, count(*) FROM t WHERE root > 50 GROUP BY seven, name",
        "SELECT id, count(*), sum(root) FROM t GROUP BY id ORDER BY 3 DESC, id LIMIT 10",
        "SELECT date_trunc('hour', at) AS hour, sum(root) FROM t GROUP BY hour ORDER BY 2 LIMIT 5",
        "SELECT even, count(DISTINCT name), count(DISTINCT seven) FROM t GROUP BY even",
        "SELECT count(DISTINCT id % 1000), count(DISTINCT name) FROM t",
        "SELECT DISTINCT seven, even FROM t",
        "SELECT * FROM t WHERE id BETWEEN 100 AND 110",
        "SELECT id, name FROM t WHERE name = 'name 3' AND price > 200 ORDER BY id LIMIT 20 OFFSET 5",
        "SELECT root FROM t ORDER BY root DESC LIMIT 7",
        "SELECT word, count(*), round(sum(t.root), 3) FROM t LEFT JOIN small USING (seven) GROUP BY word",
        "SELECT count(*) FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.seven = 3",
        "SELECT id FROM t WHERE id IN (SELECT seven FROM small) ORDER BY id",
        "SELECT count(*) FROM t WHERE seven NOT IN (SELECT seven FROM small)",
        "SELECT name, (SELECT max(word) FROM small s WHERE s.seven = t.seven) FROM t WHERE id < 9",
        "SELECT count(*) FROM t WHERE root > (SELECT avg(root) FROM t)",
        "SELECT seven, id FROM (SELECT *, row_number() OVER (PARTITION BY seven ORDER BY root DESC) \
         AS n FROM t) WHERE n <= 2",
        "SELECT seven FROM t UNION SELECT seven FROM small",
        "SELECT count(*) FROM small a, small b",
        "WITH a AS (SELECT seven, sum(root) AS s FROM t GROUP BY seven) \
         SELECT x.seven FROM a x, a y WHERE x.s > y.s",
        "SELECT seven, even, count(*), grouping(even) FROM t GROUP BY ROLLUP (seven, even)",
        "SELECT sum(id) FILTER (WHERE even), median(root), count(*) FROM t WHERE name LIKE '%1%'",
        // Operators above scans take several partitions, and more rows than they give.
        "SELECT length(string_agg(name, ',' ORDER BY id)), count(*) FROM t",
        "SELECT c.id, d.m FROM t c JOIN (SELECT seven, max(id) AS m FROM t GROUP BY seven) d \
         ON c.id = d.m ORDER BY 1",
        "SELECT seven, (array_agg(id ORDER BY id DESC))[1], count(*) FROM t GROUP BY seven",
        "SELECT seven, array_agg(name ORDER BY id * 7919 % 3001 DESC, id) FROM t WHERE id < 2000 \
         GROUP BY seven",
        "SELECT seven, string_agg(DISTINCT name, ',' ORDER BY name DESC) FROM t GROUP BY seven",
        "SELECT even, first_value(id ORDER BY root), last_value(name ORDER BY id), \
         nth_value(id, 3 ORDER BY id DESC), arg_max(name, id) FROM t GROUP BY even",
        "SELECT first_value(id ORDER BY zero, id DESC), last_value(id ORDER BY price, id) FROM t",
        "SET sty.gather_bytes = 1; SELECT id % 900, first_value(name ORDER BY id DESC), count(*) \
         FROM t GROUP BY 1",
        "SELECT seven, array_agg(id ORDER BY root) FROM t WHERE id < 99 GROUP BY ROLLUP (seven)",
        "SELECT id FROM t ORDER BY random() * 0, id DESC LIMIT 3",
        "SELECT count(*) FROM (SELECT id FROM t WHERE id % 1000 = random() * 0 + 7 LIMIT 100)",
        "SET sty.native = off; SELECT id, root FROM t ORDER BY root DESC LIMIT 3 OFFSET 2",
        "SET sty.native = off; SELECT count(*) FROM (SELECT id FROM t WHERE seven = 3 LIMIT 999)",
        "SELECT id, zero FROM t ORDER BY zero, id LIMIT 10",
        "SELECT zero, count(*) FROM t GROUP BY zero",
        "SELECT count(*) FROM t WHERE id < 0",
        "SELECT name FROM t WHERE id < 0 GROUP BY name",
        // The first groups of an order by keys, and any groups: all rows of each count.
        "SELECT id / 4 AS four, count(*), sum(root) FROM t GROUP BY four ORDER BY four LIMIT 9",
        "SELECT name, seven, count(*), avg(root) FROM t GROUP BY name, seven \
         ORDER BY name DESC NULLS LAST, seven LIMIT 12 OFFSET 3",
        "SELECT zero, even, count(*) FROM t GROUP BY zero, even ORDER BY zero, even LIMIT 1",
        "SELECT count(*) FROM (SELECT name, seven, count(*) AS n FROM t GROUP BY name, seven LIMIT 5) \
         a JOIN (SELECT name, seven, count(*) AS n FROM t GROUP BY name, seven) b \
         ON a.name IS NOT DISTINCT FROM b.name AND a.seven = b.seven AND a.n = b.n",
        "SELECT count(*) FROM (SELECT seven, name, max(id) AS n FROM t GROUP BY seven, name \
         ORDER BY name NULLS FIRST LIMIT 40) a JOIN (SELECT name, seven, max(id) AS n FROM t \
         GROUP BY name, seven) b \
         ON a.name IS NOT DISTINCT FROM b.name AND a.seven = b.seven AND a.n = b.n",
        "SELECT seven, count(*) FROM t GROUP BY seven LIMIT 0",
        "SELECT DISTINCT name FROM t ORDER BY name LIMIT 3",
    ] {
        cluster.check(sql);
    }
}

#[test]
fn subqueries_stand_where_they_may_on_one_node() {
    let cluster = Cluster::start(2, FEW);
    for sql in [
        "SELECT sum(id + (SELECT 1)), sum(seven + (SELECT min(seven) FROM small)) FROM t",
        "SELECT seven = (SELECT min(seven) FROM small) AS least, count(*), sum(price) FROM t \
         GROUP BY 1",
        "SELECT count(*) FILTER (WHERE seven = (SELECT max(seven) FROM t)), count(*) FROM t",
        "SELECT sum(seven + (SELECT max(id) FROM t WHERE root < 9)) FROM small",
        "SELECT DISTINCT sum(id + (SELECT 1)) OVER (PARTITION BY even = (SELECT true)) FROM t",
        "SELECT count(*) FROM t LEFT JOIN small s ON t.seven = s.seven + (SELECT min(id) FROM t)",
        "SELECT count(*) FROM t FULL JOIN small s ON t.seven > (SELECT max(seven) FROM small)",
        "SELECT seven, count(*) FROM t GROUP BY ROLLUP (seven, seven + (SELECT 1))",
        "SELECT t.seven, sum(t.id + (SELECT max(id) FROM t)) FROM t JOIN small USING (seven) \
         WHERE t.root > (SELECT avg(root) FROM t) GROUP BY 1 HAVING count(*) > (SELECT 3)",
        "SET sty.gather_bytes = 1; SELECT id % (SELECT 100), avg(price) FROM t GROUP BY 1",
    ] {
        cluster.check(sql);
    }
    // One with many rows is none, and its rows are not joined.
    for sql in
        ["SELECT (SELECT seven FROM small) FROM t", "SELECT sum(id + (SELECT id FROM t)) FROM t"]
    {
        let failed = cluster.of_cluster(sql);
        let said = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(said.contains("more than one row"), "{sql}: {said}");
    }
}

#[test]
fn estimates_of_distinct_values_are_counts() {
    let cluster = Cluster::start(3, FEW);
    for sql in [
        "SELECT approx_distinct(id), arrow_typeof(approx_distinct(id)) FROM t",
        "SELECT approx_distinct(root), approx_count_distinct(eighth) FROM t",
        "SELECT approx_distinct(zero), count(DISTINCT zero), approx_distinct(price) FROM t",
        "SELECT name, approx_distinct(id), count(DISTINCT id), count(*) FROM t GROUP BY name",
        "SELECT approx_distinct(id) FILTER (WHERE even) + 1, approx_distinct(name) FROM t",
        "SELECT seven, approx_distinct(name) AS names FROM t WHERE id > 9 GROUP BY seven \
         HAVING approx_distinct(name) > 3 ORDER BY approx_distinct(root)",
        "SELECT even, seven, approx_distinct(root) FROM t GROUP BY ROLLUP (even, seven)",
        "SELECT id % (SELECT 3), approx_distinct(root) FROM t GROUP BY 1",
        "SELECT approx_distinct(word), approx_distinct(seven) FROM small",
    ] {
        cluster.check(sql);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_node_that_stalls_in_a_statement_is_gone() {
    let cluster = Cluster::start(2, MANY);
    let stalled = cluster.nodes[1].id().to_string();
    let failed = std::thread::scope(|scope| {
        let pairs = "SELECT count(*) FROM t a, t b WHERE a.root * b.root = -1";
        let asking = scope.spawn(|| cluster.of_cluster(pairs));
        std::thread::sleep(Duration::from_secs(2));
        assert!(Command::new("kill").args(["-STOP", &stalled]).status().unwrap().success());
        asking.join().unwrap()
    });
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: node n1 (http://127.0.0.1:"), "{said}");
    assert!(said.contains("): it is gone, in the middle of a statement\nhint: "), "{said}");
}

#[test]
fn a_node_that_is_gone_is_named_within_a_second() {
    let mut cluster = Cluster::start(2, FEW);
    cluster.check("SELECT count(*) FROM t");
    cluster.kill(1);
    let begun = Instant::now();
    let failed = cluster.of_cluster("SELECT count(*) FROM t");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("node n1 (http://127.0.0.1:"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Another node has a copy.
    cluster.check("SELECT count(*), max(word) FROM small");
    // Partial answers only where they are allowed, and they say so.
    let some = cluster.of_cluster("SET sty.partial_answers = on; SELECT count(*) FROM t");
    let said = String::from_utf8_lossy(&some.stderr).into_owned();
    let counted = String::from_utf8_lossy(&some.stdout).into_owned();
    assert!(some.status.success() && said.contains("leaves out rows of t: node n1"), "{said}");
    assert!(counted.contains(&(FEW / 2).to_string()), "{counted}");
}

#[test]
fn what_is_wrong_in_a_cluster_is_said() {
    let cluster = Cluster::start(2, FEW);
    let path = cluster.dir.path();
    let said = |sql: &str| {
        let failed = cluster.of_cluster(sql);
        assert!(!failed.status.success(), "{sql}");
        String::from_utf8_lossy(&failed.stderr).into_owned()
    };
    assert!(said("SELECT * FROM nothing").contains("nothing"));
    let replaces = said("CREATE OR REPLACE TABLE t AS SELECT 1 AS one");
    assert!(replaces.contains("CREATE OR REPLACE TABLE over a cluster; DROP TABLE"), "{replaces}");
    // Copies that differ are refused, by name.
    run(path, "n1", "INSERT INTO small VALUES (4, 'four')");
    let differ = said("SELECT * FROM small");
    assert!(differ.contains("table small is not the same on all nodes: n0 has"), "{differ}");
    // Rows that a node stores later are there in the next statement.
    run(path, "n0", &format!("INSERT INTO t {} LIMIT 10", columns(0, FEW, 1)));
    let counted = cluster.of_cluster("SELECT count(*) FROM t");
    let counted = String::from_utf8_lossy(&counted.stdout).into_owned();
    assert!(counted.contains(&(FEW + 10).to_string()), "{counted}");
    // Each node has a part, and tables of other columns are no parts of one.
    run(path, "n0", "CREATE TABLE u AS SELECT 1 AS id");
    let lacks = said("SELECT count(*) FROM u");
    assert!(lacks.contains("node n1 has no table u, and others have"), "{lacks}");
    run(path, "n1", "CREATE TABLE u AS SELECT 'one' AS id");
    let differ = said("SELECT count(*) FROM u");
    assert!(differ.contains("nodes n0 and n1 have different columns"), "{differ}");
    // The same rows on two nodes are no two parts.
    copy(&path.join("all/small"), &path.join("n0/twice"));
    copy(&path.join("all/small"), &path.join("n1/twice"));
    let same = said("SELECT count(*) FROM twice");
    assert!(same.contains("which would count twice"), "{same}");
    // Another secret.
    let file = std::fs::read_to_string(path.join("nodes.toml")).unwrap();
    write(path.join("nodes.toml"), file.replace(SECRET, "quite-another-secret"));
    assert!(said("SELECT count(*) FROM t").contains("the secret of the cluster is another one"));
}

/// The commands of the guide, and below each of them what it prints.
fn commands_of_the_guide() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cluster.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("## From one machine to four").nth(1).unwrap();
    let block = section.split("```console\n").nth(1).unwrap().split("\n```").next().unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), commands.last_mut()) {
            (Some(begins), ..) => commands.push((begins.to_owned() + "\n", String::new())),
            (_, Some(goes_on), Some((command, _))) => *command += &(goes_on.to_owned() + "\n"),
            (_, _, Some((_, printed))) => *printed += &(line.to_owned() + "\n"),
            _ => panic!("{line}"),
        }
    }
    commands
}

#[test]
fn the_guide_is_right_as_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let sty = Path::new(env!("CARGO_BIN_EXE_sty")).parent().unwrap();
    let (mut script, mut expected) = (String::from("set -m\n"), String::new());
    for (command, printed) in commands_of_the_guide() {
        script += &command;
        if command.trim_end().ends_with("& done") {
            // The reader takes a moment to type the next one.
            script += "for n in a b c d; do until grep -q grpc $n.log; do sleep 0.05; done; done\n";
        }
        expected += &printed;
    }
    for (at, port) in free_ports(4).into_iter().enumerate() {
        script = script.replace(&format!(":{}\"", 8815 + at), &format!(":{port}\""));
    }
    script += "kill %1 %2 %3\nwait 2> /dev/null\n";
    let path = format!("{}:{}", sty.display(), std::env::var("PATH").unwrap());
    let done = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .env("PATH", path)
        .env("STY_CONFIG", "")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&done.stdout), expected, "{said}");
}

#[test]
fn users_see_their_tables_only() {
    let cluster = Cluster::start(2, FEW);
    let path = cluster.dir.path();
    let mut hashing = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["serve", "--new-password"])
        .env("STY_CONFIG", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut hashing.stdin.take().unwrap(), b"secret word\n").unwrap();
    let kept = String::from_utf8(hashing.wait_with_output().unwrap().stdout).unwrap();
    write(path.join("users.toml"), format!("[users.u]\ntables = ['small']\n{kept}"));
    let [port] = free_ports(1)[..] else { panic!("no port") };
    let mut server = Command::new(env!("CARGO_BIN_EXE_sty"))
        .args(["serve", "n0", "--http", &port.to_string(), "--cluster", "nodes.toml"])
        .args(["--users", "users.toml"])
        .current_dir(path)
        .env("STY_CONFIG", "")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let ask = |sql: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = "POST / HTTP/1.1\r\nHost: x\r\nX-ClickHouse-User: u\r\nX-ClickHouse-Key: secret \
                    word\r\nConnection: close";
        crate::serve::send(&mut stream, head, sql.as_bytes());
        let mut reply = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut reply).unwrap();
        crate::serve::parse(&reply).text()
    };
    assert_eq!(ask("SELECT count(*) FROM small"), "5\n");
    for hidden in ["SELECT count(*) FROM t", "DESCRIBE t", "SELECT 1 FROM small, T LIMIT 1"] {
        let said = ask(hidden);
        assert!(said.contains("no table"), "{hidden}: {said}");
    }
    let _ = server.kill();
    let _ = server.wait();
}
