//! Skips rules on plans in which they have nothing to do.
//!
//! DataFusion runs all of its logical rules several times over every plan. Most find nothing
//! to do, but some take each node apart and rebuild it before they know. Planning a statement that
//! reads few rows takes longer than running it, and rules are a third of that time. The most
//! expensive ones therefore run only where they could change something.

use datafusion::common::cse::NormalizeEq;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{HashSet, JoinType};
use datafusion::logical_expr::{Expr, ExpressionPlacement, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::sql::rules::wrapped::{self, LogicalRule, PhysicalRule};
use crate::sql::walks::{Rewritten, any_node, node_has_part, replace_nodes, visit_parts};

/// Wraps a rule that is expensive and often has nothing to do; returns other rules as they are.
pub(in crate::sql) fn skip_idle(rule: LogicalRule) -> LogicalRule {
    // Whether the rule may find something to do at a node.
    let concerns: fn(&LogicalPlan) -> bool = match rule.name() {
        "simplify_expressions" => computes,
        "common_sub_expression_eliminate" => may_compute_twice,
        "eliminate_duplicated_expr" => may_repeat_keys,
        "eliminate_cross_join" => return wrapped::logical(rule, at_cross_joins),
        "eliminate_join" => |node| matches!(node, LogicalPlan::Join(_)),
        "extract_leaf_expressions" | "push_down_leaf_projections" => reads_fields,
        _ => return rule,
    };
    wrapped::logical(rule, move |rule, plan, config| {
        let concerned = match rule.apply_order() {
            // The rule sees this node alone.
            Some(_) => concerns(&plan),
            None => any_node(&plan, concerns),
        };
        if concerned { rule.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    })
}

/// Wraps the physical rule that sorts rows and spreads them over threads, which samples what scans
/// would give: rows of the store that only leave out columns need neither.
pub(in crate::sql) fn skip_mere_reads(rule: PhysicalRule) -> PhysicalRule {
    wrapped::physical(rule, |rule, plan, config| match only_reads(plan.as_ref()) {
        true => Ok(plan),
        false => rule.optimize(plan, config),
    })
}

/// Whether a plan is one of the store's own operators, but for columns that are chosen above it.
fn only_reads(plan: &dyn ExecutionPlan) -> bool {
    let children = plan.children();
    let [child] = children.as_slice() else {
        return matches!(plan.name(), "StoreScan" | "StoreFragment" | "PlaceholderRowExec");
    };
    let chooses = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.expr().iter().all(|it| it.expr.is::<Column>()),
        None => {
            plan.is::<OutputRequirementExec>()
                && plan.required_input_ordering().iter().all(Option::is_none)
        }
    };
    chooses && only_reads(child.as_ref())
}

/// Whether an expression of a node is more than a column.
fn computes(node: &LogicalPlan) -> bool {
    use LogicalPlan::{Projection, Sort, SubqueryAlias, TableScan};
    let plain = |expr: &Expr| match expr {
        Expr::Alias(alias) => matches!(*alias.expr, Expr::Column(_)),
        expr => matches!(expr, Expr::Column(_)),
    };
    match node {
        Projection(projection) => !projection.expr.iter().all(plain),
        Sort(sort) => !sort.expr.iter().all(|key| plain(&key.expr)),
        TableScan(scan) => !scan.filters.is_empty(),
        SubqueryAlias(_) => false,
        _ => true,
    }
}

/// Whether a node may compute something twice. Windows over each other count as one node.
fn may_compute_twice(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(projection) => has_equal_parts(projection.expr.iter()),
        LogicalPlan::Filter(filter) => has_equal_parts(std::iter::once(&filter.predicate)),
        LogicalPlan::Sort(sort) => has_equal_parts(sort.expr.iter().map(|key| &key.expr)),
        LogicalPlan::Aggregate(known) => {
            has_equal_parts(known.group_expr.iter().chain(&known.aggr_expr))
        }
        LogicalPlan::Window(window) => {
            matches!(*window.input, LogicalPlan::Window(_))
                || has_equal_parts(window.window_expr.iter())
        }
        _ => false,
    }
}

fn has_equal_parts<'a>(mut exprs: impl Iterator<Item = &'a Expr>) -> bool {
    let (mut parts, mut known): (Vec<&Expr>, HashSet<&Expr>) = Default::default();
    let mut found = false;
    let search = |expr: &'a Expr| {
        visit_parts(expr, |part| {
            if !matches!(part, Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_)) {
                found = found
                    || !known.insert(part)
                    || parts.iter().any(|known| known.normalize_eq(part));
                if parts.len() < MOST_COMPARED {
                    parts.push(part);
                }
            }
            if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue }
        });
        found
    };
    exprs.any(search)
}

/// So many parts of a node are compared with the others in all orders of their operands.
const MOST_COMPARED: usize = 16;

/// Whether a node groups by a key twice, or sorts by several keys, which may depend on each other.
fn may_repeat_keys(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Sort(sort) => sort.expr.len() > 1,
        LogicalPlan::Aggregate(aggregate) => {
            let keys = &aggregate.group_expr;
            keys.iter().enumerate().any(|(at, key)| keys.iter().skip(at + 1).any(|k| k == key))
        }
        _ => false,
    }
}

/// Runs the rule that makes inner joins of cross joins where such joins begin. From there on it
/// does the rest by itself, but above it would make each node anew.
fn at_cross_joins(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Rewritten<LogicalPlan> {
    // Where there are none, it takes joins apart and makes the same again.
    if !any_node(&plan, is_cross_join) {
        return Ok(Transformed::no(plan));
    }
    replace_nodes(plan, |node| {
        let begins = match &node {
            LogicalPlan::Filter(filter) => is_inner_join(&filter.input),
            node => is_inner_join(node),
        };
        match begins || node_has_part(&node, is_subquery) {
            true => {
                let done = rule.rewrite(node, config)?;
                Ok(Transformed { tnr: TreeNodeRecursion::Jump, ..done })
            }
            false => Ok(Transformed::no(node)),
        }
    })
}

fn is_inner_join(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}

/// Whether a node joins each row of one side with each of the other.
fn is_cross_join(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.on.is_empty())
}

fn is_subquery(part: &Expr) -> bool {
    use Expr::{Exists, InSubquery, ScalarSubquery, SetComparison};
    matches!(part, Exists(_) | InSubquery(_) | ScalarSubquery(_) | SetComparison(_))
}

/// Whether a node reads a field of a struct, or calls a function that is as cheap.
fn reads_fields(node: &LogicalPlan) -> bool {
    node_has_part(node, |part| {
        matches!(part, Expr::ScalarFunction(_))
            && part.placement() == ExpressionPlacement::MoveTowardsLeafNodes
    })
}
