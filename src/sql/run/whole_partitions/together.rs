//! Windows over whole partitions, of which each row has a value of its own.
//!
//! Partitions that a batch has as wholes are computed by DataFusion's functions. Others wait until
//! their last row has come: in memory, unless all functions do with less ([`Passes`]).

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use arrow_select::concat::{concat, concat_batches};
use arrow_select::take::take;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::window::WindowExpr;
use futures::StreamExt;

use super::passes::Passes;
use super::rows::Out;
use crate::error::{Error, Result};
use crate::sql::run::coalesce::compact;
use crate::sql::run::cut::{Cut, Runs};
use crate::sql::run::generate::Output;
use crate::sql::run::held::Held;

/// Values of several partitions go out together up to this many bytes.
const EMITTED_BYTES: usize = 1 << 20;

/// Partitions that are computed as wholes.
pub(super) struct Together {
    pub(super) windows: Vec<Arc<dyn WindowExpr>>,
    /// How they are computed if their rows need not be in memory.
    pub(super) passes: Option<Passes>,
    pub(super) cut: Cut,
    pub(super) held: Held,
    pub(super) out: Out,
}

impl Together {
    pub(super) async fn run(
        mut self,
        mut rows: SendableRecordBatchStream,
        to: Output,
    ) -> Result<()> {
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let Runs { mut ranges, goes_on } = self.cut.cut(&batch)?;
            let Some(last) = ranges.pop() else { continue };
            let mut begin = 0;
            if goes_on && let Some(first) = ranges.first() {
                begin = first.end;
                self.push(batch.slice(0, begin))?;
                ranges.remove(0);
            }
            if !goes_on || begin > 0 {
                self.emit_held(&to).await?;
            }
            self.emit_complete(&batch, &ranges, &to).await?;
            self.push(batch.slice(last.start, last.len()))?;
        }
        drop(rows);
        self.emit_held(&to).await
    }

    fn push(&mut self, rows: RecordBatch) -> Result<()> {
        let rows = compact(rows, self.out.small, usize::MAX)?;
        if let Some(passes) = &mut self.passes {
            return Ok(passes.add(rows, &mut self.held)?);
        }
        self.held.push(rows).map_err(|error| self.too_large(error.into()))
    }

    /// Emits partitions that a batch has as wholes: together, unless their values are large.
    async fn emit_complete(
        &mut self,
        batch: &RecordBatch,
        ranges: &[Range<usize>],
        to: &Output,
    ) -> Result<()> {
        let Some(mut begin) = ranges.first().map(|first| first.start) else { return Ok(()) };
        let mut parts = vec![Vec::new(); self.windows.len()];
        let mut bytes = 0;
        for (number, range) in (1..).zip(ranges) {
            let values = self.values(&batch.slice(range.start, range.len()))?;
            for (parts, values) in parts.iter_mut().zip(values) {
                bytes += copied_bytes(&values);
                parts.push(values);
            }
            if bytes > EMITTED_BYTES || number == ranges.len() {
                let values = parts.iter().map(|parts| {
                    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                    concat(&parts).map_err(|error| Error::LimitExceeded(error.to_string()))
                });
                let values = values.collect::<Result<Vec<_>>>()?;
                self.out.emit(&batch.slice(begin, range.end - begin), values, to).await?;
                parts.iter_mut().for_each(Vec::clear);
                (begin, bytes) = (range.end, 0);
            }
        }
        Ok(())
    }

    /// The values of the functions for the rows of a partition.
    fn values(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let _timer = self.out.baseline.elapsed_compute().timer();
        self.windows.iter().map(|window| Ok(window.evaluate(rows)?)).collect()
    }

    /// Emits the partition that was held.
    async fn emit_held(&mut self, to: &Output) -> Result<()> {
        if let Some(passes) = &mut self.passes {
            return passes.emit(&mut self.held, &self.out, to).await;
        }
        let batches = self.held.take_batches();
        if batches.is_empty() {
            return Ok(());
        }
        let copied = if batches.len() == 1 {
            0
        } else {
            batches.iter().flat_map(RecordBatch::columns).map(copied_bytes).sum()
        };
        // DataFusion (55.2) computes the values of a function one by one.
        let one_by_one =
            batches.iter().map(RecordBatch::num_rows).sum::<usize>() * size_of::<ScalarValue>();
        let grown = self.held.memory.try_grow(copied + one_by_one);
        grown.map_err(|error| self.too_large(error.into()))?;
        let rows = match &batches[..] {
            [only] => only.clone(),
            _ => concat_batches(self.held.schema(), &batches)
                .map_err(|error| Error::LimitExceeded(error.to_string()))?,
        };
        let values = self.values(&rows)?;
        drop(rows);
        self.held.memory.shrink(copied + one_by_one);
        let bytes = values.iter().map(Array::get_array_memory_size).sum();
        let grown = self.held.memory.try_grow(bytes);
        grown.map_err(|error| self.too_large(error.into()))?;
        let mut start = 0;
        for batch in &batches {
            // Operators above count the whole of an array of which they get a slice.
            let end = start + batch.num_rows() as u32;
            let places = UInt32Array::from_iter_values(start..end);
            let part = values.iter().map(|values| Ok(take(values, &places, None)?));
            let part = part.collect::<DataFusionResult<Vec<_>>>()?;
            self.out.emit(batch, part, to).await?;
            start = end;
        }
        self.held.free();
        Ok(())
    }

    fn too_large(&self, error: Error) -> Error {
        let names: Vec<&str> = self.windows.iter().map(|window| window.name()).collect();
        let error = match error {
            Error::LimitExceeded(text) => text,
            other => other.to_string(),
        };
        Error::LimitExceeded(format!(
            "the rows of a partition of {} must fit in memory together: {error}; smaller partitions \
             (PARTITION BY) need less",
            names.join(", ")
        ))
    }
}

/// How many bytes of an array are copied when it is put together with others: of texts in views,
/// only these.
fn copied_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => array.len() * size_of::<u128>(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}
