//! Corrects which columns DataFusion believes to depend on others.
//!
//! DataFusion (55.2, `aggregate_functional_dependencies`) believes that every column of an
//! aggregate depends on a key of it that is unique in one of the tables below, as if no other
//! tables were joined to that one. It then drops sort keys, group keys, a DISTINCT or a join that
//! do matter, and adds group keys to a GROUP BY when the statement is planned. It learns of no
//! other dependencies here, since tables of a store have no primary keys.
//!
//! Where this stands on the road of a query: [`OwnKeys`] is the first analyzer rule, and removes
//! keys that the statement does not have; [`forget`] runs before the logical rules that
//! are misled.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, FunctionalDependencies, get_target_functional_dependencies,
};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{rewrite_nodes, rewrite_plan};

/// The logical rules that rely on dependencies.
pub(in crate::sql) const MISLED: [&str; 4] = [
    "replace_distinct_aggregate",
    "eliminate_join",
    "eliminate_duplicated_expr",
    "optimize_projections",
];

/// Leaves an aggregate only the keys that the statement gives it.
#[derive(Debug)]
pub(in crate::sql) struct OwnKeys;

impl AnalyzerRule for OwnKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !is_misled(&plan)? {
            return Ok(plan);
        }
        let in_subquery = |node: LogicalPlan| match node {
            LogicalPlan::Subquery(mut subquery) => {
                subquery.subquery = Arc::new(own_keys(subquery.subquery.as_ref().clone(), None)?);
                Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
            }
            other => Ok(Transformed::no(other)),
        };
        let plan = rewrite_nodes(plan, |node| node.map_subqueries(in_subquery))?.data;
        own_keys(plan, None)
    }

    fn name(&self) -> &'static str {
        "own_keys"
    }
}

/// Whether an aggregate may have derived wrong dependencies from those of its input.
fn is_misled(plan: &LogicalPlan) -> DataFusionResult<bool> {
    let mut misled = false;
    plan.apply_with_subqueries(|node| {
        misled |=
            matches!(node, LogicalPlan::Aggregate(aggregate) if has_any(aggregate.input.schema()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(misled)
}

fn has_any(schema: &DFSchema) -> bool {
    !schema.functional_dependencies().is_empty()
}

/// Removes added keys from a plan whose parent reads only the columns `needed`, or all columns if
/// that is `None`.
fn own_keys(plan: LogicalPlan, needed: Option<HashSet<Column>>) -> DataFusionResult<LogicalPlan> {
    let plan = match (plan, &needed) {
        (LogicalPlan::Aggregate(aggregate), Some(needed)) => {
            LogicalPlan::Aggregate(without_added_keys(aggregate, needed)?)
        }
        (plan, _) => plan,
    };
    let passes =
        matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_));
    let selects = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
    let below = match needed {
        Some(mut needed) if passes => {
            plan.expressions()
                .iter()
                .for_each(|expr| needed.extend(expr.column_refs().into_iter().cloned()));
            Some(needed)
        }
        _ if selects => Some(
            plan.expressions()
                .iter()
                .flat_map(|expr| expr.column_refs().into_iter().cloned().collect::<Vec<_>>())
                .collect(),
        ),
        _ => None,
    };
    let rewritten =
        plan.map_children(|child| own_keys(child, below.clone()).map(Transformed::yes))?;
    rewritten.data.recompute_schema()
}

/// The aggregate without the keys that have no position in the statement and are not needed above.
fn without_added_keys(
    aggregate: Aggregate,
    needed: &HashSet<Column>,
) -> DataFusionResult<Aggregate> {
    let is_added = |key: &Expr| match key {
        Expr::Column(column) => column.spans().0.is_empty() && !needed.contains(column),
        _ => false,
    };
    // Added keys come after the written ones, and depend on them as DataFusion believes.
    let added = aggregate.group_expr.iter().rev().take_while(|key| is_added(key)).count();
    let written = |own: usize| {
        let (own, added) = aggregate.group_expr.split_at_checked(own)?;
        let names: Vec<String> = own.iter().map(|key| key.schema_name().to_string()).collect();
        let schema = aggregate.input.schema();
        let depend = get_target_functional_dependencies(schema, &names)?;
        let depends = |key: &Expr| {
            key.try_as_col()
                .and_then(|column| schema.maybe_index_of_column(column))
                .is_some_and(|at| depend.contains(&at))
        };
        added.iter().all(depends).then(|| own.to_vec())
    };
    let all = aggregate.group_expr.len();
    match (all - added..all).find_map(written) {
        Some(own) if !own.is_empty() => {
            Aggregate::try_new(aggregate.input, own, aggregate.aggr_expr)
        }
        _ => Ok(aggregate),
    }
}

/// Removes all dependencies from a plan of aggregates over aggregates, if they may be wrong.
pub(in crate::sql) fn forget(plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    if !is_misled(&plan)? {
        return Ok(Transformed::no(plan));
    }
    // Nodes without any dependencies, and so those below the lowest one that has some, stay.
    rewrite_plan(plan, |node| {
        if !has_any(node.schema()) {
            return Ok(Transformed::no(node));
        }
        Ok(match node.recompute_schema()? {
            LogicalPlan::Aggregate(mut aggregate) => {
                let schema = aggregate.schema.as_ref().clone();
                aggregate.schema =
                    Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?);
                Transformed::yes(LogicalPlan::Aggregate(aggregate))
            }
            other => Transformed::yes(other),
        })
    })
}
