//! Joins and groups whose rows are on one machine already: each machine does with its rows what a
//! single one would do with all.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion_distributed::DistributedLeafExec;

use super::sites::{Keys, Placed, Site};
use crate::sql::run::homes::Home;
use crate::sql::run::task::RemoteExec;

type Plan = Arc<dyn ExecutionPlan>;

/// Whether all rows of the right side that could match a row of the left side are on its machine.
pub(super) fn are_colocated(
    (left, by_left): (&Placed, &Keys),
    (right, by_right): (&Placed, &Keys),
) -> bool {
    match (&left.site, &right.site) {
        (Site::Parts(left), Site::Parts(right)) if left == right => {}
        _ => return false,
    }
    let (of_left, of_right) = (homes(&left.plan), homes(&right.plan));
    by_left.iter().zip(by_right).any(|(left, right)| {
        let (Some(left), Some(right)) = (position(left), position(right)) else { return false };
        let of_left = of_left.iter().filter(|home| home.column == left);
        of_left
            .clone()
            .any(|one| of_right.iter().any(|other| other.column == right && one.agrees(other)))
    })
}

/// Whether all rows of a group are on one machine.
pub(super) fn has_whole_groups(input: &Placed, keys: &Keys) -> bool {
    let is_key = |home: &Home| keys.iter().any(|key| position(key) == Some(home.column));
    matches!(input.site, Site::Parts(_)) && homes(&input.plan).iter().any(is_key)
}

/// Where the rows of an operator are, by the values of its columns.
fn homes(plan: &Plan) -> Vec<Home> {
    if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
        let first = leaf.variants().first().and_then(|part| part.downcast_ref::<RemoteExec>());
        return first.map(|part| part.homes().to_vec()).unwrap_or_default();
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_join(join);
    }
    let [input] = plan.children()[..] else { return Vec::new() };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let columns = projection.expr().iter().map(|one| position(&one.expr));
        return renumbered(&homes(input), columns);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let keys = aggregate.group_expr();
        let columns = keys.expr().iter().map(|(key, _)| position(key));
        return if keys.is_single() { renumbered(&homes(input), columns) } else { Vec::new() };
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return projected(homes(input), filter.projection().as_deref());
    }
    let passes = plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>();
    if passes { homes(input) } else { Vec::new() }
}

/// A side that is null where it has no row says nothing of where the rows are.
fn of_join(join: &HashJoinExec) -> Vec<Home> {
    let (left, right) = (join.left(), join.right());
    let columns_of_left = left.schema().fields().len();
    let behind_left = |home: &Home| home.at(home.column + columns_of_left);
    let mut all = match join.join_type() {
        JoinType::Inner
        | JoinType::Left
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark => homes(left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => homes(right),
        JoinType::Right | JoinType::Full => Vec::new(),
    };
    if matches!(join.join_type(), JoinType::Inner | JoinType::Right) {
        all.extend(homes(right).iter().map(behind_left));
    }
    projected(all, join.projection.as_deref())
}

/// Homes of an operator that has some columns of its input.
fn renumbered(homes: &[Home], columns: impl Iterator<Item = Option<usize>>) -> Vec<Home> {
    let all = columns.enumerate().filter_map(|(at, column)| Some((at, column?)));
    all.flat_map(|(at, column)| {
        homes.iter().filter(move |home| home.column == column).map(move |home| home.at(at))
    })
    .collect()
}

fn projected(homes: Vec<Home>, projection: Option<&[usize]>) -> Vec<Home> {
    match projection {
        Some(columns) => renumbered(&homes, columns.iter().copied().map(Some)),
        None => homes,
    }
}

fn position(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}
