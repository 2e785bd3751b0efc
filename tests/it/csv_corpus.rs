//! Small CSV files as people have them (`tests/inputs/csv/`): the types, rows and notes that each
//! of them means.

use stylobate::{CsvOptions, DateOrder, LoadOptions, NumberFormat, TimeUnit, expand};

use crate::loading::{Database, data_type, options, schema, values};
use crate::project;

/// A file, how it is read, and what it means.
#[derive(Default)]
struct Case {
    file: &'static str,
    options: CsvOptions,
    schema: &'static str,
    /// Cells of a row are apart by `|`.
    rows: &'static [&'static str],
    /// A part of each note.
    notes: &'static [&'static str],
    blank_lines: u64,
}

fn cases() -> Vec<Case> {
    let named = |types: &[(&str, &str)]| {
        types.iter().map(|(name, t)| ((*name).to_owned(), data_type(t))).collect()
    };
    let plain = CsvOptions::default;
    vec![
        Case {
            file: "flights.csv",
            schema: "carrier: utf8, state: utf8, dep_delay: int64, arr_delay: float64, day: date, \
                     cancelled: bool",
            rows: &[
                "UA|NA|∅|11.0|2013-01-01|false",
                "AA|TX|2|∅|∅|∅",
                "NA|NA|0|20.5|2013-01-03|true",
            ],
            notes: &["NA is null in dep_delay, arr_delay, day, cancelled; say --null NA to have"],
            ..Case::default()
        },
        Case {
            file: "flights.csv",
            options: CsvOptions { nulls: vec![String::new()], ..plain() },
            schema: "carrier: utf8, state: utf8, dep_delay: utf8, arr_delay: utf8, day: utf8, \
                     cancelled: utf8",
            rows: &[
                "UA|NA|NA|11|2013-01-01|false",
                "AA|TX|2|NA|NA|NA",
                "NA|NA|-0|20.5|2013-01-03|true",
            ],
            notes: &["taken for column names"],
            ..Case::default()
        },
        Case {
            file: "padded.csv",
            schema: "id: int64, price: float64, day: date, paid: bool, name: utf8",
            rows: &["1|9.5|2024-01-31|true| Ann", "2|∅|2024-02-01|false| Bob"],
            notes: &["all first values of name begin with a blank, which is a part of them; say"],
            ..Case::default()
        },
        Case {
            file: "signs.csv",
            schema: "name: utf8, phone: utf8, change: int64, code: utf8",
            rows: &["Ann|+4930123456|5|007", "Bob|+493098765|-3|010"],
            ..Case::default()
        },
        Case {
            file: "german.csv",
            options: CsvOptions {
                numbers: NumberFormat { decimal: b',', thousands: Some(b'.') },
                schema: named(&[("Betrag", "decimal(9,2)")]),
                ..plain()
            },
            schema: "Datum: date, Betrag: decimal(9,2), Menge: int64, Ort: utf8",
            rows: &["2020-12-13|1234.50|1000|Ulm", "2020-02-01|-0.50|12|Bonn"],
            notes: &["';' was taken for the delimiter"],
            ..Case::default()
        },
        Case {
            file: "american.csv",
            schema: "day: date, at: timestamp(us)",
            rows: &["2020-01-02|2020-01-02T08:05:00", "2020-12-31|2020-12-31T22:30:00"],
            ..Case::default()
        },
        Case {
            file: "ambiguous.csv",
            schema: "day: utf8, n: int64",
            rows: &["01/02/2020|1", "03/04/2020|2"],
            notes: &["dates in day may have the day or the month first, and are text"],
            ..Case::default()
        },
        Case {
            file: "ambiguous.csv",
            options: CsvOptions { date_order: Some(DateOrder::DayFirst), ..plain() },
            schema: "day: date, n: int64",
            rows: &["2020-02-01|1", "2020-04-03|2"],
            ..Case::default()
        },
        Case {
            file: "booleans.csv",
            schema: "a: bool, b: utf8, c: bool, d: utf8",
            rows: &["true|Y|true|n", "false|n|false|n", "true|y|∅|n"],
            notes: &["NA is null in c", "yes and no were", "t and f were"],
            ..Case::default()
        },
        Case {
            file: "layouts.csv",
            schema: "sent: timestamp(us,UTC), day: date, slashed: date, minute: timestamp(us)",
            rows: &[
                "2003-07-01T08:52:37Z|2020-01-01|2020-01-02|2020-01-02T10:30:00",
                "2003-07-02T10:52:37Z|2020-02-02|2019-12-31|2020-01-02T10:31:00",
            ],
            ..Case::default()
        },
        Case {
            file: "epochs.csv",
            options: CsvOptions {
                schema: named(&[("t", "timestamp(ms)"), ("day", "date")]),
                epochs: vec![("t".to_owned(), TimeUnit::Millisecond)],
                ..plain()
            },
            schema: "t: timestamp(ms), day: date",
            rows: &["2013-08-01T08:14:37.500|2020-01-02", "1970-01-01T00:00:00|2019-12-31"],
            ..Case::default()
        },
        Case {
            file: "comments.csv",
            options: CsvOptions { comment: Some(b'#'), ..plain() },
            schema: "id: int64, name: utf8",
            rows: &["1|a\n# b", "3|#c"],
            blank_lines: 1,
            ..Case::default()
        },
        Case {
            file: "escaped.csv",
            schema: "id: int64, text: utf8",
            rows: &["1|say \"hi\", you", "2|C:\\dir"],
            notes: &["say --escape none"],
            ..Case::default()
        },
        Case {
            file: "blanks.csv",
            schema: "id: int64, name: utf8",
            rows: &["1|Rome, Italy", "2|Oslo"],
            notes: &["say --skip-initial-space=false"],
            ..Case::default()
        },
        Case {
            file: "years.csv",
            schema: "column0: utf8, column1: int64, column2: int64",
            rows: &["city|2019|2020", "Rome|5|6", "Oslo|7|8"],
            notes: &["was taken for data (city, 2019, 2020); say --header"],
            ..Case::default()
        },
        Case {
            file: "one-column.csv",
            schema: "column0: int64",
            rows: &["∅", "∅", "5", "∅", "6"],
            notes: &["the column is called column0"],
            ..Case::default()
        },
        Case {
            file: "empty-lines.csv",
            schema: "id: int64, name: utf8",
            rows: &["1|a", "2|b"],
            blank_lines: 5,
            ..Case::default()
        },
    ]
}

#[test]
fn files_mean_what_people_mean() {
    for case in cases() {
        let db = Database::new();
        let path = project().join("tests/inputs/csv").join(case.file);
        let inputs = expand(&[path.display().to_string()]).unwrap();
        let report = db.load("t", inputs, &LoadOptions { csv: case.options, ..options() }).unwrap();
        let table = db.table("t");
        assert_eq!(schema(&table).join(", "), case.schema, "{}", case.file);
        let columns: Vec<Vec<String>> = schema(&table)
            .iter()
            .map(|column| values(&table, column.split(':').next().unwrap()))
            .collect();
        let rows: Vec<String> = (0..case.rows.len())
            .map(|row| columns.iter().map(|c| c[row].as_str()).collect::<Vec<_>>().join("|"))
            .collect();
        assert_eq!(rows, case.rows, "{}", case.file);
        assert_eq!(columns[0].len(), case.rows.len(), "{}", case.file);
        let notes: Vec<String> = report.guesses.iter().map(|(_, note)| note.to_string()).collect();
        assert_eq!(notes.len(), case.notes.len(), "{}: {notes:?}", case.file);
        for (note, part) in notes.iter().zip(case.notes) {
            assert!(note.contains(part), "{}: {note}", case.file);
        }
        assert_eq!(report.blank_lines, case.blank_lines, "{}", case.file);
    }
}

#[test]
fn inputs_that_disagree_about_days_and_months_are_refused() {
    let db = Database::new();
    let texts = |texts: &[&str]| texts.iter().map(|t| crate::loading::text(t)).collect::<Vec<_>>();
    let day_first = "d,n\n13/12/2020,1\n";
    let error = db.load("t", texts(&[day_first, "d,n\n12/31/2020,1\n"]), &options()).unwrap_err();
    assert!(error.to_string().contains("have the month first"), "{error}");
    // What the first one says holds for the second.
    db.load("t", texts(&[day_first, "d,n\n1/2/2020,1\n"]), &options()).unwrap();
    assert_eq!(values(&db.table("t"), "d"), ["2020-12-13", "2020-02-01"]);
    // By itself, a file does not say.
    let alone = || texts(&["d,n\n1/2/2020,1\n"]);
    let error = db.load("t", alone(), &options()).unwrap_err();
    assert!(error.to_string().contains("--date-order"), "{error}");
    let csv = CsvOptions { date_order: Some(DateOrder::MonthFirst), ..CsvOptions::default() };
    db.load("t", alone(), &LoadOptions { csv, ..options() }).unwrap();
    assert_eq!(values(&db.table("t"), "d")[2], "2020-01-02");
}

#[test]
fn a_table_of_numbers_takes_words_for_null() {
    let db = Database::new();
    db.load_text("t", "k,v\n1,5\n").unwrap();
    let report = db.load_text("t", "k,v\n2,NA\n3,7\n").unwrap();
    assert_eq!(
        (values(&db.table("t"), "v"), report.guesses.len()),
        (vec!["5".into(), "∅".into(), "7".into()], 1)
    );
    assert!(db.load_text("t", "k,v\n4,x\n5,NA\n").is_err());
    // In a table of texts, they are texts.
    db.load_text("u", "k,v\n1,x\n").unwrap();
    db.load_text("u", "k,v\n2,NA\n3,7\n").unwrap();
    assert_eq!(values(&db.table("u"), "v"), ["x", "NA", "7"]);
}
