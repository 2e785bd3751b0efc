//! Tells which expressions are never null, from the counts of nulls in the manifest.

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::JoinType;
use datafusion::common::stats::Precision;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan};

/// Whether an expression over the rows of a plan is never null. It holds for the generations of
/// tables that the plan reads.
pub(super) fn is_never_null(expr: &Expr, input: &LogicalPlan) -> bool {
    match expr {
        Expr::Column(column) => {
            let at = input.schema().index_of_column(column);
            at.is_ok_and(|at| is_column_never_null(input, at))
        }
        Expr::Alias(alias) => is_never_null(&alias.expr, input),
        Expr::Cast(cast) => is_never_null(&cast.expr, input),
        Expr::Literal(value, _) => !value.is_null(),
        _ => false,
    }
}

/// Whether a column of a plan, by its position, is never null.
pub(super) fn is_column_never_null(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => has_no_nulls(scan, at).unwrap_or(false),
        LogicalPlan::SubqueryAlias(alias) => is_column_never_null(&alias.input, at),
        LogicalPlan::Filter(filter) => is_column_never_null(&filter.input, at),
        LogicalPlan::Sort(sort) => is_column_never_null(&sort.input, at),
        LogicalPlan::Limit(limit) => is_column_never_null(&limit.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => is_column_never_null(input, at),
        LogicalPlan::Projection(projection) => {
            let expr = projection.expr.get(at);
            expr.is_some_and(|expr| is_never_null(expr, &projection.input))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let key = aggregate.group_expr.get(at);
            key.is_some_and(|key| is_never_null(key, &aggregate.input))
        }
        LogicalPlan::Join(join) => {
            let of_left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::Inner if at >= of_left => is_column_never_null(&join.right, at - of_left),
                JoinType::Inner | JoinType::LeftSemi | JoinType::LeftAnti => {
                    is_column_never_null(&join.left, at)
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether a column of a table has no nulls, as its statistics tell.
fn has_no_nulls(scan: &TableScan, at: usize) -> Option<bool> {
    let name = scan.projected_schema.fields().get(at)?.name();
    let table = source_as_provider(&scan.source).ok()?;
    let at = table.schema().index_of(name).ok()?;
    let known = table.statistics()?;
    Some(known.column_statistics.get(at)?.null_count == Precision::Exact(0))
}
