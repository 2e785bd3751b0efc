//! The project's own test data: taxi trips in the 51-column shape of the public billion-ride
//! benchmark.
//!
//! A row is a pure function of the seed, the number of rows and files and the row's number, so that
//! any split into batches and threads gives the same bytes. [`trips`] decides what happened in a
//! trip, from [`calendar`] (when people ride, and the weather), [`zones`] (where), [`habits`] (who
//! rides and how they pay) and [`fares`] (what it cost); [`text`] writes a trip as CSV and
//! [`arrays`] as Arrow; [`files`] spreads rows over files. Nothing here knows how Stylobate stores
//! data.

pub(crate) mod arrays;
pub(crate) mod calendar;
pub(crate) mod fares;
pub(crate) mod files;
mod habits;
mod random;
pub(crate) mod text;
pub(crate) mod trips;
pub(crate) mod zones;

#[cfg(test)]
mod tests;
