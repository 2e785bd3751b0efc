//! The parallel pipeline: parsing tasks → batches in input order → segments → encoded bytes in
//! order.
//!
//! ```text
//!  tasks (reader thread)      rayon workers                coordinator (caller's thread)
//!  cut text, row groups  ──►  parse ─► batches  ──►  in order ─► SegmentBuilder or PartitionedRows ─► full
//!                       sort, encode columns    ◄──  one segment (or many small ones) at a time  ◄───┘
//!                                   └─► bytes   ──►  in order ─► sink (writer thread: write, fsync)
//! ```
//!
//! Rows that a task left out come with its batches, and the coordinator enters both into the ledger
//! as it takes them.
//!
//! A load that commits on its way stops between two pieces, counted as they are taken and not as
//! they are handed out: what is in flight then waits for the next part ([`Feed`]).
//!
//! Memory is bounded by construction: a fixed number of tasks is in flight, one segment is being
//! filled, one encoded and one written. A segment is cut by the bytes of its values, be it within a
//! batch. What is in a segment depends on the input alone, never on threads or timing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::accounting::Tally;
use super::arrange::Arrange;
use super::columns::{SegmentBuilder, match_columns, readable};
pub use super::feed::Feed;
use super::feed::{Parsing, deliver};
pub use super::options::PipelineOptions;
use super::partition::Partitions;
use super::partitioned::{Cut, PartitionedRows};
use super::resume::CommitEvery;
use super::sort::sorted;
pub use super::task::{Again, Parsed, Task};
use crate::error::{Error, Result};
use crate::model::{Arrangement, ColumnId, Schema, SortKey};
use crate::segment::writer::{self, EncodedSegment, SegmentInput};

/// Takes encoded segments, each with the path of its partition.
pub type Sink<'a> = dyn FnMut(Arc<str>, EncodedSegment) -> Result<()> + 'a;

/// Runs `tasks` on `pool` and hands encoded segments to `sink`, in order. `schema` grows and widens
/// as batches need it; `arrange` says where rows go, and `tally` notes what became of every row.
/// Returns how rows are arranged, unless there was not a batch.
pub fn run(
    pool: &ThreadPool,
    tasks: impl Iterator<Item = Result<Task>>,
    schema: &mut Schema,
    arrange: &Arrange,
    options: &PipelineOptions,
    tally: &mut Tally,
    sink: &mut Sink<'_>,
) -> Result<Option<Arrangement>> {
    run_part(pool, &mut Feed::new(tasks), None, schema, arrange, options, tally, sink)
}

/// As [`run`], until a commit is due: then the feed has a [`Feed::position`].
#[expect(clippy::too_many_arguments, reason = "those of `run`")]
pub fn run_part(
    pool: &ThreadPool,
    feed: &mut Feed<impl Iterator<Item = Result<Task>>>,
    until: Option<CommitEvery>,
    schema: &mut Schema,
    arrange: &Arrange,
    options: &PipelineOptions,
    tally: &mut Tally,
    sink: &mut Sink<'_>,
) -> Result<Option<Arrangement>> {
    let mut stage = Stage {
        pool,
        options,
        arrange,
        collected: Collected::OneSegment(SegmentBuilder::new(options.segment)),
        encoding: None,
        sink,
        tally,
        arrangement: None,
        sort_by: Arc::new([]),
    };
    let (mut rows, mut bytes) = (0, 0);
    loop {
        feed.fill(pool, options);
        let is_due = until.is_some_and(|until| match until {
            CommitEvery::Rows(every) => rows >= every.max(1),
            CommitEvery::Bytes(every) => bytes >= every.max(1),
        });
        if is_due && feed.in_flight.front().is_some_and(|next| next.begins) {
            break;
        }
        let Some(oldest) = feed.take() else { break };
        bytes += oldest.bytes;
        rows += stage.take(oldest, schema)?;
    }
    stage.close(true)?;
    stage.drain()?;
    Ok(stage.arrangement)
}

fn lost<T>(_: T) -> Error {
    stopped("<worker>")
}

/// A thread of the ingest is gone, and with it what it was to answer.
pub(super) fn stopped(thread: &str) -> Error {
    let what =
        "this thread stopped without an answer: a bug, or no memory left; nothing was committed";
    Error::io(thread, std::io::Error::other(what))
}

struct Stage<'a, 's> {
    pool: &'a ThreadPool,
    options: &'a PipelineOptions,
    arrange: &'a Arrange,
    collected: Collected,
    encoding: Option<Receiver<Result<Encoded>>>,
    sink: &'a mut Sink<'s>,
    tally: &'a mut Tally,
    arrangement: Option<Arrangement>,
    sort_by: Arc<[SortKey]>,
}

/// Segments, each with the path of its partition.
type Encoded = Vec<(Arc<str>, EncodedSegment)>;

/// Rows that are not yet a segment.
enum Collected {
    OneSegment(SegmentBuilder),
    Partitions(Box<Partitions>, PartitionedRows),
}

impl Stage<'_, '_> {
    /// Takes parsed batches. Returns how many rows were read, rejected ones among them.
    fn take(&mut self, oldest: Parsing, schema: &mut Schema) -> Result<u64> {
        let mut parsed = oldest.result.recv().map_err(lost)??;
        let fits = |batch: &RecordBatch| match_columns(&mut schema.clone(), batch).is_ok();
        if let Some(again) = parsed.again.take_if(|_| !parsed.batches.iter().all(fits)) {
            parsed = again(schema)?;
        }
        let mut rows = parsed.rejects.total();
        self.tally.reject(oldest.input, parsed.rejects)?;
        for batch in parsed.batches {
            let ids = match_columns(schema, &batch)?;
            if self.arrangement.is_none() {
                self.start(self.arrange.resolve(schema)?);
            }
            rows += batch.num_rows() as u64;
            self.tally.store(oldest.input, batch.num_rows() as u64);
            self.collect(readable(batch)?, &ids, schema)?;
        }
        Ok(rows)
    }

    /// Now it is known where rows go.
    fn start(&mut self, arrangement: Arrangement) {
        if !arrangement.partition_by.is_empty() {
            let partitions =
                Partitions::new(arrangement.partition_by.clone(), self.arrange.compile());
            let rows = PartitionedRows::new(self.options.segment, self.options.waiting_bytes);
            self.collected = Collected::Partitions(Box::new(partitions), rows);
        }
        self.sort_by = arrangement.sort_by.as_slice().into();
        self.arrangement = Some(arrangement);
    }

    fn collect(&mut self, batch: RecordBatch, ids: &[ColumnId], schema: &Schema) -> Result<()> {
        match &mut self.collected {
            Collected::Partitions(partitions, rows) => {
                let of = partitions.of(&batch, ids, schema)?;
                if rows.push(&batch, ids, of) { self.close(false) } else { Ok(()) }
            }
            Collected::OneSegment(_) => self.collect_segment(batch, ids),
        }
    }

    fn collect_segment(&mut self, batch: RecordBatch, ids: &[ColumnId]) -> Result<()> {
        let mut rest = batch;
        while let Collected::OneSegment(builder) = &mut self.collected
            && let ControlFlow::Break(more) = builder.push(&rest, ids)?
        {
            self.close(false)?;
            rest = more;
            if rest.num_rows() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Sends rows to be encoded, after what was being encoded has reached the sink: those of one
    /// segment, or those of the fullest partitions; of all if it is the end.
    fn close(&mut self, end: bool) -> Result<()> {
        match &mut self.collected {
            Collected::OneSegment(builder) if builder.is_empty() => Ok(()),
            Collected::OneSegment(builder) => {
                let input = builder.finish()?;
                self.encode(move || Ok(vec![(Arc::from(""), input)]))
            }
            Collected::Partitions(..) => {
                let nothing = Collected::OneSegment(SegmentBuilder::new(self.options.segment));
                let Collected::Partitions(partitions, mut rows) =
                    std::mem::replace(&mut self.collected, nothing)
                else {
                    return Ok(());
                };
                let closed = rows.cut(end, &mut |cut: Cut| {
                    let paths =
                        cut.partitions().map(|number| partitions.path(number)).collect::<Vec<_>>();
                    self.encode(move || {
                        let inputs = cut.gather()?.into_iter().map(|(_, input)| input);
                        Ok(paths.into_iter().zip(inputs).collect())
                    })
                });
                self.collected = Collected::Partitions(partitions, rows);
                closed
            }
        }
    }

    /// Sorts and encodes segments on the pool.
    fn encode(
        &mut self,
        make: impl FnOnce() -> Result<Vec<(Arc<str>, SegmentInput)>> + Send + 'static,
    ) -> Result<()> {
        self.drain()?;
        let (done, result) = sync_channel(1);
        let (options, sort_by) = (self.options.encoding, Arc::clone(&self.sort_by));
        let encode = move || {
            let one =
                |(path, input)| Ok((path, writer::encode(&sorted(input, &sort_by)?, &options)?));
            make()?.into_par_iter().map(one).collect()
        };
        self.pool.spawn(move || deliver(&done, encode()));
        self.encoding = Some(result);
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let Some(encoding) = self.encoding.take() else { return Ok(()) };
        encoding
            .recv()
            .map_err(lost)??
            .into_iter()
            .try_for_each(|(path, segment)| (self.sink)(path, segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Options, Profile};
    use crate::ingest::columns::SegmentLimits;
    use crate::ingest::rejects::{Before, OnError};

    #[test]
    fn a_worker_that_panics_is_an_error() {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(1).panic_handler(|_| {}).build().unwrap();
        let options = PipelineOptions {
            segment: SegmentLimits { rows: 1024, bytes: 1 << 20, block_rows: 1024 },
            encoding: Options::new(Profile::Fast),
            in_flight: 1,
            in_flight_bytes: 1,
            waiting_bytes: 1,
        };
        let tasks = || (0..3).map(|_| Ok(Task::new(1, || panic!("a test of a bug"))));
        let mut tally = Tally::open(&OnError::Fail, None, &Before::default()).unwrap();
        let (mut schema, arrange) = (Schema::default(), Arrange::default());
        let error =
            run(&pool, tasks(), &mut schema, &arrange, &options, &mut tally, &mut |_, _| Ok(()))
                .unwrap_err();
        assert!(error.to_string().contains("nothing was committed"), "{error}");
    }
}
