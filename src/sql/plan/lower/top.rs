//! The first rows of a sort as fragments; and the first groups of an aggregate's fragment, where a
//! sort or a limit above it asks for no others.

use std::sync::Arc;

use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{
    Expr, Extension, FetchType, Limit, LogicalPlan, SkipType, Sort, SortExpr,
};

use super::aggregate::is_comparable;
use super::expression::Compiler;
use super::source::{Input, Refusal, without_alias};
use crate::query::{ByColumn, Fragment, OrderBy, Output};
use crate::sql::run::node::FragmentNode;

/// A sort that returns only its first rows, perhaps below a limit that skips some of them: the
/// sort, how many rows it returns, and how many of these are skipped.
pub(super) fn candidate(plan: &LogicalPlan) -> Option<(&Sort, usize, usize)> {
    match plan {
        LogicalPlan::Sort(sort) => Some((sort, sort.fetch?, 0)),
        LogicalPlan::Limit(limit) => {
            let LogicalPlan::Sort(sort) = limit.input.as_ref() else { return None };
            let (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) =
                (limit.get_skip_type().ok()?, limit.get_fetch_type().ok()?)
            else {
                return None;
            };
            let rows = sort.fetch?.min(skip.checked_add(fetch)?);
            (skip > 0).then_some((sort, rows, skip))
        }
        _ => None,
    }
}

/// The fragment for the first `limit` rows of a sort without the first `skip`, which `plan` gives.
pub(super) fn lower(
    (sort, limit, skip): (&Sort, usize, usize),
    plan: &LogicalPlan,
    props: &ExecutionProps,
) -> Result<FragmentNode, Refusal> {
    let source = Input::new(&sort.input)?;
    let mut compiler = Compiler::new(&source, props);
    let conditions = compiler.conditions()?;
    let mut order = Vec::with_capacity(sort.expr.len());
    for key in &sort.expr {
        let expression = compiler.expression(&key.expr)?;
        if !is_comparable(&expression.data_type) {
            return Err(format!("an order by type {}", expression.data_type));
        }
        order.push(OrderBy { expression, descending: !key.asc, nulls_first: key.nulls_first });
    }
    let schema = sort.input.schema();
    let expressions = compiler.outputs()?;
    if expressions.is_empty() || order.is_empty() {
        return Err("no columns".into());
    }
    let fragment = Fragment {
        columns: compiler.columns(),
        conditions,
        output: Output::Top { order, limit, skip, expressions },
        schema: Arc::clone(schema.inner()),
        states: false,
    };
    Ok(FragmentNode::new(fragment, &source.table, plan.clone(), sort.expr.clone()))
}

/// A sort that returns only its first rows, over a fragment that gives the groups which they are,
/// and perhaps more; `None` of another.
pub(super) fn first_of_sorted(sort: &Sort) -> Option<Sort> {
    let schema = sort.input.schema();
    let by = |key: &SortExpr| {
        let Expr::Column(column) = &key.expr else { return None };
        let column = schema.maybe_index_of_column(column)?;
        Some(ByColumn { column, descending: !key.asc, nulls_first: key.nulls_first })
    };
    let order = sort.expr.iter().map(by).collect::<Option<_>>()?;
    let input = Arc::new(first_groups(&sort.input, order, sort.fetch?)?);
    Some(Sort { input, ..sort.clone() })
}

/// The same of a limit without an order.
pub(super) fn first_of_any(limit: &Limit) -> Option<LogicalPlan> {
    let (Ok(SkipType::Literal(skip)), Ok(FetchType::Literal(Some(fetch)))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return None;
    };
    let input = Arc::new(first_groups(&limit.input, Vec::new(), skip.checked_add(fetch)?)?);
    Some(LogicalPlan::Limit(Limit { input, ..limit.clone() }))
}

/// A fragment of groups below projections, which then gives at least the first groups of an order.
fn first_groups(plan: &LogicalPlan, mut order: Vec<ByColumn>, limit: usize) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::Extension(extension) => {
            let node = extension.node.as_any().downcast_ref::<FragmentNode>()?;
            let node = Arc::new(node.first_groups(order, limit)?);
            Some(LogicalPlan::Extension(Extension { node }))
        }
        LogicalPlan::Projection(projection) => {
            let below = projection.input.schema();
            for by in &mut order {
                let Expr::Column(column) = without_alias(projection.expr.get(by.column)?) else {
                    return None;
                };
                by.column = below.maybe_index_of_column(column)?;
            }
            let input = first_groups(&projection.input, order, limit)?;
            plan.with_new_exprs(plan.expressions(), vec![input]).ok()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = first_groups(&alias.input, order, limit)?;
            plan.with_new_exprs(plan.expressions(), vec![input]).ok()
        }
        _ => None,
    }
}
