//! Inputs as the user names them, and opening one: compression and format found, bytes counted.

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_schema::Schema as ArrowSchema;

use super::ahead::{Compression, decompress, read_full, recognise, transcode};
use super::arrow::{CONTINUATION, FILE_MAGIC};
use super::encoding::TextEncoding;
use twox_hash::xxhash3_128::{RawHasher, SecretBuffer};

use crate::error::{Error, Result};
use crate::manifest::Id;
use crate::model::DataType;

/// A stream of bytes that may move to another thread.
pub type Bytes = Box<dyn Read + Send>;

/// Where bytes come from.
pub struct Input {
    name: PathBuf,
    source: Source,
    encoding: Option<TextEncoding>,
    consumed: Arc<AtomicU64>,
    hash: Arc<OnceLock<Id>>,
}

enum Source {
    Path,
    Stdin,
    Reader(Bytes),
}

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

/// An input whose first bytes have been looked at.
pub struct Opened {
    /// Name for messages.
    pub name: PathBuf,
    /// What the bytes are.
    pub format: Format,
    /// The file itself, where the bytes are a plain file that may be read from several places.
    pub path: Option<PathBuf>,
    /// All bytes from the start, decompressed.
    pub bytes: Bytes,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("name", &self.name)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// A file.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Input {
            name: path.into(),
            source: Source::Path,
            encoding: None,
            consumed: Arc::default(),
            hash: Arc::default(),
        }
    }

    /// Standard input.
    pub fn stdin() -> Self {
        Input {
            name: PathBuf::from("<stdin>"),
            source: Source::Stdin,
            encoding: None,
            consumed: Arc::default(),
            hash: Arc::default(),
        }
    }

    /// Any stream of bytes; its format is guessed as a file of this name would be.
    pub fn reader(name: impl Into<PathBuf>, bytes: Bytes) -> Self {
        Input {
            name: name.into(),
            source: Source::Reader(bytes),
            encoding: None,
            consumed: Arc::default(),
            hash: Arc::default(),
        }
    }

    /// Text in it is written so, unless a byte-order mark says otherwise; without this, as UTF-8.
    #[must_use]
    pub fn encoded(mut self, encoding: TextEncoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// The path of a file, rather than a name for messages.
    pub fn file(&self) -> Option<&Path> {
        matches!(self.source, Source::Path).then_some(self.name.as_path())
    }

    /// The name for messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Bytes of the file as it lies on disk, where they are known: the whole that
    /// [`Input::consumed`] counts up to.
    pub fn size(&self) -> Option<u64> {
        match self.source {
            Source::Path => {
                std::fs::metadata(&self.name).ok().filter(|m| m.is_file()).map(|m| m.len())
            }
            _ => None,
        }
    }

    /// The count of bytes taken from the input so far (compressed ones, if it is compressed); it
    /// goes on counting while the opened input is read. A Parquet file read by its path is not
    /// counted here.
    pub fn consumed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.consumed)
    }

    /// XXH3-128 of its bytes as they lie there, once all of them were read. Not for a Parquet file
    /// read by its path.
    pub fn hash(&self) -> Arc<OnceLock<Id>> {
        Arc::clone(&self.hash)
    }

    /// Opens the input, and finds out its compression by its first bytes and its format by those or
    /// its name.
    pub fn open(self) -> Result<Opened> {
        let Input { name, source, encoding, consumed, hash } = self;
        let is_file = matches!(source, Source::Path) && name.is_file();
        let raw: Bytes = match source {
            Source::Path => Box::new(open_file(&name)?),
            Source::Stdin => Box::new(io::stdin()),
            Source::Reader(bytes) => bytes,
        };
        let (head, raw) = peek(&name, Box::new(Counted { raw, consumed, hasher: hasher(), hash }))?;
        let compression = recognise(&head).map_err(|method| {
            Error::Unsupported(format!(
                "{} is compressed with {method}; decompress it and pipe it in: … | sty ingest STORE/TABLE -",
                name.display()
            ))
        })?;
        let plain = decompress(raw, compression).map_err(|e| read_error(&name, e))?;
        let (head, bytes) =
            if compression == Compression::None { (head, plain) } else { peek(&name, plain)? };
        let format = find_format(&name, &head)?;
        let path = (is_file && compression == Compression::None).then(|| name.clone());
        let encoding = match format {
            Format::Csv | Format::Tsv | Format::Json => TextEncoding::of_mark(&head).or(encoding),
            Format::Arrow | Format::Parquet => None,
        };
        let Some(encoding) = encoding.filter(|encoding| !encoding.is_utf8()) else {
            return Ok(Opened { name, format, path, bytes });
        };
        let bytes = transcode(bytes, encoding).map_err(|e| read_error(&name, e))?;
        let (head, bytes) = peek(&name, bytes)?;
        let format = find_format(&name, &head)?;
        Ok(Opened { name, format, path, bytes })
    }
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::NotFound(format!("{}: there is no such file", path.display()))
        }
        _ => Error::io(path, e),
    })
}

/// The first bytes, and a stream that still has them.
fn peek(name: &Path, mut bytes: Bytes) -> Result<(Vec<u8>, Bytes)> {
    let mut head = vec![0; 8];
    let n = read_full(&mut *bytes, &mut head).map_err(|e| read_error(name, e))?;
    head.truncate(n);
    Ok((head.clone(), Box::new(Cursor::new(head).chain(bytes))))
}

/// An error while reading an input: damage of compressed data is the input's fault, all else the
/// system's.
pub(super) fn read_error(name: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            Error::InvalidInput(format!(
                "{}: the compressed data are damaged or cut off: {error}",
                name.display()
            ))
        }
        // zstd reports damage without a kind of its own, and without an error number of the system.
        _ if error.raw_os_error().is_none() => {
            Error::InvalidInput(format!("{}: {error}", name.display()))
        }
        _ => Error::io(name, error),
    }
}

/// Reads until `text` holds `size` bytes; false at the end of the input.
pub(super) fn fill(
    name: &Path,
    bytes: &mut Bytes,
    text: &mut Vec<u8>,
    size: usize,
) -> Result<bool> {
    let before = text.len();
    text.resize(size.max(before), 0);
    let free = text.get_mut(before..).unwrap_or_default();
    let n = read_full(&mut **bytes, free).map_err(|e| read_error(name, e))?;
    text.truncate(before + n);
    Ok(text.len() >= size)
}

/// The positions of the columns that a table can hold. Another one is an error that names it or,
/// with `skip_unsupported`, named in the second result.
pub(super) fn supported_columns(
    name: &Path,
    schema: &ArrowSchema,
    skip_unsupported: bool,
) -> Result<(Vec<usize>, Vec<String>)> {
    let (mut columns, mut skipped) = (Vec::new(), Vec::new());
    for (at, field) in schema.fields().iter().enumerate() {
        match DataType::from_arrow(field.data_type()) {
            Some(_) => columns.push(at),
            None if skip_unsupported => skipped.push(field.name().clone()),
            None => {
                return Err(Error::Unsupported(format!(
                    "{}: column '{}' has type {}, which a table cannot hold yet; \
                     leave such columns out with --skip-unsupported",
                    name.display(),
                    field.name(),
                    field.data_type()
                )));
            }
        }
    }
    Ok((columns, skipped))
}

/// The format by magic number, else by the name without the suffix of its compression, else by the
/// first character: CSV, unless it is a bracket.
fn find_format(name: &Path, head: &[u8]) -> Result<Format> {
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

/// XXH3-128 over a stream.
pub(in crate::ingest) type Hasher = RawHasher<&'static [u8; 192]>;

pub(in crate::ingest) fn hasher() -> Hasher {
    RawHasher::new(SecretBuffer::default())
}

/// Counts and hashes what is read.
struct Counted {
    raw: Bytes,
    consumed: Arc<AtomicU64>,
    hasher: Hasher,
    hash: Arc<OnceLock<Id>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(buffer)?;
        self.consumed.fetch_add(n as u64, Ordering::Relaxed);
        self.hasher.write(buffer.get(..n).unwrap_or_default());
        if n == 0 && !buffer.is_empty() {
            // The end; more than once, it is the same.
            let _ = self.hash.set(self.hasher.finish_128().to_le_bytes());
        }
        Ok(n)
    }
}

/// The inputs that arguments name: files, `-` for standard input, directories (the files inside,
/// sorted, without those whose names start with `.` or `_`) and glob patterns.
pub fn expand(arguments: &[String]) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for argument in arguments {
        let path = Path::new(argument);
        if argument == "-" {
            inputs.push(Input::stdin());
        } else if path.is_dir() {
            push_directory(path, &mut inputs)?;
        } else if path.exists() {
            inputs.push(Input::path(path));
        } else {
            push_pattern(argument, &mut inputs)?;
        }
    }
    Ok(inputs)
}

fn push_pattern(pattern: &str, inputs: &mut Vec<Input>) -> Result<()> {
    if !pattern.contains(['*', '?', '[']) {
        return Err(Error::NotFound(format!("{pattern}: there is no such file")));
    }
    let before = inputs.len();
    let matches = glob::glob(pattern)
        .map_err(|e| Error::InvalidInput(format!("{pattern}: not a pattern of file names: {e}")))?;
    for found in matches {
        let path = found.map_err(|e| {
            let path = e.path().to_path_buf();
            Error::io(path, e.into())
        })?;
        if path.is_dir() {
            push_directory(&path, inputs)?;
        } else {
            inputs.push(Input::path(path));
        }
    }
    if inputs.len() == before {
        return Err(Error::NotFound(format!("{pattern}: no file matches")));
    }
    Ok(())
}

fn push_directory(directory: &Path, inputs: &mut Vec<Input>) -> Result<()> {
    let before = inputs.len();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if !path.is_dir() {
            inputs.push(Input::path(path));
            continue;
        }
        let entries = std::fs::read_dir(&path).map_err(|e| Error::io(&path, e))?;
        let mut inside = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| Error::io(&path, e))?;
            let is_link_to_directory =
                entry.file_type().is_ok_and(|t| t.is_symlink()) && entry.path().is_dir();
            let name = entry.file_name();
            let hidden = matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_'));
            if !hidden && !is_link_to_directory {
                inside.push(entry.path());
            }
        }
        inside.sort_unstable_by(|a, b| b.cmp(a));
        waiting.append(&mut inside);
    }
    if inputs.len() == before {
        return Err(Error::NotFound(format!(
            "{}: there are no files in this directory",
            directory.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
