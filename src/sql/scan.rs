//! Scanning a table: blocks filtered and decoded to Arrow, in slices that stay in cache.
//!
//! All partitions of a scan take their blocks from one [`Queue`], in the order of the table, so that none waits while
//! another still has work. The queue rules segments out by the manifest's statistics before they are mapped, and
//! blocks by the zone maps of their segment before they are read.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use super::convert::{external, to_statistics};
use super::generate::{Output, generate};
use super::queue::{Queue, Work};
use super::runs::Runs;
use super::table::StoreTable;
use crate::error::{Error, Result};
use crate::expr::Predicate;
use crate::limits::{BLOCK_ROWS, VECTOR};
use crate::model::Column;
use crate::query::Condition;
use crate::query::filter::{Filter, Marks, Tests};
use crate::query::scan::{self, OpenBlock, SLICE_ROWS, Slice};

/// What to read.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) table: Arc<StoreTable>,
    /// The columns that are read: those of the answer first, in its order.
    pub(crate) columns: Vec<Column>,
    /// The columns of the answer.
    pub(crate) schema: SchemaRef,
    /// Rows that do not meet them do not come out.
    pub(crate) conditions: Vec<Condition>,
    /// Of blocks: those in which no row can match need not be read.
    pub(crate) predicate: Predicate,
    /// No more than so many rows are needed.
    pub(crate) limit: Option<u64>,
    /// Why what stands above runs in DataFusion.
    pub(crate) refusal: Option<Arc<str>>,
}

/// The leaf of a physical plan.
#[derive(Debug)]
pub(crate) struct ScanExec {
    scan: Arc<Scan>,
    runs: Runs<Run>,
    statistics: OnceLock<Arc<Statistics>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    pub(crate) fn new(scan: Arc<Scan>, target_partitions: usize) -> Self {
        let blocks = scan.table.snapshot().rows().div_ceil(BLOCK_ROWS as u64);
        let partitions = usize::try_from(blocks).unwrap_or(usize::MAX).clamp(1, target_partitions.max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&scan.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        ScanExec {
            runs: Runs::new(partitions),
            scan,
            statistics: OnceLock::new(),
            properties: Arc::new(properties),
            metrics,
        }
    }

    /// Whether the scan gives all rows of the table, so that its statistics are the table's.
    fn is_whole(&self) -> bool {
        self.scan.limit.is_none() && self.scan.predicate == Predicate::And(Vec::new())
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.scan.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "StoreScan: table={}, columns=[{}]", self.scan.table.snapshot().table_name(), names.join(", "))?;
        if !self.scan.conditions.is_empty() {
            let texts: Vec<&str> = self.scan.conditions.iter().map(|c| &*c.expression.text).collect();
            write!(f, ", filter=[{}]", texts.join(", "))?;
        }
        if self.scan.predicate != Predicate::And(Vec::new()) {
            let mut pruned_by = Vec::new();
            self.scan.predicate.for_each_column(&mut |id| {
                let column = self.scan.table.snapshot().schema().columns().iter().find(|column| column.id == id);
                if let Some(column) = column.filter(|column| !pruned_by.contains(&&*column.name)) {
                    pruned_by.push(&*column.name);
                }
            });
            write!(f, ", pruned_by=[{}]", pruned_by.join(", "))?;
        }
        if let Some(limit) = self.scan.limit {
            write!(f, ", limit={limit}")?;
        }
        self.scan.refusal.as_ref().map_or(Ok(()), |why| write!(f, ", native=no: {why}"))
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "StoreScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// A scan that starts again from the first block (recursive queries run a plan many times).
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let partitions = self.properties.partitioning.partition_count();
        Ok(Arc::new(ScanExec::new(Arc::clone(&self.scan), partitions)))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let worker = Worker {
            scan: Arc::clone(&self.scan),
            run: self.runs.start(partition, || Run::new(&self.metrics)),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            bytes: MetricBuilder::new(&self.metrics).counter("bytes_read", partition),
        };
        Ok(generate(Arc::clone(&self.scan.schema), move |output| worker.run(output)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        if args.partition().is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.scan.schema)));
        }
        if let Some(known) = self.statistics.get() {
            return Ok(Arc::clone(known));
        }
        let answer = self.scan.columns.get(..self.scan.schema.fields().len()).unwrap_or_default();
        let known = to_statistics(&self.scan.table, answer).map_err(external)?;
        let known = if self.is_whole() { known } else { known.to_inexact() };
        Ok(Arc::clone(self.statistics.get_or_init(|| Arc::new(known))))
    }
}

/// What the partitions share.
#[derive(Debug)]
struct Run {
    queue: Mutex<Queue>,
    produced: AtomicU64,
}

impl Run {
    fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        Run { queue: Mutex::new(Queue::new(metrics)), produced: AtomicU64::new(0) }
    }
}

/// One partition at work.
struct Worker {
    scan: Arc<Scan>,
    run: Arc<Run>,
    baseline: BaselineMetrics,
    bytes: Count,
}

impl Worker {
    async fn run(self, output: Output) -> Result<()> {
        while !self.is_satisfied() {
            let work = self.run.queue.lock().unwrap_or_else(PoisonError::into_inner).next(&self.scan)?;
            let Some(work) = work else { break };
            self.block(&work, &output).await?;
        }
        Ok(())
    }

    fn is_satisfied(&self) -> bool {
        self.scan.limit.is_some_and(|limit| self.run.produced.load(Ordering::Relaxed) >= limit)
    }

    /// Filters one block and decodes what is left of every column, slice by slice.
    async fn block(&self, work: &Work, output: &Output) -> Result<()> {
        let place = scan::Work { segment: 0, block: work.block };
        let block = OpenBlock::new(&work.segment, &self.scan.columns, place);
        let filter = Filter { conditions: &self.scan.conditions, columns: &self.scan.columns };
        let mut marks = Marks::default();
        let Some(tests) = filter.tests(&block, &marks)? else { return Ok(()) };
        let bytes: u64 = work.segment.columns.iter().flatten().map(|column| column.block_bytes(work.block)).sum();
        self.bytes.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        let (mut start, mut step) = (0, SLICE_ROWS);
        let mut held = Held::default();
        while start < block.rows && !self.is_satisfied() {
            let rows = start..block.rows.min(start + step);
            let end = rows.end;
            let batch = {
                let _timer = self.baseline.elapsed_compute().timer();
                self.slice(&block, &tests, &mut marks, rows)
            };
            let batch = match batch {
                // Huge values: a vector of them fits.
                Err(Error::LimitExceeded(_)) if step > VECTOR => {
                    step = (step / 2).next_multiple_of(VECTOR);
                    continue;
                }
                batch => batch?,
            };
            start = end;
            self.run.produced.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            if let Some(full) = held.push(batch)? {
                self.emit(full, output).await;
            }
        }
        if let Some(rest) = held.take()? {
            self.emit(rest, output).await;
        }
        Ok(())
    }

    async fn emit(&self, batch: RecordBatch, output: &Output) {
        self.baseline.record_output(batch.num_rows());
        output.emit(batch).await;
    }

    fn slice(
        &self,
        block: &OpenBlock<'_>,
        tests: &Tests<'_>,
        marks: &mut Marks,
        rows: Range<usize>,
    ) -> Result<RecordBatch> {
        let mut slice = Slice::new(block, rows);
        tests.apply(&mut slice, marks)?;
        let answer = 0..self.scan.schema.fields().len();
        let arrays = match slice.len() {
            0 => self.scan.schema.fields().iter().map(|field| new_empty_array(field.data_type())).collect(),
            _ => answer.map(|at| slice.array(at)).collect::<Result<Vec<ArrayRef>>>()?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(slice.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.scan.schema), arrays, &options)
            .map_err(|error| Error::corrupt(0, format!("decoded columns do not fit together: {error}")))
    }
}

/// The few rows that each slice has left, until they are worth a batch.
#[derive(Default)]
struct Held {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Held {
    /// Takes a batch; gives one out once there are enough rows.
    fn push(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        self.rows += batch.num_rows();
        if batch.num_rows() > 0 {
            self.batches.push(batch);
        }
        if self.rows >= SLICE_ROWS / 2 { self.take() } else { Ok(None) }
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.rows = 0;
        let batches = std::mem::take(&mut self.batches);
        match batches.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            [first, ..] => concat_batches(first.schema_ref(), &batches)
                .map(Some)
                .map_err(|error| Error::LimitExceeded(format!("rows do not fit one batch: {error}"))),
        }
    }
}
