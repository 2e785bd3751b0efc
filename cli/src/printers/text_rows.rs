//! Rows as text, formatted by several threads and written in order meanwhile. CSV, JSON and
//! Markdown give the text of some rows; a batch is cut into pieces of about as many bytes as are
//! written at a time.

use std::io::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::flush::FLUSH_BYTES;
use crate::errors::Failure;
use crate::output::Output;

/// The most rows of a piece.
const MOST_ROWS: usize = 2048;
/// Batches with fewer values are formatted by the caller alone.
const MANY_VALUES: usize = 1 << 14;
/// How many pieces each thread has at a time, so that none waits for a long one.
const PIECES_PER_THREAD: usize = 2;

/// The text of a result on its way to the output.
pub(super) struct TextRows {
    threads: usize,
    /// Started with the first batch of many values.
    pool: Option<ThreadPool>,
    /// Texts that are written next.
    pieces: Vec<Vec<u8>>,
    /// Where texts are formatted while others are written.
    spare: Vec<Vec<u8>>,
    output: Output,
}

impl TextRows {
    /// `head` stands before the rows.
    pub(super) fn new(head: Vec<u8>, threads: usize, output: Output) -> Self {
        TextRows { threads, pool: None, pieces: vec![head], spare: Vec::new(), output }
    }

    /// Writes the rows of a batch. `format` appends the text of some of them. `skipped` bytes of
    /// the first are left out.
    pub(super) fn write(
        &mut self,
        batch: &RecordBatch,
        mut skipped: usize,
        format: impl Fn(&RecordBatch, &mut Vec<u8>) -> Result<(), Failure> + Sync,
    ) -> Result<(), Failure> {
        self.flush(0)?;
        let rows = batch.num_rows();
        let row_bytes = value_bytes(batch) / rows.max(1);
        let piece_rows = (FLUSH_BYTES / row_bytes.max(1)).clamp(1, MOST_ROWS);
        let parallel = rows.saturating_mul(batch.num_columns()) >= MANY_VALUES && rows > piece_rows;
        let at_once = if parallel { self.start() * PIECES_PER_THREAD } else { 1 };
        let mut next = std::mem::take(&mut self.spare);
        for pieces in [&mut self.pieces, &mut next] {
            pieces.resize_with(at_once, Vec::new);
        }
        let pool = self.pool.take();
        let piece = |start: usize| batch.slice(start, piece_rows.min(rows - start));
        let format = |(text, start): (&mut Vec<u8>, usize)| format(&piece(start), text);
        let mut to_skip = 0;
        for start in (0..rows).step_by(piece_rows * at_once) {
            let mut work = next.iter_mut().zip((start..rows).step_by(piece_rows));
            match &pool {
                Some(pool) if parallel => {
                    let work: Vec<_> = work.collect();
                    let (mut formatted, mut written) = (Ok(()), Ok(()));
                    pool.in_place_scope(|scope| {
                        scope.spawn(|_| formatted = work.into_par_iter().try_for_each(format));
                        written = self.flush(to_skip);
                    });
                    written.and(formatted)?;
                }
                _ => {
                    self.flush(to_skip)?;
                    work.try_for_each(format)?;
                }
            }
            to_skip = std::mem::take(&mut skipped);
            std::mem::swap(&mut self.pieces, &mut next);
        }
        (self.pool, self.spare) = (pool, next);
        self.flush(to_skip)
    }

    /// Starts the threads, if there are several and it has not been done. Returns how many there
    /// are; where the system starts none, the caller works alone.
    fn start(&mut self) -> usize {
        if self.threads > 1 && self.pool.is_none() {
            self.pool = ThreadPoolBuilder::new().num_threads(self.threads).build().ok();
            self.threads = if self.pool.is_some() { self.threads } else { 1 };
        }
        self.threads.max(1)
    }

    /// Writes the pieces but for the first bytes, and empties them.
    fn flush(&mut self, mut skipped: usize) -> Result<(), Failure> {
        for piece in &mut self.pieces {
            let text = piece.get(std::mem::take(&mut skipped)..).unwrap_or_default();
            let written = self.output.write_all(text);
            piece.clear();
            written.map_err(|error| self.output.failure(&error))?;
        }
        Ok(())
    }

    /// Writes what stands behind the rows.
    pub(super) fn finish(mut self, tail: &[u8]) -> Result<Output, Failure> {
        self.flush(0)?;
        let written = self.output.write_all(tail);
        written.map_err(|error| self.output.failure(&error))?;
        Ok(self.output)
    }
}

/// About the bytes of all values: rows may share the bytes of a text.
fn value_bytes(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::BinaryView => {
            column.as_binary_view().lengths().map(|length| length as usize).sum()
        }
        DataType::Dictionary(..) => shared_bytes(column),
        _ => column.get_array_memory_size(),
    };
    batch.columns().iter().map(of).sum()
}

/// The bytes of the values that keys stand for.
fn shared_bytes(column: &ArrayRef) -> usize {
    let Some(dictionary) = column.as_any_dictionary_opt() else { return 0 };
    let values = dictionary.values();
    let length = |key: usize| match values.data_type() {
        DataType::Utf8View => values.as_string_view().value(key).len(),
        DataType::Utf8 => values.as_string::<i32>().value(key).len(),
        DataType::LargeUtf8 => values.as_string::<i64>().value(key).len(),
        _ => values.get_array_memory_size() / values.len(),
    };
    match values.is_empty() {
        true => 0,
        false => dictionary.normalized_keys().into_iter().map(length).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, StringViewArray};

    use super::*;

    #[test]
    fn texts_that_rows_share_count_for_each() {
        let long = "x".repeat(1000);
        let bytes =
            |column: ArrayRef| value_bytes(&RecordBatch::try_from_iter([("a", column)]).unwrap());
        let coded =
            |rows: Vec<Option<&str>>| rows.into_iter().collect::<DictionaryArray<Int32Type>>();
        assert_eq!(bytes(Arc::new(coded(vec![Some(&long); 50]))), 50_000);
        assert_eq!(bytes(Arc::new(coded(vec![None; 50]))), 0);
        let texts = StringViewArray::from(vec![long.as_str()]);
        let (views, buffers, _) = texts.into_parts();
        let shared = StringViewArray::new(vec![views[0]; 50].into(), buffers, None);
        assert_eq!(bytes(Arc::new(shared)), 50_000);
    }
}
