//! What operators of ours over one input have in common, and those in the place of DataFusion's.

/// The methods of an `ExecutionPlan` that are the same for all operators with the fields `input`
/// and `properties` and a method `over`, which is the operator over another input. More threads
/// would share no work of theirs. With `no expressions`, also that of those which have none.
macro_rules! unary_methods {
    () => {
        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.input]
        }

        fn with_new_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
            match <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) {
                Ok([input]) => Ok(Arc::new(self.over(input)?)),
                Err(children) => datafusion::common::internal_err!(
                    "{} over {} inputs",
                    self.name(),
                    children.len()
                ),
            }
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }
    };
    (no expressions) => {
        unary_methods!();

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
        ) -> DataFusionResult<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }
    };
}

/// The methods of an `ExecutionPlan` that an operator with the fields `replaced` and `metrics` has
/// from DataFusion's operator in whose place it stands, which knows the properties of the rows.
macro_rules! replacing_methods {
    () => {
        fn properties(&self) -> &Arc<PlanProperties> {
            self.replaced.properties()
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            self.replaced.children()
        }

        fn apply_expressions(
            &self,
            visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
        ) -> DataFusionResult<TreeNodeRecursion> {
            self.replaced.apply_expressions(visit)
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            self.replaced.maintains_input_order()
        }

        fn input_distribution_requirements(&self) -> InputDistributionRequirements {
            self.replaced.input_distribution_requirements()
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            self.replaced.benefits_from_input_partitioning()
        }

        fn metrics(&self) -> Option<MetricsSet> {
            Some(self.metrics.clone_inner())
        }

        fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
            self.replaced.child_stats_requests(partition)
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[Arc<Statistics>],
            arguments: &StatisticsArgs,
        ) -> DataFusionResult<Arc<Statistics>> {
            self.replaced.statistics_from_inputs(inputs, arguments)
        }
    };
}

pub(in crate::sql) use replacing_methods;
pub(in crate::sql) use unary_methods;
