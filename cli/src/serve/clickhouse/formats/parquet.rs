//! `Parquet`: one file compressed with zstd, whose row groups are written as they are full.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::known_types::{known_batch, known_field};
use crate::errors::Failure;

const ROW_GROUP_ROWS: usize = 1_000_000;
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Writes one answer.
pub(super) struct ParquetWriter {
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
}

impl ParquetWriter {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, Failure> {
        let fields: Vec<_> =
            schema.fields().iter().map(|field| parquet_field(&known_field(field))).collect();
        let schema = Arc::new(Schema::new(fields));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_created_by(format!("stylobate {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties));
        Ok(ParquetWriter { schema, writer: writer.map_err(failure)? })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.writer.write(&known_batch(batch, &self.schema)?).map_err(failure)?;
        if self.writer.in_progress_size() >= ROW_GROUP_BYTES {
            self.writer.flush().map_err(failure)?;
        }
        out.append(self.writer.inner_mut());
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.writer.finish().map_err(failure)?;
        out.append(self.writer.inner_mut());
        Ok(())
    }
}

/// A field in the types that Parquet has.
fn parquet_field(field: &Arc<Field>) -> Arc<Field> {
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::List(item) => DataType::List(parquet_field(item)),
        DataType::LargeList(item) => DataType::LargeList(parquet_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(parquet_field).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

fn failure(error: ParquetError) -> Failure {
    Failure::failed(format!("cannot write Parquet: {error}"))
}
