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
    // A file of the name is no view, and a view is none of the files of a FROM.
    shell.stdout("verify -q db");
    shell.stdout_of("query db", "DROP VIEW big");
    assert_eq!(shell.pipe("query db", "FROM big").0, 6);
}

#[test]
fn commands_about_tables_say_that_it_is_a_view() {
    let shell = with_view();
    for command in ["schema db/big", "inspect db/big", "export db/big -o x.csv", "compact db/big"] {
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
    assert_eq!(dry.0, 0, "{dry:?}");
    assert!(!shell.path("db/more.view").exists() && shell.path("db/big.view").exists());
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
