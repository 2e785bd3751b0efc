//! The rows of one partition that may be among the first of their groups, held until all rows have
//! been seen. Where there is no memory for them, they are passed on as they are: the operators
//! above look at every row once more.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType as ArrowType, SchemaRef, SortOptions};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use crate::query::group_top::{GroupTop, Ranking};
use crate::sql::run::coalesce::{Coalescer, most_held};

/// The share of the memory limit that the partitions of an operator may take together.
const MEMORY_SHARE: usize = 8;

/// The most rows that are held. So many are sorted within a tenth of a second.
const MOST_ROWS: usize = 1 << 21;

/// After so many rows, nearly all of which are in groups of their own, nothing is expected of the
/// others.
const TRIAL_ROWS: usize = 1 << 19;

/// Which rows of a group are the first.
#[derive(Clone, Debug)]
pub(in crate::sql) struct FirstRows {
    /// The keys of groups.
    pub(in crate::sql) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(in crate::sql) order: Vec<PhysicalSortExpr>,
    pub(in crate::sql) ranking: Ranking,
    /// The last number that passes.
    pub(in crate::sql) limit: usize,
}

/// The rows of one partition.
pub(super) struct Prefilter {
    first: FirstRows,
    /// `None` once all rows are passed on.
    top: Option<GroupTop>,
    /// The candidates of `top`, in the same order; the last ones are in the coalescer.
    held: Vec<RecordBatch>,
    coalescer: Coalescer,
    /// Rows that came so far.
    seen: usize,
    /// The bytes of `held`. A buffer that several batches share counts once.
    counter: RecordBatchMemoryCounter,
    memory: MemoryReservation,
    /// The bytes that it may have.
    most: usize,
}

impl Prefilter {
    pub(super) fn new(
        first: &FirstRows,
        schema: &SchemaRef,
        partitions: usize,
        context: &TaskContext,
    ) -> DataFusionResult<Self> {
        let pool = context.memory_pool();
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / MEMORY_SHARE / partitions.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let key = |key: &Arc<dyn PhysicalExpr>| key.data_type(schema);
        let keys = first.keys.iter().map(key).collect::<DataFusionResult<Vec<ArrowType>>>()?;
        let by = |key: &PhysicalSortExpr| Ok((key.expr.data_type(schema)?, key.options));
        let order = first
            .order
            .iter()
            .map(by)
            .collect::<DataFusionResult<Vec<(ArrowType, SortOptions)>>>()?;
        Ok(Prefilter {
            first: first.clone(),
            top: Some(GroupTop::new(&keys, &order, first.ranking, first.limit)?),
            held: Vec::new(),
            coalescer: Coalescer::new(schema, most_held(context)),
            seen: 0,
            counter: RecordBatchMemoryCounter::new(),
            memory: MemoryConsumer::new("FirstRowsExec").with_can_spill(true).register(pool),
            most,
        })
    }

    /// Takes rows. Returns those that are passed on already.
    pub(super) fn push(&mut self, batch: RecordBatch) -> DataFusionResult<Vec<RecordBatch>> {
        let Some(top) = &mut self.top else { return Ok(vec![batch]) };
        let rows = batch.num_rows();
        let column = |key: &Arc<dyn PhysicalExpr>| key.evaluate(&batch)?.into_array(rows);
        let keys = self.first.keys.iter().map(column);
        let keys = keys.collect::<DataFusionResult<Vec<ArrayRef>>>()?;
        let order = self.first.order.iter().map(|key| column(&key.expr));
        let order = order.collect::<DataFusionResult<Vec<ArrayRef>>>()?;
        let places = top.enter(&keys, &order, rows)?;
        let is_full = top.is_full();
        self.seen += rows;
        match places.len() {
            0 => {}
            all if all == rows => self.hold(batch)?,
            _ => self.hold(take_record_batch(&batch, &UInt32Array::from(places))?)?,
        }
        if is_full {
            self.prune()?;
            if self.rows() > MOST_ROWS || self.hardly_groups() {
                return self.let_go();
            }
        }
        if self.reserve(self.most) {
            return Ok(Vec::new());
        }
        self.prune()?;
        // Little room would be taken soon.
        if self.reserve(self.most / 2) {
            return Ok(Vec::new());
        }
        self.let_go()
    }

    /// The rows that are left once all have come.
    pub(super) fn finish(&mut self) -> DataFusionResult<Vec<RecordBatch>> {
        self.prune()?;
        self.flush()?;
        // What it knows of groups is of no use any more; the rows are counted until they are gone.
        self.top = None;
        self.reserve(usize::MAX);
        Ok(std::mem::take(&mut self.held))
    }

    fn rows(&self) -> usize {
        self.top.as_ref().map_or(0, GroupTop::len)
    }

    fn hardly_groups(&self) -> bool {
        let groups = self.top.as_ref().map_or(0, GroupTop::groups);
        self.seen >= TRIAL_ROWS && groups > self.seen - self.seen / 8
    }

    fn hold(&mut self, batch: RecordBatch) -> DataFusionResult<()> {
        let full = self.coalescer.push(batch)?;
        self.add(full);
        Ok(())
    }

    /// Empties the coalescer.
    fn flush(&mut self) -> DataFusionResult<()> {
        let last = self.coalescer.finish()?;
        self.add(last);
        Ok(())
    }

    fn add(&mut self, batches: Vec<RecordBatch>) {
        for batch in batches {
            self.counter.count_batch(&batch);
            self.held.push(batch);
        }
    }

    /// Drops rows that are not among the first by now.
    fn prune(&mut self) -> DataFusionResult<()> {
        let Some(top) = &mut self.top else { return Ok(()) };
        let before = top.len();
        let stays = top.prune();
        if top.len() == before {
            return Ok(());
        }
        self.flush()?;
        self.counter = RecordBatchMemoryCounter::new();
        let mut start = 0;
        for batch in std::mem::take(&mut self.held) {
            let mask = BooleanArray::new(stays.slice(start, batch.num_rows()), None);
            start += batch.num_rows();
            self.hold(filter_record_batch(&batch, &mask)?)?;
        }
        Ok(())
    }

    /// Reserves what it holds, if that is at most so many bytes.
    fn reserve(&self, most: usize) -> bool {
        let bytes = self.top.as_ref().map_or(0, GroupTop::memory) + self.counter.memory_usage();
        bytes <= most && self.memory.try_resize(bytes).is_ok()
    }

    /// Passes all rows on that are held. What is known of groups still holds for the next ones,
    /// unless it has hardly helped so far, or takes too much memory itself.
    fn let_go(&mut self) -> DataFusionResult<Vec<RecordBatch>> {
        let helps = self.rows() < self.seen - self.seen / 4;
        self.flush()?;
        self.counter = RecordBatchMemoryCounter::new();
        if let Some(top) = &mut self.top {
            top.forget();
        }
        if !helps || !self.reserve(self.most / 2) {
            self.top = None;
            self.memory.free();
        }
        Ok(std::mem::take(&mut self.held))
    }
}
