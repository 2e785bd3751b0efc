//! Reading a stream of bytes: buffers filled, errors told apart.

use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// A stream of bytes that may move to another thread.
pub type Bytes = Box<dyn Read + Send>;

/// Reads until the buffer is full or the source is over.
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

/// Reads until `text` holds `size` bytes; false at the end of the input.
pub(super) fn fill(
    name: &Path,
    bytes: &mut Bytes,
    text: &mut Vec<u8>,
    size: usize,
) -> Result<bool> {
    let before = text.len();
    text.resize(size.max(before), 0);
    let free = text.get_mut(before..).unwrap_or_default();
    let n = read_full(&mut **bytes, free).map_err(|e| read_error(name, e))?;
    text.truncate(before + n);
    Ok(text.len() >= size)
}

/// An error while reading an input: damage of compressed data is the input's fault, all else the
/// system's.
pub(super) fn read_error(name: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            Error::InvalidInput(format!(
                "{}: the compressed data are damaged or cut off: {error}",
                name.display()
            ))
        }
        // zstd reports damage without a kind of its own, and without an error number of the system.
        _ if error.raw_os_error().is_none() => {
            Error::InvalidInput(format!("{}: {error}", name.display()))
        }
        _ => Error::io(name, error),
    }
}
