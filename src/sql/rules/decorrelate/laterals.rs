//! LATERAL subqueries that read the rows before them only in subqueries of their own.
//!
//! Where this stands on the road of a query: while a FROM is planned. DataFusion (55.2) asks the
//! nodes of a LATERAL for the outer columns that they read, but not the subqueries in them, and
//! takes `t, LATERAL (SELECT (SELECT max(x) FROM s WHERE s.k = t.k))` for a derived table: nothing
//! tells later which rows `t.k` is of. Here such a plan becomes one of a LATERAL.

use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, SubqueryAlias};
use datafusion::sql::sqlparser::ast::TableFactor;

use super::outer::{as_subquery, outer_columns};

/// Plans LATERAL subqueries.
#[derive(Debug)]
pub(in crate::sql) struct Laterals;

impl RelationPlanner for Laterals {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DataFusionResult<RelationPlanning> {
        let TableFactor::Derived { lateral: true, subquery, alias, sample } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        // DataFusion has seen the word, and the columns of the rows before it are known.
        let derived = TableFactor::Derived { lateral: false, subquery, alias, sample };
        let plan = context.plan(derived)?;
        // What reads outer columns itself gets its node of DataFusion.
        let plan = match plan.all_out_ref_exprs().is_empty() && !outer_columns(&plan).is_empty() {
            true => as_lateral(plan)?,
            false => plan,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// The plan of a derived table as that of a LATERAL.
fn as_lateral(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    match plan {
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let rows = LogicalPlan::Subquery(as_subquery(input.as_ref().clone()));
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(rows.into(), alias)?))
        }
        other => Ok(LogicalPlan::Subquery(as_subquery(other))),
    }
}
