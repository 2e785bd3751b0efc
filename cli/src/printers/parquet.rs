//! One Parquet file compressed with zstd. Row groups hold at most a million rows or 128 MiB, so
//! that a result of any size is written in bounded memory. Writing Parquet needs no seeks, so `>
//! file.parquet` works as well as `-o`.
//!
//! A type that Parquet lacks, and that the writer would write as bare integers or not at all, is
//! cast to the nearest one: seconds to milliseconds, decimals of a negative scale to whole ones. A
//! value that does not fit there is an error.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::plain_types::{plain_batch, plain_schema};
use crate::errors::Failure;
use crate::output::Output;

const ROW_GROUP_ROWS: usize = 1_000_000;
const ROW_GROUP_BYTES: usize = 128 << 20;

/// Writes one result as Parquet.
pub(super) struct ParquetPrinter {
    schema: SchemaRef,
    writer: ArrowWriter<LentOutput>,
}

/// The output while the writer has it. It is taken back after the last flush, since the writer's
/// own way of returning it hides which I/O error occurred, and a closed pipe is not a failure.
struct LentOutput(Option<Output>);

impl Write for LentOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(bytes.len()), |output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Output::flush)
    }
}

impl ParquetPrinter {
    pub(super) fn new(schema: &SchemaRef, output: Output) -> Result<Self, Failure> {
        let schema = parquet_schema(&plain_schema(schema));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .set_created_by(format!("stylobate {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer =
            ArrowWriter::try_new(LentOutput(Some(output)), schema.clone(), Some(properties))
                .map_err(failure)?;
        Ok(ParquetPrinter { schema, writer })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let batch = plain_batch(batch, &self.schema)?;
        self.writer.write(&batch).map_err(failure)
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        self.writer.finish().map_err(failure)?;
        let output = self.writer.inner_mut().0.take();
        output.ok_or_else(|| Failure::failed("the Parquet file was finished twice"))
    }
}

/// The schema in the types that Parquet has.
fn parquet_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().map(parquet_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn parquet_field(field: &Arc<Field>) -> Arc<Field> {
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Decimal128(precision, scale) if *scale < 0 => {
            let digits = precision.saturating_add(scale.unsigned_abs());
            DataType::Decimal128(digits.min(DECIMAL128_MAX_PRECISION), 0)
        }
        DataType::List(item) => DataType::List(parquet_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(parquet_field).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// The failure for an error of the writer, which may hide a closed pipe.
fn failure(error: ParquetError) -> Failure {
    if let ParquetError::External(source) = &error
        && let Some(io) = source.downcast_ref::<io::Error>()
    {
        return arrow_schema::ArrowError::IoError(io.to_string(), io.kind().into()).into();
    }
    Failure::failed(format!("cannot write Parquet: {error}"))
}
