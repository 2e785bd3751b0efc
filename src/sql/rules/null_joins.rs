//! Protects joins in which nulls are equal from rules that would make nulls equal in other
//! conditions too.
//!
//! `a IS NOT DISTINCT FROM b` becomes a join in which nulls are equal, for all of its keys.
//! DataFusion's logical rules `extract_equijoin_predicate` and `eliminate_cross_join` (55.2) add
//! keys from other equalities, in the WHERE above or in a join beside it, and these would then hold
//! for nulls.
//!
//! `eliminate_cross_join` also loses a key that is computed from several tables: in `a JOIN (b JOIN
//! c …) ON a.x = b.y + c.z` it joins the tables one after the other, and finds no pair to which the
//! key applies.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;

use crate::sql::rules::wrapped::{self, LogicalRule};

/// Wraps a rule that needs it; returns other rules as they are.
pub(in crate::sql) fn keep_null_equal_joins(rule: LogicalRule) -> LogicalRule {
    match rule.name() {
        "extract_equijoin_predicate" | "eliminate_cross_join" => wrapped::logical(rule, rewrite),
        _ => rule,
    }
}

fn rewrite(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> DataFusionResult<Transformed<LogicalPlan>> {
    let would_spoil = match rule.apply_order() {
        // The rule sees this node alone.
        Some(_) => takes_nulls_for_equal(&plan),
        None => plan.exists(|node| {
            Ok(is_inner(node) && (takes_nulls_for_equal(node) || has_key_of_several_tables(node)))
        })?,
    };
    if would_spoil { Ok(Transformed::no(plan)) } else { rule.rewrite(plan, config) }
}

fn takes_nulls_for_equal(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Whether a side of a key may need columns of several tables.
fn has_key_of_several_tables(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    let reads_several = |key: &Expr| {
        let columns = key.column_refs();
        let first = columns.iter().next().and_then(|column| column.relation.as_ref());
        columns.len() > 1
            && (first.is_none() || columns.iter().any(|column| column.relation.as_ref() != first))
    };
    join.on.iter().any(|(left, right)| reads_several(left) || reads_several(right))
}

fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}
