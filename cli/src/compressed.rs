//! Files of results that are compressed as their names say: `.gz` or `.zst`.
//!
//! Each answer of a file that holds several is a member (gzip) or frame (zstd) of its own; readers
//! take what follows one another for one text.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::write::GzEncoder;

use crate::errors::Failure;

/// A file that is being written, behind its compressor.
pub(crate) enum ResultFile {
    Plain(File),
    Gzip(Box<GzEncoder<File>>),
    Zstd(Box<zstd::Encoder<'static, File>>),
}

impl ResultFile {
    /// Begins to write to a file where it stands, compressed as the name says that it will get.
    pub(crate) fn new(file: File, name: &Path) -> io::Result<ResultFile> {
        Ok(match extension(name).as_deref() {
            Some("gz") => {
                let level = flate2::Compression::default();
                ResultFile::Gzip(Box::new(GzEncoder::new(file, level)))
            }
            Some("zst") => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                ResultFile::Zstd(Box::new(zstd::Encoder::new(file, level)?))
            }
            _ => ResultFile::Plain(file),
        })
    }

    pub(crate) fn is_compressed(&self) -> bool {
        !matches!(self, ResultFile::Plain(_))
    }

    /// Writes what the compressor still holds.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            ResultFile::Plain(_) => Ok(()),
            ResultFile::Gzip(encoder) => encoder.finish().map(drop),
            ResultFile::Zstd(encoder) => encoder.finish().map(drop),
        }
    }
}

impl Write for ResultFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ResultFile::Plain(file) => file.write(bytes),
            ResultFile::Gzip(encoder) => encoder.write(bytes),
            ResultFile::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for ResultFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_compressed() { "Compressed" } else { "Plain" })
    }
}

/// The name that a file has without the ending of its compression.
pub(crate) fn uncompressed(name: &Path) -> &Path {
    match (extension(name).as_deref(), name.file_stem()) {
        (Some("gz" | "zst"), Some(stem)) => Path::new(stem),
        _ => name,
    }
}

/// Fails for the ending of a compression that is not written.
pub(crate) fn check_name(name: &Path) -> Result<(), Failure> {
    match extension(name).as_deref() {
        Some(other @ ("bz2" | "lz4" | "xz" | "zip")) => {
            let what = format!("{}: sty does not write .{other} files", name.display());
            Err(Failure::usage(what).hint("end the name with .gz or .zst"))
        }
        _ => Ok(()),
    }
}

fn extension(name: &Path) -> Option<String> {
    Some(name.extension()?.to_str()?.to_ascii_lowercase())
}
