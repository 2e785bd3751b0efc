//! Joins, and groups of many keys, over nodes: rows go to each other's machines, and the answers
//! are those of one store.

#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, copy, run, write};
use crate::cluster_loads::Machines;

/// Whatever can be done by several machines is, however few rows there are.
const ALL: &str = "SET sty.gather_bytes = 0; ";
const ROWS: u32 = 6_000;

impl Cluster {
    fn plan(&self, sql: &str) -> String {
        let output = self.of_cluster(&format!("{ALL}EXPLAIN {sql}"));
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn joins_answer_as_in_one_store() {
    let cluster = Cluster::start(3, ROWS);
    let few = "SELECT id AS k, name AS other, root AS r FROM t WHERE id % 11 = 3";
    let some = format!("({few}) s");
    let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
    let conditions = ["t.id = s.k", "t.id = s.k AND t.root > s.r - 1", "t.name = s.other"];
    for kind in kinds {
        for on in conditions {
            let rows = format!("SELECT count(*), sum(id), sum(k), min(other) FROM t {kind} {some}");
            cluster.check(&format!("{ALL}{rows} ON {on}"));
        }
        let word = "SELECT count(*), count(word), count(id), max(word) FROM";
        cluster.check(&format!("{ALL}{word} t {kind} small USING (seven)"));
        cluster.check(&format!("{ALL}{word} small {kind} t USING (seven)"));
        let both = format!("small a {kind} small b ON a.seven = b.seven + 1");
        cluster.check(&format!("{ALL}SELECT a.word, b.word FROM {both}"));
        let sums = "(SELECT seven, sum(id) AS s FROM t GROUP BY seven) g";
        cluster.check(&format!("{ALL}{word} t {kind} {sums} USING (seven)").replace("word", "s"));
    }
    for exists in ["EXISTS", "NOT EXISTS"] {
        for and in ["", " AND s.r < t.root + 2"] {
            let some = format!("{exists} (SELECT 1 FROM {some} WHERE s.k = t.id{and})");
            cluster.check(&format!("{ALL}SELECT count(*), sum(id) FROM t WHERE {some}"));
            cluster.check(&format!("{ALL}SELECT count(*) FROM t WHERE id < 50 OR {some}"));
        }
    }
}

#[test]
fn statements_over_joins_answer_as_in_one_store() {
    let cluster = Cluster::start(3, ROWS);
    for sql in [
        // Two spread tables, and a table of copies.
        "SELECT word, count(*), sum(a.id) FROM t a JOIN t b ON a.id = b.id + 7 \
         LEFT JOIN small c ON c.seven = b.seven GROUP BY word",
        // Groups of many keys, joined, and joined to what each machine has.
        "SELECT a.id, n, word FROM (SELECT id / 2 AS id, count(*) AS n FROM t GROUP BY 1) a \
         JOIN (SELECT id, max(root) AS m FROM t GROUP BY id) b ON a.id = b.id \
         LEFT JOIN small ON small.seven = a.id % 9 ORDER BY b.m DESC LIMIT 20",
        "SELECT a.id, b.name, a.price FROM t a JOIN t b ON a.id = b.id ORDER BY a.root DESC \
         LIMIT 9",
        // A projection that stays on the machine that was asked, between a merge and its sorts.
        "SELECT a.id, random() < 2, b.name FROM t a JOIN t b ON a.id = b.id ORDER BY a.root DESC \
         LIMIT 9",
        "SELECT sqrt(a.id), CAST(b.root AS TEXT) FROM t a JOIN t b ON a.id = b.id WHERE a.id < 9",
        "SELECT a.id, b.name FROM t a JOIN t b ON a.id = b.id * 3 ORDER BY a.id",
        "SELECT upper(a.name), round(a.root, 2), a.price * b.price FROM t a JOIN t b \
         ON a.id = b.id AND a.price > b.eighth WHERE a.id % 100 = 1",
        "SELECT a.name, count(*), round(sum(b.root), 3) FROM t a JOIN t b ON a.name = b.name \
         WHERE a.id < 200 GROUP BY a.name HAVING count(*) > 10",
        "SELECT count(DISTINCT a.name), count(*) FROM t a, t b WHERE a.id = b.id AND b.even",
        "SELECT a.id, b.id FROM t a, t b WHERE a.id < b.id AND b.id < 20",
        "SELECT count(*), sum(a.id * b.id) FROM t a, t b WHERE a.id < 90 AND b.id % 500 = 2",
        "SELECT count(*) FROM small a, t b, small c WHERE a.seven < b.seven AND b.seven < c.seven",
        "SELECT count(*) FROM t a JOIN t b ON a.name IS NOT DISTINCT FROM b.name WHERE b.id < 30",
        "SELECT a.zero, count(*) FROM t a JOIN t b ON a.zero = b.zero WHERE b.id < 9 GROUP BY 1",
        "SELECT count(*) FROM t a JOIN t b ON a.at = b.at AND a.price = b.price",
        "SELECT count(*) FROM (SELECT id FROM t WHERE even LIMIT 100) a JOIN t b USING (id)",
        "SELECT count(*) FROM (SELECT seven FROM small LIMIT 4) a JOIN t b USING (seven)",
        "SELECT a.id, s FROM t a JOIN (SELECT id, sum(root) OVER (ORDER BY id) AS s FROM t) b \
         USING (id) WHERE a.id % 999 = 0",
        "SELECT id FROM t WHERE id IN (SELECT id * 2 FROM t) AND id NOT IN \
         (SELECT id * 3 FROM t WHERE id > 10) ORDER BY id DESC LIMIT 12",
        "SELECT a.seven, a.s FROM (SELECT seven, sum(root) AS s FROM t GROUP BY seven) a \
         WHERE a.s > (SELECT avg(root) FROM t)",
        "WITH a AS (SELECT seven, name, count(*) AS n FROM t GROUP BY seven, name) \
         SELECT x.seven, y.name, x.n + y.n FROM a x JOIN a y USING (seven, name)",
        "SELECT seven, count(*) FROM (SELECT seven FROM t UNION ALL SELECT seven FROM small) u \
         JOIN small USING (seven) GROUP BY seven",
        "SELECT count(*) FROM t a JOIN t b USING (id) WHERE a.id < 0",
        "SELECT id, avg(CAST(id AS BIGINT UNSIGNED)), avg(seven), avg(price) FROM t GROUP BY id",
        "SET datafusion.execution.time_zone = 'Europe/Berlin'; \
         SELECT count(*), max(CAST(b.at AS DATE)) FROM t a JOIN t b USING (id)",
        "SET sty.native = off; SELECT name, count(*), min(price) FROM t JOIN small USING (seven) \
         GROUP BY name",
    ] {
        cluster.check(&format!("{ALL}{sql}"));
    }
}

/// A join of two large sides is planned as a partitioned hash join, and the operators above it rely
/// on its partitioning.
#[test]
fn what_stands_above_a_join_gets_the_partitions_that_it_was_planned_for() {
    let cluster = Cluster::start(3, 150_000);
    run(cluster.path(), "all", "CREATE TABLE dim AS SELECT id AS k, seven FROM t WHERE id % 8 > 0");
    // Rows of one key, in several blocks of a machine.
    run(cluster.path(), "all", "INSERT INTO t SELECT * FROM t");
    for node in 0..3 {
        run(cluster.path(), &format!("n{node}"), "INSERT INTO t SELECT * FROM t");
        copy(&cluster.path().join("all/dim"), &cluster.path().join(format!("n{node}/dim")));
    }
    let half = "(SELECT id AS k, root FROM t WHERE id % 2 = 0)";
    for side in ["dim", half] {
        let join = format!("{side} d JOIN t ON d.k = t.id");
        for sql in [
            format!("SELECT d.k, count(*) AS n FROM {join} GROUP BY d.k"),
            format!("SELECT d.k, t.seven, count(*) AS n FROM {join} GROUP BY d.k, t.seven"),
            format!(
                "SELECT d.k, row_number() OVER (PARTITION BY d.k ORDER BY t.root) AS n FROM {join}"
            ),
            format!("SELECT d.k, u.seven AS n FROM {join} JOIN t u ON u.id = d.k"),
            format!("SELECT d.k, t.seven AS n FROM {join} UNION ALL SELECT d.k, t.id FROM {join}"),
        ] {
            let sum = "SELECT count(*), sum(k), sum(n), count(DISTINCT k) FROM";
            cluster
                .check(&format!("SET datafusion.execution.target_partitions = 6; {sum} ({sql})"));
        }
    }
}

#[test]
fn rows_stay_where_they_are_if_others_are_fewer() {
    let cluster = Cluster::start(3, ROWS);
    for node in 0..3 {
        let rows = format!("SELECT CAST(value AS INT) AS id FROM range({node}, 90, 3)");
        run(cluster.path(), &format!("n{node}"), &format!("CREATE TABLE few AS {rows}"));
    }
    let count = |plan: &str, what: &str| plan.matches(what).count();
    // Each machine has all rows of the one side.
    let copies = cluster.plan("SELECT word, root FROM t JOIN small USING (seven)");
    let goes = count(&copies, "NetworkBroadcast") + count(&copies, "NetworkShuffle");
    assert_eq!((goes, count(&copies, "NetworkCoalesce")), (0, 1), "{copies}");
    // The few rows go to each machine, and the others to none.
    let few = cluster.plan("SELECT root FROM t JOIN few USING (id)");
    assert_eq!((count(&few, "NetworkBroadcast"), count(&few, "NetworkShuffle")), (1, 0), "{few}");
    // Rows of two sides of the same size go to the machine of their keys' hash.
    let both = cluster.plan("SELECT a.root + b.root FROM t a JOIN t b ON a.id = b.id + 1");
    assert_eq!(
        (count(&both, "NetworkShuffle"), count(&both, "mode=Partitioned")),
        (2, 1),
        "{both}"
    );
    // So do groups of many keys.
    let groups = "SELECT a.id, count(*) FROM t a JOIN few ON a.id = few.id GROUP BY a.id";
    let groups = cluster.plan(groups);
    assert_eq!(count(&groups, "NetworkShuffle"), 1, "{groups}");
    let means = cluster.plan("SELECT id, avg(seven), avg(root) FROM t GROUP BY id");
    assert_eq!(count(&means, "NetworkShuffle"), 1, "{means}");
    // Expressions above a join are computed with it.
    let texts = "SELECT CAST(a.root AS TEXT), sqrt(b.id) FROM t a JOIN t b ON a.id = b.id";
    let texts = cluster.plan(texts);
    let (_, of_nodes) = texts.split_once("NetworkCoalesce").expect("rows of the nodes");
    assert!(of_nodes.contains("sqrt(") && of_nodes.contains("as_it_is("), "{texts}");
    // Rows that are few come to the machine that is asked.
    let usual = cluster.of_cluster("EXPLAIN SELECT root FROM few JOIN few b USING (id)");
    let usual = String::from_utf8(usual.stdout).unwrap();
    assert_eq!(count(&usual, "NetworkBroadcast"), 0, "{usual}");
}

/// The rows of tables that are partitioned by what they are joined by.
fn colocated() -> Machines {
    let machines = Machines::start(3, "");
    let mut orders = String::from("id,day,who\n");
    for id in 0..2000 {
        orders += &format!("{id},2024-01-{:02},{}\n", id % 28 + 1, id % 37);
    }
    write(machines.path("orders.csv"), orders);
    let mut items = String::from("item,of,price,name\n");
    for item in 0..6000_u32 {
        let of = if item % 50 == 0 { String::new() } else { (item * 7 % 2100).to_string() };
        items += &format!("{item},{of},{}.5,name {}\n", item % 91, item % 5);
    }
    write(machines.path("items.csv"), items);
    for (table, file, by) in [
        ("orders", "orders.csv", "id % 6 AS part"),
        ("items", "items.csv", "of % 6 AS part"),
        ("others", "items.csv", "of % 5 AS part"),
        ("floats", "items.csv", "price AS part"),
    ] {
        machines.said(&["ingest", &format!("all/{table}"), file, "--partition-by", by]);
        machines.load(&[table, file, "--partition-by", by]);
    }
    machines
}

/// Whether what all machines answer is what one store answers, and the plan.
fn plan_of_equal(machines: &Machines, sql: &str) -> String {
    let statement = format!("{ALL}{sql}");
    let lines = |said: (String, String)| {
        let mut lines: Vec<String> = said.0.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let one = machines.said(&["query", "all", &statement, "--format", "csv"]);
    let cluster = ["query", "--cluster", "nodes.toml", "-"];
    let all = machines.said(&[&cluster[..], &[&statement, "--format", "csv"]].concat());
    assert_eq!(lines(all), lines(one), "{sql}");
    machines.said(&[&cluster[..], &[&format!("{ALL}EXPLAIN {sql}")]].concat()).0
}

#[test]
fn rows_of_one_key_are_joined_and_grouped_where_they_are() {
    let machines = colocated();
    let is_sent = |plan: &str| {
        ["NetworkShuffle", "NetworkBroadcast", "MergeStates"].iter().any(|it| plan.contains(it))
    };
    let mut colocated: Vec<String> = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        .iter()
        .map(|kind| {
            let what = "count(*), count(id), count(item), sum(price * who)";
            format!("SELECT {what} FROM orders {kind} items ON id = of")
        })
        .collect();
    colocated.extend(
        [
            "SELECT id, item FROM orders, items WHERE id = of AND day < '2024-01-05' AND price > 30",
            "SELECT count(*) FROM orders WHERE EXISTS (SELECT 1 FROM items WHERE of = id)",
            "SELECT count(*) FROM orders WHERE NOT EXISTS (SELECT 1 FROM items WHERE of = id)",
            "SELECT of, count(*), sum(price), max(name) FROM items GROUP BY of",
            "SELECT of, name, avg(price) FROM items GROUP BY of, name",
            "SELECT of, sum(price) AS s FROM items GROUP BY of ORDER BY s DESC, of LIMIT 7",
            "SELECT of FROM items GROUP BY of HAVING count(*) > 2",
            "SELECT id, sum(price), min(day) FROM orders JOIN items ON id = of GROUP BY id",
            "SELECT a.of, n, s FROM (SELECT of, count(*) AS n FROM items GROUP BY of) a \
             JOIN (SELECT id, sum(who) AS s FROM orders GROUP BY id) b ON a.of = b.id",
            "SELECT id FROM orders WHERE id IN (SELECT of FROM items GROUP BY of \
             HAVING sum(price) > 100)",
            "SELECT count(*) FROM orders a JOIN items b ON a.id = b.of JOIN items c ON c.of = a.id",
            "SET sty.native = off; SELECT of, max(item) FROM items GROUP BY of",
        ]
        .map(str::to_owned),
    );
    for sql in &colocated {
        let plan = plan_of_equal(&machines, sql);
        assert!(!is_sent(&plan), "{sql}\n{plan}");
    }
    for sql in [
        // Another column, and other partitions.
        "SELECT count(*), sum(price) FROM orders JOIN items ON who = of",
        "SELECT count(*), sum(price) FROM orders JOIN items ON id = item",
        "SELECT count(*), sum(price) FROM orders JOIN others ON id = of",
        "SELECT count(*) FROM orders JOIN items ON id = of + 0",
        "SELECT count(*) FROM floats a JOIN floats b ON a.price = b.price WHERE a.item < 99",
        "SELECT name, count(*) FROM items GROUP BY name",
        "SELECT item, count(*) FROM items GROUP BY item",
        // Nulls of the side that has no row.
        "SELECT c.of, count(*), count(c.item) FROM orders LEFT JOIN items a ON id = a.of \
         JOIN items c ON a.of IS NOT DISTINCT FROM c.of WHERE id < 90 GROUP BY c.of",
        "SELECT a.of, count(*) FROM orders LEFT JOIN items a ON id = a.of GROUP BY a.of",
        "SELECT id, of, count(*) FROM orders FULL JOIN items ON id = of \
         GROUP BY GROUPING SETS ((id), (of))",
    ] {
        let plan = plan_of_equal(&machines, sql);
        assert!(is_sent(&plan), "{sql}\n{plan}");
    }
    // A partition of one table that is elsewhere.
    let has = |node: &&str| {
        let table = format!("{node}/items");
        machines.said(&["partitions", &table, "--format", "csv"]).0.contains("part=1,")
    };
    let there = ["n0", "n1"].into_iter().find(|node| !has(node)).unwrap();
    let what = ["cluster", "move", "items", "part=1", "--to", there, "--cluster", "nodes.toml"];
    machines.said(&what);
    let plan = plan_of_equal(&machines, &colocated[0]);
    assert!(is_sent(&plan), "{plan}");
    let plan = plan_of_equal(&machines, "SELECT of, count(*) FROM items GROUP BY of");
    assert!(!is_sent(&plan), "{plan}");
}

#[test]
fn a_node_that_is_gone_in_a_join_is_named() {
    let mut cluster = Cluster::start(3, ROWS);
    let sql = format!("{ALL}SELECT count(*) FROM t a JOIN t b ON a.id = b.id");
    cluster.check(&sql);
    cluster.kill(2);
    let failed = cluster.of_cluster(&sql);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("node n2 (http://127.0.0.1:"), "{said}");
}

/// The processor time of all nodes, in ticks of the system.
#[cfg(target_os = "linux")]
fn ticks(cluster: &Cluster) -> u64 {
    let of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let fields = after_name.split_whitespace().skip(11).take(2);
        fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
    };
    cluster.processes().map(of).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_join_that_is_cancelled_ends_on_all_nodes() {
    let cluster = Cluster::start(2, 200_000);
    // 40,000,000,000 pairs of rows, within one call of the join on each node.
    let endless = "SELECT count(*) FROM t a, t b WHERE (a.id * b.id) % 1000003 < 0";
    let plan = cluster.plan(endless);
    assert!(plan.contains("NetworkBroadcast"), "{plan}");
    let sql = format!("{ALL}{endless}");
    let late = cluster.ask(&["--cluster", "nodes.toml", "--timeout", "1s", "-", &sql]);
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(!late.status.success() && said.contains("timeout of 1.00 s"), "{said}");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let before = ticks(&cluster);
        std::thread::sleep(Duration::from_millis(400));
        if ticks(&cluster) <= before + 4 {
            break;
        }
        assert!(Instant::now() < deadline, "the nodes go on");
    }
}
