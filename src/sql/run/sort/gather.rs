//! Rows of several batches, put together in one.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::GenericByteViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use datafusion::error::Result as DataFusionResult;

use super::runs::{ChunkSize, Held};
use crate::sql::run::coalesce::compact;

/// Rows of several batches, in order.
#[derive(Default)]
pub(super) struct Picks {
    batches: Vec<Arc<Held>>,
    /// Batch and row.
    rows: Vec<(usize, usize)>,
    /// About how long the rows are.
    bytes: usize,
}

impl Picks {
    pub(super) fn are_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn are_full(&self, size: ChunkSize) -> bool {
        self.rows.len() >= size.rows || self.bytes >= size.bytes
    }

    /// Adds a row. `place` is what is known of its batch: the last round in which it was used, and
    /// its number there.
    pub(super) fn add(
        &mut self,
        held: &Arc<Held>,
        row: usize,
        place: &mut (usize, u32),
        round: usize,
    ) {
        if place.0 != round {
            *place = (round, self.batches.len() as u32);
            self.batches.push(Arc::clone(held));
        }
        self.rows.push((place.1 as usize, row));
        self.bytes += held.row_bytes(row);
    }
}

/// Some rows of a batch, in smaller buffers. Rows that share a text go on sharing it.
pub(super) fn part_of(batch: &RecordBatch, rows: Range<usize>) -> DataFusionResult<RecordBatch> {
    let places: Vec<(usize, usize)> = rows.map(|row| (0, row)).collect();
    let part = |column: &ArrayRef| interleave(&[column.as_ref()], &places);
    let columns = batch.columns().iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    let part = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
    Ok(compact(part, 0, usize::MAX)?)
}

/// Copies the rows into one batch. Only texts that many rows share stay in the buffers they are in.
pub(super) fn gather(picks: &Picks) -> DataFusionResult<RecordBatch> {
    let schema = picks.batches[0].batch.schema();
    let column = |at: usize| {
        let columns = picks.batches.iter().map(|held| held.batch.column(at));
        let columns: Vec<&ArrayRef> = columns.collect();
        let gathered = match schema.field(at).data_type() {
            DataType::Utf8View => gather_texts::<StringViewType>(&columns, &picks.rows),
            DataType::BinaryView => gather_texts::<BinaryViewType>(&columns, &picks.rows),
            _ => None,
        };
        if let Some(gathered) = gathered {
            return Ok(gathered);
        }
        let columns: Vec<&dyn Array> = columns.into_iter().map(AsRef::as_ref).collect();
        Ok(interleave(&columns, &picks.rows)?)
    };
    let columns = (0..schema.fields().len()).map(column).collect::<DataFusionResult<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(picks.rows.len()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// Copies texts to one new buffer (`arrow-select` would keep the buffers of all columns). Returns
/// nothing if all texts are within their views, or if the buffer would be larger than those of now,
/// because many rows share a text.
fn gather_texts<T: ByteViewType>(
    columns: &[&ArrayRef],
    rows: &[(usize, usize)],
) -> Option<ArrayRef> {
    let columns: Vec<&GenericByteViewArray<T>> =
        columns.iter().map(|column| column.as_byte_view::<T>()).collect();
    let texts = || {
        rows.iter().map(|&(column, row)| {
            let column = columns[column];
            column.is_valid(row).then(|| column.value(row))
        })
    };
    if columns.iter().all(|column| column.data_buffers().is_empty()) {
        return None;
    }
    let long = |text: Option<&T::Native>| match text.map(|text| AsRef::<[u8]>::as_ref(text).len()) {
        Some(len) if len > MAX_INLINE => len,
        _ => 0,
    };
    let bytes: usize = texts().map(long).sum();
    let held = columns.iter().flat_map(|column| column.data_buffers()).map(Buffer::len);
    if bytes > held.sum() {
        return None;
    }
    let mut gathered = GenericByteViewBuilder::<T>::with_capacity(rows.len())
        .with_fixed_block_size(u32::try_from(bytes).unwrap_or(LONG_BLOCK).max(1));
    texts().for_each(|text| gathered.append_option(text));
    Some(Arc::new(gathered.finish()))
}

/// Texts of at most this many bytes are within their views.
const MAX_INLINE: usize = 12;

/// The size of buffers where one would be too long.
const LONG_BLOCK: u32 = 1 << 30;
