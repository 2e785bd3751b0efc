//! One Parquet file compressed with zstd. A row group ends at a million rows, or once its writers
//! hold 64 MiB, so that a result of any size and width is written in bounded memory. Rows are
//! gathered, and then all threads encode and compress them, a column at a time each. Writing
//! Parquet needs no seeks, so `> file.parquet` works as well as `-o`.
//!
//! A type that Parquet lacks, and that the writer would write as bare integers or not at all, is
//! cast to the nearest one: seconds to milliseconds, decimals of a negative scale to whole ones. A
//! value that does not fit there is an error. Intervals become texts, marked as such: Parquet's
//! have no microseconds and no sign.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{RecordBatch, new_empty_array};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use stylobate::internal::model::interval_texts;

use super::plain_types::{plain_array, plain_schema};
use crate::errors::Failure;
use crate::output::Output;

const ROW_GROUP_ROWS: usize = 1_000_000;
/// What the writers of all columns hold, with their dictionaries.
const ROW_GROUP_MEMORY: usize = 64 << 20;
/// Rows and bytes are gathered up to these bounds before they are encoded.
const GATHERED_ROWS: usize = 1 << 16;
const GATHERED_BYTES: usize = 16 << 20;

/// Writes one result as Parquet.
pub(super) struct ParquetPrinter {
    schema: SchemaRef,
    writer: SerializedFileWriter<LentOutput>,
    columns: ArrowRowGroupWriterFactory,
    /// For each field how many columns of Parquet it is.
    leaves: Vec<usize>,
    pool: Option<ThreadPool>,
    gathered: Vec<RecordBatch>,
    /// Rows that are gathered.
    rows: usize,
    group: RowGroup,
}

/// The row group under work.
#[derive(Default)]
struct RowGroup {
    /// The writers of each field's columns; none before the first rows.
    fields: Vec<Vec<ArrowColumnWriter>>,
    rows: usize,
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
    pub(super) fn new(schema: &SchemaRef, threads: usize, output: Output) -> Result<Self, Failure> {
        let schema = parquet_schema(&plain_schema(schema));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(format!("stylobate {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer =
            ArrowWriter::try_new(LentOutput(Some(output)), schema.clone(), Some(properties));
        let (writer, columns) =
            writer.and_then(ArrowWriter::into_serialized_writer).map_err(failure)?;
        let leaves = |field: &Arc<Field>| {
            compute_leaves(field, &new_empty_array(field.data_type())).map(|leaves| leaves.len())
        };
        let leaves = schema.fields().iter().map(leaves).collect::<Result<_, _>>();
        let pool = match threads {
            0 | 1 => None,
            threads => Some(ThreadPoolBuilder::new().num_threads(threads).build()),
        };
        Ok(ParquetPrinter {
            leaves: leaves.map_err(failure)?,
            pool: pool.transpose().map_err(stylobate::Error::too_few_threads)?,
            gathered: Vec::new(),
            rows: 0,
            group: RowGroup::default(),
            schema,
            writer,
            columns,
        })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let mut batch = batch.clone();
        while batch.num_rows() > 0 {
            let space = ROW_GROUP_ROWS - self.group.rows - self.rows;
            let rows = batch.num_rows().min(space);
            self.gathered.push(batch.slice(0, rows));
            self.rows += rows;
            batch = batch.slice(rows, batch.num_rows() - rows);
            let bytes: usize = self.gathered.iter().map(RecordBatch::get_array_memory_size).sum();
            if rows == space || self.rows >= GATHERED_ROWS || bytes >= GATHERED_BYTES {
                self.encode()?;
            }
        }
        Ok(())
    }

    /// Encodes what is gathered, and ends the row group where it is full.
    fn encode(&mut self) -> Result<(), Failure> {
        let ParquetPrinter { schema, writer, columns, leaves, gathered, group, .. } = self;
        if group.fields.is_empty() {
            let number = writer.flushed_row_groups().len();
            let mut all = columns.create_column_writers(number).map_err(failure)?.into_iter();
            group.fields =
                leaves.iter().map(|leaves| all.by_ref().take(*leaves).collect()).collect();
        }
        let gathered = std::mem::take(gathered);
        let encode = |(at, writers): (usize, &mut Vec<ArrowColumnWriter>)| {
            for batch in &gathered {
                let (field, array) = (schema.field(at), batch.column(at));
                // The encoder reads views as well as the texts and bytes that they are in the file.
                let array = match array.data_type() {
                    DataType::Utf8View | DataType::BinaryView => Arc::clone(array),
                    _ => plain_array(array, field)?,
                };
                let leaves = compute_leaves(field, &array).map_err(failure)?;
                for (writer, leaf) in writers.iter_mut().zip(leaves) {
                    writer.write(&leaf).map_err(failure)?;
                }
            }
            Ok::<(), Failure>(())
        };
        match &self.pool {
            Some(pool) => pool.install(|| {
                group.fields.par_iter_mut().enumerate().with_max_len(1).try_for_each(encode)
            }),
            None => group.fields.iter_mut().enumerate().try_for_each(encode),
        }?;
        group.rows += std::mem::take(&mut self.rows);
        let writers = group.fields.iter().flatten();
        let memory: usize = writers.map(ArrowColumnWriter::memory_size).sum();
        if group.rows >= ROW_GROUP_ROWS || memory >= ROW_GROUP_MEMORY {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), Failure> {
        let RowGroup { fields, .. } = std::mem::take(&mut self.group);
        let close = |writers: Vec<ArrowColumnWriter>| {
            writers.into_iter().map(ArrowColumnWriter::close).collect::<Result<Vec<_>, _>>()
        };
        let chunks: Vec<Vec<ArrowColumnChunk>> = match &self.pool {
            Some(pool) => pool.install(|| {
                fields.into_par_iter().with_max_len(1).map(close).collect::<Result<_, _>>()
            }),
            None => fields.into_iter().map(close).collect(),
        }
        .map_err(failure)?;
        let mut group = self.writer.next_row_group().map_err(failure)?;
        for chunk in chunks.into_iter().flatten() {
            chunk.append_to_row_group(&mut group).map_err(failure)?;
        }
        group.close().map(|_| ()).map_err(failure)
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        if !self.gathered.is_empty() {
            self.encode()?;
        }
        if !self.group.fields.is_empty() {
            self.end_group()?;
        }
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
        DataType::Interval(_) => {
            let texts = Field::clone(field).with_data_type(DataType::Utf8);
            return Arc::new(interval_texts(texts));
        }
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
