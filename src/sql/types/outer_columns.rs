//! Gives references to columns of an outer query the types that these columns have.
//!
//! Where this stands on the road of a query: an analyzer rule after DataFusion's type coercion. A
//! reference in a correlated subquery keeps the type that the column had when the statement was
//! read. Coercion may give the column another one: `CASE WHEN c THEN an_int ELSE 0 END` is an
//! `INT` to the planner and a `BIGINT` afterwards (DataFusion 55.2). The comparison in the subquery
//! is then one of two types, which fails while the query runs. Here the references are put right,
//! and types are coerced once more.

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

use crate::sql::walks::{
    Rewritten, any_expression, input_schema, map_expressions, node_has_part, rewrite_down,
};

/// Subqueries in each other whose types may depend on those outside.
const MAX_LEVELS: usize = 8;

#[derive(Debug)]
pub(in crate::sql) struct OuterColumns;

impl AnalyzerRule for OuterColumns {
    fn analyze(
        &self,
        mut plan: LogicalPlan,
        config: &ConfigOptions,
    ) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, |expr| matches!(expr, Expr::OuterReferenceColumn(..))) {
            return Ok(plan);
        }
        for _ in 0..MAX_LEVELS {
            let typed = with_types(plan, &[])?;
            plan = typed.data;
            if !typed.transformed {
                break;
            }
            plan = TypeCoercion::new().analyze(plan, config)?;
        }
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "outer_columns"
    }
}

/// A plan inside queries with these columns, the nearest of them last.
fn with_types(plan: LogicalPlan, outer: &[DFSchemaRef]) -> Rewritten<LogicalPlan> {
    let below = match plan {
        LogicalPlan::Join(join) if is_lateral(&join.right) => {
            let left = with_types(Arc::unwrap_or_clone(join.left), outer)?;
            let inside = [outer, &[Arc::clone(left.data.schema())]].concat();
            let right = with_types(Arc::unwrap_or_clone(join.right), &inside)?;
            let changed = left.transformed || right.transformed;
            let (left, right) = (Arc::new(left.data), Arc::new(right.data));
            let join = LogicalPlan::Join(Join { left, right, ..join });
            Transformed::new_transformed(join, changed)
        }
        LogicalPlan::Subquery(subquery) => {
            subquery_with_types(subquery, outer)?.update_data(LogicalPlan::Subquery)
        }
        plan => plan.map_children(|child| with_types(child, outer))?,
    };
    let concerned = |part: &Expr| {
        use Expr::{Exists, InSubquery, OuterReferenceColumn, ScalarSubquery, SetComparison};
        matches!(
            part,
            OuterReferenceColumn(..)
                | ScalarSubquery(_)
                | Exists(_)
                | InSubquery(_)
                | SetComparison(_)
        )
    };
    if !node_has_part(&below.data, concerned) {
        return Ok(below);
    }
    let inside = [outer, &[input_schema(&below.data)]].concat();
    below.transform_data(|node| {
        map_expressions(node, |expr| rewrite_down(expr, |part| typed(part, outer, &inside)))
    })
}

fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        LogicalPlan::Subquery(_) => true,
        _ => false,
    }
}

/// A part of an expression; `inside` are the columns for the subqueries in it.
fn typed(part: Expr, outer: &[DFSchemaRef], inside: &[DFSchemaRef]) -> Rewritten<Expr> {
    let with_types = |subquery| subquery_with_types(subquery, inside);
    Ok(match part {
        Expr::OuterReferenceColumn(field, column) => reference(field, column, outer),
        Expr::ScalarSubquery(subquery) => with_types(subquery)?.update_data(Expr::ScalarSubquery),
        Expr::Exists(Exists { subquery, negated }) => {
            with_types(subquery)?.update_data(|subquery| Expr::Exists(Exists { subquery, negated }))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => with_types(subquery)?
            .update_data(|subquery| Expr::InSubquery(InSubquery { expr, subquery, negated })),
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            with_types(subquery)?.update_data(|subquery| {
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })
            })
        }
        part => Transformed::no(part),
    })
}

fn subquery_with_types(subquery: Subquery, outer: &[DFSchemaRef]) -> Rewritten<Subquery> {
    let plan = with_types(Arc::unwrap_or_clone(subquery.subquery), outer)?;
    let references = subquery.outer_ref_columns.into_iter().map(|expr| {
        let reference = rewrite_down(expr, |part| typed(part, outer, outer))?;
        Ok(reference.data)
    });
    let outer_ref_columns = references.collect::<DataFusionResult<_>>()?;
    let subquery = Subquery { subquery: Arc::new(plan.data), outer_ref_columns, ..subquery };
    Ok(Transformed::new_transformed(subquery, plan.transformed))
}

/// A reference with the type of the column in the nearest query that has it.
fn reference(field: FieldRef, column: Column, outer: &[DFSchemaRef]) -> Transformed<Expr> {
    let known = outer.iter().rev().find_map(|schema| {
        let at = schema.maybe_index_of_column(&column)?;
        Some(schema.field(at).data_type().clone())
    });
    match known {
        Some(known) if known != *field.data_type() => {
            let field = Arc::new(field.as_ref().clone().with_data_type(known));
            Transformed::yes(Expr::OuterReferenceColumn(field, column))
        }
        _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
    }
}
