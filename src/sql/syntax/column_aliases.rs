//! Fewer names than columns: `FROM t AS x(a)` and `WITH c(a) AS (SELECT 1, 2)` name the first
//! columns, and the others keep their names, as in PostgreSQL.
//!
//! Where this stands on the road of a query: while a FROM is planned, where the columns of its
//! tables are known. DataFusion (55.2) wants a name for each of them. A WITH with names becomes one
//! of a query that has them in its FROM.

use std::ops::ControlFlow;

use datafusion::common::plan_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, Query, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};

use crate::sql::syntax::show::parsed;
use crate::sql::syntax::standard::width;
use crate::sql::walks::visit_mut;

/// Plans what has names of columns in a FROM.
#[derive(Debug)]
pub(in crate::sql) struct ColumnAliases;

impl RelationPlanner for ColumnAliases {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DataFusionResult<RelationPlanning> {
        let Some(mut alias) = alias_of(&mut relation)
            .and_then(|alias| alias.take_if(|alias| !alias.columns.is_empty()))
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = context.plan(relation)?;
        let (columns, names) = (plan.schema().fields().len(), alias.columns.len());
        if names > columns {
            return plan_err!("{} has {columns} columns, and {names} names for them", alias.name);
        }
        let others = plan.schema().fields().iter().skip(names).map(|field| TableAliasColumnDef {
            name: Ident::with_quote('"', field.name()),
            data_type: None,
        });
        alias.columns.extend(others);
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

fn alias_of(relation: &mut TableFactor) -> Option<&mut Option<TableAlias>> {
    match relation {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => Some(alias),
        _ => None,
    }
}

/// Puts the names of WITH into a FROM, if there may be fewer of them than columns.
pub(in crate::sql) fn in_from(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut InFrom);
}

struct InFrom;

impl VisitorMut for InFrom {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for table in &mut with.cte_tables {
            let names = table.alias.columns.len();
            // One that may read itself is left as it is.
            let may_recur =
                with.recursive && matches!(table.query.body.as_ref(), SetExpr::SetOperation { .. });
            if names > 0 && width(&table.query.body) != Some(names) && !may_recur {
                name_in_from(table);
            }
        }
        ControlFlow::Continue(())
    }
}

/// `c AS (SELECT * FROM (…) AS c(a))` of `c(a) AS (…)`.
fn name_in_from(table: &mut Cte) {
    let Some(Statement::Query(mut around)) = parsed("SELECT * FROM (SELECT 1) AS c") else {
        return;
    };
    let SetExpr::Select(select) = around.body.as_mut() else { return };
    let from = select.from.first_mut().map(|from| &mut from.relation);
    let Some(TableFactor::Derived { subquery, alias, .. }) = from else { return };
    std::mem::swap(subquery, &mut table.query);
    *alias = Some(table.alias.clone());
    table.alias.columns.clear();
    table.query = around;
}
