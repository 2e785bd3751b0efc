//! CSV and TSV files, and the standard input, as tables: the reader and the inference of ingest, so that a query over
//! a file and over the table made from it see the same types.
//!
//! A plan needs its types before the first row is read. Of files up to [`WHOLE_FILE_BYTES`] (a sixteenth of it where
//! compressed) the whole is parsed for its types, as ingest would; of larger ones and of the standard input the first
//! rows decide, and a later value that does not fit is an error that names it.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

use super::generate::generate;
use super::runs::Runs;
use crate::error::{Error, Result};
use crate::ingest::sources::{
    CsvChunk, CsvChunks, CsvOptions, CsvSchema, Format, Input, infer, parse_chunk, parse_columns,
};
use crate::model::DataType;

/// Up to this size a file is parsed once for its types alone.
const WHOLE_FILE_BYTES: u64 = 64 << 20;
/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// One or more inputs with the same columns.
pub(crate) struct TextTable {
    inputs: Vec<TextInput>,
    schema: SchemaRef,
}

struct TextInput {
    source: Source,
    schema: Arc<CsvSchema>,
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
    /// The standard input, which is read once: the chunks that are left, the sample first.
    Stdin(Stdin),
}

/// The standard input until somebody reads it.
type Stdin = Arc<Mutex<Option<Chunks>>>;

/// Chunks in order; the first ones may have been read already.
struct Chunks {
    ready: VecDeque<CsvChunk>,
    rest: CsvChunks,
}

impl Iterator for Chunks {
    type Item = Result<CsvChunk>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ready.pop_front().map(Ok).or_else(|| self.rest.next())
    }
}

impl TextTable {
    /// Opens files that exist, or with `None` the standard input, and finds their types.
    pub(crate) fn open(paths: Option<&[PathBuf]>, threads: usize) -> Result<TextTable> {
        let mut inputs = Vec::new();
        match paths {
            None => {
                let (chunks, schema) = sample(Input::stdin())?;
                let source = Source::Stdin(Arc::new(Mutex::new(Some(chunks))));
                inputs.push(TextInput { source, schema: Arc::new(schema) });
            }
            Some(paths) => {
                for path in paths {
                    let (chunks, mut schema) = sample(Input::path(path))?;
                    if is_small(path)? {
                        widen_over_all(&mut schema, chunks, threads)?;
                    }
                    inputs.push(TextInput { source: Source::File(path.clone()), schema: Arc::new(schema) });
                }
                join_types(&mut inputs)?;
            }
        }
        let columns = inputs.first().map(|input| input.schema.columns.as_slice()).unwrap_or_default();
        let fields: Vec<Field> =
            columns.iter().map(|c| Field::new(&*c.name, c.data_type.to_arrow(), true)).collect();
        Ok(TextTable { schema: Arc::new(Schema::new(fields)), inputs })
    }
}

/// The chunks of an input, and what the first says of header, names and types.
fn sample(input: Input) -> Result<(Chunks, CsvSchema)> {
    let opened = input.open()?;
    if !matches!(opened.format, Format::Csv | Format::Tsv) {
        let name = opened.name.display();
        return Err(Error::Unsupported(format!(
            "{name} is not CSV or TSV; give it the name of what it is (.jsonl, .arrow, .parquet), or ingest it first"
        )));
    }
    let options = CsvOptions::for_format(opened.format);
    let mut rest = CsvChunks::new(&opened.name, opened.bytes, &options);
    let first = rest.next().transpose()?;
    let schema = infer(&opened.name, &options, first.as_ref())?;
    Ok((Chunks { ready: first.into_iter().collect(), rest }, schema))
}

fn is_small(path: &Path) -> Result<bool> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
    let packed = path.extension().is_some_and(|e| e == "gz" || e == "zst" || e == "bz2" || e == "lz4");
    Ok(metadata.is_file() && metadata.len() <= if packed { WHOLE_FILE_BYTES / 16 } else { WHOLE_FILE_BYTES })
}

/// Parses everything and gives each column the type that all its values have in common.
fn widen_over_all(schema: &mut CsvSchema, chunks: Chunks, threads: usize) -> Result<()> {
    let chunks = Mutex::new(chunks);
    let worker = || -> Result<Vec<DataType>> {
        let mut types: Vec<DataType> = schema.columns.iter().map(|c| c.data_type.clone()).collect();
        loop {
            let Some(chunk) = lock(&chunks).next().transpose()? else { return Ok(types) };
            let batch = parse_chunk(schema, &chunk)?;
            for (data_type, column) in types.iter_mut().zip(batch.columns()) {
                *data_type = joined(data_type, column.data_type())?;
            }
        }
    };
    let found: Vec<Result<Vec<DataType>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let own = worker();
        let others = workers.into_iter().map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    });
    for types in found {
        for (column, found) in schema.columns.iter_mut().zip(types?) {
            column.data_type = join(&column.data_type, &found, &column.name)?;
        }
    }
    Ok(())
}

fn joined(known: &DataType, parsed: &arrow_schema::DataType) -> Result<DataType> {
    let parsed = DataType::from_arrow(parsed).unwrap_or(DataType::Null);
    join(known, &parsed, "")
}

fn join(a: &DataType, b: &DataType, name: &str) -> Result<DataType> {
    a.join(b).ok_or_else(|| {
        Error::InvalidInput(format!("column '{name}' is {a} in one part of the input and {b} in another"))
    })
}

/// Several files are one table if their columns have the same names; types are joined.
fn join_types(inputs: &mut [TextInput]) -> Result<()> {
    let Some((first, others)) = inputs.split_first() else { return Ok(()) };
    let mut columns = first.schema.columns.clone();
    for other in others.iter() {
        if !other.schema.names().eq(first.schema.names()) {
            return Err(Error::InvalidInput(format!(
                "{} and {} have different columns",
                first.source, other.source
            )));
        }
        for (column, found) in columns.iter_mut().zip(&other.schema.columns) {
            column.data_type = join(&column.data_type, &found.data_type, &column.name)?;
        }
    }
    for input in inputs {
        Arc::make_mut(&mut input.schema).columns.clone_from(&columns);
    }
    Ok(())
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Stdin(_) => f.write_str("standard input"),
        }
    }
}

impl fmt::Debug for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.inputs.iter().map(|input| input.source.to_string())).finish()
    }
}

#[async_trait]
impl TableProvider for TextTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let inputs = self.inputs.iter().map(|input| (input.source.clone(), Arc::clone(&input.schema))).collect();
        let partitions = state.config().target_partitions().max(1);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(TextExec {
            names: self.inputs.iter().map(|input| input.source.to_string()).collect(),
            columns: columns.into(),
            inputs,
            runs: Runs::new(partitions),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// Parsing chunks: every partition takes the next one from all the inputs.
struct TextExec {
    names: Vec<String>,
    columns: Arc<[usize]>,
    inputs: Vec<(Source, Arc<CsvSchema>)>,
    runs: Runs<Mutex<Queue>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What is still to be read.
struct Queue {
    inputs: VecDeque<(Source, Arc<CsvSchema>)>,
    open: Option<(Chunks, Arc<CsvSchema>)>,
}

impl fmt::Debug for TextExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextExec").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Queue {
    fn next(&mut self) -> Result<Option<(CsvChunk, Arc<CsvSchema>)>> {
        loop {
            if let Some((chunks, schema)) = &mut self.open {
                match chunks.next().transpose()? {
                    Some(chunk) => return Ok(Some((chunk, Arc::clone(schema)))),
                    None => self.open = None,
                }
            }
            let Some((source, schema)) = self.inputs.pop_front() else { return Ok(None) };
            let chunks = match source {
                Source::Stdin(chunks) => lock(&chunks).take().ok_or_else(|| {
                    let what = "the standard input can be read only once; ingest it into a table first";
                    Error::InvalidInput(what.into())
                })?,
                Source::File(path) => {
                    let opened = Input::path(path).open()?;
                    let options = CsvOptions::for_format(opened.format);
                    let rest = CsvChunks::new(&opened.name, opened.bytes, &options);
                    Chunks { ready: VecDeque::new(), rest }
                }
            };
            self.open = Some((chunks, schema));
        }
    }
}

/// The columns of a chunk in exactly the types of the plan.
fn parse(schema: &CsvSchema, chunk: &CsvChunk, columns: &[usize], target: &SchemaRef) -> Result<RecordBatch> {
    let batch = parse_columns(schema, chunk, columns)?;
    let mut arrays = Vec::with_capacity(columns.len());
    for ((array, field), position) in batch.columns().iter().zip(target.fields()).zip(columns) {
        if DataType::from_arrow(array.data_type()) != DataType::from_arrow(field.data_type()) {
            return Err(misfit(schema, chunk, *position));
        }
        // Text becomes views over the same bytes.
        arrays.push(arrow_cast::cast(array, field.data_type()).map_err(|e| Error::InvalidInput(e.to_string()))?);
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(target), arrays, &options)
        .map_err(|error| Error::InvalidInput(error.to_string()))
}

/// The value that does not have the type which the first rows had, found by insisting on that type.
fn misfit(schema: &CsvSchema, chunk: &CsvChunk, position: usize) -> Error {
    let mut strict = schema.clone();
    if let Some(column) = strict.columns.get_mut(position) {
        column.fixed = true;
    }
    let hint = "; its first rows decided the type, and ingesting it into a table takes in all of them";
    match parse_columns(&strict, chunk, &[position]) {
        Err(Error::InvalidInput(what)) => Error::InvalidInput(format!("{what}{hint}")),
        Err(other) => other,
        Ok(_) => {
            let name = strict.columns.get(position).map_or("", |column| &column.name);
            Error::InvalidInput(format!(
                "column '{name}' has values of a wider type from line {} on{hint}",
                chunk.line
            ))
        }
    }
}

impl DisplayAs for TextExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CsvScan: {}", self.names.join(", "))
    }
}

impl ExecutionPlan for TextExec {
    fn name(&self) -> &'static str {
        "CsvScan"
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

    /// A scan that starts again from the first row (recursive queries run a plan many times).
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(TextExec {
            names: self.names.clone(),
            columns: Arc::clone(&self.columns),
            inputs: self.inputs.clone(),
            runs: Runs::new(self.properties.partitioning.partition_count()),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DataFusionResult<SendableRecordBatchStream> {
        let make = || Mutex::new(Queue { inputs: self.inputs.iter().cloned().collect(), open: None });
        let queue = self.runs.start(partition, make);
        let (columns, schema) = (Arc::clone(&self.columns), self.schema());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let bytes = MetricBuilder::new(&self.metrics).counter("bytes_read", partition);
        let target = Arc::clone(&schema);
        Ok(generate(schema, move |output| async move {
            loop {
                let Some((chunk, input)) = lock(&queue).next()? else { return Ok(()) };
                let timer = baseline.elapsed_compute().timer();
                let batch = parse(&input, &chunk, &columns, &target)?;
                timer.done();
                bytes.add(chunk.text.len());
                drop(chunk);
                for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                    let slice = batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start));
                    baseline.record_output(slice.num_rows());
                    output.emit(slice).await;
                }
            }
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
