//! Rows as text, formatted by several threads and written in order by another one meanwhile. CSV,
//! JSON and Markdown give the text of some rows; a batch is cut into pieces of about as many bytes
//! as are written at a time.

use std::io::Write as _;
use std::sync::mpsc::{Receiver, SendError, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

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
    /// What is written before anything else.
    head: Vec<u8>,
    to: Destination,
    /// Texts that were written, for their room.
    spare: Vec<Vec<u8>>,
}

/// Who writes.
enum Destination {
    Caller(Output),
    Thread(WriterThread),
    /// Writing has failed, or is handed over.
    Nobody,
}

/// A thread that writes texts in order, while the next ones are formatted: those of the next batch,
/// too, which would wait otherwise for the last ones of this batch.
struct WriterThread {
    /// Texts, each with how many of its first bytes are left out; none are taken any more once it
    /// has failed.
    texts: SyncSender<(Vec<u8>, usize)>,
    written: Receiver<Vec<u8>>,
    /// Ends with the output, and with what has failed.
    thread: JoinHandle<Option<(Output, Result<(), Failure>)>>,
}

impl TextRows {
    /// `head` stands before the rows.
    pub(super) fn new(head: Vec<u8>, threads: usize, output: Output) -> Self {
        let (to, spare) = (Destination::Caller(output), Vec::new());
        TextRows { threads, pool: None, head, to, spare }
    }

    /// Writes the rows of a batch. `format` appends the text of some of them. `skipped` bytes of
    /// the first are left out.
    pub(super) fn write(
        &mut self,
        batch: &RecordBatch,
        mut skipped: usize,
        format: impl Fn(&RecordBatch, &mut Vec<u8>) -> Result<(), Failure> + Sync,
    ) -> Result<(), Failure> {
        self.put_head()?;
        let rows = batch.num_rows();
        let row_bytes = value_bytes(batch) / rows.max(1);
        let piece_rows = (FLUSH_BYTES / row_bytes.max(1)).clamp(1, MOST_ROWS);
        let parallel = rows.saturating_mul(batch.num_columns()) >= MANY_VALUES && rows > piece_rows;
        let at_once = if parallel { self.start() * PIECES_PER_THREAD } else { 1 };
        let piece = |start: usize| batch.slice(start, piece_rows.min(rows - start));
        let format = |(text, start): (&mut Vec<u8>, usize)| format(&piece(start), text);
        for start in (0..rows).step_by(piece_rows * at_once) {
            let starts: Vec<usize> = (start..rows).step_by(piece_rows).take(at_once).collect();
            let mut texts: Vec<Vec<u8>> = starts.iter().map(|_| self.room()).collect();
            let mut work = texts.iter_mut().zip(starts);
            match &self.pool {
                Some(pool) if parallel => {
                    let work: Vec<_> = work.collect();
                    pool.install(|| work.into_par_iter().try_for_each(format))?;
                }
                _ => work.try_for_each(format)?,
            }
            for text in texts {
                self.put(text, std::mem::take(&mut skipped))?;
            }
        }
        Ok(())
    }

    /// Starts the threads, if there are several and it has not been done. Returns how many format;
    /// where the system starts none, the caller works alone.
    fn start(&mut self) -> usize {
        if self.threads > 1 && self.pool.is_none() {
            self.pool = ThreadPoolBuilder::new().num_threads(self.threads).build().ok();
            self.threads = if self.pool.is_some() { self.threads } else { 1 };
            self.to = match std::mem::replace(&mut self.to, Destination::Nobody) {
                // A pager looks at what was read so far.
                Destination::Caller(output) if !matches!(output, Output::Screen(_)) => {
                    WriterThread::start(output, self.threads * PIECES_PER_THREAD)
                }
                same => same,
            };
        }
        self.threads.max(1)
    }

    /// An empty text, with the room of one that was written if there is one.
    fn room(&mut self) -> Vec<u8> {
        let written = match &self.to {
            Destination::Thread(writer) => writer.written.try_recv().ok(),
            _ => self.spare.pop(),
        };
        written.unwrap_or_default()
    }

    fn put_head(&mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.head) {
            head if head.is_empty() => Ok(()),
            head => self.put(head, 0),
        }
    }

    /// Writes a text but for its first bytes.
    fn put(&mut self, mut text: Vec<u8>, skipped: usize) -> Result<(), Failure> {
        match &mut self.to {
            Destination::Caller(output) => {
                write(output, &text, skipped)?;
                text.clear();
                self.spare.push(text);
                Ok(())
            }
            Destination::Thread(writer) => match writer.texts.send((text, skipped)) {
                Ok(()) => Ok(()),
                Err(_) => self.close().map(drop),
            },
            Destination::Nobody => Ok(()),
        }
    }

    /// Waits until all is written, and gives the output back.
    fn close(&mut self) -> Result<Option<Output>, Failure> {
        match std::mem::replace(&mut self.to, Destination::Nobody) {
            Destination::Caller(output) => Ok(Some(output)),
            Destination::Thread(WriterThread { texts, written, thread }) => {
                drop((texts, written));
                match thread.join() {
                    Ok(Some((output, done))) => done.map(|()| Some(output)),
                    Ok(None) | Err(_) => Ok(None),
                }
            }
            Destination::Nobody => Ok(None),
        }
    }

    /// Writes what stands behind the rows.
    pub(super) fn finish(mut self, tail: &[u8]) -> Result<Output, Failure> {
        self.put_head()?;
        self.put(tail.to_vec(), 0)?;
        let output = self.close()?;
        output.ok_or_else(|| Failure::failed("the output could not be written"))
    }
}

/// An output is whole, or known to be cut, when nobody writes it any more.
impl Drop for TextRows {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl WriterThread {
    /// Starts a thread for which `most` texts may wait; without one, the caller writes.
    fn start(output: Output, most: usize) -> Destination {
        let (texts, to_write) = sync_channel::<(Vec<u8>, usize)>(most);
        let (done, written) = channel();
        let (give, given) = channel::<Output>();
        let run = move || {
            let mut output = given.recv().ok()?;
            for (mut text, skipped) in to_write {
                if let Err(failure) = write(&mut output, &text, skipped) {
                    return Some((output, Err(failure)));
                }
                text.clear();
                // Nobody may want it any more.
                let _ = done.send(text);
            }
            Some((output, Ok(())))
        };
        match std::thread::Builder::new().name("sty-writer".into()).spawn(run) {
            Ok(thread) => match give.send(output) {
                Ok(()) => Destination::Thread(WriterThread { texts, written, thread }),
                Err(SendError(output)) => Destination::Caller(output),
            },
            Err(_) => Destination::Caller(output),
        }
    }
}

fn write(output: &mut Output, text: &[u8], skipped: usize) -> Result<(), Failure> {
    let written = output.write_all(text.get(skipped..).unwrap_or_default());
    written.map_err(|error| output.failure(&error))
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
