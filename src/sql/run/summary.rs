//! The answer of SUMMARIZE: a row for each column of a table or a query.
//!
//! Where this stands on the road of a query: `plan::summarize` puts the node into a plan. Its
//! inputs each give one row, with some numbers of some columns; they run one after the other, so
//! that no more is held than one of them needs.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Decimal128Array, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_cast::display::ArrayFormatter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue, exec_err, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::logical_plan::InvariantLevel;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt as _, stream};

use crate::sql::types::times::PRINTED;

/// What is known of a column: a cell of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sql) enum Cell {
    Min,
    Max,
    Unique,
    Mean,
    Deviation,
    FirstQuartile,
    Median,
    ThirdQuartile,
    Rows,
    Values,
}

/// What an input gives, column by column: the number of the column, and the cell.
pub(in crate::sql) type Cells = Vec<(usize, Cell)>;

/// The names of columns that are summarized, the names of their types, and the types of their
/// values.
pub(in crate::sql) type Summarized = Vec<(String, String, DataType)>;

/// SUMMARIZE as a node of logical plans.
#[derive(PartialEq, Eq, Hash, PartialOrd)]
pub(in crate::sql) struct SummaryNode {
    columns: Summarized,
    inputs: Vec<(LogicalPlan, Cells)>,
    schema: SchemaKey,
}

/// The schema, which is the same for all.
#[derive(Clone, Debug)]
struct SchemaKey(DFSchemaRef);

impl PartialEq for SchemaKey {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SchemaKey {}

impl PartialOrd for SchemaKey {
    fn partial_cmp(&self, _: &Self) -> Option<Ordering> {
        Some(Ordering::Equal)
    }
}

impl Hash for SchemaKey {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The columns of the answer.
fn answer_schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let count = |name: &str| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![
        text("column_name"),
        text("column_type"),
        text("min"),
        text("max"),
        count("approx_unique"),
        text("avg"),
        text("std"),
        text("q25"),
        text("q50"),
        text("q75"),
        count("count"),
        Field::new("null_percentage", DataType::Decimal128(9, 2), true),
    ]))
}

impl SummaryNode {
    pub(in crate::sql) fn new(
        columns: Summarized,
        inputs: Vec<(LogicalPlan, Cells)>,
    ) -> DataFusionResult<SummaryNode> {
        let schema = DFSchema::try_from(answer_schema())?;
        Ok(SummaryNode { columns, inputs, schema: SchemaKey(Arc::new(schema)) })
    }

    /// The operator, over those of the inputs.
    pub(in crate::sql) fn planned(
        &self,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let cells = self.inputs.iter().map(|(_, cells)| cells.clone());
        Ok(Arc::new(SummaryExec {
            columns: Arc::new(self.columns.clone()),
            inputs: inputs.iter().cloned().zip(cells).collect(),
            properties: properties(),
        }))
    }
}

/// EXPLAIN FORMAT pgjson shows nodes by this.
impl fmt::Debug for SummaryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_for_explain(f)
    }
}

impl UserDefinedLogicalNode for SummaryNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &'static str {
        "Summarize"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().map(|(plan, _)| plan).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema.0
    }

    fn check_invariants(&self, _: InvariantLevel) -> DataFusionResult<()> {
        Ok(())
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Summarize: columns={}", self.columns.len())
    }

    fn with_exprs_and_inputs(
        &self,
        _: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> DataFusionResult<Arc<dyn UserDefinedLogicalNode>> {
        let cells = self.inputs.iter().map(|(_, cells)| cells.clone());
        Ok(Arc::new(SummaryNode {
            columns: self.columns.clone(),
            inputs: inputs.into_iter().zip(cells).collect(),
            schema: self.schema.clone(),
        }))
    }

    fn dyn_hash(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }

    fn dyn_eq(&self, other: &dyn UserDefinedLogicalNode) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn dyn_ord(&self, other: &dyn UserDefinedLogicalNode) -> Option<Ordering> {
        self.partial_cmp(other.as_any().downcast_ref::<Self>()?)
    }
}

/// SUMMARIZE as an operator.
#[derive(Debug)]
struct SummaryExec {
    columns: Arc<Summarized>,
    inputs: Vec<(Arc<dyn ExecutionPlan>, Cells)>,
    properties: Arc<PlanProperties>,
}

fn properties() -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(answer_schema()),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for SummaryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SummaryExec: columns={}", self.columns.len())
    }
}

impl ExecutionPlan for SummaryExec {
    fn name(&self) -> &'static str {
        "SummaryExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().map(|(input, _)| input).collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let cells = self.inputs.iter().map(|(_, cells)| cells.clone());
        Ok(Arc::new(SummaryExec {
            columns: Arc::clone(&self.columns),
            inputs: children.into_iter().zip(cells).collect(),
            properties: Arc::clone(&self.properties),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("SUMMARIZE has one partition");
        }
        let (columns, inputs) = (Arc::clone(&self.columns), self.inputs.clone());
        let answer = stream::once(async move {
            let mut known = vec![Known::default(); columns.len()];
            for (input, cells) in inputs {
                let mut rows =
                    datafusion::physical_plan::execute_stream(input, Arc::clone(&context))?;
                while let Some(batch) = rows.next().await {
                    take(&batch?, &cells, &mut known)?;
                }
            }
            answer(&columns, &known)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(answer_schema(), answer)))
    }
}

/// What is known of a column.
#[derive(Clone, Debug, Default)]
struct Known {
    values: [Option<ScalarValue>; 7],
    unique: Option<i64>,
    rows: i64,
    count: i64,
}

impl Cell {
    /// The place of a cell that is a text.
    fn text(self) -> Option<usize> {
        Some(match self {
            Cell::Min => 0,
            Cell::Max => 1,
            Cell::Mean => 2,
            Cell::Deviation => 3,
            Cell::FirstQuartile => 4,
            Cell::Median => 5,
            Cell::ThirdQuartile => 6,
            Cell::Unique | Cell::Rows | Cell::Values => return None,
        })
    }
}

fn take(batch: &RecordBatch, cells: &Cells, known: &mut [Known]) -> DataFusionResult<()> {
    if batch.num_rows() == 0 {
        return Ok(());
    }
    for ((column, cell), array) in cells.iter().zip(batch.columns()) {
        let Some(known) = known.get_mut(*column) else { continue };
        let value = ScalarValue::try_from_array(array, 0)?;
        if let Some(place) = cell.text().and_then(|at| known.values.get_mut(at)) {
            *place = Some(value).filter(|value| !value.is_null());
            continue;
        }
        let ScalarValue::Int64(count) = value.cast_to(&DataType::Int64)? else {
            return exec_err!("SUMMARIZE counts");
        };
        match cell {
            Cell::Unique => known.unique = count,
            Cell::Rows => known.rows = count.unwrap_or(0),
            _ => known.count = count.unwrap_or(0),
        }
    }
    Ok(())
}

impl Known {
    /// The text of a cell.
    fn text(&self, at: usize, of: &DataType) -> DataFusionResult<Option<String>> {
        let Some(Some(value)) = self.values.get(at) else { return Ok(None) };
        match at >= Cell::FirstQuartile.text().unwrap_or_default() {
            true => text(&self.within_bounds(estimated(value, of)?)),
            false => text(value),
        }
        .map(Some)
    }

    /// A value that is between the least and the greatest one: those far from 0 have more digits
    /// than a double, and their estimates may be beyond.
    fn within_bounds(&self, value: ScalarValue) -> ScalarValue {
        let [least, greatest, ..] = &self.values;
        match (least, greatest) {
            (Some(least), _) if value < *least => least.clone(),
            (_, Some(greatest)) if value > *greatest => greatest.clone(),
            _ => value,
        }
    }
}

/// An estimate as a value of the column's type, where that has no fractions.
fn estimated(value: &ScalarValue, of: &DataType) -> DataFusionResult<ScalarValue> {
    let ScalarValue::Float64(Some(number)) = value else { return Ok(value.clone()) };
    // Out of range, a cast takes the nearest value that there is.
    let whole = number.round();
    match of {
        DataType::UInt64 => Ok(ScalarValue::UInt64(Some(whole as u64))),
        DataType::Date32 => Ok(ScalarValue::Date32(Some(whole as i32))),
        of if of.is_integer() || matches!(of, DataType::Timestamp(..)) => {
            ScalarValue::Int64(Some(whole as i64)).cast_to(of)
        }
        _ => Ok(value.clone()),
    }
}

/// The text of a value; of a timestamp, the one that is printed. Bytes that are no text are written
/// in hexadecimal digits.
fn text(value: &ScalarValue) -> DataFusionResult<String> {
    let array = value.to_array()?;
    if !matches!(array.data_type(), DataType::Timestamp(..)) {
        let texts = cast(&array, &DataType::Utf8)?;
        if texts.is_valid(0) {
            return Ok(texts.as_string::<i32>().value(0).to_owned());
        }
    }
    Ok(ArrayFormatter::try_new(&array, &PRINTED)?.value(0).try_to_string()?)
}

fn answer(columns: &Summarized, known: &[Known]) -> DataFusionResult<RecordBatch> {
    use arrow_array::{Int64Array, StringArray};
    let text = |cell: Cell| -> DataFusionResult<ArrayRef> {
        let at = cell.text().unwrap_or_default();
        let texts = known.iter().zip(columns).map(|(known, (_, _, of))| known.text(at, of));
        Ok(Arc::new(texts.collect::<DataFusionResult<StringArray>>()?))
    };
    let names: StringArray = columns.iter().map(|(name, ..)| Some(name.as_str())).collect();
    let types: StringArray = columns.iter().map(|(_, of, _)| Some(of.as_str())).collect();
    let unique: Int64Array = known.iter().map(|known| known.unique).collect();
    let rows: Int64Array = known.iter().map(|known| Some(known.rows)).collect();
    let nulls: Decimal128Array = known.iter().map(null_percentage).collect();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(names),
        Arc::new(types),
        text(Cell::Min)?,
        text(Cell::Max)?,
        Arc::new(unique),
        text(Cell::Mean)?,
        text(Cell::Deviation)?,
        text(Cell::FirstQuartile)?,
        text(Cell::Median)?,
        text(Cell::ThirdQuartile)?,
        Arc::new(rows),
        Arc::new(nulls.with_precision_and_scale(9, 2)?),
    ];
    let options = RecordBatchOptions::new().with_row_count(Some(known.len()));
    Ok(RecordBatch::try_new_with_options(answer_schema(), arrays, &options)?)
}

/// Hundredths of a percent, rounded.
fn null_percentage(known: &Known) -> Option<i128> {
    let (rows, nulls) = (i128::from(known.rows), i128::from(known.rows - known.count));
    (rows > 0).then(|| (nulls * 20_000 + rows) / (2 * rows))
}
