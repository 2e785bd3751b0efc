//! Helpers for reading streams of bytes.

use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// A stream of bytes that can move to another thread.
pub(crate) type Bytes = Box<dyn Read + Send>;

/// Reads until the buffer is full or the stream ends.
pub(super) fn read_full(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(free) = buffer.get_mut(filled..).filter(|free| !free.is_empty()) {
        match source.read(free) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// How far a text was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// To its size.
    Full,
    /// As far as a live input had come by a tick.
    Paused,
    /// To the end of the input.
    End,
}

/// Reads until `text` has `size` bytes, until a tick of a live input, or until the input ends.
pub(super) fn fill(
    name: &Path,
    bytes: &mut Bytes,
    text: &mut Vec<u8>,
    size: usize,
) -> Result<Filled> {
    let mut filled = text.len();
    text.resize(size.max(filled), 0);
    let mut end = Filled::Full;
    while let Some(free) = text.get_mut(filled..).filter(|free| !free.is_empty()) {
        match bytes.read(free) {
            Ok(0) => {
                end = Filled::End;
                break;
            }
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                end = Filled::Paused;
                break;
            }
            Err(e) => return Err(read_error(name, e)),
        }
    }
    text.truncate(filled);
    Ok(end)
}

/// Classifies an error while reading an input: damaged compressed data are invalid input, anything
/// else is an I/O error.
pub(super) fn read_error(name: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            Error::InvalidInput(format!(
                "{}: the compressed data are damaged or cut off: {error}",
                name.display()
            ))
        }
        // zstd reports damage without an error kind of its own and without an OS error number.
        _ if error.raw_os_error().is_none() => {
            Error::InvalidInput(format!("{}: {error}", name.display()))
        }
        _ => Error::io(name, error),
    }
}
