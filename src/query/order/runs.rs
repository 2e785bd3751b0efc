//! Candidates that do not fit into memory: sorted runs of a temporary file, and the merge of them.
//!
//! Once there are twice as many rows in the runs as can be in the answer, they are merged into one
//! run of the first rows, whose last one is a threshold for all threads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::context::Context;
use super::super::spill::{SpillFile, SpilledBytes};
use super::candidates::{At, Candidate, Held};
use crate::bytes::{Cursor, Writer};
use crate::error::Result;

/// Bytes of rows that are written and read at once.
const CHUNK_BYTES: usize = 1 << 16;
/// The most runs that are merged at once: each has a chunk in memory.
const MAX_RUNS: usize = 64;

/// What has been spilled of the candidates of one run of a fragment.
pub(super) struct Runs {
    directory: PathBuf,
    limit: usize,
    state: Mutex<State>,
    /// Whether a thread has no memory left, which another one holds.
    wanted: AtomicBool,
}

struct State {
    file: SpillFile,
    runs: Vec<Vec<SpilledBytes>>,
    rows: usize,
    /// The last row that would still be in the answer.
    worst: Option<Candidate>,
    /// Bytes and files of earlier ones.
    before: (u64, u64),
}

impl Runs {
    pub(super) fn new(limit: usize, context: &Context<'_>) -> Self {
        let directory = context.temp_dir.to_path_buf();
        let state = State {
            file: SpillFile::new(&directory),
            runs: Vec::new(),
            rows: 0,
            worst: None,
            before: (0, 0),
        };
        Runs { directory, limit, state: Mutex::new(state), wanted: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another thread spill what it holds.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether another thread wants memory, which is then this thread's to give.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().runs.is_empty()
    }

    /// Rows in the runs.
    pub(super) fn rows(&self) -> usize {
        self.state().rows
    }

    /// Bytes spilled, and files made for them.
    pub(super) fn spilled(&self) -> (u64, u64) {
        let state = self.state();
        (state.before.0 + state.file.bytes(), state.before.1 + state.file.files())
    }

    /// Spills candidates. Returns the last row that would still be in the answer, if it is known.
    pub(super) fn add(&self, held: &mut Held<'_>) -> Result<Option<Candidate>> {
        let mut rows = held.take_sorted(0);
        let mut state = self.state();
        if rows.is_empty() {
            return Ok(state.worst.clone());
        }
        if let Some(worst) = &state.worst {
            rows.truncate(rows.partition_point(|row| row <= worst));
        }
        rows.truncate(self.limit);
        state.rows += rows.len();
        let run = write(&state.file, rows.into_iter().map(Ok))?;
        held.release();
        state.runs.push(run);
        if state.rows >= self.limit.saturating_mul(2) || state.runs.len() >= MAX_RUNS {
            self.unite(&mut state)?;
        }
        Ok(state.worst.clone())
    }

    /// Merges the runs into one, in a file of its own.
    fn unite(&self, state: &mut State) -> Result<()> {
        let (mut rows, mut worst) = (0, None);
        let file = SpillFile::new(&self.directory);
        let merged = Merge::new(&state.file, &state.runs, Vec::new())?;
        let run = write(
            &file,
            merged.take(self.limit).inspect(|row| {
                rows += 1;
                if rows == self.limit
                    && let Ok(row) = row
                {
                    worst = Some(row.clone());
                }
            }),
        )?;
        state.before.0 += state.file.bytes();
        state.before.1 += state.file.files();
        (state.file, state.runs, state.rows) = (file, vec![run], rows);
        state.worst = worst.or(state.worst.take());
        Ok(())
    }

    /// Calls `each` with the rows of the answer, in order: those in memory and in the runs.
    pub(super) fn merged(
        &self,
        held: Vec<Candidate>,
        mut each: impl FnMut(Candidate),
    ) -> Result<()> {
        let state = self.state();
        for row in Merge::new(&state.file, &state.runs, held)?.take(self.limit) {
            each(row?);
        }
        Ok(())
    }
}

/// Writes rows as one run.
fn write(
    file: &SpillFile,
    rows: impl Iterator<Item = Result<Candidate>>,
) -> Result<Vec<SpilledBytes>> {
    let (mut run, mut chunk) = (Vec::new(), Writer::new());
    for row in rows {
        let Candidate { key, number, block, row, segment, ranks, .. } = row?;
        chunk.blob(&key);
        [number, block, row, segment].into_iter().for_each(|v| chunk.u32(v));
        [ranks.0, ranks.1].into_iter().for_each(|v| chunk.u64(v as u64));
        if chunk.len() >= CHUNK_BYTES {
            run.push(file.write(chunk.as_slice())?);
            chunk.truncate(0);
        }
    }
    if !chunk.is_empty() {
        run.push(file.write(chunk.as_slice())?);
    }
    Ok(run)
}

/// One run, chunk by chunk.
struct Reader<'r> {
    file: &'r SpillFile,
    chunks: std::slice::Iter<'r, SpilledBytes>,
    plain: Vec<u8>,
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Candidate>> {
        while self.at == self.plain.len() {
            let Some(chunk) = self.chunks.next() else { return Ok(None) };
            (self.plain, self.at) = (self.file.read(chunk)?, 0);
        }
        let rest = self.plain.get(self.at..).unwrap_or_default();
        let mut cursor = Cursor::new(rest);
        let key = cursor.blob(u32::MAX as usize)?.into();
        let at = At {
            number: cursor.u32()?,
            block: cursor.u32()?,
            row: cursor.u32()?,
            segment: cursor.u32()?,
        };
        let ranks = (cursor.u64()? as i64, cursor.u64()? as i64);
        let row = Candidate::new(key, ranks, at);
        self.at += cursor.position();
        Ok(Some(row))
    }
}

/// The merge of sorted runs and of sorted rows in memory.
struct Merge<'r> {
    readers: Vec<Reader<'r>>,
    held: std::vec::IntoIter<Candidate>,
    /// The next row of each, and which it is of; the rows in memory come after all readers.
    next: BinaryHeap<Reverse<(Candidate, usize)>>,
}

impl<'r> Merge<'r> {
    fn new(
        file: &'r SpillFile,
        runs: &'r [Vec<SpilledBytes>],
        held: Vec<Candidate>,
    ) -> Result<Self> {
        let reader =
            |run: &'r Vec<SpilledBytes>| Reader { file, chunks: run.iter(), plain: vec![], at: 0 };
        let readers: Vec<Reader<'_>> = runs.iter().map(reader).collect();
        let mut merge = Merge { held: held.into_iter(), next: BinaryHeap::new(), readers };
        (0..=merge.readers.len()).try_for_each(|of| merge.refill(of))?;
        Ok(merge)
    }

    fn refill(&mut self, of: usize) -> Result<()> {
        let row = match self.readers.get_mut(of) {
            Some(reader) => reader.next()?,
            None => self.held.next(),
        };
        self.next.extend(row.map(|row| Reverse((row, of))));
        Ok(())
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<Candidate>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((row, of)) = self.next.pop()?;
        Some(self.refill(of).map(|()| row))
    }
}
