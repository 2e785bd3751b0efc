//! The small part of PostgreSQL's system catalogs that its clients ask for: which tables there are,
//! and which columns they have. They are tables of the session, made when a statement names them;
//! those that would be about what a store does not have (indexes, triggers, rules) are empty.

use stylobate::Session;

use super::catalogs::{self, INFORMATION_SCHEMA, Row, is_catalog};
use super::errors::PgError;
use super::information_schema::{self, described};
use super::known::Known;
use super::relations::{self, DATABASE, oid_of};
use super::settings;
use super::type_rows::{self, SCHEMAS, schema_oid};
use super::types::PgType;
use super::words::{Kind, tokens};

/// Numbers of what is the same in each store.
const OWNER: i64 = 10;
const HEAP: i64 = 2;
const TABLESPACE: i64 = 1663;

/// What a statement has that names a catalog.
const MARKS: [&str; 6] =
    ["pg_", "PG_", "regclass", "REGCLASS", "information_schema", "INFORMATION_SCHEMA"];

/// Makes the catalogs that a statement names.
pub(super) fn provide(session: &Session, sql: &str, known: &Known) -> Result<(), PgError> {
    if !MARKS.iter().any(|mark| sql.contains(mark)) {
        return Ok(());
    }
    for name in named(sql) {
        let rows = rows(session, &name, known);
        // The name of one of information_schema has a point in it.
        session.add_table(&relations::quoted(&name), catalogs::batch(&name, &rows)?)?;
        // It is none of the user's tables.
        session.hide_table(&name);
    }
    Ok(())
}

/// The catalogs that a statement names.
fn named(sql: &str) -> Vec<String> {
    let words = tokens(sql).into_iter().filter(|token| token.kind != Kind::Text);
    let (mut named, mut is_in_schema) = (Vec::new(), false);
    for word in words.filter_map(|token| sql.get(token.range)) {
        let word = word.trim_matches('"').to_ascii_lowercase();
        let of_schema = format!("{INFORMATION_SCHEMA}{word}");
        if is_in_schema && is_catalog(&of_schema) {
            named.push(of_schema);
        } else if is_catalog(&word) {
            named.push(word.clone());
        } else if relations::needs(&word) {
            named.push(relations::NAME.to_owned());
        }
        is_in_schema = word == "information_schema" || is_in_schema && word == ".";
    }
    named.sort_unstable();
    named.dedup();
    named
}

fn rows(session: &Session, name: &str, known: &Known) -> Vec<Row> {
    if let Some(name) = name.strip_prefix(INFORMATION_SCHEMA) {
        return information_schema::rows(session, name, known);
    }
    let tables = || session.table_names().into_iter().filter(|table| !is_catalog(table));
    let is_stored = |table: &String| session.stored_size(None, table).is_some();
    match name {
        relations::NAME => relations::rows(session, known),
        "pg_namespace" => SCHEMAS.iter().map(|(oid, name)| namespace(*oid, name)).collect(),
        "pg_am" => {
            vec![vec![("oid", HEAP.into()), ("amname", "stylobate".into()), ("amtype", "t".into())]]
        }
        "pg_database" => vec![vec![
            ("oid", DATABASE.into()),
            ("datname", known.database.into()),
            ("datdba", OWNER.into()),
            ("encoding", 6.into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1).into()),
            ("dattablespace", TABLESPACE.into()),
            ("datcollate", "C".into()),
            ("datctype", "C.UTF-8".into()),
        ]],
        "pg_tablespace" => vec![vec![
            ("oid", TABLESPACE.into()),
            ("spcname", "pg_default".into()),
            ("spcowner", OWNER.into()),
        ]],
        "pg_roles" | "pg_authid" => vec![vec![
            ("oid", OWNER.into()),
            ("rolname", known.user.into()),
            ("rolinherit", true.into()),
            ("rolcanlogin", true.into()),
            ("rolconnlimit", (-1).into()),
        ]],
        "pg_user" => vec![vec![("usename", known.user.into()), ("usesysid", OWNER.into())]],
        "pg_settings" => settings(known),
        "pg_get_keywords" => keywords(session),
        "pg_tables" => {
            let row = |table: String| -> Row {
                vec![
                    ("schemaname", "public".into()),
                    ("tablename", table.into()),
                    ("tableowner", known.user.into()),
                ]
            };
            tables().filter(is_stored).map(row).collect()
        }
        "pg_views" => {
            let row = |view: String| -> Row {
                let definition = relations::definition(session, None, &view);
                vec![
                    ("schemaname", "public".into()),
                    ("viewname", view.into()),
                    ("viewowner", known.user.into()),
                    ("definition", definition.into()),
                ]
            };
            tables().filter(|table| !is_stored(table)).map(row).collect()
        }
        "pg_class" => tables().map(|table| class(session, &table)).collect(),
        "pg_attribute" => {
            let mut rows = Vec::new();
            for table in tables() {
                attributes(session, &table, &mut rows);
            }
            rows
        }
        "pg_type" => type_rows::rows(),
        _ => Vec::new(),
    }
}

fn namespace(oid: i64, name: &str) -> Row {
    vec![("oid", oid.into()), ("nspname", name.into()), ("nspowner", OWNER.into())]
}

fn settings(known: &Known) -> Vec<Row> {
    let row = |(name, value): (&'static str, &str)| -> Row {
        let default = settings::default_of(name);
        let source = if value == default { "default" } else { "session" };
        vec![
            ("name", name.into()),
            ("setting", value.into()),
            ("vartype", "string".into()),
            ("context", if settings::is_fixed(name) { "internal" } else { "user" }.into()),
            ("source", source.into()),
            ("boot_val", default.into()),
            ("reset_val", known.settings.begun_with(name).into()),
        ]
    };
    known.settings.all().map(row).collect()
}

fn keywords(session: &Session) -> Vec<Row> {
    let row = |(word, is_reserved): (&str, bool)| -> Row {
        let (code, what) = if is_reserved { ("R", "reserved") } else { ("U", "unreserved") };
        let as_label = match is_reserved {
            true => "requires AS",
            false => "can be bare label",
        };
        vec![
            ("word", word.to_ascii_lowercase().into()),
            ("catcode", code.into()),
            ("barelabel", (!is_reserved).into()),
            ("catdesc", what.into()),
            ("baredesc", as_label.into()),
        ]
    };
    session.keywords().map(row).collect()
}

fn class(session: &Session, table: &str) -> Row {
    let rows = session.stored_size(None, table);
    let kind = if rows.is_some() { "r" } else { "v" };
    let (rows, columns) = rows.unwrap_or_default();
    vec![
        ("oid", oid_of(table).into()),
        ("relname", table.into()),
        ("relnamespace", schema_oid("public").into()),
        ("relowner", OWNER.into()),
        ("relam", HEAP.into()),
        ("relfilenode", oid_of(table).into()),
        ("reltuples", (rows as i64).into()),
        ("relpersistence", "p".into()),
        ("relkind", kind.into()),
        ("relnatts", (columns as i64).into()),
        ("relispopulated", true.into()),
        ("relreplident", "d".into()),
    ]
}

/// The columns of a table; none if it cannot be opened.
fn attributes(session: &Session, table: &str, rows: &mut Vec<Row>) {
    let Some(schema) = described(session, None, table) else { return };
    for (at, field) in schema.fields().iter().enumerate() {
        let of = PgType::of(field.data_type());
        rows.push(vec![
            ("attrelid", oid_of(table).into()),
            ("attname", field.name().as_str().into()),
            ("atttypid", i64::from(of.oid).into()),
            ("attstattarget", (-1).into()),
            ("attlen", i64::from(of.size).into()),
            ("attnum", (at as i64 + 1).into()),
            ("attcacheoff", (-1).into()),
            ("atttypmod", i64::from(of.modifier).into()),
            ("attalign", "i".into()),
            ("attstorage", "p".into()),
            ("attcompression", "".into()),
            ("attnotnull", (!field.is_nullable()).into()),
            ("attidentity", "".into()),
            ("attgenerated", "".into()),
            ("attislocal", true.into()),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogs_are_named() {
        let sql = "SELECT 'pg_proc', t.columns FROM \"pg_class\" AS t, INFORMATION_SCHEMA.tables \
                   WHERE oid = $1::regclass AND pg_relation_size(oid) > 0";
        let expected = ["information_schema.tables", "pg_class", relations::NAME];
        assert_eq!(named(sql), expected);
        assert!(named("SELECT tables FROM columns").is_empty());
    }

    #[test]
    fn values_stand_in_columns_that_there_are() {
        let settings = settings::Settings::default();
        let known = Known { user: "anna", database: "db", number: 7, settings: &settings };
        let session = Session::new(&stylobate::SessionOptions::default()).unwrap();
        session
            .run("CREATE TEMP VIEW v AS SELECT 1 AS a", &Default::default(), |_| Ok(()))
            .unwrap();
        for name in catalogs::names() {
            let rows = rows(&session, name, &known);
            assert!(catalogs::fits(name, &rows), "{name}");
            catalogs::batch(name, &rows).unwrap();
        }
        let views = rows(&session, "pg_views", &known);
        assert!(format!("{views:?}").contains("SELECT 1 AS a"), "{views:?}");
    }
}
