//! The order of joins, and which side of each is the hash table.
//!
//! Where this stands on the road of a query: a physical rule after DataFusion's `JoinSelection`.
//! DataFusion (55.2) joins in the order in which a statement names its tables. Here the joins at
//! the top of a plan, and those below what they leave as it is, become a `graph` of relations;
//! `estimate` says how many rows they have, `search` finds the order in which the fewest rows are
//! joined, and `build` makes its plan. Where too little is known, the plan stays as it was.

mod build;
mod estimate;
mod fallible;
mod graph;
mod search;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use self::build::Builder;
use self::estimate::{Estimate, estimate};
use self::graph::graph;
use self::search::Search;

type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(in crate::sql) struct JoinOrder;

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        match config.optimizer.join_reordering {
            true => ordered(plan, config.execution.target_partitions),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan with its joins in the best order.
fn ordered(plan: Plan, partitions: usize) -> DataFusionResult<Plan> {
    let Some((mut graph, outputs)) = graph(&plan) else { return below(plan, partitions) };
    for relation in &mut graph.relations {
        relation.plan = ordered(Arc::clone(&relation.plan), partitions)?;
    }
    let known: Option<Vec<Estimate>> =
        graph.relations.iter().map(|relation| estimate(relation.plan.as_ref())).collect();
    let order = known.and_then(|known| Search::new(&graph, &known).best());
    match order {
        Some(order) => {
            Builder { graph: &graph, outputs: &outputs, partitions }.plan(&order, &plan.schema())
        }
        None => below(plan, partitions),
    }
}

/// The same operator over inputs with joins in the best order.
fn below(plan: Plan, partitions: usize) -> DataFusionResult<Plan> {
    let inputs = plan.children().into_iter().map(|input| ordered(Arc::clone(input), partitions));
    let inputs = inputs.collect::<DataFusionResult<_>>()?;
    replace_children_if_necessary(plan, inputs)
}
