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
        ("DELETE FROM input", 2, "--select: Expected"),
        ("id; id", 2, "--select: Expected"),
        ("", 2, "--select: Expected"),
    ] {
        let line = format!("sty ingest db/t a.csv --select \"{query}\"");
        let (found, _, stderr) = shell.sh(&line);
        assert!(found == code && stderr.contains(said), "{query}: {found} {stderr}");
    }
    assert_eq!(shell.sh("ls db 2> /dev/null").1, "");
}
