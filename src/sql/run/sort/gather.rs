//! Rows of several batches, put together in one.

use std::sync::Arc;

use arrow_array::builder::GenericByteViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use datafusion::error::Result as DataFusionResult;

use super::runs::{ChunkSize, Held};

/// Rows of several batches, in order.
#[derive(Default)]
pub(super) struct Picks {
    batches: Vec<RecordBatch>,
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
    pub(super) fn add(&mut self, held: &Held, row: usize, place: &mut (usize, u32), round: usize) {
        if place.0 != round {
            *place = (round, self.batches.len() as u32);
            self.batches.push(held.batch.clone());
        }
        self.rows.push((place.1 as usize, row));
        self.bytes += held.row_bytes;
    }
}

/// The rows in one batch, whose buffers hold nothing else.
pub(super) fn gather(picks: &Picks) -> DataFusionResult<RecordBatch> {
    let schema = picks.batches[0].schema();
    let column = |at: usize| {
        let columns: Vec<&ArrayRef> = picks.batches.iter().map(|batch| batch.column(at)).collect();
        Ok(match schema.field(at).data_type() {
            DataType::Utf8View => gather_texts::<StringViewType>(&columns, &picks.rows),
            DataType::BinaryView => gather_texts::<BinaryViewType>(&columns, &picks.rows),
            _ => {
                let columns: Vec<&dyn Array> = columns.into_iter().map(AsRef::as_ref).collect();
                interleave(&columns, &picks.rows)?
            }
        })
    };
    let columns = (0..schema.fields().len()).map(column).collect::<DataFusionResult<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(picks.rows.len()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// `arrow-select` would keep the buffers of all columns.
fn gather_texts<T: ByteViewType>(columns: &[&ArrayRef], rows: &[(usize, usize)]) -> ArrayRef {
    let columns: Vec<&GenericByteViewArray<T>> =
        columns.iter().map(|column| column.as_byte_view::<T>()).collect();
    let texts = || {
        rows.iter().map(|&(column, row)| {
            let column = columns[column];
            column.is_valid(row).then(|| column.value(row))
        })
    };
    let long = |text: Option<&T::Native>| match text.map(|text| AsRef::<[u8]>::as_ref(text).len()) {
        Some(len) if len > MAX_INLINE => len,
        _ => 0,
    };
    let bytes: usize = texts().map(long).sum();
    let mut gathered = GenericByteViewBuilder::<T>::with_capacity(rows.len())
        .with_fixed_block_size(u32::try_from(bytes).unwrap_or(LONG_BLOCK).max(1));
    texts().for_each(|text| gathered.append_option(text));
    Arc::new(gathered.finish())
}

/// Texts of at most this many bytes are within their views.
const MAX_INLINE: usize = 12;

/// The size of buffers where one would be too long.
const LONG_BLOCK: u32 = 1 << 30;
