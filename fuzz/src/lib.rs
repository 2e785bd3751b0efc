//! What the fuzz targets run: functions of any bytes that panic where something is wrong.
//!
//! `fuzz_targets/` calls them by libFuzzer. The library's ordinary tests (`tests/it/fuzz.rs`)
//! include these files and pass them every file of `fuzz/seeds` and `fuzz/crashes`.

pub mod csv;
pub mod encodings;
pub mod json;
pub mod manifest;
pub mod repair;
pub mod segment;
pub mod statistics;
pub mod typed;

/// The target of this name.
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
        _ => return None,
    })
}
