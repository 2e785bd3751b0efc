//! The views of a store: for each, a file with the statement that made it.
//!
//! The file lies beside the directories of the tables, so that a copy of the store has its views.
//! It appears when it is complete, and is replaced as a whole; what it says is for `sql/names` to
//! plan.

use std::path::{Path, PathBuf};

use super::{Store, check_name};
use crate::disk::{Disk, durable, is_missing};
use crate::error::{Error, Result};
use crate::limits::MAX_VIEW_BYTES;
use crate::manifest::TableDir;

/// What the names of their files end in.
const EXTENSION: &str = ".view";

/// The first words of a file.
const MAGIC: &str = "stylobate view ";
const VERSION: u32 = 1;

/// The longest first line that any version has.
const MAX_LINE_BYTES: usize = 256;

impl Store {
    /// The names of the views, sorted. A damaged one is among them.
    pub fn views(&self) -> Result<Vec<String>> {
        let entries = self.disk().list(self.path())?;
        let named = entries.iter().filter(|entry| !entry.is_dir);
        let names = named.filter_map(|entry| entry.name.strip_suffix(EXTENSION));
        Ok(names.filter(|name| check_name(name).is_ok()).map(str::to_owned).collect())
    }

    /// The statement that made a view; `None` if there is no view of this name.
    pub fn view(&self, name: &str) -> Result<Option<String>> {
        let Some(path) = self.view_path(name) else { return Ok(None) };
        match self.disk().read(&path, (MAX_VIEW_BYTES + MAX_LINE_BYTES) as u64) {
            Ok(bytes) => parse(&path, &bytes).map(|statement| Some(statement.to_owned())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a view of this name, be it damaged.
    pub fn has_view(&self, name: &str) -> Result<bool> {
        self.view_path(name).map_or(Ok(false), |path| self.disk().exists(&path))
    }

    /// Keeps the statement that makes a view, in place of the one that has made it so far. After a
    /// crash, the view is what it was before, or what it is now.
    pub fn keep_view(&self, name: &str, statement: &str) -> Result<()> {
        check_name(name)?;
        let Some(path) = self.view_path(name) else {
            return Err(Error::InvalidInput(format!(
                "'{name}' is too long for the name of a view"
            )));
        };
        if statement.len() > MAX_VIEW_BYTES {
            return Err(Error::LimitExceeded(format!(
                "the statement of view {name} has {} bytes, and {MAX_VIEW_BYTES} are the most",
                statement.len()
            )));
        }
        let crc = crc32fast::hash(statement.as_bytes());
        let bytes = format!("{MAGIC}{VERSION} crc {crc:08x}\n{statement}");
        durable::swap(self.disk(), &path, bytes.as_bytes())?;
        self.disk().sync_dir(self.path())
    }

    /// Drops a view; `false` if there is none of this name.
    pub fn drop_view(&self, name: &str) -> Result<bool> {
        let Some(path) = self.view_path(name) else { return Ok(false) };
        match self.disk().remove(&path) {
            Ok(()) => self.disk().sync_dir(self.path()).map(|()| true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The file of a view; `None` if the name is too long for a file of it.
    fn view_path(&self, name: &str) -> Option<PathBuf> {
        // Beside it there is a temporary file, whose name is 37 bytes longer.
        let fits = check_name(name).is_ok() && name.len() <= 200;
        fits.then(|| self.path().join(format!("{name}{EXTENSION}")))
    }
}

/// Whether a directory that may be a table's has the name of a view.
pub(super) fn is_view(disk: &dyn Disk, dir: &TableDir) -> Result<bool> {
    let mut path = dir.path().as_os_str().to_owned();
    path.push(EXTENSION);
    disk.exists(Path::new(&path))
}

/// Refuses to make a table that has the name of a view.
pub(super) fn refuse_table(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    match is_view(disk, dir)? {
        true => Err(Error::InvalidInput(format!(
            "{name} is a view of the store: give the table another name, or drop the view with DROP \
             VIEW {name}",
            name = dir.name()
        ))),
        false => Ok(()),
    }
}

/// The statement in a file.
fn parse<'b>(path: &Path, bytes: &'b [u8]) -> Result<&'b str> {
    let corrupt = |what: &str| {
        Err(Error::Corrupt { file: path.to_owned(), offset: 0, what: what.to_owned() })
    };
    let line = bytes.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n');
    let (line, statement) = match line.map(|end| bytes.split_at(end)) {
        Some((line, [b'\n', statement @ ..])) => (std::str::from_utf8(line), statement),
        _ => return corrupt("the first line does not end"),
    };
    let words = line.ok().and_then(|line| line.strip_prefix(MAGIC)?.split_once(" crc "));
    let numbers = words.and_then(|(version, crc)| {
        let is_hexadecimal = crc.len() == 8 && crc.bytes().all(|digit| digit.is_ascii_hexdigit());
        let crc = u32::from_str_radix(crc, 16).ok().filter(|_| is_hexadecimal)?;
        Some((version.parse::<u32>().ok()?, crc))
    });
    let Some((version, crc)) = numbers else {
        return corrupt("the first line is not that of a view");
    };
    if crc32fast::hash(statement) != crc {
        return corrupt(
            "the checksum of the statement differs; if someone has changed the file, CREATE OR \
             REPLACE VIEW makes the view anew",
        );
    }
    if version != VERSION {
        return Err(Error::Unsupported(format!(
            "'{}' is of version {version}, and this program knows version {VERSION}; update it",
            path.display()
        )));
    }
    match std::str::from_utf8(statement) {
        Ok(statement) => Ok(statement),
        Err(_) => corrupt("the statement is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const STATEMENT: &str = "CREATE VIEW v AS\nSELECT 'ä' -- and so on";

    #[test]
    fn views_are_kept_replaced_and_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path());
        assert_eq!(store.view("v").unwrap(), None);
        store.keep_view("v", STATEMENT).unwrap();
        store.keep_view("V 2", "CREATE VIEW \"V 2\" AS SELECT 1").unwrap();
        assert_eq!(store.views().unwrap(), ["V 2", "v"]);
        assert_eq!(store.tables().unwrap(), [""; 0]);
        assert_eq!(store.view("v").unwrap().as_deref(), Some(STATEMENT));
        store.keep_view("v", "CREATE VIEW v AS SELECT 2").unwrap();
        assert_eq!(store.view("v").unwrap().as_deref(), Some("CREATE VIEW v AS SELECT 2"));
        assert!(store.drop_view("v").unwrap());
        assert!(!store.drop_view("v").unwrap());
        assert_eq!(store.views().unwrap(), ["V 2"]);
        for name in ["", "a/b", ".v", "\0"] {
            assert!(store.keep_view(name, STATEMENT).is_err(), "{name:?}");
            assert_eq!(store.view(name).unwrap(), None);
        }
        let long = "x".repeat(MAX_VIEW_BYTES + 1);
        assert!(matches!(store.keep_view("v", &long), Err(Error::LimitExceeded(_))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path());
        store.keep_view("v", STATEMENT).unwrap();
        let path = dir.path().join("v.view");
        let bytes = fs::read(&path).unwrap();
        let damaged = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            match store.view("v") {
                // The version: what it covers is whole.
                Err(Error::Unsupported(_)) => bytes.starts_with(MAGIC.as_bytes()),
                Err(Error::Corrupt { .. }) => true,
                // A digit of the checksum in upper case is the same number.
                Ok(read) => read.as_deref() == Some(STATEMENT),
                Err(_) => false,
            }
        };
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(damaged(&flipped), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(damaged(&bytes[..length]), "{length} bytes");
        }
    }
}
