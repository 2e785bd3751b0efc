//! Tables on the command line: `STORE/TABLE`, a directory in the store's directory.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use stylobate::internal::store::check_name;
use stylobate::{Error, Snapshot, Store, Table};

use super::names;
use crate::context::Context;
use crate::errors::Failure;

/// The path of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TablePath {
    /// The store's directory.
    pub(crate) store: PathBuf,
    /// The table's name in the store.
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

/// Where rows are to go: a table of a store, or one of a cluster, which has a name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Path(TablePath),
    Name(String),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.contains('/') {
            true => text.parse().map(Destination::Path),
            false => {
                check_name(text).map_err(|error| error.to_string())?;
                Ok(Destination::Name(text.to_owned()))
            }
        }
    }
}

impl Destination {
    /// The name of the table.
    pub(crate) fn name(&self) -> &str {
        match self {
            Destination::Path(path) => &path.table,
            Destination::Name(name) => name,
        }
    }
}

impl TablePath {
    /// The table, which may not exist yet.
    pub(crate) fn open(&self, context: &Context) -> Result<Table, Failure> {
        Ok(context.store(&self.store).table(&self.table)?)
    }

    /// A generation of the table that is kept, or the current one.
    pub(crate) fn snapshot(
        &self,
        generation: Option<u64>,
        context: &Context,
    ) -> Result<Snapshot, Failure> {
        self.snapshot_in(&context.store(&self.store), generation)
    }

    /// The same, by the store as it is open.
    pub(crate) fn snapshot_in(
        &self,
        store: &Store,
        generation: Option<u64>,
    ) -> Result<Snapshot, Failure> {
        let table = store.table(&self.table)?;
        Ok(match generation {
            Some(generation) => table.snapshot_at(generation)?,
            None => table.snapshot()?,
        })
    }
}

/// The argument for an existing table.
#[derive(Debug, Args)]
pub(crate) struct TableArg {
    /// The table
    #[arg(value_name = "STORE/TABLE", add = names::tables())]
    pub(crate) path: TablePath,
}

/// The argument for a store or one of its tables.
#[derive(Debug, Args)]
pub(crate) struct ScopeArg {
    /// A store, or one table of it
    #[arg(value_name = "STORE[/TABLE]", add = names::stores_and_tables())]
    path: PathBuf,
}

impl ScopeArg {
    /// The store and the tables in question.
    pub(crate) fn tables(&self, context: &Context) -> Result<TablesInScope, Failure> {
        Ok(match Scope::detect(&self.path) {
            Scope::Table(path) => {
                let (store, names) = (context.store(&path.store), vec![path.table]);
                TablesInScope { store, names, whole: false }
            }
            Scope::Store(path) => {
                let store = context.store(&path);
                let names = all_tables(&store)?;
                TablesInScope { store, names, whole: true }
            }
        })
    }
}

/// The names of all tables of a store; an error if the directory has other things than a store.
pub(crate) fn all_tables(store: &Store) -> Result<Vec<String>, Failure> {
    let names = store.tables()?;
    let is_shown =
        |entry: std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    let has_others = || {
        let mut entries = store.path().read_dir().into_iter().flatten().flatten();
        entries.any(is_shown)
    };
    if names.is_empty() && store.views()?.is_empty() && store.begun()?.is_empty() && has_others() {
        let path = store.path().display();
        return Err(
            Error::NotFound(format!("'{path}' is no store: there are no tables in it")).into()
        );
    }
    Ok(names)
}

/// Tables that a command goes through.
pub(crate) struct TablesInScope {
    pub(crate) store: Store,
    pub(crate) names: Vec<String>,
    /// Whether they are all tables of the store.
    pub(crate) whole: bool,
}

impl TablesInScope {
    /// Whether an error comes of a table that another process has dropped since all of them were
    /// listed: it is passed over.
    pub(crate) fn has_gone(&self, name: &str, error: &Error) -> bool {
        let is_missing = || !self.store.path().join(name).exists();
        self.whole && (matches!(error, Error::NotFound(_)) || is_missing())
    }
}

/// A whole store, or one table of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Store(PathBuf),
    Table(TablePath),
}

impl Scope {
    /// Tells a store from a table by what is on disk: a table has a file `CURRENT`, or lost it and
    /// is damaged, or a first load of it has begun. What the system does not let us look into is
    /// taken for a table, and so is a path that does not exist if its parent is a directory, so
    /// that the error names the table.
    fn detect(path: &Path) -> Scope {
        let table = path.to_str().and_then(|text| text.parse::<TablePath>().ok());
        let is_table = |table: &TablePath| {
            let store = Store::open(&table.store);
            let is_begun = || store.table(&table.table).and_then(|table| table.is_begun());
            match store.has_table(&table.table) {
                Ok(false) if path.exists() => is_begun().unwrap_or(true),
                Ok(false) => table.store.is_dir(),
                Ok(true) | Err(_) => true,
            }
        };
        match table.filter(is_table) {
            Some(table) => Scope::Table(table),
            None => Scope::Store(path.to_path_buf()),
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
        assert_eq!(Scope::detect(&db), Scope::Store(db.clone()));
        assert!(matches!(Scope::detect(&db.join("trips")), Scope::Store(_)));
        // A table that lost CURRENT is one all the same.
        std::fs::create_dir_all(db.join("lost/data/day=1")).unwrap();
        let name = "0190163d-8694-739b-aea5-966c26f8ad90.sty";
        std::fs::File::create_new(db.join("lost/data/day=1").join(name)).unwrap();
        assert!(matches!(Scope::detect(&db.join("lost")), Scope::Table(_)));
        std::fs::File::create_new(db.join("trips/CURRENT")).unwrap();
        assert!(matches!(Scope::detect(&db.join("trips")), Scope::Table(_)));
        assert!(matches!(Scope::detect(&db.join("missing")), Scope::Table(_)));
    }
}
