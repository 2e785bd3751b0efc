//! Chunks after the sample: wider types, and errors.

use super::*;

/// Parses `text` with the schema of `sample`.
fn parse_after(
    sample: &str,
    text: &str,
    options: &CsvOptions,
) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let first = chunks(sample.as_bytes(), options, 1 << 20)?;
    let schema = infer(Path::new("t.csv"), options, first.first())?;
    let mut chunk = chunks(text.as_bytes(), options, 1 << 20)?.remove(0);
    (chunk.number, chunk.line) = (1, 101);
    let batch = parse_chunk(&schema, &chunk)?;
    Ok((types(&batch), cells(&[batch])))
}

#[test]
fn columns_widen_along_the_lattice() {
    for (sample, text, data_type, cell) in [
        ("1", "1\n2.5", "float64", "1.0"),
        ("2013-08-01", "2013-08-01\n2013-08-01 08:14:37", "timestamp(us)", "2013-08-01T00:00:00"),
        (
            "2013-08-01 08:14:37",
            "2013-08-01 08:14:37\n2013-08-01 08:14:37.1234567",
            "timestamp(ns)",
            "2013-08-01T08:14:37",
        ),
        ("\"\"", "5\nx", "utf8", "5"),
        ("NA", "007\n12", "utf8", "007"),
        ("NA", "12\n7", "int64", "12"),
        ("NA", "\n\"\"", "utf8", "∅"),
        ("1.5", "7\n8", "float64", "7.0"),
    ] {
        let options = CsvOptions { nulls: vec!["NA".into()], ..no_header() };
        let line = |rows: &str| rows.lines().map(|l| format!("k,{l}\n")).collect::<String>();
        let (types, rows) = parse_after(&line(sample), &line(text), &options).unwrap();
        assert_eq!(
            (types[1].as_str(), rows[0][1].as_str()),
            (data_type, cell),
            "{sample} then {text}"
        );
    }
}

#[test]
fn errors_name_file_line_column_value_and_type() {
    let error = |sample: &str, text: &str, options: &CsvOptions| {
        parse_after(sample, text, options).unwrap_err().to_string()
    };
    assert_eq!(
        error("1,x\n", "1,x\n2,\"a\nb\"\n007,y\n", &no_header()),
        "t.csv: line 104, column 1 ('column0'): '007' is not of type int64; to read the column as \
         text: --schema column0:utf8"
    );
    let fixed = CsvOptions { schema: vec![("column0".into(), DataType::Int8)], ..no_header() };
    assert_eq!(
        error("1,x\n", "300,x\n", &fixed),
        "t.csv: line 101, column 1 ('column0'): '300' is not of type int8; --schema gives that \
         type; as text it would be --schema column0:utf8"
    );
    assert!(error("1.5\n", "9007199254740993\n", &no_header()).contains("float64"));
    assert_eq!(
        error("1\n", "2\n9007199254740993\n3\n1.5\n2.5\n", &no_header()),
        "t.csv: line 104, column 1 ('column0'): '1.5' is not of type int64, and \
         '9007199254740993' in line 102 would not be exact as float64; to read the column as text: \
         --schema column0:utf8"
    );
    assert!(
        error("1\n", "1.5\n9007199254740993\n", &no_header())
            .contains("line 102, column 1 ('column0'): '9007199254740993' is not of type float64")
    );
    assert!(error("1\n", "x\n", &no_header()).contains("'x' is not of type int64"));
    let long = error("1\n", &format!("{}\n", "é".repeat(500)), &no_header());
    assert!(long.contains(&format!("'{}…'", "é".repeat(80))), "{long}");
    assert_eq!(
        error("1,2\n", "1,2\n\n1,2,3\n", &no_header()),
        "t.csv: line 103: 3 fields, expected 2; is the delimiter ',' right (--delimiter), or a \
         quote missing?"
    );
    assert!(
        error("1,2\n", "1,2\n1\n1,2\n", &no_header()).contains("line 102: 1 field, expected 2")
    );
    assert!(
        error("a,b\n", "a,b\na,\"b\" c\n", &no_header())
            .contains("line 102: text after a closing quote")
    );
    assert!(
        error("a,b\n", "a,b\na,\"b\n\n", &no_header())
            .contains("line 102: a quoted field starts here")
    );
    let options = no_header();
    let error = |text: &[u8]| read_in(text, &options, 1 << 20).unwrap_err().to_string();
    assert!(
        error(b"a,b\nc,\xe9t\xe9\n")
            .contains("t.csv: line 2, column 2 ('column1'): '\u{fffd}t\u{fffd}' is not UTF-8")
    );
    assert!(error(b"a,b\nc,\xc3\nd,\xa9\n").contains("line 2, column 2"));
    assert!(error(b"\xff\xfea\0").contains("UTF-16"));
    assert!(error(b"").contains("is empty"));
    let missing = CsvOptions { schema: vec![("nope".into(), DataType::Utf8)], ..no_header() };
    assert!(
        read_in(b"1,2\n", &missing, 9)
            .unwrap_err()
            .to_string()
            .contains("no column is called 'nope'")
    );
}
