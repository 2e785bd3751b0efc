//! Ingest: the first half of the road of a byte.
//!
//! Input bytes become typed Arrow batches (`sources`, `infer`, `text`), batches become the rows of
//! a segment (`columns`), and a parallel pipeline keeps every core parsing and encoding in bounded
//! memory (`pipeline`). Rows that cannot be stored are set aside by the parser, counted
//! (`accounting`) and written to a file (`rejects_file`).

pub(crate) mod text; // numbers, dates and times in text
pub(crate) mod timestamp_text; // timestamps in short forms, completed
pub(crate) mod infer; // types from a sample
pub(crate) mod rejects; // rows that cannot be stored
mod rejects_file; // the file of rejected rows
pub(crate) mod unpublished; // those of loads that a process leaves in the middle
pub(crate) mod accounting; // counts of stored and rejected rows
pub(crate) mod sources; // CSV, TSV, JSON, Arrow, Parquet
pub(crate) mod assign; // exact conversion of values to a column's type
pub(crate) mod columns; // batches into the rows of a segment
pub(crate) mod whole; // a typed input as a whole, for tests and fuzz targets
pub(crate) mod arrange; // partitioning and sort order
pub(crate) mod partition; // the partition of each row
pub(crate) mod partitioned; // rows buffered per partition
pub(crate) mod sort; // sorts the rows of a segment
pub(crate) mod loaded; // what the ledger knows of an input
pub(crate) mod resume; // which inputs were loaded before, and how far
pub(crate) mod misguesses; // types that later rows do not fit
pub(crate) mod selection; // what is stored of the rows of an input
pub(crate) mod options; // load options and memory budgets
mod origin; // where the values of a column come from
pub(crate) mod task; // a parsing task and its result
mod feed; // tasks in flight
pub(crate) mod pipeline; // the parallel pipeline
pub(crate) mod rewrite; // stored segments as input
mod segment_files; // writes encoded segments to files
mod pace; // when commits by time begin
pub(crate) mod tiers; // merges small segments at the end of a table
mod rejected; // rejected rows as input
mod batch_checks; // checks on batches of typed inputs
mod input_tasks; // turns inputs into tasks
pub(crate) mod foresee; // what a load would do
pub(crate) mod report; // the report of a load
pub(crate) mod load; // a whole load, up to its commit
pub(crate) mod widening; // refuses wider types that would lose values
#[cfg(test)]
pub(crate) mod mutants; // mutants of a file
