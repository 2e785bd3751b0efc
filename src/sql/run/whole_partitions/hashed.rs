//! Windows with one value for each partition, over rows in any order.
//!
//! Rows get the number of their partition as for GROUP BY, and wait until all have come: with the
//! number as one more column, in memory, or in a file once there is no room.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use futures::StreamExt;

use super::aggregated::{Values, emit_copies};
use super::rows::Out;
use crate::error::Result;
use crate::sql::run::coalesce::compact;
use crate::sql::run::generate::Output;
use crate::sql::run::held::Held;

/// Partitions whose rows come in any order, and all have the same values.
pub(super) struct Hashed {
    pub(super) windows: Vec<Arc<dyn WindowExpr>>,
    /// One for each window.
    pub(super) functions: Vec<Box<dyn GroupsAccumulator>>,
    /// None for the only partition of windows that have no keys.
    pub(super) partitions: Option<Box<dyn GroupValues>>,
    /// The memory of the functions and the partitions.
    pub(super) state: MemoryReservation,
    /// Rows as [`numbered`].
    pub(super) held: Held,
    pub(super) out: Out,
}

/// What keeps the keys of partitions.
pub(super) fn partitions_of(
    keys: &[Arc<dyn PhysicalExpr>],
    schema: &Schema,
) -> DataFusionResult<Option<Box<dyn GroupValues>>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let field = |(at, key): (usize, &Arc<dyn PhysicalExpr>)| {
        Ok(Field::new(at.to_string(), key.data_type(schema)?, true))
    };
    let fields = keys.iter().enumerate().map(field).collect::<DataFusionResult<Vec<_>>>()?;
    new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None).map(Some)
}

/// The columns of rows, and the number of their partition.
pub(super) fn numbered(schema: &Schema) -> SchemaRef {
    let number = Arc::new(Field::new("#partition", DataType::UInt32, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
}

impl Hashed {
    pub(super) async fn run(
        mut self,
        mut rows: SendableRecordBatchStream,
        to: Output,
    ) -> Result<()> {
        let schema = numbered(&rows.schema());
        let mut is_empty = true;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            is_empty = false;
            let numbers = self.update(&batch)?;
            let batch = compact(batch, self.out.small, usize::MAX)?;
            let columns = batch.columns().iter().cloned().chain([numbers]).collect();
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
            self.held.push_or_spill(batch.map_err(datafusion::error::DataFusionError::from)?)?;
        }
        // The operators below, and the keys, free their memory first.
        drop(rows);
        let Hashed { partitions, mut functions, mut held, out, state, .. } = self;
        drop(partitions);
        if is_empty {
            // Some functions cannot say the values of no partitions.
            return Ok(());
        }
        let values = functions.iter_mut().map(|function| function.evaluate(EmitTo::All));
        let values = values.collect::<DataFusionResult<Vec<_>>>()?;
        drop(functions);
        let bytes = values.iter().map(|values| values.get_array_memory_size()).sum();
        if state.try_resize(bytes).is_err() {
            held.spill()?;
            state.try_resize(bytes)?;
        }
        let values = Values::new(values);
        while let Some(batch) = held.next().await? {
            emit(&out, &batch, &values, &to).await?;
        }
        Ok(())
    }

    /// Takes rows to the functions. Returns the numbers of their partitions.
    fn update(&mut self, batch: &RecordBatch) -> Result<ArrayRef> {
        let elapsed = self.out.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let keys = self.windows.first().map_or(&[][..], |window| window.partition_by());
        let keys = keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<DataFusionResult<Vec<_>>>()?;
        let mut numbers = Vec::with_capacity(batch.num_rows());
        let partitions = match &mut self.partitions {
            Some(partitions) => {
                partitions.intern(&keys, &mut numbers)?;
                partitions.len()
            }
            None => {
                numbers.resize(batch.num_rows(), 0);
                1
            }
        };
        for (window, function) in self.windows.iter().zip(&mut self.functions) {
            let arguments = window.evaluate_args(batch)?;
            function.update_batch(&arguments, &numbers, None, partitions)?;
        }
        let bytes: usize = self.functions.iter().map(|function| function.size()).sum();
        let bytes = bytes + self.partitions.as_ref().map_or(0, |partitions| partitions.size());
        if self.state.try_resize(bytes).is_err() {
            self.held.spill()?;
            self.state.try_resize(bytes)?;
        }
        let number = |number: usize| {
            u32::try_from(number).map_err(|_| exec_datafusion_err!("more than 2^32 partitions"))
        };
        let numbers = numbers.into_iter().map(number).collect::<DataFusionResult<Vec<_>>>()?;
        Ok(Arc::new(UInt32Array::from(numbers)))
    }
}

/// Emits numbered rows with the values of their partitions.
async fn emit(out: &Out, rows: &RecordBatch, values: &Values, to: &Output) -> Result<()> {
    let mut rows = rows.clone();
    let numbers = rows.remove_column(rows.num_columns() - 1);
    let numbers = numbers.as_primitive::<UInt32Type>();
    emit_copies(out, &rows, numbers.values(), values, to).await
}
