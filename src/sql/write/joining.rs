//! Plans DELETE … USING and UPDATE … FROM, which DataFusion (55.2) does not, and DELETE from a
//! table with an alias, which it forgets.
//!
//! Where this stands on the road of a query: in the place of DataFusion's planner. Such a statement
//! is planned as the SELECT from all of its tables, of which the first is the one that is changed.
//! `joined` runs it.

use std::sync::Arc;

use datafusion::common::{JoinType, not_impl_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr as SqlExpr, FromTable, Ident, ObjectNamePart, Query,
    SelectItem, SetExpr, Statement as SqlStatement, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::marks::mark;
use crate::sql::syntax::{scopes, whole_rows};

/// What the items of the SELECT are called, before their numbers.
const SET: &str = "sty__set";

/// The plan of an UPDATE with a FROM; `None` if it has none. Its input is a projection to all
/// columns of the table, above the join.
pub(super) async fn update(
    state: &SessionState,
    update: &Update,
) -> DataFusionResult<Option<LogicalPlan>> {
    let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) =
        &update.from
    else {
        return Ok(None);
    };
    // What it says of the table that it changes is planned as that of any UPDATE.
    let mut shell = update.clone();
    (shell.from, shell.selection) = (None, None);
    shell.assignments.iter_mut().for_each(|one| one.value = SqlExpr::value(Value::Null));
    let LogicalPlan::Dml(planned) = plan_sql(state, SqlStatement::Update(shell)).await? else {
        return plan_err!("an UPDATE of this form");
    };
    let LogicalPlan::Projection(columns) = planned.input.as_ref() else {
        return plan_err!("an UPDATE of this form");
    };
    let values = selected(state, rows_of_update(update, from)?).await?;
    let names: Vec<Option<&str>> = update.assignments.iter().map(target).collect();
    let new = columns.expr.iter().zip(columns.schema.fields()).map(|(old, field)| {
        let at = names.iter().position(|name| *name == Some(field.name().as_str()));
        let Some(value) = at.and_then(|at| values.expr.get(at)) else { return old.clone() };
        let mut value = value.clone().unalias();
        if let Expr::Placeholder(placeholder) = &mut value {
            placeholder.field.get_or_insert_with(|| Arc::clone(field));
        }
        value.alias(field.name())
    });
    let input = Projection::try_new(new.collect(), values.input)?;
    Ok(Some(LogicalPlan::Dml(DmlStatement::new(
        planned.table_name,
        planned.target,
        planned.op,
        Arc::new(LogicalPlan::Projection(input)),
    ))))
}

/// The column that gets a value.
fn target(assignment: &Assignment) -> Option<&str> {
    let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
    let column = name.0.last().and_then(ObjectNamePart::as_ident);
    column.map(|column| column.value.as_str())
}

/// The plan of a DELETE with a USING, or from a table with an alias, which DataFusion (55.2)
/// forgets; `None` for others. Its input are the rows that are meant, perhaps joined with others.
pub(super) async fn delete(
    state: &SessionState,
    delete: &Delete,
) -> DataFusionResult<Option<LogicalPlan>> {
    let mut all = delete.clone();
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut all.from;
    let [table] = from.as_mut_slice() else { return Ok(None) };
    let mut tables = vec![table.clone()];
    if !table.joins.is_empty() {
        return not_impl_err!(
            "DELETE from a join; other tables stand in USING: DELETE FROM t USING s WHERE t.id = \
             s.id"
        );
    }
    let TableFactor::Table { alias, .. } = &mut table.relation else { return Ok(None) };
    if alias.is_none() && delete.using.is_none() {
        return Ok(None);
    }
    if delete.limit.is_some() {
        return not_impl_err!(
            "LIMIT of a DELETE with a USING or an alias; choose the rows by a condition"
        );
    }
    (*alias, all.selection) = (None, None);
    tables.extend(all.using.take().into_iter().flatten());
    let rows = selected(state, rows_of_delete(tables, delete)?).await?;
    let LogicalPlan::Dml(planned) = plan_sql(state, SqlStatement::Delete(all)).await? else {
        return plan_err!("a DELETE of this form");
    };
    Ok(Some(LogicalPlan::Dml(DmlStatement::new(
        planned.table_name,
        planned.target,
        planned.op,
        rows.input,
    ))))
}

/// The query that EXPLAIN explains in the place of such a statement; `None` for others.
pub(super) fn explained(statement: &SqlStatement) -> DataFusionResult<Option<SqlStatement>> {
    let query = match statement {
        SqlStatement::Update(update) => match &update.from {
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                rows_of_update(update, from)?
            }
            None => return Ok(None),
        },
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let Some(using) = &delete.using else { return Ok(None) };
            rows_of_delete(from.iter().chain(using).cloned().collect(), delete)?
        }
        _ => return Ok(None),
    };
    Ok(Some(SqlStatement::Query(Box::new(query))))
}

/// The SELECT of the new values of an UPDATE.
fn rows_of_update(update: &Update, from: &[TableWithJoins]) -> DataFusionResult<Query> {
    let item = |(at, one): (usize, &Assignment)| {
        let mut expr = one.value.clone();
        mark(&mut expr);
        SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("{SET}_{at}")) }
    };
    let items = update.assignments.iter().enumerate().map(item).collect();
    let tables = std::iter::once(&update.table).chain(from).cloned().collect();
    select(items, tables, update.selection.clone())
}

/// The SELECT of the rows of a DELETE.
fn rows_of_delete(tables: Vec<TableWithJoins>, delete: &Delete) -> DataFusionResult<Query> {
    let expr = SqlExpr::value(Value::Null);
    let one = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', SET) };
    select(vec![one], tables, delete.selection.clone())
}

fn select(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<SqlExpr>,
) -> DataFusionResult<Query> {
    let mut query = parse_query("SELECT *")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        (select.projection, select.from, select.selection) = (items, from, selection);
    }
    Ok(query)
}

/// The plan of such a SELECT, from a join whose first table is the one that is changed.
async fn selected(state: &SessionState, query: Query) -> DataFusionResult<Projection> {
    let statement = Statement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
    let resolved = scopes::resolve(state, &statement).await?;
    let Statement::Statement(statement) = resolved.unwrap_or(statement) else {
        return plan_err!("not a SELECT");
    };
    match plan_sql(state, *statement).await? {
        LogicalPlan::Projection(projection) if target_scan(&projection.input).is_some() => {
            Ok(projection)
        }
        _ => not_impl_err!(
            "an aggregate, a window or unnest in the SET or WHERE of UPDATE or DELETE; compute it \
             in a subquery of the FROM or USING"
        ),
    }
}

/// The table that is changed, in a join whose first table it is; `None` in plans of another form.
pub(super) fn target_scan(rows: &Arc<LogicalPlan>) -> Option<&Arc<LogicalPlan>> {
    match rows.as_ref() {
        LogicalPlan::TableScan(_) => Some(rows),
        LogicalPlan::SubqueryAlias(alias) => {
            target_scan(&alias.input).is_some_and(|scan| is_scan(scan)).then_some(rows)
        }
        LogicalPlan::Filter(filter) => target_scan(&filter.input),
        // Others may have rows without one of the table.
        LogicalPlan::Join(Join { left, join_type: JoinType::Inner | JoinType::Left, .. }) => {
            target_scan(left)
        }
        _ => None,
    }
}

/// Whether a plan is a table, perhaps under another name.
pub(super) fn is_scan(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_scan(&alias.input),
        _ => false,
    }
}

/// Plans a statement whose names have been resolved.
pub(super) async fn plan_sql(
    state: &SessionState,
    statement: SqlStatement,
) -> DataFusionResult<LogicalPlan> {
    whole_rows::plan(state, &Statement::Statement(Box::new(statement))).await
}

/// A query of ours.
pub(super) fn parse_query(sql: &str) -> DataFusionResult<Query> {
    match Parser::parse_sql(&StylobateDialect::new(sql.len()), sql)?.pop() {
        Some(SqlStatement::Query(query)) => Ok(*query),
        _ => plan_err!("{sql} is not a query"),
    }
}
