//! Views of a store, for all commands.

use crate::shell::Shell;

/// A shell with a store that has a table and a view.
fn with_view() -> Shell {
    let shell = Shell::new();
    shell.file("t.csv", "id,n\n1,10\n2,20\n3,30\n");
    shell.stdout("ingest -q db/t t.csv");
    shell.stdout_of("query db", "CREATE VIEW big AS SELECT id, n FROM t WHERE n > 10;");
    shell
}

#[test]
fn a_view_of_the_store_is_there_for_every_command() {
    let shell = with_view();
    assert_eq!(shell.stdout_of("query db", "SELECT sum(n) AS s FROM big"), "s\n50\n");
    assert_eq!(shell.stdout_of("query db --read-only", "SELECT sum(n) AS s FROM big"), "s\n50\n");
    let listed = shell.stdout("tables db --format csv");
    assert!(listed.starts_with("table,rows,columns,segments,bytes,state\nt,3,2,1,"), "{listed}");
    assert!(listed.ends_with(",sound\nbig,,,,,view\n"), "{listed}");
    let attached =
        "ATTACH 'db' AS o; SELECT max(n) AS m FROM o.big; USE o; SELECT min(n) AS m FROM big";
    let (code, stdout, stderr) = shell.pipe("query", attached);
    assert_eq!((code, stdout.as_str()), (0, "m\n30\nm\n20\n"), "{stderr}");
    shell.stdout("verify -q db");
    shell.stdout_of("query db", "DROP VIEW big");
    assert_eq!(shell.pipe("query db", "FROM big").0, 6);
}

#[test]
fn commands_about_tables_say_that_it_is_a_view() {
    let shell = with_view();
    for command in [
        "schema db/big",
        "inspect db/big",
        "export db/big -o x.csv",
        "compact db/big",
        "repair db/big",
        "gc db/big",
        "alter db/big drop n",
    ] {
        let (code, stdout, stderr) = shell.run(command);
        assert_eq!((code, stdout.as_str()), (6, ""), "{command}");
        assert!(
            stderr.contains("'big' is a view, not a table: sty query db 'FROM big'"),
            "{stderr}"
        );
    }
    let (code, _, stderr) = shell.run("ingest db/big t.csv");
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("big is a view of the store") && stderr.contains("DROP VIEW"),
        "{stderr}"
    );
    assert!(!shell.path("db/big").exists());
    for sql in ["CREATE VIEW more AS SELECT 1", "DROP VIEW big"] {
        let (code, _, stderr) = shell.pipe("query db --read-only", sql);
        assert!(code == 1 && stderr.contains("read-only"), "{sql}: {stderr}");
    }
    let dry = shell.pipe("query db --dry-run", "CREATE VIEW more AS SELECT 1");
    assert!(dry.0 == 0 && dry.1.contains("create view,more"), "{dry:?}");
    assert!(!shell.path("db/more.view").exists() && shell.path("db/big.view").exists());
}

/// The names of a view in another store are those of its own store.
#[test]
fn views_of_attached_stores_stay_there() {
    let shell = Shell::new();
    let made = "CREATE TABLE t AS SELECT 'a' AS who; CREATE VIEW v AS SELECT who FROM public.t;
                CREATE VIEW w AS SELECT v.who, t.who AS same FROM v JOIN t ON true";
    shell.stdout_of("query a", made);
    shell.stdout_of("query b", "CREATE TABLE t AS SELECT 'b' AS who; CREATE VIEW u AS FROM t");
    let asked = |sql: &str| shell.pipe("query b", format!("ATTACH 'a' AS o; {sql}"));
    for sql in ["FROM o.v", "USE o; FROM v", "SELECT who FROM o.w", "SELECT same AS who FROM o.w"] {
        assert_eq!(asked(sql).1, "who\na\n", "{sql}");
    }
    assert_eq!(asked("USE o; FROM public.u").1, "who\nb\n");
    for sql in ["DROP VIEW v", "CREATE OR REPLACE VIEW u AS SELECT 1", "CREATE VIEW x AS SELECT 1"]
    {
        let (code, _, stderr) = asked(&format!("USE o; {sql}"));
        assert!(code == 1 && stderr.contains("o is attached to be read"), "{sql}: {stderr}");
    }
    assert_eq!(shell.stdout_of("query b", "FROM u"), "who\nb\n");
    let temporary = "USE o; CREATE TEMP VIEW x AS SELECT upper(who) AS who FROM v; FROM x";
    assert_eq!(asked(temporary).1, "who\nA\n");
    let (_, _, stderr) = asked("USE o; FROM u");
    assert!(stderr.contains("did you mean public.u?"), "{stderr}");
}

/// If two processes create the same view at once, one of them gets an error.
#[test]
fn views_are_made_by_one_at_a_time() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (a INT)");
    let script = "for i in 1 2 3 4 5; do
                      sty query db \"CREATE VIEW v$i AS SELECT 1 AS a\" 2>/dev/null & one=$!
                      sty query db \"CREATE VIEW v$i AS SELECT 2 AS a\" 2>/dev/null & two=$!
                      wait $one; a=$?; wait $two; echo $((a + $?))
                  done";
    assert_eq!(shell.sh(script).1, "1\n1\n1\n1\n1\n");
    let both = "sty query db \"CREATE VIEW IF NOT EXISTS w AS SELECT 1 AS a\" & one=$!
                sty query db \"CREATE VIEW IF NOT EXISTS w AS SELECT 2 AS a\" & two=$!
                wait $one; a=$?; wait $two; echo $((a + $?))";
    assert_eq!(shell.sh(both).1, "0\n");
}

/// A file that is a whole view and says something else does nothing.
#[test]
fn what_is_not_a_view_is_not_run() {
    let shell = with_view();
    let forged = |statement: &str| {
        let mut crc = flate2::Crc::new();
        crc.update(statement.as_bytes());
        let crc = crc.sum();
        shell.rewrite("db/big.view", format!("stylobate view 1 crc {crc:08x}\n{statement}"));
        shell.pipe("query db", "CREATE TEMP VIEW kept AS SELECT 5 AS n; FROM big")
    };
    for statement in ["DROP VIEW kept", "SELECT 1", "CREATE VIEW a AS SELECT 1; DROP TABLE t", ""] {
        let (code, _, stderr) = forged(statement);
        assert!(
            code == 1 && stderr.contains("its text is no CREATE VIEW"),
            "{statement}: {stderr}"
        );
    }
    let (code, _, stderr) = forged("CREATE VIEW big AS SELECT * FROM big");
    assert!(code == 1 && stderr.contains("made of itself"), "{stderr}");
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS c FROM t"), "c\n3\n");
}

#[test]
fn a_damaged_view_is_found_and_made_anew() {
    let shell = with_view();
    let text = "stylobate view 1 crc 00000000\nCREATE VIEW big AS SELECT 1 AS n";
    shell.rewrite("db/big.view", text);
    let (code, stdout, stderr) = shell.run("verify db --format csv");
    assert_eq!((code, stdout.lines().count()), (3, 2), "{stdout}{stderr}");
    assert!(stdout.contains("big,db/big.view,0,"), "{stdout}");
    let (code, stdout, stderr) = shell.run("tables db --format csv");
    assert_eq!(code, 3, "{stderr}");
    assert!(stdout.ends_with("big,,,,,damaged\n"), "{stdout}");
    let (code, _, stderr) = shell.pipe("query db", "FROM big");
    assert!(code == 3 && stderr.contains("CREATE OR REPLACE VIEW"), "{code} {stderr}");
    // Others are not in its way.
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS c FROM t"), "c\n3\n");
    let columns = "SELECT count(*) AS c FROM information_schema.columns WHERE table_name = 't'";
    assert_eq!(shell.stdout_of("query db", columns), "c\n2\n");
    shell.stdout_of("query db", "CREATE OR REPLACE VIEW big AS SELECT 7 AS n");
    assert_eq!(shell.stdout_of("query db", "FROM big"), "n\n7\n");
    shell.rewrite("db/big.view", text.replace("view 1", "view 9").replace("00000000", "f7a4e4a3"));
    let (code, _, stderr) = shell.pipe("query db", "FROM big");
    assert!(code != 0 && stderr.contains("big.view"), "{stderr}");
    shell.stdout_of("query db", "DROP VIEW big");
}

#[test]
fn a_copy_of_the_directory_is_a_backup() {
    let shell = with_view();
    assert_eq!(shell.sh("cp -r db copy").0, 0);
    shell.stdout_of("query db", "DELETE FROM t WHERE id > 1; DROP VIEW big; DROP TABLE t");
    shell.stdout("verify -q copy");
    assert_eq!(shell.stdout_of("query copy", "SELECT sum(n) AS s FROM big"), "s\n50\n");
    shell.stdout("ingest -q copy/t t.csv --if-loaded again");
    assert_eq!(shell.stdout_of("query copy", "SELECT sum(n) AS s FROM big"), "s\n100\n");
}
