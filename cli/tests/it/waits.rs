//! Commands that write to a table which another process writes.

use crate::shell::Shell;

const ROWS: &str = "a,b\n1,x\n2,y\n";

/// A script with a writer of `db/t` that ends when `end` runs.
fn beside_writer(script: &str) -> String {
    format!(
        "mkfifo rows
         end() {{ exec 3>&-; wait $writer; }}
         sty ingest -q db/t rows & writer=$!
         exec 3> rows; cat a.csv >&3
         while ! grep -q . db/t/LOCK; do sleep 0.01; done
         {script}"
    )
}

fn with_table() -> Shell {
    let shell = Shell::new();
    shell.file("a.csv", ROWS);
    shell.stdout("ingest -q db/t a.csv");
    shell
}

#[test]
fn writers_wait_and_go_on_with_what_the_other_has_left() {
    let shell = with_table();
    // What the statements read is what is there once they may write.
    let script = "sty query db --wait 'INSERT INTO t SELECT a + 100, b FROM t' 3>&- & insert=$!
         sty ingest --wait=1m -q db/t a.csv --if-loaded again 3>&- & ingest=$!
         sleep 0.3; end
         wait $insert; echo $?; wait $ingest; echo $?
         sty query db 'SELECT count(*) FROM t' | tail -1";
    let (_, stdout, stderr) = shell.sh(&beside_writer(script));
    // Either comes first. The INSERT doubles the rows that it finds.
    let outcomes = ["count\n4\n0\n0\n10\n", "count\n6\n0\n0\n12\n"];
    assert!(outcomes.contains(&stdout.as_str()), "{stdout}{stderr}");
    assert!(stderr.contains("; waiting for it"), "{stderr}");
}

#[test]
fn a_statement_that_depends_on_its_table_is_planned_anew() {
    let shell = with_table();
    let script = "sty query db --wait 'UPDATE t SET a = (SELECT count(*) FROM t)' 3>&- & update=$!
         sleep 0.3; end; wait $update; echo $?
         sty query db 'SELECT DISTINCT a FROM t' | tail -1";
    let (_, stdout, stderr) = shell.sh(&beside_writer(script));
    assert_eq!(stdout, "count\n4\n0\n4\n", "{stderr}");
}

#[test]
fn processes_that_number_rows_give_each_number_once() {
    let shell = Shell::new();
    shell.sh("mkdir db; sty query db 'CREATE TABLE t (id BIGINT)'");
    let script = "for i in 1 2 3 4 5 6 7 8
         do sty query db --wait 'INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t' & done
         wait; sty query db 'SELECT count(*), count(DISTINCT id), max(id) FROM t' | tail -1";
    let (_, stdout, stderr) = shell.sh(script);
    assert_eq!(stdout.lines().last(), Some("8,8,8"), "{stderr}");
}

#[test]
fn a_wait_has_an_end() {
    let shell = with_table();
    let script = "for command in 'compact db/t' 'gc db' 'repair db' 'drop-partition db/t x=1' \\
             'ingest --if-loaded again db/t a.csv' 'alter db/t keep 1h'
         do sty ${command%% *} --wait=20ms ${command#* }; echo $?; done
         sty query db --wait=20ms 'DELETE FROM t'; echo $?
         sty query db \"SET sty.wait = '20 ms'; DROP TABLE t\"; echo $?
         sty query db --wait=0 'DELETE FROM t'; echo $?
         sty compact db/t --wait --timeout 20ms; echo $?
         sty compact db/t --wait 3>&- 2> said & waits=$!
         while ! grep -q waiting said; do sleep 0.01; done
         kill -TERM $waits; wait $waits; echo $?
         end";
    let (_, stdout, stderr) = shell.sh(&beside_writer(script));
    assert_eq!(stdout, "5\n5\n5\n5\n5\n5\n5\n5\n1\n5\n130\n", "{stderr}");
    assert!(stderr.contains("still after 0.0 s of waiting for it"), "{stderr}");
    assert!(stderr.contains("hint: --wait waits for it, --wait=30s for so long"), "{stderr}");
    let settings = "sty query db 'SHOW sty.wait'; sty query db --wait 'SHOW sty.wait'
         STY_WAIT=90 sty query db 'SHOW sty.wait'; sty query db \"SET sty.wait = 'a while'\"";
    let (code, stdout, stderr) = shell.sh(settings);
    let shown = ["off", "on", "90s"].map(|wait| format!("name,value\nsty.wait,{wait}\n"));
    assert_eq!((code, stdout), (1, shown.concat()), "{stderr}");
    assert!(stderr.contains("on, off, or a time such as '30s'"), "{stderr}");
}
