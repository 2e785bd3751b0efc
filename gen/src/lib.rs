//! Test data at any size: taxi trips in the 51-column shape of the public billion-ride benchmark.
//!
//! A row is a pure function of the seed, the number of rows and files, and the row's number, so any
//! split into batches and threads gives the same bytes. Nothing here knows how Stylobate stores
//! data.
//!
//! The modules, each importing only from those before it: `random` numbers; `calendar` (when
//! people ride, and the weather), `zones` (where) and `fares` (what a ride costs); `trip`,
//! the row itself; `habits` (who rides and how they pay); `generator`, which makes trips of all
//! these; `text` writes them as CSV and `arrays` as Arrow; `files` spreads them over files.

mod random;
mod calendar;
mod zones;
mod fares;
mod trip;
mod habits;
mod generator;
mod text;
mod arrays;
mod files;

#[cfg(test)]
mod tests;

pub use files::{Error, Format, write, write_stream};
pub use generator::Generator;
