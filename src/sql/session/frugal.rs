//! Statements that begin once more: joins of more rows than a hash table may hold, aggregates that
//! hold the values of groups, and wide rows.
//!
//! Where this stands on the road of a query: the hash table of a join (DataFusion 55.2) cannot
//! spill, nor can the values that a `median` holds. A statement that fails for them, before it has
//! given a row, is planned once more with joins of sorted inputs, and with plans that spill in the
//! place of such aggregates (`plan/lower/spilled`). One that fails for wide rows
//! (`functions/bounds`, `run/wide_rows`) is planned once more with fewer rows in a batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

use super::planned::Planned;
use super::statement::StatementPlanner;
use crate::error::{Error, Result};
use crate::sql::functions::bounds::{SMALL_SHARE, rows_within};
use crate::sql::names::parameters::Parameters;
use crate::sql::plan::lower::spilled;
use crate::sql::run::range_join::RangeJoinExec;
use crate::sql::run::statistics::task_context;
use crate::sql::run::whole_partitions::WholePartitionsExec;
use crate::sql::work::handle::SessionHandle;

/// How long to wait for memory.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

fn has_node(plan: &Arc<dyn ExecutionPlan>, test: impl Fn(&dyn ExecutionPlan) -> bool) -> bool {
    let mut found = false;
    // A walk fails only where its visitor does.
    let _ = plan.apply(|node| {
        found = test(node.as_ref());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn holds_values(aggregate: &AggregateExec) -> bool {
    aggregate.aggr_expr().iter().any(|call| spilled::holds_values(call))
}

/// What the plans of a statement do to take less memory.
pub(super) struct Thrift {
    /// Rows in a batch.
    batch_rows: usize,
    /// Whether fragments run in our own executor, which handles some thousand rows at a time.
    native: bool,
    /// Whether something in the plan has another form that takes less memory: hash joins may still
    /// become joins of sorted inputs, joins by ranges those of one part of the left side after the
    /// other, windows ones over sorted rows, and aggregates that hold values what spills them.
    may_sort: bool,
    /// Whether an aggregate of the plan holds values, all of a group in one row of its state. Such
    /// a row is wide only until the values are sorted.
    holds_values: bool,
    sorts: bool,
}

impl Thrift {
    pub(super) fn new(context: &SessionContext, plan: &Arc<dyn ExecutionPlan>) -> Thrift {
        let batch_rows = context.state_ref().read().config().batch_size();
        let is_hashed = |node: &dyn ExecutionPlan| {
            node.is::<HashJoinExec>()
                || node.is::<RangeJoinExec>()
                || node.downcast_ref().is_some_and(WholePartitionsExec::is_hashed)
        };
        let holds_values = has_node(plan, |node| node.downcast_ref().is_some_and(holds_values));
        let may_sort = holds_values || has_node(plan, is_hashed);
        Thrift { batch_rows, native: true, may_sort, holds_values, sorts: false }
    }

    /// A session like the statement's, whose plans have fewer rows in a batch if rows were too
    /// wide, and else join sorted inputs in place of hash joins. `None` if neither would take less
    /// memory than what was tried.
    pub(super) fn session(
        &mut self,
        context: &SessionContext,
        memory: u64,
    ) -> Option<SessionContext> {
        let mut state = context.state();
        let session = SessionHandle::of(state.config_options());
        let widest = session.and_then(|session| session.widest.take());
        let fewer = widest.map(|bytes| rows_within(memory as usize / SMALL_SHARE, bytes));
        let sorts_first = self.may_sort && self.holds_values;
        match fewer.filter(|rows| *rows < self.batch_rows && !sorts_first) {
            Some(rows) => (self.batch_rows, self.native) = (rows, false),
            None if self.may_sort => (self.may_sort, self.sorts) = (false, true),
            None => return None,
        }
        let options = state.config_mut().options_mut();
        if !self.native {
            options.set("sty.native", "off").ok()?;
        }
        options.execution.batch_size = ConfigNonZeroUsize::try_new(self.batch_rows).ok()?;
        if self.sorts {
            options.optimizer.prefer_hash_join = false;
            // DataFusion joins sorted inputs in several partitions only.
            let partitions = &mut options.execution.target_partitions;
            *partitions = (*partitions).max(2);
        }
        Some(SessionContext::new_with_state(state))
    }
}

/// Waits until no more than `taken` bytes are taken: the tasks of the plan that failed give theirs
/// back when they notice that nobody asks them any more.
pub(super) fn wait_for_memory(context: &SessionContext, taken: usize) {
    let (pool, started) = (Arc::clone(&context.runtime_env().memory_pool), Instant::now());
    while pool.reserved() > taken && started.elapsed() < LONGEST_WAIT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Plans a statement, and starts the plan of its rows.
pub(super) async fn start(
    planner: StatementPlanner<'_>,
    statement: &Statement,
    parameters: &Parameters,
    timed: bool,
) -> Result<(SendableRecordBatchStream, Arc<dyn ExecutionPlan>)> {
    let plan = match planner.plan(statement, parameters).await? {
        Planned::Answer(plan) => Some(plan),
        Planned::Write(write) => write.rows,
        _ => None,
    };
    let plan = plan.ok_or_else(|| Error::Unsupported("a statement without rows".into()))?;
    Ok((execute_stream(Arc::clone(&plan), task_context(planner.context, timed))?, plan))
}
