//! Answers as messages of Flight: the columns first, then rows in pieces of bounded size.

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use tonic::codegen::Bytes;

use super::types::{sent_batch, sent_bytes};

/// About the most bytes of a message; one with a single row may have more. Some clients take no
/// more than 4 MiB.
const PIECE_BYTES: usize = 1 << 20;

/// Columns as they stand in infos and results.
pub(super) fn schema_bytes(schema: &Schema) -> Result<Bytes, ArrowError> {
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into()?;
    Ok(bytes)
}

/// Columns as they begin an answer.
pub(super) fn schema_message(schema: &Schema) -> FlightData {
    SchemaAsIpc::new(schema, &IpcWriteOptions::default()).into()
}

/// Makes messages of rows.
pub(super) struct Encoder {
    schema: SchemaRef,
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl Encoder {
    /// For an answer that is sent in these columns.
    pub(super) fn new(schema: SchemaRef) -> Encoder {
        Encoder {
            schema,
            generator: IpcDataGenerator::default(),
            dictionaries: DictionaryTracker::new(false),
            options: IpcWriteOptions::default(),
            context: IpcWriteContext::default(),
        }
    }

    /// The messages of a batch, as they are asked for.
    pub(super) fn pieces<'a>(
        &'a mut self,
        batch: &'a RecordBatch,
    ) -> impl Iterator<Item = Result<FlightData, ArrowError>> + 'a {
        let pieces = sent_bytes(batch).div_ceil(PIECE_BYTES).max(1);
        let rows = batch.num_rows().div_ceil(pieces).max(1);
        (0..batch.num_rows()).step_by(rows).map(move |from| {
            let slice = batch.slice(from, rows.min(batch.num_rows() - from));
            self.message(&slice)
        })
    }

    fn message(&mut self, batch: &RecordBatch) -> Result<FlightData, ArrowError> {
        let sent = sent_batch(batch, &self.schema)?;
        let (_, encoded) = self.generator.encode(
            &sent,
            &mut self.dictionaries,
            &self.options,
            &mut self.context,
        )?;
        Ok(encoded.into())
    }
}
