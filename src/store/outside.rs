//! Keeps the files that people ask for out of the directories of tables, and new tables out of the
//! directories of other things.
//!
//! A table's directory is the store's alone: a file that somebody writes there may get the name of
//! one of its own, may be swept with them, and is in the way when the table is removed. A store
//! that became a table would hide its tables.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, Entry, RealDisk, is_missing, real};
use crate::error::{Error, Result};
use crate::manifest::layout::{FileKind, file_kind};
use crate::manifest::{TableDir, presence};

/// Refuses a path, which need not exist yet, in the directory of a table.
pub fn check_outside_tables(path: &Path) -> Result<()> {
    match enclosing_table(path)? {
        Some(table) => Err(Error::InvalidInput(format!(
            "{}: is in the directory of a table, {}, which only its writer changes; write to a \
             place outside of it",
            path.display(),
            table.display()
        ))),
        None => Ok(()),
    }
}

/// The directory of the table that a path is, or is in.
pub(crate) fn enclosing_table(path: &Path) -> Result<Option<PathBuf>> {
    let existing = real::nearest_existing(path)?;
    let is_table = |dir: &&Path| presence::looks_like_table(&RealDisk, &TableDir::new(*dir));
    Ok(existing.ancestors().find(is_table).map(Path::to_path_buf))
}

/// Refuses to make a table of a directory that has something else in it, be it the tables of a
/// store. What a writer that was killed left is no hindrance, nor are hidden files.
pub(super) fn refuse_foreign(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    let entries = match disk.list(dir.path()) {
        Err(error) if is_missing(&error) => return Ok(()),
        entries => entries?,
    };
    let is_table = |entry: &Entry| {
        let below = TableDir::new(dir.path().join(&entry.name));
        entry.is_dir && !matches!(presence::current(disk, &below), Ok(None))
    };
    let is_own = |entry: &Entry| match entry.is_dir {
        // A table of a store may have one of these names.
        true => ["manifest", "data", "damaged"].contains(&&*entry.name) && !is_table(entry),
        false => {
            ["CURRENT", "LOCK", "MOVING"].contains(&&*entry.name)
                || file_kind(&entry.name) != FileKind::Foreign
        }
    };
    let is_foreign = |entry: &&Entry| !is_own(entry) && !entry.name.starts_with('.');
    let Some(foreign) = entries.iter().find(is_foreign) else { return Ok(()) };
    // A table with something beside it is one all the same.
    if !matches!(presence::current(disk, dir), Ok(None)) {
        return Ok(());
    }
    let (path, name) = (dir.path().display(), &foreign.name);
    let table = entries.iter().find(|entry| is_foreign(entry) && is_table(entry));
    Err(Error::InvalidInput(match table {
        Some(table) => format!(
            "'{path}' is a store, with the table '{}', and cannot become a table; name a table in \
             it, as in {path}/TABLE",
            table.name
        ),
        None => format!(
            "'{path}' is no table: there are other things in it, such as '{name}'; name a table in \
             it, as in {path}/TABLE, or a directory that is new or empty"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DataType, Schema};
    use crate::store::{Store, TableOptions};

    #[test]
    fn paths_in_tables_are_refused_wherever_they_lead_through() {
        let dir = tempfile::tempdir().unwrap();
        let table = Store::open(dir.path().join("db")).table("t").unwrap();
        let schema = Schema::from_names([("id", DataType::Int64)]).unwrap();
        let mut writer = table.writer(Some((schema.clone(), TableOptions::default()))).unwrap();
        let inside = ["db/t/x.csv", "db/t/data/x/y.csv", "db/t/CURRENT", "link/x.csv", "db/t"];
        let outside = ["db/x.csv", "x.csv", "db", "db/u/x.csv", "nosuch/t/x.csv"];
        std::os::unix::fs::symlink("db/t/data", dir.path().join("link")).unwrap();
        // While the first commit is on its way, after it, and after CURRENT is lost.
        for step in 0..3 {
            for (paths, refused) in [(&inside, true), (&outside, false)] {
                for path in paths {
                    let checked = check_outside_tables(&dir.path().join(path));
                    assert_eq!(checked.is_err(), refused, "step {step}: {path}: {checked:?}");
                }
            }
            match step {
                0 => drop(writer.commit(schema.clone(), vec![]).unwrap()),
                _ => {
                    let current = table.path().join("CURRENT");
                    let _ = crate::disk::Disk::remove(&RealDisk, &current);
                }
            }
        }
        // Other programs have files of this name too.
        let other = dir.path().join("other");
        crate::disk::Disk::create_dir_all(&RealDisk, &other).unwrap();
        crate::disk::durable::write_new(&RealDisk, &other.join("CURRENT"), b"MANIFEST-5").unwrap();
        assert!(check_outside_tables(&other.join("x.csv")).is_ok());
    }

    #[test]
    fn a_directory_of_other_things_becomes_no_table() {
        let root = tempfile::tempdir().unwrap();
        let create = |path: &str| {
            let path = root.path().join(path);
            let store = Store::open(path.parent().unwrap());
            let table = store.table(path.file_name().unwrap().to_str().unwrap()).unwrap();
            let schema = Schema::from_names([("id", DataType::Int64)]).unwrap();
            let checked = table.check_writable();
            let made = table.writer(Some((schema.clone(), TableOptions::default())));
            let made = made.and_then(|mut writer| writer.commit(schema, vec![]));
            assert_eq!(checked.is_ok(), made.is_ok(), "{made:?}");
            made.map_err(|error| error.to_string())
        };
        let touch = |name: &str| {
            let path = root.path().join(name);
            Disk::create_dir_all(&RealDisk, path.parent().unwrap()).unwrap();
            crate::disk::durable::write_new(&RealDisk, &path, b"").unwrap();
        };
        // A store, also one whose table has the name of a part of a table.
        for table in ["db/t", "other/data"] {
            create(table).unwrap();
            let store = table.split('/').next().unwrap();
            let error = create(store).unwrap_err();
            assert!(error.contains(" is a store, with the table "), "{error}");
            assert!(error.contains(&format!("{store}/TABLE")), "{error}");
            assert!(!root.path().join(store).join("CURRENT").exists());
        }
        touch("keep/notes.txt");
        let error = create("keep").unwrap_err();
        assert!(error.contains("such as 'notes.txt'"), "{error}");
        // New, empty, hidden files, what a killed writer left, and a table with a file beside it.
        Disk::create_dir_all(&RealDisk, &root.path().join("x/empty")).unwrap();
        touch("x/hidden/.DS_Store");
        touch("x/begun/CREATING");
        touch("x/begun/LOCK");
        create("x/beside").unwrap();
        touch("x/beside/notes.txt");
        for table in ["x/new", "x/empty", "x/hidden", "x/begun", "x/beside"] {
            create(table).unwrap();
        }
    }
}
