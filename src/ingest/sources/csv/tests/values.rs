//! Words for null, and other ways to write numbers, dates and booleans.

use std::sync::Arc;

use super::*;
use crate::ingest::text::layout::DateOrder;
use crate::ingest::text::number_format::NumberFormat;
use crate::model::TimeUnit;

/// The type of a column `v` of these values, its cells, and the notes. Another column keeps the
/// first row from being taken for names, and empty values from being empty lines.
fn column(values: &[&str], options: &CsvOptions) -> (String, String, Vec<String>) {
    let text: String = values.iter().map(|value| format!("1,{value}\n")).collect();
    let text = format!("k,v\n{text}");
    let all = chunks(text.as_bytes(), options, 1 << 20).unwrap();
    let schema = infer(Path::new("t.csv"), options, all.first()).unwrap();
    let batch = parse_chunk(&schema, &all[0]).unwrap_or_else(|e| panic!("{values:?}: {e}"));
    let cells: Vec<String> =
        cells(std::slice::from_ref(&batch)).into_iter().map(|row| row[1].clone()).collect();
    let notes = schema.guesses.iter().map(ToString::to_string).collect();
    (types(&batch)[1].clone(), cells.join(" "), notes)
}

fn header() -> CsvOptions {
    CsvOptions { header: Some(true), ..CsvOptions::default() }
}

#[test]
fn words_are_null_in_columns_of_another_type() {
    for (values, data_type, expected) in [
        (&["1", "NA", "3"][..], "int64", "1 ∅ 3"),
        (&["1.5", "n/a", "-"], "float64", "1.5 ∅ ∅"),
        (&["2020-01-31", "\\N"], "date", "2020-01-31 ∅"),
        (&["13.12.2020", "NULL"], "date", "2020-12-13 ∅"),
        (&["10:00:00", "?", "None"], "time(us)", "10:00:00 ∅ ∅"),
        (&["true", "null", "N/A"], "bool", "true ∅ ∅"),
        (&["yes", "no", "NA"], "bool", "true false ∅"),
        (&["2020-01-31", "nan"], "date", "2020-01-31 ∅"),
        (&["true", "NaN"], "bool", "true ∅"),
        // A float has its own word.
        (&["1.5", "nan", "NA"], "float64", "1.5 NaN ∅"),
        (&["1", "nan"], "float64", "1.0 NaN"),
        (&["nan", "nan"], "float64", "NaN NaN"),
        // Texts stay as they are.
        (&["NA", "ZA", "DE"], "utf8", "NA ZA DE"),
        (&["NA", "NA"], "utf8", "NA NA"),
        (&["NA", "nan"], "utf8", "NA nan"),
        (&["NA", "", "\"\""], "utf8", "NA ∅ "),
        (&["1", "\"NA\""], "utf8", "1 NA"),
        (&["1", "NA", "x"], "utf8", "1 NA x"),
        (&["007", "NA"], "utf8", "007 NA"),
        (&["1", "none"], "utf8", "1 none"),
    ] {
        let (found, cells, notes) = column(values, &header());
        assert_eq!((found.as_str(), cells.as_str()), (data_type, expected), "{values:?}");
        let has_words = expected.contains('∅') && data_type != "utf8";
        assert_eq!(notes.iter().any(|note| note.contains("null in v")), has_words, "{notes:?}");
    }
    // What the user names is all that is null.
    for (nulls, data_type, expected) in [("NA", "int64", "1 ∅"), ("", "utf8", "1 NA")] {
        let told = CsvOptions { nulls: vec![nulls.into()], ..header() };
        assert_eq!(
            column(&["1", "NA"], &told),
            (data_type.to_owned(), expected.to_owned(), Vec::new()),
            "--null '{nulls}'"
        );
    }
}

#[test]
fn one_note_says_which_words_are_null_where() {
    let text = "a,b,c,d,e,f,g,state\n1,NA,1,1,1,1,\\N,NA\nNA,2,NA,NA,NA,NA,7,DE\n";
    let first = chunks(text.as_bytes(), &header(), 1 << 20).unwrap();
    let schema = infer(Path::new("t.csv"), &header(), first.first()).unwrap();
    let notes: Vec<String> = schema.guesses.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["NA, \\N are null in a, b, c, d, e and 2 more; say --null NA --null '\\N' to have it so \
          in all columns, or --null '' to keep them as text"]
    );
    assert_eq!(cells(&[parse_chunk(&schema, &first[0]).unwrap()])[0][7], "NA");
    assert_eq!(
        column(&["1", "NA"], &header()).2,
        [
            "NA is null in v; say --null NA to have it so in all columns, or --null '' to keep it as \
          text"
        ]
    );
}

#[test]
fn a_table_decides_what_words_are() {
    let with = |prior: &str, values: &[&str]| {
        let prior = vec![("v".to_owned(), prior.parse().unwrap())];
        let (found, cells, notes) = column(values, &CsvOptions { prior, ..header() });
        (found, cells, notes.len())
    };
    let expect = |a: &str, b: &str, c| (a.to_owned(), b.to_owned(), c);
    assert_eq!(with("int64", &["NA", "NA"]), expect("int64", "∅ ∅", 1));
    assert_eq!(with("int32", &["5", "NA"]), expect("int32", "5 ∅", 1));
    assert_eq!(with("utf8", &["5", "NA"]), expect("utf8", "5 NA", 0));
    assert_eq!(with("float64", &["5", "NA", "nan"]), expect("float64", "5.0 ∅ NaN", 1));
    assert_eq!(with("bool", &["y", "NA"]), expect("bool", "true ∅", 1));
    assert_eq!(
        with("timestamp(us)", &["13/1/2020"]),
        expect("timestamp(us)", "2020-01-13T00:00:00", 0)
    );
    assert_eq!(with("utf8", &["1/2/2020"]), expect("utf8", "1/2/2020", 0));
}

#[test]
fn types_that_the_user_names_have_words_and_layouts_too() {
    let with = |fixed: &str, values: &[&str]| {
        let schema = vec![("v".to_owned(), fixed.parse().unwrap())];
        let (_, cells, notes) = column(values, &CsvOptions { schema, ..header() });
        (cells, notes.len())
    };
    let expect = |a: &str, b| (a.to_owned(), b);
    assert_eq!(with("int8", &["007", "NA"]), expect("7 ∅", 1));
    assert_eq!(with("utf8", &["5", "NA"]), expect("5 NA", 0));
    assert_eq!(with("date", &["20200102", "20191231"]), expect("2020-01-02 2019-12-31", 0));
    assert_eq!(with("date", &["31/12/2019"]), expect("2019-12-31", 0));
    assert_eq!(with("timestamp(s)", &["31/12/2019 8:05"]), expect("2019-12-31T08:05:00", 0));
    assert_eq!(with("bool", &["n", "n"]), expect("false false", 0));
    assert_eq!(with("bool", &["y", "n", "1"]), expect("true false true", 0));
    // Where bad rows are left out, they do not hide the layout of the others.
    let schema = vec![("v".to_owned(), DataType::Date)];
    let options = CsvOptions { schema, skip_bad_rows: true, ..header() };
    let first = chunks(b"k,v\n1,31/12/2019\n2,soon\n3,NA\n", &options, 1 << 20).unwrap();
    let schema = infer(Path::new("t.csv"), &options, first.first()).unwrap();
    let (batch, rejects) = parse_good_rows(&Arc::new(schema), &Arc::new(first[0].clone())).unwrap();
    assert_eq!(
        (cells(&[batch]), rejects.total()),
        (
            vec![
                vec!["1".to_owned(), "2019-12-31".to_owned()],
                vec!["3".to_owned(), "∅".to_owned()]
            ],
            1
        )
    );
}

#[test]
fn a_word_after_the_first_rows_is_no_value() {
    let options = CsvOptions { infer_rows: 1, ..header() };
    let rows = "1,5\n".repeat(40_000);
    let text = format!("k,v\n{rows}1,NA\n");
    let error = read_in(text.as_bytes(), &options, 1 << 20).unwrap_err().to_string();
    assert_eq!(
        error,
        "t.csv: line 40002, column 2 ('v'): 'NA' is not of type int64; if it means null: --null NA; \
         to read the column as text: --schema v:utf8"
    );
}

#[test]
fn numbers_as_people_write_them() {
    for (values, data_type, expected) in [
        (&["+5", "-3", "0"][..], "int64", "5 -3 0"),
        (&["+0.25", "-1"], "float64", "0.25 -1.0"),
        (&["1", "-0"], "int64", "1 0"),
        (&["1.5", "-0"], "float64", "1.5 -0.0"),
        // Telephone numbers.
        (&["+5", "+6"], "utf8", "+5 +6"),
        (&["+4912345678", "4912345678"], "utf8", "+4912345678 4912345678"),
        (&["+5", "007"], "utf8", "+5 007"),
        (&["1", "+"], "utf8", "1 +"),
        (&["1", "-00"], "utf8", "1 -00"),
    ] {
        let (found, cells, _) = column(values, &header());
        assert_eq!((found.as_str(), cells.as_str()), (data_type, expected), "{values:?}");
    }
    let german = CsvOptions {
        numbers: NumberFormat { decimal: b',', thousands: Some(b'.') },
        delimiter: Some(b';'),
        ..header()
    };
    let (types, rows) = read("a;b;c;d\n1.234,5;+1.000;1.5;13.12.2020\n-0,25;12;x;NA\n", &german);
    assert_eq!(types, ["float64", "int64", "utf8", "date"]);
    assert_eq!(rows, [["1234.5", "1000", "1.5", "2020-12-13"], ["-0.25", "12", "x", "∅"]]);
    let schema = vec![("a".to_owned(), "decimal(9,2)".parse().unwrap())];
    let (types, rows) = read("a;b\n1.234,5;1\n7;2\n", &CsvOptions { schema, ..german.clone() });
    assert_eq!((types[0].as_str(), rows[0][0].as_str()), ("decimal(9,2)", "1234.50"));
    // A later chunk widens in the same format.
    let text = format!("a;b\n{}1,5;2\n", "1.000;1\n".repeat(40_000));
    let options = CsvOptions { infer_rows: 1, ..german };
    let batches = read_in(text.as_bytes(), &options, 1 << 20).unwrap();
    assert_eq!(cells(&batches).last().unwrap()[0], "1.5");
}

#[test]
fn dates_and_booleans_as_people_write_them() {
    for (values, data_type, expected) in [
        (&["2020/01/02", "2019/12/31"][..], "date", "2020-01-02 2019-12-31"),
        (&["13.12.2020", "1.2.2020"], "date", "2020-12-13 2020-02-01"),
        (&["13/12/2020", "01/02/2020"], "date", "2020-12-13 2020-02-01"),
        (&["12/13/2020", "01/02/2020"], "date", "2020-12-13 2020-01-02"),
        (
            &["2020-01-02 10:30", "2020-01-02 10:30:15"],
            "timestamp(us)",
            "2020-01-02T10:30:00 2020-01-02T10:30:15",
        ),
        (&["2020-01-02 10:30Z"], "timestamp(us,UTC)", "2020-01-02T10:30:00Z"),
        (
            &["1/13/2020", "1/14/2020 8:05:09 PM"],
            "timestamp(us)",
            "2020-01-13T00:00:00 2020-01-14T20:05:09",
        ),
        (&["01-Jan-2020", "1-feb-2020"], "date", "2020-01-01 2020-02-01"),
        (&["\"Tue, 01 Jul 2003 10:52:37 +0200\""], "timestamp(us,UTC)", "2003-07-01T08:52:37Z"),
        (&["20200102", "20191231"], "int64", "20200102 20191231"),
        (&["yes", "NO"], "bool", "true false"),
        (&["T", "f"], "bool", "true false"),
        // No type, or more than one reading.
        (&["01/02/2020", "03/04/2020"], "utf8", "01/02/2020 03/04/2020"),
        (&["13/12/2020", "12/13/2020"], "utf8", "13/12/2020 12/13/2020"),
        (&["13/12/2020", "13.12.2020"], "utf8", "13/12/2020 13.12.2020"),
        (&["y", "yes"], "utf8", "y yes"),
        (&["Y", "N"], "utf8", "Y N"),
        (&["n", "n"], "utf8", "n n"),
        (&["y", "n", "maybe"], "utf8", "y n maybe"),
        (&["10:30", "11:45"], "utf8", "10:30 11:45"),
    ] {
        let (found, cells, _) = column(values, &header());
        assert_eq!((found.as_str(), cells.as_str()), (data_type, expected), "{values:?}");
    }
}

#[test]
fn the_order_of_day_and_month_is_never_made_up() {
    let ambiguous = ["01/02/2020", "03/04/2020"];
    let with = |date_order, values: &[&str]| column(values, &CsvOptions { date_order, ..header() });
    assert_eq!(
        with(None, &ambiguous).2,
        ["dates in v may have the day or the month first, and are text; say --date-order dmy or \
          --date-order mdy"]
    );
    let day_first = Some(DateOrder::DayFirst);
    assert_eq!(with(day_first, &ambiguous).1, "2020-02-01 2020-04-03");
    assert_eq!(with(Some(DateOrder::MonthFirst), &ambiguous).1, "2020-01-02 2020-03-04");
    assert_eq!(with(day_first, &["12/31/2020"]).0, "utf8");
    assert_eq!(
        with(None, &["1.2.2020"]).2,
        ["dates in v were read with the day first; say --date-order mdy if it is not"]
    );
    assert_eq!(with(Some(DateOrder::MonthFirst), &["1.2.2020"]).1, "2020-01-02");
    // A later value of the other order is no value of the column.
    let rows = "1,13/12/2020\n".repeat(20_000);
    let text = format!("k,v\n{rows}1,12/13/2020\n");
    let error = read_in(text.as_bytes(), &CsvOptions { infer_rows: 1, ..header() }, 1 << 20);
    assert!(error.unwrap_err().to_string().contains("'12/13/2020' is not of type date"));
    // Inputs before this one.
    let after = |order, values: &[&str]| {
        let prior = vec![("v".to_owned(), DataType::Date)];
        let options = CsvOptions { prior, prior_orders: order, ..header() };
        let text: String = values.iter().map(|value| format!("1,{value}\n")).collect();
        let first = chunks(format!("k,v\n{text}").as_bytes(), &options, 1 << 20).unwrap();
        let schema = infer(Path::new("t.csv"), &options, first.first())?;
        Ok(cells(&[parse_chunk(&schema, &first[0])?])[0][1].clone())
    };
    let before = vec![("v".to_owned(), DateOrder::DayFirst)];
    assert_eq!(after(before.clone(), &ambiguous).unwrap(), "2020-02-01");
    let message = |result: Result<String>| result.unwrap_err().to_string();
    assert_eq!(
        message(after(before, &["12/31/2020"])),
        "t.csv: column 'v': its dates have the month first, and those of the inputs before it the \
         day; load it by itself"
    );
    assert_eq!(
        message(after(Vec::new(), &ambiguous)),
        "t.csv: column 'v': its dates may have the day or the month first; say --date-order dmy or \
         --date-order mdy"
    );
}

#[test]
fn epochs() {
    let with = |unit, fixed: &str, value: &str| {
        let epochs = vec![("v".to_owned(), unit)];
        let schema = vec![("v".to_owned(), fixed.parse().unwrap())];
        column(&[value, "NA", "0"], &CsvOptions { epochs, schema, ..header() }).1
    };
    assert_eq!(
        with(TimeUnit::Millisecond, "timestamp(ms)", "1375344877500"),
        "2013-08-01T08:14:37.500 ∅ 1970-01-01T00:00:00"
    );
    assert_eq!(
        with(TimeUnit::Second, "timestamp(us,UTC)", "-1"),
        "1969-12-31T23:59:59Z ∅Z 1970-01-01T00:00:00Z"
    );
}

#[test]
fn first_rows_that_may_be_names_are_noted() {
    let notes = |text: &str| {
        let options = CsvOptions::default();
        let first = chunks(text.as_bytes(), &options, 1 << 20).unwrap();
        let schema = infer(Path::new("t.csv"), &options, first.first()).unwrap();
        let notes: Vec<String> = schema.guesses.iter().map(ToString::to_string).collect();
        (schema.header, notes.join("; "))
    };
    for (text, row) in [
        ("2019,2020,2021\n5,6,7\n", "2019, 2020, 2021"),
        ("city,2020\nRome,5\n", "city, 2020"),
        ("city (2020)\nRome\n", "city (2020)"),
        ("Größe (m),name\ny,x\n", "Größe (m), name"),
    ] {
        let note = format!(
            "the first row was taken for data ({row}); say --header if it has the column names"
        );
        assert_eq!(notes(text), (false, note), "{text:?}");
    }
    for text in [
        "1,2,3\n4,5,6\n",
        "2019,2020\n2021,2022\n",
        "Rome,2019\nOslo,2020\n",
        "Rome,1.5\nOslo,2020\n",
        "2020,2020\n1,2\n",
        "13.12.2020,1\n14.12.2020,2\n",
        "y\nn\ny\n",
        "NA,NA\n1,2\n",
        "x,NA\ny,5\n",
    ] {
        let (header, note) = notes(text);
        assert!(!header && !note.contains("first row"), "{text:?}: {note}");
    }
}
