//! Where rows come from: files, globs, directories and pipes, compressed or not, as CSV or Parquet.
//!
//! The first station of ingest. [`Input::open`] finds out compression and format and yields bytes;
//! [`csv`] cuts and parses them into Arrow batches in three steps that a caller runs in parallel,
//! `parquet` reads row groups.

mod ahead;
pub mod csv;
mod input;
#[cfg(feature = "parquet")]
pub mod parquet;

pub use csv::{
    CsvChunk, CsvChunks, CsvColumn, CsvOptions, CsvSchema, infer, parse_chunk, parse_columns, parse_good_rows,
};
pub use input::{Bytes, Format, Input, Opened, expand};
