//! Collects the rows of one segment.

use std::ops::ControlFlow;

use arrow_array::{Array, ArrayRef, RecordBatch};

use super::layouts::{value_bytes, widened};
use super::matching::{join, stored_type};
use crate::block::null_array;
use crate::error::Result;
use crate::model::{ColumnId, DataType};
use crate::segment::writer::{InputColumn, SegmentInput};

/// Collects batches for one segment.
#[derive(Debug)]
pub struct SegmentBuilder {
    columns: Vec<ColumnParts>,
    rows: usize,
    bytes: usize,
    limits: SegmentLimits,
}

/// When a segment is full.
#[derive(Clone, Copy, Debug)]
pub struct SegmentLimits {
    /// Rows of a segment.
    pub rows: usize,
    /// In-memory bytes of values.
    pub bytes: usize,
    /// Rows of a block.
    pub block_rows: usize,
}

#[derive(Debug)]
struct ColumnParts {
    id: ColumnId,
    name: String,
    data_type: DataType,
    arrays: Vec<ArrayRef>,
    /// Rows in `arrays`. Rows of batches without the column are padded when it appears again.
    rows: usize,
}

impl SegmentBuilder {
    /// An empty builder.
    pub fn new(limits: SegmentLimits) -> Self {
        SegmentBuilder { columns: Vec::new(), rows: 0, bytes: 0, limits }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds as many rows of `batch` as fit; its columns are in stored layouts (`to_stored_layouts`)
    /// and have these `ids`, in any order. `Break` carries the remaining rows: the segment is full.
    pub fn push(
        &mut self,
        batch: &RecordBatch,
        ids: &[ColumnId],
    ) -> Result<ControlFlow<RecordBatch>> {
        let (rows, bytes) = self.rows_that_fit(batch);
        let fitting = batch.slice(0, rows);
        for (i, id) in ids.iter().enumerate() {
            let name = batch.schema_ref().field(i).name().clone();
            self.add(i, *id, &name, fitting.column(i))?;
        }
        self.rows += rows;
        self.bytes += bytes;
        let rest = batch.num_rows() - rows;
        let full = rest > 0 || self.rows >= self.limits.rows || self.bytes >= self.limits.bytes;
        Ok(if full {
            ControlFlow::Break(batch.slice(rows, rest))
        } else {
            ControlFlow::Continue(())
        })
    }

    /// How many rows of `batch` fit, at least one in an empty segment, and their bytes.
    fn rows_that_fit(&self, batch: &RecordBatch) -> (usize, usize) {
        let most = batch.num_rows().min(self.limits.rows.saturating_sub(self.rows));
        let room = self.limits.bytes.saturating_sub(self.bytes);
        let size =
            |rows| batch.columns().iter().map(|column| value_bytes(&column.slice(0, rows))).sum();
        let all: usize = size(most);
        if all <= room {
            return (most, all);
        }
        // Doubling finds an interval, so that few rows are measured where few fit; then bisection.
        let (mut fits, mut exceeds) = (0, 1);
        while exceeds < most && size(exceeds) <= room {
            (fits, exceeds) = (exceeds, exceeds * 2);
        }
        exceeds = exceeds.min(most);
        while exceeds - fits > 1 {
            let middle = fits.midpoint(exceeds);
            if size(middle) <= room { fits = middle } else { exceeds = middle }
        }
        let rows = fits.max(usize::from(self.rows == 0));
        (rows, size(rows))
    }

    /// Adds rows of a column, which is at position `hint` if this batch has the same columns as the
    /// one before.
    fn add(&mut self, hint: usize, id: ColumnId, name: &str, array: &ArrayRef) -> Result<()> {
        let data_type = stored_type(name, array)?;
        let has_id = |column: &ColumnParts| column.id == id;
        let hint = Some(hint).filter(|hint| self.columns.get(*hint).is_some_and(has_id));
        let at = match hint.or_else(|| self.columns.iter().position(has_id)) {
            Some(at) => at,
            None => {
                let name = name.to_string();
                self.columns.push(ColumnParts {
                    id,
                    name,
                    data_type: DataType::Null,
                    arrays: Vec::new(),
                    rows: 0,
                });
                self.columns.len() - 1
            }
        };
        let column = &mut self.columns[at];
        column.data_type = join(name, &column.data_type, &data_type)?;
        column.pad(self.rows);
        column.rows += array.len();
        column.arrays.push(array.clone());
        Ok(())
    }

    /// Returns the collected rows, every column under one type, and empties the builder.
    pub fn finish(&mut self) -> Result<SegmentInput> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let mut columns = std::mem::take(&mut self.columns);
        columns.sort_by_key(|c| c.id);
        let columns =
            columns.into_iter().map(|column| column.finish(rows)).collect::<Result<Vec<_>>>()?;
        Ok(SegmentInput { rows, block_rows: self.limits.block_rows, columns })
    }
}

impl ColumnParts {
    /// Appends nulls for rows up to `to` that came without this column.
    fn pad(&mut self, to: usize) {
        if self.rows < to {
            self.arrays.push(null_array(to - self.rows, &DataType::Null));
            self.rows = to;
        }
    }

    fn finish(mut self, rows: usize) -> Result<InputColumn> {
        self.pad(rows);
        for array in &mut self.arrays {
            *array = widened(&self.name, array, &self.data_type)?;
        }
        Ok(InputColumn { id: self.id, data_type: self.data_type, arrays: self.arrays })
    }
}
