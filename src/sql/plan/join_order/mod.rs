//! The order of joins, and which side of each is the hash table.
//!
//! Where this stands on the road of a query: a physical rule in place of DataFusion's
//! `JoinSelection`. DataFusion (55.2) joins in the order in which a statement names its tables.
//! Here the joins at the top of a plan, and those below what they leave as it is, become a `graph`
//! of relations; `estimate` says how many rows they have, and `skew` how frequent few keys are;
//! `search` finds the order in which the fewest rows are joined, and `build` makes its plan. Where
//! too little is known, the plan stays as it was, and `selection` has DataFusion's rule choose the
//! sides.

mod build;
mod estimate;
mod fallible;
mod graph;
mod search;
mod selection;
mod skew;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use self::build::{Builder, SMALL};
use self::estimate::{Estimate, estimate};
use self::graph::{graph, is_join};
use self::search::Search;
use self::selection::selected;
use self::skew::skews;
use crate::sql::rules::wrapped::PhysicalRule;

type Plan = Arc<dyn ExecutionPlan>;

/// The rule; the field is DataFusion's, for the joins that keep their place.
#[derive(Debug)]
pub(in crate::sql) struct JoinOrder(pub(in crate::sql) PhysicalRule);

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> DataFusionResult<Plan> {
        match config.optimizer.join_reordering {
            true => Ordering { selection: &self.0, config }.ordered(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &'static str {
        "join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Ordering<'a> {
    selection: &'a PhysicalRule,
    config: &'a ConfigOptions,
}

impl Ordering<'_> {
    /// A plan with its joins in the best order.
    fn ordered(&self, plan: Plan) -> DataFusionResult<Plan> {
        let Some((mut graph, outputs)) = graph(&plan) else { return self.below(plan) };
        for relation in &mut graph.relations {
            relation.plan = self.ordered(Arc::clone(&relation.plan))?;
        }
        let known: Option<Vec<Estimate>> =
            graph.relations.iter().map(|relation| estimate(relation.plan.as_ref())).collect();
        let order = known.and_then(|known| {
            let skews = skews(&graph, &known);
            Search::new(&graph, &known, &skews).best()
        });
        let partitions = self.config.execution.target_partitions;
        match order {
            Some(order) => {
                let least = self.config.optimizer.hash_join_single_partition_threshold_rows;
                let (outputs, small) = (&outputs, SMALL.min(least as f64));
                let builder = Builder { graph: &graph, outputs, partitions, small };
                builder.plan(&order, &plan.schema())
            }
            None => self.below(plan),
        }
    }

    /// The same operator over inputs with joins in the best order.
    fn below(&self, plan: Plan) -> DataFusionResult<Plan> {
        let is_join = is_join(&plan);
        let inputs = plan.children().into_iter().map(|input| self.ordered(Arc::clone(input)));
        let inputs = inputs.collect::<DataFusionResult<_>>()?;
        let plan = replace_children_if_necessary(plan, inputs)?;
        if is_join { selected(plan, self.selection, self.config) } else { Ok(plan) }
    }
}
