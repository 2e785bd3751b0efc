//! How tables are named on the command line: `STORE/TABLE`, a directory of a directory.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use stylobate::store::check_name;

/// A table of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TablePath {
    /// The store's directory.
    pub(crate) store: PathBuf,
    /// The table's name in it.
    pub(crate) table: String,
}

impl FromStr for TablePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' names no table; write STORE/TABLE, for example db/trips");
        let (store, table) = text.trim_end_matches('/').rsplit_once('/').ok_or_else(wrong)?;
        check_name(table).map_err(|error| error.to_string())?;
        let store = if store.is_empty() { "/" } else { store };
        Ok(TablePath { store: PathBuf::from(store), table: table.to_owned() })
    }
}

/// A whole store, or one table of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every table.
    Store(PathBuf),
    /// One.
    Table(TablePath),
}

impl Scope {
    /// Tells a store from a table by what is on disk: a table has a file `CURRENT`. What exists as
    /// neither is taken for a table if its parent is a directory, so that the error names the
    /// missing table.
    pub(crate) fn of(path: &Path) -> Scope {
        let table = path.to_str().and_then(|text| text.parse::<TablePath>().ok());
        match table {
            Some(table)
                if path.join("CURRENT").is_file() || (!path.exists() && table.store.is_dir()) =>
            {
                Scope::Table(table)
            }
            _ => Scope::Store(path.to_path_buf()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_last_part() {
        let parse = |text: &str| {
            text.parse::<TablePath>().ok().map(|t| (t.store.display().to_string(), t.table))
        };
        assert_eq!(parse("db/trips"), Some(("db".into(), "trips".into())));
        assert_eq!(parse("/data/db/trips/"), Some(("/data/db".into(), "trips".into())));
        assert_eq!(parse("./trips"), Some((".".into(), "trips".into())));
        assert_eq!(parse("/trips"), Some(("/".into(), "trips".into())));
        let long = format!("db/{}", "x".repeat(1000));
        for bad in ["trips", "", "/", "db/..", "db/.", "db/.hidden", "db/a\\b", &long] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_directory_with_current_is_a_table() {
        let root = tempfile::tempdir().unwrap();
        let db = root.path().join("db");
        std::fs::create_dir_all(db.join("trips")).unwrap();
        assert_eq!(Scope::of(&db), Scope::Store(db.clone()));
        assert!(matches!(Scope::of(&db.join("trips")), Scope::Store(_)));
        std::fs::File::create_new(db.join("trips/CURRENT")).unwrap();
        assert!(matches!(Scope::of(&db.join("trips")), Scope::Table(_)));
        assert!(matches!(Scope::of(&db.join("missing")), Scope::Table(_)));
    }
}
