//! Which columns are believed to depend on others.
//!
//! DataFusion (55.2, `aggregate_functional_dependencies`) takes every column of an aggregate to
//! depend on a key of it that is unique in one of the tables below, as if there were no other
//! tables joined to that one. Then it leaves out sort keys, group keys, a DISTINCT or a join that
//! do matter, and adds group keys to a GROUP BY when the statement is planned. Nothing else tells
//! it of dependencies here, since tables of a store have no primary keys.
//!
//! Where this stands on the road of a query: [`OwnKeys`] is the first analyzer rule, and takes the
//! keys away that no statement has; [`ForgetDependencies`] stands before the logical rules that are
//! misled.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, FunctionalDependencies, get_target_functional_dependencies,
};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use crate::sql::walks::{rewrite_nodes, rewrite_plan};

/// The logical rules that go by dependencies.
pub(in crate::sql) const MISLED: [&str; 4] = [
    "replace_distinct_aggregate",
    "eliminate_join",
    "eliminate_duplicated_expr",
    "optimize_projections",
];

/// Leaves an aggregate the keys that its statement gives it.
#[derive(Debug)]
pub(in crate::sql) struct OwnKeys;

impl AnalyzerRule for OwnKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !is_misled(&plan)? {
            return Ok(plan);
        }
        let within = |node: LogicalPlan| match node {
            LogicalPlan::Subquery(mut subquery) => {
                subquery.subquery = Arc::new(own_keys(subquery.subquery.as_ref().clone(), None)?);
                Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
            }
            other => Ok(Transformed::no(other)),
        };
        let plan = rewrite_nodes(plan, |node| node.map_subqueries(within))?.data;
        own_keys(plan, None)
    }

    fn name(&self) -> &'static str {
        "own_keys"
    }
}

/// Whether dependencies of an aggregate's input may have made wrong ones of its own.
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

/// Removes added keys from a plan whose parent reads only the columns `asked`, or all columns if
/// that is `None`.
fn own_keys(plan: LogicalPlan, asked: Option<HashSet<Column>>) -> DataFusionResult<LogicalPlan> {
    let plan = match (plan, &asked) {
        (LogicalPlan::Aggregate(aggregate), Some(asked)) => {
            LogicalPlan::Aggregate(kept(aggregate, asked)?)
        }
        (plan, _) => plan,
    };
    let passes =
        matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_));
    let selects = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
    let below = match asked {
        Some(mut asked) if passes => {
            plan.expressions()
                .iter()
                .for_each(|expr| asked.extend(expr.column_refs().into_iter().cloned()));
            Some(asked)
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

/// The aggregate without keys that have no place in the statement and are not asked for.
fn kept(aggregate: Aggregate, asked: &HashSet<Column>) -> DataFusionResult<Aggregate> {
    let is_added = |key: &Expr| match key {
        Expr::Column(column) => column.spans().0.is_empty() && !asked.contains(column),
        _ => false,
    };
    // What is added stands behind what is written, and depends on it by what DataFusion believes.
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

/// Takes all dependencies out of a plan of aggregates over aggregates.
#[derive(Debug)]
pub(in crate::sql) struct ForgetDependencies;

impl OptimizerRule for ForgetDependencies {
    fn name(&self) -> &'static str {
        "forget_dependencies"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>> {
        forget(plan)
    }
}

/// A plan without dependencies, if they may be wrong.
pub(in crate::sql) fn forget(plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    if !is_misled(&plan)? {
        return Ok(Transformed::no(plan));
    }
    rewrite_plan(plan, |node| {
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
