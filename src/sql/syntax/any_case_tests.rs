//! Tests of names in any case, and of names with dots.

#![allow(clippy::unwrap_used)]

use datafusion::common::config::Dialect;
use datafusion::sql::parser::Statement;

use super::any_case::*;
use crate::error::Error;
use crate::sql::syntax::parse;

fn columns() -> Vec<KnownColumns> {
    let table = |qualifier: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned());
        KnownColumns::new(Some(qualifier.to_owned()), names)
    };
    vec![
        table("h", &["URL", "UserID", "Id"]),
        table("o", &["id", "Name", "NAME", "note"]),
        table("e", &["id", "geo.lat", "geo.Place.name", "h.id", "x.B", "x.b"]),
    ]
}

fn parsed(sql: &str) -> Statement {
    parse::statements(sql, Dialect::DuckDB, 1 << 30).unwrap().remove(0).statement
}

#[test]
fn names_get_their_one_spelling() {
    for (sql, expected) in [
        ("SELECT url, h.userid FROM h", r#"SELECT "URL", h."UserID" FROM h"#),
        (
            "SELECT lower(Url) AS url FROM h ORDER BY URL",
            r#"SELECT lower("URL") AS "URL" FROM h ORDER BY "URL""#,
        ),
        (
            "SELECT h.id, o.id, id, o.userid FROM h JOIN o USING (id, userid)",
            r#"SELECT h."Id", o.id, id, o."UserID" FROM h JOIN o USING(id, "UserID")"#,
        ),
        (
            "SELECT * EXCLUDE (url) FROM h AS x (userid, b)",
            r#"SELECT * EXCLUDE ("URL") FROM h AS x ("UserID", b)"#,
        ),
        (
            r#"SELECT total FROM (SELECT 1 AS "Total")"#,
            r#"SELECT "Total" FROM (SELECT 1 AS "Total")"#,
        ),
        (
            "WITH c (url) AS (SELECT 1 AS x) SELECT url FROM c",
            r#"WITH c ("URL") AS (SELECT 1 AS x) SELECT "URL" FROM c"#,
        ),
        (
            "UPDATE h SET url = UserId WHERE h.id = 1",
            r#"UPDATE h SET "URL" = "UserID" WHERE h."Id" = 1"#,
        ),
        ("INSERT INTO h (url, note) VALUES (1, 2)", r#"INSERT INTO h ("URL", note) VALUES (1, 2)"#),
        ("DELETE FROM h WHERE url IS NULL", r#"DELETE FROM h WHERE "URL" IS NULL"#),
        // Fields of objects.
        (
            "SELECT geo.lat, e.geo.Lat, e.id, geo.place.name FROM e",
            r#"SELECT "geo.lat", e."geo.lat", e.id, "geo.Place.name" FROM e"#,
        ),
        ("SELECT x.b FROM e", r#"SELECT "x.b" FROM e"#),
        (r#"SELECT geo."Place".name FROM e"#, r#"SELECT "geo.Place.name" FROM e"#),
        (
            "SELECT q.geo.lat FROM (SELECT * FROM e) q",
            r#"SELECT q."geo.lat" FROM (SELECT * FROM e) q"#,
        ),
        (
            "UPDATE e SET geo.lat = 1, e.geo.Lat = 2",
            r#"UPDATE e SET "geo.lat" = 1, e."geo.lat" = 2"#,
        ),
        (
            "INSERT INTO e (id, geo.lat) VALUES (1, 2)",
            r#"INSERT INTO e (id, "geo.lat") VALUES (1, 2)"#,
        ),
    ] {
        let respelled = respelled(&parsed(sql), columns(), &[]).unwrap();
        assert_eq!(respelled.statement.to_string(), expected);
    }
    // Exact, quoted, of several spellings, or of another kind.
    for sql in [
        "SELECT note, \"url\", name, o.id FROM o",
        "SELECT url() FROM url",
        // That of a query may have this column.
        "WITH geo AS (SELECT 1 AS lat) SELECT geo.lat FROM e, geo",
        "SELECT geo.lat FROM e JOIN (SELECT 1 AS lat) geo ON true",
        // A table's column goes before a field, and quotes mean one spelling.
        "SELECT o.id, geo.place, geo.\"place\".name FROM e",
    ] {
        assert!(respelled(&parsed(sql), columns(), &[]).is_none(), "{sql}");
    }
}

#[test]
fn what_cannot_be_planned_as_written_is_told() {
    for (sql, unknown, needed) in [
        ("SELECT url FROM h", None, true),
        ("SELECT url FROM h, f", Some("f"), false),
        ("WITH f AS (SELECT 1) SELECT url FROM h, f", Some("f"), true),
        ("SELECT url FROM (SELECT 1 AS url) h", None, false),
        ("SELECT userid FROM (SELECT 1 AS url) h", None, true),
        ("SELECT url FROM (VALUES (1)) h", None, false),
        ("SELECT url FROM generate_series(1, 2) h", None, false),
        ("WITH c (url) AS (SELECT 1) SELECT url FROM c", Some("c"), false),
    ] {
        let unknown: Vec<String> = unknown.into_iter().map(str::to_owned).collect();
        let found = respelled(&parsed(sql), columns(), &unknown).unwrap();
        assert_eq!(found.is_needed, needed, "{sql}");
    }
}

#[test]
fn what_other_spellings_mend_is_told() {
    let respelled = respelled(&parsed("SELECT url, h.userid FROM h"), columns(), &[]).unwrap();
    let missing = |name: &str| Error::InvalidInput(format!("no column {name}; there are: a"));
    let other = missing("nope");
    assert!(respelled.mends(&missing("url"), &other));
    assert!(respelled.mends(&missing("h.userid"), &Error::NotFound("no table x".into())));
    assert!(!respelled.mends(&missing("curl"), &other));
    assert!(!respelled.mends(&missing("url"), &missing("URL")));
    assert!(!respelled.mends(&Error::NotFound("no column url".into()), &other));
}

#[test]
fn aliases_of_the_answer_stay_as_written() {
    let statement = parsed("SELECT url, lower(url) AS Url, 1 AS x FROM h");
    let respelled = respelled(&statement, columns(), &[]).unwrap();
    assert_eq!(respelled.names(vec!["URL", "URL:1", "x"]), ["URL", "url", "x"]);
}
