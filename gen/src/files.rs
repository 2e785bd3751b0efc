//! Writes trips to files: `trips-0001.csv` and so on, each complete or absent, on all cores and in
//! bounded memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;
use tempfile::NamedTempFile;

use crate::generator::Generator;
use crate::{arrays, text};

/// Rows that are made at a time.
const BATCH_ROWS: u64 = 16_384;
/// Rows of a Parquet row group.
const ROW_GROUP_ROWS: usize = 262_144;

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text.
    Csv,
    /// Text, compressed with gzip.
    CsvGz,
    /// Parquet, compressed with zstd.
    Parquet,
}

/// Why files could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of that name is there already.
    #[error("{} exists: remove it or name another directory", .0.display())]
    Exists(PathBuf),
    /// The caller wanted no more rows.
    #[error("cancelled")]
    Cancelled,
    /// The operating system refused.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Error {
    fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::Interrupted => Error::Cancelled,
            _ => Error::Io { path: path.to_path_buf(), source },
        }
    }
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::CsvGz => "csv.gz",
            Format::Parquet => "parquet",
        }
    }
}

/// Writes all files into `directory`, and returns their paths and the number of bytes. Stops within
/// a batch of rows, and leaves no part of a file, once `cancelled` is set. Files that are not
/// complete are in a directory that `unfinished` is told of: a caller that ends the process removes
/// it.
pub fn write(
    generator: &Generator,
    format: Format,
    header: bool,
    directory: &Path,
    unfinished: impl FnOnce(&Path),
    cancelled: &AtomicBool,
) -> Result<(Vec<PathBuf>, u64), Error> {
    let failed = |error| Error::io(directory, error);
    std::fs::create_dir_all(directory).map_err(failed)?;
    let path = |file: u64| directory.join(format!("trips-{:04}.{}", file + 1, format.extension()));
    let paths: Vec<PathBuf> = (0..generator.files()).map(path).collect();
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        return Err(Error::Exists(path.clone()));
    }
    let temporary = tempfile::Builder::new().prefix(".trips-").tempdir_in(directory);
    let temporary = temporary.map_err(failed)?;
    unfinished(temporary.path());
    let write_one = |(file, path): (usize, &PathBuf)| {
        let rows = generator.file_rows(file as u64);
        write_file(temporary.path(), path, |out| match format {
            Format::Csv => write_csv(generator, rows, header, out, cancelled),
            Format::CsvGz => write_gzip(generator, rows, header, out, cancelled),
            Format::Parquet => write_parquet(generator, rows, out, cancelled),
        })
    };
    // All cores make the plain text of one file at a time; compressed files take one core each.
    let sizes: Result<Vec<u64>, Error> = match format {
        Format::Csv => paths.iter().enumerate().map(write_one).collect(),
        _ => paths.par_iter().enumerate().map(write_one).collect(),
    };
    Ok((paths, sizes?.into_iter().sum()))
}

/// Writes the trips of all files as one CSV text.
pub fn write_stream(generator: &Generator, header: bool, out: &mut impl Write) -> io::Result<()> {
    let rows = 0..generator.file_rows(generator.files() - 1).end;
    write_csv(generator, rows, header, out, &AtomicBool::new(false))
}

/// Writes a file under a temporary name and renames it when it is complete, but never over a file
/// that is there. Returns its size.
fn write_file(
    temporary: &Path,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<u64, Error> {
    let failed = |error| Error::io(path, error);
    let mut file = NamedTempFile::new_in(temporary).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    drop(out);
    let size = file.as_file().metadata().map_err(failed)?.len();
    make_readable(file.as_file()).map_err(failed)?;
    file.persist_noclobber(path).map_err(|error| failed(error.error))?;
    Ok(size)
}

/// Temporary files are private; the data is not.
#[cfg(unix)]
fn make_readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Temporary files are private; the data is not.
#[cfg(not(unix))]
fn make_readable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Fails once the caller wants no more rows.
fn check(cancelled: &AtomicBool) -> io::Result<()> {
    match cancelled.load(Ordering::Relaxed) {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}

/// Cuts rows into batches.
fn batches(rows: Range<u64>) -> Vec<Range<u64>> {
    let end = rows.end;
    rows.step_by(BATCH_ROWS as usize).map(|start| start..(start + BATCH_ROWS).min(end)).collect()
}

fn write_csv(
    generator: &Generator,
    rows: Range<u64>,
    header: bool,
    out: &mut impl Write,
    cancelled: &AtomicBool,
) -> io::Result<()> {
    let mut line = Vec::new();
    if header {
        text::write_header(&mut line);
    }
    out.write_all(&line)?;
    let at_a_time = rayon::current_num_threads() * 4;
    let mut texts: Vec<Vec<u8>> = vec![Vec::new(); at_a_time];
    for wave in batches(rows).chunks(at_a_time) {
        wave.par_iter().zip(texts.par_iter_mut()).try_for_each(|(rows, text)| {
            check(cancelled)?;
            text.clear();
            text::write_csv(generator, rows.clone(), text);
            io::Result::Ok(())
        })?;
        for text in texts.iter().take(wave.len()) {
            out.write_all(text)?;
        }
    }
    Ok(())
}

fn write_gzip(
    generator: &Generator,
    rows: Range<u64>,
    header: bool,
    out: &mut impl Write,
    cancelled: &AtomicBool,
) -> io::Result<()> {
    let mut encoder = GzEncoder::new(out, Compression::new(6));
    let mut text = Vec::new();
    if header {
        text::write_header(&mut text);
    }
    for rows in batches(rows) {
        check(cancelled)?;
        text::write_csv(generator, rows, &mut text);
        encoder.write_all(&text)?;
        text.clear();
    }
    encoder.write_all(&text)?;
    encoder.finish()?;
    Ok(())
}

fn write_parquet<W: Write + Send>(
    generator: &Generator,
    rows: Range<u64>,
    out: &mut W,
    cancelled: &AtomicBool,
) -> io::Result<()> {
    let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
    let properties = WriterProperties::builder()
        .set_compression(Codec::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let mut writer =
        ArrowWriter::try_new(out, arrays::schema(), Some(properties)).map_err(io::Error::other)?;
    for rows in batches(rows) {
        check(cancelled)?;
        let batch = arrays::batch(generator, rows).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io::Error::other)?;
    }
    writer.close().map_err(io::Error::other)?;
    Ok(())
}
