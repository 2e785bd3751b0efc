//! Rewrites subqueries that DataFusion refuses, or answers without regard to nulls.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced and before
//! DataFusion's logical rules. Those (55.2) turn `IN` and `EXISTS` into semi, anti and mark joins,
//! but only in filters, and correlated values into joins if the outer column is compared for
//! equality; a mark join ignores nulls (apache/datafusion issues 25340, 25347, 8241). What
//! DataFusion does well is left to it. Here
//!
//! - `truth` gives a test whose null matters (below NOT, in CASE, in a SELECT list) its three truth
//!   values;
//! - tests in other places than filters become counts (`counts`);
//! - a subquery that uses the outer row for more than equality is computed once for each distinct
//!   outer value (`dependent`), and joined (Neumann and Kemper, Unnesting Arbitrary Queries, 2015);
//! - one in the condition of an outer join that reads both sides gets the values of one side beside
//!   the rows of the other (`both_sides`);
//! - a value that is looked for in a subquery and comes from subqueries itself is computed before
//!   (`left_values`).
//!
//! LATERAL subqueries are recognized while a FROM is planned (`laterals`).

mod both_sides;
mod counts;
mod dependent;
mod domain;
mod laterals;
mod left_values;
mod never_null;
mod only_value;
mod outer;
mod push_down;
mod shape;
mod truth;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection,
};
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::{AnalyzerRule, OptimizerContext, OptimizerRule};

use self::counts::counted;
pub(in crate::sql) use self::dependent::no_idle_lateral;
pub(in crate::sql) use self::laterals::Laterals;
use self::left_values::computed_first;
use self::outer::is_correlated;
use self::shape::passes_on_outer_columns;
use crate::sql::rules::column_names::{unique_name, with_name};
use crate::sql::walks::{
    any_expression, any_node, has_part, map_expressions, node_has_part, rewrite_down, rewrite_plan,
    rewrite_up,
};

#[derive(Debug)]
pub(in crate::sql) struct Decorrelate;

impl AnalyzerRule for Decorrelate {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let is_concerned =
            |expr: &Expr| is_subquery(expr) || matches!(expr, Expr::SetComparison(_));
        if !any_expression(&plan, is_concerned)
            && !any_node(&plan, |node| matches!(node, LogicalPlan::Subquery(_)))
        {
            return Ok(plan);
        }
        check_aggregates(&plan)?;
        Ok(rewrite_plan(set_comparisons_to_exists(plan)?, rewritten)?.data)
    }

    fn name(&self) -> &'static str {
        "decorrelate"
    }
}

/// Refuses aggregates over columns of the outer query alone: in SQL, they are the outer query's,
/// and here they would be taken over the rows of the subquery. What counts are the columns of the
/// arguments, of FILTER and of ORDER BY together.
fn check_aggregates(plan: &LogicalPlan) -> DataFusionResult<()> {
    let is_outer = |expr: &Expr| {
        let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr else { return false };
        let keys = params.order_by.iter().map(|key| &key.expr);
        let parts = params.args.iter().chain(params.filter.as_deref()).chain(keys);
        let outer = |part: &Expr| matches!(part, Expr::OuterReferenceColumn(..));
        let inner = |part: &Expr| matches!(part, Expr::Column(_)) || is_subquery(part);
        parts.clone().any(|part| has_part(part, outer))
            && !parts.clone().any(|part| has_part(part, inner))
    };
    match any_expression(plan, is_outer) {
        true => plan_err!(
            "an aggregate of columns of the outer query alone, within a subquery, is one of the \
             outer query: compute it there"
        ),
        false => Ok(()),
    }
}

/// Turns comparisons with ANY and ALL into tests with EXISTS, by DataFusion's own rule for this,
/// which would run later.
fn set_comparisons_to_exists(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    if !any_expression(&plan, |expr| matches!(expr, Expr::SetComparison(_))) {
        return Ok(plan);
    }
    let named =
        rewrite_plan(plan, |node| map_expressions(with_names(node)?, with_renamed_member))?.data;
    Ok(RewriteSetComparison::new().rewrite(named, &OptimizerContext::new())?.data)
}

fn has_set_comparison(expr: &Expr) -> bool {
    has_part(expr, |expr| matches!(expr, Expr::SetComparison(_)))
}

/// Renames the column of a subquery that is compared with ANY or ALL: it would be taken for a
/// column of that name in the outer query.
fn with_renamed_member(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |expr| match expr {
        Expr::SetComparison(mut comparison) => {
            comparison.subquery = truth::renamed(&comparison.subquery)?;
            Ok(Transformed::yes(Expr::SetComparison(comparison)))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Gives comparisons with ANY or ALL in a SELECT list the names that they are known by.
fn with_names(node: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let LogicalPlan::Projection(mut projection) = node else { return Ok(node) };
    for expr in &mut projection.expr {
        if !matches!(expr, Expr::Alias(_)) && has_set_comparison(expr) {
            let (qualifier, name) = expr.qualified_name();
            *expr = std::mem::take(expr).alias_qualified(qualifier, name);
        }
    }
    Ok(LogicalPlan::Projection(projection))
}

/// Rewrites the subqueries in a plan once more after outer values were pushed into it (`pushed`):
/// if they read outer values, they read other columns now.
fn rewritten_again(plan: &LogicalPlan, pushed: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    match any_node(plan, passes_on_outer_columns) {
        true => Ok(rewrite_plan(pushed, rewritten)?.data),
        false => Ok(pushed),
    }
}

/// Rewrites a node whose inputs and subqueries are rewritten already.
fn rewritten(plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let (plan, is_changed) = match plan {
        LogicalPlan::Join(join) if is_lateral(&join.right) => match dependent::lateral(&join)? {
            // Only no longer LATERAL.
            Some(joined @ LogicalPlan::Join(_)) => (joined, true),
            Some(joined) => return Ok(Transformed::yes(joined)),
            None => (LogicalPlan::Join(join), false),
        },
        other => (other, false),
    };
    if !node_has_part(&plan, is_candidate) {
        return Ok(Transformed::new_transformed(plan, is_changed));
    }
    match plan {
        LogicalPlan::Filter(filter) => filtered(filter),
        LogicalPlan::Projection(projection) => projected(projection),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => joined(join),
        LogicalPlan::Join(join) => match both_sides::widened(&join)? {
            Some(wider) => {
                let columns = join.schema.columns().into_iter().map(Expr::from);
                let plan = LogicalPlanBuilder::from(computed_below(wider)?.data);
                plan.project(columns)?.build().map(Transformed::yes)
            }
            None => computed_below(LogicalPlan::Join(join)),
        },
        LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(Distinct::On(_)) => computed_below(plan),
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the right side of a join may read rows of the left one: derived tables without LATERAL
/// do not see their neighbours.
fn is_lateral(right: &LogicalPlan) -> bool {
    match right {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Projection(renamed) => {
                matches!(renamed.input.as_ref(), LogicalPlan::Subquery(_))
            }
            input => is_lateral(input),
        },
        LogicalPlan::Join(join) => is_lateral(&join.left) || is_lateral(&join.right),
        _ => false,
    }
}

/// Conditions that are subqueries themselves stay, as DataFusion turns them into joins.
fn filtered(filter: Filter) -> DataFusionResult<Transformed<LogicalPlan>> {
    let Filter { predicate, input, .. } = filter;
    let columns = input.schema().columns();
    let (input, split) = computed_first(input, split_conjunction_owned(predicate))?;
    let mut conditions = Vec::new();
    for condition in split {
        conditions.push(match has_candidate(&condition) {
            true => truth::condition(condition, &input)?,
            false => condition,
        });
    }
    let (joined, conditions) = dependent::joined(&input, conditions)?;
    let Some(predicate) = conjunction(conditions) else { return Ok(Transformed::yes(joined)) };
    let wider = joined.schema().fields().len() > columns.len();
    let filtered = LogicalPlan::Filter(Filter::try_new(predicate, joined.into())?);
    let plan = match wider {
        true => LogicalPlanBuilder::from(filtered)
            .project(columns.into_iter().map(Expr::from))?
            .build()?,
        false => filtered,
    };
    Ok(Transformed::yes(plan))
}

fn projected(projection: Projection) -> DataFusionResult<Transformed<LogicalPlan>> {
    let Projection { expr, input, schema, .. } = projection;
    let (input, expr) = computed_first(input, expr)?;
    let mut outputs = Vec::with_capacity(expr.len());
    for (expr, (qualifier, field)) in expr.into_iter().zip(schema.iter()) {
        outputs.push(match has_candidate(&expr) {
            true => with_name(
                counted(truth::value(expr, &input)?, input.schema())?,
                qualifier,
                field.name(),
            ),
            false => expr,
        });
    }
    let (joined, outputs) = dependent::joined(&input, outputs)?;
    let names = outputs.into_iter().zip(schema.iter());
    let outputs =
        names.map(|(expr, (qualifier, field))| with_name(expr, qualifier, field.name())).collect();
    let projection = Projection::try_new(outputs, joined.into())?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Conditions of an inner join that have subqueries become a filter above it.
fn joined(mut join: Join) -> DataFusionResult<Transformed<LogicalPlan>> {
    if join.on.iter().any(|(left, right)| has_candidate(left) || has_candidate(right)) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (with_subqueries, plain): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(has_candidate);
    join.filter = conjunction(plain);
    let Some(predicate) = conjunction(with_subqueries) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    filtered(Filter::try_new(predicate, LogicalPlan::Join(join).into())?)
}

/// Subqueries of other nodes are computed in a projection below them.
fn computed_below(plan: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let mut below: Vec<Vec<(Expr, Column)>> = vec![Vec::new(); inputs.len()];
    let mut move_below = |expr: Expr| {
        if !is_subquery(&expr) || (matches!(expr, Expr::ScalarSubquery(_)) && !is_correlated(&expr))
        {
            return Ok(Transformed::no(expr));
        }
        let Some(at) = inputs.iter().position(|input| resolves(&expr, input, &inputs)) else {
            return Ok(Transformed::no(expr));
        };
        let Some(known) = below.get_mut(at) else { return Ok(Transformed::no(expr)) };
        let column = match known.iter().find(|(known, _)| *known == expr) {
            Some((_, column)) => column.clone(),
            None => {
                let column = Column::new_unqualified(unique_name("subquery"));
                known.push((expr, column.clone()));
                column
            }
        };
        Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump))
    };
    let names = plan.schema().clone();
    let plan = map_expressions(plan, |expr| rewrite_down(expr, &mut move_below))?.data;
    if below.iter().all(Vec::is_empty) {
        return Ok(Transformed::no(plan));
    }
    let mut wider = Vec::with_capacity(inputs.len());
    for (input, computed) in inputs.into_iter().zip(below) {
        let columns = input.schema().columns().into_iter().map(Expr::from);
        let computed = computed.into_iter().map(|(expr, column)| expr.alias(column.name));
        let outputs = columns.chain(computed).collect();
        wider.push(
            rewritten(LogicalPlan::Projection(Projection::try_new(outputs, input.into())?))?.data,
        );
    }
    let mut wider = wider.into_iter();
    let over = plan.map_children(|input| Ok(Transformed::yes(wider.next().unwrap_or(input))))?.data;
    let over = over.recompute_schema()?;
    // The columns of an aggregate are named after its expressions, which have changed, so they get
    // their old names back by position. Those of other nodes go by name.
    let restored = match &over {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => over.schema().columns(),
        LogicalPlan::Window(_) => {
            let own = over.schema().columns();
            let new = own.len() - window_width(&over);
            let kept = names.columns().into_iter().take(names.fields().len() - window_width(&over));
            kept.chain(own.into_iter().skip(new)).collect()
        }
        _ => names.columns(),
    };
    let outputs = restored.into_iter().zip(names.iter());
    let outputs = outputs.map(|(column, (qualifier, field))| {
        with_name(Expr::Column(column), qualifier, field.name())
    });
    let projection = Projection::try_new(outputs.collect(), over.into())?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

fn window_width(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Window(window) => window.window_expr.len(),
        _ => 0,
    }
}

/// Whether one input has all columns that an expression reads from the node's inputs.
fn resolves(expr: &Expr, input: &LogicalPlan, inputs: &[LogicalPlan]) -> bool {
    let here = |column: &Column| input.schema().has_column(column);
    let elsewhere = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
    expr.column_refs().into_iter().all(here)
        && outer::outer_columns_of(expr)
            .iter()
            .all(|(_, column)| here(column) || !elsewhere(column))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_))
}

/// Whether an expression has a subquery that this rule is concerned with.
fn has_candidate(expr: &Expr) -> bool {
    has_part(expr, is_candidate)
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery(_) | Expr::Exists(_) => true,
        Expr::ScalarSubquery(_) => is_correlated(expr),
        _ => false,
    }
}
