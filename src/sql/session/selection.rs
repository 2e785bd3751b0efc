//! A query over the rows of an input that is being loaded: which of them are stored, and what of
//! them.
//!
//! The query is planned by a session, as any query is, once for the columns of a load, over a table
//! `input` whose only batch comes with the context of an execution. It takes each row by itself:
//! plans of projections and filters alone run, so that a load stays a load, whose rows are cut,
//! counted, rejected and committed as ever.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::sql::parser::Statement as SyntaxTree;
use datafusion::sql::sqlparser::ast::{Query, Visit, Visitor};

use super::planned::Planned;
use super::{Session, SessionOptions, Statement};
use crate::error::{Error, Result};
use crate::ingest::selection::{Select, SelectRows};
use crate::sql::names::parameters::Parameters;
use crate::sql::run::wide_rows::WideRowsExec;
use crate::sql::syntax::lexemes::{Lexeme, LexemeKind, lexemes};

/// The name of the table that the rows of an input are.
const INPUT: &str = "input";

/// A query over the rows of an input.
pub struct SqlSelect {
    session: Arc<Session>,
    statement: Statement,
    text: String,
    /// One plan at a time: each has a table of its own under the same name.
    planning: Mutex<()>,
}

impl SqlSelect {
    /// A query, or what follows its SELECT, whose FROM may be left out. It may take as much memory
    /// as the options say.
    pub fn new(sql: &str, options: &SessionOptions) -> Result<SqlSelect> {
        let options = SessionOptions { threads: Some(1), no_files: true, ..options.clone() };
        let session = Session::new(&options)?;
        let mut words = lexemes(sql);
        let is_word = |word: &Lexeme| !matches!(word.kind, LexemeKind::Blank | LexemeKind::Comment);
        words.retain(is_word);
        let is_query = words.first().is_some_and(|word| {
            let word = sql.get(word.range.clone()).unwrap_or_default();
            ["select", "from", "with"].iter().any(|known| word.eq_ignore_ascii_case(known))
        });
        let end = words.pop_if(|last| last.kind == LexemeKind::Semicolon);
        let list = sql.get(..end.map_or(sql.len(), |end| end.range.start)).unwrap_or_default();
        let query = match (is_query, has_from(sql, &words)) {
            (true, _) => sql.to_owned(),
            (false, true) => format!("SELECT {list}"),
            (false, false) => format!("SELECT {list}\nFROM {INPUT}"),
        };
        let mut statements = session.parse(&query)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => Ok(SqlSelect {
                session: Arc::new(session),
                statement,
                text: sql.to_owned(),
                planning: Mutex::default(),
            }),
            _ => Err(Error::InvalidInput("it is one query, and not several or none".into())),
        }
    }
}

/// Whether a FROM follows the expressions; others are parts of a function or of an operator.
fn has_from(sql: &str, words: &[Lexeme]) -> bool {
    let text = |word: &Lexeme| sql.get(word.range.clone()).unwrap_or_default();
    let (mut depth, mut before) = (0_usize, "");
    words.iter().map(text).any(|word| {
        match word {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_operator = before.eq_ignore_ascii_case("distinct");
        before = word;
        depth == 0 && word.eq_ignore_ascii_case("from") && !is_operator
    })
}

impl Select for SqlSelect {
    fn text(&self) -> &str {
        &self.text
    }

    fn over(&self, columns: &SchemaRef) -> Result<Arc<dyn SelectRows>> {
        if has_limit(&self.statement) {
            return Err(takes_more_rows());
        }
        let _one_at_a_time = self.planning.lock().unwrap_or_else(PoisonError::into_inner);
        let partition = Arc::new(InputPartition(Arc::clone(columns)));
        let table = StreamingTable::try_new(Arc::clone(columns), vec![partition])?;
        self.session.context.register_table(INPUT, Arc::new(table))?;
        let planned = self.session.plan(&self.statement, &Parameters::default(), None);
        let plan = match planned.map_err(in_words_of_input)? {
            Planned::Answer(plan) => plan,
            _ => return Err(Error::InvalidInput("it is a query, and changes nothing".into())),
        };
        let plan = without_looks(plan)?;
        check_takes_rows(&plan)?;
        let (plan, reads) = of_read_columns(plan)?;
        Ok(Arc::new(SqlSelectRows { session: Arc::clone(&self.session), plan, reads }))
    }
}

impl std::fmt::Debug for SqlSelect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlSelect").field("statement", &self.statement).finish_non_exhaustive()
    }
}

/// The plan of a query over rows of known columns.
struct SqlSelectRows {
    session: Arc<Session>,
    plan: Arc<dyn ExecutionPlan>,
    reads: SchemaRef,
}

impl SelectRows for SqlSelectRows {
    fn reads(&self) -> &SchemaRef {
        &self.reads
    }

    fn computes(&self) -> SchemaRef {
        self.plan.schema()
    }

    fn select(&self, rows: RecordBatch) -> Result<Vec<RecordBatch>> {
        // Each execution has its own counters, which are dropped with it.
        let plan = reset_plan_states(Arc::clone(&self.plan))?;
        let context = TaskContext::from(&self.session.context.state());
        let config = context.session_config().clone().with_extension(Arc::new(InputRows(rows)));
        let context = Arc::new(context.with_session_config(config));
        let schema = plan.schema();
        let work = collect(plan, context);
        let selected = self.session.own.workers.run(&self.session.own.canceller, work)??;
        Ok(if selected.is_empty() { vec![RecordBatch::new_empty(schema)] } else { selected })
    }
}

impl std::fmt::Debug for SqlSelectRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlSelectRows").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// The plan over rows of those columns alone that it reads.
fn of_read_columns(plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, SchemaRef)> {
    let mut reads = Arc::new(Schema::empty());
    let plan = plan.transform_up(|node| {
        if !node.is::<StreamingTableExec>() {
            return Ok(Transformed::no(node));
        }
        reads = node.schema();
        let partition: Arc<dyn PartitionStream> = Arc::new(InputPartition(Arc::clone(&reads)));
        let leaf = StreamingTableExec::try_new(
            Arc::clone(&reads),
            vec![partition],
            None,
            Vec::<LexOrdering>::new(),
            false,
            None,
        )?;
        Ok(Transformed::yes(Arc::new(leaf) as Arc<dyn ExecutionPlan>))
    });
    Ok((plan?.data, reads))
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

/// Whether a LIMIT is somewhere in a query: of one without rows, the plan has no trace.
fn has_limit(Statement { parsed }: &Statement) -> bool {
    struct FindLimit;
    impl Visitor for FindLimit {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match query.limit_clause.is_some() || query.fetch.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    let SyntaxTree::Statement(statement) = &parsed.statement else { return false };
    statement.visit(&mut FindLimit).is_break()
}

/// Refuses a plan that takes more than one row at a time.
fn check_takes_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let is_projection =
        plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>() || plan.is::<EmptyExec>();
    let is_filter = plan.is::<FilterExec>() || plan.is::<StreamingTableExec>();
    if !(is_projection || is_filter) || plan.fetch().is_some() {
        return Err(takes_more_rows());
    }
    plan.children().into_iter().try_for_each(check_takes_rows)
}

#[cold]
fn takes_more_rows() -> Error {
    Error::InvalidInput(format!(
        "it takes each row of {INPUT} by itself: expressions and WHERE, and no aggregates, \
         DISTINCT, joins, subqueries, windows, ORDER BY or LIMIT; INSERT INTO … SELECT … FROM \
         'FILE' stores the rows of any query"
    ))
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
