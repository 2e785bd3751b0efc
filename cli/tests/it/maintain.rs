//! Commands for tables that live for years: partitions, order, compaction, deletion, generations,
//! export.

use crate::shell::Shell;

/// Rows with days of two years and three kinds.
fn days(from: u32, rows: u32) -> String {
    let row = |i: u32| {
        format!("{i},20{}-0{}-01,k{},{}\n", 20 + i % 2, 1 + i % 9, i % 3, (i * 7919) % 1000)
    };
    "id,day,kind,number\n".to_owned() + &(from..from + rows).map(row).collect::<String>()
}

fn partitioned() -> Shell {
    let shell = Shell::new();
    shell.file("a.csv", days(0, 600)).file("b.csv", days(600, 600));
    shell.stdout("ingest -q db/t a.csv --partition-by year(day),kind --sort-by number");
    shell.stdout("ingest -q db/t b.csv");
    shell
}

#[test]
fn partitions_prune_are_compacted_listed_and_dropped() {
    let shell = partitioned();
    let listed = shell.stdout("partitions db/t --format csv");
    assert!(
        listed.starts_with("partition,rows,segments,bytes\nyear_day=2020/kind=k0,200,2,"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 7);
    let (_, _, stats) = shell.sh(
        "sty query db \"SELECT sum(number) FROM t WHERE year(day) = 2020 AND kind = 'k1'\" --stats",
    );
    assert!(stats.contains("0 of 12 read, 10 pruned"), "zone maps know the sum: {stats}");
    let (code, _, stderr) = shell.run("compact db/t");
    assert!(
        code == 0 && stderr.starts_with("12 segments → 6: 1,200 rows written anew"),
        "{stderr}"
    );
    let sql = "SELECT number FROM t WHERE kind = 'k1' AND day < '2021-01-01' LIMIT 200";
    let ordered = shell.sh(&format!("sty query db \"{sql}\"")).1;
    let numbers: Vec<u32> = ordered.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.len() == 200);
    shell.stdout("drop-partition -q db/t year_day=2020");
    assert_eq!(
        shell.sh("sty query db 'SELECT count(*), min(year(day)) FROM t'").1,
        "count(*),min(year(day))\n600,2021\n"
    );
    for (line, exit, part) in [
        ("drop-partition db/t year_day=2020", 6, "no partition 'year_day=2020'"),
        ("compact db/t --partition nosuch=1", 6, "no partition 'nosuch=1'"),
        (
            "ingest db/t a.csv --if-loaded again --partition-by id",
            1,
            "is partitioned by year(day), kind",
        ),
        ("ingest db/u a.csv --partition-by random()", 1, "not the same each time"),
        ("ingest db/u a.csv --partition-by nosuch", 1, "nosuch"),
        ("ingest db/u a.csv --sort-by nosuch", 6, "there are id, day, kind, number"),
        ("ingest db/u a.csv --schema nosuch:utf8", 6, "no column is called 'nosuch'"),
        ("inspect db/t --column nosuch", 6, "has no column 'nosuch'"),
        ("compact db/nosuch", 6, "no table 'nosuch'"),
    ] {
        let (code, _, stderr) = shell.run(line);
        assert!(code == exit && stderr.contains(part), "{line}: {code} {stderr}");
    }
    shell.stdout("verify db");
}

#[test]
fn inspect_prints_in_the_format_asked_for() {
    let shell = partitioned();
    let csv = shell.stdout("inspect db/t --format csv");
    assert!(csv.starts_with("column,") && csv == shell.stdout("inspect db/t"), "{csv}");
    assert!(shell.stdout("inspect db/t --format table").starts_with('┌'));
    assert!(shell.stdout("inspect db/t --format json").starts_with('{'));
}

#[test]
fn what_was_loaded_is_not_loaded_twice_unasked() {
    let shell = partitioned();
    let (code, _, stderr) = shell.run("ingest db/t b.csv");
    assert!(
        code == 1 && stderr.contains("b.csv was loaded before: 600 rows, in generation 2"),
        "{stderr}"
    );
    let (code, _, stderr) = shell.run("ingest db/t b.csv --if-loaded skip");
    assert!(code == 0 && stderr.contains("b.csv was loaded before: left out"), "{stderr}");
    let report = shell.stdout("ingest -q db/t b.csv --if-loaded skip --report json");
    assert!(report.contains(r#""commits":0"#) && report.contains(r#""generation":2"#), "{report}");
    shell.stdout("ingest -q db/t b.csv --if-loaded again --commit-every 100");
    assert_eq!(shell.sh("sty query db 'SELECT count(*) FROM t'").1, "count(*)\n1800\n");
}

#[test]
fn old_generations_stay_for_a_time() {
    let shell = partitioned();
    shell.stdout("alter -q db/t keep 1h");
    shell.sh("sty query -q db 'DELETE FROM t WHERE id < 1000'");
    let before = shell.stdout("export db/t -o - --format csv --generation 2 -q");
    assert_eq!(
        (before.lines().count(), shell.stdout("export db/t -o - -q").lines().count()),
        (1201, 201)
    );
    let deleted = shell
        .sh("sty query db 'SELECT count(*) FROM \"t@2\" old WHERE id NOT IN (SELECT id FROM t)'")
        .1;
    assert_eq!(deleted, "count(*)\n1000\n");
    for (sql, part) in
        [("DELETE FROM \"t@2\"", "generation of the past"), ("SELECT 1 FROM \"t@1\"", "kept: 2-4")]
    {
        let (code, _, stderr) = shell.sh(&format!("sty query db '{sql}'"));
        assert!(code != 0 && stderr.contains(part), "{stderr}");
    }
    let manifest: serde_json::Value =
        serde_json::from_str(&shell.stdout("manifest db/t --format json")).unwrap();
    assert_eq!(manifest["generations"], serde_json::json!([2, 3, 4]));
    assert_eq!(
        (&manifest["rows"], &manifest["keep_ms"]),
        (&serde_json::json!(200), &serde_json::json!(3_600_000))
    );
    assert_eq!(manifest["sources"][1]["rows"], serde_json::json!(600));
    shell.stdout("gc -q db --keep 0s");
    let (code, _, stderr) = shell.run("manifest db/t --generation 2");
    assert!(code == 6 && stderr.contains("kept: 4"), "{stderr}");
    assert!(shell.stdout("manifest db/t").contains("partitioned by year(day) AS year_day"));
}

#[test]
fn columns_change_in_metadata_alone() {
    let shell = partitioned();
    for change in ["add note:utf8", "rename number n", "widen n:float64", "drop note"] {
        shell.stdout(&format!("alter -q db/t {change}"));
    }
    assert_eq!(shell.stdout("schema db/t --format csv").lines().last(), Some("n,float64,3,true"));
    let (code, _, stderr) = shell.run("alter db/t drop kind");
    assert!(code == 1 && stderr.contains("partitioned or sorted by it"), "{stderr}");
    assert_eq!(shell.run("alter db/t drop nosuch").0, 6);
    assert_eq!(shell.run("alter db/t add nosuch").0, 2);
}

#[test]
fn tables_are_exported_and_come_back() {
    let shell = partitioned();
    let sorted =
        |table: &str| shell.sh(&format!("sty query db 'SELECT * FROM {table} ORDER BY id'")).1;
    for format in ["parquet", "csv", "tsv", "jsonl", "arrow"] {
        shell.stdout(&format!("export -q db/t -o one.{format}"));
        shell.stdout(&format!("ingest -q db/{format} one.{format}"));
        assert_eq!(sorted(format), sorted("t"), "{format}");
        shell.stdout(&format!(
            "export -q db/t -o out-{format}/ --format {format} --partition-by kind"
        ));
        shell.stdout(&format!("ingest -q db/{format}2 out-{format}"));
        assert_eq!(sorted(&format!("{format}2")), sorted("t"), "{format}");
    }
    assert!(shell.sh("ls out-csv").1.starts_with("kind=k0\nkind=k1\n"));
    let (code, _, stderr) = shell.run("export db/t -o out-csv/ --format csv --partition-by day");
    assert!(code == 2 && stderr.contains("has files of an export already"), "{stderr}");
    shell.stdout("export -q db/t -o out-csv/ --format csv --partition-by kind --force");
    shell.stdout("export -q db/t -o out-csv/ --format jsonl --partition-by kind");
    let (code, _, stderr) = shell.run("export db/t -o one.csv");
    assert!(code != 0 && stderr.contains("--force"), "{stderr}");
    assert_eq!(
        shell.sh("sty export -q db/t -o - --format csv | head -1").1,
        "id,day,kind,number\n"
    );
}

#[test]
fn what_is_rewritten_is_counted_and_leaves_no_files() {
    let shell = partitioned();
    let files =
        || shell.sh("find db/t/data -name '*.sty' | wc -l").1.trim().parse::<u64>().unwrap();
    let json =
        |line: &str| -> serde_json::Value { serde_json::from_str(&shell.stdout(line)).unwrap() };
    let (code, answer, stderr) = shell.sh(
        "sty query db \"DELETE FROM t WHERE id IN (SELECT id FROM 'a.csv' WHERE number < 500)\"",
    );
    assert!(code == 0 && answer.starts_with("count\n"), "{answer}{stderr}");
    let segments = json("manifest db/t --format json")["segments"].as_array().unwrap().len() as u64;
    assert_eq!(files(), segments);
    let report = json("compact db/t --report json -q --progress never --sort-by id");
    assert_eq!(
        (report["segments_before"].as_u64().unwrap(), report["segments_after"].as_u64().unwrap()),
        (segments, 6)
    );
    assert_eq!(files(), 6);
    let manifest = json("manifest db/t --format json");
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    assert_eq!(number(&manifest["bytes_loaded"]), number(&report["table_bytes_loaded"]));
    assert_eq!(number(&manifest["bytes_written"]), number(&report["table_bytes_written"]));
    assert!(number(&report["bytes_written"]) < number(&manifest["bytes_written"]));
    let times =
        number(&manifest["bytes_written"]) as f64 / number(&manifest["bytes_loaded"]) as f64;
    assert!(
        (manifest["write_amplification"].as_f64().unwrap() - times).abs() < 1e-9 && times > 2.0
    );
    assert!(
        shell
            .stdout("manifest db/t")
            .contains(&format!("the table's write amplification is {times:.2}\n"))
    );
    let (_, _, stderr) = shell.run("ingest db/u a.csv -v");
    assert!(stderr.contains("; the table's write amplification is 1."), "{stderr}");
}

/// Partitions are pruned by functions that keep no order and by values that imply their results.
/// The answers are those of a table without partitions.
#[test]
fn partitions_prune_by_the_values_of_any_function() {
    let shell = Shell::new();
    let row =
        |i: u32| if i % 50 == 7 { format!(",k{}\n", i % 5) } else { format!("{i},k{}\n", i % 5) };
    let rows = "id,kind\n".to_owned() + &(0..700).map(row).collect::<String>();
    shell.file("a.csv", rows);
    shell.stdout("ingest -q db/plain a.csv");
    // Seven values of the first key with two of the second each, and null, which occurs with one.
    let (code, _, stderr) = shell
        .sh("sty ingest -q db/t a.csv --partition-by \"id % 7 AS rest,kind = 'k1' AS is_one\"");
    assert_eq!(code, 0, "{stderr}");
    for (filter, read) in [
        ("id % 7 = 3", 2),
        ("id % 7 <> 3", 12),
        ("id % 7 IN (3, 5) AND id > 650", 4),
        ("id = 500", 2),
        ("500 = id OR id IN (3, 10, 7)", 4),
        ("NOT (id = 500)", 14),
        ("NOT (id % 7 = 3)", 12),
        ("id % 7 IS NULL", 1),
        ("id % 7 = 3 OR id % 7 IS NULL", 3),
        ("id % 7 = 100", 0),
        ("id IS DISTINCT FROM 500", 15),
        ("coalesce(id, 3) % 7 = 3", 15),
        ("id % 7 = 3 OR kind = 'k2'", 15),
    ] {
        let query = |table: &str| {
            format!("SELECT count(*) c, sum(id) s, max(kind) k FROM {table} WHERE {filter}")
        };
        let plain = shell.sh(&format!("sty query db \"{}\"", query("plain"))).1;
        let (_, answer, stats) = shell.sh(&format!("sty query db \"{}\" --stats", query("t")));
        assert_eq!(answer, plain, "{filter}");
        assert!(stats.contains(&format!("segments  {read} of 15 read")), "{filter}: {stats}");
        let rows = |table: &str| {
            format!("sty query db \"SELECT id FROM {table} WHERE {filter} ORDER BY id\"")
        };
        assert_eq!(shell.sh(&rows("t")).1, shell.sh(&rows("plain")).1, "{filter}");
    }
    shell.stdout("alter -q db/t rename id number");
    let (_, answer, stats) =
        shell.sh("sty query db 'SELECT count(*) FROM t WHERE number % 7 = 3' --stats");
    assert!(answer.ends_with("\n98\n") && stats.contains("2 of 15 read"), "{answer} {stats}");
    assert_eq!(shell.sh("sty query db 'DELETE FROM t WHERE number % 7 = 3'").1, "count\n98\n");
    assert!(shell.stdout("partitions db/t --format csv").lines().count() == 14);
}

#[test]
fn readers_have_a_limit_and_two_ways_to_read() {
    let shell = Shell::new();
    shell.file("a.csv", days(0, 20_000));
    shell.stdout("ingest -q db/t a.csv --sort-by number");
    let answer = shell.sh("sty query db 'SELECT sum(number % 7), max(kind) FROM t'").1;
    for how in ["mmap", "read"] {
        let sql = "'SELECT sum(number % 7), max(kind) FROM t'";
        assert_eq!(shell.sh(&format!("sty query db --io {how} {sql}")).1, answer);
        shell.stdout(&format!("verify -q db --io {how} --memory-limit 64MiB"));
        shell.stdout(&format!("export -q db/t -o {how}.csv --io {how} --memory-limit 64MiB"));
    }
    assert_eq!(
        std::fs::read(shell.path("mmap.csv")).unwrap(),
        std::fs::read(shell.path("read.csv")).unwrap()
    );
    let (code, _, stderr) = shell.run("ingest db/u a.csv --partition-by repeat(kind,1000000000)");
    assert!(code == 1 && stderr.contains("it calls repeat()"), "{stderr}");
}

/// A column that became text is mended after the fact.
#[test]
fn a_column_gets_another_type() {
    let shell = Shell::new();
    shell.file("a.csv", "id,delay,day\n1,5,2013-01-01\n2,NA,2013-01-02\n3,-7,\n");
    shell.file("b.csv", "id,delay,day\n4,,2013-01-04\n5,x,2013-01-05\n");
    let types = "delay:utf8,day:utf8";
    shell.stdout(&format!("ingest -q db/t a.csv --schema {types}"));
    shell.stdout("alter -q db/t keep 1h");
    let (code, _, stderr) = shell.run("alter db/t cast delay:int64");
    assert!(code == 1 && stderr.contains("'NA'") && stderr.contains("--null TEXT"), "{stderr}");
    let (code, _, stderr) = shell.run("alter db/t cast delay:int64 --null NA");
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("3 rows in 1 segment"), "{stderr}");
    shell.stdout("alter -q db/t cast day:date");
    let sql = "SELECT *, delay + 1 AS more, year(day) AS y FROM t ORDER BY id";
    let expected = "id,delay,day,more,y\n1,5,2013-01-01,6,2013\n2,,2013-01-02,,2013\n3,-7,,-6,\n";
    assert_eq!(shell.stdout_of("query db", sql), expected);
    assert_eq!(shell.stdout("verify db/t"), "");
    // A value that does not fit changes nothing, in whatever segment it is.
    shell.stdout("alter -q db/t cast delay:utf8");
    shell.stdout("ingest -q db/t b.csv");
    let (code, _, stderr) = shell.run("alter db/t cast delay:int64");
    assert!(code == 1 && stderr.contains("'x'"), "{stderr}");
    assert_eq!(shell.stdout_of("query db", "SELECT max(delay) AS m FROM t"), "m\nx\n");
    shell.stdout("alter -q db/t cast delay:decimal(9,1) --null x");
    assert_eq!(shell.stdout_of("query db", "SELECT min(delay) AS m FROM t"), "m\n-7.0\n");
    // Readers of kept generations see the old type.
    assert_eq!(shell.stdout_of("query db", "SELECT max(delay) AS m FROM \"t@1\""), "m\nNA\n");
    assert_eq!(shell.stdout("verify db/t"), "");
    let (code, _, stderr) = shell.run("alter db/t cast nothing:int64");
    assert!(code == 6 && stderr.contains("there is no column 'nothing'"), "{stderr}");
    shell.stdout("ingest -q db/p a.csv --partition-by id");
    let (code, _, stderr) = shell.run("alter db/p cast id:utf8");
    assert!(code == 1 && stderr.contains("partitioned or sorted by it"), "{stderr}");
}
