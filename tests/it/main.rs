//! The library as its users see it, in one test binary. Builds without DataFusion
//! (`--no-default-features`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[cfg(feature = "sql")]
mod both;
mod columns;
mod csv_corpus;
#[cfg(feature = "sql")]
mod cut;
mod damage;
#[cfg(feature = "sql")]
mod differential;
mod example;
mod fuzz;
mod golden;
mod ingest;
mod inputs;
#[cfg(feature = "sql")]
mod joins;
mod layers;
mod ledger;
mod live;
mod loading;
#[cfg(all(feature = "sql", feature = "parquet"))]
mod mutants;
#[cfg(feature = "sql")]
mod oracle;
mod rejects;
#[cfg(feature = "parquet")]
mod real_data;
#[cfg(feature = "sql")]
mod slt;
#[cfg(feature = "sql")]
mod sqlite;
mod supply;
mod table;
mod values;

use std::path::PathBuf;

/// The folder of the checkout. Cargo says it to a test that it runs: if several checkouts share a
/// target folder, this binary may have been compiled for another one.
fn project() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}
