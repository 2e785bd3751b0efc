//! Keeps the columns of a union in their places when only one of its inputs has rows.
//!
//! DataFusion's logical rule `propagate_empty_relation` (55.2) puts that input in the place of the
//! union, and takes its columns by the names that the union has: `SELECT a, b FROM t WHERE false
//! UNION ALL SELECT DISTINCT b, a FROM t` exchanges them. Here they are taken by position.

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::common::TableReference;
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

/// A column of a schema.
type Named<'a> = (Option<&'a TableReference>, &'a FieldRef);

fn rewrite(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> DataFusionResult<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Union(union) => match last_branch(union)? {
            Some(projection) => Ok(Transformed::yes(LogicalPlan::Projection(projection))),
            None => rule.rewrite(plan, config),
        },
        _ => rule.rewrite(plan, config),
    }
}

/// The columns of the only input that has rows, with the names of the union; `None` if it has them,
/// or if there are more such inputs.
fn last_branch(union: &Union) -> DataFusionResult<Option<Projection>> {
    let is_empty = |input: &&Arc<LogicalPlan>| match &***input {
        LogicalPlan::EmptyRelation(empty) => !empty.produce_one_row,
        _ => false,
    };
    let mut live = union.inputs.iter().filter(|input| !is_empty(input));
    let (Some(input), None) = (live.next(), live.next()) else { return Ok(None) };
    let names = || union.schema.iter().zip(input.schema().iter());
    let is_named = |of: Named, own: Named| of.0 == own.0 && of.1.name() == own.1.name();
    if names().all(|(of, own)| is_named(of, own)) {
        return Ok(None);
    }
    let columns = names().map(|(of, own)| match is_named(of, own) {
        true => Expr::from(own),
        false => Expr::from(own).alias_qualified(of.0.cloned(), of.1.name()),
    });
    let (columns, schema) = (columns.collect(), Arc::clone(&union.schema));
    Projection::try_new_with_schema(columns, Arc::clone(input), schema).map(Some)
}
