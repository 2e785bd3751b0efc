//! Where the rows of windows go.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};

use crate::error::Result;
use crate::sql::run::coalesce::{MAX_BUFFERS, compact, most_held};
use crate::sql::run::generate::Output;

/// Where rows go.
pub(super) struct Out {
    pub(super) schema: SchemaRef,
    /// See [`most_held`].
    pub(super) small: usize,
    /// The most bytes of values that are copied to rows of one batch: the memory limit. Operators
    /// above make batches of as many rows again.
    pub(super) most_copied: usize,
    pub(super) baseline: BaselineMetrics,
}

impl Out {
    pub(super) fn new(schema: SchemaRef, baseline: BaselineMetrics, context: &TaskContext) -> Out {
        let small = most_held(context);
        Out { schema, small, most_copied: small.saturating_mul(256), baseline }
    }

    /// Emits rows with the values of functions.
    pub(super) async fn emit(
        &self,
        rows: &RecordBatch,
        values: Vec<ArrayRef>,
        to: &Output,
    ) -> Result<()> {
        let columns = rows.columns().iter().cloned().chain(values).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(DataFusionError::from)?;
        // Values of many partitions have a buffer each, and operators above count all of them.
        let batch = compact(batch, self.small, MAX_BUFFERS)?;
        to.emit(batch.record_output(&self.baseline)).await;
        Ok(())
    }
}
