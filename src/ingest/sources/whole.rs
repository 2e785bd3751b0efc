//! A typed input read as a whole, and nothing done with its rows: for tests and fuzz targets, which
//! ask of Arrow and Parquet only that bytes of any kind end in batches or an error.

use super::arrow::ArrowBatches;
use super::format::Format;
use super::input::Input;
#[cfg(feature = "parquet")]
use super::parquet::{ParquetSource, Spooled};
use super::supported::Wanted;
use crate::error::{Error, Result};

/// Decodes every batch of an Arrow or Parquet input under a memory limit, and counts the rows.
pub fn count_rows(input: Input, memory: u64) -> Result<u64> {
    let opened = input.open()?;
    match opened.format {
        Format::Arrow => {
            let (batches, _) = ArrowBatches::open(
                &opened.name,
                opened.bytes,
                opened.path.as_deref(),
                Wanted::Supported { skip_others: true },
                memory,
            )?;
            batches.map(|batch| Ok(batch?.num_rows() as u64)).sum()
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let wanted = Wanted::Supported { skip_others: true };
            let (source, _) = ParquetSource::open(Spooled::new(opened)?, wanted, memory, false)?;
            let group = |group| -> Result<u64> {
                let batches = source.read(group, 1)?.read_all()?;
                Ok(batches.iter().map(|batch| batch.num_rows() as u64).sum())
            };
            (0..source.groups()).map(group).sum()
        }
        _ => {
            let name = opened.name.display();
            Err(Error::InvalidInput(format!("{name} is neither Arrow nor Parquet")))
        }
    }
}

#[cfg(test)]
#[cfg(feature = "parquet")]
#[path = "whole_tests.rs"]
pub(crate) mod tests;
