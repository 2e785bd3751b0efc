//! What a Parquet file claims, compared with the file and with the memory limit before a reader
//! allocates it: the footer's lists and places, the page index, and the sizes in page headers.
//!
//! The checks look at what readers allocate by and leave everything else to them, so that a file
//! which they read is not refused here. They refuse what they cannot follow where the reader might:
//! a page header that does not parse while values are missing, and a field of another kind than the
//! reader takes it for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::foreign::{most_bytes, too_large};
use super::parquet_kinds::Structure;
use super::thrift::{Met, walk};
use crate::error::{Error, IoResult, Result};

/// The bytes at the end of a file: the length of its footer, and the magic number.
const TAIL_BYTES: u64 = 8;
/// How deep columns may nest.
const MAX_NESTING: usize = 64;
/// Rows for which a reader allocates at once.
const READ_ROWS: u64 = 8192;
/// Bytes of a repeated value in memory, at least: two levels and the value.
const REPEATED_BYTES: u64 = 8;
/// How much of a page header is read first.
const HEADER_BYTES: usize = 512;
/// The longest page header: it may hold a minimum and a maximum.
const MAX_HEADER_BYTES: usize = 16 << 20;

/// Checks the footer and, where the reader will parse it, the page index of a file.
pub(crate) fn check_file(path: &Path, file: &File, memory: u64, page_index: bool) -> Result<()> {
    let size = file.metadata().with_path(path)?.len();
    let mut tail = [0; TAIL_BYTES as usize];
    if size < 2 * TAIL_BYTES - 4 {
        return Ok(());
    }
    file.read_exact_at(&mut tail, size - TAIL_BYTES).with_path(path)?;
    let [a, b, c, d, magic @ ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *b"PAR1" || length > size - TAIL_BYTES {
        return Ok(());
    }
    let footer = read_at(path, file, size - TAIL_BYTES - length, length)?;
    let damaged = |error: Error| damaged(path, error);
    let indexes = check_footer(path, &footer, memory).map_err(damaged)?;
    // Indexes do not overlap. Those that do would be read many times over.
    let lengths = indexes.iter().map(|(_, _, length)| *length);
    if page_index && lengths.fold(0, u64::saturating_add) > size {
        return Err(damaged(Error::corrupt(0, "its page indexes are larger than the file")));
    }
    let is_within = |(_, start, length): &(Structure, u64, u64)| {
        page_index && start.checked_add(*length).is_some_and(|end| end <= size)
    };
    for (structure, start, length) in indexes.into_iter().filter(is_within) {
        let index = read_at(path, file, start, length)?;
        let mut check = |fields: &[i16], met| match met {
            Met::Field(kind) => structure.check(fields, kind),
            _ => Ok(()),
        };
        walk(&index, &mut check).map_err(damaged)?;
    }
    Ok(())
}

/// Reads a place that lies within the file.
fn read_at(path: &Path, file: &File, start: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, start).with_path(path)?;
    Ok(bytes)
}

/// Checks a footer, and returns the places of page indexes.
fn check_footer(path: &Path, footer: &[u8], memory: u64) -> Result<Vec<(Structure, u64, u64)>> {
    let mut indexes = Vec::new();
    let mut index = [0_i64; 4];
    let mut element = Element::default();
    let mut nesting = Vec::new();
    walk(footer, &mut |path_of, met| {
        match (path_of, met) {
            (_, Met::Field(kind)) => Structure::Footer.check(path_of, kind)?,
            // The schema: a list of its nodes, parents before children.
            ([2, 2], Met::Integer(length)) => element.length = length,
            ([2, 5], Met::Integer(children)) => element.children = children,
            ([2], Met::End) => {
                std::mem::take(&mut element).check(path, memory, &mut nesting)?;
            }
            // A column of a row group: offset and length of its two indexes.
            ([4, 1, field @ 4..=7], Met::Integer(value)) => {
                if let Some(place) = index.get_mut(usize::from(field.abs_diff(4))) {
                    *place = value;
                }
            }
            ([4, 1], Met::End) => {
                let [offset_start, offset_length, column_start, column_length] =
                    std::mem::take(&mut index);
                for (structure, start, length) in [
                    (Structure::OffsetIndex, offset_start, offset_length),
                    (Structure::ColumnIndex, column_start, column_length),
                ] {
                    let (start, length) = (u64::try_from(start), u64::try_from(length));
                    if let (Ok(start), Ok(length @ 1..)) = (start, length) {
                        indexes.push((structure, start, length));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(indexes)
}

/// A node of the schema.
#[derive(Default)]
struct Element {
    /// Bytes of a value of fixed length.
    length: i64,
    children: i64,
}

impl Element {
    /// `nesting` has, for each open parent, how many of its children are still to come.
    fn check(self, path: &Path, memory: u64, nesting: &mut Vec<i64>) -> Result<()> {
        let bytes = u64::try_from(self.length).unwrap_or(0).saturating_mul(READ_ROWS);
        if bytes > most_bytes(memory) {
            return Err(too_large(path.display(), "a batch", bytes, most_bytes(memory)));
        }
        if let Some(left) = nesting.last_mut() {
            *left -= 1;
        }
        if self.children > 0 {
            nesting.push(self.children);
        }
        if nesting.len() > MAX_NESTING {
            return Err(Error::Unsupported(format!(
                "{}: columns that nest more than {MAX_NESTING} deep",
                path.display()
            )));
        }
        while nesting.last().is_some_and(|left| *left <= 0) {
            nesting.pop();
        }
        Ok(())
    }
}

/// The place of a column in a row group, as far as it lies within the file.
pub(crate) fn column_place(column: &ColumnChunkMetaData, size: u64) -> Option<(u64, u64)> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let (start, length) =
        (u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?);
    (start <= size).then(|| (start, length.min(size - start)))
}

/// Checks the columns of a row group: their pages fit into memory.
pub(crate) fn check_row_group(
    path: &Path,
    file: &File,
    group: &RowGroupMetaData,
    mut wanted: impl FnMut(usize) -> bool,
    memory: u64,
) -> Result<()> {
    let size = file.metadata().with_path(path)?.len();
    let mut pages = Pages::new(path, memory);
    for (_, column) in group.columns().iter().enumerate().filter(|(leaf, _)| wanted(*leaf)) {
        let Some((mut at, length)) = column_place(column, size) else { continue };
        let end = at + length;
        pages.start_column(column.column_descr().max_rep_level() > 0);
        let mut missing = column.num_values().max(group.num_rows());
        while at < end {
            let page = match read_header(path, file, at, end)? {
                Some(page) => page,
                // A reader that has all values does not read what follows them.
                None if missing <= 0 => break,
                None => return Err(unreadable(path)),
            };
            pages.add(&page)?;
            missing = missing.saturating_sub(page.values.max(0));
            at = at.saturating_add(page.header_bytes).saturating_add(page.stored_bytes);
        }
    }
    Ok(())
}

/// Reads the page header at this offset; `None` if there is none.
fn read_header(path: &Path, file: &File, at: u64, end: u64) -> Result<Option<Page>> {
    let mut wanted = HEADER_BYTES;
    loop {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        let mut bytes = vec![0; wanted.min(left)];
        if file.read_exact_at(&mut bytes, at).is_err() {
            return Ok(None);
        }
        match Page::parse(path, &bytes) {
            Ok(Some(page)) => return Ok(Some(page)),
            _ if wanted < left && wanted < MAX_HEADER_BYTES => wanted *= 8,
            none => return none,
        }
    }
}

/// What a page header says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page {
    pub(crate) header_bytes: u64,
    pub(crate) stored_bytes: u64,
    plain_bytes: i64,
    values: i64,
    dictionary_values: i64,
}

impl Page {
    /// Parses a page header; `None` if there is none.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Option<Page>> {
        let mut page = Page::default();
        let mut stored = None;
        let mut misread = None;
        let length = walk(bytes, &mut |fields, met| {
            match (fields, met) {
                (_, Met::Field(kind)) => {
                    if let Err(error) = Structure::PageHeader.check(fields, kind) {
                        misread = Some(error);
                        return Err(Error::corrupt(0, "a field of a wrong kind"));
                    }
                }
                ([2], Met::Integer(value)) => page.plain_bytes = value,
                ([3], Met::Integer(value)) => stored = Some(value),
                ([5 | 8, 1], Met::Integer(value)) => page.values = value,
                ([7, 1], Met::Integer(value)) => page.dictionary_values = value,
                _ => {}
            }
            Ok(())
        });
        if let Some(error) = misread {
            return Err(damaged(path, error));
        }
        let (Ok(length), Some(stored)) = (length, stored) else { return Ok(None) };
        page.header_bytes = length as u64;
        let Ok(stored) = u64::try_from(stored) else { return Ok(None) };
        page.stored_bytes = stored;
        Ok(Some(page))
    }
}

/// The pages that are in memory at once: one of each column, and its dictionary.
pub(crate) struct Pages<'a> {
    path: &'a Path,
    most: u64,
    /// Bytes of the largest pages of the columns before the current one.
    before: u64,
    /// The largest page and the dictionary of the current column.
    largest: u64,
    dictionary: u64,
    repeated: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(path: &'a Path, memory: u64) -> Self {
        let most = most_bytes(memory);
        Pages { path, most, before: 0, largest: 0, dictionary: 0, repeated: false }
    }

    /// The pages from here on are those of another column.
    pub(crate) fn start_column(&mut self, repeated: bool) {
        self.before = self.before.saturating_add(self.largest).saturating_add(self.dictionary);
        (self.largest, self.dictionary, self.repeated) = (0, 0, repeated);
    }

    pub(crate) fn add(&mut self, page: &Page) -> Result<()> {
        let mut bytes = u64::try_from(page.plain_bytes).unwrap_or(0);
        // A value of a dictionary has a byte at least, except those of length 0.
        let values = u64::try_from(page.dictionary_values).unwrap_or(0);
        if values > bytes.max(1) {
            let what = format!("a dictionary claims {values} values in {bytes} bytes");
            return Err(damaged(self.path, Error::corrupt(0, what)));
        }
        // Run-length encoding holds any number of values in a few bytes, and the reader takes all
        // those of a row at once.
        if self.repeated {
            let values = u64::try_from(page.values).unwrap_or(0);
            bytes = bytes.max(values.saturating_mul(REPEATED_BYTES));
        }
        let place =
            if page.dictionary_values > 0 { &mut self.dictionary } else { &mut self.largest };
        *place = bytes.max(*place);
        let all = self.before.saturating_add(self.largest).saturating_add(self.dictionary);
        if all > self.most {
            let what = if bytes > self.most { "a page" } else { "a page of each column" };
            return Err(too_large(self.path.display(), what, all.max(bytes), self.most));
        }
        Ok(())
    }
}

/// The error for a page header that does not parse.
pub(crate) fn unreadable(path: &Path) -> Error {
    damaged(path, Error::corrupt(0, "a page header cannot be read"))
}

/// An error of a walk as one about the file; others name the file already.
fn damaged(path: &Path, error: Error) -> Error {
    match error {
        Error::Corrupt { what, .. } => Error::InvalidInput(format!(
            "{}: cannot be read as Parquet: it is damaged: {what}",
            path.display()
        )),
        other => other,
    }
}
