//! Tables and views by their numbers and names: what `regclass`, and the functions about sizes and
//! definitions, look up. They become queries of one table, [`NAME`], which has a row for each key
//! by which a relation is asked for: so a prepared statement finds what there is when it runs.

use stylobate::Session;

use super::catalogs::{self, Row};
use super::known::Known;
use super::words::Words;

/// The name of the table.
pub(super) const NAME: &str = "sty_relations";
/// What stands for a function that gives the name of a relation, in quotes if it needs them.
pub(super) const NAME_OF: &str = "name of";
/// The number of the database.
pub(super) const DATABASE: i64 = 5;
/// The first number of a table.
const FIRST_TABLE: u32 = 16_384;

/// What is looked up, and the column that has it.
const LOOKED_UP: [(&str, &str); 8] = [
    ("regclass", "sty_oid"),
    (NAME_OF, "sty_name"),
    ("to_regclass", "sty_oid"),
    ("pg_get_viewdef", "sty_definition"),
    ("pg_relation_size", "sty_bytes"),
    ("pg_table_size", "sty_bytes"),
    ("pg_total_relation_size", "sty_bytes"),
    ("pg_database_size", "sty_bytes"),
];

/// The number of a table, which follows from its name.
pub(super) fn oid_of(table: &str) -> i64 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = table.bytes().fold(0x811c_9dc5, mix);
    i64::from(hash % (i32::MAX as u32 - FIRST_TABLE) + FIRST_TABLE)
}

/// The relation that a text names, as in `'public."Trips"'::regclass`.
pub(super) fn named_in(text: &str) -> String {
    let mut words = Words::of(text);
    let mut name = words.name();
    while words.take(".") {
        name = words.name();
    }
    name.unwrap_or_default()
}

/// The number of the relation that a text names, or is the number of.
pub(super) fn oid_in(text: &str) -> i64 {
    text.trim().parse().unwrap_or_else(|_| oid_of(&named_in(text)))
}

/// Whether a word of a statement needs the table.
pub(super) fn needs(word: &str) -> bool {
    LOOKED_UP.iter().any(|(name, _)| *name == word)
}

/// A query that gives what a function knows of a relation, or null if there is none. ADBC puts
/// blanks around the point of a name.
pub(super) fn lookup(function: &str, argument: &str) -> Option<String> {
    let (_, column) = LOOKED_UP.iter().find(|(name, _)| *name == function)?;
    let kind = if function == "pg_database_size" { "database:" } else { "" };
    Some(format!(
        "(SELECT max({NAME}.{column}) FROM {NAME} \
         WHERE {NAME}.sty_key = '{kind}' || lower(replace(CAST({argument} AS VARCHAR), ' . ', '.')))"
    ))
}

/// The rows of the table.
pub(super) fn rows(session: &Session, known: &Known) -> Vec<Row> {
    let (mut rows, mut all) = (Vec::new(), 0);
    for table in session.table_names().iter().filter(|table| !catalogs::is_catalog(table)) {
        let bytes = session.stored_bytes(None, table).unwrap_or_default() as i64;
        all += bytes;
        let definition = definition(session, None, table);
        let mut names = vec![quoted(table)];
        if is_plain(table) {
            names.push(table.clone());
        }
        let needs_quotes = !is_plain(table) || table.contains(char::is_uppercase);
        let name = if needs_quotes { quoted(table) } else { table.clone() };
        let public =
            names.iter().flat_map(|it| [format!("public.{it}"), format!("\"public\".{it}")]);
        let public: Vec<String> = public.collect();
        let oid = oid_of(table);
        for key in names.into_iter().chain(public).chain([oid.to_string()]) {
            rows.push(vec![
                ("sty_key", key.to_lowercase().into()),
                ("sty_oid", oid.into()),
                ("sty_name", name.clone().into()),
                ("sty_bytes", bytes.into()),
                ("sty_definition", definition.clone().into()),
            ]);
        }
    }
    for catalog in catalogs::names() {
        let oid = oid_of(catalog);
        for key in [catalog.to_owned(), format!("pg_catalog.{catalog}"), oid.to_string()] {
            rows.push(vec![
                ("sty_key", key.into()),
                ("sty_oid", oid.into()),
                ("sty_name", catalog.into()),
            ]);
        }
    }
    for key in [known.database.to_lowercase(), DATABASE.to_string()] {
        let key = format!("database:{key}");
        rows.push(vec![("sty_key", key.into()), ("sty_bytes", all.into())]);
    }
    rows
}

/// A name that needs no quotes.
fn is_plain(name: &str) -> bool {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(of_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// A name in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The query of a view, if the name means one.
pub(super) fn definition(session: &Session, schema: Option<&str>, view: &str) -> Option<String> {
    query_of(&session.view_text(schema, view)?)
}

/// The query in a CREATE VIEW, which gives names to its columns if that does.
fn query_of(text: &str) -> Option<String> {
    let mut words = Words::of(text);
    while !words.take("view") {
        words.next()?;
    }
    words.take_all("if not exists");
    let mut name = words.name()?;
    while words.take(".") {
        name = words.name()?;
    }
    let columns = words.parentheses();
    while !words.take("as") {
        words.next()?;
    }
    let query = text.get(words.begin()?..)?.trim_end_matches([';', ' ', '\n']);
    Some(match columns {
        Some(columns) => {
            format!(" SELECT * FROM ({query}) AS {}({columns});", quoted(&name))
        }
        None => format!(" {query};"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_named_in_texts() {
        for (text, expected) in [
            ("trips", "trips"),
            ("Trips", "trips"),
            ("public.trips", "trips"),
            ("\"public\".\"My.Trips\"", "My.Trips"),
            ("", ""),
        ] {
            assert_eq!(named_in(text), expected);
        }
        assert_ne!(oid_of("a"), oid_of("b"));
        assert!(needs("to_regclass") && !needs("oid") && lookup("oid", "1").is_none());
    }

    #[test]
    fn the_query_of_a_view_is_in_its_statement() {
        let of = |text: &str| query_of(text);
        let plain = of("CREATE VIEW v AS SELECT a AS b FROM t");
        assert_eq!(plain.as_deref(), Some(" SELECT a AS b FROM t;"));
        let named =
            of("create or replace view if not exists public.\"V\" (x, y) as\n select 1, 2;");
        let expected = " SELECT * FROM (select 1, 2) AS \"V\"(x, y);";
        assert_eq!(named.as_deref(), Some(expected));
        assert_eq!(of("SELECT 1"), None);
    }
}
