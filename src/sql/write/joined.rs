//! Runs the join of a DELETE … USING or UPDATE … FROM, and of conditions and new values whose
//! subqueries read the row to be changed.
//!
//! Where this stands on the road of a query: before the rows are changed. What the join answers
//! replaces it: a condition on the columns of the table that the statement reads, and a lookup of
//! the new values by these columns (`matches`). So there is one road for changed rows, that of a
//! statement on the table alone. The join has read the table, and is run once more if somebody else
//! has changed it since (`base`).

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as ColumnName, DFSchema, TableReference};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use crate::error::{Error, Result};
use crate::model::{Column, Schema};
use crate::sql::keys::expressions::simplify_statement_expr;
use crate::sql::walks::has_part;
use crate::sql::write::assignments::{as_exact_literal, without_cast};
use crate::sql::write::joining::target_scan;
use crate::sql::write::matched::{condition, value_of};
use crate::sql::write::matches::Finding;
use crate::sql::write::subqueries::is_subquery;

/// What new values are called, before their numbers.
const SET: &str = "sty__set";

/// What a join says about the rows of the table that is changed.
pub(super) struct Found {
    /// The table alone.
    pub(super) scan: Arc<LogicalPlan>,
    /// Which of its rows are meant.
    pub(super) condition: Expr,
    /// The columns that get new values, by position, with these values, which are simplified.
    pub(super) set: Option<Vec<(usize, Expr)>>,
    /// What was run.
    pub(super) question: LogicalPlan,
}

/// Runs the join of a statement. `new` are the new values of all columns, if it is an UPDATE,
/// `rows` the join; `memory` grows by what is kept of the answer.
pub(super) async fn found(
    new: Option<&Vec<Expr>>,
    rows: &Arc<LogicalPlan>,
    schema: &Schema,
    state: &SessionState,
    memory: &MemoryReservation,
) -> Result<Found> {
    let Some(scan) = target_scan(rows) else {
        return Err(Error::Unsupported(format!(
            "DELETE and UPDATE change rows of one table, without {}; other tables stand in FROM or \
             USING",
            rows.display()
        )));
    };
    // Values that are not of the row alone are looked up.
    let (mut direct, mut looked_up, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (at, expr) in new.into_iter().flatten().enumerate() {
        let Some(column) = schema.columns().get(at) else {
            return Err(Error::Unsupported("an UPDATE of this form".into()));
        };
        let value = expr.clone().unalias();
        if is_column(&value, column, scan.schema()) {
            continue;
        }
        let value = as_exact_literal(without_cast(&value), column);
        match is_of_row(&value, scan.schema()) {
            true => direct.push((at, simplify_statement_expr(value, scan.schema(), state)?)),
            false => {
                looked_up.push((at, column.clone()));
                values.push(value.alias(format!("{SET}_{at}")));
            }
        }
    }
    let rows = LogicalPlanBuilder::from(rows.as_ref().clone());
    let asked = match values.is_empty() {
        true => rows.clone().build()?,
        false => rows.clone().project(values.clone())?.build()?,
    };
    let mut read = columns_read(&asked, scan.schema())?;
    let keys: Vec<Expr> = read.iter().map(|(key, _)| key.clone()).collect();
    if read.is_empty() {
        // What holds for one row holds for all.
        read.push((lit(true), "true".to_owned()));
    }
    let items = read.iter().map(|(key, _)| key.clone()).chain(values);
    let question = rows.project(items)?.build()?;
    let types = question.schema().fields().iter().map(|field| field.data_type().clone());
    let keys_of = read.into_iter().map(|(_, name)| name).zip(types).collect();
    let columns = looked_up.iter().map(|(_, column)| column.clone()).collect();
    let mut finding = Finding::new(keys_of, columns)?;
    let before = memory.size();
    let plan = state.create_physical_plan(&question).await?;
    let mut stream = execute_stream(plan, state.task_ctx())?;
    while let Some(batch) = stream.next().await {
        finding.add(&batch?)?;
        memory.try_resize(before + finding.size())?;
    }
    let matches = Arc::new(finding.finish()?);
    for (value, (at, _)) in looked_up.iter().enumerate() {
        direct.push((*at, value_of(&matches, &keys, value)?));
    }
    let set = new.map(|_| direct);
    let (scan, condition) = (Arc::clone(scan), condition(&matches, &keys)?);
    Ok(Found { scan, condition, set, question })
}

/// Whether a column may be one of a table; `table` is the schema of its scan.
fn column_of<'t>(
    column: &ColumnName,
    table: &'t DFSchema,
) -> Option<(Option<&'t TableReference>, &'t FieldRef)> {
    table.iter().find(|(qualifier, field)| {
        let is_of_table = match (&column.relation, qualifier) {
            (Some(relation), Some(qualifier)) => relation.table() == qualifier.table(),
            _ => true,
        };
        is_of_table && *field.name() == column.name
    })
}

/// Whether a value is what a column has already.
fn is_column(value: &Expr, column: &Column, table: &DFSchema) -> bool {
    let Expr::Column(value) = value else { return false };
    *value.name == *column.name && column_of(value, table).is_some()
}

/// Whether a value is computed from the row of a table alone.
fn is_of_row(value: &Expr, table: &DFSchema) -> bool {
    !has_part(value, |part| match part {
        Expr::Column(column) => column_of(column, table).is_none(),
        part => is_subquery(part),
    })
}

/// What a plan reads of the rows of a table, also in subqueries, and the names of that. There may
/// be more, where a table in a subquery has the same name.
fn columns_read(plan: &LogicalPlan, table: &DFSchema) -> Result<Vec<(Expr, String)>> {
    let mut read: Vec<(Expr, String)> = Vec::new();
    let mut note = |part: &Expr| {
        if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = part
            && let Some(found) = column_of(column, table)
        {
            let named = (Expr::from(found), column.name.clone());
            if !read.contains(&named) {
                read.push(named);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(|node| node.apply_expressions(|expr| expr.apply(&mut note)))?;
    Ok(read)
}
