//! Keeps the first groups of an order while grouping, unless keys may differ from themselves.
//!
//! DataFusion's physical rule `LimitAggregation` (55.2) makes an aggregate keep only the groups
//! that a limit above it lets through. It looks groups up with `==`, so that a NaN is never found
//! again and a thread panics. Where floats are involved, the aggregate keeps all groups.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use crate::sql::rules::wrapped::{self, PhysicalRule};

/// Wraps the rule, so that it applies only where no floats are involved.
pub(in crate::sql) fn limit_exact_keys(rule: PhysicalRule) -> PhysicalRule {
    wrapped::physical(rule, |rule, plan, config| {
        let limited = rule.optimize(Arc::clone(&plan), config)?;
        let has_floats = limited.exists(|node| {
            let aggregate = node
                .downcast_ref::<AggregateExec>()
                .filter(|known| known.limit_options().is_some());
            Ok(aggregate.is_some_and(|known| {
                known.schema().fields().iter().any(|field| field.data_type().is_floating())
            }))
        })?;
        Ok(if has_floats { plan } else { limited })
    })
}
