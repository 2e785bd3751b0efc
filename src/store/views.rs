//! The views of a store: for each, a file with the statement that made it.
//!
//! The file lies beside the directories of the tables, so that a copy of the store has its views.
//! It appears when it is complete, and is replaced as a whole; what it says is for `sql/names` to
//! plan.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Store, check_name};
use crate::disk::{Disk, LockWait, WriterLock, durable, is_missing};
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
        Ok(names.filter(|name| can_be_view(name)).map(str::to_owned).collect())
    }

    /// The statement that made a view; `None` if there is no view of this name.
    pub fn view(&self, name: &str) -> Result<Option<String>> {
        let Some(path) = self.found_view(name)? else { return Ok(None) };
        match self.disk().read(&path, (MAX_VIEW_BYTES + MAX_LINE_BYTES) as u64) {
            Ok(bytes) => parse(&path, &bytes).map(|statement| Some(statement.to_owned())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a view of this name, be it damaged.
    pub fn has_view(&self, name: &str) -> Result<bool> {
        self.found_view(name).map(|path| path.is_some())
    }

    /// Keeps the statement that makes a view. One of this name that is there is `replaced` or left
    /// as it is; without a word of that, it is an error. After a crash, the view is what it was
    /// before, or what it is now.
    pub fn keep_view(&self, name: &str, statement: &str, replaced: Option<bool>) -> Result<()> {
        check_name(name)?;
        let Some(path) = self.view_path(name) else {
            return Err(Error::InvalidInput(format!(
                "'{name}' is not the name of a view: at most {MAX_NAME_BYTES} bytes, and no @ with \
                 a number at the end, which means a generation of a table"
            )));
        };
        if statement.len() > MAX_VIEW_BYTES {
            return Err(Error::LimitExceeded(format!(
                "the statement of view {name} has {} bytes, and {MAX_VIEW_BYTES} are the most",
                statement.len()
            )));
        }
        let _lock = self.lock_views()?;
        match (self.has_view(name)?, replaced) {
            (true, Some(false)) => return Ok(()),
            (true, None) => return Err(exists(name)),
            (false, _) if self.disk().exists(&path)? => {
                return Err(Error::InvalidInput(format!(
                    "'{}' is in the way of view {name}; give the view another name",
                    path.display()
                )));
            }
            _ => {}
        }
        if self.has_table(name)? {
            let what = format!("there is a table {name} already; give the view another name");
            return Err(Error::InvalidInput(what));
        }
        self.sweep_views();
        let crc = crc32fast::hash(statement.as_bytes());
        let bytes = format!("{MAGIC}{VERSION} crc {crc:08x}\n{statement}");
        durable::swap(self.disk(), &path, bytes.as_bytes())?;
        self.disk().sync_dir(self.path())
    }

    /// Drops a view; `false` if there is none of this name.
    pub fn drop_view(&self, name: &str) -> Result<bool> {
        let Some(path) = self.found_view(name)? else { return Ok(false) };
        let _lock = self.lock_views()?;
        self.sweep_views();
        match self.disk().remove(&path) {
            Ok(()) => self.disk().sync_dir(self.path()).map(|()| true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// One writer of views at a time; others wait for it, since each is done at once.
    fn lock_views(&self) -> Result<WriterLock> {
        let wait = LockWait { most: self.wait().most.max(WAIT), ..self.wait().clone() };
        let path = self.path().join(LOCK);
        WriterLock::acquire(self.disk(), &path, "the views of the store", &wait, || Ok(()))
    }

    /// Removes what a writer of views has left that was killed, best effort.
    fn sweep_views(&self) {
        let left = self.disk().list(self.path()).unwrap_or_default();
        let is_left = |name: &str| {
            let name = name.strip_suffix(durable::TEMPORARY);
            let of_view = name.and_then(|name| name.rsplit_once('.'));
            of_view.is_some_and(|(view, id)| view.ends_with(EXTENSION) && id.len() == 32)
        };
        for entry in left.iter().filter(|entry| !entry.is_dir && is_left(&entry.name)) {
            let _ = self.disk().remove(&self.path().join(&entry.name));
        }
    }

    /// The file of a view, if the name can be one.
    fn view_path(&self, name: &str) -> Option<PathBuf> {
        can_be_view(name).then(|| self.path().join(format!("{name}{EXTENSION}")))
    }

    /// The file of a view, if there is one.
    fn found_view(&self, name: &str) -> Result<Option<PathBuf>> {
        let Some(path) = self.view_path(name) else { return Ok(None) };
        Ok(is_file(self.disk(), &path)?.then_some(path))
    }
}

/// The longest name of a view. Beside its file there is a temporary one with a longer name.
const MAX_NAME_BYTES: usize = 200;

/// Held while views are written. No table and no view has such a name.
const LOCK: &str = ".views.lock";

/// How long a writer of views waits for another at least.
const WAIT: Duration = Duration::from_secs(10);

fn can_be_view(name: &str) -> bool {
    check_name(name).is_ok() && name.len() <= MAX_NAME_BYTES && !is_generation(name)
}

/// Whether a name means a generation of a table.
fn is_generation(name: &str) -> bool {
    let number = name.rsplit_once('@').map(|(_, number)| number);
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Whether there is a regular file; a directory is a table's.
fn is_file(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.len(path) {
        Ok(_) => Ok(true),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error that a table or view to be created exists.
pub(crate) fn exists(name: &str) -> Error {
    Error::InvalidInput(format!("there is a table or view {name} already"))
}

/// The error that there is no such table.
pub(crate) fn no_table(disk: &dyn Disk, dir: &TableDir) -> Error {
    let (name, path) = (dir.name(), dir.path());
    Error::NotFound(match is_view(disk, dir) {
        Ok(true) => format!(
            "'{name}' is a view, not a table: sty query {} 'FROM {name}'",
            durable::parent(path).display()
        ),
        _ => format!("there is no table '{name}' ({})", path.display()),
    })
}

/// Whether a directory that may be a table's has the name of a view.
fn is_view(disk: &dyn Disk, dir: &TableDir) -> Result<bool> {
    let mut path = dir.path().as_os_str().to_owned();
    path.push(EXTENSION);
    if can_be_view(dir.name()) { is_file(disk, Path::new(&path)) } else { Ok(false) }
}

/// Refuses to make a table that has the name of a view, of the file of one, or of a generation.
pub(super) fn refuse_table(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    let name = dir.name();
    if is_view(disk, dir)? {
        return Err(Error::InvalidInput(format!(
            "{name} is a view of the store: give the table another name, or drop the view with \
             DROP VIEW {name}"
        )));
    }
    let why = match name {
        _ if name.ends_with(EXTENSION) => "the files of views end in .view",
        _ if is_generation(name) => "an @ with a number at the end means a generation of a table",
        _ => return Ok(()),
    };
    match disk.exists(dir.path())? {
        true => Ok(()),
        false => Err(Error::InvalidInput(format!("'{name}' is not the name of a table: {why}"))),
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

    #[expect(clippy::disallowed_methods, reason = "damages a file, and need not be durable")]
    fn put(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
    }

    const STATEMENT: &str = "CREATE VIEW v AS\nSELECT 'ä' -- and so on";

    #[test]
    fn views_are_kept_replaced_and_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path());
        assert_eq!(store.view("v").unwrap(), None);
        store.keep_view("v", STATEMENT, None).unwrap();
        store.keep_view("V 2", "CREATE VIEW \"V 2\" AS SELECT 1", None).unwrap();
        assert_eq!(store.views().unwrap(), ["V 2", "v"]);
        assert_eq!(store.tables().unwrap(), [""; 0]);
        assert_eq!(store.view("v").unwrap().as_deref(), Some(STATEMENT));
        assert!(store.keep_view("v", "CREATE VIEW v AS SELECT 2", None).is_err());
        store.keep_view("v", "CREATE VIEW v AS SELECT 2", Some(false)).unwrap();
        assert_eq!(store.view("v").unwrap().as_deref(), Some(STATEMENT));
        // What a writer that was killed has left goes with the next one.
        let left = dir.path().join(format!("v.view.{}.tmp", "0a".repeat(16)));
        put(&left, b"x");
        store.keep_view("v", "CREATE VIEW v AS SELECT 2", Some(true)).unwrap();
        assert!(!left.exists());
        assert_eq!(store.view("v").unwrap().as_deref(), Some("CREATE VIEW v AS SELECT 2"));
        assert!(store.drop_view("v").unwrap());
        assert!(!store.drop_view("v").unwrap());
        assert_eq!(store.views().unwrap(), ["V 2"]);
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        for name in ["", "a/b", ".v", "\0", "t@1", &long] {
            assert!(store.keep_view(name, STATEMENT, None).is_err(), "{name:?}");
            assert_eq!(store.view(name).unwrap(), None);
        }
        let long = "x".repeat(MAX_VIEW_BYTES + 1);
        assert!(matches!(store.keep_view("v", &long, None), Err(Error::LimitExceeded(_))));
        let mut files: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, [LOCK, "V 2.view"]);
    }

    #[test]
    fn tables_and_views_have_one_set_of_names() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path());
        let schema = crate::model::Schema::from_names([("a", crate::model::DataType::Int64)]);
        let schema = schema.unwrap();
        let create = || Some((schema.clone(), crate::store::TableOptions::default()));
        let make = |name: &str| {
            store.table(name)?.writer(create())?.commit(schema.clone(), vec![]).map(drop)
        };
        make("t").unwrap();
        assert!(store.keep_view("t", STATEMENT, None).is_err());
        assert!(store.keep_view("t", STATEMENT, Some(true)).is_err());
        store.keep_view("v", STATEMENT, None).unwrap();
        for name in ["v", "w.view", "t@5"] {
            assert!(matches!(make(name), Err(Error::InvalidInput(_))), "{name}");
            assert!(!dir.path().join(name).exists());
        }
        // A directory is no view.
        fs::create_dir(dir.path().join("x.view")).unwrap();
        assert!(!store.has_view("x").unwrap() && store.view("x").unwrap().is_none());
        assert!(store.keep_view("x", STATEMENT, None).is_err());
        assert_eq!(store.views().unwrap(), ["v"]);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path());
        store.keep_view("v", STATEMENT, None).unwrap();
        let path = dir.path().join("v.view");
        let bytes = fs::read(&path).unwrap();
        let damaged = |bytes: &[u8]| {
            put(&path, bytes);
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
