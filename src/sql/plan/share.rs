//! Finds parts of a plan that stand at several places, so that they are computed once.
//!
//! Where this stands on the road of a query: after all logical rules, before `lower`. DataFusion
//! (55.2) puts the whole of a WITH query at each place that names it, and plans and runs each copy.
//! Rules may have changed copies in different ways: only what is still equal is shared, be it a
//! WITH query, a part of one, or text that a statement repeats. Parts are shared from an aggregate,
//! window or limit on, whose rows are few or dear; a copy of a scan or join has filters of its own
//! that come while it runs.

use std::mem::discriminant;
use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};

use crate::sql::run::provider::StoreProvider;
use crate::sql::run::shared::SharedPart;
use crate::sql::walks::{any_node, node_has_part, replace_nodes};

/// A plan whose shared parts are taken out.
pub(super) struct Divided {
    pub(super) plan: LogicalPlan,
    /// The parts, each after those that it has itself.
    pub(super) parts: Vec<(Arc<SharedPart>, LogicalPlan)>,
}

/// Takes out the parts of a plan that stand at several places.
pub(super) fn divide(plan: LogicalPlan) -> DataFusionResult<Divided> {
    let repeated = repeated(&plan)?;
    if repeated.is_empty() {
        return Ok(Divided { plan, parts: Vec::new() });
    }
    let mut parts: Vec<(Arc<SharedPart>, LogicalPlan)> =
        (1..).zip(repeated).map(|(number, plan)| (SharedPart::new(number, &plan), plan)).collect();
    let plan = with_places(plan, &parts)?;
    // What has another part is larger than it.
    parts.sort_by_cached_key(|(_, plan)| nodes(plan));
    for at in 1..parts.len() {
        let (smaller, larger) = parts.split_at_mut(at);
        if let Some((_, plan)) = larger.first_mut() {
            *plan = with_places(plan.clone(), smaller)?;
        }
    }
    Ok(Divided { plan, parts })
}

/// A plan with the places of parts instead of the parts.
fn with_places(
    plan: LogicalPlan,
    parts: &[(Arc<SharedPart>, LogicalPlan)],
) -> DataFusionResult<LogicalPlan> {
    let place = |node: LogicalPlan| {
        if matches!(node, LogicalPlan::RecursiveQuery(_)) {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        Ok(match parts.iter().find(|(_, known)| are_equal(known, &node)) {
            Some((part, _)) => Transformed::new(part.place(), true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    };
    Ok(replace_nodes(plan, place)?.data)
}

/// The largest parts that stand at several places, and those of them that stand at several places
/// in what is left.
fn repeated(plan: &LogicalPlan) -> DataFusionResult<Vec<LogicalPlan>> {
    let mut known: Vec<(LogicalPlan, usize)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::RecursiveQuery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        if !is_worth_keeping(node) {
            return Ok(TreeNodeRecursion::Continue);
        }
        match known.iter_mut().find(|(known, _)| are_equal(known, node)) {
            // Its own parts have been visited.
            Some((_, times)) if *times > 1 || is_repeatable(node) => {
                *times += 1;
                return Ok(TreeNodeRecursion::Jump);
            }
            Some(_) => {}
            None => known.push((node.clone(), 1)),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(known.into_iter().filter(|(_, times)| *times > 1).map(|(plan, _)| plan).collect())
}

/// Whether what computes a node is an aggregate, a window, or what gives the first rows.
fn is_worth_keeping(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(projection) => is_worth_keeping(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_worth_keeping(&alias.input),
        LogicalPlan::Filter(filter) => is_worth_keeping(&filter.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_some() || is_worth_keeping(&sort.input),
        LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Limit(_) => true,
        _ => false,
    }
}

/// Whether a part gives the same rows wherever it stands.
fn is_repeatable(part: &LogicalPlan) -> bool {
    let varies = |expr: &Expr| {
        matches!(expr, Expr::OuterReferenceColumn(..) | Expr::Placeholder(_))
            || expr.is_volatile_node()
    };
    !any_node(part, |node| !is_plain(node) || node_has_part(node, varies))
}

fn is_plain(node: &LogicalPlan) -> bool {
    use LogicalPlan::{
        Aggregate, Distinct, EmptyRelation, Filter, Join, Limit, Projection, Sort, Subquery,
        SubqueryAlias, TableScan, Union, Unnest, Values, Window,
    };
    matches!(
        node,
        Aggregate(_)
            | Distinct(_)
            | EmptyRelation(_)
            | Filter(_)
            | Join(_)
            | Limit(_)
            | Projection(_)
            | Sort(_)
            | Subquery(_)
            | SubqueryAlias(_)
            | TableScan(_)
            | Union(_)
            | Unnest(_)
            | Values(_)
            | Window(_)
    )
}

/// Whether two plans are the same. Plan equality ignores what a scan reads: a table and a WITH
/// query may have the same name.
fn are_equal(one: &LogicalPlan, two: &LogicalPlan) -> bool {
    discriminant(one) == discriminant(two)
        && one.schema().fields().len() == two.schema().fields().len()
        && one == two
        && {
            let (one, two) = (sources(one), sources(two));
            one.len() == two.len() && one.iter().zip(&two).all(|(one, two)| is_same(one, two))
        }
}

/// What the scans of a plan read, in order.
fn sources(plan: &LogicalPlan) -> Vec<Arc<dyn TableSource>> {
    let mut sources = Vec::new();
    // A walk fails only where its visitor does.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            sources.push(Arc::clone(&scan.source));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    sources
}

fn is_same(one: &Arc<dyn TableSource>, two: &Arc<dyn TableSource>) -> bool {
    let table = |source: &Arc<dyn TableSource>| {
        let provider = source_as_provider(source).ok()?;
        Some(Arc::clone(&provider.downcast_ref::<StoreProvider>()?.table))
    };
    match (table(one), table(two)) {
        (Some(one), Some(two)) => Arc::ptr_eq(&one, &two),
        _ => Arc::ptr_eq(one, two),
    }
}

/// How many nodes a plan and its subqueries have.
fn nodes(plan: &LogicalPlan) -> usize {
    let mut nodes = 0;
    let _ = plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    nodes
}
