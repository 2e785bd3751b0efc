//! The buffer between the text formats and their output.

use std::io::Write as _;

use crate::errors::Failure;
use crate::output::Output;

/// A buffer is written when it is about this large.
pub(super) const FLUSH_BYTES: usize = 256 << 10;

/// Writes the buffer and empties it.
pub(super) fn flush(buffer: &mut Vec<u8>, output: &mut Output) -> Result<(), Failure> {
    let written = output.write_all(buffer);
    buffer.clear();
    written.map_err(|error| output.failure(&error))
}
