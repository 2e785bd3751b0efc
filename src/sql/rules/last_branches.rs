//! Keeps the columns of a union in their places, and their names, when some of its inputs have no
//! rows.
//!
//! DataFusion's logical rule `propagate_empty_relation` (55.2) puts the only input that has rows in
//! the place of the union, and takes its columns by the names that the union has: `SELECT a, b FROM
//! t WHERE false UNION ALL SELECT DISTINCT b, a FROM t` exchanges them. Of several such inputs it
//! makes a union whose names are those of the first. Here columns are taken by position, and have
//! the names that they had.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::OptimizerConfig;

use crate::sql::rules::wrapped::{self, LogicalRule};

/// Wraps the rule that needs it; returns other rules as they are.
pub(in crate::sql) fn keep_places_in_unions(rule: LogicalRule) -> LogicalRule {
    match rule.name() {
        "propagate_empty_relation" => wrapped::logical(rule, rewrite),
        _ => rule,
    }
}

fn rewrite(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> DataFusionResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = &plan else { return rule.rewrite(plan, config) };
    match without_empty(union)? {
        Some(live) => Ok(Transformed::yes(live)),
        None => rule.rewrite(plan, config),
    }
}

/// The union without its empty inputs, where the first input that is left gets the names of the
/// union; `None` if it has them, or if all inputs or none are empty.
fn without_empty(union: &Union) -> DataFusionResult<Option<LogicalPlan>> {
    let is_empty = |input: &&Arc<LogicalPlan>| match &***input {
        LogicalPlan::EmptyRelation(empty) => !empty.produce_one_row,
        _ => false,
    };
    let mut live = union.inputs.iter().filter(|input| !is_empty(input)).cloned();
    let Some(first) = live.next() else { return Ok(None) };
    let others: Vec<Arc<LogicalPlan>> = live.collect();
    if others.len() + 1 == union.inputs.len() {
        return Ok(None);
    }
    let Some(first) = renamed(&first, union)? else { return Ok(None) };
    if others.is_empty() {
        return Ok(Some(first));
    }
    let inputs = std::iter::once(Arc::new(first)).chain(others).collect();
    Ok(Some(LogicalPlan::Union(Union { inputs, schema: Arc::clone(&union.schema) })))
}

/// The columns of an input with the names of the union; `None` if it has them.
fn renamed(input: &Arc<LogicalPlan>, union: &Union) -> DataFusionResult<Option<LogicalPlan>> {
    let columns = || union.schema.iter().zip(input.schema().iter());
    if columns().all(|(of, own)| of.0 == own.0 && of.1.name() == own.1.name()) {
        return Ok(None);
    }
    let renamed =
        columns().map(|(of, own)| Expr::from(own).alias_qualified(of.0.cloned(), of.1.name()));
    let (columns, schema) = (renamed.collect(), Arc::clone(&union.schema));
    let renamed = Projection::try_new_with_schema(columns, Arc::clone(input), schema)?;
    Ok(Some(LogicalPlan::Projection(renamed)))
}
