//! Which side of a join is sent where, by the bytes that go through one machine's network.
//!
//! The ways are those of the literature (Özsu and Valduriez, Principles of Distributed Database
//! Systems): a small side goes to each machine that has a part of the other one; of two large
//! sides, both are shuffled by the hash of the join keys; and a table that is replicated on all
//! machines is read locally.

use std::sync::Arc;

use datafusion::common::{JoinType, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec,
    NestedLoopJoinExecBuilder, PartitionMode,
};

use crate::sql::run::stops::without_stop;

/// What joins of a kind allow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Each machine may have all rows of the left side, and its part of the right one.
    pub(super) left_to_each: bool,
    /// The same the other way round.
    pub(super) right_to_each: bool,
    /// Rows may go to the machine of their keys' hash.
    pub(super) shuffle: bool,
}

impl Allowed {
    /// `None` if the operator is no join, or its kind needs all rows on one machine.
    pub(super) fn of(node: &dyn ExecutionPlan) -> Option<Allowed> {
        let of_type = |kind: JoinType, shuffle| Allowed {
            left_to_each: matches!(
                kind,
                JoinType::Inner
                    | JoinType::Right
                    | JoinType::RightSemi
                    | JoinType::RightAnti
                    | JoinType::RightMark
            ),
            right_to_each: matches!(
                kind,
                JoinType::Inner
                    | JoinType::Left
                    | JoinType::LeftSemi
                    | JoinType::LeftAnti
                    | JoinType::LeftMark
            ),
            shuffle,
        };
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            return (!join.null_aware).then(|| of_type(*join.join_type(), true));
        }
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            return Some(of_type(*join.join_type(), false));
        }
        node.is::<CrossJoinExec>().then(|| of_type(JoinType::Inner, false))
    }
}

/// Where a side of a join is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) at: At,
    /// About how many bytes its rows have.
    pub(super) bytes: f64,
    /// Whether its rows are on the machine of their keys' hash already.
    pub(super) is_hashed: bool,
}

/// See [`Side`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// On the machine that is asked, and nowhere else.
    Here,
    /// On one machine, and any other could do the same.
    Anywhere,
    /// This many machines have a part each.
    Parts(usize),
    /// Each machine that has a part of the other side has all rows.
    Copies,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Both sides come to the machine that is asked.
    Gather,
    LeftToEach,
    RightToEach,
    Shuffle,
}

/// The cheapest way. What has no more bytes than `least` is gathered.
pub(super) fn way(allowed: Allowed, left: Side, right: Side, least: f64) -> Way {
    let to_each = |side: Side, other: At| match (side.at, other) {
        (_, At::Here | At::Anywhere | At::Copies) | (At::Here, _) => f64::INFINITY,
        (At::Copies, At::Parts(_)) => 0.0,
        (At::Parts(_), At::Parts(_)) => side.bytes,
        (At::Anywhere, At::Parts(machines)) => side.bytes * machines as f64,
    };
    let gathered = |side: Side| if side.at == At::Here { 0.0 } else { side.bytes };
    let shuffled = |side: Side| match side.at {
        At::Parts(_) if side.is_hashed => 0.0,
        At::Here => f64::INFINITY,
        At::Anywhere | At::Copies => side.bytes,
        At::Parts(machines) => side.bytes / machines as f64,
    };
    let no = |is_allowed, cost: f64| if is_allowed { cost } else { f64::INFINITY };
    let ways = [
        (Way::LeftToEach, no(allowed.left_to_each, to_each(left, right.at))),
        (Way::RightToEach, no(allowed.right_to_each, to_each(right, left.at))),
        (Way::Shuffle, no(allowed.shuffle, shuffled(left) + shuffled(right))),
    ];
    let all = gathered(left) + gathered(right);
    let best = ways.into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
    match best {
        Some((way, 0.0)) => way,
        Some((way, cost)) if cost < all && all > least => way,
        _ => Way::Gather,
    }
}

/// The join of two other sides, made anew: it hands no filter to the side that it had, and each
/// machine watches for itself whether its statement is cancelled.
pub(super) fn rebuilt(
    node: &Arc<dyn ExecutionPlan>,
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    mode: PartitionMode,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return HashJoinExecBuilder::from(join)
            .reset_state()
            .with_filter(join.filter().map(without_stop))
            .with_partition_mode(mode)
            .with_new_children(vec![left, right])?
            .recompute_properties()
            .build_exec();
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(join.filter().map(without_stop));
        return Ok(Arc::new(join.build()?));
    }
    match node.is::<CrossJoinExec>() {
        true => Ok(Arc::new(CrossJoinExec::new(left, right))),
        false => internal_err!("{} is no join that runs on other machines", node.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Allowed = Allowed { left_to_each: true, right_to_each: true, shuffle: true };

    fn side(at: At, bytes: f64) -> Side {
        Side { at, bytes, is_hashed: false }
    }

    #[test]
    fn small_sides_go_to_each_and_large_ones_are_shuffled() {
        let (parts, far) = (At::Parts(4), 1e3);
        let of = |left, right| way(ANY, side(parts, left), side(parts, right), far);
        assert_eq!(of(1e6, 1e9), Way::LeftToEach);
        assert_eq!(of(1e9, 1e6), Way::RightToEach);
        assert_eq!(of(1e9, 1e9), Way::Shuffle);
        assert_eq!(of(1e2, 1e2), Way::Gather);
    }

    #[test]
    fn rows_that_were_shuffled_stay() {
        let (parts, hashed) = (At::Parts(4), Side { is_hashed: true, ..side(At::Parts(4), 1e9) });
        assert_eq!(way(ANY, hashed, side(parts, 1e8), 1e3), Way::Shuffle);
        assert_eq!(way(ANY, hashed, hashed, 1e12), Way::Shuffle);
        assert_eq!(way(ANY, hashed, side(parts, 10.0), 1e12), Way::Gather);
    }

    #[test]
    fn copies_go_nowhere_and_what_is_here_stays() {
        let (copies, parts) = (side(At::Copies, 1e9), side(At::Parts(4), 10.0));
        assert_eq!(way(ANY, copies, parts, 1e6), Way::LeftToEach);
        assert_eq!(way(ANY, parts, copies, 1e6), Way::RightToEach);
        assert_eq!(way(ANY, side(At::Here, 10.0), side(At::Parts(4), 1e9), 0.0), Way::Gather);
        let left_only = Allowed { right_to_each: false, shuffle: false, ..ANY };
        assert_eq!(
            way(left_only, side(At::Parts(4), 1e9), side(At::Copies, 1.0), 0.0),
            Way::Gather
        );
    }
}
