//! The first rows of an order where they are many.
//!
//! Where this stands on the road of a query: a physical rule, after limits have moved into sorts.
//! DataFusion's sort with a limit (55.2, `TopK`) keeps its rows in memory, in each partition, and
//! cannot spill; and it keeps them in a heap, which takes longer than to sort all once they are
//! millions. Where they would take more than a share of the memory limit, or are that many, one
//! sort of all rows, which spills, and a limit above it stand in its place.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The most rows of a heap: 4 of 5 million took eight times as long as a sort of all.
const HEAP_ROWS: usize = 1 << 20;
/// The share of the memory limit that the rows of a sort may take.
const SHARE: u64 = 4;
/// What a row takes beside its values and its key.
const ROW_BYTES: u64 = 64;
/// About what a value takes whose type does not say so.
const VALUE_BYTES: u64 = 64;

#[derive(Debug)]
pub(in crate::sql) struct SpillLargeLimits {
    /// Bytes that statements may use.
    pub(in crate::sql) memory: u64,
}

impl PhysicalOptimizerRule for SpillLargeLimits {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_down(|node| {
            Ok(match self.sorted_whole(&node) {
                Some(sorted) => Transformed::yes(sorted),
                None => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "spill_large_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl SpillLargeLimits {
    /// What stands for a node that merges or gives the first rows of an order, if these are too
    /// many.
    fn sorted_whole(&self, node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let (sort, rows) = match node.downcast_ref::<SortPreservingMergeExec>() {
            Some(merge) => (merge.input().downcast_ref::<SortExec>()?, merge.fetch()?),
            None => {
                let sort = node.downcast_ref::<SortExec>()?;
                (sort, sort.fetch()?)
            }
        };
        let input = sort.input();
        let partitions = input.output_partitioning().partition_count();
        let merges = node.output_partitioning().partition_count() == 1;
        if sort.fetch().is_none() || !merges {
            return None;
        }
        let held = (rows as u64).saturating_mul(row_bytes(sort)).saturating_mul(partitions as u64);
        if held <= self.memory / SHARE && rows <= HEAP_ROWS {
            return None;
        }
        let input = match partitions {
            1 => Arc::clone(input),
            _ => Arc::new(CoalescePartitionsExec::new(Arc::clone(input))),
        };
        let sorted = Arc::new(SortExec::new(sort.expr().clone(), input));
        Some(Arc::new(GlobalLimitExec::new(sorted, 0, Some(rows))))
    }
}

/// About how many bytes a row of a sort takes.
fn row_bytes(sort: &SortExec) -> u64 {
    let schema: &Schema = &sort.schema();
    let width = |data_type: &DataType| {
        data_type.primitive_width().map_or(VALUE_BYTES, |bytes| bytes as u64)
    };
    let row: u64 = schema.fields().iter().map(|field| width(field.data_type())).sum();
    let key = |by: &datafusion::physical_expr::PhysicalSortExpr| {
        by.expr.data_type(schema).map_or(VALUE_BYTES, |data_type| width(&data_type))
    };
    row + sort.expr().iter().map(key).sum::<u64>() + ROW_BYTES
}
