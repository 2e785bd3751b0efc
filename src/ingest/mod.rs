//! Rows in: the first half of the road of a byte.
//!
//! Outside bytes become typed Arrow batches (`sources`, `infer`, `text`), batches become the rows of a segment
//! (`columns`), and a parallel pipeline keeps every core parsing and encoding in bounded memory (`pipeline`).

pub mod text; // numbers, dates and times in text
pub mod infer; // types from a sample
pub mod sources; // CSV, TSV, JSON, Arrow, Parquet
pub mod columns; // batches to the rows of a segment
pub mod pipeline; // everything in parallel, in order
pub mod load; // a whole ingest, one commit
mod widening; // what a wider type would lose, before it
