//! A query over the rows of an input that is being loaded: which of them are stored, and what of
//! them.
//!
//! The query is planned by a session, as any query is, once for each set of columns, over a table
//! `input` whose only batch comes with the context of an execution. It takes each row by itself:
//! plans of projections and filters alone run, so that a load stays a load, whose rows are cut,
//! counted, rejected and committed as ever.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::planned::Planned;
use super::{Session, SessionOptions, Statement};
use crate::error::{Error, Result};
use crate::ingest::selection::Select;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::wide_rows::WideRowsExec;

/// The name of the table that the rows of an input are.
const INPUT: &str = "input";

/// A query over the rows of an input.
pub struct SqlSelect {
    session: Session,
    statement: Statement,
    /// Plans of the query, by the columns of the input.
    plans: Mutex<Vec<(SchemaRef, Arc<dyn ExecutionPlan>)>>,
}

impl SqlSelect {
    /// A query, or what follows its SELECT up to its FROM. It may take as much memory as the
    /// options say.
    pub fn new(sql: &str, options: &SessionOptions) -> Result<SqlSelect> {
        let options = SessionOptions { threads: Some(1), no_files: true, ..options.clone() };
        let session = Session::new(&options)?;
        let first = sql.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
        let is_query = |word: &str| {
            ["select", "from", "with"].iter().any(|known| word.eq_ignore_ascii_case(known))
        };
        let sql = match first.is_some_and(is_query) {
            true => sql.to_owned(),
            false => format!("SELECT {sql}\nFROM {INPUT}"),
        };
        let mut statements = session.parse(&sql)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => {
                Ok(SqlSelect { session, statement, plans: Mutex::default() })
            }
            _ => Err(Error::InvalidInput("it is one query, and not several or none".into())),
        }
    }

    /// The plan over rows of these columns.
    fn plan(&self, columns: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(known, _)| known == columns) {
            return Ok(Arc::clone(plan));
        }
        let partition = Arc::new(InputPartition(Arc::clone(columns)));
        let table = StreamingTable::try_new(Arc::clone(columns), vec![partition])?;
        self.session.context.register_table(INPUT, Arc::new(table))?;
        let planned = self.session.plan(&self.statement, &Parameters::default());
        let plan = match planned.map_err(in_words_of_input)? {
            Planned::Answer(plan) => plan,
            _ => return Err(Error::InvalidInput("it is a query, and changes nothing".into())),
        };
        let plan = without_looks(plan)?;
        check_takes_rows(&plan)?;
        plans.push((Arc::clone(columns), Arc::clone(&plan)));
        Ok(plan)
    }
}

impl Select for SqlSelect {
    fn select(&self, rows: RecordBatch) -> Result<Vec<RecordBatch>> {
        // Each execution has its own counters, which are dropped with it.
        let plan = reset_plan_states(self.plan(&rows.schema())?)?;
        let context = TaskContext::from(&self.session.context.state());
        let config = context.session_config().clone().with_extension(Arc::new(InputRows(rows)));
        let context = Arc::new(context.with_session_config(config));
        let schema = plan.schema();
        let work = collect(plan, context);
        let selected = self.session.workers.run(&self.session.canceller, work)??;
        Ok(if selected.is_empty() { vec![RecordBatch::new_empty(schema)] } else { selected })
    }
}

impl std::fmt::Debug for SqlSelect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlSelect").field("statement", &self.statement).finish_non_exhaustive()
    }
}

/// What a session says of names, where there is nothing but the input.
fn in_words_of_input(error: Error) -> Error {
    match error {
        Error::NotFound(what) => {
            let what = what.split("; ").next().unwrap_or_default();
            Error::InvalidInput(format!("{what}; the rows that are loaded are the table {INPUT}"))
        }
        other => other,
    }
}

/// A plan that does not look at how wide rows are: a load reads no more of them at a time than it
/// has memory for.
fn without_looks(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_down(|mut node| {
        let mut changed = false;
        while let Some(input) = input_of_look(&node) {
            (node, changed) = (input, true);
        }
        Ok(if changed { Transformed::yes(node) } else { Transformed::no(node) })
    });
    Ok(plan?.data)
}

fn input_of_look(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let children = node.children();
    children.first().filter(|_| node.is::<WideRowsExec>()).map(|input| Arc::clone(input))
}

/// Refuses a plan that takes more than one row at a time.
fn check_takes_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let is_projection =
        plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>() || plan.is::<EmptyExec>();
    let is_filter = plan.is::<FilterExec>() || plan.is::<StreamingTableExec>();
    if !(is_projection || is_filter) || plan.fetch().is_some() {
        return Err(Error::InvalidInput(format!(
            "it takes each row of {INPUT} by itself: expressions and WHERE, and no aggregates, \
             DISTINCT, joins, subqueries, windows, ORDER BY or LIMIT; INSERT INTO … SELECT … FROM \
             'FILE' stores the rows of any query"
        )));
    }
    plan.children().into_iter().try_for_each(check_takes_rows)
}

/// The rows of one execution.
struct InputRows(RecordBatch);

/// The table of the rows that come with an execution.
#[derive(Debug)]
struct InputPartition(SchemaRef);

impl PartitionStream for InputPartition {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = context.session_config().get_extension::<InputRows>();
        let rows = futures::stream::iter(rows.map(|rows| Ok(rows.0.clone())));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), rows))
    }
}
