//! Where rows come from: files, globs, directories and pipes, compressed or not, as CSV, JSON,
//! Arrow IPC or Parquet.
//!
//! The first station of ingest. [`Input::open`] detects compression, encoding and format and yields
//! bytes (`zip` those of members of archives; [`Inputs`] opens the next input while one is read).
//! [`csv`] and [`json`] cut and parse them into Arrow batches, in three steps that a caller can run
//! in parallel; [`arrow`] reads batches, `parquet` row groups. [`PathColumns`] are columns whose
//! values come from an input's path.

mod stream;
mod live;
mod read_ahead;
mod compression;
mod encoding;
mod format;
pub(crate) mod counted;
pub(crate) mod foreign;
pub(crate) mod zip;
pub(in crate::ingest) mod added;
pub(in crate::ingest) mod input;
mod inputs;
mod expand;
mod path_columns;
pub(crate) mod csv;
pub(crate) mod json;
pub(in crate::ingest) mod flat;
pub(in crate::ingest) mod supported;
#[cfg(feature = "parquet")]
mod thrift;
#[cfg(feature = "parquet")]
mod parquet_kinds;
#[cfg(feature = "parquet")]
pub(crate) mod parquet_checks;
#[cfg(feature = "parquet")]
pub(crate) mod parquet_footer;
pub(crate) mod arrow;
#[cfg(feature = "parquet")]
mod parquet_types;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(in crate::ingest) mod texts;

pub use csv::CsvOptions;
pub(crate) use csv::{CsvChunk, CsvChunks, CsvSchema, infer, parse_chunk, parse_columns};
pub use encoding::TextEncoding;
pub use expand::expand;
#[cfg(feature = "sql")]
pub(crate) use expand::files_in;
pub(crate) use format::{Format, find_format};
pub use input::Input;
pub(crate) use input::Opened;
pub(crate) use inputs::Inputs;
pub(crate) use path_columns::{PathColumns, path_columns};
