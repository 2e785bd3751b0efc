//! Windows whose frames end with their row.
//!
//! Where this stands on the road of a query: one of the last physical rules puts a
//! [`RunningWindowsExec`] in the place of DataFusion's `BoundedWindowAggExec` (55.2), which takes
//! its rows apart by partitions and computes one value at a time. Here, the values of a batch are
//! computed at once ([`functions`]), from those of the batch and what is kept of the rows before:
//! a number ([`numbers`]), values ([`picked`]), or the aggregate of a frame ([`frames`],
//! [`aggregates`]). Partitions begin and end within batches ([`bounds`]).
//!
//! Where peers share the value of the last of them, the last rows of a batch wait until their peers
//! have come, in a file once there is no room. For `lead`, rows wait in memory ([`ahead`]).
//!
//! Other functions and frames stay with DataFusion's operator.

mod aggregates;
mod ahead;
mod bounds;
mod frames;
mod functions;
mod numbers;
mod picked;

use std::fmt;
use std::iter::repeat_n;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, Statistics, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput, SpillMetrics,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, InputOrderMode,
    PlanProperties, SpillManager, replace_children_if_necessary,
};
use futures::StreamExt;

use self::ahead::{Ahead, Lead};
use self::bounds::Bounds;
use self::frames::Leaving;
use self::functions::Function;
use super::cut::Cut;
use super::generate::{Output, generate};
use super::held::Held;
use super::settings::Settings;
use super::unary::replacing_methods;
use crate::error::Result;

type Plan = Arc<dyn ExecutionPlan>;

/// Puts our operator in the place of DataFusion's.
#[derive(Debug)]
pub(in crate::sql) struct RunWindows;

impl PhysicalOptimizerRule for RunWindows {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        if !Settings::of(config).native {
            return Ok(plan);
        }
        let rewritten = plan.transform_down(|node| {
            Ok(match functions(&node) {
                Some(_) => Transformed::yes(Arc::new(RunningWindowsExec::new(node)) as Plan),
                None => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "run_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The windows of DataFusion's operator.
fn windows(replaced: &Plan) -> &[Arc<dyn WindowExpr>] {
    replaced.downcast_ref::<BoundedWindowAggExec>().map_or(&[], BoundedWindowAggExec::window_expr)
}

/// What the windows compute, if all of them are over the same sorted rows and their functions are
/// among ours.
fn functions(replaced: &Plan) -> Option<Vec<Function>> {
    let operator = replaced.downcast_ref::<BoundedWindowAggExec>()?;
    if operator.input_order_mode != InputOrderMode::Sorted {
        return None;
    }
    let windows = operator.window_expr();
    let first = windows.first()?;
    let is_alike = |window: &Arc<dyn WindowExpr>| {
        window.partition_by() == first.partition_by() && window.order_by() == first.order_by()
    };
    let schema = operator.input().schema();
    let of = |window: &Arc<dyn WindowExpr>| match is_alike(window) {
        true => Function::of(window, &schema),
        false => None,
    };
    windows.iter().map(of).collect()
}

/// Computes windows whose frames end with their row.
#[derive(Debug)]
pub(in crate::sql) struct RunningWindowsExec {
    /// DataFusion's operator, which knows the properties of the rows.
    replaced: Plan,
    metrics: ExecutionPlanMetricsSet,
}

impl RunningWindowsExec {
    fn new(replaced: Plan) -> RunningWindowsExec {
        RunningWindowsExec { replaced, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for RunningWindowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = windows(&self.replaced).iter().map(|window| window.name()).collect();
        write!(f, "{}: wdw=[{}]", self.name(), names.join(", "))
    }
}

impl ExecutionPlan for RunningWindowsExec {
    fn name(&self) -> &'static str {
        "RunningWindowsExec"
    }

    replacing_methods!();

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        let replaced = replace_children_if_necessary(Arc::clone(&self.replaced), children)?;
        Ok(Arc::new(RunningWindowsExec::new(replaced)))
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.replaced.required_input_ordering()
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let changed = || internal_datafusion_err!("the windows of {} have changed", self.name());
        let functions = functions(&self.replaced).ok_or_else(changed)?;
        let (Some(window), [input]) = (windows(&self.replaced).first(), &self.children()[..])
        else {
            return Err(changed());
        };
        let before = input.schema().fields().len();
        let leads = functions.iter().enumerate().filter_map(|(at, function)| {
            let (offset, default) = function.ahead()?;
            Some(Lead { column: before + at, offset, default: default.clone() })
        });
        let ahead = Ahead::new(&self.schema(), leads.collect());
        let schema =
            ahead.as_ref().map_or_else(|| self.schema(), |ahead| Arc::clone(ahead.schema()));
        let of_peers = functions.iter().enumerate().filter(|(_, function)| function.is_of_peers);
        let of_peers = of_peers.map(|(at, _)| before + at).collect();
        let mut leaving: Vec<(Leaving, Vec<u32>)> = Vec::new();
        for start in functions.iter().filter_map(Function::moving_start) {
            if leaving.iter().all(|(leaving, _)| leaving.start != *start) {
                leaving.push((Leaving::new(start.clone()), Vec::new()));
            }
        }
        let keys = window.order_by().iter().map(|key| &key.expr);
        let keys: Vec<_> = window.partition_by().iter().chain(keys).cloned().collect();
        let goes_by_peers = functions.iter().any(Function::goes_by_peers);
        let spills = SpillMetrics::new(&self.metrics, partition);
        let spills = SpillManager::new(context.runtime_env(), spills, Arc::clone(&schema));
        let running = Running {
            functions,
            partitions: Cut::new(window.partition_by()),
            peers: goes_by_peers.then(|| Cut::new(&keys)),
            leaving,
            schema,
            of_peers,
            held: Held::new("Window", spills, true, &context),
            last: None,
            ahead,
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows = make_cooperative(input.execute(partition, context)?);
        Ok(generate(self.schema(), |output| running.run(rows, output)))
    }
}

/// Windows over rows that come.
struct Running {
    functions: Vec<Function>,
    partitions: Cut,
    peers: Option<Cut>,
    /// Of each kind of moving frame, how many rows leave it when each row of the batch comes.
    leaving: Vec<(Leaving, Vec<u32>)>,
    /// The columns of the input, the values, and what `ahead` adds.
    schema: SchemaRef,
    /// The columns of values that peers share.
    of_peers: Vec<usize>,
    /// The last rows, where more peers of them may come.
    held: Held,
    /// The values of the last one of them that peers share.
    last: Option<Vec<ScalarValue>>,
    ahead: Option<Ahead>,
    baseline: BaselineMetrics,
}

impl Running {
    async fn run(mut self, mut rows: SendableRecordBatchStream, to: Output) -> Result<()> {
        while let Some(batch) = rows.next().await.transpose()? {
            if batch.num_rows() > 0 {
                self.add(&batch, &to).await?;
            }
        }
        self.release(&to).await?;
        if let Some(rest) = self.ahead.as_mut().map(Ahead::finish).transpose()?.flatten() {
            to.emit(rest.record_output(&self.baseline)).await;
        }
        Ok(())
    }

    async fn add(&mut self, batch: &RecordBatch, to: &Output) -> Result<()> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let timer = elapsed.timer();
        let peers = self.peers.as_mut().map(|peers| peers.cut(batch)).transpose()?;
        let bounds = Bounds { partitions: self.partitions.cut(batch)?, peers };
        let mut rows = self.with_values(batch, &bounds)?;
        timer.done();
        let Some(peers) = bounds.peers.filter(|_| !self.of_peers.is_empty()) else {
            return self.emit(rows, to).await;
        };
        let [first, .., last] = &peers.ranges[..] else {
            // All are peers of each other.
            if !peers.goes_on {
                self.release(to).await?;
            }
            return self.hold(rows);
        };
        rows = self.shared(&rows, |column| {
            let last = peers
                .ranges
                .iter()
                .flat_map(|peers| repeat_n(peers.end.saturating_sub(1) as u32, peers.len()));
            Ok(take(column, &UInt32Array::from_iter_values(last), None)?)
        })?;
        if peers.goes_on {
            self.last = Some(self.shared_values(&rows, first.end - 1)?);
        }
        self.release(to).await?;
        self.emit(rows.slice(0, last.start), to).await?;
        self.hold(rows.slice(last.start, last.len()))
    }

    /// The rows with the value of each window for itself, and what `ahead` needs.
    fn with_values(
        &mut self,
        batch: &RecordBatch,
        bounds: &Bounds,
    ) -> DataFusionResult<RecordBatch> {
        for (leaving, rows) in &mut self.leaving {
            *rows = leaving.of(batch, bounds)?;
        }
        let mut columns = batch.columns().to_vec();
        for function in &mut self.functions {
            columns.push(function.evaluate(batch, bounds, &self.leaving)?);
        }
        columns.extend(self.ahead.as_mut().map(|ahead| ahead.partitions(bounds)));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The rows with other values of the windows that peers share.
    fn shared(
        &self,
        rows: &RecordBatch,
        mut value: impl FnMut(&ArrayRef) -> DataFusionResult<ArrayRef>,
    ) -> DataFusionResult<RecordBatch> {
        let mut columns = rows.columns().to_vec();
        for at in &self.of_peers {
            if let Some(column) = columns.get_mut(*at) {
                *column = value(column)?;
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The values of a row that its peers share.
    fn shared_values(&self, rows: &RecordBatch, row: usize) -> DataFusionResult<Vec<ScalarValue>> {
        let columns = self.of_peers.iter().filter_map(|at| rows.columns().get(*at));
        columns.map(|column| ScalarValue::try_from_array(column, row)).collect()
    }

    /// Lets rows wait for more peers of them.
    fn hold(&mut self, rows: RecordBatch) -> Result<()> {
        self.last = Some(self.shared_values(&rows, rows.num_rows().saturating_sub(1))?);
        Ok(self.held.push_or_spill(rows)?)
    }

    /// Emits the rows that wait, whose peers have all come.
    async fn release(&mut self, to: &Output) -> Result<()> {
        let Some(last) = self.last.take() else { return Ok(()) };
        while let Some(rows) = self.held.next().await? {
            let mut values = last.iter();
            let rows = self.shared(&rows, |column| match values.next() {
                Some(value) => value.to_array_of_size(column.len()),
                None => Ok(Arc::clone(column)),
            })?;
            self.emit(rows, to).await?;
        }
        Ok(())
    }

    async fn emit(&mut self, rows: RecordBatch, to: &Output) -> Result<()> {
        let rows = match &mut self.ahead {
            Some(ahead) => ahead.push(rows)?,
            None => Some(rows),
        };
        if let Some(rows) = rows {
            to.emit(rows.record_output(&self.baseline)).await;
        }
        Ok(())
    }
}
