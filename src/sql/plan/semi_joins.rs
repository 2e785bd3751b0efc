//! Groups the inner side of semi and anti joins whose keys repeat, so that each key occurs once.
//!
//! Where this stands on the road of a query: the last logical rule. DataFusion's hash join (55.2)
//! visits all partners of a row even where one is enough: `k IN (SELECT k …)` over 8 distinct
//! values in 150,000 rows takes 14 s. If the manifest says that a key's values repeat often, they
//! are grouped first, which our executor does while it reads.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan};

use crate::sql::run::provider::store_provider;
use crate::sql::walks::Rewritten;

/// How often values must repeat. For keys that rarely repeat, the join is as fast as the grouping.
const MIN_REPEATS: u64 = 16;

pub(in crate::sql) fn each_key_once(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    let LogicalPlan::Join(join) = node else { return Ok(Transformed::no(node)) };
    let keys =
        |side: fn(&(Expr, Expr)) -> &Expr| join.on.iter().map(side).cloned().collect::<Vec<Expr>>();
    let (input, keys) = match join.join_type {
        _ if join.filter.is_some() => return Ok(Transformed::no(LogicalPlan::Join(join))),
        JoinType::LeftSemi | JoinType::LeftAnti => (&join.right, keys(|(_, right)| right)),
        JoinType::RightSemi | JoinType::RightAnti => (&join.left, keys(|(left, _)| left)),
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let Some(columns) = keys.iter().map(Expr::try_as_col).collect::<Option<Vec<&Column>>>() else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    if columns.is_empty() || !columns.iter().all(|column| repeats(input, column, columns.len())) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let grouped =
        Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(input), keys, Vec::new())?));
    let (left, right) = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => (join.left, grouped),
        _ => (grouped, join.right),
    };
    Ok(Transformed::yes(LogicalPlan::Join(Join { left, right, ..join })))
}

/// Whether a column comes from a table of the store, and has so few values that those of `keys`
/// such columns together repeat often.
fn repeats(plan: &LogicalPlan, column: &Column, keys: usize) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => repeats(&filter.input, column, keys),
        LogicalPlan::SubqueryAlias(alias) => {
            let place = alias.schema.maybe_index_of_column(column);
            place.is_some_and(|at| {
                repeats(&alias.input, &Column::from(alias.input.schema().qualified_field(at)), keys)
            })
        }
        LogicalPlan::Projection(projection) => {
            let place = projection.schema.maybe_index_of_column(column);
            let mut expr = place.and_then(|at| projection.expr.get(at));
            while let Some(Expr::Alias(alias)) = expr {
                expr = Some(&alias.expr);
            }
            expr.and_then(Expr::try_as_col)
                .is_some_and(|below| repeats(&projection.input, below, keys))
        }
        LogicalPlan::TableScan(scan) => {
            let Some(provider) = store_provider(scan) else { return false };
            let snapshot = provider.table.snapshot();
            let Some(known) =
                snapshot.schema().columns().iter().find(|known| *known.name == *column.name)
            else {
                return false;
            };
            let Ok(Some(values)) = snapshot.distinct_values(known.id) else { return false };
            let keys = u32::try_from(keys).unwrap_or(u32::MAX);
            values.saturating_pow(keys).saturating_mul(MIN_REPEATS) <= snapshot.rows()
        }
        _ => false,
    }
}
