use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::error::{Error, Result};

fn session() -> Session {
    Session::new(&SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// The rows of the answer to the last statement, cells separated by `|`.
pub(super) fn rows(session: &Session, sql: &str, parameters: &[&str]) -> Result<Vec<String>> {
    let mut values = Parameters::default();
    parameters.iter().try_for_each(|p| values.add(p))?;
    let mut last = Vec::new();
    session.run(sql, &values, |stream| {
        last.clear();
        for batch in stream {
            last.extend(shown(&batch?));
        }
        Ok(())
    })?;
    Ok(last)
}

fn shown(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}

#[test]
fn statements_run_in_order() {
    let session = session();
    let answer = rows(
        &session,
        "CREATE VIEW v AS SELECT 1 AS a UNION ALL SELECT 2;; SELECT sum(a) FROM v; -- the end\n",
        &[],
    );
    assert_eq!(answer.unwrap(), ["3"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM v", &[]).unwrap(), ["2"]);
    assert_eq!(rows(&session, "SHOW TABLES", &[]).unwrap()[0], "v|VIEW");
    assert!(rows(&session, "", &[]).unwrap().is_empty());
    // A syntax error is found before the first statement has run.
    assert!(rows(&session, "DROP VIEW v; SELEC 1", &[]).is_err());
    assert_eq!(rows(&session, "SELECT count(*) FROM v", &[]).unwrap(), ["2"]);
    rows(&session, "DROP VIEW v", &[]).unwrap();
    assert!(matches!(rows(&session, "SELECT count(*) FROM v", &[]), Err(Error::NotFound(_))));
}

#[test]
fn everyday_sql_of_others() {
    let session = session();
    let mut wrong = Vec::new();
    for (sql, expected) in [
        ("SELECT 7 / 2", "3"),
        ("SELECT '5'::int + 1", "6"),
        ("FROM (VALUES (1), (2)) t(a) SELECT max(a)", "2"),
        ("FROM (VALUES (1, 2)) t(a, b)", "1|2"),
        ("SELECT a, count(*) FROM (VALUES (1), (1)) t(a) GROUP BY ALL", "1|2"),
        ("SELECT a FROM (VALUES (2), (1)) t(a) ORDER BY ALL LIMIT 1", "1"),
        ("SELECT * EXCLUDE (b) FROM (VALUES (1, 2)) t(a, b)", "1"),
        ("SELECT count(*) FILTER (WHERE a > 1) FROM (VALUES (1), (2)) t(a)", "1"),
        ("SELECT 'aB' ILIKE 'AB%'", "true"),
        (
            "SELECT a FROM (VALUES (1), (2)) t(a) QUALIFY row_number() OVER (ORDER BY a DESC) = 1",
            "2",
        ),
        ("SELECT DATE '2024-02-29' + INTERVAL '1 year'", "2025-02-28"),
        ("SELECT extract(year FROM DATE '2024-02-29')", "2024"),
        ("SELECT date_trunc('month', TIMESTAMP '2024-02-29 10:00:00')", "2024-02-01T00:00:00"),
        ("SELECT 'a' || 'b'", "ab"),
        ("SELECT sum(a) FROM generate_series(1, 10) t(a)", "55"),
        ("SELECT 1e400 > 1", "true"),
        ("SELECT [1, 2][1]", "1"),
    ] {
        match rows(&session, sql, &[]) {
            Ok(answer) if answer == [expected] => {}
            Ok(answer) => wrong.push(format!("{sql}: {answer:?}")),
            Err(error) => wrong.push(format!("{sql}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn parameters_are_typed() {
    let session = session();
    let sql = "SELECT $n + 1, $x, $t, arrow_typeof($t)";
    let answer = rows(&session, sql, &["n=41", "x=1.5", "t=007"]).unwrap();
    assert_eq!(answer, ["42|1.5|007|Utf8View"]);
    assert_eq!(
        rows(&session, "SELECT a FROM generate_series(1, 9) t(a) LIMIT $k", &["k=1"]).unwrap(),
        ["1"]
    );
    assert_eq!(rows(&session, "SELECT $1", &["1=null"]).unwrap(), ["∅"]);
    let error = rows(&session, "SELECT $missing", &["n=1"]).unwrap_err();
    assert!(matches!(&error, Error::InvalidInput(what) if what.contains("missing")), "{error}");
}

#[test]
fn errors_keep_their_kind_and_say_where() {
    let session = session();
    rows(&session, "CREATE VIEW trips AS SELECT 1 AS vendor, 2 AS \"Total\"", &[]).unwrap();
    let fails = |sql: &str| rows(&session, sql, &[]).unwrap_err();
    let syntax = fails("SELECT 1;\nSELECT FROM WHERE");
    assert!(
        matches!(&syntax, Error::InvalidInput(what) if what.contains("(line 2, column ")),
        "{syntax}"
    );
    let cut = fails("SELECT 1 +").to_string();
    assert_eq!(cut, "Expected: an expression, found: the end of the statement");
    let table = fails("SELECT * FROM tripz");
    assert_eq!(table.to_string(), "no table tripz; did you mean trips?");
    assert!(matches!(table, Error::NotFound(_)));
    let column = fails("SELECT\n  vendro FROM trips").to_string();
    assert_eq!(column, "no column vendro; did you mean vendor? (line 2, column 3)");
    let case = fails("SELECT \"TOTAL\" FROM trips").to_string();
    assert!(case.contains("did you mean \"Total\"?"), "{case}");
    assert_eq!(rows(&session, "SELECT TOTAL FROM trips", &[]).unwrap(), ["2"]);
    let function = fails("SELECT nosuch(1)");
    assert!(matches!(function, Error::InvalidInput(_)), "{function}");
    let cast = fails("SELECT CAST(a AS INT) FROM (VALUES ('x'), ('1')) t(a)");
    assert!(matches!(&cast, Error::InvalidInput(what) if what.contains('x')), "{cast}");
    assert!(matches!(fails("CREATE TABLE t AS SELECT 1"), Error::InvalidInput(_)));
    let copy = session.parse("COPY (SELECT 1 AS a) TO 'x.csv' STORED AS CSV").unwrap();
    let target = copy[0].copy_target().unwrap();
    assert_eq!(target.file, "x.csv");
    assert_eq!(target.options, [("format".to_owned(), "CSV".to_owned())]);
    assert_eq!(rows(&session, "COPY (SELECT 1 AS a) TO 'x.csv'", &[]).unwrap(), ["1"]);
    assert!(matches!(fails("SELECT * FROM 'no/such.parquet'"), Error::NotFound(_)));
    for error in [syntax, function, cast] {
        let text = error.to_string();
        assert!(
            !text.contains("External error") && !text.contains("rror during planning"),
            "{text}"
        );
    }
}

/// The hash table of either side is larger than the second limit.
#[test]
fn a_join_that_fits_no_hash_table_sorts_its_inputs() {
    let threads = Some(1);
    for (threads, memory_limit) in [(threads, Some(1 << 30)), (threads, Some(48 << 20))] {
        let options = SessionOptions { threads, memory_limit, ..SessionOptions::default() };
        let session = Session::new(&options).unwrap();
        let sql = "SELECT count(*), sum(a.y + b.z) FROM
            (SELECT value AS x, value * 3 AS y, value * 5 AS z FROM generate_series(1, 2000000)) a
            JOIN (SELECT value * 2 AS x, value AS z FROM generate_series(1, 2000000)) b
            ON a.x = b.x WHERE a.z % 7 >= 0";
        assert_eq!(rows(&session, sql, &[]).unwrap(), ["1000000|3500003500000"]);
    }
}

#[test]
fn the_memory_limit_is_one_of_our_errors() {
    let options = SessionOptions {
        threads: Some(1),
        memory_limit: Some(1 << 20),
        ..SessionOptions::default()
    };
    let session = Session::new(&options).unwrap();
    let sql = "SELECT length(string_agg(value::text, ',')) FROM generate_series(1, 999999)";
    let error = rows(&session, sql, &[]).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded(_)), "{error}");
}

/// The rows of the shared part take more than its share of the second limit.
#[test]
fn rows_of_a_shared_part_that_do_not_fit_in_memory_are_spilled() {
    let sql = "WITH g AS (SELECT value % 300000 AS k, count(*) AS c, max(value::text) AS t
            FROM generate_series(1, 600000) GROUP BY 1)
        SELECT count(*), sum(c), max(t) FROM
            (SELECT k, c, t FROM g UNION ALL SELECT k, c, t FROM g WHERE c > 2) u";
    for (memory_limit, spills) in [(1 << 30, false), (64 << 20, true)] {
        let threads = Some(2);
        let memory_limit = Some(memory_limit);
        let options = SessionOptions { threads, memory_limit, ..SessionOptions::default() };
        let session = Session::new(&options).unwrap();
        let statements = session.parse(sql).unwrap();
        let mut stream = session.execute(&statements[0], &Parameters::default()).unwrap();
        let batches: Vec<_> = stream.by_ref().map(|batch| shown(&batch.unwrap())).collect();
        assert_eq!(batches.concat(), ["300000|600000|99999"]);
        let operators = stream.statistics().operators;
        let shared: Vec<_> = operators.iter().filter(|o| o.name == "SharedExec").collect();
        let spilled = shared.iter().any(|shared| shared.spilled_bytes > 0);
        assert_eq!((shared.len(), spilled), (2, spills));
    }
}

#[test]
fn readers_of_a_shared_part_stop_with_the_statement() {
    let session = session();
    let sql =
        "WITH g AS (SELECT x % 7 AS k, count(*) AS c FROM generate_series(1, 10000000000) a(x)
        GROUP BY 1) SELECT a.c FROM g a JOIN g b ON a.k = b.k";
    let canceller = session.canceller();
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        canceller.cancel();
    });
    let started = std::time::Instant::now();
    assert!(matches!(rows(&session, sql, &[]), Err(Error::Cancelled)));
    waiting.join().unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn a_cancelled_session_stops() {
    let session = session();
    let canceller = session.canceller();
    let endless = "SELECT count(*) FROM generate_series(1, 10000000000) a(x)";
    let waiting = std::thread::spawn({
        let canceller = canceller.clone();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            canceller.cancel();
        }
    });
    assert!(matches!(rows(&session, endless, &[]), Err(Error::Cancelled)));
    waiting.join().unwrap();
    canceller.reset();
    assert_eq!(rows(&session, "SELECT 1", &[]).unwrap(), ["1"]);
    // After a stream is dropped, nothing runs on that the session would wait for.
    let statements = session.parse("SELECT x FROM generate_series(1, 10000000000) a(x)").unwrap();
    let mut stream = session.execute(&statements[0], &Parameters::default()).unwrap();
    assert!(stream.next().unwrap().unwrap().num_rows() > 0);
}

/// Also on a thread with a small stack, which has to plan, run and drop them.
#[test]
fn long_chains_and_deep_expressions_are_answered() {
    let chain = |word: &str, test: &str, terms: usize| {
        let terms: Vec<String> = (0..terms).map(|at| format!("n {test} {at}")).collect();
        terms.join(word)
    };
    let conditions = [
        (chain(" OR ", "=", 3_000), "3000"),
        (chain(" AND ", "<>", 10_000), "0"),
        (chain(" OR ", "= 1 AND n * 2 =", 3_000), "1"),
        (chain(" AND ", "% 7 <>", 10_000), "0"),
        (format!("n = 1{} - 900", " + 1".repeat(900)), "1"),
    ];
    let check = move || {
        let session = session();
        for (condition, count) in &conditions {
            let sql = format!(
                "SELECT count(*) FROM (SELECT value AS n FROM generate_series(0, 4999)) \
                 WHERE {condition}"
            );
            assert_eq!(rows(&session, &sql, &[]).unwrap(), [*count], "{condition:.60}");
        }
        for sql in [chain(" OR ", "=", 10_001), format!("1{}", " + 1".repeat(50_000))] {
            let error = rows(&session, &format!("SELECT {sql}"), &[]).unwrap_err();
            assert!(matches!(error, Error::LimitExceeded(_)), "{error}");
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
}

#[test]
fn files_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    for (name, first) in [("a 1.parquet", 1_i64), ("b[2].parquet", 100)] {
        let values: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Int64Array::from_iter_values(first..first + 10));
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let file = tempfile::Builder::new().tempfile_in(directory.path()).unwrap();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(file.as_file(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file.persist(directory.path().join(name)).unwrap();
    }
    let at = |name: &str| directory.path().join(name).display().to_string();
    let sum =
        |name: &str| rows(&session, &format!("SELECT sum(x), count(*) FROM '{}'", at(name)), &[]);
    assert_eq!(sum("a 1.parquet").unwrap(), ["55|10"]);
    assert_eq!(sum("b[2].parquet").unwrap(), ["1045|10"]);
    assert_eq!(sum("*.parquet").unwrap(), ["1100|20"]);
    assert!(matches!(sum("c*.parquet"), Err(Error::NotFound(_))));
}

#[test]
fn nulls_of_a_dictionary_in_a_file_are_nulls() {
    let texts = arrow_array::StringArray::from(vec![Some("a"), None, Some("")]);
    let keys = arrow_array::Int32Array::from(vec![Some(0), Some(1), Some(2), None]);
    let coded: arrow_array::ArrayRef =
        std::sync::Arc::new(arrow_array::DictionaryArray::new(keys, std::sync::Arc::new(texts)));
    let number: arrow_array::ArrayRef =
        std::sync::Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3, 4]));
    let batch = RecordBatch::try_from_iter([("n", number), ("c", coded)]).unwrap();
    let mut file = tempfile::Builder::new().suffix(".arrow").tempfile().unwrap();
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new(file.as_file_mut(), &batch.schema()).unwrap();
    writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    let query = |sql: &str| {
        rows(&session(), &sql.replace('@', &format!("'{}'", file.path().display())), &[])
    };
    let answer =
        query("SELECT n, coalesce(CAST(c AS VARCHAR) || 'x', '-') FROM @ ORDER BY n").unwrap();
    assert_eq!(answer, ["1|ax", "2|-", "3|x", "4|-"]);
    assert_eq!(
        query("SELECT a.n, b.n FROM @ a JOIN @ b ON a.c = b.c WHERE b.n <> 1").unwrap(),
        ["3|3"]
    );
    assert_eq!(query("SELECT count(c), count(*), count(DISTINCT c) FROM @").unwrap(), ["2|4|2"]);
}

#[test]
fn text_files_have_the_types_of_ingest() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let write = |name: &str, text: &[u8]| {
        let mut file = tempfile::Builder::new().tempfile_in(directory.path()).unwrap();
        std::io::Write::write_all(&mut file, text).unwrap();
        file.persist(directory.path().join(name)).unwrap();
    };
    let query =
        |sql: &str| rows(&session, &sql.replace('@', &directory.path().display().to_string()), &[]);
    let mut text = String::from("id,name,at\n");
    for i in 0..30_000 {
        text.push_str(&format!("{i},n{},2024-01-{:02}\n", i % 7, 1 + i % 28));
    }
    write("a.csv", text.as_bytes());
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    write("a.csv.zst", &packed);
    write("b.tsv", text.replace(',', "\t").as_bytes());
    for name in ["a.csv", "a.csv.zst", "b.tsv"] {
        let answer = query(&format!(
            "SELECT count(*), sum(id), max(at), count(DISTINCT name) FROM '@/{name}'"
        ));
        assert_eq!(answer.unwrap(), ["30000|449985000|2024-01-28|7"], "{name}");
        let types =
            query(&format!("SELECT arrow_typeof(at), arrow_typeof(name) FROM '@/{name}' LIMIT 1"))
                .unwrap();
        assert_eq!(types, ["Date32|Utf8View"]);
    }
    write("a2.csv", text.as_bytes());
    assert_eq!(query("SELECT count(*) FROM '@/a*.csv'").unwrap(), ["60000"]);
    // The last row has a wider type, or a value that fits no common type.
    write("late.csv", format!("{text}30000.5,n,2024-01-01\n").as_bytes());
    assert_eq!(query("SELECT max(id) FROM '@/late.csv'").unwrap(), ["30000.5"]);
    write("bad.csv", format!("{text}x,n,2024-01-01\n").as_bytes());
    let error = query("SELECT max(id) FROM '@/bad.csv'").unwrap_err();
    assert!(matches!(&error, Error::InvalidInput(_)), "{error}");
    for part in ["bad.csv", "30002", "id", "x"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}
