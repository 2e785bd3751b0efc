//! What operators of ours over one input have in common.

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

pub(in crate::sql) use unary_methods;
