//! The scan of text: every partition takes the next chunk of any input, and parses it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_schema::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::formats::{Chunk, Chunks, TextSchema, chunks};
use super::in_sql;
use super::inputs::{ColumnPlace, Layout, TextInput, TextSource};
use crate::error::{ArrowResult, Error, Result};
use crate::model::DataType;
use crate::sql::names::lock;
use crate::sql::run::executions::Executions;
use crate::sql::run::generate::generate;
use crate::sql::run::leaf::{leaf_methods, leaf_properties};
use crate::sql::run::progress::{FILE_BYTES, FILE_BYTES_READ, TEXT_BYTES_READ};

/// Rows in a batch.
const BATCH_ROWS: usize = 8192;

/// Scans the inputs of a text table.
pub(super) struct TextExec {
    inputs: Vec<TextInput>,
    columns: Arc<[usize]>,
    /// Whether these are all columns of the table, so that an input may not have others.
    complete: bool,
    executions: Executions<Mutex<Queue>>,
    /// Bytes read of each input that was opened.
    consumed: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The chunks that are still to be read.
struct Queue {
    inputs: VecDeque<TextInput>,
    open: Option<(Chunks, Arc<Layout>)>,
    consumed: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

impl TextExec {
    pub(super) fn new(
        inputs: Vec<TextInput>,
        columns: Vec<usize>,
        complete: bool,
        schema: SchemaRef,
        partitions: usize,
    ) -> Self {
        let rows = EquivalenceProperties::new(schema);
        TextExec {
            inputs,
            columns: columns.into(),
            complete,
            executions: Executions::new(partitions),
            consumed: Arc::default(),
            properties: leaf_properties(rows, partitions, EmissionType::Incremental),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn names(&self) -> Vec<String> {
        self.inputs.iter().map(|input| input.source.to_string()).collect()
    }
}

impl fmt::Debug for TextExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextExec").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Queue {
    fn next(&mut self) -> Result<Option<(Chunk, Arc<Layout>)>> {
        loop {
            if let Some((chunks, layout)) = &mut self.open {
                match chunks.next().transpose()? {
                    Some(chunk) => return Ok(Some((chunk, Arc::clone(layout)))),
                    None => self.open = None,
                }
            }
            let Some(TextInput { source, layout, options, row_limit }) = self.inputs.pop_front()
            else {
                return Ok(None);
            };
            let chunks = match source {
                TextSource::Stdin(chunks) => lock(&chunks).take().ok_or_else(|| {
                    let what =
                        "the standard input can be read only once; ingest it into a table first";
                    Error::InvalidInput(what.into())
                })?,
                TextSource::File(file) => {
                    let input = file.input();
                    lock(&self.consumed).push(input.consumed());
                    chunks(input, &options, row_limit)?
                }
            };
            self.open = Some((chunks, layout));
        }
    }
}

/// Parses columns of a chunk, in exactly the types of the plan.
fn parse(
    layout: &Layout,
    chunk: &Chunk,
    columns: &[usize],
    complete: bool,
    target: &SchemaRef,
) -> Result<RecordBatch> {
    let place = |column: &usize| layout.places.get(*column).unwrap_or(&ColumnPlace::None);
    let places: Vec<&ColumnPlace> = columns.iter().map(place).collect();
    let position = |place: &&ColumnPlace| match place {
        ColumnPlace::Text(at) => Some(*at),
        ColumnPlace::Path(_) | ColumnPlace::None => None,
    };
    let there: Vec<usize> = places.iter().filter_map(position).collect();
    let batch = layout.schema.parse(chunk, &there, complete).map_err(in_sql)?;
    let mut parsed = batch.columns().iter();
    let mut arrays = Vec::with_capacity(columns.len());
    for (place, field) in places.iter().zip(target.fields()) {
        let (position, array) = match (place, batch.num_rows()) {
            (ColumnPlace::None, rows) => {
                arrays.push(new_null_array(field.data_type(), rows));
                continue;
            }
            (ColumnPlace::Path(value), rows) => {
                let value = arrow_cast::cast(value, field.data_type()).or_invalid()?;
                let first = UInt32Array::from_value(0, rows);
                arrays.push(arrow_select::take::take(&value, &first, None).or_invalid()?);
                continue;
            }
            (ColumnPlace::Text(at), _) => match parsed.next() {
                Some(array) => (*at, array),
                None => continue,
            },
        };
        if DataType::from_arrow(array.data_type()) != DataType::from_arrow(field.data_type()) {
            return Err(layout.schema.misfit(chunk, position));
        }
        // The cast makes text views, over the same bytes.
        arrays.push(arrow_cast::cast(array, field.data_type()).or_invalid()?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(target), arrays, &options).or_invalid()
}

impl DisplayAs for TextExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.names().join(", "))
    }
}

impl ExecutionPlan for TextExec {
    fn name(&self) -> &'static str {
        match self.inputs.first().map(|input| &input.layout.schema) {
            Some(TextSchema::Json(_)) => "JsonScan",
            _ => "CsvScan",
        }
    }

    leaf_methods!(no expressions);

    /// Starts the scan again from the first row, as recursive queries run a plan many times.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let partitions = self.properties.partitioning.partition_count();
        let (columns, schema) = (self.columns.to_vec(), self.schema());
        Ok(Arc::new(TextExec::new(self.inputs.clone(), columns, self.complete, schema, partitions)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        // It counts so that others spill or stop; it is bounded by itself.
        let memory = MemoryConsumer::new(self.name()).register(context.memory_pool());
        let make = || {
            let (inputs, consumed) = (self.inputs.iter().cloned(), Arc::clone(&self.consumed));
            Mutex::new(Queue { inputs: inputs.collect(), open: None, consumed })
        };
        let queue = self.executions.start(partition, make);
        let (columns, complete, schema) = (Arc::clone(&self.columns), self.complete, self.schema());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let bytes = MetricBuilder::new(&self.metrics).counter(TEXT_BYTES_READ, partition);
        let target = Arc::clone(&schema);
        Ok(generate(schema, move |output| async move {
            loop {
                let Some((chunk, layout)) = lock(&queue).next()? else { return Ok(()) };
                let timer = baseline.elapsed_compute().timer();
                // The text, and as much again for its values.
                memory.resize(chunk.bytes().saturating_mul(2));
                let batch = parse(&layout, &chunk, &columns, complete, &target)?;
                timer.done();
                bytes.add(chunk.bytes());
                drop(chunk);
                memory.resize(batch.get_array_memory_size());
                for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                    let slice = batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start));
                    baseline.record_output(slice.num_rows());
                    output.emit(slice).await;
                }
                drop(batch);
                memory.free();
            }
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let read: u64 =
            lock(&self.consumed).iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        let size = |input: &TextInput| match &input.source {
            TextSource::File(file) => file.input().size(),
            TextSource::Stdin(_) => None,
        };
        if let Some(size) = self.inputs.iter().map(size).sum() {
            for (name, bytes) in [(FILE_BYTES_READ, read), (FILE_BYTES, size)] {
                let count = Count::new();
                count.add(usize::try_from(bytes).unwrap_or(usize::MAX));
                let value = MetricValue::Count { name: name.into(), count };
                metrics.push(Arc::new(Metric::new(value, None)));
            }
        }
        Some(metrics)
    }
}
