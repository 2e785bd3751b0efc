//! Trips into files: `trips-0001.csv`, …, each complete or absent, written on all cores in bounded
//! memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;
use stylobate::error::{Error, Result};
use tempfile::NamedTempFile;

use super::trips::Generator;
use super::{arrays, text};

/// Rows made at a time.
const STEP: u64 = 16_384;
/// Rows of a Parquet row group.
const ROW_GROUP: usize = 262_144;

/// How trips are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Text.
    Csv,
    /// Text, gzip.
    #[value(name = "csv.gz")]
    CsvGz,
    /// Parquet with zstd.
    Parquet,
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

/// Writes all files into `directory`; gives their paths and the bytes written.
pub(crate) fn write(
    generator: &Generator,
    format: Format,
    header: bool,
    directory: &Path,
) -> Result<(Vec<PathBuf>, u64)> {
    std::fs::create_dir_all(directory).map_err(|error| Error::io(directory, error))?;
    let path = |file: u64| directory.join(format!("trips-{:04}.{}", file + 1, format.extension()));
    let paths: Vec<PathBuf> = (0..generator.files()).map(path).collect();
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        return Err(Error::InvalidInput(format!(
            "{} exists: remove it or name another directory",
            path.display()
        )));
    }
    let one = |(file, path): (usize, &PathBuf)| {
        let rows = generator.file_rows(file as u64);
        complete(directory, path, |out| match format {
            Format::Csv => csv(generator, rows, header, out),
            Format::CsvGz => gzip(generator, rows, header, out),
            Format::Parquet => columns(generator, rows, out),
        })
    };
    // Plain text is made on all cores for one file at a time; what compresses runs a file a core.
    let sizes: Result<Vec<u64>> = match format {
        Format::Csv => paths.iter().enumerate().map(one).collect(),
        _ => paths.par_iter().enumerate().map(one).collect(),
    };
    Ok((paths, sizes?.into_iter().sum()))
}

/// The trips of all files as one CSV text.
pub(crate) fn write_stream(
    generator: &Generator,
    header: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    csv(generator, 0..generator.file_rows(generator.files() - 1).end, header, out)
}

/// Writes to a temporary name and renames, never over a file that is there; gives the size.
fn complete(
    directory: &Path,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> std::io::Result<()>,
) -> Result<u64> {
    let io = |error| Error::io(path, error);
    let mut file = NamedTempFile::with_prefix_in(".trips-", directory).map_err(io)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    write(&mut out).and_then(|()| out.flush()).map_err(io)?;
    drop(out);
    let size = file.as_file().metadata().map_err(io)?.len();
    make_readable(file.as_file()).map_err(io)?;
    file.persist_noclobber(path).map_err(|error| io(error.error))?;
    Ok(size)
}

/// Temporary files are private; the data is not.
#[cfg(unix)]
fn make_readable(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Temporary files are private; the data is not.
#[cfg(not(unix))]
fn make_readable(_file: &File) -> std::io::Result<()> {
    Ok(())
}

/// Pieces of a few thousand rows.
fn pieces(rows: Range<u64>) -> Vec<Range<u64>> {
    let end = rows.end;
    rows.step_by(STEP as usize).map(|start| start..(start + STEP).min(end)).collect()
}

fn csv(
    generator: &Generator,
    rows: Range<u64>,
    header: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    if header {
        text::write_header(&mut line);
    }
    out.write_all(&line)?;
    let pieces = pieces(rows);
    let wave = rayon::current_num_threads() * 4;
    let mut texts: Vec<Vec<u8>> = vec![Vec::new(); wave];
    for wave in pieces.chunks(wave) {
        wave.par_iter().zip(texts.par_iter_mut()).for_each(|(rows, text)| {
            text.clear();
            text::write_csv(generator, rows.clone(), text);
        });
        for text in texts.iter().take(wave.len()) {
            out.write_all(text)?;
        }
    }
    Ok(())
}

fn gzip(
    generator: &Generator,
    rows: Range<u64>,
    header: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let mut encoder = GzEncoder::new(out, Compression::new(6));
    let mut text = Vec::new();
    if header {
        text::write_header(&mut text);
    }
    for rows in pieces(rows) {
        text::write_csv(generator, rows, &mut text);
        encoder.write_all(&text)?;
        text.clear();
    }
    encoder.write_all(&text)?;
    encoder.finish()?;
    Ok(())
}

fn columns<W: Write + Send>(
    generator: &Generator,
    rows: Range<u64>,
    out: &mut W,
) -> std::io::Result<()> {
    let level = ZstdLevel::try_new(3).map_err(std::io::Error::other)?;
    let properties = WriterProperties::builder()
        .set_compression(Codec::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .build();
    let mut writer = ArrowWriter::try_new(out, arrays::schema(), Some(properties))
        .map_err(std::io::Error::other)?;
    for rows in pieces(rows) {
        let batch = arrays::batch(generator, rows).map_err(std::io::Error::other)?;
        writer.write(&batch).map_err(std::io::Error::other)?;
    }
    writer.close().map_err(std::io::Error::other)?;
    Ok(())
}
