//! Parts of groups written to a temporary file while memory is short, and read back.

use std::path::Path;

use super::super::spill::{SpillFile, SpilledBytes};
use super::table::Part;
use crate::bytes::{Cursor, Writer};
use crate::error::Result;

/// What one run of a fragment has spilled.
#[derive(Debug)]
pub(crate) struct Spill(SpillFile);

/// Where a part is in the file.
#[derive(Debug)]
pub(crate) struct SpillRange {
    place: SpilledBytes,
    /// Groups of the part.
    pub(crate) groups: usize,
    /// Bytes that it takes in memory.
    pub(crate) memory: usize,
}

impl Spill {
    pub(crate) fn new(directory: &Path) -> Self {
        Spill(SpillFile::new(directory))
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Files made.
    pub(crate) fn files(&self) -> u64 {
        self.0.files()
    }

    /// Writes a part, settled.
    pub(crate) fn write(&self, part: &Part<'_>) -> Result<SpillRange> {
        let mut plain = Writer::new();
        part.write(&mut plain);
        let place = self.0.write(plain.as_slice())?;
        Ok(SpillRange { place, groups: part.len(), memory: part.memory() })
    }

    /// Reads a part of the kind of `like`.
    pub(crate) fn read<'a>(&self, range: &SpillRange, like: &Part<'a>) -> Result<Part<'a>> {
        let plain = self.0.read(&range.place)?;
        like.read(&mut Cursor::new(&plain)).map_err(|error| self.0.damaged(error, &range.place))
    }
}
