//! The parallel pipeline: parsing tasks → batches in input order → segments → encoded bytes in
//! order.
//!
//! ```text
//!  tasks (reader thread)    rayon workers             coordinator (caller's thread)
//!  cut text, row groups ─►  parse ─► batches  ─►  in order ─► SegmentBuilder or PartitionedRows
//!                                                                     full segments │
//!                          sort, encode      ◄─  one segment (or many small ones) ◄─┘
//!                              └─► bytes     ─►  in order ─► sink (writer thread: write, fsync)
//! ```
//!
//! Rows that a task rejected come with its batches, and the coordinator counts both as it takes
//! them.
//!
//! A load that commits on the way stops between two pieces. Pieces count when they are taken, not
//! when they are handed out: tasks in flight then wait for the next part ([`Feed`]).
//!
//! Memory is bounded by construction: a fixed number of tasks is in flight, and one segment each is
//! being filled, encoded and written. A segment is cut by the bytes of its values, within a batch
//! if necessary. The contents of a segment depend on the input alone, never on threads or timing.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use arrow_array::RecordBatch;
use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::accounting::RowAccounting;
use super::arrange::Arrange;
use super::columns::{KeptCodes, SegmentBuilder, match_columns, to_stored_layouts, typed};
pub(crate) use super::feed::Feed;
use super::feed::{InFlight, send_result};
pub(crate) use super::options::PipelineOptions;
use super::origin::{Origin, explain};
use super::partition::Partitions;
use super::partitioned::{PartitionedRows, PendingSegments};
use super::resume::CommitEvery;
use super::sort::sorted;
pub(crate) use super::task::{Parsed, Task};
use crate::error::{Error, Result};
use crate::model::{Arrangement, Column, ColumnId, DataType, Schema, SortKey};
use crate::segment::writer::{self, EncodedSegment, SegmentInput};

/// Receives encoded segments, each with the path of its partition.
pub(crate) type Sink<'a> = dyn FnMut(Arc<str>, EncodedSegment) -> Result<()> + 'a;

/// Runs `tasks` on `pool` and hands encoded segments to `sink`, in order. `schema` grows and widens
/// as batches need it, `arrange` says where rows go, and `accounting` counts every row. Returns the
/// arrangement of the rows, or `None` if there was no batch.
pub(crate) fn run(
    pool: &ThreadPool,
    tasks: impl Iterator<Item = Result<Task>>,
    schema: &mut Schema,
    arrange: &Arrange,
    options: &PipelineOptions,
    accounting: &mut RowAccounting,
    sink: &mut Sink<'_>,
) -> Result<Option<Arrangement>> {
    run_part(pool, &mut Feed::new(tasks), None, schema, arrange, options, accounting, sink)
}

/// Like [`run`], but stops when a commit is due: then [`Feed::position`] is `Some`.
#[expect(clippy::too_many_arguments, reason = "those of `run`")]
pub(crate) fn run_part(
    pool: &ThreadPool,
    feed: &mut Feed<impl Iterator<Item = Result<Task>>>,
    commit_every: Option<CommitEvery>,
    schema: &mut Schema,
    arrange: &Arrange,
    options: &PipelineOptions,
    accounting: &mut RowAccounting,
    sink: &mut Sink<'_>,
) -> Result<Option<Arrangement>> {
    let mut coordinator = Coordinator {
        pool,
        options,
        arrange,
        buffer: RowBuffer::OneSegment(SegmentBuilder::new(options.segment)),
        encoding: None,
        sink,
        accounting,
        arrangement: None,
        sort_by: Arc::new([]),
        origins: HashMap::new(),
    };
    let (started, mut rows, mut bytes) = (Instant::now(), 0, 0);
    loop {
        feed.fill(pool, options);
        let is_due = commit_every.is_some_and(|commit_every| match commit_every {
            CommitEvery::Rows(every) => rows >= every.max(1),
            CommitEvery::Bytes(every) => bytes >= every.max(1),
            CommitEvery::Time(every) => rows > 0 && started.elapsed() >= every,
        });
        if is_due && feed.in_flight.front().is_some_and(|next| next.starts_piece) {
            break;
        }
        let Some(oldest) = feed.take() else { break };
        bytes += oldest.bytes;
        rows += coordinator.take(oldest, schema)?;
    }
    feed.cut = Instant::now();
    coordinator.flush(true)?;
    coordinator.finish_encoding()?;
    Ok(coordinator.arrangement)
}

fn no_answer<T>(_: T) -> Error {
    stopped("<worker>")
}

/// The error for a thread that ended without an answer.
pub(super) fn stopped(thread: &str) -> Error {
    let what =
        "this thread stopped without a result: a bug, or out of memory; nothing was committed";
    Error::io(thread, std::io::Error::other(what))
}

struct Coordinator<'a, 's> {
    pool: &'a ThreadPool,
    options: &'a PipelineOptions,
    arrange: &'a Arrange,
    buffer: RowBuffer,
    encoding: Option<Receiver<Result<Encoded>>>,
    sink: &'a mut Sink<'s>,
    accounting: &'a mut RowAccounting,
    arrangement: Option<Arrangement>,
    sort_by: Arc<[SortKey]>,
    /// The inputs of this part that gave columns their types.
    origins: HashMap<ColumnId, Arc<Origin>>,
}

/// Segments, each with the path of its partition.
type Encoded = Vec<(Arc<str>, EncodedSegment)>;

/// Rows that are not in a segment yet.
enum RowBuffer {
    OneSegment(SegmentBuilder),
    Partitions(Box<Partitions>, PartitionedRows),
}

impl Coordinator<'_, '_> {
    /// Takes the result of a task. Returns how many rows were read, including rejected ones.
    fn take(&mut self, oldest: InFlight, schema: &mut Schema) -> Result<u64> {
        let mut parsed = oldest.result.recv().map_err(no_answer)??;
        let fits = |batch: &RecordBatch| {
            let batch = typed(schema, batch.clone(), parsed.stored);
            batch.is_ok_and(|batch| match_columns(&mut schema.clone(), &batch).is_ok())
        };
        if let Some(reparse) = parsed.reparse.take_if(|_| !parsed.batches.iter().all(fits)) {
            parsed = reparse(schema)?;
        }
        self.accounting.leave_out_blank(oldest.input, parsed.blank_lines);
        self.accounting.leave_out(oldest.input, parsed.left_out);
        let mut rows = parsed.rejects.total() + parsed.left_out;
        self.accounting.reject(oldest.input, parsed.rejects)?;
        let stored = parsed.stored;
        for batch in parsed.batches {
            let batch = typed(schema, batch, stored)?;
            let ids = self.match_columns(schema, &batch, oldest.origin.as_ref())?;
            if self.arrangement.is_none() {
                self.start(self.arrange.resolve(schema)?);
            }
            rows += batch.num_rows() as u64;
            self.accounting.store(oldest.input, batch.num_rows() as u64);
            let in_order =
                self.sort_by.is_empty() && matches!(self.buffer, RowBuffer::OneSegment(_));
            let codes = match stored {
                _ if !in_order => KeptCodes::None,
                true => KeptCodes::OfSegments,
                false => KeptCodes::OfInputs,
            };
            self.collect(to_stored_layouts(batch, codes)?, &ids, schema)?;
        }
        Ok(rows)
    }

    /// Matches the columns of a batch, and remembers what gave them their types.
    fn match_columns(
        &mut self,
        schema: &mut Schema,
        batch: &RecordBatch,
        origin: Option<&Arc<Origin>>,
    ) -> Result<Vec<ColumnId>> {
        let Some(origin) = origin else { return match_columns(schema, batch) };
        let before: Vec<DataType> =
            schema.columns().iter().map(|column| column.data_type.clone()).collect();
        let ids = match_columns(schema, batch).map_err(|error| {
            let of_column = |column: &Column| self.origins.get(&column.id).map(Arc::as_ref);
            explain(error, schema, batch, origin, of_column)
        })?;
        for (at, column) in schema.columns().iter().enumerate() {
            if before.get(at) != Some(&column.data_type) {
                self.origins.insert(column.id, Arc::clone(origin));
            }
        }
        Ok(ids)
    }

    /// Sets up the buffer once the arrangement is known.
    fn start(&mut self, arrangement: Arrangement) {
        if !arrangement.partition_by.is_empty() {
            let partitions =
                Partitions::new(arrangement.partition_by.clone(), self.arrange.compile());
            let rows = PartitionedRows::new(self.options.segment, self.options.waiting_bytes);
            self.buffer = RowBuffer::Partitions(Box::new(partitions), rows);
        }
        self.sort_by = arrangement.sort_by.as_slice().into();
        self.arrangement = Some(arrangement);
    }

    fn collect(&mut self, batch: RecordBatch, ids: &[ColumnId], schema: &Schema) -> Result<()> {
        match &mut self.buffer {
            RowBuffer::Partitions(partitions, rows) => {
                let numbers = partitions.number_rows(&batch, ids, schema)?;
                if rows.push(&batch, ids, numbers) { self.flush(false) } else { Ok(()) }
            }
            RowBuffer::OneSegment(_) => self.collect_segment(batch, ids),
        }
    }

    fn collect_segment(&mut self, batch: RecordBatch, ids: &[ColumnId]) -> Result<()> {
        let mut rest = batch;
        while let RowBuffer::OneSegment(builder) = &mut self.buffer
            && let ControlFlow::Break(more) = builder.push(&rest, ids)?
        {
            self.flush(false)?;
            rest = more;
            if rest.num_rows() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Encodes buffered rows once the previous segment has reached the sink: those of one segment,
    /// or those of the largest partitions; at the `end`, all.
    fn flush(&mut self, end: bool) -> Result<()> {
        match &mut self.buffer {
            RowBuffer::OneSegment(builder) if builder.is_empty() => Ok(()),
            RowBuffer::OneSegment(builder) => {
                let input = builder.finish()?;
                self.encode(move || Ok(vec![(Arc::from(""), input)]))
            }
            RowBuffer::Partitions(..) => {
                let nothing = RowBuffer::OneSegment(SegmentBuilder::new(self.options.segment));
                let RowBuffer::Partitions(partitions, mut rows) =
                    std::mem::replace(&mut self.buffer, nothing)
                else {
                    return Ok(());
                };
                let closed = rows.cut(end, &mut |cut: PendingSegments| {
                    let paths =
                        cut.partitions().map(|number| partitions.path(number)).collect::<Vec<_>>();
                    self.encode(move || {
                        let inputs = cut.gather()?.into_iter().map(|(_, input)| input);
                        Ok(paths.into_iter().zip(inputs).collect())
                    })
                });
                self.buffer = RowBuffer::Partitions(partitions, rows);
                closed
            }
        }
    }

    /// Sorts and encodes segments on the pool.
    fn encode(
        &mut self,
        make: impl FnOnce() -> Result<Vec<(Arc<str>, SegmentInput)>> + Send + 'static,
    ) -> Result<()> {
        self.finish_encoding()?;
        let (done, result) = sync_channel(1);
        let (options, sort_by) = (self.options.encoding, Arc::clone(&self.sort_by));
        let encode = move || {
            let one =
                |(path, input)| Ok((path, writer::encode(&sorted(input, &sort_by)?, &options)?));
            make()?.into_par_iter().map(one).collect()
        };
        self.pool.spawn(move || send_result(&done, encode()));
        self.encoding = Some(result);
        Ok(())
    }

    fn finish_encoding(&mut self) -> Result<()> {
        let Some(encoding) = self.encoding.take() else { return Ok(()) };
        encoding
            .recv()
            .map_err(no_answer)??
            .into_iter()
            .try_for_each(|(path, segment)| (self.sink)(path, segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Options, Profile};
    use crate::ingest::columns::SegmentLimits;
    use crate::ingest::rejects::{OnError, PriorRejects};

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
        let mut accounting =
            RowAccounting::open(&OnError::Fail, None, &PriorRejects::default()).unwrap();
        let (mut schema, arrange) = (Schema::default(), Arrange::default());
        let error =
            run(&pool, tasks(), &mut schema, &arrange, &options, &mut accounting, &mut |_, _| {
                Ok(())
            })
            .unwrap_err();
        assert!(error.to_string().contains("nothing was committed"), "{error}");
    }
}
