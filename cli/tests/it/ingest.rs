//! `sty ingest`: rows from files and pipes, the summary, refused input and the exit codes.

use std::io::{Seek as _, SeekFrom, Write as _};

use super::shell::Shell;

const TRIPS: &str = "id,fare,day\n1,10.5,2020-01-01\n2,,2020-01-02\n";

#[test]
fn rows_come_from_files_patterns_and_stdin_and_the_summary_goes_to_stderr() {
    let shell = Shell::new();
    shell.file("a.csv", TRIPS).file("b-1.csv", TRIPS).file("b-2.csv", "day,id\n2020-02-01,3\n");
    for (line, rows) in [("a.csv", "2 rows"), ("b-?.csv", "3 rows")] {
        let (code, stdout, stderr) = shell.run(&format!("ingest db/trips {line}"));
        assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
        for part in [rows, " in, ", " stored, ratio ", "rows/s"] {
            assert!(stderr.contains(part), "{stderr}");
        }
    }
    for line in ["ingest db/trips -", "ingest db/trips"] {
        let (code, stdout, stderr) = shell.pipe(line, TRIPS);
        assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    }
    assert_eq!(
        shell.run("ingest -q db/trips --if-loaded again a.csv"),
        (0, String::new(), String::new())
    );
    let tables = shell.stdout("tables db");
    assert!(
        tables.starts_with("table,rows,columns,segments,bytes,state\ntrips,11,3,5,"),
        "{tables}"
    );
}

#[test]
fn guesses_and_counts_of_one_are_told_on_stderr() {
    let shell = Shell::new();
    shell.file("people.csv", "alice,berlin\nbob,paris\n").file("prices.csv", "id;price\n1;2,5\n");
    let header = "people.csv: the first row was taken for column names (alice, berlin); \
                  say --no-header if it is data\n";
    let (code, stdout, stderr) = shell.run("ingest db/people people.csv");
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.starts_with(header) && stderr.contains("\n1 row: "), "{stderr}");
    // There is no note if the table knows these names, or if the user has decided.
    for line in
        ["ingest db/people --if-loaded again people.csv", "ingest db/told --no-header people.csv"]
    {
        let (code, _, stderr) = shell.run(line);
        assert!(code == 0 && !stderr.contains("--no-header"), "{stderr}");
    }
    let (code, _, stderr) = shell.run("ingest db/prices prices.csv");
    assert!(
        code == 0 && stderr.starts_with("prices.csv: ") && stderr.contains("';' was taken"),
        "{stderr}"
    );
    assert_eq!(shell.sh("sty query db \"SELECT * FROM 'prices.csv'\"").1, "id,price\n1,\"2,5\"\n");
    assert_eq!(shell.run("ingest -q db/quiet prices.csv"), (0, String::new(), String::new()));
    let (code, _, stderr) = shell.run("ingest db/prices people.csv");
    assert_eq!(code, 1);
    assert!(stderr.contains("(alice, berlin) are none of the table's (id, price)"), "{stderr}");
}

#[test]
fn dialects_and_words_for_null_by_options() {
    let shell = Shell::new();
    shell.file("flights.csv", "id,delay,state\n1,NA,NA\n2,5,TX\n");
    let (code, _, stderr) = shell.run("ingest db/flights flights.csv");
    let note = "flights.csv: NA is null in delay; say --null NA to have it so in all columns, or \
                --null '' to keep it as text\n";
    assert!(code == 0 && stderr.starts_with(note), "{stderr}");
    let answer = shell.sh("sty query db 'SELECT * FROM flights'").1;
    assert_eq!(answer, "id,delay,state\n1,,NA\n2,5,TX\n");
    let (code, stdout, stderr) = shell.sh("sty query db \"SELECT delay FROM 'flights.csv'\"");
    assert_eq!((code, stdout.as_str()), (0, "delay\n\n5\n"));
    assert!(stderr.contains("NA is null in delay; in read_csv, say null => 'NA'"), "{stderr}");
    shell.file(
        "rows.csv",
        r#"# exported
id; name; price; day; moment
1; "a; \"b\""; 1.234,5; 1/2/2020; 1500

"#,
    );
    let line = r"ingest db/sales rows.csv --comment # --delimiter ; --escape \ --skip-initial-space
                 --decimal , --thousands . --date-order mdy --schema moment:timestamp(epoch_ms)";
    let (code, _, stderr) = shell.run(line);
    assert!(code == 0 && stderr.starts_with("1 empty line left out\n"), "{stderr}");
    let sql = "SELECT id, name, price, day, moment = '1970-01-01 00:00:01.5' AS fits FROM sales";
    assert_eq!(
        shell.sh(&format!("sty query db \"{sql}\"")).1,
        "id,name,price,day,fits\n1,\"a; \"\"b\"\"\",1234.5,2020-01-02,true\n"
    );
    for bad in ["--comment ,", "--decimal x", "--thousands .", "--date-order ymd"] {
        assert_ne!(shell.run(&format!("ingest db/bad rows.csv --delimiter , {bad}")).0, 0, "{bad}");
    }
}

#[test]
fn tables_and_schema_as_csv_and_json() {
    let shell = Shell::new();
    shell.file("a.csv", TRIPS);
    shell.stdout("ingest db/trips a.csv --schema fare:decimal(9,2)");
    assert_eq!(
        shell.stdout("schema db/trips"),
        "column,type,id,nullable\nid,int64,0,true\nfare,\"decimal(9,2)\",1,true\nday,date,2,true\n"
    );
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(&shell.stdout(line)).unwrap();
    let schema = json("schema db/trips --format json");
    assert_eq!(
        schema[2],
        serde_json::json!({"column": "day", "type": "date", "id": 2, "nullable": true})
    );
    let tables = json("tables db --format json");
    assert_eq!(tables[0]["table"], "trips");
    assert_eq!((&tables[0]["rows"], &tables[0]["columns"]), (&2.into(), &3.into()));
}

#[test]
fn a_wrong_command_line_is_2() {
    let shell = Shell::new();
    shell.file("a.csv", TRIPS);
    for line in [
        "ingest",
        "ingest trips a.csv",
        "ingest db/.hid a.csv",
        "ingest db/a\\b a.csv",
        "ingest db/trips --schema id a.csv",
        "ingest db/trips --schema id:int7 a.csv",
        "ingest db/trips --delimiter ab a.csv",
        "ingest db/trips --profile tiny a.csv",
        "ingest db/trips --threads 0 a.csv",
        "ingest db/trips --on-error reject a.csv",
        "ingest db/trips --on-error skip --rejects bad.csv a.csv",
        "ingest db/trips --on-error fail --max-errors 3 a.csv",
        "ingest db/trips --max-errors 3 a.csv",
        "ingest db/trips --rejects - a.csv",
        "ingest db/trips --rejects a.csv a.csv",
        "ingest db/trips --force a.csv",
        "ingest db/trips --report yaml a.csv",
        "ingest db/trips - -",
    ] {
        let (code, stdout, stderr) = shell.run(line);
        assert_eq!((code, stdout.as_str()), (2, ""), "{line}: {stderr}");
    }
    assert!(!shell.path("db").exists());
}

#[test]
fn what_is_not_there_is_6() {
    let shell = Shell::new();
    for (line, named) in [
        ("ingest db/trips missing.csv", "missing.csv"),
        ("ingest db/trips none-*.csv", "none-*.csv"),
        ("tables db", "db"),
        ("schema db/trips", "trips"),
        ("verify db/trips", "db/trips"),
    ] {
        let (code, stdout, stderr) = shell.run(line);
        assert_eq!((code, stdout.as_str()), (6, ""), "{line}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(named), "{line}: {stderr}");
    }
    assert!(!shell.path("db").exists());
}

#[test]
fn a_bad_row_is_1_and_names_its_place() {
    let shell = Shell::new();
    shell.file("bad.csv", "id,fare\n1,2\nx,3\n").file("ragged.csv", "id,fare\n1,2\n1,2,3\n");
    let (code, stdout, stderr) = shell.run("ingest db/t bad.csv --schema id:int64");
    assert_eq!((code, stdout.as_str()), (1, ""));
    for part in ["bad.csv", "line 3", "column 1 ('id')", "'x'", "int64"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    let (code, _, stderr) = shell.run("ingest db/t ragged.csv --error-format json");
    assert_eq!(code, 1);
    let object: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!(object["code"], "invalid-input");
    assert!(
        object["message"].as_str().unwrap().contains("ragged.csv: line 3: 3 fields, expected 2")
    );
    assert!(!shell.path("db/t").exists(), "nothing is left of a table that never came to be");
}

const BAD: &str = "id,v\n1,a\nx,b\n3\n4,\"d\ne\"\n5,\"f\n6,g\n";

#[test]
fn rows_that_cannot_be_stored_are_left_out_counted_and_kept() {
    let shell = Shell::new();
    shell.file("a.csv", BAD);
    let typed = "--schema id:int64 a.csv";
    let (code, stdout, stderr) = shell.run(&format!("ingest db/skip --on-error skip {typed}"));
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    for part in [
        "a.csv: line 3, column 'id': 'x' is not of type int64\n",
        "a.csv: line 4: 1 field, expected 2\n",
        "a.csv: line 7: a quoted field does not end\n",
        "6 rows read = 3 stored + 3 rejected\n",
        "3 rows: ",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(shell.stdout_of("query db", "SELECT id FROM skip ORDER BY id"), "id\n1\n4\n6\n");

    let (code, stdout, stderr) = shell.run(&format!("ingest db/kept --rejects bad.csv {typed}"));
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    assert!(stderr.contains("6 rows read = 3 stored + 3 rejected, in bad.csv\n"), "{stderr}");
    let kept = "file,line,column,reason,raw\na.csv,3,id,'x' is not of type int64,\"x,b\"\n\
                a.csv,4,,\"1 field, expected 2\",3\n\
                a.csv,7,,a quoted field does not end,\"5,\"\"f\"\n";
    assert_eq!(std::fs::read_to_string(shell.path("bad.csv")).unwrap(), kept);
    let (code, _, stderr) = shell.run(&format!("ingest db/kept --rejects bad.csv {typed}"));
    assert!(
        code == 2 && stderr.contains("bad.csv: exists already") && stderr.contains("--force"),
        "{stderr}"
    );
    shell.stdout(&format!(
        "ingest db/kept --if-loaded again --on-error reject --rejects bad.csv --force {typed}"
    ));
    assert_eq!(std::fs::read_to_string(shell.path("bad.csv")).unwrap(), kept);

    let (code, _, stderr) = shell.run("ingest db/kept --on-error reject a.csv");
    assert!(code == 2 && stderr.contains("hint: name it with --rejects FILE"), "{stderr}");
    shell.file("good.csv", "id,v\n1,a\n");
    shell.stdout("ingest db/good --rejects none.csv good.csv");
    assert!(!shell.path("none.csv").exists(), "no rejected row, no file");
}

#[test]
fn more_rejected_rows_than_allowed_are_4_and_leave_nothing() {
    let shell = Shell::new();
    shell.file("a.csv", BAD);
    let line = "ingest db/t --rejects bad.csv --schema id:int64 a.csv --max-errors";
    let (code, stdout, stderr) = shell.run(&format!("{line} 2 --error-format json"));
    assert_eq!((code, stdout.as_str()), (4, ""), "{stderr}");
    let object: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    assert_eq!(object["code"], "rejected");
    let message = object["message"].as_str().unwrap();
    for part in ["3 rows rejected", "at most 2", "nothing was stored", "a.csv: line 3, column 'id'"]
    {
        assert!(message.contains(part), "{message}");
    }
    assert!(!shell.path("db/t").exists() && !shell.path("bad.csv").exists());
    assert_eq!(shell.run(&format!("{line} 3")).0, 0);
    assert!(shell.path("bad.csv").exists());
}

#[test]
fn a_report_for_programs_goes_to_stdout() {
    let shell = Shell::new();
    shell.file("a.csv", BAD).file("b.csv", "id,v\n7,h\n");
    let line = "ingest -q db/t --schema id:int64 --on-error skip --report json a.csv b.csv";
    let (code, stdout, stderr) = shell.run(line);
    assert_eq!((code, stderr.as_str(), stdout.lines().count()), (0, "", 1));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["table"], &report["generation"]), (&"t".into(), &1.into()));
    assert_eq!(
        (&report["rows_read"], &report["rows_stored"], &report["rows_rejected"]),
        (&7.into(), &4.into(), &3.into())
    );
    assert_eq!((&report["bytes_in"], &report["segments"]), (&(BAD.len() + 9).into(), &1.into()));
    for key in ["bytes_stored", "bytes_metadata"] {
        assert!(report[key].as_u64().unwrap() > 0, "{report}");
    }
    assert!(report["seconds"].as_f64().unwrap() > 0.0, "{report}");
    let inputs = serde_json::json!([
        {"name": "a.csv", "rows_read": 6, "rows_rejected": 3, "rows_left_out": 0,
         "blank_lines": 0, "bytes": BAD.len()},
        {"name": "b.csv", "rows_read": 1, "rows_rejected": 0, "rows_left_out": 0,
         "blank_lines": 0, "bytes": 9},
    ]);
    assert_eq!(report["inputs"], inputs);
}

#[test]
fn a_second_writer_is_refused() {
    let shell = Shell::new();
    shell.file("a.csv", TRIPS);
    shell.stdout("ingest db/trips a.csv");
    // The first writer waits for rows from a pipe when the second one starts.
    let (code, stdout, stderr) = shell.sh("mkfifo rows
         sty ingest -q db/trips rows & writer=$!
         exec 3> rows; cat a.csv >&3
         while ! grep -q . db/trips/LOCK; do sleep 0.01; done
         sty ingest db/trips a.csv; echo \"exit $?\"
         exec 3>&-; wait $writer; echo \"exit $?\"");
    assert_eq!((code, stdout.as_str()), (0, "exit 1\nexit 0\n"), "{stderr}");
    for part in ["'trips' is being written by another process", "pid", "try again"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert!(shell.stdout("tables db").contains("trips,4,3,2,"));
}

#[test]
fn a_flipped_byte_is_found_by_verify() {
    let shell = Shell::new();
    let rows: String = (0..5000).map(|i| format!("{i},{}\n", i * i % 977)).collect();
    shell.file("a.csv", format!("id,v\n{rows}"));
    shell.stdout("ingest db/t a.csv");
    let (code, stdout, stderr) = shell.run("verify db");
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert!(stderr.contains("t: 5,000 rows in 1 segment,"), "{stderr}");

    let file = shell.files("db/t/data", "sty").pop().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let mut damaged = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    damaged.seek(SeekFrom::Start(0)).unwrap();
    damaged.write_all(&bytes).unwrap();
    for line in ["verify db", "verify db/t"] {
        let (code, stdout, stderr) = shell.run(line);
        assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(stderr.contains(name) && stderr.contains("corrupt at byte "), "{stderr}");
    }
    let (code, _, stderr) = shell.run("verify db --error-format json");
    let json = stderr.lines().find(|line| line.starts_with('{'));
    let first: serde_json::Value = serde_json::from_str(json.unwrap()).unwrap();
    assert_eq!((code, first["code"].as_str()), (3, Some("corrupt")));
    assert!(
        first["offset"].is_u64() && first["file"].as_str().unwrap().ends_with(".sty"),
        "{first}"
    );
}

#[test]
#[cfg(feature = "gen")]
fn generated_trips_go_in_by_file_and_by_pipe() {
    let shell = Shell::new();
    let (code, stdout, stderr) = shell.run("gen trips --rows 3000 --files 2 --header -o csv");
    assert_eq!((code, stdout.as_str()), (0, ""), "{stderr}");
    shell.stdout("gen trips --rows 3000 --files 2 --format parquet -o parquet");
    shell.stdout("ingest db/csv csv");
    shell.stdout("ingest db/parquet parquet");
    let (code, _, stderr) =
        shell.sh("sty gen trips --rows 3000 --files 2 --header -o - | sty ingest db/pipe");
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = shell.sh("cat parquet/trips-0001.parquet | sty ingest db/half -");
    assert_eq!(code, 0, "{stderr}");
    let tables = shell.stdout("tables db");
    for line in ["csv,3000,51,", "half,1500,51,", "parquet,3000,51,", "pipe,3000,51,"] {
        assert!(tables.contains(line), "{tables}");
    }
    let names = |table: &str| {
        let schema = shell.stdout(&format!("schema db/{table}"));
        schema.lines().map(|line| line.split(',').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("csv"), names("parquet"));
    assert_eq!(shell.stdout("schema db/csv"), shell.stdout("schema db/pipe"));
    shell.stdout("verify -q db");
}

#[test]
#[cfg(feature = "gen")]
fn a_reader_that_has_seen_enough_ends_the_command_silently() {
    let shell = Shell::new();
    let (code, stdout, stderr) = shell.sh(
        "{ sty gen trips --rows 200000 -o -; echo \"exit $?\" >&2; } | head -1 | wc -l | tr -d ' '",
    );
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "1\n", "exit 0\n"));
}

#[test]
fn what_is_not_text_is_called_so() {
    let shell = Shell::new();
    let noise: Vec<u8> =
        (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    shell
        .file("noise.csv", noise)
        .file("empty.csv", "")
        .file("x.parquet", "no\n")
        .file("y.json", "{}\n");
    for (file, part) in [
        ("noise.csv", "does not look like text"),
        ("empty.csv", "is empty"),
        ("x.parquet", "not a Parquet file"),
        ("y.json", "no keys"),
    ] {
        let (code, stdout, stderr) = shell.run(&format!("ingest db/t {file}"));
        assert_eq!((code, stdout.as_str()), (1, ""), "{file}");
        assert!(stderr.contains(file) && stderr.contains(part), "{stderr}");
    }
}

#[test]
fn json_other_encodings_and_the_names_of_files() {
    let shell = Shell::new();
    shell.file("latin.csv", b"a\ncaf\xe9\n").file("x.jsonl", "{\"a\":\"b\"}\n");
    let (code, _, stderr) =
        shell.run("ingest db/t --encoding latin1 --filename-column file latin.csv x.jsonl");
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = shell.pipe("ingest db/t", "[{\"a\": \"c\"}]");
    assert_eq!(code, 0, "{stderr}");
    let (_, rows, _) = shell.sh("sty query db 'SELECT a, file FROM t ORDER BY a'");
    assert_eq!(rows, "a,file\nb,x.jsonl\nc,\ncafé,latin.csv\n");
    let (code, _, stderr) = shell.run("ingest db/t --encoding latin-one latin.csv");
    assert!(code == 2 && stderr.contains("unknown encoding 'latin-one'"), "{stderr}");
}

#[test]
fn rejected_rows_are_corrected_and_loaded_back() {
    let shell = Shell::new();
    shell.file("a.csv", BAD);
    let options = "-q --schema id:int64";
    shell.stdout(&format!("ingest {options} db/t a.csv --rejects bad.csv"));
    let (code, _, stderr) = shell.run(&format!("ingest {options} db/t --from-rejects bad.csv"));
    assert!(code == 1 && stderr.contains("a.csv: line 4: 1 field, expected 2"), "{stderr}");
    let bad = std::fs::read_to_string(shell.path("bad.csv")).unwrap();
    let good = bad.replace("\"x,b\"", "\"2,b\"").replace(",3\n", ",\"3,c\"\n");
    shell.rewrite("bad.csv", good.replace("5,\"\"f", "5,f"));
    shell.stdout(&format!("ingest {options} db/t --from-rejects bad.csv"));
    let stored =
        shell.stdout_of("query db", "SELECT id, v FROM t WHERE id IN (2, 3, 5) ORDER BY id");
    assert_eq!(stored, "id,v\n2,b\n3,c\n5,f\n");
    shell.file("other.csv", "id,v\n9,z\n");
    let (code, _, stderr) = shell.run("ingest db/t --from-rejects other.csv");
    assert!(code == 1 && stderr.contains("other.csv is no file of rejected rows"), "{stderr}");
}

#[test]
fn a_row_without_a_value_that_is_required_is_a_reject() {
    let shell = Shell::new();
    shell.stdout_of("query db", "CREATE TABLE t (id BIGINT NOT NULL, v TEXT)");
    shell.file("a.csv", "id,v\n1,a\n,b\n").file("b.jsonl", "{\"id\":2}\n{\"v\":\"c\"}\n");
    let (code, _, stderr) = shell.run("ingest db/t a.csv");
    let what = "a.csv: line 3: column 'id' is NOT NULL, but the row has no value in it";
    assert!(code == 1 && stderr.contains(what), "{stderr}");
    let (code, _, stderr) = shell.run("ingest db/t a.csv b.jsonl --on-error skip");
    let what = "a.csv: line 3, column 'id': no value, and the column is NOT NULL";
    assert!(code == 0 && stderr.contains(what), "{stderr}");
    assert!(stderr.contains("4 rows read = 2 stored + 2 rejected"), "{stderr}");
}

#[test]
fn files_that_do_not_go_together_are_named() {
    let shell = Shell::new();
    shell.file("a.csv", "id,zip\n1,12345\n").file("b.csv", "id,zip\n2,01234\n");
    let (code, _, stderr) = shell.run("ingest db/t a.csv b.csv");
    let what = "column 'zip' is int64 in a.csv (line 2: \"12345\") and utf8 in b.csv (line 2: \
                \"01234\"), and no type holds both without loss";
    assert!(code == 1 && stderr.contains(what), "{stderr}");
    std::fs::create_dir(shell.path("dir")).unwrap();
    shell.file("dir/README.md", "Words\n").file("dir/a.csv", "id\n1\n");
    let (code, _, stderr) = shell.run("ingest db/t dir");
    assert!(code == 1 && stderr.contains("dir/README.md is no CSV"), "{stderr}");
    assert!(stderr.contains("for example 'dir/*.csv'"), "{stderr}");
    shell.stdout("ingest -q db/t dir/*.csv");
}

#[test]
fn json_keeps_every_digit_and_takes_empty_keys_and_objects() {
    let shell = Shell::new();
    shell.file("a.jsonl", "{\"\": 1, \"n\": 99999999999999999999, \"at\": \"2024-01-31\"}\n{}\n");
    shell.stdout("ingest -q db/t a.jsonl");
    assert_eq!(
        shell.stdout_of("query db", "SELECT * FROM t"),
        "column0,n,at\n1,99999999999999999999,2024-01-31\n,,\n"
    );
    shell.file("b.jsonl", "{}\n{}\n");
    shell.stdout("ingest -q db/t b.jsonl");
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM t"), "n\n4\n");
}

#[test]
fn rejected_rows_are_not_written_over_an_input() {
    let shell = Shell::new();
    shell.file("in.csv", "a,b\n1,1\nbad,2\n");
    let line = "ingest db/t in.csv --schema a:int64 --force --rejects";
    for name in ["in.csv", "./in.csv"] {
        let (code, _, stderr) = shell.run(&format!("{line} {name}"));
        assert!(code == 2 && stderr.contains("--rejects would write over it"), "{stderr}");
    }
    shell.stdout(&format!("{line} bad.csv"));
    assert_eq!(shell.stdout_of("query db", "SELECT count(*) AS n FROM t"), "n\n1\n");
}

#[test]
fn an_empty_input_has_the_columns_that_are_named() {
    let shell = Shell::new();
    shell.file("e.jsonl", "").file("e.json", "[]").file("e.csv", "");
    for (table, line) in [
        ("a", "e.jsonl --schema a:int32,b:utf8"),
        ("b", "e.json --schema a:int32,b:utf8"),
        ("c", "e.csv --names a,b --schema a:int32,b:utf8"),
    ] {
        shell.stdout(&format!("ingest db/{table} {line}"));
        let schema = shell.stdout(&format!("schema db/{table}"));
        assert!(schema.contains("a,int32,0,") && schema.contains("b,utf8,1,"), "{line}: {schema}");
    }
    shell.file("b.jsonl", "{\"a\":7}\n");
    shell.stdout("ingest db/a b.jsonl");
    assert_eq!(shell.stdout_of("query db", "SELECT a FROM a"), "a\n7\n");
}
