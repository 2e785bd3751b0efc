//! `sty ingest --select`: what is stored of the rows of an input.

use crate::shell::Shell;

const ROWS: &str = "id,flag,amount\n1,A,5\n2,b,-1\n3,C,7.5\n";
const QUERY: &str =
    "'SELECT id, lower(flag) AS flag, amount * 2 AS twice FROM input WHERE amount > 0'";

#[test]
fn every_format_is_selected_from_alike() {
    let shell = Shell::new();
    shell.file("a.csv", ROWS);
    let script = format!(
        "for to in parquet arrow jsonl; do sty query \"FROM 'a.csv'\" -o a.$to; done
         gzip -k a.csv; mkdir -p d/year=2015; cp a.csv d/year=2015/x.csv
         for from in a.csv a.csv.gz a.parquet a.arrow a.jsonl d - ; do
           rm -rf db; sty ingest db/t $from --select {QUERY} < a.csv 2> said || cat said
           grep -q '1 row not selected' said && sty query db 'FROM t'
         done"
    );
    let (code, stdout, stderr) = shell.sh(&script);
    let answer = "id,flag,twice\n1,a,10.0\n3,c,15.0\n";
    assert_eq!((code, stdout), (0, answer.repeat(7)), "{stderr}");
}

#[test]
fn a_list_of_expressions_goes_with_the_options_of_a_load() {
    let shell = Shell::new();
    shell.file("a.csv", ROWS);
    let script = "mkdir -p d/year=2015; cp a.csv d/year=2015/x.csv
         sty ingest -q db/t d --select '* EXCLUDE (flag)' --filename-column file \\
           --sort-by 'id DESC' --partition-by 'id % 2 AS odd' --schema 'amount:decimal(9,2)'
         sty query db 'FROM t'; sty partitions db/t | cut -d, -f1";
    let (code, stdout, stderr) = shell.sh(script);
    let file = "d/year=2015/x.csv";
    let answer = format!(
        "id,amount,year,file\n2,-1.00,2015,{file}\n3,7.50,2015,{file}\n1,5.00,2015,{file}\n\
         partition\nodd=0\nodd=1\n"
    );
    assert_eq!((code, stdout), (0, answer), "{stderr}");
}

#[test]
fn rows_and_files_are_accounted_for() {
    let shell = Shell::new();
    shell.file("a.csv", "id,v\n1,x\n2,y\nthree,z\n4,w\n");
    let load = "sty ingest db/t a.csv --select 'SELECT v FROM input WHERE id > 1'";
    let script = format!(
        "{load} --schema id:int64 --rejects bad.csv --report json --dry-run=csv | cut -d, -f1,3,9
         {load} --schema id:int64 --rejects bad.csv --report json
         cat bad.csv; {load}; echo $?; {load} --if-loaded skip; echo $?
         printf '9,u\\n0,o\\n' >> a.csv; {load} --if-loaded new-rows --schema id:int64
         sty query db 'FROM t'"
    );
    let (_, stdout, stderr) = shell.sh(&script);
    let (forecast, rest) = stdout.split_at(stdout.find('{').unwrap());
    assert_eq!(forecast, "action,name,note\nload,a.csv,\ncolumn,v,utf8\n", "{stderr}");
    let (report, rest) = rest.split_once('\n').unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let rows = ["rows_read", "rows_stored", "rows_left_out", "rows_rejected"];
    assert_eq!(rows.map(|key| report[key].as_u64().unwrap()), [4, 2, 1, 1], "{report}");
    assert_eq!(report["inputs"][0]["rows_left_out"], 1);
    let rejects =
        "file,line,column,reason,raw\na.csv,4,id,'three' is not of type int64,\"three,z\"\n";
    assert_eq!(rest, format!("{rejects}1\n0\nv\ny\nw\nu\n"), "{stderr}");
    assert!(stderr.contains("4 rows read = 2 stored + 1 not selected + 1 rejected"), "{stderr}");
    assert!(stderr.contains("a.csv was loaded before"), "{stderr}");
}

#[test]
fn types_are_the_same_from_the_first_row_to_the_last() {
    let shell = Shell::new();
    let whole: String = (0..200_000).map(|i| format!("{{\"a\":{i}}}\n")).collect();
    shell.file("a.jsonl", format!("{whole}{{\"a\":1.5,\"c\":7}}\n"));
    // Division of whole numbers would be another one.
    let (code, _, stderr) = shell.sh("sty ingest db/t a.jsonl --select 'a / 2 AS half, a'");
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("the load began anew, with a as float64"), "{stderr}");
    let asked = "sty query db 'SELECT half FROM t WHERE a = 3 OR a = 1.5 ORDER BY 1'";
    assert_eq!(shell.sh(asked).1, "half\n0.75\n1.5\n");
    let (code, _, stderr) = shell.sh("sty ingest db/all a.jsonl --select '*'");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        shell.sh("sty query db 'SELECT sum(c), count(*) FROM \"all\"'").1.lines().last(),
        Some("7,200001")
    );
    let (code, _, stderr) = shell.sh("sty ingest db/p - --select 'a / 2 AS half' < a.jsonl");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("--select needs one type for all; name it with --schema 'a:float64'"));
    assert!(!shell.sh("sty tables db").1.contains("p,"), "nothing was stored");
}

#[test]
fn what_takes_more_than_one_row_is_refused() {
    let shell = Shell::new();
    shell.file("a.csv", ROWS);
    for query in [
        "SELECT count(*) FROM input",
        "sum(id)",
        "SELECT DISTINCT flag FROM input",
        "SELECT * FROM input ORDER BY id",
        "SELECT * FROM input LIMIT 2",
        "SELECT * FROM (SELECT * FROM input LIMIT 0)",
        "SELECT * FROM input OFFSET 1",
        "SELECT * FROM input JOIN input b USING (id)",
        "SELECT id FROM input WHERE id > (SELECT 1)",
        "SELECT row_number() OVER () AS n FROM input",
        "SELECT unnest([1, 2]) AS u FROM input",
        "FROM input UNION ALL FROM input",
    ] {
        let (code, _, stderr) = shell.sh(&format!("sty ingest db/t a.csv --select '{query}'"));
        assert_eq!(code, 1, "{query}: {stderr}");
        assert!(stderr.contains("it takes each row of input by itself"), "{query}: {stderr}");
    }
    for (query, code, said) in [
        ("SELECT nope FROM input", 1, "a.csv: --select: no column nope; there are: id, flag"),
        ("SELECT * FROM trips", 1, "the rows that are loaded are the table input"),
        ("FROM 'a.csv'", 1, "no files outside"),
        ("flag::int AS n", 1, "Cannot cast string 'A'"),
        ("[id] AS l", 1, "which a table cannot hold"),
        ("id AS a, flag AS a", 1, "two columns named 'a'"),
        ("DELETE FROM input", 1, "--select: no column delete"),
        ("id; id", 2, "--select: Expected"),
        ("", 2, "--select: Expected"),
    ] {
        let line = format!("sty ingest db/t a.csv --select \"{query}\"");
        let (found, _, stderr) = shell.sh(&line);
        assert!(found == code && stderr.contains(said), "{query}: {found} {stderr}");
    }
    assert_eq!(shell.sh("ls db 2> /dev/null").1, "");
}

/// The part of a load that is stored fixes selection and types: `a / 2` of whole numbers is another
/// division.
#[test]
fn a_stopped_load_goes_on_as_it_began() {
    let shell = Shell::new();
    let row = |i: usize| match i {
        30_000 => format!("{i},1.5,{:90}\n", 'x'),
        _ => format!("{i},{},{:90}\n", i % 10, 'x'),
    };
    let rows: String = (0..60_000).map(row).collect();
    shell.file("a.csv", format!("i,a,pad\n{rows}x,1,\n"));
    let load = "sty ingest db/t a.csv --commit-every 20000 --on-error skip --max-errors";
    let same = "--select 'i, a/2 AS h'";
    let script = format!("{load} 0 --schema i:int64 {same}");
    let (code, _, stderr) = shell.sh(&script);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("began anew, with a as float64"), "{stderr}");
    let stored = "sty query db 'SELECT count(*) BETWEEN 1 AND 59999 AS part FROM t'";
    assert_eq!(shell.sh(stored).1, "part\ntrue\n");
    for (options, said) in [
        (same, "columns of other types than they have now (a:int64, i:int64); name the types"),
        ("--select 'i*10 AS i'", "which had another --select"),
        ("", "which had a --select"),
    ] {
        let (code, _, stderr) = shell.sh(&format!("{load} 1 --schema i:int64 {options}"));
        assert!(code == 1 && stderr.contains(said), "{options}: {code} {stderr}");
    }
    let (code, _, stderr) = shell.sh(&format!("{load} 1 --schema i:int64,a:float64 {same}"));
    assert_eq!(code, 0, "{stderr}");
    let sum = shell.sh("sty query db 'SELECT sum(h), count(*) FROM t'").1;
    assert_eq!(sum.lines().last(), Some("135000.75,60000"));
}

#[test]
fn rows_that_were_added_have_the_types_of_the_first() {
    let shell = Shell::new();
    shell.file("a.csv", "id,a\n1,1.5\n2,3\n");
    shell.file("a.jsonl", "{\"id\":1,\"a\":1.5}\n{\"id\":2,\"a\":3}\n");
    shell.file("x.csv", "id,a\n1,x7\n2,007\n");
    shell.file("b.csv", "id,a\n1,1\n2,3\n");
    let more = "--if-loaded new-rows";
    let script = format!(
        "for f in a.csv a.jsonl; do
           rm -rf db; sty ingest -q db/t $f --select 'id, a/2 AS h'
           case $f in *.csv) echo 3,3;; *) echo '{{\"id\":3,\"a\":3}}';; esac >> $f
           sty ingest -q db/t $f --select 'id, a/2 AS h' {more} && sty query db 'FROM t'
         done
         sty ingest -q db/x x.csv --select a; echo 3,3.50 >> x.csv
         sty ingest -q db/x x.csv --select a {more} && sty query db 'FROM x'"
    );
    let (code, stdout, stderr) = shell.sh(&script);
    let halves = "id,h\n1,0.75\n2,1.5\n3,1.5\n";
    assert_eq!((code, stdout), (0, format!("{halves}{halves}a\nx7\n007\n3.50\n")), "{stderr}");
    let load = "sty ingest -q db/b b.csv --select 'id, a/2 AS h'";
    let script = format!("{load}; echo 3,1.5 >> b.csv; {load} {more}");
    let (code, _, stderr) = shell.sh(&script);
    assert!(code == 1 && stderr.contains("--schema 'a:float64,id:int64'"), "{stderr}");
    let script = format!("{load} {more} --schema 'a:float64,id:int64'; sty query db 'FROM b'");
    let (_, stdout, stderr) = shell.sh(&script);
    assert_eq!(stdout, "id,h\n1,0.0\n2,1.0\n3,0.75\n", "{stderr}");
}

#[test]
fn all_inputs_have_the_same_columns() {
    let shell = Shell::new();
    shell.file("1.jsonl", "{\"a\":3}\n{\"a\":5}\n");
    shell.file("2.jsonl", "{\"a\":3.0,\"b\":7}\n{\"a\":5.5,\"b\":8}\n");
    let script = "for to in parquet arrow csv jsonl; do
           for n in 1 2; do test -f $n.$to || sty query \"FROM '$n.jsonl'\" -o $n.$to; done
           sty ingest -q db/$to 1.$to 2.$to --select 'a/2 AS h, b' && sty query db \"FROM $to\"
         done
         sty ingest -q db/mixed 1.parquet 2.csv --select 'a/2 AS h, b'; sty query db 'FROM mixed'";
    let (code, stdout, stderr) = shell.sh(script);
    let answer = "h,b\n1.5,\n2.5,\n1.5,7\n2.75,8\n";
    assert_eq!((code, stdout), (0, answer.repeat(5)), "{stderr}");
    shell.file("t.csv", "a,c\nx,1\n");
    let script = "sty query \"FROM 't.csv'\" -o t.parquet
         sty ingest db/t 1.parquet t.parquet --select a; echo $?
         sty ingest -q db/t 1.parquet t.parquet --select c && sty query db 'FROM t'";
    let (_, stdout, stderr) = shell.sh(script);
    assert_eq!(stdout, "1\nc\n\n\n1\n", "{stderr}");
    assert!(stderr.contains("column 'a' is utf8 in t.parquet and int64 before it"), "{stderr}");
}

#[test]
fn columns_that_come_later_are_taken_if_the_selection_reads_them() {
    let shell = Shell::new();
    let rows = "{\"c1\":1,\"t\":\"x\"}\n".repeat(60_000);
    shell.file("a.jsonl", format!("{rows}{{\"c1\":5,\"c2\":-77,\"t\":\"y\"}}\n"));
    for (select, note, last) in [
        ("COLUMNS('^c')", "with c2 as int64", "5,-77"),
        ("SELECT c1 FROM input WHERE COLUMNS(* EXCLUDE t) >= 0", "with c2 as int64", ""),
        ("c1", "60,001 rows", "5"),
    ] {
        let (code, _, stderr) = shell.sh(&format!("sty ingest db/t a.jsonl --select \"{select}\""));
        assert!(code == 0 && stderr.contains(note), "{select}: {stderr}");
        let (_, stdout, _) = shell.sh("sty query db 'FROM t WHERE c1 = 5'; rm -rf db");
        assert_eq!(stdout.lines().nth(1).unwrap_or_default(), last, "{select}");
    }
    let rows: String = (0..60_000).map(|i| format!("{i},\n")).collect();
    shell.file("b.csv", format!("i,n\n{rows}7,8\n9,ten\n"));
    let script = "cat b.csv | sty ingest db/pipe - --select i; sty ingest db/file b.csv --select i
         for t in pipe file; do sty query db \"SELECT count(*) AS n FROM $t\"; done";
    let (code, stdout, stderr) = shell.sh(script);
    assert_eq!((code, stdout), (0, "n\n60002\nn\n60002\n".to_owned()), "{stderr}");
    assert!(!stderr.contains("anew"), "{stderr}");
}

#[test]
fn columns_of_the_file_come_before_those_of_its_path() {
    let shell = Shell::new();
    shell.file("a.csv", "id,v\nx,1\n");
    let script = "mkdir id=9; cp a.csv id=9/
         sty ingest -q db/t id=9 --select 'id, v' && sty query db 'FROM t'
         sty ingest -q db/u id=9 --select '*' --filename-column v && sty query db 'FROM u'";
    let (code, stdout, stderr) = shell.sh(script);
    assert_eq!((code, stdout), (0, "id,v\nx,1\n".repeat(2)), "{stderr}");
}

#[test]
fn lists_and_structs_may_be_left_out_or_taken_apart() {
    let shell = Shell::new();
    let script = "for to in parquet arrow; do
           sty query \"SELECT 1 AS i, [4, 5] AS l, named_struct('x', 6) AS s\" -o a.$to
           for select in '* EXCLUDE (l, s)' 'l[1] AS l1, s.x AS x' \"'c' AS c\"; do
             rm -rf db; sty ingest -q db/t a.$to --select \"$select\" && sty query db 'FROM t'
             rm -rf db
             cat a.$to | sty ingest -q db/t - --select \"$select\" && sty query db 'FROM t'
           done
         done";
    let (code, stdout, stderr) = shell.sh(script);
    let answers = ["i\n1\n", "l1,x\n4,6\n", "c\nc\n"].map(|answer| answer.repeat(2)).concat();
    assert_eq!((code, stdout), (0, answers.repeat(2)), "{stderr}");
    let (code, _, stderr) = shell.sh("sty ingest db/l a.parquet --select 'i, l'");
    assert!(code == 1 && stderr.contains("column 'l' has type List"), "{stderr}");
}

#[test]
fn a_list_may_begin_with_anything() {
    let shell = Shell::new();
    shell.file("a.csv", "id\n1\n");
    for (select, answer) in [
        ("from_unixtime(id) AS x", "x\n1970-01-01 00:00:01\n"),
        ("'from' AS x, id", "x,id\nfrom,1\n"),
        ("/* select */ id", "id\n1\n"),
        ("/* x */ SELECT id FROM input", "id\n1\n"),
        ("id;", "id\n1\n"),
        ("SELECT id FROM input; -- all", "id\n1\n"),
        ("-id AS neg", "neg\n-1\n"),
    ] {
        let script =
            format!("sty ingest -q db/t a.csv --select \"{select}\" && sty query db 'FROM t'");
        let (code, stdout, stderr) = shell.sh(&format!("rm -rf db; {script}"));
        assert_eq!((code, stdout.as_str()), (0, answer), "{select}: {stderr}");
    }
    shell.file("b.csv", "id\nx\n");
    let (_, _, stderr) = shell.sh("sty ingest db/t b.csv --select 'id AS neg'");
    assert!(stderr.contains("in b.csv, and no type holds both without loss; cast it in --select"));
}

#[test]
fn a_list_may_have_its_from_and_words_of_that_name() {
    let shell = Shell::new();
    shell.file("a.csv", ROWS);
    for select in [
        "id, amount FROM input WHERE amount > 6",
        "id, amount, substring(flag FROM 1) AS f, id IS DISTINCT FROM 2 AS d FROM input WHERE id = 3",
    ] {
        shell.sh(&format!("sty ingest -q db/t a.csv --select '{select}'"));
        assert_eq!(shell.stdout_of("query db", "SELECT id, amount FROM t"), "id,amount\n3,7.5\n");
        shell.stdout_of("query db", "DROP TABLE t");
    }
    shell.sh("sty ingest -q db/t a.csv --select 'id IS DISTINCT FROM 2 AS other'");
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM t WHERE other"), "n\n2\n");
}
