//! What roots, chunks and ledger files begin and end with, and the one line of `CURRENT`. No I/O.
//!
//! ```text
//! envelope   magic 8 · format version u32 · zero u32 ·
//!            features u64 ×3: must understand, may read, may ignore
//! ```
//!
//! A reader refuses a newer version and any must-understand bit that it does not know; it may
//! ignore the other two sets. It believes both only behind a checksum: a flipped bit is damage, and
//! not a newer version. So the checksum of a file stays where it is in every version.

use crate::bytes::{Cursor, Writer, checksum_holds};
use crate::error::{Error, Result};

/// The version of the format that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;
/// Must-understand features that this reader knows: none yet.
const UNDERSTOOD: u64 = 0;

/// Appends an envelope; `may_read` are features that a reader may ignore, but a writer must know.
pub(super) fn write_envelope(magic: &[u8; 8], may_read: u64, out: &mut Writer) {
    out.put(magic);
    out.u32(VERSION);
    out.u32(0);
    for features in [0, may_read, 0] {
        out.u64(features);
    }
}

/// Checks an envelope and returns its may-read features. `what` names the structure in messages.
pub(super) fn read_envelope(magic: &[u8; 8], what: &str, cursor: &mut Cursor<'_>) -> Result<u64> {
    if cursor.take(8)? != magic {
        return Err(Error::corrupt(0, format!("this is not a {what} (magic bytes do not match)")));
    }
    let version = cursor.u32()?;
    if version != VERSION {
        return Err(Error::Unsupported(format!(
            "{what} of format version {version}; this build reads version {VERSION}, \
             a newer one is needed"
        )));
    }
    cursor.u32()?;
    let must_understand = cursor.u64()?;
    let may_read = cursor.u64()?;
    cursor.u64()?;
    if must_understand & !UNDERSTOOD != 0 {
        return Err(Error::Unsupported(format!(
            "{what} uses features {:#x} that this build does not know; a newer one is needed",
            must_understand & !UNDERSTOOD
        )));
    }
    Ok(may_read)
}

/// Appends the checksum of all bytes written so far.
pub(super) fn seal(mut out: Writer) -> Vec<u8> {
    let crc = crc32fast::hash(out.as_slice());
    out.u32(crc);
    out.into_vec()
}

/// Verifies the checksum at the end, and returns the bytes that it covers.
pub(super) fn unseal(bytes: &[u8]) -> Result<&[u8]> {
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::corrupt(0, format!("{} bytes hold no checksum", bytes.len())));
    };
    if !checksum_holds(crc32fast::hash(body), u32::from_le_bytes(*crc)) {
        return Err(Error::corrupt(body.len() as u64, "checksum does not match"));
    }
    Ok(body)
}

/// The contents of `CURRENT`: one human-readable line that ends in a checksum of the rest.
pub fn write_current(generation: u64) -> Vec<u8> {
    let line = format!("stylobate {VERSION} generation {generation:020}");
    sealed_line(&line).into_bytes()
}

/// A line with its checksum, which it ends in whatever its version is.
fn sealed_line(line: &str) -> String {
    format!("{line} crc {:08x}\n", crc32fast::hash(line.as_bytes()))
}

/// The generation that `CURRENT` names.
pub fn read_current(bytes: &[u8]) -> Result<u64> {
    let broken = || Error::corrupt(0, "CURRENT does not name a generation");
    let line = std::str::from_utf8(bytes).map_err(|_| broken())?;
    let (before, _) = line.rsplit_once(" crc ").ok_or_else(broken)?;
    if line != sealed_line(before) {
        return Err(broken());
    }
    let mut words = line.split(' ');
    if words.next() != Some("stylobate") {
        return Err(broken());
    }
    let version: u32 = words.next().and_then(|word| word.parse().ok()).ok_or_else(broken)?;
    if version > VERSION {
        return Err(Error::Unsupported(format!(
            "the table has format version {version}; this build reads version {VERSION}, \
             a newer one is needed"
        )));
    }
    let generation = words.nth(1).and_then(|word| word.parse().ok()).ok_or_else(broken)?;
    // Nothing but what the writer would have written.
    if bytes == write_current(generation) { Ok(generation) } else { Err(broken()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_is_one_exact_line() {
        let line = write_current(7);
        assert_eq!(read_current(&line).unwrap(), 7);
        for at in 0..line.len() {
            assert!(read_current(&line[..at]).is_err());
            for bit in 0..8 {
                let mut flipped = line.clone();
                flipped[at] ^= 1 << bit;
                let refusal = read_current(&flipped).unwrap_err();
                assert!(matches!(refusal, Error::Corrupt { .. }), "byte {at} bit {bit}: {refusal}");
            }
        }
        let newer = sealed_line("stylobate 2 anything at all");
        assert!(matches!(read_current(newer.as_bytes()), Err(Error::Unsupported(_))));
    }
}
