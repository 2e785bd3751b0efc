//! The merge of sorted runs.
//!
//! Runs are leaves of a tournament whose inner nodes remember the loser (Knuth, The Art of Computer
//! Programming, volume 3, 5.4.1): each row costs one comparison for each level.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use futures::StreamExt;

use super::gather::{Picks, gather};
use super::runs::{ChunkSize, Held, Keys, MemoryRun, common_bytes};
use crate::bytes::{KeyHead, key_head};

/// The most files that are merged at once.
const MAX_FILES: usize = 256;

/// How often the bytes of a batch of a run are needed while it is merged: as it is read, as
/// columns, and as keys.
const BATCH_COPIES: usize = 3;

/// The buffers of the reader of a file.
const READ_BYTES: usize = 128 << 10;

/// Sorted runs.
#[derive(Default)]
pub(super) struct Runs {
    pub(super) in_memory: Vec<MemoryRun>,
    pub(super) in_files: Vec<FileRun>,
    /// What those in files do not need any more.
    pub(super) memory: Vec<MemoryReservation>,
}

impl Runs {
    pub(super) fn extend(&mut self, other: Runs) {
        self.in_memory.extend(other.in_memory);
        self.in_files.extend(other.in_files);
        self.memory.extend(other.memory);
    }
}

/// A run in a temporary file.
pub(super) struct FileRun {
    pub(super) file: Arc<dyn SpillFile>,
    pub(super) rows: usize,
    /// The bytes that its largest batch takes in memory.
    pub(super) batch_bytes: usize,
}

/// The rows of all runs, in order.
pub(super) enum Sorted {
    /// All runs are in memory, and parts of the rows can be merged beside each other.
    InMemory(MemoryMerge),
    Streaming(Merge),
}

impl Sorted {
    /// The merge of all runs. If there is no memory for a batch of each, some of those in files are
    /// merged into longer ones first.
    pub(super) async fn of(
        runs: Runs,
        keys: Arc<Keys>,
        spills: SpillManager,
        size: ChunkSize,
    ) -> DataFusionResult<Sorted> {
        let Runs { mut in_memory, in_files: mut files, mut memory } = runs;
        let Some(memory) = memory.pop() else {
            let runs = in_memory.into_iter().map(Arc::new).collect();
            return Ok(Sorted::InMemory(MemoryMerge::new(runs, keys, size)));
        };
        loop {
            files.sort_by_key(|run| std::cmp::Reverse(run.rows));
            let most = match reserve(&files, &memory) {
                Ok(most) => most,
                Err(error) => {
                    // A run in memory leaves too little.
                    let run = in_memory.pop().ok_or(error)?;
                    files.extend(write_run(run, &keys, &spills, size).await?);
                    continue;
                }
            };
            if most >= files.len() {
                break;
            }
            // No more than it takes to merge the rest at once.
            let enough = most.min(files.len() - most + 1);
            let shortest = files.split_off(files.len() - enough);
            let cursors = open(shortest, &keys, &spills).await?;
            let mut merge = Merge::new(cursors, Arc::clone(&keys), size);
            files.extend(write(&mut merge, &spills).await?);
        }
        let in_memory = in_memory.into_iter().map(Arc::new);
        let whole = |run: Arc<MemoryRun>| Cursor::in_memory(Arc::clone(&run), 0..run.len());
        let mut cursors: Vec<Cursor> = in_memory.map(whole).collect();
        cursors.extend(open(files, &keys, &spills).await?);
        let merge = Merge::new(cursors, keys, size);
        Ok(Sorted::Streaming(Merge { _memory: Some(memory), ..merge }))
    }

    /// Begins to put the next rows together.
    pub(super) async fn next(&mut self) -> DataFusionResult<Option<Gathering>> {
        match self {
            Sorted::InMemory(merge) => Ok(merge.next_part().map(gather_part)),
            Sorted::Streaming(merge) => Ok(merge
                .next()
                .await?
                .map(|picks| SpawnedTask::spawn(async move { Ok((vec![gather(&picks)?], None)) }))),
        }
    }
}

/// How many batches of a part are put together before the first one is passed on.
const BATCHES_AT_ONCE: usize = 4;

/// Puts the rows of a part together: some batches, and the rest of the part if there is one.
pub(super) fn gather_part(mut part: Merge) -> Gathering {
    SpawnedTask::spawn(async move {
        let mut batches = Vec::new();
        while batches.len() < BATCHES_AT_ONCE {
            let Some(picks) = part.next().await? else { return Ok((batches, None)) };
            batches.push(gather(&picks)?);
        }
        Ok((batches, Some(part)))
    })
}

/// Batches that another thread puts together, and what follows them.
pub(super) type Gathering = SpawnedTask<DataFusionResult<(Vec<RecordBatch>, Option<Merge>)>>;

/// Runs in memory, which are cut at the same keys into parts that are merged beside each other.
pub(super) struct MemoryMerge {
    runs: Vec<Arc<MemoryRun>>,
    /// What is to be merged: the rows of each run, the first part last.
    open: Vec<Vec<Range<usize>>>,
    keys: Arc<Keys>,
    size: ChunkSize,
}

impl MemoryMerge {
    fn new(runs: Vec<Arc<MemoryRun>>, keys: Arc<Keys>, size: ChunkSize) -> Self {
        let open = vec![runs.iter().map(|run| 0..run.len()).collect()];
        MemoryMerge { runs, open, keys, size }
    }

    /// The merge of the next rows, which are at most twice as many as a batch has.
    fn next_part(&mut self) -> Option<Merge> {
        let mut part = self.open.pop()?;
        // Single rows are not cut.
        while part.iter().map(Range::len).sum::<usize>() > 2 * self.size.rows
            && part.iter().any(|rows| rows.len() > 1)
        {
            let (before, after) = self.cut(&part);
            self.open.push(after);
            part = before;
        }
        let mut cursors = Vec::with_capacity(part.len());
        for (run, rows) in self.runs.iter().zip(part).filter(|(_, rows)| !rows.is_empty()) {
            cursors.push(MemoryCursor::new(Arc::clone(run), rows));
        }
        if let [_, _, ..] = cursors[..] {
            MemoryCursor::look_up_heads(&mut cursors);
        }
        let cursors = cursors.into_iter().map(Cursor::Memory).collect();
        Some(Merge::new(cursors, Arc::clone(&self.keys), self.size))
    }

    /// Cuts rows of all runs at the one in the middle of the longest. Equal rows come in the order
    /// of the runs.
    fn cut(&self, part: &[Range<usize>]) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
        let longest = (0..part.len()).max_by_key(|run| part[*run].len()).unwrap_or_default();
        let middle = part[longest].start + part[longest].len() / 2;
        let key = self.runs[longest].key(middle);
        let cut = |run: usize| {
            let rows = part[run].clone();
            let at = match run.cmp(&longest) {
                Ordering::Less => self.runs[run].lower_bound(rows, |other| other <= key),
                Ordering::Equal => middle,
                Ordering::Greater => self.runs[run].lower_bound(rows, |other| other < key),
            };
            (part[run].start..at, at..part[run].end)
        };
        (0..part.len()).map(cut).unzip()
    }
}

/// Sorted runs that become one.
pub(super) struct Merge {
    cursors: Vec<Cursor>,
    tournament: Tournament,
    keys: Arc<Keys>,
    size: ChunkSize,
    /// How many batches of picks there were.
    rounds: usize,
    /// Given back with the runs.
    _memory: Option<MemoryReservation>,
}

impl Merge {
    pub(super) fn new(cursors: Vec<Cursor>, keys: Arc<Keys>, size: ChunkSize) -> Merge {
        let tournament = Tournament::new(cursors.len(), |a, b| is_less(&cursors, a, b));
        Merge { cursors, tournament, keys, size, rounds: 0, _memory: None }
    }

    /// The next rows, as many as make a batch.
    pub(super) async fn next(&mut self) -> DataFusionResult<Option<Picks>> {
        self.rounds += 1;
        let mut picks = Picks::default();
        if let [Cursor::Memory(only)] = &mut self.cursors[..] {
            only.pick_all(self.rounds, self.size, &mut picks);
            return Ok(Some(picks).filter(|picks| !picks.are_empty()));
        }
        while !picks.are_full(self.size) {
            let first = self.tournament.winner();
            let Some(cursor) = self.cursors.get_mut(first) else { break };
            if !cursor.has_rows() {
                break;
            }
            cursor.pick(self.rounds, &mut picks);
            if cursor.is_at_end_of_batch() {
                cursor.read(&self.keys).await?;
            }
            self.tournament.replay(|a, b| is_less(&self.cursors, a, b));
        }
        Ok(Some(picks).filter(|picks| !picks.are_empty()))
    }
}

/// Writes sorted rows to a file, if there are any.
async fn write(rows: &mut Merge, spills: &SpillManager) -> DataFusionResult<Option<FileRun>> {
    let mut file = spills.create_in_progress_file("ExternalSortExec")?;
    let (mut written, mut batch_bytes) = (0, 0);
    while let Some(picks) = rows.next().await? {
        let batch = gather(&picks)?;
        written += batch.num_rows();
        batch_bytes = batch_bytes.max(file.append_batch(&batch)?);
        // The statement may have been stopped.
        tokio::task::yield_now().await;
    }
    Ok(file.finish()?.map(|file| FileRun { file, rows: written, batch_bytes }))
}

/// Writes a run in memory to a file.
pub(super) async fn write_run(
    run: MemoryRun,
    keys: &Arc<Keys>,
    spills: &SpillManager,
    size: ChunkSize,
) -> DataFusionResult<Option<FileRun>> {
    let run = Arc::new(run);
    let rows = Cursor::in_memory(Arc::clone(&run), 0..run.len());
    write(&mut Merge::new(vec![rows], Arc::clone(keys), size), spills).await
}

/// Takes memory for the merge of files, of the last ones if it is not enough for all. Returns for
/// how many it is enough.
fn reserve(files: &[FileRun], memory: &MemoryReservation) -> DataFusionResult<usize> {
    let mut most = files.len().min(MAX_FILES);
    loop {
        let merged = &files[files.len() - most..];
        let bytes: usize =
            merged.iter().map(|run| READ_BYTES + BATCH_COPIES * run.batch_bytes).sum();
        match memory.try_resize(bytes) {
            Ok(()) => return Ok(most),
            // Fewer would not become fewer files.
            Err(error) if most <= 2 => return Err(error),
            Err(_) => most = (most - most / 4 - 1).max(2),
        }
    }
}

async fn open(
    files: Vec<FileRun>,
    keys: &Keys,
    spills: &SpillManager,
) -> DataFusionResult<Vec<Cursor>> {
    let mut cursors = Vec::with_capacity(files.len());
    for run in files {
        let rows = spills.read_spill_as_stream_unbuffered(run.file, Some(run.batch_bytes))?;
        let mut cursor = Cursor::File(FileCursor { rows, held: None, row: 0, place: (0, 0) });
        cursor.read(keys).await?;
        cursors.push(cursor);
    }
    Ok(cursors)
}

fn is_less(cursors: &[Cursor], a: usize, b: usize) -> bool {
    let (left, right) = (&cursors[a], &cursors[b]);
    if !left.has_rows() || !right.has_rows() {
        return left.has_rows();
    }
    let by_head = left.head().cmp(&right.head());
    by_head.then_with(|| left.key().cmp(right.key())).then(a.cmp(&b)).is_lt()
}

/// The place of a run's next row.
pub(super) enum Cursor {
    Memory(MemoryCursor),
    File(FileCursor),
}

pub(super) struct MemoryCursor {
    run: Arc<MemoryRun>,
    rows: Range<usize>,
    /// Bytes of the keys of these rows, after those that all runs have in common; empty if not
    /// known. They are looked up in one go, as comparisons would wait for memory one by one.
    heads: std::vec::IntoIter<KeyHead>,
    /// The number of each batch among the picks of a round.
    places: Vec<(usize, u32)>,
}

pub(super) struct FileCursor {
    rows: SendableRecordBatchStream,
    /// The batch with the next row.
    held: Option<Arc<Held>>,
    row: usize,
    /// The number of the batch among the picks of a round.
    place: (usize, u32),
}

impl MemoryCursor {
    fn new(run: Arc<MemoryRun>, rows: Range<usize>) -> MemoryCursor {
        let places = vec![(0, 0); run.batches.len()];
        MemoryCursor { run, rows, heads: Vec::new().into_iter(), places }
    }

    fn pick(&mut self, round: usize, picks: &mut Picks) {
        self.heads.next();
        if let Some(next) = self.rows.next() {
            let (batch, row) = self.run.place(next);
            picks.add(&self.run.batches[batch], row, &mut self.places[batch], round);
        }
    }

    /// Picks rows up to the end of a chunk.
    fn pick_all(&mut self, round: usize, size: ChunkSize, picks: &mut Picks) {
        while !self.rows.is_empty() && !picks.are_full(size) {
            self.pick(round, picks);
        }
    }

    fn look_up_heads(cursors: &mut [MemoryCursor]) {
        let known = cursors.first().and_then(|cursor| cursor.run.common());
        if known.is_some() && cursors.iter().all(|cursor| cursor.run.common() == known) {
            for cursor in cursors {
                cursor.heads =
                    cursor.run.heads(cursor.rows.clone()).collect::<Vec<_>>().into_iter();
            }
            return;
        }
        let ends = cursors.iter().flat_map(|cursor| {
            [cursor.rows.start, cursor.rows.end - 1].map(|row| cursor.run.key(row))
        });
        let common = common_bytes(ends);
        for cursor in cursors {
            let heads = cursor.rows.clone().map(|row| key_head(&cursor.run.key(row)[common..]));
            cursor.heads = heads.collect::<Vec<KeyHead>>().into_iter();
        }
    }
}

impl Cursor {
    pub(super) fn in_memory(run: Arc<MemoryRun>, rows: Range<usize>) -> Cursor {
        Cursor::Memory(MemoryCursor::new(run, rows))
    }

    /// The first bytes of the next key, if they are known.
    fn head(&self) -> KeyHead {
        match self {
            Cursor::Memory(cursor) => cursor.heads.as_slice().first().copied().unwrap_or_default(),
            Cursor::File(_) => KeyHead::default(),
        }
    }

    fn has_rows(&self) -> bool {
        match self {
            Cursor::Memory(cursor) => !cursor.rows.is_empty(),
            Cursor::File(cursor) => cursor.held.is_some(),
        }
    }

    /// The key of the next row.
    fn key(&self) -> &[u8] {
        match self {
            Cursor::Memory(cursor) => cursor.run.key(cursor.rows.start),
            Cursor::File(cursor) => cursor.held.as_ref().map_or(&[], |held| held.key(cursor.row)),
        }
    }

    /// Picks the next row.
    fn pick(&mut self, round: usize, picks: &mut Picks) {
        match self {
            Cursor::Memory(cursor) => cursor.pick(round, picks),
            Cursor::File(cursor) => {
                if let Some(held) = &cursor.held {
                    picks.add(held, cursor.row, &mut cursor.place, round);
                }
                cursor.row += 1;
            }
        }
    }

    fn is_at_end_of_batch(&self) -> bool {
        match self {
            Cursor::Memory(_) => false,
            Cursor::File(cursor) => {
                cursor.held.as_ref().is_none_or(|held| cursor.row >= held.batch.num_rows())
            }
        }
    }

    /// Reads the next batch.
    async fn read(&mut self, keys: &Keys) -> DataFusionResult<()> {
        let Cursor::File(cursor) = self else { return Ok(()) };
        (cursor.held, cursor.row, cursor.place) = (None, 0, (0, 0));
        while let Some(batch) = cursor.rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                let rows = keys.of(&batch)?;
                cursor.held = Some(Arc::new(Held::new(batch, rows)));
                break;
            }
        }
        Ok(())
    }
}

/// A tree of losers: the winner of all is at place 0, and the loser of each match at its own.
struct Tournament {
    nodes: Vec<usize>,
}

impl Tournament {
    fn new(leaves: usize, is_less: impl Fn(usize, usize) -> bool) -> Tournament {
        let mut nodes = vec![usize::MAX; leaves];
        for leaf in 0..leaves {
            let (mut winner, mut node) = (leaf, (leaf + leaves) / 2);
            while node > 0 {
                if nodes[node] == usize::MAX {
                    break;
                }
                if is_less(nodes[node], winner) {
                    std::mem::swap(&mut nodes[node], &mut winner);
                }
                node /= 2;
            }
            // Waits for its opponent, or has won.
            nodes[node] = winner;
        }
        Tournament { nodes }
    }

    /// The leaf with the least key, or `usize::MAX` if there are no leaves.
    fn winner(&self) -> usize {
        self.nodes.first().copied().unwrap_or(usize::MAX)
    }

    /// Finds the winner once the one so far has another key.
    fn replay(&mut self, is_less: impl Fn(usize, usize) -> bool) {
        let (mut winner, mut node) = (self.nodes[0], (self.nodes[0] + self.nodes.len()) / 2);
        while node > 0 {
            if is_less(self.nodes[node], winner) {
                std::mem::swap(&mut self.nodes[node], &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}
