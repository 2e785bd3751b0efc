//! The pairs of an outer join that pass its condition, and the rows that have none.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use datafusion::arrow::compute::{is_not_null, is_null};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::numbered::properties_like;
use super::unpaired::Unpaired;
use crate::sql::run::coalesce::compact;
use crate::sql::run::generate::{Output, generate};
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// Keeps the pairs that pass a condition, and each outer row that has no such pair; of a full join,
/// also each inner row that has none.
#[derive(Debug)]
pub(super) struct MatchesExec {
    input: Plan,
    condition: Arc<dyn PhysicalExpr>,
    /// How many outer columns there are. Their number is behind them.
    of_outer: usize,
    is_full: bool,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl MatchesExec {
    pub(super) fn new(
        input: Plan,
        condition: Arc<dyn PhysicalExpr>,
        of_outer: usize,
        is_full: bool,
    ) -> MatchesExec {
        let properties = properties_like(&input, EquivalenceProperties::new(input.schema()));
        let metrics = ExecutionPlanMetricsSet::new();
        MatchesExec { input, condition, of_outer, is_full, metrics, properties }
    }

    fn over(&self, input: Plan) -> DataFusionResult<MatchesExec> {
        Ok(MatchesExec::new(input, Arc::clone(&self.condition), self.of_outer, self.is_full))
    }
}

impl DisplayAs for MatchesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: condition={}", self.name(), self.condition)?;
        f.write_str(if self.is_full { ", full" } else { "" })
    }
}

impl ExecutionPlan for MatchesExec {
    fn name(&self) -> &'static str {
        "MatchesExec"
    }

    unary_methods!();

    /// A sort that moved below would part the pairs of a row, so the order counts as lost.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        visit(&self.condition)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let mut pairs = self.input.execute(partition, Arc::clone(&context))?;
        let mut open = Open { last: None, of_outer: self.of_outer };
        let mut unpaired = self.is_full.then(|| {
            Unpaired::new(self.schema(), self.of_outer, &self.metrics, partition, &context)
        });
        let (condition, of_outer) = (Arc::clone(&self.condition), self.of_outer);
        Ok(generate(self.schema(), |output: Output| async move {
            while let Some(batch) = pairs.next().await {
                let mut batch = batch?;
                if unpaired.is_some() && batch.column(of_outer).null_count() > 0 {
                    let (alone, others) = inner_alone(&batch, of_outer)?;
                    output.emit(alone).await;
                    batch = others;
                }
                if batch.num_rows() == 0 {
                    continue;
                }
                let passes = passes_of(&batch, &condition)?;
                for rows in open.matches(&batch, &passes)? {
                    output.emit(rows).await;
                }
                if let Some(unpaired) = &mut unpaired {
                    unpaired.add(&batch, &passes, &output).await?;
                }
            }
            if let Some(rows) = open.end() {
                output.emit(rows).await;
            }
            if let Some(unpaired) = &mut unpaired {
                unpaired.end(&output).await?;
            }
            Ok(())
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The outer row whose pairs may go on in the next batch.
struct Open {
    /// Its number, and the row alone unless a pair has passed.
    last: Option<(u64, Option<RecordBatch>)>,
    of_outer: usize,
}

impl Open {
    /// The rows of a batch of pairs that go on.
    fn matches(
        &mut self,
        batch: &RecordBatch,
        passes: &[bool],
    ) -> DataFusionResult<Vec<RecordBatch>> {
        let numbers = batch.column(self.of_outer).as_primitive::<UInt64Type>().values();
        let (mut out, mut rows, mut start) = (Vec::new(), Vec::new(), 0);
        for pairs in numbers.chunk_by(|a, b| a == b) {
            let range = start..start + pairs.len();
            start = range.end;
            let number = pairs[0];
            let passing = range.clone().filter(|row| passes[*row]);
            let before = rows.len();
            rows.extend(passing.map(|row| (row as u32, true)));
            let has_passed = rows.len() > before;
            let goes_on = self.last.as_ref().is_some_and(|(last, _)| *last == number);
            if !goes_on {
                out.extend(self.end());
            }
            let alone = match (&self.last, has_passed) {
                (Some((_, None)), _) if goes_on => None,
                (_, true) => None,
                _ => Some(range.start as u32),
            };
            if start < numbers.len() {
                rows.extend(alone.map(|row| (row, false)));
                self.last = None;
            } else {
                // Without the texts of the other rows.
                let alone = alone.map(|row| {
                    Ok::<_, DataFusionError>(compact(
                        self.rows_of(batch, &[(row, false)])?,
                        0,
                        usize::MAX,
                    )?)
                });
                self.last = Some((number, alone.transpose()?));
            }
        }
        if !rows.is_empty() {
            out.push(self.rows_of(batch, &rows)?);
        }
        Ok(out)
    }

    /// The outer row alone, if no pair of it has passed.
    fn end(&mut self) -> Option<RecordBatch> {
        self.last.take().and_then(|(_, alone)| alone)
    }

    /// Rows of a batch, and whether each comes with the inner columns.
    fn rows_of(&self, batch: &RecordBatch, rows: &[(u32, bool)]) -> DataFusionResult<RecordBatch> {
        let outer = UInt32Array::from_iter_values(rows.iter().map(|(row, _)| *row));
        let inner: UInt32Array =
            rows.iter().map(|(row, is_pair)| is_pair.then_some(*row)).collect();
        let columns = batch.columns().iter().enumerate().map(|(at, column)| {
            take(column, if at <= self.of_outer { &outer } else { &inner }, None)
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }
}

/// The inner rows of a batch whose keys no outer row has, and all others, between which these come.
fn inner_alone(
    batch: &RecordBatch,
    of_outer: usize,
) -> DataFusionResult<(RecordBatch, RecordBatch)> {
    let numbers = batch.column(of_outer);
    let alone = filter_record_batch(batch, &is_null(numbers)?)?;
    Ok((alone, filter_record_batch(batch, &is_not_null(numbers)?)?))
}

/// Which rows of a batch are pairs that pass.
fn passes_of(
    batch: &RecordBatch,
    condition: &Arc<dyn PhysicalExpr>,
) -> DataFusionResult<Vec<bool>> {
    let passes = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    let passes: &BooleanArray = passes.as_boolean();
    let marks: &ArrayRef = batch.column(batch.num_columns() - 1);
    let rows = 0..passes.len();
    let passes =
        rows.map(|row| marks.is_valid(row) && passes.is_valid(row) && passes.value(row)).collect();
    Ok(passes)
}
