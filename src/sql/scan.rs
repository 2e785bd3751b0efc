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
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use super::convert::{external, to_statistics};
use super::generate::{Output, generate};
use super::held::Held;
use super::queue::{Queue, Work};
use super::runs::Runs;
use super::statistics::{StoreOperator, Timed, with_counters};
use super::table::StoreTable;
use crate::error::{Error, Result};
use crate::expr::Predicate;
use crate::limits::{BLOCK_ROWS, VECTOR};
use crate::model::Column;
use crate::query::filter::{Filter, Marks, Tests};
use crate::query::scan::{self, OpenBlock, SLICE_ROWS};
use crate::query::slice::Slice;
use crate::query::stats::Tally;
use crate::query::{Condition, Recorder};

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
    /// What all runs have counted.
    recorder: Arc<Recorder>,
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
            recorder: Arc::default(),
        }
    }

    /// What it has done so far.
    pub(crate) fn done(&self) -> StoreOperator {
        StoreOperator {
            table: self.scan.table.snapshot().table_name().to_owned(),
            output: "project",
            conditions: self.scan.conditions.iter().map(|c| c.expression.text.to_string()).collect(),
            counters: self.recorder.counters(),
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
        let again = ScanExec::new(Arc::clone(&self.scan), partitions);
        Ok(Arc::new(ScanExec { recorder: Arc::clone(&self.recorder), ..again }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let worker = Worker {
            scan: Arc::clone(&self.scan),
            run: self.runs.start(partition, Run::default),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            recorder: Arc::clone(&self.recorder),
            timed: context.session_config().get_extension::<Timed>().is_some(),
        };
        self.recorder.update(|sum| sum.threads = sum.threads.max(partition as u64 + 1));
        Ok(generate(Arc::clone(&self.scan.schema), move |output| worker.run(output)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(with_counters(&self.metrics.clone_inner(), &self.recorder.counters()))
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
#[derive(Debug, Default)]
struct Run {
    queue: Mutex<Queue>,
    produced: AtomicU64,
}

/// One partition at work.
struct Worker {
    scan: Arc<Scan>,
    run: Arc<Run>,
    baseline: BaselineMetrics,
    recorder: Arc<Recorder>,
    timed: bool,
}

/// The counters of a block, which are not lost when the reader goes away in the middle of it.
struct Counted<'a> {
    recorder: &'a Recorder,
    tally: Tally,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.recorder.update(|sum| sum.add(&self.tally.counters));
    }
}

impl Worker {
    async fn run(self, output: Output) -> Result<()> {
        while !self.is_satisfied() {
            let work = {
                let mut queue = self.run.queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.next(&self.scan, &self.recorder, self.timed)?
            };
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
        let mut counted =
            Counted { recorder: &self.recorder, tally: Tally::new(self.scan.conditions.len(), self.timed) };
        let Some(tests) = filter.tests(&block, &mut counted.tally)? else { return Ok(()) };
        block.count_read(&mut counted.tally.counters);
        counted.tally.counters.scan.time = counted.tally.clock.lap();
        let (mut start, mut step) = (0, SLICE_ROWS);
        let (mut marks, mut held) = (Marks::default(), Held::default());
        while start < block.rows && !self.is_satisfied() {
            let rows = start..block.rows.min(start + step);
            let end = rows.end;
            let tested = counted.tally.counters.conditions.clone();
            let batch = {
                let _timer = self.baseline.elapsed_compute().timer();
                counted.tally.clock.lap();
                self.slice(&block, &tests, &mut marks, rows, &mut counted.tally)
            };
            block.count_opened(&mut counted.tally.counters);
            let batch = match batch {
                // Huge values: a vector of them fits. The rows will be tested, and counted, again.
                Err(Error::LimitExceeded(_)) if step > VECTOR => {
                    step = (step / 2).next_multiple_of(VECTOR);
                    counted.tally.counters.conditions = tested;
                    continue;
                }
                batch => batch?,
            };
            start = end;
            let Some(batch) = batch else { continue };
            let passed = batch.num_rows() as u64;
            counted.tally.counters.output.rows_in += passed;
            counted.tally.counters.output.rows_out += passed;
            counted.tally.counters.output.time += counted.tally.clock.lap();
            for full in held.push(batch)?.into_iter().flatten() {
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
        self.baseline.output_batches().add(1);
        output.emit(batch).await;
    }

    /// What is left of some rows; `None` of none.
    fn slice(
        &self,
        block: &OpenBlock<'_>,
        tests: &Tests<'_>,
        marks: &mut Marks,
        rows: Range<usize>,
        tally: &mut Tally,
    ) -> Result<Option<RecordBatch>> {
        let mut slice = Slice::new(block, rows);
        tests.apply(&mut slice, marks, tally)?;
        if slice.len() == 0 {
            return Ok(None);
        }
        let claimed = self.claim(&mut slice);
        let batch = self.decoded(&slice);
        if batch.is_err() {
            self.run.produced.fetch_sub(claimed, Ordering::Relaxed);
        }
        batch.map(Some)
    }

    /// Counts the rows of a slice as produced, and leaves no more of them selected than a limit asks for: what comes after
    /// might fail for rows that nobody wants.
    fn claim(&self, slice: &mut Slice<'_, '_>) -> u64 {
        let rows = slice.len() as u64;
        let before = self.run.produced.fetch_add(rows, Ordering::Relaxed);
        let wanted = self.scan.limit.map_or(rows, |limit| limit.saturating_sub(before));
        if wanted < rows {
            let first = match slice.selected() {
                Some(selected) => selected.iter().take(wanted as usize).copied().collect(),
                None => (0..wanted as u32).collect(),
            };
            slice.select(first);
        }
        rows
    }

    fn decoded(&self, slice: &Slice<'_, '_>) -> Result<RecordBatch> {
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
