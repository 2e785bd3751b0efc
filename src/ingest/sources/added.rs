//! The rows that were added to a text file after it was loaded.
//!
//! Only a text that is not compressed can grow by rows alone: CSV and JSON lines. Its first bytes
//! must be those that were loaded, which their hash says, and end with a line. They are read once
//! more for that, and where the rows are read: header, delimiter and numbers of lines come from the
//! whole file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::compression::{Compression, recognise};
use super::counted::{Hasher, hasher};
use super::encoding::{TextEncoding, transcode};
use super::format::{Format, find_format};
use super::stream::{Bytes, read_error, read_full};
use super::zip::{self, open_raw};
use crate::error::{IoResult, Result};
use crate::manifest::Id;

/// Where the added rows of a file begin.
pub(in crate::ingest) struct Added {
    /// Bytes before them.
    pub(in crate::ingest) from: u64,
    /// Where their last whole line ends: what is behind it may not be complete.
    pub(in crate::ingest) to: u64,
    /// The hasher of the whole file after those bytes.
    hasher: Hasher,
}

impl Added {
    /// The rows after the first `size` bytes of a file, whose hash is `loaded`. The error says why
    /// they cannot be told from rows that were loaded.
    pub(in crate::ingest) fn find(
        path: &Path,
        encoding: Option<TextEncoding>,
        size: u64,
        loaded: Option<Id>,
    ) -> Result<Result<Added, &'static str>> {
        if zip::find(path)?.is_some() {
            return Ok(Err("it is in an archive"));
        }
        let mut file = File::open(path).with_path(path)?;
        let mut head = vec![0; 8];
        let length = read_full(&mut file, &mut head).with_path(path)?;
        head.truncate(length);
        if recognise(&head) != Ok(Compression::None) {
            return Ok(Err("it is compressed"));
        }
        let format = find_format(path, &head);
        if !matches!(format, Ok(Format::Csv | Format::Tsv | Format::Json)) {
            return Ok(Err("it is neither CSV nor JSON lines"));
        }
        let encoding = TextEncoding::from_byte_order_mark(&head).or(encoding);
        if encoding.is_some_and(|encoding| !encoding.has_plain_lines()) {
            return Ok(Err("its encoding has characters of several bytes"));
        }
        let Some(loaded) = loaded else {
            return Ok(Err("the bytes that were loaded are not known"));
        };
        file.rewind().with_path(path)?;
        let Some((mut hasher, last)) = hash_of_first(&mut file, size, loaded).with_path(path)?
        else {
            return Ok(Err("its first bytes are not those that were loaded"));
        };
        let mut from = size;
        if last != b'\n' {
            // The last row may have been complete, and what ends its line added later.
            let mut next = [0; 2];
            let length = read_full(&mut file, &mut next).with_path(path)?;
            let end: &[u8] = match next.get(..length) {
                Some([b'\n', ..]) => b"\n",
                Some([b'\r', b'\n']) => b"\r\n",
                _ => return Ok(Err("its last line was loaded before it was complete")),
            };
            hasher.write(end);
            from += end.len() as u64;
        }
        let to = end_of_lines(&file, from).with_path(path)?;
        Ok(Ok(Added { from, to, hasher }))
    }

    /// Opens the file twice: what is before the rows, and the rows, which `count` wraps.
    pub(super) fn open(
        self,
        name: &Path,
        encoding: Option<TextEncoding>,
        count: impl FnOnce(Bytes, Hasher) -> Bytes,
    ) -> Result<(Format, [Bytes; 2])> {
        let Added { from, to, hasher } = self;
        let file = || File::open(name).with_path(name);
        let mut head = vec![0; 8];
        let length = read_full(&mut file()?, &mut head).with_path(name)?;
        head.truncate(length);
        let format = find_format(name, &head)?;
        let encoding = TextEncoding::from_byte_order_mark(&head)
            .or(encoding)
            .filter(|encoding| !encoding.is_utf8());
        let decoded = |bytes: Bytes| match encoding {
            Some(encoding) => transcode(bytes, encoding).map_err(|e| read_error(name, e)),
            None => Ok(bytes),
        };
        let mut rows = file()?;
        rows.seek(SeekFrom::Start(from)).with_path(name)?;
        let before: Bytes = Box::new(Exactly { file: file()?.take(from), left: from });
        let rows = rows.take(to.saturating_sub(from));
        Ok((format, [decoded(before)?, decoded(count(Box::new(rows), hasher))?]))
    }
}

/// Just after the last line feed of a file, or `from` if there is none behind it.
fn end_of_lines(file: &File, from: u64) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; 1 << 16];
    while end > from {
        let start = end.saturating_sub(block.len() as u64).max(from);
        let part = block.get_mut(..(end - start) as usize).unwrap_or_default();
        file.read_exact_at(part, start)?;
        if let Some(last) = memchr::memrchr(b'\n', part) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(from)
}

/// Whether the first `size` bytes of a file have this hash.
pub(in crate::ingest) fn begins_with(path: &Path, size: u64, hash: Id) -> Result<bool> {
    let mut file = open_raw(path)?;
    Ok(hash_of_first(&mut *file, size, hash).with_path(path)?.is_some())
}

/// The hasher of the first `size` bytes and the last one of them, if they have this hash.
fn hash_of_first(file: &mut dyn Read, size: u64, hash: Id) -> io::Result<Option<(Hasher, u8)>> {
    let (mut hasher, mut buffer, mut left, mut last) = (hasher(), vec![0; 1 << 20], size, 0);
    while left > 0 {
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let n = read_full(file, buffer.get_mut(..wanted).unwrap_or_default())?;
        let block = buffer.get(..n).unwrap_or_default();
        let Some(end) = block.last() else { return Ok(None) };
        hasher.write(block);
        (left, last) = (left.saturating_sub(n as u64), *end);
    }
    Ok((hasher.finish_128().to_le_bytes() == hash).then_some((hasher, last)))
}

/// The first bytes of a file, which must not end early.
struct Exactly {
    file: io::Take<File>,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.left = self.left.saturating_sub(n as u64);
        if n == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(io::Error::other("the file has become shorter while it was read"));
        }
        Ok(n)
    }
}
