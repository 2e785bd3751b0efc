//! Subqueries of DELETE and UPDATE: they run first, and their answers replace them in the
//! expressions.
//!
//! `id IN (SELECT …)` becomes a list of values or a lookup in a set of them, `EXISTS` becomes true
//! or false, a scalar subquery its value, and `(a, b) IN (SELECT …)` a list of comparisons
//! (`row_answers`). So statistics prune segments by the answers as they do by constants. A subquery
//! that reads the row to be changed has no single answer: such a statement is a join (`joined`).
//!
//! There is one road for changed rows: the condition with the answers in it. Where subqueries look
//! at the table that is being changed, a commit by somebody else in between has the statement
//! planned once more, because the answers would be of another generation (`base`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, cast, lit,
};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use crate::error::{Error, Result};
use crate::sql::walks::{has_part, rewrite_up};
use crate::sql::write::base::Reads;
use crate::sql::write::row_answers::Compared;
use crate::sql::write::value_set::{LISTED, ValueSet, is_among};

/// What the subqueries of an expression read of a table of the store.
pub(in crate::sql) fn reads(expression: &Expr, table: &str) -> Result<Vec<Reads>> {
    let found = subqueries(expression)?;
    found.iter().map(|found| Reads::of(found.subquery, table)).collect()
}

/// Replaces the subqueries of an expression by their answers. `schema` is that of the rows that the
/// expression reads; `memory` grows by the size of the sets.
pub(in crate::sql) async fn with_answers(
    expression: &Expr,
    schema: &DFSchema,
    state: &SessionState,
    memory: &MemoryReservation,
) -> Result<Expr> {
    let mut answers = HashMap::new();
    for subquery in subqueries(expression)? {
        let answer = match subquery.question {
            Question::Value => Answer::Value(value(subquery.subquery, state).await?),
            Question::Rows => Answer::Rows(has_rows(subquery.subquery, state).await?),
            Question::RowsWith(compared) => Answer::Any(compared.answer(LISTED, state).await?),
            Question::SetFor(expr) => {
                let data_type = expr.get_type(schema)?;
                Answer::Set(Arc::new(
                    value_set(subquery.subquery, &data_type, state, memory).await?,
                ))
            }
        };
        answers.insert(Arc::as_ptr(subquery.subquery).addr(), answer);
    }
    if answers.is_empty() {
        return Ok(expression.clone());
    }
    let answer_of = |subquery: &Subquery| answers.get(&Arc::as_ptr(&subquery.subquery).addr());
    let replace = |expr: Expr| match &expr {
        Expr::ScalarSubquery(subquery) => match answer_of(subquery) {
            Some(Answer::Value(value)) => Ok(Transformed::yes(lit(value.clone()))),
            _ => internal_err!("a subquery was not answered"),
        },
        Expr::Exists(exists) => match answer_of(&exists.subquery) {
            Some(Answer::Rows(found)) => Ok(Transformed::yes(lit(*found != exists.negated))),
            Some(Answer::Any(found)) if exists.negated => Ok(Transformed::yes(!found.clone())),
            Some(Answer::Any(found)) => Ok(Transformed::yes(found.clone())),
            _ => internal_err!("a subquery was not answered"),
        },
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => match answer_of(subquery) {
            Some(Answer::Set(set)) => {
                let is_in = is_among(expr, set, schema)?;
                Ok(Transformed::yes(if *negated { !is_in } else { is_in }))
            }
            _ => internal_err!("a subquery was not answered"),
        },
        _ => Ok(Transformed::no(expr)),
    };
    Ok(rewrite_up(expression.clone(), replace)?.data)
}

/// A subquery of an expression.
struct Found<'a> {
    subquery: &'a Arc<LogicalPlan>,
    question: Question<'a>,
}

/// What the expression needs to know of a subquery.
enum Question<'a> {
    /// Its value.
    Value,
    /// Whether it has a row.
    Rows,
    /// Whether one of its rows equals the row to be changed.
    RowsWith(Compared<'a>),
    /// Its distinct values, among which those of the expression are looked up.
    SetFor(&'a Expr),
}

/// The answer to such a question.
enum Answer {
    Value(ScalarValue),
    Rows(bool),
    /// An expression over the row to be changed.
    Any(Expr),
    Set(Arc<ValueSet>),
}

fn subqueries(expression: &Expr) -> Result<Vec<Found<'_>>> {
    let mut found = Vec::new();
    expression.apply(|node| {
        let (subquery, question) = match node {
            Expr::ScalarSubquery(subquery) => (&subquery.subquery, Question::Value),
            Expr::Exists(exists) => match Compared::from_subquery(&exists.subquery.subquery) {
                Some(compared) => (&exists.subquery.subquery, Question::RowsWith(compared)),
                None => (&exists.subquery.subquery, Question::Rows),
            },
            Expr::InSubquery(is_in) => (&is_in.subquery.subquery, Question::SetFor(&is_in.expr)),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        found.push(Found { subquery, question });
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether an expression is a subquery, or a test that has one.
pub(in crate::sql) fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
    )
}

/// Whether the subqueries of an expression can be answered before the rows to be changed are looked
/// at.
pub(in crate::sql) fn are_independent(expression: &Expr) -> bool {
    !has_part(expression, |part| match part {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        Expr::Exists(exists) => {
            !exists.subquery.outer_ref_columns.is_empty()
                && Compared::from_subquery(&exists.subquery.subquery).is_none()
        }
        Expr::InSubquery(is_in) => !is_in.subquery.outer_ref_columns.is_empty(),
        Expr::SetComparison(_) => true,
        _ => false,
    })
}

/// Runs a plan, and calls `each` with the first column of each batch.
async fn for_each(
    plan: LogicalPlan,
    state: &SessionState,
    mut each: impl FnMut(&ArrayRef) -> Result<()>,
) -> Result<()> {
    let plan = state.create_physical_plan(&plan).await?;
    let mut stream = execute_stream(plan, state.task_ctx())?;
    while let Some(batch) = stream.next().await {
        if let Some(first) = batch?.columns().first() {
            each(first)?;
        }
    }
    Ok(())
}

fn limited(plan: &LogicalPlan, rows: usize) -> Result<LogicalPlan> {
    let builder = LogicalPlanBuilder::from(plan.clone()).limit(0, Some(rows));
    Ok(builder.and_then(LogicalPlanBuilder::build)?)
}

async fn has_rows(plan: &LogicalPlan, state: &SessionState) -> Result<bool> {
    let mut rows = 0;
    let count = |array: &ArrayRef| {
        rows += array.len();
        Ok(())
    };
    for_each(limited(plan, 1)?, state, count).await?;
    Ok(rows > 0)
}

/// The value of a scalar subquery; null if it has no row.
async fn value(plan: &LogicalPlan, state: &SessionState) -> Result<ScalarValue> {
    let none = plan.schema().fields().first().map_or(&DataType::Null, |field| field.data_type());
    let mut values = Vec::new();
    let keep = |array: &ArrayRef| {
        for row in 0..array.len() {
            values.push(ScalarValue::try_from_array(array, row)?);
        }
        Ok(())
    };
    // One row more than there may be, to see whether there is.
    for_each(limited(plan, 2)?, state, keep).await?;
    match (values.pop(), values.pop()) {
        (Some(_), Some(_)) => {
            Err(Error::InvalidInput("a scalar subquery gave more than one row".into()))
        }
        (Some(value), None) => Ok(value),
        (None, _) => Ok(ScalarValue::try_from(none)?),
    }
}

/// The values of a subquery, in the type in which they are compared with values of type `value`.
async fn value_set(
    plan: &LogicalPlan,
    value: &DataType,
    state: &SessionState,
    memory: &MemoryReservation,
) -> Result<ValueSet> {
    let Some((qualifier, field)) = plan.schema().iter().next() else {
        return Err(Error::InvalidInput("a subquery without a column".into()));
    };
    let members = field.data_type();
    // Decimals are compared with doubles as doubles, as in queries (see `types::decimals`).
    let mixed =
        value.is_decimal() && members.is_floating() || value.is_floating() && members.is_decimal();
    let common = if mixed { Some(DataType::Float64) } else { comparison_coercion(value, members) };
    let Some(common) = common else {
        let what = format!(
            "values of type {value} cannot be compared with those of {}",
            field.data_type()
        );
        return Err(Error::InvalidInput(what));
    };
    let column = cast(Expr::from((qualifier, field)), common.clone());
    let distinct = LogicalPlanBuilder::from(plan.clone())
        .project([column])
        .and_then(LogicalPlanBuilder::distinct);
    let plan = distinct.and_then(LogicalPlanBuilder::build)?;
    let mut set = ValueSet::new(common)?;
    let before = memory.size();
    let add = |array: &ArrayRef| {
        set.add(array)?;
        Ok(memory.try_resize(before + set.size())?)
    };
    for_each(plan, state, add).await?;
    Ok(set)
}
