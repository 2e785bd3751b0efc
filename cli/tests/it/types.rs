//! Columns of UUIDs and of intervals, from files into tables and out again.

use std::sync::Arc;

use super::shell::Shell;

const A: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
const B: &str = "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12";

const SPELLED: &str = "id,n\nA0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,1\n,2\n\
                       \"{b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12}\",3\n\
                       a0eebc999c0b4ef8bb6d6bb9bd380a11,4\n\
                       urn:uuid:b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12,5\n";

/// The table as CSV.
fn rows(shell: &Shell, table: &str) -> String {
    shell.sh(&format!("sty query db 'SELECT * FROM {table} ORDER BY n'")).1
}

fn expected() -> String {
    format!("id,n\n{A},1\n,2\n{B},3\n{A},4\n{B},5\n")
}

/// The type of the first column.
fn first_type(shell: &Shell, table: &str) -> String {
    let schema = shell.stdout(&format!("schema db/{table}"));
    schema.lines().nth(1).and_then(|line| line.split(',').nth(1)).unwrap_or_default().to_owned()
}

#[test]
fn uuids_come_in_any_spelling_and_have_one() {
    let shell = Shell::new();
    shell.file("a.csv", SPELLED);
    shell.stdout("ingest db/t a.csv --schema id:uuid");
    assert_eq!(first_type(&shell, "t"), "uuid");
    assert_eq!(rows(&shell, "t"), expected());
    // Without the type, they are texts as they are written.
    shell.stdout("ingest db/plain a.csv");
    assert_eq!(first_type(&shell, "plain"), "utf8");
    assert!(rows(&shell, "plain").contains("urn:uuid:"));
    let json = format!("{{\"id\": \"{}\", \"n\": 1}}\n{{\"n\": 2}}\n", A.to_uppercase());
    shell.file("a.jsonl", json);
    shell.stdout("ingest db/j a.jsonl --schema id:uuid");
    assert_eq!(
        (first_type(&shell, "j"), rows(&shell, "j")),
        ("uuid".into(), format!("id,n\n{A},1\n,2\n"))
    );
    // A table of UUIDs takes more of them from any format, without the type.
    shell.stdout("ingest db/t a.jsonl");
    shell.stdout("ingest db/t --if-loaded again a.csv");
    assert_eq!(first_type(&shell, "t"), "uuid");
    assert_eq!(rows(&shell, "t").lines().count(), 13);
    assert_eq!(
        shell
            .sh(&format!(
                "sty query db \"SELECT count(*) AS n FROM t WHERE id = '{}'\"",
                A.to_uppercase()
            ))
            .1,
        "n\n5\n"
    );
}

#[test]
fn what_is_no_uuid_is_told_with_its_line_or_rejected() {
    let shell = Shell::new();
    shell.file("bad.csv", format!("id,n\n{A},1\nno uuid,2\n{B},3\n"));
    let row = |id: &str, n: u32| format!("{{\"id\": {id}, \"n\": {n}}}\n");
    let rows = [row(&format!("\"{A}\""), 1), row("\"no uuid\"", 2), row("5", 3)];
    shell.file("bad.jsonl", rows.concat());
    for (table, options) in [("new", " --schema id:uuid"), ("old", "")] {
        shell.sh("sty query db 'CREATE TABLE IF NOT EXISTS old (id UUID, n BIGINT)'");
        for file in ["bad.csv", "bad.jsonl"] {
            let line = format!("ingest db/{table} {file}{options}");
            let (code, _, stderr) = shell.run(&line);
            assert_eq!(code, 1, "{line}: {stderr}");
            for part in
                [file, "no uuid", "uuid", "id", if file == "bad.csv" { "line 3" } else { "line 2" }]
            {
                assert!(stderr.contains(part), "{line}: {stderr}");
            }
        }
        let (code, _, stderr) =
            shell.run(&format!("ingest db/{table} bad.csv{options} --on-error skip"));
        assert_eq!(code, 0, "{stderr}");
        assert!(stderr.contains("1 row rejected") || stderr.contains("rejected"), "{stderr}");
        assert_eq!(self::rows(&shell, table), format!("id,n\n{A},1\n{B},3\n"));
        shell.run(&format!("ingest db/{table} bad.jsonl{options} --on-error skip"));
        assert_eq!(self::rows(&shell, table), format!("id,n\n{A},1\n{A},1\n{B},3\n"));
    }
}

#[test]
fn uuids_go_out_and_in_again() {
    let shell = Shell::new();
    shell.file("a.csv", SPELLED);
    shell.stdout("ingest db/t a.csv --schema id:uuid");
    for format in ["parquet", "arrow"] {
        shell.stdout(&format!("export -q db/t -o t.{format}"));
        shell.stdout(&format!("ingest db/{format} t.{format}"));
        assert_eq!(rows(&shell, format), expected(), "{format}");
        assert_eq!(first_type(&shell, format), "uuid", "{format}");
        let answer = shell.sh(&format!("sty query db \"SELECT * FROM 't.{format}' ORDER BY n\"")).1;
        assert_eq!(answer, expected());
    }
    for format in ["csv", "jsonl", "tsv"] {
        shell.stdout(&format!("export -q db/t -o t.{format}"));
        shell.stdout(&format!("ingest db/{format} t.{format} --schema id:uuid"));
        assert_eq!(rows(&shell, format), expected(), "{format}");
        assert_eq!(first_type(&shell, format), "uuid", "{format}");
    }
}

#[test]
fn uuids_are_selected_sorted_and_put_into_partitions() {
    let shell = Shell::new();
    shell.file("a.csv", SPELLED);
    let (code, _, stderr) = shell.sh("sty ingest db/s a.csv --schema id:uuid --select 'id, n'");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(first_type(&shell, "s"), "uuid");
    let (code, _, stderr) = shell.sh("sty ingest db/c a.csv --select 'id::uuid AS id, n'");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!((first_type(&shell, "c"), rows(&shell, "c")), ("uuid".into(), expected()));
    shell.stdout("ingest db/p a.csv --schema id:uuid --partition-by id --sort-by id");
    assert_eq!((first_type(&shell, "p"), rows(&shell, "p")), ("uuid".into(), expected()));
    let found =
        shell.sh(&format!("sty query db \"SELECT n FROM p WHERE id = '{{{A}}}' ORDER BY n\"")).1;
    assert_eq!(found, "n\n1\n4\n");
    shell.stdout("ingest db/p --if-loaded again a.csv");
    for command in ["compact db/p", "verify db/p"] {
        let (code, _, stderr) = shell.run(command);
        assert_eq!(code, 0, "{command}: {stderr}");
    }
    assert_eq!(first_type(&shell, "p"), "uuid");
    shell.sh("mkdir id=A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11");
    shell.file("id=A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11/a.csv", "n\n1\n");
    shell.stdout("ingest db/path id=A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11 --schema id:uuid");
    assert_eq!(shell.sh("sty query db 'SELECT id, n FROM path'").1, format!("id,n\n{A},1\n"));
    assert!(shell.stdout("schema db/path").contains("id,uuid,"));
}

#[test]
fn columns_become_uuids_and_texts() {
    let shell = Shell::new();
    shell.file("a.csv", SPELLED);
    shell.stdout("ingest db/t a.csv");
    shell.stdout("alter db/t cast id:uuid");
    assert_eq!((first_type(&shell, "t"), rows(&shell, "t")), ("uuid".into(), expected()));
    shell.stdout("alter db/t widen id:utf8");
    assert_eq!((first_type(&shell, "t"), rows(&shell, "t")), ("utf8".into(), expected()));
    assert_eq!(
        shell
            .sh(&format!(
                "sty query db \"SELECT n FROM t WHERE id > '{A}' AND id LIKE 'b%' ORDER BY n\""
            ))
            .1,
        "n\n3\n5\n"
    );
    assert_eq!(shell.run("verify db").0, 0);
    shell.sh("sty query db \"INSERT INTO t VALUES ('no uuid', 6)\"");
    let (code, _, stderr) = shell.run("alter db/t cast id:uuid");
    assert!(code == 1 && stderr.contains("'no uuid' is no UUID; nothing was changed"), "{stderr}");
    shell.stdout("compact db/t");
    assert_eq!(rows(&shell, "t"), expected() + "no uuid,6\n");
}

const SPANS: &str = "d,n\n1 mons,1\n30 days,2\n,3\n\
                     1 mons -2 days 3 hours -4 mins 5.000000006 secs,4\n\
                     2 days 10:30:00.5,5\n-0.000000001 secs,6\n";

/// [`SPANS`] as they are printed.
fn spans() -> String {
    "d,n\n1 mons,1\n30 days,2\n,3\n1 mons -2 days 2 hours 56 mins 5.000000006 secs,4\n\
     2 days 10 hours 30 mins 0.500000000 secs,5\n-0.000000001 secs,6\n"
        .to_owned()
}

#[test]
fn intervals_come_from_texts_and_go_out_and_in_again() {
    let shell = Shell::new();
    shell.file("a.csv", SPANS);
    shell.stdout("ingest db/t a.csv --schema d:interval");
    assert_eq!((first_type(&shell, "t"), rows(&shell, "t")), ("interval".into(), spans()));
    shell.stdout("ingest db/plain a.csv");
    assert_eq!(first_type(&shell, "plain"), "utf8");
    for format in ["parquet", "arrow"] {
        shell.stdout(&format!("export -q db/t -o t.{format}"));
        shell.stdout(&format!("ingest db/{format} t.{format}"));
        assert_eq!(rows(&shell, format), spans(), "{format}");
        assert_eq!(first_type(&shell, format), "interval", "{format}");
        let answer = shell.sh(&format!("sty query db \"SELECT * FROM 't.{format}' ORDER BY n\"")).1;
        assert_eq!(answer, spans());
    }
    for format in ["csv", "jsonl", "tsv"] {
        shell.stdout(&format!("export -q db/t -o t.{format}"));
        shell.stdout(&format!("ingest db/{format} t.{format} --schema d:interval"));
        assert_eq!(rows(&shell, format), spans(), "{format}");
    }
    for format in ["csv", "jsonl", "tsv"] {
        shell.stdout(&format!("ingest db/t --if-loaded again t.{format}"));
    }
    assert_eq!(first_type(&shell, "t"), "interval");
    assert_eq!(rows(&shell, "t").lines().count(), 25);
    shell.stdout("alter db/plain cast d:interval");
    assert_eq!((first_type(&shell, "plain"), rows(&shell, "plain")), ("interval".into(), spans()));
    shell.stdout("compact db/t");
    assert_eq!(shell.run("verify db").0, 0);
    assert_eq!(shell.sh("sty query db 'SELECT count(DISTINCT d) AS n FROM t'").1, "n\n5\n");
    assert!(shell.stdout("inspect db/t").contains("mons"));
}

#[test]
fn what_is_no_interval_is_told_with_its_line_or_rejected() {
    let shell = Shell::new();
    shell.file("bad.csv", "d,n\n1 day,1\nsoon,2\n5,3\n");
    let (code, _, stderr) = shell.run("ingest db/t bad.csv --schema d:interval");
    assert!(code == 1 && stderr.contains("line 3") && stderr.contains("soon"), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/t bad.csv --schema d:interval --on-error skip");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(rows(&shell, "t"), "d,n\n1 days,1\n");
    let (code, _, stderr) = shell.run("ingest db/p bad.csv --schema n:int64 --partition-by d");
    assert_eq!(code, 0, "{stderr}");
    shell.file("good.csv", SPANS);
    let (code, _, stderr) = shell.run("ingest db/q good.csv --schema d:interval --partition-by d");
    assert!(code != 0 && stderr.contains("cannot be a partition key"), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/s good.csv --schema d:interval --sort-by d");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(rows(&shell, "s"), spans());
    let found =
        shell.sh("sty query db \"SELECT n FROM s WHERE d = INTERVAL '720 hours' ORDER BY n\"").1;
    assert_eq!(found, "n\n1\n2\n");
    assert_eq!(shell.run("verify db").0, 0);
    let selected = "sty ingest db/sel good.csv --schema d:interval --select 'd, d * 2 AS twice, n'";
    let (code, _, stderr) = shell.sh(selected);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(first_type(&shell, "sel"), "interval");
}

/// The reader of queries leaves the months of such columns out.
#[test]
fn a_query_over_intervals_of_parquet_is_refused_and_a_load_is_not() {
    use parquet::data_type::{ByteArray, FixedLenByteArray, FixedLenByteArrayType};
    use parquet::file::writer::SerializedFileWriter;

    let shell = Shell::new();
    let message = "message m { required fixed_len_byte_array(12) d (INTERVAL); }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let value = [1u32, 2, 0].map(u32::to_le_bytes).concat();
    let value = FixedLenByteArray::from(ByteArray::from(value));
    column.typed::<FixedLenByteArrayType>().write_batch(&[value], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    shell.file("i.parquet", bytes);
    let (code, _, stderr) = shell.pipe("query", "FROM 'i.parquet'");
    assert!(code == 1 && stderr.contains("`sty ingest` stores it whole"), "{code} {stderr}");
    shell.stdout("ingest -q db/t i.parquet");
    assert_eq!(shell.stdout_of("query db", "FROM t"), "d\n1 mons 2 days\n");
}
