//! DELETE and UPDATE: which rows of a stored table are deleted or changed, and to what.
//!
//! DataFusion plans the statement as a filter over a scan, and for an UPDATE a projection to all
//! columns above it. Both are taken apart here and compiled for `maintain::modify`, which rewrites
//! the segments that have such rows. Subqueries are answered first (`subqueries`), and joins with
//! other tables run first (`joined`).

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
#[cfg(feature = "cluster")]
use datafusion::logical_expr::Projection;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, LogicalPlan, WriteOp, lit};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Error, Result};
use crate::expr::{Expression, Predicate};
use crate::maintain::{Modification, ModifyOptions, ModifyReport, foresee, modify};
use crate::model::Schema;
use crate::query::Condition;
use crate::sql::convert::to_predicate;
use crate::sql::keys::expressions::{SqlExpressions, compile_simplified, simplify_statement_expr};
use crate::sql::plan::lower::scan_conditions;
use crate::sql::run::provider::{Conditions, StoreProvider};
use crate::sql::run::table::StoreTable;
use crate::sql::write::assignments::{as_exact_literal, without_cast};
use crate::sql::write::base::{Base, Reads};
use crate::sql::write::joined;
use crate::sql::write::joining::is_scan;
use crate::sql::write::row_count_answer;
use crate::sql::write::subqueries;
use crate::store::{Store, Table, TableWriter};

/// A statement that deletes or changes rows of a table.
#[derive(Debug)]
pub(in crate::sql) struct Modify {
    pub(in crate::sql) table: String,
    /// What it was planned on.
    pub(in crate::sql) base: Base,
    modification: Modification,
    /// The same as plans, for the machines that have the rows, if these are not here.
    #[cfg(feature = "cluster")]
    pub(in crate::sql) remote: Option<RemoteChange>,
    /// The memory that the answers of subqueries take.
    memory: MemoryReservation,
}

/// What a statement does to the rows of a table of a cluster.
#[cfg(feature = "cluster")]
#[derive(Debug)]
pub(in crate::sql) struct RemoteChange {
    pub(in crate::sql) table: Arc<StoreTable>,
    pub(in crate::sql) rows: RemoteRows,
    /// The columns that get new values, by position, and a projection to these values; none if
    /// rows are deleted.
    pub(in crate::sql) set: Option<(Vec<usize>, LogicalPlan)>,
}

/// Which rows of a table are meant.
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "the rows are here"))]
#[derive(Debug)]
pub(in crate::sql) enum RemoteRows {
    All,
    /// Those of a plan that is optimised, which a scan can express.
    Scanned(LogicalPlan),
    /// Those of a filter, whose condition is simplified.
    Filtered(LogicalPlan),
}

#[cfg(feature = "cluster")]
impl RemoteRows {
    /// The conditions of a plan that another machine has sent, over a table of this one.
    pub(in crate::sql) fn conditions(
        &self,
        table: &StoreTable,
        state: &SessionState,
    ) -> Result<Conditions> {
        let odd = || Error::Unsupported(format!("a condition on rows of {}", table.name()));
        match self {
            RemoteRows::All => Ok(Conditions::default()),
            RemoteRows::Scanned(rows) => {
                scan_conditions(rows, state.execution_props()).ok_or_else(odd)
            }
            RemoteRows::Filtered(rows) => {
                let LogicalPlan::Filter(filter) = rows else { return Err(odd()) };
                let (condition, schema) = (filter.predicate.clone(), filter.input.schema());
                let expression = compile_simplified(condition, schema, state)?;
                Ok(written_conditions(expression, rows, table))
            }
        }
    }
}

/// The new values of a projection that another machine has sent.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn remote_values(
    places: &[usize],
    values: &LogicalPlan,
    state: &SessionState,
) -> Result<Vec<(usize, Expression)>> {
    let odd = || Error::Unsupported("new values of this form".into());
    let LogicalPlan::Projection(projection) = values else { return Err(odd()) };
    if projection.expr.len() != places.len() {
        return Err(odd());
    }
    let schema = projection.input.schema();
    let value = |(at, value): (&usize, &Expr)| {
        Ok((*at, compile_simplified(value.clone().unalias(), schema, state)?))
    };
    places.iter().zip(&projection.expr).map(value).collect()
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
        condition.into_iter().chain(new.into_iter().flatten()).try_for_each(check_expression)?;
        let name = snapshot.table_name();
        let memory = MemoryConsumer::new("Subqueries").register(&state.runtime_env().memory_pool);
        let mut base = Base::of(snapshot, Reads::Nothing);
        let mut expressions = condition.into_iter().chain(new.into_iter().flatten());
        let is_alone = is_scan(scan) && expressions.all(subqueries::are_independent);
        let (condition, set, scan) = match is_alone {
            true => {
                for expr in condition.into_iter().chain(new.into_iter().flatten()) {
                    base = subqueries::reads(expr, name)?.into_iter().fold(base, Base::and);
                }
                let condition = match condition {
                    Some(condition) => {
                        let schema = scan.schema();
                        let answered = subqueries::with_answers(condition, schema, state, &memory);
                        Some(answered.await?)
                    }
                    None => None,
                };
                let set = match new {
                    Some(new) => Some(changes(new, scan, schema, state, &memory).await?),
                    None => None,
                };
                (condition, set, Arc::clone(scan))
            }
            false => {
                let found = joined::found(new, rows, schema, state, &memory).await?;
                base = base.and(Reads::of(&found.question, name)?);
                (Some(found.condition), found.set, found.scan)
            }
        };
        if is_update && set.is_none() {
            return Err(Error::Unsupported("an UPDATE of this form".into()));
        }
        let (Conditions { columns, conditions }, rows) = match condition {
            Some(condition) => conditions(condition, &scan, &provider.table, state)?,
            None => (Conditions::default(), RemoteRows::All),
        };
        #[cfg(feature = "cluster")]
        let remote = match provider.table.is_here() {
            true => None,
            false => {
                let set = set.as_ref().map(|set| projection(set, &scan)).transpose()?;
                Some(RemoteChange { table: Arc::clone(&provider.table), rows, set })
            }
        };
        let compiled = |set: Vec<(usize, Expr)>| {
            let compile = |(at, value)| Ok((at, compile_simplified(value, scan.schema(), state)?));
            set.into_iter().map(compile).collect::<Result<Vec<_>>>()
        };
        let set = set.map(compiled).transpose()?;
        let compile: Arc<dyn crate::ingest::partition::Compile> =
            Arc::new(SqlExpressions::default());
        let modification = Modification { columns, conditions, set, compile: Some(compile) };
        #[cfg(not(feature = "cluster"))]
        drop(rows);
        Ok(Some(Modify {
            table: name.to_owned(),
            base,
            modification,
            #[cfg(feature = "cluster")]
            remote,
            memory,
        }))
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
        row_count_answer(self.change(&table, writer, options)?)
    }

    /// Changes a table; returns how many rows.
    pub(in crate::sql) fn change(
        &self,
        table: &Table,
        writer: TableWriter,
        options: &ModifyOptions,
    ) -> Result<u64> {
        let limit =
            options.memory_limit.map(|limit| limit.saturating_sub(self.memory.size() as u64));
        let options = ModifyOptions { memory_limit: limit, ..options.clone() };
        let (_, report) = modify(table, writer, &self.modification, &options)?;
        Ok(report.rows)
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
/// else of the filter, the condition as it was written. And the plan that says the same.
fn conditions(
    condition: Expr,
    scan: &Arc<LogicalPlan>,
    table: &StoreTable,
    state: &SessionState,
) -> Result<(Conditions, RemoteRows)> {
    let rows = Filter::try_new(condition.clone(), Arc::clone(scan)).map(LogicalPlan::Filter);
    let optimised = rows.and_then(|rows| state.optimize(&rows)).ok();
    let props = state.execution_props();
    if let Some(rows) = &optimised
        && let Some(conditions) = scan_conditions(rows, props)
    {
        return Ok((conditions, RemoteRows::Scanned(rows.clone())));
    }
    let condition = match condition.get_type(scan.schema())? {
        DataType::Boolean => condition,
        DataType::Null => lit(false),
        other => {
            return Err(Error::InvalidInput(format!("a condition is true or false, not {other}")));
        }
    };
    let condition = simplify_statement_expr(condition, scan.schema(), state)?;
    let expression = compile_simplified(condition.clone(), scan.schema(), state)?;
    let filter = Filter::try_new(condition, Arc::clone(scan)).map(LogicalPlan::Filter)?;
    let conditions = written_conditions(expression, optimised.as_ref().unwrap_or(&filter), table);
    Ok((conditions, RemoteRows::Filtered(filter)))
}

/// A condition as it was written; `rows` is the plan of a filter, by which segments are ruled out.
fn written_conditions(
    expression: Expression,
    rows: &LogicalPlan,
    table: &StoreTable,
) -> Conditions {
    let (predicate, partitions) =
        predicates(rows, table).unwrap_or((Predicate::Unknown, Predicate::Unknown));
    let written = Condition { expression, predicate, partitions };
    let columns = table.snapshot().schema().columns().to_vec();
    Conditions { columns, conditions: vec![written] }
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

/// A projection to the values that columns get.
#[cfg(feature = "cluster")]
fn projection(set: &[(usize, Expr)], scan: &Arc<LogicalPlan>) -> Result<(Vec<usize>, LogicalPlan)> {
    let places = set.iter().map(|(at, _)| *at).collect();
    // Two columns may get values of one name.
    let named = |(at, value): &(usize, Expr)| value.clone().alias(at.to_string());
    let values = set.iter().map(named).collect();
    let values = Projection::try_new(values, Arc::clone(scan))?;
    Ok((places, LogicalPlan::Projection(values)))
}

/// The columns that get new values, by position, with these values, which are simplified.
async fn changes(
    new: &[Expr],
    scan: &LogicalPlan,
    schema: &Schema,
    state: &SessionState,
    memory: &MemoryReservation,
) -> Result<Vec<(usize, Expr)>> {
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
            changes.push((at, simplify_statement_expr(value, scan.schema(), state)?));
        }
    }
    Ok(changes)
}
