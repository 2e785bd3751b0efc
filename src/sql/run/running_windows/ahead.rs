//! `lead`: rows wait until the rows that they look ahead to have come.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;

use super::bounds::Bounds;
use super::picked::pick;

/// Rows with the arguments of `lead` in the places of its values, and a last column with the
/// numbers of their partitions.
pub(super) struct Ahead {
    schema: SchemaRef,
    leads: Vec<Lead>,
    most: usize,
    waiting: Option<RecordBatch>,
    partition: u64,
}

/// A `lead` over a column.
pub(super) struct Lead {
    pub(super) column: usize,
    pub(super) offset: u64,
    pub(super) default: ScalarValue,
}

impl Ahead {
    /// `None` if there are none. The values of windows have this schema.
    pub(super) fn new(schema: &Schema, leads: Vec<Lead>) -> Option<Ahead> {
        let most = leads.iter().map(|lead| lead.offset).max()? as usize;
        let number = Arc::new(Field::new("partition", DataType::UInt64, false));
        let fields = schema.fields().iter().cloned().chain([number]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Some(Ahead { schema, leads, most, waiting: None, partition: 0 })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The numbers of the partitions of a batch.
    pub(super) fn partitions(&mut self, bounds: &Bounds) -> ArrayRef {
        let mut numbers = Vec::new();
        for (partition, begins) in bounds.partitions() {
            self.partition += u64::from(begins);
            numbers.resize(partition.end, self.partition);
        }
        Arc::new(UInt64Array::from(numbers))
    }

    /// Adds rows, and gives those back that need no rows after these.
    pub(super) fn push(&mut self, batch: RecordBatch) -> DataFusionResult<Option<RecordBatch>> {
        let all = match self.waiting.take() {
            Some(waiting) => concat_batches(&self.schema, [&waiting, &batch])?,
            None => batch,
        };
        let ready = all.num_rows().saturating_sub(self.most);
        // Rows that wait are copied once or twice.
        if ready < self.most.max(1) {
            self.waiting = Some(all);
            return Ok(None);
        }
        let rows = self.with_values(&all, ready)?;
        self.waiting = Some(all.slice(ready, all.num_rows() - ready));
        Ok(Some(rows))
    }

    /// The rows that are left.
    pub(super) fn finish(&mut self) -> DataFusionResult<Option<RecordBatch>> {
        let rest = self.waiting.take();
        rest.map(|rest| self.with_values(&rest, rest.num_rows())).transpose()
    }

    /// The first rows, with the values of `lead`.
    fn with_values(&self, all: &RecordBatch, ready: usize) -> DataFusionResult<RecordBatch> {
        let mut columns = all.slice(0, ready).columns().to_vec();
        let Some(partitions) = columns.pop().and(all.columns().last()) else {
            return Ok(all.clone());
        };
        let partitions = partitions.as_primitive::<UInt64Type>().values();
        for Lead { column, offset, default } in &self.leads {
            let offset = *offset as usize;
            let places = (0..ready).map(|row| {
                let is_there = partitions.get(row + offset) == partitions.get(row);
                is_there.then_some((row + offset) as u32)
            });
            if let (Some(values), Some(all)) =
                (columns.get_mut(*column), all.columns().get(*column))
            {
                *values = pick(all, places.collect(), default)?;
            }
        }
        let fields = self.schema.fields().iter().take(columns.len()).cloned();
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}
