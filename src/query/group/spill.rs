//! Parts of groups written to a temporary file while memory is short, and read back.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::table::Part;
use crate::bytes::{Cursor, Writer, checksum_holds};
use crate::disk::TemporaryFile;
use crate::error::{Error, Result};

/// What one run of a fragment has spilled: one file, made when the first part is written, gone with
/// the run.
#[derive(Debug)]
pub(crate) struct Spill {
    directory: PathBuf,
    file: OnceLock<TemporaryFile>,
    creating: Mutex<()>,
    bytes: AtomicU64,
}

/// Where a part is in the file.
#[derive(Debug)]
pub(crate) struct SpillRange {
    start: u64,
    len: usize,
    checksum: u32,
    /// Groups of the part.
    pub(crate) groups: usize,
    /// Bytes that it takes in memory.
    pub(crate) memory: usize,
}

impl Spill {
    pub(crate) fn new(directory: &Path) -> Self {
        Spill {
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

    /// Writes a part, settled, compressed.
    pub(crate) fn write(&self, part: &Part<'_>) -> Result<SpillRange> {
        let mut plain = Writer::new();
        part.write(&mut plain);
        let bytes = lz4_flex::block::compress_prepend_size(plain.as_slice());
        let start = self.file()?.append(&bytes)?;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let checksum = crc32fast::hash(&bytes);
        Ok(SpillRange {
            start,
            len: bytes.len(),
            checksum,
            groups: part.len(),
            memory: part.memory(),
        })
    }

    /// Reads a part of the kind of `like`.
    pub(crate) fn read<'a>(&self, range: &SpillRange, like: &Part<'a>) -> Result<Part<'a>> {
        let damaged = |what: &str| Error::corrupt(range.start, what).in_file(&self.directory, 0);
        let mut bytes = vec![0; range.len];
        self.file()?.read(range.start, &mut bytes)?;
        if !checksum_holds(crc32fast::hash(&bytes), range.checksum) {
            return Err(damaged("a temporary file holds other bytes than were written"));
        }
        let plain = lz4_flex::block::decompress_size_prepended(&bytes)
            .map_err(|error| damaged(&error.to_string()))?;
        like.read(&mut Cursor::new(&plain))
            .map_err(|error| error.in_file(&self.directory, range.start))
    }
}
