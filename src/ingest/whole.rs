//! A typed input read as a whole, and nothing done with its rows: for tests and fuzz targets, which
//! ask of Arrow and Parquet that bytes of any kind end in batches or an error, and that both roads
//! to a segment, by the codes of dictionaries and without, have the same rows.

use arrow_array::RecordBatch;

use super::columns::{KeptCodes, to_stored_layouts};
use super::sources::arrow::ArrowBatches;
#[cfg(feature = "parquet")]
use super::sources::parquet::{ParquetSource, Spooled};
use super::sources::supported::{Others, Wanted};
use super::sources::{Format, Input};
use crate::error::{Error, Result};

/// Decodes every batch of an Arrow or Parquet input under a memory limit, to the layouts that
/// segments are written from. With `codes`, texts stay codes of dictionaries where they are.
pub fn read_whole(input: Input, memory: u64, codes: bool) -> Result<Vec<RecordBatch>> {
    let opened = input.open()?;
    let kept = if codes { KeptCodes::OfSegments } else { KeptCodes::None };
    let wanted = Wanted::Supported(Others::Skip);
    let stored = |batch: RecordBatch| to_stored_layouts(batch, kept);
    match opened.format {
        Format::Arrow => {
            let path = opened.path.as_deref();
            let (batches, _) =
                ArrowBatches::open(&opened.name, opened.bytes, path, wanted, memory)?;
            batches.map(|batch| stored(batch?)).collect()
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let (source, _) = ParquetSource::open(Spooled::new(opened)?, wanted, memory, codes)?;
            let mut batches = Vec::new();
            for group in 0..source.groups() {
                for batch in source.read(group, 1)?.read_all()? {
                    batches.push(stored(batch)?);
                }
            }
            Ok(batches)
        }
        _ => {
            let name = opened.name.display();
            Err(Error::InvalidInput(format!("{name} is neither Arrow nor Parquet")))
        }
    }
}

/// Whether batches have the same rows, be their texts codes or not.
pub fn same_rows(left: &[RecordBatch], right: &[RecordBatch]) -> bool {
    let same = |left: &RecordBatch, right: &RecordBatch| {
        let mut columns = left.columns().iter().zip(right.columns());
        left.num_rows() == right.num_rows()
            && left.num_columns() == right.num_columns()
            && columns.all(|(left, right)| {
                let plain = arrow_cast::cast(right, left.data_type());
                plain.is_ok_and(|right| right.as_ref() == left.as_ref())
            })
    };
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
}

#[cfg(test)]
#[cfg(feature = "parquet")]
#[path = "whole_tests.rs"]
pub(crate) mod tests;
