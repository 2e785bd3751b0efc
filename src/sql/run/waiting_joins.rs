//! Joins that would wait for rows that nobody asks for.
//!
//! Where this stands on the road of a query: one of the last rules of planning. A join that
//! collects its left side and hands a filter down to the right one begins with its right side when
//! all of its partitions have been asked for rows (DataFusion 55.2). Above it, a join by partitions
//! asks for none of a partition whose left side is empty, and the other partitions wait for ever.
//! So joins below such a one hand no filter down, unless something between them asks for all
//! partitions.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{
    HashJoinExec, HashJoinExecBuilder, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::shared::SharedExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The rule; after the one that hands filters down.
#[derive(Debug)]
pub(in crate::sql) struct WaitForNone;

impl PhysicalOptimizerRule for WaitForNone {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        let below = |node: Plan| {
            let join = node.downcast_ref::<HashJoinExec>();
            let by_partition =
                join.is_some_and(|it| *it.partition_mode() == PartitionMode::Partitioned);
            if !by_partition && !node.is::<SortMergeJoinExec>() {
                return Ok(Transformed::no(node));
            }
            let [left, right] = node.children()[..] else { return Ok(Transformed::no(node)) };
            let left = match by_partition {
                // All of it is read in any case.
                true => Transformed::no(Arc::clone(left)),
                false => without_filters(left)?,
            };
            let right = without_filters(right)?;
            if !left.transformed && !right.transformed {
                return Ok(Transformed::no(node));
            }
            let inputs = vec![left.data, right.data];
            Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
        };
        Ok(plan.transform_down(below)?.data)
    }

    fn name(&self) -> &'static str {
        "wait_for_none"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The joins of a plan hand no filters down, as far as partitions are read one by one.
fn without_filters(plan: &Plan) -> DataFusionResult<Transformed<Plan>> {
    Arc::clone(plan).transform_down(|node| {
        let reads_all = node.is::<RepartitionExec>()
            || node.is::<CoalescePartitionsExec>()
            || node.is::<SortPreservingMergeExec>()
            || node.is::<SharedExec>();
        if reads_all {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        let join = node.downcast_ref::<HashJoinExec>().filter(|join| {
            *join.partition_mode() == PartitionMode::CollectLeft
                && !join.dynamic_expressions_produced().is_empty()
        });
        Ok(match join {
            Some(join) => {
                Transformed::yes(HashJoinExecBuilder::from(join).reset_state().build_exec()?)
            }
            None => Transformed::no(node),
        })
    })
}
