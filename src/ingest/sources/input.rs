//! An input as the user names it, and opening it: detects compression and format, counts bytes.
//!
//! Compressed inputs are decoded on one thread each, streaming. The decoders are Rust libraries:
//! gzip by flate2 on zlib-rs (libdeflater is faster, but only for members that are in memory whole
//! and of known length), lz4 by lz4_flex (the C library is no faster), bzip2 by libbz2-rs (the C
//! library is faster, but would need a C compiler and be the less safe one on hostile input). The
//! end of a name only says what the bytes do not.

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::added::Added;
use super::compression::{Compression, decompress, decompress_in_place, recognise};
use super::counted::{Counted, hasher};
use super::encoding::{TextEncoding, Transcoder, transcode};
use super::format::{Format, find_format};
use super::live::{Live, Liveness};
use super::stream::{Bytes, read_error};
use super::zip::{self, Member};
use crate::error::{Error, Result};
use crate::manifest::Id;

/// Bytes by which compressions and formats are told.
const HEAD_BYTES: usize = 8;

/// A source of bytes.
pub struct Input {
    name: PathBuf,
    kind: InputKind,
    encoding: Option<TextEncoding>,
    consumed: Arc<AtomicU64>,
    hash: Arc<OnceLock<Id>>,
    added: Option<Added>,
    /// The member of an archive that the path names, if it is known already.
    member: Option<Member>,
    live: Option<(Duration, Arc<AtomicBool>)>,
}

enum InputKind {
    Path,
    Stdin,
    Reader(Bytes),
}

/// An open input whose format is known.
pub(crate) struct Opened {
    /// Name for messages.
    pub name: PathBuf,
    /// Format of the bytes.
    pub format: Format,
    /// Path of the file, if it is an uncompressed regular file that can be read at several
    /// positions.
    pub path: Option<PathBuf>,
    /// All bytes from the start, decompressed.
    pub bytes: Bytes,
    /// What is known of text that may never end; reads of it pause at ticks once they are started.
    pub live: Option<Liveness>,
    /// The text before these bytes, if only rows are read that were added to it.
    pub before: Option<Bytes>,
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
            kind: InputKind::Path,
            encoding: None,
            consumed: Arc::default(),
            hash: Arc::default(),
            added: None,
            member: None,
            live: None,
        }
    }

    /// A member of a zip archive.
    pub(crate) fn member(member: Member) -> Self {
        Input { member: Some(member.clone()), ..Input::path(member.path()) }
    }

    /// The member of a zip archive that the input is, if it was named as one.
    pub(crate) fn as_member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// Standard input.
    pub fn stdin() -> Self {
        Input {
            name: PathBuf::from("<stdin>"),
            kind: InputKind::Stdin,
            encoding: None,
            consumed: Arc::default(),
            hash: Arc::default(),
            added: None,
            member: None,
            live: None,
        }
    }

    /// Any stream of bytes; its format is detected as if it were a file of this name.
    pub fn reader(name: impl Into<PathBuf>, bytes: Bytes) -> Self {
        Input {
            name: name.into(),
            kind: InputKind::Reader(bytes),
            encoding: None,
            consumed: Arc::default(),
            hash: Arc::default(),
            added: None,
            member: None,
            live: None,
        }
    }

    /// The whole file once more, if the input is one.
    pub(in crate::ingest) fn again(&self) -> Option<Input> {
        let (encoding, member) = (self.encoding, self.member.clone());
        self.size().map(|_| Input { encoding, member, ..Input::path(&self.name) })
    }

    /// Sets the encoding of text, unless a byte-order mark says otherwise; the default is UTF-8.
    #[must_use]
    pub fn encoded(mut self, encoding: TextEncoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// Reads an input that is no file as one that may never end: at ticks of this time, what has
    /// come can be handed on, and when `end` is set, what has come is the whole input.
    #[must_use]
    pub(in crate::ingest) fn live(mut self, tick: Duration, end: Arc<AtomicBool>) -> Self {
        self.live = Some((tick, end));
        self
    }

    /// Reads only the rows that were added to the file.
    #[must_use]
    pub(in crate::ingest) fn only_added(mut self, added: Added) -> Self {
        self.consumed.store(added.from, Ordering::Relaxed);
        self.added = Some(added);
        self
    }

    /// How many bytes at the start of the file are not read, because they were loaded before.
    pub(in crate::ingest) fn loaded_bytes(&self) -> u64 {
        self.added.as_ref().map_or(0, |added| added.from)
    }

    /// The encoding of text that has no byte-order mark, if one is set.
    pub(in crate::ingest) fn encoding(&self) -> Option<TextEncoding> {
        self.encoding
    }

    /// The path, if the input is a file.
    pub fn file(&self) -> Option<&Path> {
        matches!(self.kind, InputKind::Path).then_some(self.name.as_path())
    }

    /// The name for messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Bytes of the file on disk, if known: the total that [`Input::consumed`] counts up to.
    pub fn size(&self) -> Option<u64> {
        if let Some(member) = &self.member {
            return Some(member.size());
        }
        match self.kind {
            InputKind::Path => {
                std::fs::metadata(&self.name).ok().filter(|m| m.is_file()).map(|m| m.len())
            }
            _ => None,
        }
    }

    /// Counts the bytes read from the input so far, before decompression; it keeps counting while
    /// the opened input is read. A Parquet file that is read by its path is not counted here.
    pub fn consumed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.consumed)
    }

    /// XXH3-128 of the input's bytes before decompression, set once all of them have been read. Not
    /// set for a Parquet file that is read by its path.
    pub(crate) fn hash(&self) -> Arc<OnceLock<Id>> {
        Arc::clone(&self.hash)
    }

    /// Opens the input and detects its compression by the first bytes, and its format by those or
    /// by the name.
    pub(crate) fn open(self) -> Result<Opened> {
        let Input { name, kind, encoding, consumed, hash, added, member, live } = self;
        if let Some(added) = added {
            let (format, [before, rows]) = added.open(&name, encoding, |rows, hasher| {
                Box::new(Counted::new(rows, consumed, hasher, hash))
            })?;
            return Ok(Opened {
                name,
                format,
                path: None,
                bytes: rows,
                live: None,
                before: Some(before),
            });
        }
        let is_file = matches!(kind, InputKind::Path) && name.is_file();
        let member = match (member, &kind) {
            (None, InputKind::Path) if !is_file => zip::find(&name)?,
            (member, _) => member,
        };
        let ticks = live.filter(|_| !is_file && member.is_none());
        let raw: Bytes = match kind {
            InputKind::Path => match &member {
                Some(member) => member.raw()?,
                None if ticks.is_some() && name.exists() => {
                    Box::new(OpenedByFirstRead { path: name.clone(), file: None })
                }
                None => Box::new(open_file(&name)?),
            },
            InputKind::Stdin => Box::new(io::stdin()),
            InputKind::Reader(bytes) => bytes,
        };
        let (raw, live) = live_bytes(&name, raw, ticks.as_ref())?;
        let mut raw: Bytes = Box::new(Counted::new(raw, consumed, hasher(), hash));
        if let Some(member) = &member {
            raw = member.decompress(raw)?;
        }
        let (head, raw) = peek(&name, raw, live.as_ref())?;
        let compression = recognise(&head).map_err(|method| unsupported(&name, method))?;
        // A decompressor takes a pause for an error, so pauses are made behind it.
        let (plain, live) = match (compression, &ticks) {
            (Compression::None, _) => (raw, live),
            (_, None) => (decompress(raw, compression).map_err(|e| read_error(&name, e))?, None),
            (_, Some(_)) => {
                let plain =
                    decompress_in_place(raw, compression).map_err(|e| read_error(&name, e))?;
                live_bytes(&name, plain, ticks.as_ref())?
            }
        };
        let (head, bytes) = if compression == Compression::None {
            (head, plain)
        } else {
            peek(&name, plain, live.as_ref())?
        };
        let format = find_format(&name, &head)?;
        let path = (is_file && compression == Compression::None).then(|| name.clone());
        let encoding = match format {
            Format::Csv | Format::Tsv | Format::Json => {
                TextEncoding::from_byte_order_mark(&head).or(encoding)
            }
            Format::Arrow | Format::Parquet => None,
        };
        let Some(encoding) = encoding.filter(|encoding| !encoding.is_utf8()) else {
            return Ok(Opened { name, format, path, bytes, live, before: None });
        };
        let (bytes, live) = match &ticks {
            None => (transcode(bytes, encoding).map_err(|e| read_error(&name, e))?, None),
            Some(_) => {
                let bytes = Box::new(Transcoder::new(bytes, encoding));
                live_bytes(&name, bytes, ticks.as_ref())?
            }
        };
        let (head, bytes) = peek(&name, bytes, live.as_ref())?;
        let format = find_format(&name, &head)?;
        Ok(Opened { name, format, path, bytes, live, before: None })
    }
}

/// Bytes that may never end, with pauses at ticks; without ticks, the bytes as they are.
fn live_bytes(
    name: &Path,
    bytes: Bytes,
    ticks: Option<&(Duration, Arc<AtomicBool>)>,
) -> Result<(Bytes, Option<Liveness>)> {
    let Some((tick, end)) = ticks else { return Ok((bytes, None)) };
    let live = Live::start(bytes, *tick, Arc::clone(end)).map_err(|e| read_error(name, e))?;
    let liveness = live.liveness();
    Ok((Box::new(live), Some(liveness)))
}

/// A named pipe is opened by the thread that reads it: opening waits for a writer.
struct OpenedByFirstRead {
    path: PathBuf,
    file: Option<File>,
}

impl Read for OpenedByFirstRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        self.file.insert(file).read(buffer)
    }
}

#[cold]
fn unsupported(name: &Path, method: &str) -> Error {
    let name = name.display();
    Error::Unsupported(match method {
        "zip" => format!(
            "{name} is a zip archive, which is read as a file whose name ends with .zip; or pipe \
             in what is in it: unzip -p FILE | sty ingest STORE/TABLE -"
        ),
        _ => format!(
            "{name} is compressed with {method}; decompress it and pipe it in: … | sty ingest \
             STORE/TABLE -"
        ),
    })
}

fn open_file(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::NotFound(format!("{}: there is no such file", path.display()))
        }
        _ => Error::io(path, e),
    })
}

/// Returns the first bytes and a stream that still starts with them. Of a live input, a line is
/// enough: no format is known by bytes with an end of line among them.
fn peek(name: &Path, mut bytes: Bytes, live: Option<&Liveness>) -> Result<(Vec<u8>, Bytes)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let pauses = |may: bool| live.iter().for_each(|live| live.set_ticks(may));
    pauses(true);
    while head.len() < HEAD_BYTES {
        let mut more = [0; HEAD_BYTES];
        let free = more.get_mut(head.len()..).unwrap_or_default();
        match bytes.read(free) {
            Ok(0) => break,
            Ok(n) => head.extend_from_slice(free.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && live.is_some() => {
                if head.contains(&b'\n') {
                    break;
                }
            }
            Err(error) => return Err(read_error(name, error)),
        }
    }
    pauses(false);
    Ok((head.clone(), Box::new(Cursor::new(head).chain(bytes))))
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
