//! What the fuzz targets run: functions of any bytes that panic where something is wrong.
//!
//! `fuzz_targets/` calls them by libFuzzer. The library's ordinary tests (`tests/it/fuzz.rs`)
//! include these files and pass them every file of `fuzz/seeds` and `fuzz/crashes`.

use std::fs;
use std::path::{Path, PathBuf};

pub mod csv;
pub mod encodings;
pub mod json;
pub mod manifest;
#[cfg(feature = "sql")]
pub mod partition;
pub mod repair;
pub mod segment;
#[cfg(feature = "sql")]
pub mod sql;
pub mod statistics;
#[cfg(feature = "sql")]
pub mod store;
pub mod typed;
#[cfg(feature = "sql")]
mod words;

/// The target of this name; those that run SQL are there with the feature `sql`.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    Some(match name {
        "csv" => csv::run,
        "encodings" => encodings::run,
        "json" => json::run,
        "manifest" => manifest::run,
        "segment" => segment::run,
        "statistics" => statistics::run,
        "parquet" => typed::parquet,
        "arrow" => typed::arrow,
        #[cfg(feature = "sql")]
        "partition" => partition::run,
        #[cfg(feature = "sql")]
        "sql" => sql::run,
        #[cfg(feature = "sql")]
        "store" => store::run,
        _ => return None,
    })
}

/// The files of a folder and of those within it, in the order of their paths; none if there is no
/// such folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}
