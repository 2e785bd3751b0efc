//! A few small tables that share names of columns, in a store and in SQLite.

use std::path::Path;

use rusqlite::Connection;

use super::super::both::Both;
use super::super::differential::random::Random;
use super::expressions::{Kind, Relation, TEXTS};

/// The tables and their columns. The values of `id` are unique in a table.
const TABLES: [(&str, &[&str]); 5] = [
    ("t0", &["id", "k", "n", "s"]),
    ("t1", &["id", "k", "n", "s"]),
    ("t2", &["id", "k", "v", "s"]),
    ("t3", &["k", "v"]),
    ("t4", &["id", "n", "v"]),
];

/// Rows, and the statements that make them.
pub(super) struct Tables {
    pub(super) relations: Vec<Relation>,
    /// CREATE TABLE and INSERT statements, one commit each.
    pub(super) statements: Vec<String>,
}

impl Tables {
    pub(super) fn random(r: &mut Random) -> Tables {
        let mut tables = Tables { relations: Vec::new(), statements: Vec::new() };
        for (name, columns) in TABLES {
            let types: Vec<String> =
                columns.iter().map(|column| format!("{column} {}", sql_type(r, column))).collect();
            tables.statements.push(format!("CREATE TABLE {name} ({})", types.join(", ")));
            let rows: Vec<String> = (0..r.choose(&[0, 2, 6, 8, 10, 12, 12, 14]))
                .map(|row| tuple(r, columns, row))
                .collect();
            if !rows.is_empty() {
                for some in rows.chunks(rows.len().div_ceil(1 + r.below(5))) {
                    tables
                        .statements
                        .push(format!("INSERT INTO {name} VALUES {}", some.join(", ")));
                }
            }
            let columns = columns.iter().map(|column| ((*column).to_owned(), kind(column)));
            tables.relations.push(Relation {
                name: name.into(),
                alias: name.into(),
                columns: columns.collect(),
            });
        }
        tables
    }

    /// Makes the tables in a new store, and in SQLite.
    pub(super) fn store(&self, path: &Path, threads: usize) -> (Both, Connection) {
        let both = Both::open(path, threads);
        let sqlite = Connection::open_in_memory().unwrap();
        sqlite.execute_batch("PRAGMA case_sensitive_like = ON").unwrap();
        for statement in &self.statements {
            both.change(statement).unwrap();
            sqlite.execute(statement, ()).unwrap();
        }
        (both, sqlite)
    }
}

fn kind(column: &str) -> Kind {
    if column == "s" { Kind::Text } else { Kind::Integer }
}

fn sql_type(r: &mut Random, column: &str) -> &'static str {
    match kind(column) {
        Kind::Text => "TEXT",
        _ => r.pick(&["INT", "BIGINT"]),
    }
}

fn tuple(r: &mut Random, columns: &[&str], row: usize) -> String {
    let mut value = |column: &&str| match *column {
        "id" => (row + 1).to_string(),
        _ if r.chance(15) => "NULL".into(),
        "k" => (r.below(4) as i64).to_string(),
        "s" => format!("'{}'", r.pick(&TEXTS)),
        _ => (r.below(10) as i64 - 2).to_string(),
    };
    format!("({})", columns.iter().map(&mut value).collect::<Vec<_>>().join(", "))
}
