//! Collects the rows of one segment.

use std::ops::ControlFlow;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Field;

use super::layouts::{value_bytes, widened};
use super::matching::{join, stored_type};
use crate::block::null_array;
use crate::error::Result;
use crate::limits::VECTOR;
use crate::model::{ColumnId, DataType};
use crate::segment::writer::{InputColumn, SegmentInput};

/// The most bytes of a column's values in one vector, unless a single value has more. Nothing less
/// than a vector can be read of a text column.
pub(in crate::ingest) const VECTOR_BYTES: usize = 128 << 20;

/// Collects batches for one segment.
#[derive(Debug)]
pub struct SegmentBuilder {
    columns: Vec<ColumnParts>,
    rows: usize,
    bytes: usize,
    /// At least the bytes of each column in the rows after the last full vector.
    vector_bytes: usize,
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
        SegmentBuilder { columns: Vec::new(), rows: 0, bytes: 0, vector_bytes: 0, limits }
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
        let (rows, bytes, vector_bytes) = self.rows_that_fit(batch);
        let fitting = batch.slice(0, rows);
        for (i, id) in ids.iter().enumerate() {
            self.add(i, *id, batch.schema_ref().field(i), fitting.column(i))?;
        }
        self.rows += rows;
        self.bytes += bytes;
        self.vector_bytes = vector_bytes;
        let rest = batch.num_rows() - rows;
        let full = rest > 0 || self.rows >= self.limits.rows || self.bytes >= self.limits.bytes;
        Ok(if full {
            ControlFlow::Break(batch.slice(rows, rest))
        } else {
            ControlFlow::Continue(())
        })
    }

    /// How many rows of `batch` fit, at least one in an empty segment; their bytes; and then the
    /// bytes of the vector that is not full.
    fn rows_that_fit(&self, batch: &RecordBatch) -> (usize, usize, usize) {
        let most = batch.num_rows().min(self.limits.rows.saturating_sub(self.rows));
        let room = self.limits.bytes.saturating_sub(self.bytes);
        let sizes = |start, rows| {
            batch.columns().iter().map(move |column| value_bytes(&column.slice(start, rows)))
        };
        let size = |rows| sizes(0, rows).sum::<usize>();
        let (within, bytes) = longest(most, room, size);
        let widest = |start, rows| sizes(start, rows).max().unwrap_or(0);
        let (rows, vector_bytes) = self.rows_in_vectors(within, bytes, widest);
        let least = usize::from(self.rows == 0).min(most);
        if rows < least {
            let bytes = size(least);
            return (least, bytes, bytes);
        }
        (rows, if rows == within { bytes } else { size(rows) }, vector_bytes)
    }

    /// How many of `rows` rows of `bytes` bytes fit into vectors of [`VECTOR_BYTES`], and the bytes
    /// of the vector that is not full then. `widest` measures the widest column of some rows.
    fn rows_in_vectors(
        &self,
        rows: usize,
        bytes: usize,
        widest: impl Fn(usize, usize) -> usize,
    ) -> (usize, usize) {
        let (mut start, mut vector_bytes) = (0, self.vector_bytes);
        let tail = (self.rows + rows) % VECTOR;
        if vector_bytes + bytes <= VECTOR_BYTES && tail < rows {
            (start, vector_bytes) = (rows - tail, 0);
        }
        while start < rows {
            let here = (VECTOR - (self.rows + start) % VECTOR).min(rows - start);
            let room = VECTOR_BYTES.saturating_sub(vector_bytes);
            let (fits, bytes) = longest(here, room, |rows| widest(start, rows));
            start += fits;
            if fits < here {
                break;
            }
            let is_full = (self.rows + start).is_multiple_of(VECTOR);
            vector_bytes = if is_full { 0 } else { vector_bytes + bytes };
        }
        (start, vector_bytes)
    }

    /// Adds rows of a column, which is at position `hint` if this batch has the same columns as the
    /// one before.
    fn add(&mut self, hint: usize, id: ColumnId, field: &Field, array: &ArrayRef) -> Result<()> {
        let (name, data_type) = (field.name().as_str(), stored_type(field)?);
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
        (self.bytes, self.vector_bytes) = (0, 0);
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

/// The most rows, of at most `most`, whose size is within `room`, and their size.
fn longest(most: usize, room: usize, size: impl Fn(usize) -> usize) -> (usize, usize) {
    let all = size(most);
    if all <= room {
        return (most, all);
    }
    // Doubling finds an interval, so that few rows are measured where few fit; then bisection.
    let (mut fits, mut fitting, mut exceeds) = (0, 0, 1);
    while exceeds < most {
        let bytes = size(exceeds);
        if bytes > room {
            break;
        }
        (fits, fitting, exceeds) = (exceeds, bytes, exceeds * 2);
    }
    exceeds = exceeds.min(most);
    while exceeds - fits > 1 {
        let middle = fits.midpoint(exceeds);
        match size(middle) {
            bytes if bytes <= room => (fits, fitting) = (middle, bytes),
            _ => exceeds = middle,
        }
    }
    (fits, fitting)
}
