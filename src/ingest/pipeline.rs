//! The parallel pipeline: parsing tasks → batches in input order → segments → encoded bytes in order.
//!
//! ```text
//!  tasks (reader thread)      rayon workers                coordinator (caller's thread)
//!  cut text, row groups  ──►  parse ─► batches  ──►  in order ─► SegmentBuilder ─► full
//!                             encode columns    ◄──  one segment at a time  ◄──────┘
//!                                   └─► bytes   ──►  in order ─► sink (writer thread: write, fsync)
//! ```
//!
//! Rows that a task left out come with its batches, and the coordinator enters both into the ledger as it takes them.
//!
//! Memory is bounded by construction: a fixed number of tasks is in flight, one segment is being filled, one
//! encoded and one written. A segment is cut by the bytes of its values, be it within a batch. What is in a segment depends on the input alone, never on threads or timing.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::RecordBatch;
use rayon::ThreadPool;

use super::columns::{SegmentBuilder, SegmentLimits, match_columns, readable};
use super::rejects::{Ledger, Rejects};
use crate::encoding::Options;
use crate::error::{Error, Result};
use crate::model::Schema;
use crate::segment::writer::{self, EncodedSegment};

/// A piece of parsing work that any thread can do.
pub struct Task {
    /// Bytes that the input and the result take in memory, about.
    pub weight: usize,
    /// Number of the input that the piece is of, from 0.
    pub input: usize,
    /// The work.
    pub work: Box<dyn FnOnce() -> Result<Parsed> + Send>,
}

impl Task {
    /// Work on a piece of the first input, or of one whose number is set later.
    pub fn new(weight: usize, work: impl FnOnce() -> Result<Parsed> + Send + 'static) -> Self {
        Task { weight, input: 0, work: Box::new(work) }
    }
}

/// What a task makes of its piece.
#[derive(Default)]
pub struct Parsed {
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
    /// The rows that are not among them.
    pub rejects: Rejects,
    /// Does the work once more, should the batches not fit the table: with the types that it has by then, so that
    /// single rows are rejected in place of all. `None` where a type that does not fit is an error.
    pub again: Option<Again>,
}

/// Work to be done again for a table of this schema.
pub type Again = Box<dyn FnOnce(&Schema) -> Result<Parsed> + Send>;

impl From<Vec<RecordBatch>> for Parsed {
    fn from(batches: Vec<RecordBatch>) -> Self {
        Parsed { batches, ..Parsed::default() }
    }
}

impl From<RecordBatch> for Parsed {
    fn from(batch: RecordBatch) -> Self {
        Parsed::from(vec![batch])
    }
}

impl std::fmt::Debug for Parsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        f.debug_struct("Parsed").field("rows", &rows).field("rejects", &self.rejects).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("weight", &self.weight).finish_non_exhaustive()
    }
}

/// What the pipeline is told.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOptions {
    /// When a segment is full.
    pub segment: SegmentLimits,
    /// How columns are encoded.
    pub encoding: Options,
    /// Parsing tasks in flight.
    pub in_flight: usize,
    /// Their weight in bytes, unless a single one is heavier.
    pub in_flight_bytes: usize,
}

/// Runs `tasks` on `pool` and hands encoded segments to `sink`, in order. `schema` grows and widens as batches
/// need it, and `ledger` notes what became of every row.
pub fn run(
    pool: &ThreadPool,
    tasks: impl Iterator<Item = Result<Task>>,
    schema: &mut Schema,
    options: &PipelineOptions,
    ledger: &mut Ledger,
    sink: &mut dyn FnMut(EncodedSegment) -> Result<()>,
) -> Result<()> {
    let mut stage =
        Stage { pool, options, builder: SegmentBuilder::new(options.segment), encoding: None, sink, ledger };
    let mut parsing: VecDeque<Parsing> = VecDeque::new();
    let mut weight = 0;
    for task in tasks {
        let Task { weight: more, input, work } = task?;
        while parsing.len() >= options.in_flight || weight + more > options.in_flight_bytes {
            let Some(oldest) = parsing.pop_front() else { break };
            weight -= oldest.weight;
            stage.take(oldest, schema)?;
        }
        let (done, result) = sync_channel(1);
        pool.spawn(move || deliver(&done, work()));
        weight += more;
        parsing.push_back(Parsing { weight: more, input, result });
    }
    for oldest in parsing {
        stage.take(oldest, schema)?;
    }
    stage.close()?;
    stage.drain()
}

/// Sends a result; a coordinator that has given up no longer listens, which is fine.
fn deliver<T>(to: &SyncSender<T>, result: T) {
    let _ = to.send(result);
}

fn lost<T>(_: T) -> Error {
    stopped("<worker>")
}

/// A thread of the ingest is gone, and with it what it was to answer.
pub(super) fn stopped(thread: &str) -> Error {
    let what = "this thread stopped without an answer: a bug, or no memory left; nothing was committed";
    Error::io(thread, std::io::Error::other(what))
}

/// A task that a worker has, or has done.
struct Parsing {
    weight: usize,
    input: usize,
    result: Receiver<Result<Parsed>>,
}

struct Stage<'a> {
    pool: &'a ThreadPool,
    options: &'a PipelineOptions,
    builder: SegmentBuilder,
    encoding: Option<Receiver<Result<EncodedSegment>>>,
    sink: &'a mut dyn FnMut(EncodedSegment) -> Result<()>,
    ledger: &'a mut Ledger,
}

impl Stage<'_> {
    /// Takes parsed batches into the builder.
    fn take(&mut self, oldest: Parsing, schema: &mut Schema) -> Result<()> {
        let mut parsed = oldest.result.recv().map_err(lost)??;
        let fits = |batch: &RecordBatch| match_columns(&mut schema.clone(), batch).is_ok();
        if let Some(again) = parsed.again.take_if(|_| !parsed.batches.iter().all(fits)) {
            parsed = again(schema)?;
        }
        self.ledger.reject(oldest.input, parsed.rejects)?;
        for batch in parsed.batches {
            let ids = match_columns(schema, &batch)?;
            self.ledger.store(oldest.input, batch.num_rows() as u64);
            let mut rest = readable(batch)?;
            while let ControlFlow::Break(more) = self.builder.push(&rest, &ids)? {
                self.close()?;
                rest = more;
                if rest.num_rows() == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends the builder's rows to be encoded, after what was being encoded has reached the sink.
    fn close(&mut self) -> Result<()> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let input = self.builder.finish()?;
        self.drain()?;
        let (done, result) = sync_channel(1);
        let options = self.options.encoding;
        self.pool.spawn(move || deliver(&done, writer::encode(&input, &options)));
        self.encoding = Some(result);
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        match self.encoding.take() {
            Some(encoding) => (self.sink)(encoding.recv().map_err(lost)??),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Profile;
    use crate::ingest::rejects::OnError;

    #[test]
    fn a_worker_that_panics_is_an_error() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).panic_handler(|_| {}).build().unwrap();
        let options = PipelineOptions {
            segment: SegmentLimits { rows: 1024, bytes: 1 << 20, block_rows: 1024 },
            encoding: Options::new(Profile::Fast),
            in_flight: 1,
            in_flight_bytes: 1,
        };
        let tasks = || (0..3).map(|_| Ok(Task::new(1, || panic!("a test of a bug"))));
        let mut ledger = Ledger::open(&OnError::Fail, None).unwrap();
        let error =
            run(&pool, tasks(), &mut Schema::default(), &options, &mut ledger, &mut |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("nothing was committed"), "{error}");
    }
}
