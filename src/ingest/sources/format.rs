//! The format of an input, by its first bytes or its name.

use std::path::Path;

use super::arrow::{CONTINUATION, FILE_MAGIC};
use crate::error::{Error, Result};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, or with another delimiter.
    Csv,
    /// Tab-separated values, with the same quoting.
    Tsv,
    /// JSON lines, an array of objects, or objects one after the other.
    Json,
    /// Arrow IPC, the stream or the file.
    Arrow,
    /// Apache Parquet.
    Parquet,
}

/// The format by magic number, else by the name without the suffix of its compression, else by the
/// first character: CSV, unless it is a bracket.
pub(super) fn find_format(name: &Path, head: &[u8]) -> Result<Format> {
    if head.starts_with(b"PAR1") {
        return Ok(Format::Parquet);
    }
    if head.starts_with(FILE_MAGIC) || head.starts_with(&CONTINUATION) {
        return Ok(Format::Arrow);
    }
    let lower = name.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let suffixes = [".gz", ".gzip", ".zst", ".zstd", ".bz2", ".lz4"];
    let stem = suffixes.iter().find_map(|suffix| lower.strip_suffix(suffix)).unwrap_or(&lower);
    let extension = stem.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_not = |what: &str| Err(Error::InvalidInput(format!("{} is not {what}", name.display())));
    let text = head.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(head).trim_ascii_start();
    match extension {
        _ if head.starts_with(b"FEA1") => {
            let name = name.display();
            let what = "Feather version 1 is not read; write it as version 2, which is Arrow IPC";
            Err(Error::Unsupported(format!("{name}: {what}")))
        }
        "parquet" => is_not("a Parquet file"),
        "arrow" | "feather" => is_not("an Arrow file"),
        // A stream of before version 0.15 starts with a length.
        "arrows" => Ok(Format::Arrow),
        "json" | "jsonl" | "ndjson" => Ok(Format::Json),
        "tsv" | "tab" => Ok(Format::Tsv),
        "csv" | "txt" => Ok(Format::Csv),
        _ if matches!(text.first(), Some(b'{' | b'[')) => Ok(Format::Json),
        _ => Ok(Format::Csv),
    }
}
