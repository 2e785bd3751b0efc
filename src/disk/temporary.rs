//! Temporary files, to which queries spill data that does not fit into memory.
//!
//! An open file has no name, so that nothing is left of it however the process ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A file that any thread can append to, and read at any offset.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: File,
    directory: PathBuf,
    len: AtomicU64,
}

impl TemporaryFile {
    /// An empty file in a directory.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let file =
            tempfile::tempfile_in(directory).map_err(|error| failed(directory, "create", error))?;
        Ok(TemporaryFile { file, directory: directory.to_path_buf(), len: AtomicU64::new(0) })
    }

    /// Appends bytes, and returns their offset.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<u64> {
        let start = self.len.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file
            .write_all_at(bytes, start)
            .map_err(|error| failed(&self.directory, "write", error))?;
        Ok(start)
    }

    /// Fills `bytes` with those at offset `start`.
    pub(crate) fn read(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(bytes, start)
            .map_err(|error| failed(&self.directory, "read", error))
    }
}

/// An error of `tempfile` without the path in it: the user gave another one.
pub fn without_path(error: std::io::Error) -> std::io::Error {
    match error.to_string().rsplit_once(" at path ") {
        Some((what, _)) => std::io::Error::new(error.kind(), what),
        None => error,
    }
}

/// Whether there is no space left.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// An error of a temporary file, with what to do about it.
pub(crate) fn failed(directory: &Path, what: &str, error: std::io::Error) -> Error {
    let hint = if is_full(&error) { "; free some space there, or use " } else { "; use " };
    let message = format!(
        "cannot {what} a temporary file: {error}{hint}another --temp-dir or a larger --memory-limit"
    );
    Error::io(directory, std::io::Error::new(error.kind(), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = TemporaryFile::create(directory.path()).unwrap();
        assert_eq!(file.append(b"one").unwrap(), 0);
        assert_eq!(file.append(b"three").unwrap(), 3);
        let mut bytes = [0; 4];
        file.read(4, &mut bytes).unwrap();
        assert_eq!(&bytes, b"hree");
        assert!(file.read(5, &mut bytes).is_err());
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        let missing = directory.path().join("missing");
        let error = TemporaryFile::create(&missing).unwrap_err().to_string();
        assert!(error.starts_with(&missing.display().to_string()), "{error}");
        assert!(error.contains("--temp-dir"), "{error}");
    }
}
