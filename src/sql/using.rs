//! The columns that outer joins with `USING (x)` (and NATURAL ones) make of two.
//!
//! Where this stands on the road of a query: an analyzer rule, before types are coerced. DataFusion (55.2) takes the left side's
//! column for `x` alone, which is null where a row of the right side has no match, and for `*` that of the table whose name
//! comes first in the alphabet. It should be the left side's of a LEFT JOIN, the right side's of a RIGHT JOIN, and of a FULL JOIN
//! the first of both that is not null. What is written as `a.x` has its place in the statement noted in the plan, what is written as `x` or comes
//! of a `*` has none: only the latter are the column of both.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, JoinType, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, Join, LogicalPlan, Projection, SortExpr, when};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(super) struct UsingBoth;

impl AnalyzerRule for UsingBoth {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found |= matches!(node, LogicalPlan::Join(join) if is_merging(join));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if found { closed(plan) } else { Ok(plan) }
    }

    fn name(&self) -> &'static str {
        "using_both"
    }
}

/// A column of the left side, what is its column of the right side, and the column of both.
struct Merged {
    left: Column,
    right: Column,
    both: Column,
}

fn is_merging(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using
        && matches!(join.join_type, JoinType::Left | JoinType::Right | JoinType::Full)
}

/// A plan with the columns that it had.
fn closed(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let columns = plan.schema().columns();
    let (plan, merged) = open(plan)?;
    if merged.is_empty() {
        return Ok(plan);
    }
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan.into())?))
}

/// A plan that may have more columns, those of both sides.
fn open(plan: LogicalPlan) -> DataFusionResult<(LogicalPlan, Vec<Merged>)> {
    let within = |node: LogicalPlan| match node {
        LogicalPlan::Subquery(mut subquery) => {
            subquery.subquery = Arc::new(closed(subquery.subquery.as_ref().clone())?);
            Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
        }
        other => Ok(Transformed::no(other)),
    };
    let plan = plan.map_subqueries(within)?.data;
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
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::On(_))
    );
    let (mut merged, mut inputs) = (Vec::new(), Vec::new());
    for input in plan.inputs() {
        if passes || selects {
            let (input, more) = open(input.clone())?;
            merged.extend(more);
            inputs.push(input);
        } else {
            inputs.push(closed(input.clone())?);
        }
    }
    if inputs.is_empty() {
        return Ok((plan, merged));
    }
    if !passes && !selects {
        let mut inputs = inputs.into_iter();
        let replaced = plan.map_children(|input| Ok(Transformed::yes(inputs.next().unwrap_or(input))))?;
        return Ok((replaced.data, merged));
    }
    let original = match &plan {
        LogicalPlan::Join(join) if is_merging(join) => Some(join.on.clone()),
        _ => None,
    };
    let plan = with_both(plan, inputs, &merged)?;
    match (plan, original) {
        (LogicalPlan::Join(join), Some(original)) => {
            let (plan, more) = merging(join, &original)?;
            merged.extend(more);
            Ok((plan, merged))
        }
        (plan, _) if selects => Ok((plan, Vec::new())),
        (plan, _) => Ok((plan, merged)),
    }
}

/// A node over new inputs, whose expressions read the columns of both sides.
fn with_both(plan: LogicalPlan, inputs: Vec<LogicalPlan>, merged: &[Merged]) -> DataFusionResult<LogicalPlan> {
    let exprs = plan.expressions();
    let of_star: Vec<(&Merged, Column)> =
        merged.iter().filter_map(|one| Some((one, kept_of_star(&plan, &exprs, one, merged)?))).collect();
    let is_of_star = |one: &Merged| of_star.iter().any(|(starred, _)| starred.both == one.both);
    let applicable: Vec<&Merged> =
        merged.iter().filter(|one| !is_of_star(one) && !names_one_side(&plan, &exprs, one, merged)).collect();
    let replace = |expr: Expr| match &expr {
        Expr::Column(column) if column.spans().0.is_empty() => {
            let merged = applicable.iter().copied().find(|merged| merged.left == *column);
            let merged = merged.or_else(|| of_star.iter().rfind(|(_, kept)| kept == column).map(|(one, _)| *one));
            Ok(merged.map_or(Transformed::no(expr.clone()), |merged: &Merged| {
                Transformed::yes(Expr::Column(merged.both.clone()))
            }))
        }
        _ => Ok(Transformed::no(expr)),
    };
    let named = |expr: Expr| {
        let name = expr.qualified_name();
        let replaced = expr.transform_up(replace)?;
        Ok::<_, DataFusionError>(match !replaced.transformed || matches!(replaced.data, Expr::Alias(_)) {
            true => replaced.data,
            false => replaced.data.alias_qualified(name.0, name.1),
        })
    };
    let unnamed = |expr: Expr| Ok::<_, DataFusionError>(expr.transform_up(replace)?.data);
    match plan {
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let keys = on.on_expr.into_iter().map(unnamed).collect::<DataFusionResult<_>>()?;
            let selected = on.select_expr.into_iter().map(named).collect::<DataFusionResult<_>>()?;
            let order = |key: SortExpr| Ok(SortExpr { expr: unnamed(key.expr)?, ..key });
            let sort = on.sort_expr.map(|keys| keys.into_iter().map(order).collect::<DataFusionResult<_>>());
            let [input] = <[LogicalPlan; 1]>::try_from(inputs)
                .map_err(|inputs| plan_datafusion_err!("DISTINCT ON over {} inputs", inputs.len()))?;
            let on = DistinctOn::try_new(keys, selected, sort.transpose()?, input.into())?;
            Ok(LogicalPlan::Distinct(Distinct::On(on)))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let each = |expr: Expr| match expr {
                // Keys have names, a set of them has none.
                Expr::GroupingSet(_) => Ok(expr.map_children(|key| Ok(Transformed::yes(named(key)?)))?.data),
                other => named(other),
            };
            plan.with_new_exprs(exprs.into_iter().map(each).collect::<DataFusionResult<_>>()?, inputs)
        }
        _ => plan.with_new_exprs(exprs.into_iter().map(unnamed).collect::<DataFusionResult<_>>()?, inputs),
    }
}

/// What a SELECT list is chosen from.
fn selected_from(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => Some(&projection.input),
        LogicalPlan::Distinct(Distinct::On(on)) => Some(&on.input),
        _ => None,
    }
}

/// Of a SELECT list that comes of `*`, the one of both columns that DataFusion has kept: that of the table whose name comes first in
/// the alphabet.
fn kept_of_star(plan: &LogicalPlan, exprs: &[Expr], one: &Merged, all: &[Merged]) -> Option<Column> {
    let input = selected_from(plan)?;
    let listed = |column: &Column| {
        exprs
            .iter()
            .any(|expr| matches!(expr, Expr::Column(known) if known == column && known.spans().0.is_empty()))
    };
    let is_merged = |column: &Column| {
        all.iter().any(|merged| merged.left == *column || merged.right == *column || merged.both == *column)
    };
    let columns = input.schema().columns();
    if !columns.iter().all(|column| is_merged(column) || listed(column)) {
        return None;
    }
    // Of three tables that are joined by one column, the first's stands in both joins.
    let same = all.iter().filter(|merged| merged.left == one.left).map(|merged| &merged.right);
    let mut kept = same.chain([&one.left]).filter(|column| listed(column));
    let first = kept.next()?;
    kept.next().is_none().then(|| first.clone())
}

/// Whether the list of a SELECT has the columns of one side as `a.*`. Of a table of nothing but keys, this cannot be told from
/// the names of the keys, as which it counts.
fn names_one_side(plan: &LogicalPlan, exprs: &[Expr], merged: &Merged, all: &[Merged]) -> bool {
    let Some(input) = selected_from(plan) else { return false };
    let listed = |column: &Column| {
        let same =
            |expr: &Expr| matches!(expr, Expr::Column(known) if known == column && known.spans().0.is_empty());
        exprs.iter().any(same)
    };
    if listed(&merged.right) {
        return true;
    }
    let columns = input.schema().columns();
    let (own, others): (Vec<&Column>, Vec<&Column>) =
        columns.iter().partition(|column| column.relation == merged.left.relation);
    let mut others = others.into_iter().filter(|column| **column != merged.right);
    let is_key = |column: &&Column| all.iter().any(|merged| merged.left == **column);
    !own.iter().all(is_key) && own.len() > 1 && own.iter().all(|column| listed(column)) && !others.all(listed)
}

/// A join, and the columns of both of its sides beside its own.
fn merging(join: Join, original: &[(Expr, Expr)]) -> DataFusionResult<(LogicalPlan, Vec<Merged>)> {
    let mut outputs: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let mut merged = Vec::new();
    for ((left, right), (left_before, right_before)) in join.on.iter().zip(original) {
        let (Some(left_column), Some(right_column)) = (column_of(left_before), column_of(right_before)) else {
            continue;
        };
        let both = match join.join_type {
            JoinType::Left => left.clone(),
            JoinType::Right => right.clone(),
            _ => when(left.clone().is_not_null(), left.clone()).otherwise(right.clone())?,
        };
        let name = super::decorrelate::fresh("both");
        outputs.push(both.alias(&name));
        merged.push(Merged { left: left_column, right: right_column, both: Column::new_unqualified(name) });
    }
    let plan = LogicalPlan::Projection(Projection::try_new(outputs, LogicalPlan::Join(join).into())?);
    Ok((plan, merged))
}

/// The column that is compared, whatever type it is brought to.
fn column_of(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Column(column) => Some(column.clone()),
        Expr::Cast(cast) => column_of(&cast.expr),
        _ => None,
    }
}
