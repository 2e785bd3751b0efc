//! Names that a shell completes on the command line: stores, tables, columns and partitions.
//!
//! What cannot be read has no names: completion says nothing of errors. A name may depend on words
//! before it, which are those of the process: the shell's script runs `sty -- sty inspect db/t …`.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use stylobate::{DataType, Store, Table, partitions};

/// What a path on the command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Stores,
    Tables,
    /// Either of them.
    Both,
}

/// The directory of a store.
pub(crate) fn stores() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| paths(current, Names::Stores))
}

/// STORE/TABLE.
pub(crate) fn tables() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| paths(current, Names::Tables))
}

/// STORE[/TABLE].
pub(crate) fn stores_and_tables() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| paths(current, Names::Both))
}

/// A column of the table that the command line names.
pub(crate) fn columns() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let columns = table_on_line().map(columns_of).unwrap_or_default();
        let found = columns.into_iter().filter(|(name, _)| name.starts_with(current));
        found.map(|(name, data_type)| described(name, &data_type.to_string())).collect()
    })
}

/// Columns of that table in a list or an expression.
pub(crate) fn column_lists() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let columns = table_on_line().map(columns_of).unwrap_or_default();
        let names = columns.into_iter().map(|(name, data_type)| (name, data_type.to_string()));
        last_names(current, names.collect())
    })
}

/// Tables of the store that the command line names, and their columns, in SQL.
pub(crate) fn sql() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_string_lossy();
        // An option may stand here, too.
        let store = store_on_line().filter(|_| !text.starts_with('-'));
        let Some((store, tables)) = store else { return Vec::new() };
        let is_named = |table: &String| text.contains(table.as_str());
        // Columns of the tables in the text, or of all of them as long as it has none.
        let any = tables.iter().any(is_named);
        let mut names = Vec::new();
        for table in &tables {
            names.push((table.clone(), "table".to_owned()));
            if let Some(opened) = store.table(table).ok().filter(|_| !any || is_named(table)) {
                let columns = columns_of(opened).into_iter();
                names.extend(
                    columns.map(|(name, data_type)| (name, format!("{data_type}, {table}"))),
                );
            }
        }
        last_names(current, names)
    })
}

/// A partition of the table that the command line names.
pub(crate) fn partition_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let snapshot = table_on_line().and_then(|table| table.snapshot().ok());
        let found = snapshot.and_then(|snapshot| partitions(&snapshot).ok()).unwrap_or_default();
        let paths = found.into_iter().map(|partition| partition.path.to_string());
        paths.filter(|path| path.starts_with(current)).map(CompletionCandidate::new).collect()
    })
}

fn described(name: impl Into<std::ffi::OsString>, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(help.to_owned().into()))
}

/// The words of the command line that is completed.
fn words() -> impl Iterator<Item = String> {
    std::env::args_os().skip_while(|word| word != "--").skip(2).filter_map(|w| w.into_string().ok())
}

/// The first table that the command line names.
fn table_on_line() -> Option<Table> {
    words().find_map(|word| {
        let (store, table) = word.trim_end_matches('/').rsplit_once('/')?;
        let store = Store::open(if store.is_empty() { "/" } else { store });
        let is_there = store.has_table(table).ok()?;
        if is_there { store.table(table).ok() } else { None }
    })
}

/// The first store that the command line names, and its tables.
fn store_on_line() -> Option<(Store, Vec<String>)> {
    words().find_map(|word| {
        let store = Some(Path::new(&word)).filter(|path| path.is_dir()).map(Store::open)?;
        let tables = store.tables().ok().filter(|tables| !tables.is_empty())?;
        Some((store, tables))
    })
}

fn columns_of(table: Table) -> Vec<(String, DataType)> {
    let Ok(snapshot) = table.snapshot() else { return Vec::new() };
    let columns = snapshot.schema().columns().iter();
    columns.map(|column| (column.name.to_string(), column.data_type.clone())).collect()
}

/// The text with each of the names that may become of its last word.
fn last_names(text: &OsStr, names: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let Some(text) = text.to_str() else { return Vec::new() };
    // zsh hands on the quote that begins the word.
    let text = text.strip_prefix(['\'', '"']).unwrap_or(text);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start = text.trim_end_matches(is_part).len();
    let (before, word) = text.split_at(start);
    let found = names.into_iter().filter(|(name, _)| name.starts_with(word));
    found
        .map(|(name, help)| {
            let is_plain = name.chars().all(is_part) && !name.starts_with(|c: char| c.is_numeric());
            let name = if is_plain { name } else { format!("\"{}\"", name.replace('"', "\"\"")) };
            described(format!("{before}{name}"), &help)
        })
        .collect()
}

/// Directories that may lead to what is wanted, with `/` at their end, and what is wanted.
fn paths(current: &OsStr, wanted: Names) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let (before, start) = current.split_at(current.rfind('/').map_or(0, |at| at + 1));
    let directory = if before.is_empty() { Path::new(".") } else { Path::new(before) };
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        if !name.starts_with(start) || is_hidden || !entry.path().is_dir() {
            continue;
        }
        let is_table = is_table(&entry.path());
        let is_store = !is_table && holds_tables(&entry.path());
        found.extend(match wanted {
            Names::Stores if is_table => None,
            Names::Stores if is_store => Some(described(format!("{before}{name}"), "store")),
            Names::Tables | Names::Both if is_table => {
                Some(described(format!("{before}{name}"), "table"))
            }
            Names::Stores | Names::Tables | Names::Both => {
                Some(CompletionCandidate::new(format!("{before}{name}/")))
            }
        });
    }
    found.sort_by(|a, b| a.get_value().cmp(b.get_value()));
    found
}

fn is_table(path: &Path) -> bool {
    path.join("CURRENT").is_file()
}

fn holds_tables(path: &Path) -> bool {
    let Ok(entries) = path.read_dir() else { return false };
    entries.flatten().any(|entry| is_table(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: &[CompletionCandidate]) -> Vec<&str> {
        candidates.iter().filter_map(|candidate| candidate.get_value().to_str()).collect()
    }

    #[test]
    fn the_last_word_is_completed() {
        let names = ["fare", "fare amount", "vendor"].map(|name| (name.to_owned(), String::new()));
        let of = |text: &str| last_names(OsStr::new(text), names.to_vec());
        assert_eq!(values(&of("SELECT a.f")), ["SELECT a.fare", "SELECT a.\"fare amount\""]);
        assert_eq!(values(&of("'SELECT v")), ["SELECT vendor"]);
        assert_eq!(values(&of("vendor, v")), ["vendor, vendor"]);
        assert_eq!(of("SELECT x.").len(), 3);
        assert!(of("SELECT z").is_empty());
    }

    #[test]
    fn paths_lead_to_tables() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for path in ["db/trips", "db/tips", "db/.hidden", "data/deep"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for path in ["db/trips/CURRENT", "db/tips/CURRENT", "data.csv"] {
            std::fs::File::create_new(at(path)).unwrap();
        }
        let of = |text: &str, wanted| {
            let found = paths(at(text).as_os_str(), wanted);
            let prefix = format!("{}/", root.path().display());
            let of = |value: &str| value.strip_prefix(&prefix).unwrap_or("?").to_owned();
            values(&found).into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(of("d", Names::Stores), ["data/", "db"]);
        assert_eq!(of("d", Names::Tables), ["data/", "db/"]);
        assert_eq!(of("db/", Names::Tables), ["db/tips", "db/trips"]);
        assert_eq!(of("db/tr", Names::Both), ["db/trips"]);
        assert_eq!(of("db/", Names::Stores), Vec::<String>::new());
        assert_eq!(of("none/x", Names::Both), Vec::<String>::new());
    }
}
