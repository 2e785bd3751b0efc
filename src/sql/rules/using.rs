//! Computes the merged columns of outer joins with `USING (x)`, and of NATURAL ones.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion
//! (55.2) takes the left side's column for `x`, which is null where a row of the right side has no
//! match. It should be the left side's in a LEFT JOIN, the right side's in a RIGHT JOIN, and in a
//! FULL JOIN the first of the two that is not null. A column that is written as `a.x` carries its
//! position in the statement, one that is written as `x` or comes from a `*` (`wildcards`) carries
//! none: only the latter means the merged column.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinConstraint, JoinType, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, Join, LogicalPlan, Projection, SortExpr, when,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::rules::column_names::unique_name;
use crate::sql::walks::{any_node, rewrite_plan, rewrite_up};

#[derive(Debug)]
pub(in crate::sql) struct UsingBoth;

impl AnalyzerRule for UsingBoth {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let has = |is_wanted: fn(&Join) -> bool| {
            any_node(&plan, |node| matches!(node, LogicalPlan::Join(join) if is_wanted(join)))
        };
        match (has(is_merging), has(is_using)) {
            (true, _) => with_plain_keys(with_same_columns(plan)?),
            (false, true) => with_plain_keys(plan),
            (false, false) => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "using_both"
    }
}

/// The left and right side's column of a USING, and the column merged from both.
struct Merged {
    left: Column,
    right: Column,
    both: Column,
}

fn is_using(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using
}

fn is_merging(join: &Join) -> bool {
    is_using(join) && matches!(join.join_type, JoinType::Left | JoinType::Right | JoinType::Full)
}

/// Makes `USING (x)` the condition `a.x = b.x`. Rules add computed keys to joins, and other rules
/// fail where a USING has one ("Invalid join key").
fn with_plain_keys(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let plan = rewrite_plan(plan, |node| match node {
        LogicalPlan::Join(join) if is_using(&join) => {
            let join = Join { join_constraint: JoinConstraint::On, ..join };
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(plan.data)
}

/// Rewrites a plan, which keeps its columns.
fn with_same_columns(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let columns = plan.schema().columns();
    let (plan, merged) = with_merged_columns(plan)?;
    if merged.is_empty() {
        return Ok(plan);
    }
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan.into())?))
}

/// Rewrites a plan, which may get more columns: those merged from both sides.
fn with_merged_columns(plan: LogicalPlan) -> DataFusionResult<(LogicalPlan, Vec<Merged>)> {
    let in_subquery = |node: LogicalPlan| match node {
        LogicalPlan::Subquery(mut subquery) => {
            subquery.subquery = Arc::new(with_same_columns(subquery.subquery.as_ref().clone())?);
            Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
        }
        other => Ok(Transformed::no(other)),
    };
    let plan = plan.map_subqueries(in_subquery)?.data;
    let passes = matches!(
        plan,
        LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Join(_)
    );
    let selects = matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(Distinct::On(_))
    );
    let (mut merged, mut inputs) = (Vec::new(), Vec::new());
    for input in plan.inputs() {
        if passes || selects {
            let (input, more) = with_merged_columns(input.clone())?;
            merged.extend(more);
            inputs.push(input);
        } else {
            inputs.push(with_same_columns(input.clone())?);
        }
    }
    if inputs.is_empty() {
        return Ok((plan, merged));
    }
    if !passes && !selects {
        let mut inputs = inputs.into_iter();
        let replaced =
            plan.map_children(|input| Ok(Transformed::yes(inputs.next().unwrap_or(input))))?;
        return Ok((replaced.data, merged));
    }
    let original = match &plan {
        LogicalPlan::Join(join) if is_merging(join) => Some(join.on.clone()),
        _ => None,
    };
    let plan = with_both(plan, inputs, &merged)?;
    match (plan, original) {
        (LogicalPlan::Join(join), Some(original)) => {
            let (plan, more) = merged_join(join, &original)?;
            merged.extend(more);
            Ok((plan, merged))
        }
        (plan, _) if selects => Ok((plan, Vec::new())),
        (plan, _) => Ok((plan, merged)),
    }
}

/// A node over new inputs, whose expressions read the merged columns.
fn with_both(
    plan: LogicalPlan,
    inputs: Vec<LogicalPlan>,
    merged: &[Merged],
) -> DataFusionResult<LogicalPlan> {
    let exprs = plan.expressions();
    let applicable: Vec<&Merged> =
        merged.iter().filter(|one| !has_both_sides(&plan, &exprs, one)).collect();
    let replace = |expr: Expr| match &expr {
        Expr::Column(column) if column.spans().0.is_empty() => {
            // Where three tables are joined by one column, the last join has it merged from all.
            let merged = applicable.iter().rfind(|merged| merged.left == *column);
            Ok(merged.map_or(Transformed::no(expr.clone()), |merged| {
                Transformed::yes(Expr::Column(merged.both.clone()))
            }))
        }
        _ => Ok(Transformed::no(expr)),
    };
    let named = |expr: Expr| {
        let name = expr.qualified_name();
        let replaced = rewrite_up(expr, replace)?;
        Ok::<_, DataFusionError>(
            match !replaced.transformed || matches!(replaced.data, Expr::Alias(_)) {
                true => replaced.data,
                false => replaced.data.alias_qualified(name.0, name.1),
            },
        )
    };
    let unnamed = |expr: Expr| Ok::<_, DataFusionError>(rewrite_up(expr, replace)?.data);
    match plan {
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let keys = on.on_expr.into_iter().map(unnamed).collect::<DataFusionResult<_>>()?;
            let selected =
                on.select_expr.into_iter().map(named).collect::<DataFusionResult<_>>()?;
            let order = |key: SortExpr| Ok(SortExpr { expr: unnamed(key.expr)?, ..key });
            let sort = on
                .sort_expr
                .map(|keys| keys.into_iter().map(order).collect::<DataFusionResult<_>>());
            let [input] = <[LogicalPlan; 1]>::try_from(inputs).map_err(|inputs| {
                plan_datafusion_err!("DISTINCT ON over {} inputs", inputs.len())
            })?;
            let on = DistinctOn::try_new(keys, selected, sort.transpose()?, input.into())?;
            Ok(LogicalPlan::Distinct(Distinct::On(on)))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let each = |expr: Expr| match expr {
                // Grouping keys have names, a grouping set has none.
                Expr::GroupingSet(_) => {
                    Ok(expr.map_children(|key| Ok(Transformed::yes(named(key)?)))?.data)
                }
                other => named(other),
            };
            plan.with_new_exprs(
                exprs.into_iter().map(each).collect::<DataFusionResult<_>>()?,
                inputs,
            )
        }
        _ => plan.with_new_exprs(
            exprs.into_iter().map(unnamed).collect::<DataFusionResult<_>>()?,
            inputs,
        ),
    }
}

/// Whether a projection has the right side's column as well, without a position in the statement.
/// No SELECT list has that: such a projection passes on what both sides have.
fn has_both_sides(plan: &LogicalPlan, exprs: &[Expr], merged: &Merged) -> bool {
    let is_right = |expr: &Expr| match expr {
        Expr::Column(column) => *column == merged.right && column.spans().0.is_empty(),
        _ => false,
    };
    matches!(plan, LogicalPlan::Projection(_)) && exprs.iter().any(is_right)
}

/// A join with its merged columns beside its own.
fn merged_join(
    join: Join,
    original: &[(Expr, Expr)],
) -> DataFusionResult<(LogicalPlan, Vec<Merged>)> {
    let mut outputs: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let mut merged = Vec::new();
    for ((left, right), (left_before, right_before)) in join.on.iter().zip(original) {
        let (Some(left_column), Some(right_column)) =
            (column_of(left_before), column_of(right_before))
        else {
            continue;
        };
        let both = match join.join_type {
            JoinType::Left => left.clone(),
            JoinType::Right => right.clone(),
            _ => when(left.clone().is_not_null(), left.clone()).otherwise(right.clone())?,
        };
        let name = unique_name("both");
        outputs.push(both.alias(&name));
        merged.push(Merged {
            left: left_column,
            right: right_column,
            both: Column::new_unqualified(name),
        });
    }
    let plan =
        LogicalPlan::Projection(Projection::try_new(outputs, LogicalPlan::Join(join).into())?);
    Ok((plan, merged))
}

/// The column that is compared, below any cast.
fn column_of(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Column(column) => Some(column.clone()),
        Expr::Cast(cast) => column_of(&cast.expr),
        _ => None,
    }
}
