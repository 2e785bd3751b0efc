//! Bytes that a run has no memory for, compressed, in a temporary file that is gone with the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::bytes::checksum_holds;
use crate::disk::TemporaryFile;
use crate::error::{Error, Result};

/// A file that is made when the first bytes are written.
#[derive(Debug)]
pub(crate) struct SpillFile {
    directory: PathBuf,
    file: OnceLock<TemporaryFile>,
    creating: Mutex<()>,
    bytes: AtomicU64,
}

/// Where bytes are in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpilledBytes {
    pub(crate) start: u64,
    len: usize,
    checksum: u32,
}

impl SpillFile {
    /// None yet.
    pub(crate) fn new(directory: &Path) -> Self {
        SpillFile {
            directory: directory.to_path_buf(),
            file: OnceLock::new(),
            creating: Mutex::new(()),
            bytes: AtomicU64::new(0),
        }
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Files made.
    pub(crate) fn files(&self) -> u64 {
        u64::from(self.file.get().is_some())
    }

    fn file(&self) -> Result<&TemporaryFile> {
        let _one = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let made = TemporaryFile::create(&self.directory)?;
        Ok(self.file.get_or_init(|| made))
    }

    /// Writes bytes.
    pub(crate) fn write(&self, plain: &[u8]) -> Result<SpilledBytes> {
        let bytes = lz4_flex::block::compress_prepend_size(plain);
        let start = self.file()?.append(&bytes)?;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(SpilledBytes { start, len: bytes.len(), checksum: crc32fast::hash(&bytes) })
    }

    /// Reads bytes back.
    pub(crate) fn read(&self, place: &SpilledBytes) -> Result<Vec<u8>> {
        let mut bytes = vec![0; place.len];
        self.file()?.read(place.start, &mut bytes)?;
        if !checksum_holds(crc32fast::hash(&bytes), place.checksum) {
            let what = "a temporary file holds other bytes than were written";
            return Err(self.damaged(Error::corrupt(0, what), place));
        }
        lz4_flex::block::decompress_size_prepended(&bytes)
            .map_err(|error| self.damaged(Error::corrupt(0, error.to_string()), place))
    }

    /// An error in bytes that were read.
    pub(crate) fn damaged(&self, error: Error, place: &SpilledBytes) -> Error {
        error.in_file(&self.directory, place.start)
    }
}
