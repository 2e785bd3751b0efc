//! Tests of the statements that the server answers itself.

use super::*;

#[test]
fn own_statements_are_known() {
    let of = |sql: &str| read(sql).unwrap();
    let set = |name: &str, value: Option<&str>| {
        let (name, value) = (name.to_owned(), value.map(str::to_owned));
        Some(Own::Set { name, value, is_local: false })
    };
    assert_eq!(of("BEGIN"), Some(Own::Begin { mode: Mode::default() }));
    let mode = Mode { read_only: Some(true), isolation: Some("serializable") };
    let read_only = Own::Begin { mode };
    assert_eq!(of("begin isolation level serializable, read only"), Some(read_only));
    assert_eq!(of("ROLLBACK TO SAVEPOINT s"), Some(Own::RollbackTo("s".into())));
    assert_eq!(of("release S"), Some(Own::Release("s".into())));
    assert_eq!(of("ROLLBACK"), Some(Own::Rollback));
    assert_eq!(of("end WORK and no chain"), Some(Own::Commit));
    for chained in ["COMMIT AND CHAIN", "rollback work and chain", "ABORT TRANSACTION AND CHAIN"] {
        assert!(read(chained).is_err(), "{chained}");
    }
    assert_eq!(of("SET extra_float_digits = 3"), set("extra_float_digits", Some("3")));
    assert_eq!(of("set DateStyle to ISO, MDY"), set("datestyle", Some("ISO, MDY")));
    assert_eq!(of("SET TIME ZONE 'UTC'"), set("timezone", Some("UTC")));
    assert_eq!(of("RESET application_name"), set("application_name", None));
    assert_eq!(of("RESET TIME ZONE"), set("timezone", None));
    assert_eq!(of("DISCARD temp"), Some(Own::Discard(Discarded::Temporary)));
    assert_eq!(of("DISCARD PLANS"), Some(Own::Discard(Discarded::Nothing("DISCARD PLANS"))));
    let shown = Own::Show(Some("transaction_isolation".into()));
    assert_eq!(of("show transaction isolation level"), Some(shown));
    let query = "SELECT 'for'".to_owned();
    let declare = Own::Declare { name: "c".into(), is_held: true, query };
    assert_eq!(of("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 'for'"), Some(declare));
    let fetch = |rows| Some(Own::Fetch { name: "c".into(), rows, sends: true });
    assert_eq!(of("FETCH FORWARD 10 FROM \"c\""), fetch(10));
    assert_eq!((of("FETCH ALL IN c"), of("fetch c")), (fetch(0), fetch(1)));
    assert!(read("FETCH BACKWARD 1 FROM c").is_err());
    for other in ["SHOW TABLES", "RESET sty.x", "SELECT 1", "COPY t TO 'x.csv'", ""] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn copies_are_read() {
    let Some(Own::CopyIn(copy)) = read("COPY public.T (\"A\", b) FROM STDIN").unwrap() else {
        panic!()
    };
    let columns = vec!["A".to_owned(), "b".to_owned()];
    assert_eq!(copy.source, Source::Table { name: "t".into(), columns });
    let default = Options {
        format: Format::Text,
        delimiter: b'\t',
        null: "\\N".into(),
        has_header: false,
        matches_header: false,
        quote: b'"',
        escape: b'"',
        quotes_all: false,
    };
    assert_eq!(copy.options, default);
    let sql = "copy (SELECT (1)) to stdout with (format CSV, header, null 'x', delimiter ';')";
    let Some(Own::CopyOut(copy)) = read(sql).unwrap() else { panic!() };
    assert_eq!(copy.source, Source::Query("SELECT (1)".into()));
    assert!(copy.options.has_header && copy.options.format == Format::Csv);
    assert_eq!((copy.options.delimiter, copy.options.null.as_str()), (b';', "x"));
    let Some(Own::CopyOut(copy)) = read("COPY t TO STDOUT CSV HEADER").unwrap() else { panic!() };
    assert!(copy.options.has_header);
    let sql = "COPY t TO STDOUT WITH (FORMAT 'csv', FORCE_QUOTE *)";
    let Some(Own::CopyOut(copy)) = read(sql).unwrap() else { panic!() };
    assert!(copy.options.quotes_all && copy.options.format == Format::Csv);
    assert!(read("COPY t TO STDOUT (FORMAT x)").is_err());
    assert!(read("COPY t TO STDOUT (DELIMITER 'ab')").is_err());
}
