//! Keeps the files that people ask for out of the directories of tables.
//!
//! A table's directory is the store's alone: a file that somebody writes there may get the name of
//! one of its own, may be swept with them, and is in the way when the table is removed.

use std::path::{Path, PathBuf};

use crate::disk::{RealDisk, real};
use crate::error::{Error, Result};
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
}
