//! Rows so wide that a batch of them does not fit into memory.
//!
//! Where this stands on the road of a query: the last step of planning. DataFusion's operators
//! (55.2) count rows: joins repeat a row for each match, and all of them put small batches
//! together until they have 8,192 rows, whatever bytes these have and without reserving them. A
//! constant is repeated for each row of a batch. So below joins, and where rows are spread over
//! threads, a [`WideRowsExec`] looks at each batch. If one that is full of its widest row (below
//! joins), or of rows like its own, took a quarter of the memory limit, the statement ends, and is
//! begun once more with fewer rows in a batch (`session/frugal`). Below expressions with long
//! constants it cuts batches.
//! Filters hand on what they have left as it comes, and it is put together by bytes. Texts get
//! bytes of their own below running windows (`window_texts`).

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::StreamExt;

use super::coalesce::{Coalescer, most_held};
use super::generate::generate;
use super::unary::unary_methods;
use super::width::{LEAST_ROWS, Rows, may_be_wide, row_bytes};
use super::window_texts::{in_layout, layout_below, over_layout, properties};
use crate::error::Error;
use crate::sql::convert::LONG_CONSTANT;
use crate::sql::functions::bounds::{SMALL_SHARE, rows_within};
use crate::sql::functions::growing;
use crate::sql::work::handle::{OfSession, SessionHandle};

type Plan = Arc<dyn ExecutionPlan>;

/// The share of the memory limit that a batch full of the widest rows may take.
const BATCH_SHARE: usize = 4;

/// Looks at the widths of rows wherever that is needed in a plan, and keeps them within memory;
/// not in what runs on other machines.
pub(in crate::sql) fn watch_widths(plan: Plan) -> DataFusionResult<Plan> {
    let within = |node: Plan| {
        let go_on = match is_elsewhere(&node) {
            true => TreeNodeRecursion::Jump,
            false => TreeNodeRecursion::Continue,
        };
        Ok(Transformed::new(node, false, go_on))
    };
    Ok(plan.transform_down_up(within, watch)?.data)
}

#[cfg(feature = "cluster")]
fn is_elsewhere(node: &Plan) -> bool {
    datafusion_distributed::NetworkBoundaryExt::is_network_boundary(&**node)
}

#[cfg(not(feature = "cluster"))]
fn is_elsewhere(_: &Plan) -> bool {
    false
}

fn watch(node: Plan) -> DataFusionResult<Transformed<Plan>> {
    let constants = Constants::of(&node)?;
    let mut changed = false;
    let mut inputs = Vec::new();
    for (at, input) in node.children().into_iter().enumerate() {
        let (columns, rows) = watched_columns(&node, at);
        let look = Look { columns, rows, ..constants.cut(&node, at) };
        match look.does_nothing() {
            true => inputs.push(Arc::clone(input)),
            false => {
                inputs.push(Arc::new(WideRowsExec::new(Arc::clone(input), Step::Look(look))?));
                changed = true;
            }
        }
    }
    let node = match changed {
        true => replace_children_if_necessary(node, inputs)?,
        false => node,
    };
    if let (Some(layout), [input]) = (layout_below(&node), node.children().as_slice()) {
        let below = Arc::new(WideRowsExec::new(Arc::clone(input), Step::Layout(layout))?);
        let above = Step::Layout(node.schema());
        let window = over_layout(node, below)?;
        return Ok(Transformed::yes(Arc::new(WideRowsExec::new(window, above)?)));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>()
        && filter.fetch().is_none()
        && filter.schema().fields().iter().any(|field| may_be_wide(field.data_type()))
    {
        // A coalescer of batches of one row passes every batch on as it is.
        let filter = Arc::new(filter.with_batch_size(1)?);
        return Ok(Transformed::yes(Arc::new(WideRowsExec::new(filter, Step::Gather)?)));
    }
    Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) })
}

/// The columns of an input whose widths matter to an operator, and what it does with the rows.
fn watched_columns(node: &Plan, input: usize) -> (Vec<usize>, Rows) {
    let is_join = node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>();
    let is_subquery = node.is::<ScalarSubqueryExec>() && input > 0;
    // Lists that are unnested are taken apart, and not repeated.
    let unnested = node.downcast_ref::<UnnestExec>().map(|unnest| unnest.list_column_indices());
    let rows = match node.is::<RepartitionExec>() {
        true => Rows::Pass,
        false if is_join || is_subquery || unnested.is_some() => Rows::Repeat,
        false => return (Vec::new(), Rows::Pass),
    };
    let is_unnested = |at: usize| {
        unnested.is_some_and(|lists| lists.iter().any(|list| list.index_in_input_schema == at))
    };
    let Some(input) = node.children().get(input).map(|input| input.schema()) else {
        return (Vec::new(), rows);
    };
    let wide = |at: &usize| may_be_wide(input.field(*at).data_type()) && !is_unnested(*at);
    ((0..input.fields().len()).filter(wide).collect(), rows)
}

/// The constants of an operator that may be repeated for each row.
#[derive(Default)]
struct Constants {
    bytes: usize,
    /// Whether some come from subqueries, or functions make far longer values of their arguments.
    may_grow: bool,
}

impl Constants {
    fn of(node: &Plan) -> DataFusionResult<Constants> {
        let mut all = Constants::default();
        if !node.children().is_empty() {
            node.apply_expressions(&mut |expression| {
                all.add(expression);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(all)
    }

    fn add(&mut self, expression: &Arc<dyn PhysicalExpr>) {
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            let bytes = literal.value().size();
            self.bytes = self.bytes.saturating_add(if bytes < LONG_CONSTANT { 0 } else { bytes });
        }
        let call = expression.downcast_ref::<ScalarFunctionExpr>();
        self.may_grow |= expression.is::<ScalarSubqueryExpr>()
            || call.is_some_and(|call| growing::most_of(call.fun()).is_some());
        expression.children().into_iter().for_each(|part| self.add(part));
    }

    /// How an input is cut for these constants, or because one of its rows is joined with all
    /// those of a batch.
    fn cut(&self, node: &Plan, input: usize) -> Look {
        let is_probed =
            input == 1 && (node.is::<CrossJoinExec>() || node.is::<NestedLoopJoinExec>());
        Look {
            columns: Vec::new(),
            rows: Rows::Pass,
            constants: self.bytes,
            to_batches: is_probed || self.may_grow,
        }
    }
}

/// What is done with the batches of an input.
#[derive(Clone, Debug)]
struct Look {
    /// The columns whose widths are looked at.
    columns: Vec<usize>,
    rows: Rows,
    /// Bytes of constants that the operator above repeats for each row.
    constants: usize,
    /// Whether batches of more rows than the session asks for are cut.
    to_batches: bool,
}

impl Look {
    fn does_nothing(&self) -> bool {
        self.columns.is_empty() && self.constants == 0 && !self.to_batches
    }
}

#[derive(Clone, Debug)]
enum Step {
    Look(Look),
    /// Puts small batches together.
    Gather,
    /// Gives texts another layout.
    Layout(SchemaRef),
}

/// Looks at the widths of rows on their way.
#[derive(Debug)]
pub(in crate::sql) struct WideRowsExec {
    input: Plan,
    step: Step,
    properties: Arc<PlanProperties>,
}

impl WideRowsExec {
    fn new(input: Plan, step: Step) -> DataFusionResult<WideRowsExec> {
        let properties = match &step {
            Step::Layout(layout) => Arc::new(properties(&input, layout)?),
            Step::Look(_) | Step::Gather => Arc::clone(input.properties()),
        };
        Ok(WideRowsExec { input, step, properties })
    }

    fn over(&self, input: Plan) -> DataFusionResult<WideRowsExec> {
        WideRowsExec::new(input, self.step.clone())
    }
}

impl DisplayAs for WideRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for WideRowsExec {
    fn name(&self) -> &'static str {
        "WideRowsExec"
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
        let mut batches = self.input.execute(partition, Arc::clone(&context))?;
        let look = match &self.step {
            Step::Look(look) => Looking::new(look.clone(), &context),
            Step::Layout(layout) => {
                let layout = Arc::clone(layout);
                let batches = batches.map(move |batch| in_layout(&batch?, &layout));
                return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)));
            }
            Step::Gather => {
                let mut coalescer = Coalescer::new(&self.schema(), most_held(&context));
                return Ok(make_cooperative(generate(self.schema(), move |output| async move {
                    while let Some(batch) = batches.next().await {
                        for batch in coalescer.push(batch?)? {
                            output.emit(batch).await;
                        }
                    }
                    for batch in coalescer.finish()? {
                        output.emit(batch).await;
                    }
                    Ok(())
                })));
            }
        };
        Ok(generate(self.schema(), move |output| async move {
            while let Some(batch) = batches.next().await {
                let batch = batch?;
                let step = look.rows(&batch)?;
                if batch.num_rows() <= step {
                    output.emit(batch).await;
                    continue;
                }
                for start in (0..batch.num_rows()).step_by(step) {
                    output.emit(batch.slice(start, step.min(batch.num_rows() - start))).await;
                }
            }
            Ok(())
        }))
    }
}

/// How batches are looked at in a session.
struct Looking {
    look: Look,
    memory: usize,
    batch_rows: usize,
    session: Option<Arc<OfSession>>,
}

impl Looking {
    fn new(look: Look, context: &TaskContext) -> Looking {
        let memory = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let config = context.session_config();
        let session = SessionHandle::of(config.options()).cloned();
        Looking { look, memory, batch_rows: config.batch_size(), session }
    }

    /// How many rows of a batch are passed on at a time.
    fn rows(&self, batch: &RecordBatch) -> Result<usize, Error> {
        let row = |least| row_bytes(batch, &self.look.columns, self.look.rows, least);
        // Batches of one row are as small as they can be.
        let most = self.memory / BATCH_SHARE / self.batch_rows.max(1);
        if self.batch_rows > 1 && row(LEAST_ROWS) > most {
            let row = row(1);
            if let Some(session) = &self.session {
                session.widest.note(row);
            }
            let (rows, fewer) = (self.batch_rows, rows_within(self.memory / SMALL_SHARE, row));
            return Err(Error::LimitExceeded(format!(
                "rows of {row} bytes: {rows} of them, which are handled at a time, would take more \
                 than a quarter of --memory-limit; SET datafusion.execution.batch_size = {fewer} \
                 before the statement"
            )));
        }
        let mut rows = usize::MAX;
        if self.look.constants > 0 {
            rows = rows_within(self.memory / SMALL_SHARE, self.look.constants);
        }
        if self.look.to_batches {
            rows = rows.min(self.batch_rows.max(1));
        }
        Ok(rows)
    }
}
