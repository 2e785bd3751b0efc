//! Fragments of parts of a plan that another machine has sent.

use std::sync::Arc;

use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{
    Expr, FetchType, LogicalPlan, Sort, SortExpr, UserDefinedLogicalNode,
};

use super::source::Refusal;
use super::{aggregate, top};
use crate::query::{ByColumn, Fragment};
use crate::sql::run::node::FragmentNode;

/// The fragment of an aggregate, with what chooses the first groups above it.
pub(in crate::sql) fn lower_groups(
    plan: &LogicalPlan,
    props: &ExecutionProps,
) -> Result<Arc<Fragment>, Refusal> {
    Ok(groups(plan, props)?.into_fragment())
}

fn groups(plan: &LogicalPlan, props: &ExecutionProps) -> Result<FragmentNode, Refusal> {
    let refused = || Refusal::from("not the first groups");
    let (input, order, limit) = match plan {
        LogicalPlan::Aggregate(aggregate) => return aggregate::lower(aggregate, plan, props),
        LogicalPlan::Sort(Sort { expr, input, fetch: Some(limit) }) => (input, &**expr, *limit),
        LogicalPlan::Limit(limit) => match limit.get_fetch_type() {
            Ok(FetchType::Literal(Some(count))) => (&limit.input, [].as_slice(), count),
            _ => return Err(refused()),
        },
        _ => return Err("no aggregate".into()),
    };
    let groups = groups(input, props)?;
    let by_column = |key: &SortExpr| {
        let Expr::Column(column) = &key.expr else { return None };
        let column = groups.schema().index_of_column(column).ok()?;
        Some(ByColumn { column, descending: !key.asc, nulls_first: key.nulls_first })
    };
    let order = order.iter().map(by_column).collect::<Option<_>>().ok_or_else(refused)?;
    groups.first_groups(order, limit).ok_or_else(refused)
}

/// The fragment of the first rows of an order.
pub(in crate::sql) fn lower_first_rows(
    plan: &LogicalPlan,
    props: &ExecutionProps,
) -> Result<Arc<Fragment>, Refusal> {
    let candidate = top::candidate(plan).ok_or("no first rows")?;
    Ok(top::lower(candidate, plan, props)?.into_fragment())
}
