//! Rows in: the first half of the road of a byte.
//!
//! Outside bytes become typed Arrow batches (`sources`, `infer`, `text`), batches become the rows
//! of a segment (`columns`), and a parallel pipeline keeps every core parsing and encoding in
//! bounded memory (`pipeline`). Rows that cannot be stored leave the road at the parser, and are
//! counted and written down (`rejects`).

pub mod text; // numbers, dates and times in text
pub(crate) mod timestamp_text; // texts of points of time in full
pub mod infer; // types from a sample
pub mod rejects; // rows that cannot be stored
mod rejects_file; // the file that keeps them
pub mod accounting; // what became of every row
pub mod sources; // CSV, TSV, JSON, Arrow, Parquet
pub mod assign; // values into a column of another type, exactly
pub mod columns; // batches to the rows of a segment
pub mod arrange; // where rows are to go
pub mod partition; // which partition a row belongs to
pub mod partitioned; // rows that wait for the segments of their partitions
pub mod sort; // the rows of a segment in order
pub mod resume; // what was loaded before, and how far
pub mod options; // how to load
pub mod task; // a piece of parsing work
mod feed; // tasks handed out ahead and taken in order
pub mod pipeline; // everything in parallel, in order
pub mod rewrite; // stored segments as rows on their way in again
mod segment_files; // encoded segments into files
pub mod tiers; // small segments at the end become larger ones
mod input_tasks; // inputs as tasks
pub mod report; // what a load did
pub mod load; // a whole ingest, one commit
pub(crate) mod widening; // what a wider type would lose, before it
