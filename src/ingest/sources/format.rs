//! Detects the format of an input.

use std::fs::File;
use std::path::Path;

use super::arrow::{CONTINUATION, FILE_MAGIC};
use super::stream::read_full;
use crate::error::{Error, Result};

/// An input format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Comma-separated values, also with other delimiters.
    Csv,
    /// Tab-separated values, quoted like CSV.
    Tsv,
    /// JSON lines, an array of objects, or concatenated objects.
    Json,
    /// Arrow IPC, stream or file format.
    Arrow,
    /// Apache Parquet.
    Parquet,
}

/// Detects the format by magic number, else by the name without a compression suffix, else by the
/// first character: JSON for a bracket, and CSV otherwise.
pub(crate) fn find_format(name: &Path, head: &[u8]) -> Result<Format> {
    if head.starts_with(b"PAR1") {
        return Ok(Format::Parquet);
    }
    if head.starts_with(FILE_MAGIC) || head.starts_with(&CONTINUATION) {
        return Ok(Format::Arrow);
    }
    let extension = extension(name);
    let is_not = |what: &str| Err(Error::InvalidInput(format!("{} is not {what}", name.display())));
    let text = head.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(head).trim_ascii_start();
    match extension.as_str() {
        _ if head.starts_with(b"FEA1") => {
            let name = name.display();
            let what = "Feather version 1 is not read; write it as version 2, which is Arrow IPC";
            Err(Error::Unsupported(format!("{name}: {what}")))
        }
        "parquet" => is_not("a Parquet file"),
        "arrow" | "feather" => is_not("an Arrow file"),
        // Before version 0.15, a stream starts with a length.
        "arrows" => Ok(Format::Arrow),
        "json" | "jsonl" | "ndjson" => Ok(Format::Json),
        "tsv" | "tab" => Ok(Format::Tsv),
        "csv" | "txt" => Ok(Format::Csv),
        _ if matches!(text.first(), Some(b'{' | b'[')) => Ok(Format::Json),
        _ => Ok(Format::Csv),
    }
}

/// The end of a name in lower case, without that of a compression.
fn extension(name: &Path) -> String {
    let lower = name.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let suffixes = [".gz", ".gzip", ".zst", ".zstd", ".bz2", ".lz4"];
    let stem = suffixes.iter().find_map(|suffix| lower.strip_suffix(suffix)).unwrap_or(&lower);
    stem.rsplit_once('.').map_or("", |(_, extension)| extension).to_owned()
}

/// The end of a name that says what a file holds.
pub(super) fn data_extension(name: &Path) -> Option<&'static str> {
    const ALL: [&str; 12] = [
        "csv", "tsv", "tab", "txt", "json", "jsonl", "ndjson", "parquet", "arrow", "arrows",
        "feather", "ipc",
    ];
    let extension = extension(name);
    ALL.into_iter().find(|known| **known == extension)
}

/// Whether the first bytes of a file say that it is Parquet or Arrow, whatever its name.
pub(super) fn has_magic(path: &Path) -> bool {
    let mut head = [0; 6];
    let read = File::open(path).and_then(|mut file| read_full(&mut file, &mut head));
    read.is_ok() && (head.starts_with(b"PAR1") || head.starts_with(FILE_MAGIC))
}
