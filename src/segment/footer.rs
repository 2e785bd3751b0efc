//! The footer of a segment: bytes ↔ column directory. No I/O.

use std::ops::Range;

use crate::bytes::{Cursor, Writer, checksum_holds};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::ColumnId;

/// First and last bytes of a segment.
pub(crate) const MAGIC: [u8; 8] = *b"STYSEG1\0";
/// The version this library writes, and the newest that it reads.
pub(crate) const VERSION: u16 = 1;
/// Bytes of the tail: footer length, footer CRC32, magic.
pub const TAIL_BYTES: usize = 16;
/// The features that this reader understands. Bit 0 is reserved for nested columns (values ≠ rows),
/// bit 1 for blocks that name another column of their segment as reference; both are refused.
const UNDERSTOOD: u64 = 0;
/// Bytes of a directory entry.
const ENTRY_BYTES: usize = 20;
/// The most typed sections of a footer.
const MAX_SECTIONS: usize = 1024;
/// Section flag: a reader that does not know the section's type must refuse the segment.
pub(crate) const SECTION_REQUIRED: u16 = 1;

/// The place of a column's record in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The column.
    pub column: ColumnId,
    /// Offset of its record from the segment's start.
    pub offset: u64,
    /// Bytes of its record.
    pub len: u32,
    /// CRC32 of its record in this place.
    pub crc: u32,
}

/// A parsed footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Identity of the segment: a hash of its contents.
    pub uuid: [u8; 16],
    /// Rows.
    pub rows: u64,
    /// Rows of every block but the last.
    pub block_rows: u32,
    /// The columns, in ascending order of their ids.
    pub columns: Vec<DirectoryEntry>,
}

impl Footer {
    /// The stored form, without the tail.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u16(VERSION);
        out.u16(0);
        for features in [0u64, 0, 0] {
            out.u64(features); // must understand, may read, may ignore
        }
        out.put(&self.uuid);
        out.u64(self.rows);
        out.u32(self.block_rows);
        out.count(self.columns.len());
        for entry in &self.columns {
            out.u32(entry.column.0);
            out.u64(entry.offset);
            out.u32(entry.len);
            out.u32(entry.crc);
        }
        out.u32(0); // no typed sections yet; reserved for bloom filters and indexes
        out.into_vec()
    }

    /// The tail that follows an encoded footer.
    pub fn tail(encoded: &[u8]) -> Vec<u8> {
        let mut out = Writer::new();
        out.count(encoded.len());
        out.u32(crc32fast::hash(encoded));
        out.put(&MAGIC);
        out.into_vec()
    }

    /// The footer's checksum as stored in the tail of a segment. Manifest entries name it.
    pub(crate) fn stored_crc(tail: &[u8]) -> Option<u32> {
        let tail = tail.last_chunk::<TAIL_BYTES>()?;
        Some(u32::from_le_bytes([tail[4], tail[5], tail[6], tail[7]]))
    }

    /// Finds and parses the footer at the end of a segment's bytes.
    pub fn parse(segment: &[u8]) -> Result<Footer> {
        Footer::read(segment.len(), |range| {
            segment.get(range).ok_or_else(|| Error::corrupt(0, "the segment is too short"))
        })
    }

    /// [`Footer::parse`] of a segment of `length` bytes, of which `bytes` gives ranges.
    pub(super) fn read<'b>(
        length: usize,
        bytes: impl Fn(Range<usize>) -> Result<&'b [u8]>,
    ) -> Result<Footer> {
        let at = length.saturating_sub(TAIL_BYTES);
        let mut tail = Cursor::new(bytes(at..length)?);
        let in_tail = |e: Error| e.in_file("", at as u64);
        let (len, crc) = (tail.u32().map_err(in_tail)? as usize, tail.u32().map_err(in_tail)?);
        if tail.take(8).map_err(in_tail)? != MAGIC || bytes(0..8.min(length))? != MAGIC {
            return Err(Error::corrupt(
                at as u64,
                "this is not a segment of version 1 (magic bytes differ)",
            ));
        }
        let start = at
            .checked_sub(len)
            .ok_or_else(|| Error::corrupt(at as u64, "footer is longer than its segment"))?;
        let footer = bytes(start..at)?;
        if !checksum_holds(crc32fast::hash(footer), crc) {
            return Err(Error::corrupt(start as u64, "checksum of the footer does not match"));
        }
        Footer::decode(footer, start as u64).map_err(|e| e.in_file("", start as u64))
    }

    fn decode(footer: &[u8], end: u64) -> Result<Footer> {
        let mut cursor = Cursor::new(footer);
        let version = cursor.u16()?;
        if version != VERSION {
            return Err(Error::Unsupported(format!(
                "segment version {version}; this reader knows up to {VERSION}"
            )));
        }
        cursor.u16()?;
        let must = cursor.u64()?;
        if must & !UNDERSTOOD != 0 {
            return Err(Error::Unsupported(format!(
                "segment features {must:#x}, from a newer version"
            )));
        }
        cursor.take(16)?; // may read, may ignore
        let (uuid, rows, block_rows) = (cursor.uuid()?, cursor.u64()?, cursor.u32()?);
        let good_block = (block_rows as usize).is_multiple_of(limits::VECTOR)
            && (limits::VECTOR..=limits::MAX_BLOCK_ROWS).contains(&(block_rows as usize));
        if rows > limits::SEGMENT_ROWS as u64 || !good_block {
            return Err(cursor.corrupt(format!("{rows} rows in blocks of {block_rows}")));
        }
        let n = cursor.count(ENTRY_BYTES, limits::MAX_COLUMNS)?;
        let mut columns: Vec<DirectoryEntry> = Vec::with_capacity(n);
        for _ in 0..n {
            let column = ColumnId(cursor.u32()?);
            let entry = DirectoryEntry {
                column,
                offset: cursor.u64()?,
                len: cursor.u32()?,
                crc: cursor.u32()?,
            };
            let inside = entry.offset.checked_add(u64::from(entry.len)).is_some_and(|e| e <= end);
            if !inside || columns.last().is_some_and(|last| last.column >= column) {
                return Err(cursor.corrupt(format!("directory entry of column {}", column.0)));
            }
            columns.push(entry);
        }
        skip_sections(&mut cursor)?;
        cursor.finish()?;
        Ok(Footer { uuid, rows, block_rows, columns })
    }
}

/// Typed sections: type u16, flags u16, length u32, bytes. None is known to this version.
fn skip_sections(cursor: &mut Cursor<'_>) -> Result<()> {
    for _ in 0..cursor.count(8, MAX_SECTIONS)? {
        let (kind, flags) = (cursor.u16()?, cursor.u16()?);
        if flags & SECTION_REQUIRED != 0 {
            return Err(Error::Unsupported(format!("footer section {kind}, from a newer version")));
        }
        cursor.blob(usize::MAX)?;
    }
    Ok(())
}
