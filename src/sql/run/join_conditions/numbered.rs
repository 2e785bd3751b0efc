//! Rows with numbers, by which they are told from others that are like them.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{EmissionType, ExecutionPlanProperties};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::sql::run::generate::{Output, generate};
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// The properties of rows that come as those of an input do.
pub(super) fn properties_like(input: &Plan, rows: EquivalenceProperties) -> Arc<PlanProperties> {
    let partitioning = input.output_partitioning().clone();
    let emission = EmissionType::Incremental;
    Arc::new(PlanProperties::new(rows, partitioning, emission, input.boundedness()))
}

/// Numbers rows, in one more column: no two of any partitions alike.
#[derive(Debug)]
pub(super) struct NumberedExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl NumberedExec {
    pub(super) fn new(input: Plan) -> NumberedExec {
        let number = Arc::new(Field::new("#row", DataType::UInt64, false));
        let fields = input.schema().fields().iter().cloned().chain([number]).collect::<Vec<_>>();
        let orders = input.equivalence_properties().oeq_class().iter().cloned();
        let schema = Arc::new(Schema::new(fields));
        let rows = EquivalenceProperties::new_with_orderings(schema, orders);
        let properties = properties_like(&input, rows);
        NumberedExec { input, properties }
    }

    fn over(&self, input: Plan) -> DataFusionResult<NumberedExec> {
        Ok(NumberedExec::new(input))
    }
}

impl DisplayAs for NumberedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for NumberedExec {
    fn name(&self) -> &'static str {
        "NumberedExec"
    }

    unary_methods!(no expressions);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let mut rows = self.input.execute(partition, context)?;
        let schema = self.schema();
        Ok(generate(self.schema(), |output: Output| async move {
            let mut next = (partition as u64) << ROWS_BITS;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                let end = next + batch.num_rows() as u64;
                let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..end));
                next = end;
                let columns = batch.columns().iter().cloned().chain([numbers]).collect();
                let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
                output.emit(batch.map_err(DataFusionError::from)?).await;
            }
            Ok(())
        }))
    }
}

/// The bits of a number that count the rows of a partition.
const ROWS_BITS: u32 = 44;
