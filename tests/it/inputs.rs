//! What can be loaded: JSON and Arrow, compressed files, pipes, partitioned directories.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, Time64MicrosecondArray,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use stylobate::{Error, Input, LoadOptions, expand};

use super::loading::{Database, data_type, options, schema, values};

const LINES: &str = "{\"a\":1,\"b\":\"x\\ny\"}\r\n\r\n{\"a\":2.5,\"c\":{\"d\":[1]}}\r\n";

fn arrow(file: bool) -> Vec<u8> {
    let keyed: DictionaryArray<Int32Type> = [Some("x"), None, Some("y")].into_iter().collect();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
    let batch =
        RecordBatch::try_from_iter([("a", numbers), ("b", Arc::new(keyed) as ArrayRef)]).unwrap();
    let mut bytes = Vec::new();
    if file {
        let mut writer = FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    } else {
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    }
    bytes
}

/// An Arrow file of one column and one batch.
fn arrow_column(name: &str, array: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([(name, array)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    drop(writer);
    bytes
}

#[test]
fn times_of_no_day_are_refused_and_no_rows_have_columns() {
    let db = Database::new();
    let times = |ticks: Vec<i64>| -> ArrayRef { Arc::new(Time64MicrosecondArray::from(ticks)) };
    let late = db.file("late.arrow", &arrow_column("at", times(vec![1, 86_400_000_000])));
    let error = db.load_files("t", &[late]).unwrap_err().to_string();
    for part in ["late.arrow", "column 'at'", "86400000000 is not a value of type time(us)"] {
        assert!(error.contains(part), "{error}");
    }
    let empty = db.file("empty.arrow", &arrow_column("at", times(vec![])));
    assert_eq!(db.load_files("e", &[empty]).unwrap().rows_stored, 0);
    assert_eq!(schema(&db.table("e")), ["at: time(us)"]);
}

#[test]
fn named_types_hold_for_typed_inputs() {
    let db = Database::new();
    let (texts, dates) = (StringArray::from(vec!["2013-08-01"]), StringArray::from(vec!["x"]));
    let good = db.file("good.arrow", &arrow_column("d", Arc::new(texts)));
    let bad = db.file("bad.arrow", &arrow_column("d", Arc::new(dates)));
    let wide = db.file("wide.arrow", &arrow_column("n", Arc::new(Int64Array::from(vec![1 << 40]))));
    let empty = db.file("empty.arrow", &arrow_column("n", Arc::new(Int64Array::from(vec![0; 0]))));
    let load = |table: &str, file: &PathBuf, types: &[(&str, &str)]| {
        let mut options = options();
        let types = types.iter().map(|(name, text)| ((*name).to_owned(), data_type(text)));
        options.csv.schema = types.collect();
        db.load(table, vec![Input::path(file)], &options)
    };
    assert_eq!(load("t", &good, &[("d", "date")]).unwrap().rows_stored, 1);
    assert_eq!(
        (schema(&db.table("t")), values(&db.table("t"), "d")),
        (vec!["d: date".to_owned()], vec!["2013-08-01".to_owned()])
    );
    load("e", &empty, &[("n", "int16")]).unwrap();
    assert_eq!(schema(&db.table("e")), ["n: int16"]);
    for (file, types, parts) in [
        (&bad, [("d", "date")], ["bad.arrow", "'d'", "'x'"]),
        (&wide, [("n", "int32")], ["wide.arrow", "'n'", "1099511627776"]),
        (&wide, [("m", "int32")], ["wide.arrow", "'m'", "its columns are n"]),
    ] {
        let error = load("x", file, &types).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

/// A named pipe, into which a thread writes.
fn fifo(directory: &Path, name: &str, bytes: Vec<u8>) -> PathBuf {
    let path = directory.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let to = path.clone();
    std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(to).unwrap();
        // The thread writes in pieces, as programs do.
        bytes.chunks(7).for_each(|piece| pipe.write_all(piece).unwrap());
    });
    path
}

#[test]
fn json_and_arrow_and_csv_fill_one_table() {
    let db = Database::new();
    let files = [
        db.file("1.jsonl", format!("\u{feff}{LINES}").as_bytes()),
        db.file("2.json", b"[ {\"a\": 3,\n \"b\": null}\n]\n"),
        db.file("3.arrow", &arrow(true)),
        db.file("4.csv", "\u{feff}b,a\r\n\"p\r\nq\",7\r\n".as_bytes()),
    ];
    let report = db.load_files("t", &files).unwrap();
    assert_eq!(report.rows_stored, 7);
    assert_eq!(
        report.bytes_in,
        files.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>()
    );
    let t = db.table("t");
    assert_eq!(schema(&t), ["a: float64", "b: utf8", "c: utf8"]);
    assert_eq!(values(&t, "a"), ["1.0", "2.5", "3.0", "1.0", "2.0", "∅", "7.0"]);
    assert_eq!(values(&t, "b"), ["x\ny", "∅", "∅", "x", "∅", "y", "p\r\nq"]);
    assert_eq!(values(&t, "c")[1], "{\"d\":[1]}");
}

#[test]
fn pipes_with_names_are_inputs() {
    let db = Database::new();
    let directory = db.directory.path();
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"{\"a\":9}\n").unwrap();
        encoder.finish().unwrap()
    };
    let pipes = [
        fifo(directory, "csv", b"a,b\n1,x\n".to_vec()),
        fifo(directory, "lines", LINES.as_bytes().to_vec()),
        fifo(directory, "array", b"[{\"a\":3}]".to_vec()),
        fifo(directory, "stream", arrow(false)),
        fifo(directory, "file", arrow(true)),
        fifo(directory, "gzip", gzip),
    ];
    assert_eq!(db.load_files("t", &pipes).unwrap().rows_stored, 11);
    assert_eq!(values(&db.table("t"), "a")[..4], ["1.0", "1.0", "2.5", "3.0"]);
    assert_eq!(db.load_files("t", &[PathBuf::from("/dev/null")]).unwrap().rows_stored, 0);
}

#[test]
fn rows_of_json_go_through_many_chunks_in_order() {
    let db = Database::new();
    let rows = 200_000;
    let objects: Vec<String> = (0..rows)
        .map(|i| {
            format!("{{\"id\":{i},\"text\":\"some text of row {i}\",\"late{}\":{i}}}", i / 150_000)
        })
        .collect();
    for (table, text) in
        [("lines", objects.join("\n")), ("array", format!("[{}]", objects.join(",\n")))]
    {
        let input = Input::reader("many.json", Box::new(std::io::Cursor::new(text.into_bytes())));
        assert_eq!(db.load(table, vec![input], &options()).unwrap().rows_stored, rows);
        let t = db.table(table);
        assert_eq!(schema(&t), ["id: int64", "text: utf8", "late0: int64", "late1: int64"]);
        assert!(values(&t, "id").iter().enumerate().all(|(i, id)| *id == i.to_string()));
        let late = values(&t, "late1");
        assert_eq!((late[149_999].as_str(), late[150_000].as_str()), ("∅", "150000"));
    }
}

#[test]
fn a_refused_row_of_json_names_its_place() {
    let db = Database::new();
    let bad = db.file(
        "bad.jsonl",
        format!("{}{{\"a\":\"x\"}}\n", "{\"a\":1}\n".repeat(600_000)).as_bytes(),
    );
    let error = db.load_files("t", &[bad]).unwrap_err();
    assert!(matches!(&error, Error::InvalidInput(_)), "{error}");
    for part in
        ["bad.jsonl: line 600001, column 'a': \"x\" is not of type int64", "--schema a:utf8"]
    {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn directories_of_a_partitioned_table_are_columns() {
    let db = Database::new();
    db.file("d/year=2015/month=1/a.csv", b"v\n1\n2\n");
    db.file("d/year=2015/month=2/b.jsonl", b"{\"v\":3}\n");
    db.file("d/year=2016/month=__HIVE_DEFAULT_PARTITION__/c.arrow", &arrow(true));
    db.file("d/year=2017/month=3/d.csv", b"v,year\n6,1999\n");
    let directory = db.directory.path().join("d").display().to_string();
    let named = LoadOptions { filename_column: Some("file".into()), ..options() };
    db.load("t", expand(std::slice::from_ref(&directory)).unwrap(), &named).unwrap();
    let t = db.table("t");
    assert_eq!(
        schema(&t),
        ["v: int64", "year: int64", "month: int64", "file: utf8", "a: int64", "b: utf8"]
    );
    assert_eq!(values(&t, "year"), ["2015", "2015", "2015", "2016", "2016", "2016", "1999"]);
    assert_eq!(values(&t, "month"), ["1", "1", "2", "∅", "∅", "∅", "3"]);
    assert!(values(&t, "file")[2].ends_with("d/year=2015/month=2/b.jsonl"));
    let without = LoadOptions { partition_columns: false, ..options() };
    let some = [format!("{directory}/year=201[57]/*/*")];
    db.load("u", expand(&some).unwrap(), &without).unwrap();
    assert_eq!(schema(&db.table("u")), ["v: int64", "year: int64"]);
    // The type of a partition's column can be given like any other's.
    let csv = stylobate::CsvOptions {
        schema: vec![("year".into(), "utf8".parse().unwrap())],
        ..Default::default()
    };
    let file = db.directory.path().join("d/year=2015/month=1/a.csv");
    db.load("w", vec![Input::path(file)], &LoadOptions { csv, ..options() }).unwrap();
    assert_eq!(schema(&db.table("w")), ["v: int64", "year: utf8", "month: int64"]);
}

#[test]
fn text_in_another_encoding() {
    let db = Database::new();
    let latin =
        Input::path(db.file("latin.csv", b"a,b\ncaf\xe9,1\n")).encoded("latin1".parse().unwrap());
    let utf16: Vec<u8> =
        "\u{feff}{\"a\":\"é\"}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    db.load("t", vec![latin, Input::path(db.file("x.jsonl", &utf16))], &options()).unwrap();
    assert_eq!(values(&db.table("t"), "a"), ["café", "é"]);
}
