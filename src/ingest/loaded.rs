//! What the ledger knows of an input: that it was loaded before, under this path or another, or
//! that it has changed since.
//!
//! A file is the one that was loaded if its path, size and modification time are; or else if its
//! bytes are, under any name. Bytes are compared by their hash, and a file is hashed only if some
//! known one has its size. Directories called `key=value` become columns, so that the same bytes
//! under other keys are other rows.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::sources::Input;
use super::sources::counted::hasher;
use super::sources::zip::{Member, open_raw};
use crate::error::{IoResult, Result};
use crate::manifest::{Id, LoadedSource};

/// What is known of an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// Nothing of it was loaded.
    New,
    /// Its bytes were loaded.
    Loaded(&'a LoadedSource),
    /// Other bytes were loaded from its path.
    Changed(&'a LoadedSource),
}

/// The complete sources of a ledger, by what identifies them.
#[derive(Debug, Default)]
pub(super) struct LoadedSources<'a> {
    by_path: HashMap<&'a str, &'a LoadedSource>,
    by_time: HashMap<(&'a str, u64, i64), &'a LoadedSource>,
    by_size: HashMap<u64, Vec<&'a LoadedSource>>,
}

impl<'a> LoadedSources<'a> {
    /// Of these sources, those that were loaded completely.
    pub(super) fn new(known: &'a [LoadedSource]) -> Self {
        let mut loaded = LoadedSources::default();
        for source in known.iter().filter(|source| source.done) {
            let newest = loaded.by_path.entry(&source.path).or_insert(source);
            if source.generation >= newest.generation {
                *newest = source;
            }
            loaded.by_time.insert((&source.path, source.size, source.modified), source);
            loaded.by_size.entry(source.size).or_default().push(source);
        }
        loaded
    }

    /// What is known of the file at `path`, whose ledger entry `new` is.
    pub(super) fn find(&self, new: &LoadedSource, path: &Path) -> Result<Known<'a>> {
        if let Some(same) = self.by_time.get(&(&*new.path, new.size, new.modified)) {
            return Ok(Known::Loaded(same));
        }
        let mut own = None;
        for source in self.by_size.get(&new.size).into_iter().flatten() {
            if !may_be_the_same(source, new) {
                continue;
            }
            let Some(known) = source.hash.or_else(|| hash_of(source)) else { continue };
            let own = match own {
                Some(own) => own,
                None => *own.insert(hash(path)?),
            };
            if own == known {
                return Ok(Known::Loaded(source));
            }
        }
        Ok(match self.by_path.get(&*new.path) {
            Some(before) if before.size > 0 => Known::Changed(before),
            _ => Known::New,
        })
    }
}

/// Whether equal bytes would be the same rows. Under another path, a source without rows says
/// nothing.
fn may_be_the_same(known: &LoadedSource, new: &LoadedSource) -> bool {
    known.path == new.path || known.rows > 0 && keys(&known.path).eq(keys(&new.path))
}

/// The directories of a path that are called `key=value`.
fn keys(path: &str) -> impl Iterator<Item = &str> {
    let directories = path.rsplit_once('/').map_or("", |(directories, _)| directories);
    directories.split('/').filter(|directory| directory.contains('='))
}

/// The hash of a source that was read in a way that leaves none, such as Parquet, if its file is
/// still there as it was loaded.
fn hash_of(source: &LoadedSource) -> Option<Id> {
    let path = Path::new(&*source.path);
    let found = std::fs::metadata(path).ok()?;
    let is_same = found.len() == source.size && modified(&found) == source.modified;
    is_same.then(|| hash(path).ok()).flatten()
}

/// A new ledger entry for an input that is a regular file; `None` for others.
pub(crate) fn identity(input: &Input) -> Result<Option<LoadedSource>> {
    if input.size().is_none() {
        return Ok(None);
    }
    // A member of an archive was modified when the archive was.
    let (path, within) = match input.as_member() {
        Some(member) => (member.archive(), input.name().strip_prefix(member.archive()).ok()),
        None => (input.name(), None),
    };
    let found = std::fs::metadata(path).with_path(path)?;
    let mut absolute = std::fs::canonicalize(path).with_path(path)?;
    absolute.extend(within);
    let path: Arc<str> = as_text(&absolute).into();
    let size = input.as_member().map_or(found.len(), Member::size);
    let modified = modified(&found);
    Ok(Some(LoadedSource { path, size, modified, ..LoadedSource::default() }))
}

/// When a file was last modified, in nanoseconds since 1970; 0 if nobody knows.
fn modified(found: &std::fs::Metadata) -> i64 {
    let modified = found.modified().ok().map(|at| match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    });
    modified.unwrap_or(0)
}

/// A path as UTF-8, with bytes that are none as `\xff`. Where there are such, `\` is written `\\`:
/// two such paths are never the same text.
fn as_text(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// XXH3-128 of a file's bytes.
fn hash(path: &Path) -> Result<Id> {
    let mut file = open_raw(path)?;
    let (mut hasher, mut buffer) = (hasher(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).with_path(path)? {
            0 => return Ok(hasher.finish_128().to_le_bytes()),
            n => hasher.write(buffer.get(..n).unwrap_or_default()),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Parquet is read in a way that leaves no hash.
    #[test]
    fn a_source_without_a_hash_is_read_again_while_it_is_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        for path in [&a, &b] {
            std::io::Write::write_all(&mut File::create_new(path).unwrap(), b"PAR1").unwrap();
        }
        let entry = |path: &Path| identity(&Input::path(path)).unwrap().unwrap();
        let known = [LoadedSource { rows: 1, done: true, ..entry(&a) }];
        let loaded = LoadedSources::new(&known);
        assert_eq!(loaded.find(&entry(&b), &b).unwrap(), Known::Loaded(&known[0]));
        let mut grown = File::options().append(true).open(&a).unwrap();
        std::io::Write::write_all(&mut grown, b"2").unwrap();
        assert_eq!(loaded.find(&entry(&b), &b).unwrap(), Known::New);
        assert_eq!(loaded.find(&entry(&a), &a).unwrap(), Known::Changed(&known[0]));
    }

    #[test]
    fn paths_that_are_not_utf_8_stay_apart() {
        let text = |bytes: &[u8]| as_text(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(text(b"/a\xff/b.csv"), "/a\\xff/b.csv");
        assert_eq!(text(b"/a\xfe/b.csv"), "/a\\xfe/b.csv");
        assert_eq!(text(b"/\\xfe\xff"), "/\\\\xfe\\xff");
        assert_eq!(text("/ä\\/b.csv".as_bytes()), "/ä\\/b.csv");
    }
}
