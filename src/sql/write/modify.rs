//! DELETE and UPDATE: which rows of a stored table are deleted or changed, and to what.
//!
//! DataFusion plans the statement as a filter over a scan, and for an UPDATE a projection to all
//! columns above it. Both are taken apart here and compiled for `maintain::modify`, which rewrites
//! the segments that have such rows.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, LogicalPlan, WriteOp, lit};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Error, Result};
use crate::expr::{Expression, Predicate};
use crate::maintain::{Modification, ModifyOptions, ModifyReport, foresee, modify};
use crate::model::Schema;
use crate::query::Condition;
use crate::sql::convert::to_predicate;
use crate::sql::keys::expressions::{SqlExpressions, compile};
use crate::sql::plan::lower::scan_conditions;
use crate::sql::run::provider::{Conditions, StoreProvider};
use crate::sql::run::table::StoreTable;
use crate::sql::write::assignments::{as_exact_literal, without_cast};
use crate::sql::write::base::{Base, Reads};
use crate::sql::write::row_count_answer;
use crate::sql::write::subqueries;
use crate::store::{Store, TableWriter};

/// A statement that deletes or changes rows of a table.
#[derive(Debug)]
pub(in crate::sql) struct Modify {
    pub(in crate::sql) table: String,
    /// What it was planned on.
    pub(in crate::sql) base: Base,
    modification: Modification,
    /// The memory that the answers of subqueries take.
    memory: MemoryReservation,
}

impl Modify {
    /// Plans a statement that deletes or updates; `None` for others.
    pub(in crate::sql) async fn plan(
        statement: &DmlStatement,
        state: &SessionState,
    ) -> Result<Option<Modify>> {
        let is_update = match statement.op {
            WriteOp::Delete => false,
            WriteOp::Update => true,
            _ => return Ok(None),
        };
        let provider = source_as_provider(&statement.target)?;
        let Some(provider) = provider.downcast_ref::<StoreProvider>() else {
            return Err(Error::InvalidInput(format!(
                "{} is not a table of the store: its rows cannot be changed",
                statement.table_name
            )));
        };
        let snapshot = provider.table.snapshot();
        let schema = snapshot.schema();
        let (new, rows) = match statement.input.as_ref() {
            LogicalPlan::Projection(projection) if is_update => {
                (Some(&projection.expr), &projection.input)
            }
            _ => (None, &statement.input),
        };
        let (condition, scan) = match rows.as_ref() {
            LogicalPlan::Filter(filter) => (Some(&filter.predicate), &filter.input),
            _ => (None, rows),
        };
        check_scan(scan)?;
        condition.into_iter().chain(new.into_iter().flatten()).try_for_each(check_expression)?;
        let name = snapshot.table_name();
        let mut base = Base::of(snapshot, Reads::Nothing);
        for expr in condition.into_iter().chain(new.into_iter().flatten()) {
            base = subqueries::reads(expr, name)?.into_iter().fold(base, Base::and);
        }
        let memory = MemoryConsumer::new("Subqueries").register(&state.runtime_env().memory_pool);
        let condition = match condition {
            Some(condition) => {
                Some(subqueries::with_answers(condition, scan.schema(), state, &memory).await?)
            }
            None => None,
        };
        let Conditions { columns, conditions } = match condition {
            Some(condition) => conditions(condition, scan, &provider.table, state)?,
            None => Conditions::default(),
        };
        let set = match (is_update, new) {
            (true, Some(new)) => Some(changes(new, scan, schema, state, &memory).await?),
            (true, None) => return Err(Error::Unsupported("an UPDATE of this form".into())),
            (false, _) => None,
        };
        let compile: Arc<dyn crate::ingest::partition::Compile> =
            Arc::new(SqlExpressions::default());
        let modification = Modification { columns, conditions, set, compile: Some(compile) };
        Ok(Some(Modify { table: name.to_owned(), base, modification, memory }))
    }

    /// What the statement would do, and whether it deletes.
    pub(in crate::sql) fn foresee(
        &self,
        store: &Store,
        options: &ModifyOptions,
    ) -> Result<(ModifyReport, bool)> {
        let snapshot = store.table(&self.table)?.snapshot()?;
        let report = foresee(&snapshot, &self.modification, options)?;
        Ok((report, self.modification.set.is_none()))
    }

    /// Runs the statement; `writer` is that of its table. Returns the plan of its answer: the
    /// number of rows.
    pub(in crate::sql) fn run(
        self,
        store: &Store,
        writer: TableWriter,
        options: &ModifyOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = store.table(&self.table)?;
        let limit =
            options.memory_limit.map(|limit| limit.saturating_sub(self.memory.size() as u64));
        let options = ModifyOptions { memory_limit: limit, ..options.clone() };
        let (_, report) = modify(&table, writer, &self.modification, &options)?;
        row_count_answer(report.rows)
    }
}

/// Checks that the rows are those of the table alone.
fn check_scan(plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::TableScan(_) => Ok(()),
        LogicalPlan::SubqueryAlias(alias) => check_scan(&alias.input),
        other => Err(Error::Unsupported(format!(
            "DELETE and UPDATE take one table, without {}; select the rows by a condition on its \
             columns",
            other.display()
        ))),
    }
}

fn check_expression(expr: &Expr) -> Result<()> {
    if expr.is_volatile() {
        return Err(Error::Unsupported(format!(
            "{expr} in DELETE or UPDATE, because it is not the same each time it is computed"
        )));
    }
    Ok(())
}

/// The conditions on the rows, as a scan of a query has them; where the optimiser makes something
/// else of the filter, the condition as it was written.
fn conditions(
    condition: Expr,
    scan: &Arc<LogicalPlan>,
    table: &StoreTable,
    state: &SessionState,
) -> Result<Conditions> {
    let rows = Filter::try_new(condition.clone(), Arc::clone(scan)).map(LogicalPlan::Filter);
    let optimised = rows.and_then(|rows| state.optimize(&rows)).ok();
    let props = state.execution_props();
    if let Some(conditions) = optimised.as_ref().and_then(|rows| scan_conditions(rows, props)) {
        return Ok(conditions);
    }
    let condition = match condition.get_type(scan.schema())? {
        DataType::Boolean => condition,
        DataType::Null => lit(false),
        other => {
            return Err(Error::InvalidInput(format!("a condition is true or false, not {other}")));
        }
    };
    let expression = compile(condition, scan.schema(), state)?;
    let (predicate, partitions) = optimised
        .and_then(|rows| predicates(&rows, table))
        .unwrap_or((Predicate::Unknown, Predicate::Unknown));
    let written = Condition { expression, predicate, partitions };
    let columns = table.snapshot().schema().columns().to_vec();
    Ok(Conditions { columns, conditions: vec![written] })
}

/// What statistics and partition keys can tell of an optimised filter that is too large for a scan:
/// they rule blocks out, but do not stand for the condition.
fn predicates(rows: &LogicalPlan, table: &StoreTable) -> Option<(Predicate, Predicate)> {
    let (mut parts, mut partitions) = (vec![Predicate::Unknown], Vec::new());
    let mut node = rows;
    loop {
        node = match node {
            LogicalPlan::Filter(filter) => {
                parts.push(to_predicate(&filter.predicate, table.snapshot().schema()));
                partitions.push(table.partition_keys().predicate(&filter.predicate));
                &filter.input
            }
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::TableScan(_) => {
                return Some((Predicate::And(parts), Predicate::And(partitions)));
            }
            _ => return None,
        };
    }
}

/// The columns that get new values, by position, with these values.
async fn changes(
    new: &[Expr],
    scan: &LogicalPlan,
    schema: &Schema,
    state: &SessionState,
    memory: &MemoryReservation,
) -> Result<Vec<(usize, Expression)>> {
    let mut changes = Vec::new();
    for (at, expr) in new.iter().enumerate() {
        let Some(column) = schema.columns().get(at) else {
            return Err(Error::Unsupported("an UPDATE of this form".into()));
        };
        let value = match expr {
            Expr::Alias(alias) => alias.expr.as_ref(),
            other => other,
        };
        if !matches!(value, Expr::Column(same) if *same.name == *column.name) {
            let value = subqueries::with_answers(
                &as_exact_literal(without_cast(value), column),
                scan.schema(),
                state,
                memory,
            )
            .await?;
            changes.push((at, compile(value, scan.schema(), state)?));
        }
    }
    Ok(changes)
}
