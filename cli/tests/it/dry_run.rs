//! `--dry-run`: it changes nothing, and what it says is what the command then does.

use std::collections::BTreeMap;

use serde_json::Value;

use super::shell::Shell;

/// 260,000 rows in segments of four partitions, `id` ascending, `k` with nulls, `t` of few texts.
fn store() -> Shell {
    let shell = Shell::new();
    let rows = |from: u32| {
        let row = |id: u32| {
            let k = if id.is_multiple_of(5) { String::new() } else { (id % 7).to_string() };
            format!("{id},{},{k},t{},{}\n", id / 65_000, id % 3, f64::from(id) / 4.0)
        };
        "id,part,k,t,x\n".to_owned() + &(from..from + 65_000).map(row).collect::<String>()
    };
    for part in 0..4 {
        shell.file(&format!("{part}.csv"), rows(part * 65_000));
        let by = if part == 0 { "--partition-by part" } else { "" };
        shell.stdout(&format!("ingest -q db/t {part}.csv {by}"));
    }
    shell
}

/// The actions of a dry run, and that it has left all files as they were.
fn dry(shell: &Shell, line: &str) -> Vec<Value> {
    let before = files(shell);
    let (code, stdout, stderr) = shell.sh(line);
    assert_eq!(code, 0, "{line}: {stderr}");
    assert_eq!(files(shell), before, "{line}");
    serde_json::from_str(&stdout).unwrap()
}

/// The files of the store, with their lengths.
fn files(shell: &Shell) -> BTreeMap<String, u64> {
    let (_, listed, _) = shell.sh("find db -type f -printf '%s %p\\n'");
    let line = |line: &str| {
        let (length, name) = line.split_once(' ').unwrap();
        (name.to_owned(), length.parse().unwrap())
    };
    listed.lines().map(line).collect()
}

fn query(shell: &Shell, sql: &str, options: &str) -> (i32, String, String) {
    let quoted = sql.replace('\'', "'\\''");
    shell.sh(&format!("sty query db -q {options} '{quoted}'"))
}

/// The sums of a count over all tables that a statement has read.
fn read(stats: &Value, path: [&str; 2]) -> u64 {
    let operators = stats["operators"].as_array().unwrap();
    operators.iter().filter_map(|operator| operator["store"][path[0]][path[1]].as_u64()).sum()
}

#[test]
fn what_a_query_would_read_is_what_it_reads() {
    let shell = store();
    let mut exact = 0;
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT sum(id), max(x) FROM t",
        "SELECT * FROM t",
        "SELECT k FROM t",
        "SELECT id, x FROM t WHERE id >= 65000",
        "SELECT id, x FROM t WHERE part = 2",
        "SELECT id FROM t WHERE part = 9",
        "SELECT id FROM t WHERE id = 1234567",
        "SELECT id FROM t WHERE k IS NULL AND part = 1",
        "SELECT id, t FROM t WHERE x > 50000.5",
        "SELECT id FROM t WHERE t = 't1' AND id < 70000",
        "SELECT id FROM t WHERE t = 'none'",
        "SELECT t, count(*), sum(x) FROM t WHERE id < 130000 GROUP BY t",
        "SELECT k, count(DISTINCT t) FROM t WHERE id > 100 GROUP BY k",
        "SELECT avg(x) FROM t WHERE part = 3",
        "SELECT * FROM t ORDER BY x DESC LIMIT 5",
        "SELECT * FROM t LIMIT 5",
        "SELECT count(*) FROM t a JOIN t b USING (id) WHERE b.part = 1 AND a.k = 3",
        "SELECT * FROM t WHERE id = (SELECT max(id) FROM t)",
        "SELECT id, row_number() OVER (ORDER BY x) FROM t WHERE part = 0",
    ] {
        let (code, stdout, stderr) = query(&shell, sql, "--dry-run=json");
        assert_eq!(code, 0, "{sql}: {stderr}");
        let actions: Vec<Value> = serde_json::from_str(&stdout).unwrap();
        assert!(actions.iter().all(|action| action["action"] == "read"), "{stdout}");
        let is_exact = actions.iter().all(|action| action["exact"] == true);
        let (_, _, stats) = query(&shell, sql, "--stats=json -o /dev/null");
        let stats: Value = serde_json::from_str(&stats).unwrap();
        for (name, path) in [
            ("segments", ["segments", "read"]),
            ("blocks", ["blocks", "read"]),
            ("bytes", ["bytes", "read"]),
        ] {
            let said: u64 = actions.iter().filter_map(|action| action[name].as_u64()).sum();
            let done = read(&stats, path);
            match is_exact {
                true => assert_eq!(said, done, "{name} of {sql}"),
                false => assert!(said >= done, "{name} of {sql}: {said} said, {done} read"),
            }
        }
        exact += u32::from(is_exact);
    }
    assert!(exact >= 8, "{exact} are exact");
}

#[test]
fn rows_of_a_deletion_or_an_update_are_exact() {
    let shell = store();
    for sql in [
        "DELETE FROM t WHERE id % 1000 = 7 AND part < 2",
        "DELETE FROM t WHERE part = 3",
        "DELETE FROM t WHERE id IN (SELECT id + 1 FROM t WHERE id < 10)",
        "UPDATE t SET k = 0 WHERE k IS NULL AND id < 1000",
        "UPDATE t SET x = x + 1 WHERE t = 'none'",
        "DELETE FROM t",
    ] {
        let quoted = sql.replace('\'', "'\\''");
        let actions = dry(&shell, &format!("sty query db --dry-run=json '{quoted}'"));
        let [action] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!((action["exact"].as_bool(), &action["table"]), (Some(true), &"t".into()));
        let before = shell.stdout("manifest db/t --format json");
        let answer = query(&shell, sql, "--no-header").1;
        assert_eq!(action["rows"].to_string(), answer.trim(), "{sql}");
        let uuids = |text: &str| -> Vec<String> {
            let manifest: Value = serde_json::from_str(text).unwrap();
            let segments = manifest["segments"].as_array().unwrap();
            segments.iter().map(|segment| segment["uuid"].to_string()).collect()
        };
        let after = uuids(&shell.stdout("manifest db/t --format json"));
        let gone = uuids(&before).into_iter().filter(|uuid| !after.contains(uuid)).count();
        assert_eq!(action["segments"].as_u64(), Some(gone as u64), "{sql}");
    }
    let (code, _, stderr) = query(&shell, "DELETE FROM t", "--dry-run --read-only");
    assert!(code == 1 && stderr.contains("read-only"), "{stderr}");
    let actions = dry(&shell, "sty query db --dry-run=json 'INSERT INTO t SELECT * FROM t'");
    assert_eq!((&actions[0]["action"], &actions[1]["action"]), (&"read".into(), &"insert".into()));
    assert_eq!((&actions[1]["exact"], &actions[1]["rows"]), (&false.into(), &Value::Null));
}

#[test]
fn compaction_drops_and_frees_what_it_said() {
    let shell = store();
    for part in 0..4 {
        shell.stdout(&format!("ingest -q db/t {part}.csv --if-loaded again"));
    }
    shell.stdout("alter -q db/t keep 1d");
    let sum = |actions: &[Value], name: &str| -> u64 {
        actions.iter().map(|action| action[name].as_u64().unwrap()).sum()
    };
    // Whether segments of an unsorted table stay as they are, only rewriting them tells.
    let cases = [
        ("", false),
        ("--all", true),
        ("--sort-by x", true),
        ("", true),
        ("--partition part=1 --profile small", true),
    ];
    for (options, is_exact) in cases {
        let actions = dry(&shell, &format!("sty compact db/t {options} --dry-run=json"));
        assert!(actions.iter().all(|action| action["exact"] == is_exact), "{options}: {actions:?}");
        let report = shell.stdout(&format!("compact -q db/t {options} --report json"));
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(Some(sum(&actions, "rows")), report["rows"].as_u64(), "{options}");
        assert_eq!(Some(sum(&actions, "bytes")), report["bytes_read"].as_u64(), "{options}");
    }
    let actions = dry(&shell, "sty drop-partition db/t part=0 part=2 --dry-run=json");
    let (_, _, said) = shell.run("drop-partition db/t part=0 part=2");
    let segments = if actions[0]["segments"] == 1 { "segment," } else { "segments," };
    let begin = format!("260,000 rows dropped: {} {segments}", actions[0]["segments"]);
    assert_eq!(actions[0]["rows"], 260_000);
    assert!(said.starts_with(&begin), "{said}");
    let before = files(&shell);
    let actions = dry(&shell, "sty gc db --keep 0s --dry-run=json");
    let (_, _, said) = shell.run("gc db --keep 0s");
    let after = files(&shell);
    let freed: u64 =
        before.iter().filter(|(name, _)| !after.contains_key(*name)).map(|f| f.1).sum();
    assert!(freed > 0);
    assert_eq!(actions[0]["bytes"].as_u64(), Some(freed), "{said}");
    let note = actions[0]["note"].as_str().unwrap().to_owned();
    let (generations, files) = note.split_once(", ").unwrap();
    assert!(said.starts_with(&format!("t: {generations} freed, {files} removed, ")), "{said}");
    let (code, _, stderr) = shell.run("drop-partition db/t part=9 --dry-run");
    assert!(code == 6 && stderr.contains("no partition 'part=9'"), "{stderr}");
}

#[test]
fn an_ingest_reads_the_files_and_makes_the_columns_that_it_said() {
    let shell = Shell::new();
    shell.file("a.csv", "id;day;fare\n1;2020-01-01;1.5\n2;2020-01-02;2\n");
    shell.file("b.jsonl", "{\"id\": 3, \"note\": \"x\"}\n");
    let bytes = |actions: &[Value]| -> u64 {
        let loads = actions.iter().filter(|action| action["action"] == "load");
        loads.map(|action| action["bytes"].as_u64().unwrap()).sum()
    };
    let columns = |actions: &[Value]| -> Vec<String> {
        let columns = actions.iter().filter(|action| action["action"] == "column");
        columns.map(|one| format!("{} {}", one["name"], one["note"])).collect()
    };
    let schema = |shell: &Shell| -> Vec<String> {
        let listed: Vec<Value> =
            serde_json::from_str(&shell.stdout("schema db/t --format json")).unwrap();
        listed.iter().map(|one| format!("{} {}", one["column"], one["type"])).collect()
    };
    let (code, stdout, _) = shell.run("ingest db/t a.csv b.jsonl --dry-run=json");
    assert_eq!(code, 0);
    assert!(!shell.path("db").exists(), "nothing is made");
    let actions: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert!(stdout.contains("delimiter"), "{stdout}");
    let report = shell.stdout("ingest db/t a.csv b.jsonl --report json -q");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(Some(bytes(&actions)), report["bytes_in"].as_u64());
    assert_eq!(columns(&actions), schema(&shell));

    shell.file("c.csv", "id,fare\n5000000000,7\n");
    let line = "ingest db/t a.csv b.jsonl c.csv --if-loaded skip";
    let actions = dry(&shell, &format!("sty {line} --dry-run=json"));
    let report: Value =
        serde_json::from_str(&shell.stdout(&format!("{line} --report json -q"))).unwrap();
    assert_eq!(Some(bytes(&actions)), report["bytes_in"].as_u64());
    let skipped = actions.iter().filter(|action| action["action"] == "skip");
    let skipped: Vec<Value> = skipped.map(|action| action["name"].clone()).collect();
    assert_eq!(Value::Array(skipped), report["loaded_before"]);
    assert_eq!(columns(&actions), schema(&shell));
    // What an ingest refuses, its dry run does, too.
    let (code, _, stderr) = shell.run("ingest db/t a.csv --dry-run");
    assert!(code == 1 && stderr.contains("loaded before"), "{stderr}");
}

/// Inputs learn from each other, and so do those of a dry run.
#[test]
fn an_ingest_of_several_files_says_what_they_make_together() {
    let path = |at: usize, name: &str| format!("{at}/{name}");
    for (at, (files, options)) in [
        // Types of directories, over all of them.
        (vec![("y=2015/a.csv", "x\n1\n"), ("y=none/b.csv", "x\n2\n")], ""),
        // The order of day and month of one file holds for the next.
        (vec![("a.csv", "d\n13/02/2020\n"), ("b.csv", "d\n01/02/2020\n")], ""),
        // Words for null, and text in a later file: the load begins anew.
        (vec![("a.csv", "x\n1\nNA\n2\n"), ("b.csv", "x\nhello\n")], ""),
        (
            vec![("a.csv", "x,b\n1,yes\nNA,no\n"), ("b.jsonl", "{\"x\": 2.5, \"b\": \"maybe\"}\n")],
            "",
        ),
        (vec![("a.csv", "x,y\n1,2\n"), ("b.csv", "y,z\n2.5,2020-01-01\n"), ("c.csv", "")], ""),
        (vec![("a.csv", "x\n1\n"), ("b.csv", "x\n2\n")], "--partition-by x --filename-column f"),
    ]
    .into_iter()
    .enumerate()
    {
        let shell = Shell::new();
        for (name, text) in files {
            let file = path(at, name);
            let parent = shell.path(&file).parent().unwrap().to_path_buf();
            std::fs::DirBuilder::new().recursive(true).create(parent).unwrap();
            shell.file(&file, text);
        }
        let line = format!("ingest db/t {at} {options}");
        let (code, stdout, said) = shell.run(&format!("{line} --dry-run=json"));
        assert_eq!(code, 0, "{at}: {said}");
        let actions: Vec<Value> = serde_json::from_str(&stdout).unwrap();
        let columns = actions.iter().filter(|action| action["action"] == "column");
        let columns: Vec<_> =
            columns.map(|one| (one["name"].clone(), one["note"].clone())).collect();
        let (code, _, done) = shell.run(&line);
        assert_eq!(code, 0, "{at}: {done}");
        let listed = shell.stdout("schema db/t --format json");
        let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
        let stored: Vec<_> =
            listed.iter().map(|one| (one["column"].clone(), one["type"].clone())).collect();
        assert_eq!(columns, stored, "{at}");
        let anew = |said: &str| said.contains("begin anew") || said.contains("began anew");
        assert_eq!(anew(&said), anew(&done), "{said}{done}");
    }
}

#[test]
fn what_an_ingest_refuses_its_dry_run_does_too() {
    let shell = Shell::new();
    shell.file("a.csv", "x\n1\n").file("b.csv", "x\n2\n");
    shell.stdout("ingest -q db/t a.csv --sort-by x");
    for options in
        ["--partition-by nothing(x)", "--partition-by y", "--sort-by y", "--schema y:int"]
    {
        let dry = shell.run(&format!("ingest db/u b.csv {options} --dry-run=json"));
        let done = shell.run(&format!("ingest db/u b.csv {options}"));
        assert_eq!((dry.0, &dry.2), (done.0, &done.2), "{options}");
        assert_ne!(dry.0, 0, "{options}: {}", dry.2);
    }
    let (code, _, stderr) = shell.run("ingest db/t b.csv --partition-by x --dry-run");
    assert!(code == 1 && stderr.contains("the table is not partitioned"), "{stderr}");
}

/// Also where the column that a row lacks is not among those that are selected.
#[test]
fn a_dry_run_refuses_rows_without_a_needed_value() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (x INT, y INT NOT NULL)");
    shell.file("a.csv", "x,y\n1,2\n").file("b.jsonl", "{\"x\":1,\"y\":2}\n");
    for line in ["a.csv --select x", "b.jsonl --select x", "a.csv --select 'x, NULL::int AS y'"] {
        let dry = shell.sh(&format!("sty ingest db/t {line} --dry-run=json"));
        let done = shell.sh(&format!("sty ingest db/t {line}"));
        assert_eq!((dry.0, &dry.2), (1, &done.2), "{line}");
        assert!(dry.2.contains("column 'y' is NOT NULL"), "{line}: {}", dry.2);
    }
    assert_eq!(shell.run("ingest db/t a.csv --select x,y --dry-run").0, 0);
}

/// A pipe that goes on for ever is judged by what has come.
#[test]
fn a_dry_run_of_a_live_pipe_ends() {
    let shell = Shell::new();
    let (code, stdout, stderr) =
        shell.sh("mkfifo p; (echo x,y; echo 1,2; exec sleep 100) > p 2> /dev/null & \
         timeout 50 sty ingest db/t p --commit-every 1s --dry-run=csv; \
         code=$?; kill $!; exit $code");
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("\ncolumn,t,x,,,,,false,int64\n"), "{stdout}");
}

#[test]
fn an_alteration_is_checked_and_not_made() {
    let shell = store();
    let actions = dry(&shell, "sty alter db/t --dry-run=json rename x y");
    let names: Vec<&str> = actions.iter().map(|action| action["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["id", "part", "k", "t", "y"]);
    shell.stdout("alter -q db/t rename x y");
    let listed = shell.stdout("schema db/t --format csv");
    assert!(listed.contains("\ny,"), "{listed}");
    for wrong in ["drop part", "rename no x", "widen y:bigint"] {
        let (code, stdout, stderr) = shell.run(&format!("alter db/t --dry-run {wrong}"));
        let real = shell.run(&format!("alter db/t {wrong}"));
        assert_eq!((code, stdout, stderr), real, "{wrong}");
        assert_ne!(code, 0);
    }
}

/// Where a command may not write, its dry run fails as the command does.
#[test]
fn what_may_not_be_written_is_refused_like_the_command() {
    let shell = Shell::new();
    shell.file("a.csv", "id,part\n1,2\n").file("b.csv", "id,part\n3,4\n");
    shell.stdout("ingest -q db/t a.csv --partition-by part");
    shell.stdout("ingest -q db/sound a.csv");
    shell.sh("chmod a+rx . && chmod -R a-w db");
    // Permissions do not hold for root.
    let is_root = shell.sh("id -u").1.trim() == "0";
    let user = if is_root { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
    if shell.sh(&format!("{user} cat db/t/CURRENT && {user} sty --version")).0 != 0 {
        return;
    }
    let same = |line: &str, sql: &str| {
        let run = |dry: &str| shell.sh(&format!("{user} sty {line} {dry} {sql}"));
        let ((code, _, stderr), (dry_code, _, dry_stderr)) = (run(""), run("--dry-run"));
        assert_eq!((dry_code, &dry_stderr), (code, &stderr), "{line} {sql}");
        assert!(code != 0 && stderr.contains("ermission denied"), "{line} {sql}: {stderr}");
    };
    // Without the right to the lock, and then to the directory.
    for allowed in ["true", "chmod a+w db/t/LOCK"] {
        shell.sh(allowed);
        same("ingest db/t b.csv", "");
        same("ingest db/new b.csv", "");
        for sql in ["'DELETE FROM t'", "'INSERT INTO t VALUES (5, 6)'"] {
            same("query db", sql);
        }
    }
    same("query db", "'UPDATE t SET id = 7'");
    same("query db", "'CREATE TABLE n AS SELECT 1 AS a'");
    same("query db", "'DROP TABLE t'");
    same("compact db/t", "");
    same("drop-partition db/t part=2", "");
    same("alter db/t", "rename id n");
    same("gc db/t", "");
    // With the right to it, but not to those within, which names of new files tell apart.
    shell.sh("chmod a+w db/t");
    for line in ["ingest db/t b.csv", "query db 'DELETE FROM t'"] {
        for dry in ["", "--dry-run"] {
            let (code, _, stderr) = shell.sh(&format!("{user} sty {line} {dry}"));
            assert!(code == 1 && stderr.contains("db/t/"), "{line} {dry}: {code} {stderr}");
        }
    }
    shell.sh("chmod -R u+w db");
}
