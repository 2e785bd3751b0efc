//! Conditions that joins of sorted inputs have beside their keys, tested after the join.
//!
//! Where this stands on the road of a query: the first physical rule, for statements that begin
//! again for lack of memory (`session/frugal`) and join sorted inputs. DataFusion (55.2) moves
//! projections below such joins without a look at their conditions, which then read other columns,
//! or none. Without its condition, an inner join gives the rows that a filter takes. An outer join
//! gives each row of its outer side with all rows of its key, one after the other: those that pass
//! go on, and if none does, the outer row alone. To tell outer rows from their copies, they are
//! numbered below the join.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, internal_datafusion_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{EmissionType, ExecutionPlanProperties};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::sql::run::coalesce::compact;
use crate::sql::run::generate::{Output, generate};
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// Tests the conditions of inner, left and right joins of sorted inputs above them.
#[derive(Debug)]
pub(in crate::sql) struct TestConditionsAbove;

impl PhysicalOptimizerRule for TestConditionsAbove {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        let above = |node: Plan| {
            let join = node.downcast_ref::<SortMergeJoinExec>();
            Ok(match join.map(tested_above).transpose()?.flatten() {
                Some(tested) => Transformed::yes(tested),
                None => Transformed::no(node),
            })
        };
        Ok(plan.transform_up(above)?.data)
    }

    fn name(&self) -> &'static str {
        "test_conditions_above"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What stands for a join with a condition; `None` for joins that test theirs.
fn tested_above(join: &SortMergeJoinExec) -> DataFusionResult<Option<Plan>> {
    let Some(condition) = join.filter() else { return Ok(None) };
    match join.join_type {
        JoinType::Inner => inner(join, condition).map(Some),
        JoinType::Left => outer(join, condition, JoinSide::Left).map(Some),
        JoinType::Right => outer(join, condition, JoinSide::Right).map(Some),
        _ => Ok(None),
    }
}

fn inner(join: &SortMergeJoinExec, condition: &JoinFilter) -> DataFusionResult<Plan> {
    let unconditional = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        None,
        JoinType::Inner,
        join.sort_options().to_vec(),
        join.null_equality(),
    )?;
    let right = join.left().schema().fields().len();
    let predicate = above(condition, &unconditional.schema(), |side| match side {
        JoinSide::Right => right,
        JoinSide::Left | JoinSide::None => 0,
    })?;
    Ok(Arc::new(FilterExec::try_new(predicate, Arc::new(unconditional))?))
}

/// A join that gives all rows of one side.
fn outer(
    join: &SortMergeJoinExec,
    condition: &JoinFilter,
    side: JoinSide,
) -> DataFusionResult<Plan> {
    let (outer, inner, on) = match side {
        JoinSide::Right => {
            let on = join.on().iter().map(|(left, right)| (Arc::clone(right), Arc::clone(left)));
            (join.right(), join.left(), on.collect())
        }
        JoinSide::Left | JoinSide::None => (join.left(), join.right(), join.on().to_vec()),
    };
    let (of_outer, of_inner) = (outer.schema().fields().len(), inner.schema().fields().len());
    let numbered: Plan = Arc::new(NumberedExec::new(Arc::clone(outer)));
    let joined: Plan = Arc::new(SortMergeJoinExec::try_new(
        numbered,
        with_mark(inner)?,
        on,
        None,
        JoinType::Left,
        join.sort_options().to_vec(),
        join.null_equality(),
    )?);
    // The outer columns, the number, the inner columns, the mark.
    let first = |of: JoinSide| if of == side { 0 } else { of_outer + 1 };
    let condition = above(condition, &joined.schema(), first)?;
    let matches: Plan = Arc::new(MatchesExec::new(joined, condition, of_outer));
    let schema = matches.schema();
    let columns = |of: JoinSide| {
        let count = if of == side { of_outer } else { of_inner };
        first(of)..first(of) + count
    };
    let columns = columns(JoinSide::Left).chain(columns(JoinSide::Right));
    let names = join.schema();
    let columns = columns.zip(names.fields()).map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(at).name(), at));
        (column, field.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), matches)?))
}

/// A condition over the rows of a join, whose columns of a side begin at `first`.
fn above(
    condition: &JoinFilter,
    schema: &Schema,
    first: impl Fn(JoinSide) -> usize,
) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    let column = |of_condition: &Column| -> DataFusionResult<Column> {
        let known = condition.column_indices().get(of_condition.index());
        let known = known.ok_or_else(|| internal_datafusion_err!("a condition's column"))?;
        let index = first(known.side) + known.index;
        Ok(Column::new(schema.field(index).name(), index))
    };
    let predicate = Arc::clone(condition.expression()).transform_up(|part| {
        match part.downcast_ref::<Column>() {
            Some(of_condition) => Ok(Transformed::yes(Arc::new(column(of_condition)?) as _)),
            None => Ok(Transformed::no(part)),
        }
    })?;
    Ok(predicate.data)
}

/// Rows with one more column, which is true.
fn with_mark(rows: &Plan) -> DataFusionResult<Plan> {
    let schema = rows.schema();
    let columns = schema.fields().iter().enumerate().map(|(at, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        (column, field.name().clone())
    });
    let columns = columns.chain([(lit(true), "#mark".to_owned())]).collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(rows))?))
}

/// The properties of rows that come as those of an input do.
fn properties_like(input: &Plan, rows: EquivalenceProperties) -> Arc<PlanProperties> {
    let partitioning = input.output_partitioning().clone();
    let emission = EmissionType::Incremental;
    Arc::new(PlanProperties::new(rows, partitioning, emission, input.boundedness()))
}

/// Numbers rows, in one more column: no two of any partitions alike.
#[derive(Debug)]
struct NumberedExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl NumberedExec {
    fn new(input: Plan) -> NumberedExec {
        let number = Arc::new(Field::new("#row", DataType::UInt64, false));
        let fields = input.schema().fields().iter().cloned().chain([number]).collect::<Vec<_>>();
        let orders = input.equivalence_properties().oeq_class().iter().cloned();
        let schema = Arc::new(Schema::new(fields));
        let rows = EquivalenceProperties::new_with_orderings(schema, orders);
        let properties = properties_like(&input, rows);
        NumberedExec { input, properties }
    }

    fn over(&self, input: Plan) -> DataFusionResult<NumberedExec> {
        Ok(NumberedExec::new(input))
    }
}

impl DisplayAs for NumberedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for NumberedExec {
    fn name(&self) -> &'static str {
        "NumberedExec"
    }

    unary_methods!(no expressions);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let mut rows = self.input.execute(partition, context)?;
        let schema = self.schema();
        Ok(generate(self.schema(), |output: Output| async move {
            let mut next = (partition as u64) << ROWS_BITS;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                let end = next + batch.num_rows() as u64;
                let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..end));
                next = end;
                let columns = batch.columns().iter().cloned().chain([numbers]).collect();
                let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
                output.emit(batch.map_err(DataFusionError::from)?).await;
            }
            Ok(())
        }))
    }
}

/// The bits of a number that count the rows of a partition.
const ROWS_BITS: u32 = 44;

/// Keeps the pairs that pass a condition, and each outer row that has no such pair.
#[derive(Debug)]
struct MatchesExec {
    input: Plan,
    condition: Arc<dyn PhysicalExpr>,
    /// How many outer columns there are. Their number is behind them.
    of_outer: usize,
    properties: Arc<PlanProperties>,
}

impl MatchesExec {
    fn new(input: Plan, condition: Arc<dyn PhysicalExpr>, of_outer: usize) -> MatchesExec {
        let properties = properties_like(&input, EquivalenceProperties::new(input.schema()));
        MatchesExec { input, condition, of_outer, properties }
    }

    fn over(&self, input: Plan) -> DataFusionResult<MatchesExec> {
        Ok(MatchesExec::new(input, Arc::clone(&self.condition), self.of_outer))
    }
}

impl DisplayAs for MatchesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: condition={}", self.name(), self.condition)
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
        let mut pairs = self.input.execute(partition, context)?;
        let mut open = Open { last: None, of_outer: self.of_outer };
        let condition = Arc::clone(&self.condition);
        Ok(generate(self.schema(), |output: Output| async move {
            while let Some(batch) = pairs.next().await {
                let batch = batch?;
                if batch.num_rows() > 0 {
                    for rows in open.matches(&batch, &condition)? {
                        output.emit(rows).await;
                    }
                }
            }
            if let Some(rows) = open.end() {
                output.emit(rows).await;
            }
            Ok(())
        }))
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
        condition: &Arc<dyn PhysicalExpr>,
    ) -> DataFusionResult<Vec<RecordBatch>> {
        let passes = condition.evaluate(batch)?.into_array(batch.num_rows())?;
        let passes = passes_of(passes.as_boolean(), batch.column(batch.num_columns() - 1));
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

/// Which rows are pairs that pass.
fn passes_of(passes: &BooleanArray, marks: &ArrayRef) -> Vec<bool> {
    let rows = 0..passes.len();
    rows.map(|row| marks.is_valid(row) && passes.is_valid(row) && passes.value(row)).collect()
}
