//! Statements over a cluster that are planned once more, because a machine had another state of its
//! table by the time that it read it: rows have moved, or what was planned for is kept no longer.
//!
//! Where this stands on the road of a query: behind it, as `frugal` does. As long as no row has
//! come out, nobody has seen that the statement began: it asks all machines anew what their tables
//! are, and so sees each row once. This has a bound, so that a statement ends under steady changes.

use std::sync::{Arc, Mutex};

use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execute_stream;

use super::Session;
use super::execution::Run;
use super::planned::Planned;
use super::statement::StatementPlanner;
use crate::error::Error;
use crate::sql::names::catalog::Pins;
use crate::sql::names::lock;
use crate::sql::run::statistics::task_context;
use crate::sql::run::stream::Begun;

/// How often a statement is planned once more.
const MOST_TIMES: u32 = 16;

impl Session {
    /// How to answer a statement whose tables have changed; `None` if they are those of one store,
    /// whose generations stay. `pins` are what the other ways to begin once more read.
    pub(super) fn anew(&self, run: &Run, pins: Arc<Mutex<Pins>>) -> Option<Begun> {
        self.tables.cluster_nodes()?;
        // It cannot be read twice.
        if self.tables.reads_stdin() {
            return None;
        }
        let (context, timed) = (self.context.clone(), run.timed);
        let (tables, prepared) = (Arc::clone(&self.tables), Arc::clone(&self.prepared));
        let (own, values) = (Arc::clone(&self.own), run.parameters.clone());
        let parsed = Arc::clone(&run.statement.parsed);
        let mut left = MOST_TIMES;
        Some(Box::new(move || {
            let Some(next) = left.checked_sub(1) else {
                return Err(Error::Unsupported("the statement was planned often enough".into()));
            };
            left = next;
            // Names mean what machines say now.
            tables.pin(Pins::default());
            let (context, tables, prepared) = (&context, &*tables, &*prepared);
            let planner = StatementPlanner::new(context, tables, prepared);
            // It is large, and this may be deep in the stack of a writer.
            let starting = Box::pin(async {
                let Planned::Answer(plan) = planner.plan(&parsed.statement, &values).await? else {
                    return Err(Error::Unsupported("a statement without rows".into()));
                };
                *lock(&pins) = tables.pins();
                let task = task_context(planner.context, timed || plan.is::<AnalyzeExec>());
                Ok((execute_stream(Arc::clone(&plan), task)?, plan))
            });
            own.workers.run(&own.canceller, starting)?
        }))
    }
}
