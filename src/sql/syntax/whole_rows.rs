//! Plans `SELECT *` without a list of all columns.
//!
//! Where this stands on the road of a query: around planning. DataFusion (55.2) writes `*` out as a
//! list, and looks for each of its columns among all others, several times and once by names that
//! it composes anew: 8,000 columns take seconds, 65,536 minutes. But a SELECT of nothing but `*`
//! gives the rows of its FROM and WHERE as they are. So a number stands for the list while the
//! SELECT is planned, and the projection that would compute it is taken out of the plan.
//!
//! That is done for the query of a statement and for those in a FROM. Whatever does not come out as
//! expected is planned as it is written.

use std::sync::Arc;

use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, PlanType, ToStringifiedPlan as _};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement as SqlStatement, TableFactor,
    TableWithJoins, Value, WildcardAdditionalOptions,
};

use crate::sql::syntax::scopes::joins_by_columns;
use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::has_part;

/// The name of the number. The prefix keeps it out of the users' way.
const STAND_IN: &str = "sty__row";

/// Plans a statement.
pub(in crate::sql) async fn plan(
    state: &SessionState,
    statement: &Statement,
) -> DataFusionResult<LogicalPlan> {
    if sql_in(statement).and_then(query_in).is_some_and(selects_whole_rows) {
        let mut shortened = statement.clone();
        if let Some(query) = sql_of(&mut shortened).and_then(query_of) {
            shorten(query);
        }
        // An error should be about the statement as written.
        if let Ok(plan) = state.statement_to_plan(shortened).await
            && let Some(plan) = statement_of_whole_rows(plan, statement)
        {
            return Ok(plan);
        }
    }
    state.statement_to_plan(statement.clone()).await
}

/// Plans queries in a FROM.
#[derive(Debug)]
pub(in crate::sql) struct WholeRows;

impl RelationPlanner for WholeRows {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DataFusionResult<RelationPlanning> {
        let TableFactor::Derived { lateral, subquery, alias, sample } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        // Without ORDER BY, all that can be wrong is what would be wrong with the query as written.
        let is_short = subquery.order_by.is_none() && selects_whole_rows(&subquery);
        if is_short {
            let mut subquery = subquery.clone();
            shorten(&mut subquery);
            let shortened = TableFactor::Derived { lateral, subquery, alias: None, sample: None };
            if let Some(plan) = whole_rows(context.plan(shortened)?) {
                return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))));
            }
        }
        let original = TableFactor::Derived { lateral, subquery, alias, sample };
        Ok(RelationPlanning::Original(Box::new(original)))
    }
}

fn query_in(statement: &SqlStatement) -> Option<&Query> {
    match statement {
        SqlStatement::Query(query) => Some(query),
        SqlStatement::CreateTable(create) => create.query.as_deref(),
        SqlStatement::CreateView(create) => Some(&create.query),
        _ => None,
    }
}

fn query_of(statement: &mut SqlStatement) -> Option<&mut Query> {
    match statement {
        SqlStatement::Query(query) => Some(query),
        SqlStatement::CreateTable(create) => create.query.as_deref_mut(),
        SqlStatement::CreateView(create) => Some(&mut create.query),
        _ => None,
    }
}

/// Whether a query gives the rows of its FROM, perhaps fewer and sorted.
fn selects_whole_rows(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => {
            query.pipe_operators.is_empty()
                && is_plain(select)
                && is_whole_list(&select.projection, &select.from)
        }
        _ => false,
    }
}

/// Whether a SELECT has a list, a FROM, perhaps a WHERE, and nothing else.
fn is_plain(select: &Select) -> bool {
    let Select {
        select_token: _,
        optimizer_hints: _,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: _,
        projection: _,
        exclude: None,
        into: None,
        from: _,
        lateral_views,
        prewhere: None,
        selection: _,
        connect_by,
        group_by: GroupByExpr::Expressions(keys, modifiers),
        cluster_by,
        distribute_by,
        sort_by,
        having: None,
        named_window,
        qualify: None,
        window_before_qualify: _,
        value_table_mode: None,
        flavor: _,
    } = select
    else {
        return false;
    };
    lateral_views.is_empty()
        && connect_by.is_empty()
        && keys.is_empty()
        && modifiers.is_empty()
        && cluster_by.is_empty()
        && distribute_by.is_empty()
        && sort_by.is_empty()
        && named_window.is_empty()
}

/// Whether a list is `*`, or `t.*` of the only table. A `*` over merged columns is not all columns.
fn is_whole_list(list: &[SelectItem], from: &[TableWithJoins]) -> bool {
    match (list, from) {
        (_, []) => false,
        ([SelectItem::Wildcard(options)], from) => {
            has_no_options(options) && !joins_by_columns(from)
        }
        (
            [
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)),
                    options,
                ),
            ],
            [only],
        ) if only.joins.is_empty() && has_no_options(options) => match parts.as_slice() {
            [part] => part
                .as_ident()
                .zip(name_of(&only.relation))
                .is_some_and(|(asked, name)| folded(asked) == folded(name)),
            _ => false,
        },
        _ => false,
    }
}

fn has_no_options(options: &WildcardAdditionalOptions) -> bool {
    let token = options.wildcard_token.clone();
    *options == WildcardAdditionalOptions { wildcard_token: token, ..Default::default() }
}

/// The name by which a FROM knows a table.
fn name_of(table: &TableFactor) -> Option<&Ident> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, alias: None, args: None, .. } => name.0.last()?.as_ident(),
        _ => None,
    }
}

/// Puts the number in the place of the list.
fn shorten(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        let expr = SqlExpr::Value(Value::Number("1".to_owned(), false).into());
        select.projection =
            vec![SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', STAND_IN) }];
    }
}

/// The plan of a statement of which the query has been shortened; `None` if it is not as expected.
fn statement_of_whole_rows(plan: LogicalPlan, written: &Statement) -> Option<LogicalPlan> {
    let whole = |plan: Arc<LogicalPlan>| {
        statement_of_whole_rows(Arc::unwrap_or_clone(plan), written).map(Arc::new)
    };
    match plan {
        LogicalPlan::Explain(mut explain) => {
            explain.plan = whole(explain.plan)?;
            explain.stringified_plans =
                vec![explain.plan.to_stringified(PlanType::InitialLogicalPlan)];
            Some(LogicalPlan::Explain(explain))
        }
        LogicalPlan::Analyze(mut analyze) => {
            analyze.input = whole(analyze.input)?;
            Some(LogicalPlan::Analyze(analyze))
        }
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(mut create)) => {
            create.input = whole(create.input)?;
            Some(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)))
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(mut create)) => {
            create.input = whole(create.input)?;
            create.definition = sql_in(written).map(SqlStatement::to_string);
            Some(LogicalPlan::Ddl(DdlStatement::CreateView(create)))
        }
        other => whole_rows(other),
    }
}

/// The plan without the projection that computes the number; `None` if it is not as expected.
fn whole_rows(plan: LogicalPlan) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let input = Arc::unwrap_or_clone(projection.input);
            match projection.expr.first()? {
                Expr::Alias(alias) if alias.name == STAND_IN => match input {
                    // Their columns are not those of the FROM.
                    LogicalPlan::Window(_) | LogicalPlan::Aggregate(_) => None,
                    from => Some(from),
                },
                // The projection that takes out what was only sorted by.
                Expr::Column(column) if column.name == STAND_IN => whole_rows(input),
                _ => None,
            }
        }
        // `ORDER BY 1` is the first column of the list.
        LogicalPlan::Sort(mut sort) if !sort.expr.iter().any(|key| names_stand_in(&key.expr)) => {
            sort.input = Arc::new(whole_rows(Arc::unwrap_or_clone(sort.input))?);
            Some(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Limit(mut limit) => {
            limit.input = Arc::new(whole_rows(Arc::unwrap_or_clone(limit.input))?);
            Some(LogicalPlan::Limit(limit))
        }
        _ => None,
    }
}

fn names_stand_in(key: &Expr) -> bool {
    has_part(key, |part| matches!(part, Expr::Column(column) if column.name == STAND_IN))
}
