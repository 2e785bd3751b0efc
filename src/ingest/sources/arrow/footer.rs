//! The footer of a file: its schema, and where its batches are.
//!
//! Polars begins a file with a schema that is no message, and writes dictionaries behind the
//! batches that need them; only the footer tells how to read it. The dictionaries are read first,
//! and then the batches in the order in which they lie in the file, as from a stream.

use std::collections::VecDeque;
use std::io::{self, Read, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use arrow_ipc::{Block, root_as_footer};

use super::super::stream::read_error;
use super::source::{Source, Whole};
use super::{ArrowBatches, FILE_MAGIC, MAX_METADATA};
use crate::error::Result;

/// The length of a footer and the magic number behind it.
const END_BYTES: u64 = 10;

impl ArrowBatches {
    /// Reads the schema, the dictionaries and the places of the batches of a file.
    pub(super) fn read_footer(&mut self) -> Result<()> {
        let most = self.most_bytes;
        let whole = self.source.whole(most).map_err(|e| read_error(&self.name, e))?;
        let Some(mut whole) = whole else { return Err(self.too_large(most.saturating_add(1))) };
        let footer = footer(&mut *whole).map_err(|e| read_error(&self.name, e))?;
        let Some(footer) = footer else { return Err(self.cut_off()) };
        let stream = std::mem::replace(&mut self.source, Source::file(whole));
        let found = self.found(&footer, stream.position());
        let whole = std::mem::replace(&mut self.source, stream).into_whole();
        self.source.give_back(whole).map_err(|e| read_error(&self.name, e))?;
        self.blocks = Some(found?);
        Ok(())
    }

    /// Reads all but the batches, whose places it returns.
    fn found(&mut self, footer: &[u8], begin: u64) -> Result<VecDeque<Range<u64>>> {
        let footer = root_as_footer(footer).map_err(|e| self.invalid(e))?;
        let schema = footer.schema().ok_or_else(|| self.invalid("there is no schema"))?;
        self.schema = Arc::new(self.converted(schema)?);
        let dictionaries: Option<Vec<_>> =
            footer.dictionaries().into_iter().flatten().map(range).collect();
        let batches: Option<Vec<_>> =
            footer.recordBatches().into_iter().flatten().map(range).collect();
        let (Some(dictionaries), Some(mut batches)) = (dictionaries, batches) else {
            return Err(self.invalid("its footer has a batch at a negative place"));
        };
        let mut all = [&dictionaries[..], &batches[..]].concat();
        all.sort_by_key(|block| block.start);
        // A small file could name one large batch many times.
        let apart = all.windows(2).all(|two| matches!(two, [a, b] if a.end <= b.start));
        if !apart || all.first().is_some_and(|first| first.start < begin) {
            return Err(self.invalid("its footer has batches that overlap"));
        }
        for dictionary in dictionaries {
            self.source.go_to(dictionary.start).map_err(|e| read_error(&self.name, e))?;
            let message = self.message()?.ok_or_else(|| self.cut_off())?;
            // Else many small places could each name the rest of the file.
            if self.source.position() > dictionary.end {
                return Err(self.invalid("a dictionary is longer than its footer says"));
            }
            if self.decode(message)?.is_some() {
                return Err(self.invalid("its footer has a batch for a dictionary"));
            }
        }
        batches.sort_by_key(|block| block.start);
        Ok(batches.into())
    }
}

fn range(block: &Block) -> Option<Range<u64>> {
    let metadata = u64::try_from(block.metaDataLength()).ok()?;
    let (start, body) =
        (u64::try_from(block.offset()).ok()?, u64::try_from(block.bodyLength()).ok()?);
    Some(start..start.checked_add(metadata)?.checked_add(body)?)
}

/// The bytes of the footer; `None` if the file does not end in one.
fn footer(file: &mut dyn Whole) -> io::Result<Option<Vec<u8>>> {
    let length = file.seek(SeekFrom::End(0))?;
    if length < END_BYTES {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(length - END_BYTES))?;
    let mut end = Vec::new();
    file.take(END_BYTES).read_to_end(&mut end)?;
    let size = end.first_chunk::<4>().map_or(0, |size| u64::from(u32::from_le_bytes(*size)));
    if !end.ends_with(FILE_MAGIC) || size > (MAX_METADATA as u64).min(length - END_BYTES) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(length - END_BYTES - size))?;
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
