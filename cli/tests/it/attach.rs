//! `ATTACH 'other' AS o`: the tables of other stores in the statements of a session.

use crate::shell::{Outcome, Shell};

/// A shell with the stores `own` and `other`, which both have a table `t`.
fn stores() -> Shell {
    let shell = Shell::new();
    shell.file("t.csv", "id,v\n0,0\n1,3\n2,6\n");
    shell.file("o.csv", "id,v\n0,0\n1,20\n2,40\n3,60\n");
    let made = shell.sh(
        "sty ingest -q own/t t.csv && sty ingest -q other/t o.csv && sty ingest -q other/Zones o.csv",
    );
    assert_eq!(made, (0, String::new(), String::new()));
    shell
}

/// What a session over `own` says to statements after an ATTACH.
fn asked(shell: &Shell, statements: &str) -> Outcome {
    shell.sh(&format!("sty query own \"ATTACH 'other' AS o; {statements}\""))
}

#[test]
fn attached_tables_are_read_like_own_ones() {
    let shell = stores();
    for (sql, answer) in [
        ("SELECT sum(v) AS s FROM o.t", "s\n120\n"),
        ("SELECT count(*) AS n FROM o.t JOIN t ON o.t.id = t.id", "n\n3\n"),
        ("SELECT o.t.v, t.v FROM o.t JOIN t USING (id)", "v,v\n0,0\n20,3\n40,6\n"),
        ("SELECT t.v, o.t.v FROM t JOIN o.t USING (id)", "v,v\n0,0\n3,20\n6,40\n"),
        ("FROM t JOIN o.t USING (id) LIMIT 2 OFFSET 1", "id,v,v\n1,3,20\n2,6,40\n"),
        ("SELECT o.t.* FROM t JOIN o.t ON t.id + 2 = O.T.ID", "id,v\n2,40\n3,60\n"),
        ("SELECT t.v FROM o.t ORDER BY t.v DESC LIMIT 1", "v\n60\n"),
        ("WITH t AS (SELECT 7 AS id) SELECT max(o.t.id) AS m FROM o.t", "m\n3\n"),
        ("SELECT v FROM t WHERE id IN (SELECT id FROM o.t WHERE v = 20)", "v\n3\n"),
        ("SELECT max(V) AS m FROM o.zones", "m\n60\n"),
        ("SELECT max(v) AS m FROM o.\\\"t@1\\\"", "m\n60\n"),
        ("CREATE TEMP VIEW w AS SELECT sum(v) AS s FROM o.t; FROM w", "s\n120\n"),
        (
            "ATTACH DATABASE 'other' AS p (READ_ONLY); SELECT p.t.v - o.t.v AS d FROM p.t JOIN o.t USING \
          (id) WHERE id = 3",
            "d\n0\n",
        ),
        (
            "ATTACH 'other'; ATTACH IF NOT EXISTS 'other'; SELECT count(*) AS n FROM other.t",
            "n\n4\n",
        ),
        ("DESCRIBE o.t", "column_name,data_type,is_nullable\nid,int64,YES\nv,int64,YES\n"),
        ("SELECT column_name, max FROM (SUMMARIZE o.t)", "column_name,max\nid,3\nv,60\n"),
        ("PIVOT o.t ON id IN (1, 2) USING sum(v)", "1,2\n20,40\n"),
        ("SHOW TABLES", "table_name,table_type\nt,BASE TABLE\n"),
        ("SHOW TABLES FROM o LIKE 'Z%'", "table_name,table_type\nZones,BASE TABLE\n"),
        ("SHOW DATABASES", "database_name,path,in_use\npublic,own,true\no,other,false\n"),
        (
            "SELECT table_schema AS s, table_name AS n FROM information_schema.tables \
             WHERE table_type = 'BASE TABLE' ORDER BY ALL",
            "s,n\no,Zones\no,t\npublic,t\n",
        ),
        (
            "CREATE TABLE n AS FROM o.t; INSERT INTO t FROM o.t; SELECT sum(v) AS s FROM t",
            "count\n4\ns\n129\n",
        ),
    ] {
        assert_eq!(asked(&shell, sql), (0, answer.to_owned(), String::new()), "{sql}");
    }
    // Without a store of one's own, in the shell, and in a store that is made by the session.
    for line in [
        "sty query \"ATTACH 'other' AS o; SELECT max(v) AS m FROM o.t\"",
        "sty query own --read-only \"ATTACH 'other' AS o; SELECT max(v) AS m FROM o.t\"",
        "sty shell own -c \"ATTACH 'other' AS o; SELECT max(v) AS m FROM o.t\"",
        "sty query -q new \"ATTACH 'other' AS o; CREATE TABLE t AS FROM o.t\" > /dev/null; \
         sty query new 'SELECT max(v) AS m FROM t'",
    ] {
        let (code, stdout, stderr) = shell.sh(line);
        assert_eq!((code, &*stdout), (0, "m\n60\n"), "{line}: {stderr}");
    }
}

#[test]
fn our_executor_runs_over_attached_tables() {
    let shell = stores();
    let (_, plan, stderr) = asked(&shell, "EXPLAIN SELECT sum(v) FROM o.t WHERE id > 0");
    assert!(plan.contains("StoreFragment: table=o.t, "), "{plan}{stderr}");
    let line = "sty query own --dry-run=csv \"ATTACH 'other' AS o; SELECT sum(v) FROM o.t\"";
    let (code, forecast, stderr) = shell.sh(line);
    assert!(code == 0 && forecast.contains("o.t"), "{forecast}{stderr}");
}

#[test]
fn attached_stores_are_not_written() {
    let shell = stores();
    for sql in [
        "INSERT INTO o.t VALUES (9, 9)",
        "DELETE FROM o.t",
        "UPDATE o.t SET v = 1",
        "DROP TABLE o.t",
        "DROP VIEW IF EXISTS o.t",
        "CREATE TABLE o.x AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE o.t AS SELECT 1 AS a",
        "CREATE VIEW o.x AS SELECT 1 AS a",
        "CREATE EXTERNAL TABLE o.x STORED AS csv LOCATION 't.csv'",
        "COPY o.t FROM 't.csv'",
    ] {
        let (code, stdout, stderr) = asked(&shell, sql);
        assert_eq!((code, &*stdout), (1, ""), "{sql}");
        let said = "o is attached to be read; run the statement on its own store: sty query other";
        assert!(stderr.contains(said), "{sql}: {stderr}");
    }
    let rows = shell.sh("for s in own other; do sty query $s 'SELECT count(*) AS n FROM t'; done");
    assert_eq!(rows, (0, "n\n3\nn\n4\n".to_owned(), String::new()));
    // A DELETE never takes the rows of one table by the names of another.
    let sql = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM o.t WHERE o.t.id = t.id + 2)";
    let (code, _, stderr) = asked(&shell, sql);
    assert!(code == 1 && stderr.contains("t may be o.t or another t here"), "{stderr}");
    let sql = "DELETE FROM t WHERE id IN (SELECT o.t.id - 2 FROM o.t)";
    let (code, stdout, stderr) = asked(&shell, sql);
    assert_eq!((code, &*stdout), (0, "count\n2\n"), "{stderr}");
}

#[test]
fn names_without_a_schema_are_those_of_the_store_in_use() {
    let shell = stores();
    shell.sh("sty ingest -q own/mine t.csv");
    for (sql, answer) in [
        ("SELECT sum(t.v) AS s FROM t", "s\n120\n"),
        ("SELECT sum(v) AS s FROM public.t", "s\n9\n"),
        ("SELECT t.v, public.t.v FROM t JOIN public.t USING (id)", "v,v\n0,0\n20,3\n40,6\n"),
        ("SELECT max(v) AS m FROM \\\"t@1\\\"", "m\n60\n"),
        ("FROM pv LIMIT 1 OFFSET 1", "id,v\n1,3\n"),
        ("CREATE TEMP VIEW w AS SELECT sum(v) AS s FROM t; USE public; FROM w", "s\n120\n"),
        ("PREPARE p AS SELECT sum(v) AS s FROM t; USE PUBLIC; EXECUTE p", "s\n120\n"),
        ("WITH t AS (SELECT max(v) AS m FROM t) FROM t", "m\n60\n"),
        ("PIVOT t ON id USING sum(v)", "0,1,2,3\n0,20,40,60\n"),
        ("SELECT max FROM (SUMMARIZE t)", "max\n3\n60\n"),
        ("DESCRIBE zones", "column_name,data_type,is_nullable\nid,int64,YES\nv,int64,YES\n"),
        ("SELECT count(*) AS n FROM 't.csv'", "n\n3\n"),
        (
            "CREATE TABLE public.n AS FROM t; INSERT INTO public.t FROM t; SELECT sum(v) AS s FROM \
             public.t",
            "count\n4\ns\n129\n",
        ),
        ("SHOW TABLES", "table_name,table_type\nZones,BASE TABLE\npv,VIEW\nt,BASE TABLE\n"),
        ("SHOW TABLES LIKE 'p%'", "table_name,table_type\npv,VIEW\n"),
        ("SHOW DATABASES", "database_name,path,in_use\npublic,own,false\no,other,true\n"),
        ("USE stylobate.public; DETACH o; SELECT max(id) AS m FROM t", "m\n3\n"),
    ] {
        let outcome =
            asked(&shell, &format!("CREATE TEMP VIEW pv AS FROM t; USE \\\"O\\\"; {sql}"));
        assert_eq!(outcome, (0, answer.to_owned(), String::new()), "{sql}");
    }
    for (sql, exit, said) in [
        ("FROM mine", 6, "no table mine; did you mean public.mine?"),
        ("FROM zone", 6, "no table zone; did you mean \"Zones\"?"),
        ("FROM nosuch", 6, "no table nosuch; there are: Zones, t"),
        ("DETACH o", 1, "o is in use, and cannot be detached; USE public leaves it"),
        ("USE oo", 6, "no store is attached as oo; did you mean o?"),
        ("USE a.b.c", 1, "USE takes the name of an attached store, or public"),
        ("INSERT INTO mine VALUES (9, 9)", 1, "o.mine: o is attached to be read"),
        ("UPDATE t SET v = 1", 1, "o.t: o is attached to be read"),
        ("DELETE FROM mine", 1, "o.mine: o is attached to be read"),
        ("DROP TABLE mine", 1, "o.mine: o is attached to be read"),
        ("CREATE TABLE x AS SELECT 1 AS a", 1, "o.x: o is attached to be read"),
        ("SELECT 1 AS a INTO x", 1, "o.x: o is attached to be read"),
        ("COPY mine FROM 't.csv'", 1, "o.mine: o is attached to be read"),
        ("PREPARE p AS DELETE FROM mine", 1, "o.mine: o is attached to be read"),
    ] {
        let (code, stdout, stderr) = asked(&shell, &format!("USE o; {sql}"));
        assert_eq!((code, &*stdout), (exit, ""), "{sql}: {stderr}");
        assert!(stderr.contains(said), "{sql}: {stderr}");
    }
    let rows = shell.sh("sty query own 'SELECT count(*) AS n FROM mine'");
    assert_eq!(rows, (0, "n\n3\n".to_owned(), String::new()));
}

#[test]
fn the_shell_lists_tables_with_the_names_by_which_they_are_found() {
    let shell = stores();
    for (lines, answer) in [
        (".tables", "table,rows,columns\nt,3,2\no.Zones,4,2\no.t,4,2\n"),
        ("USE o;\n.tables", "table,rows,columns\nZones,4,2\nt,4,2\npublic.t,3,2\n"),
        ("USE o;\n.tables z", "table,rows,columns\nZones,4,2\n"),
        (".schema O.Zones", "column_name,data_type,is_nullable\nid,int64,YES\nv,int64,YES\n"),
        (
            "USE o;\n.schema",
            "table,column,type\nZones,id,int64\nZones,v,int64\nt,id,int64\nt,v,int64\n\
             public.t,id,int64\npublic.t,v,int64\n",
        ),
    ] {
        let outcome = shell.pipe("shell own", format!("ATTACH 'other' AS o;\n{lines}\n"));
        assert_eq!(outcome, (0, answer.to_owned(), String::new()), "{lines}");
    }
}

#[test]
fn what_cannot_be_attached_or_found_is_said() {
    let shell = stores();
    shell.sh(
        "cp -r other broken; for f in broken/t/manifest/*.root; do printf x > $f; done; mkdir e",
    );
    for (sql, exit, said) in [
        ("ATTACH 'nosuch' AS x", 6, "there is no store at 'nosuch'"),
        ("ATTACH 'o.csv' AS x", 1, "'o.csv' is a file, and a store is a directory"),
        ("ATTACH 'other/t' AS x", 1, "'other/t' is a table or in one; ATTACH takes its store"),
        ("ATTACH 'e' AS x", 6, "'e' is no store: there are no tables in it"),
        ("ATTACH 'other' AS public", 1, "no store can be attached as 'public'"),
        ("ATTACH 'other' AS O", 1, "'other' is attached as o already; DETACH o"),
        ("ATTACH 'other' AS x (READ_ONLY false)", 1, "attached stores are only read"),
        ("ATTACH 'other' AS x (TYPE sqlite)", 1, "nothing of type sqlite"),
        ("ATTACH 'broken' AS b; FROM b.t", 3, "t/manifest"),
        ("FROM o.zone", 6, "no table o.zone; did you mean o.\"Zones\"?"),
        ("FROM oo.t", 6, "no store is attached as oo; did you mean o?"),
        ("FROM zones", 6, "no table zones; did you mean o.zones?"),
        ("SHOW TABLES FROM q", 6, "no store is attached as q"),
        ("DETACH nosuch", 6, "no store is attached as nosuch; there are: o"),
        (
            "DETACH DATABASE O; DETACH DATABASE IF EXISTS o; FROM o.t",
            6,
            "no store is attached as o",
        ),
        ("CREATE TEMP VIEW w AS FROM o.t; DETACH o; FROM w", 6, "view w is made of o.t"),
    ] {
        let (code, stdout, stderr) = asked(&shell, sql);
        assert_eq!((code, &*stdout), (exit, ""), "{sql}: {stderr}");
        assert!(stderr.contains(said), "{sql}: {stderr}");
    }
    let (code, _, stderr) = shell.sh("sty query own --no-files \"ATTACH 'other' AS o\"");
    assert!(code == 1 && stderr.contains("ATTACH 'other': this session reads and writes no files"));
}
