//! Members of zip archives as inputs. A member has a path as if the archive were a directory,
//! `data.zip/flights.csv`, so that ledger, rejects and messages need not know of archives.
//!
//! `rawzip` reads the directory of an archive, which is at its end, and finds where the bytes of a
//! member are. They are decompressed like any input (`compression`), and then compared with the
//! size and checksum that the directory has.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipArchiveEntryWayfinder};

use super::compression::{Compression, decompress};
use super::foreign::guarded_read;
use super::stream::Bytes;
use crate::disk::real::look_up;
use crate::error::{Error, IoResult, Result};

/// `*` stays within a directory.
const AS_IN_DIRECTORIES: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// A file in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    archive: PathBuf,
    /// The path of the archive and the name in it.
    path: PathBuf,
    place: ZipArchiveEntryWayfinder,
    /// Bytes before decompression.
    size: u64,
    method: CompressionMethod,
    is_encrypted: bool,
}

impl Member {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn archive(&self) -> &Path {
        &self.archive
    }

    /// The size in the archive, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes as they are in the archive.
    pub(super) fn raw(&self) -> Result<Bytes> {
        let (start, end) = self.read_archive(|archive| {
            let entry = archive.get_entry(self.place).map_err(|e| damaged(&self.path, e))?;
            Ok(entry.compressed_data_range())
        })?;
        let mut file = File::open(&self.archive).with_path(&self.archive)?;
        file.seek(SeekFrom::Start(start)).with_path(&self.archive)?;
        Ok(Box::new(file.take(end.saturating_sub(start))))
    }

    /// Decompresses the bytes, which are those of [`Member::raw`].
    pub(super) fn decompress(&self, raw: Bytes) -> Result<Bytes> {
        let name = self.path.display();
        if self.is_encrypted {
            return Err(Error::Unsupported(format!("{name} is encrypted; unpack the archive")));
        }
        let compression = match self.method {
            CompressionMethod::STORE => Compression::None,
            CompressionMethod::DEFLATE => Compression::Deflate,
            CompressionMethod::ZSTD | CompressionMethod::ZSTD_DEPRECATED => Compression::Zstd,
            CompressionMethod::BZIP2 => Compression::Bzip2,
            other => {
                let method = other.name().unwrap_or("an unknown method");
                return Err(Error::Unsupported(format!(
                    "{name} is compressed with {method}; unpack the archive"
                )));
            }
        };
        let plain = decompress(raw, compression).with_path(&self.path)?;
        self.read_archive(|archive| {
            let entry = archive.get_entry(self.place).map_err(|e| damaged(&self.path, e))?;
            Ok(Box::new(entry.verifying_reader(plain)) as Bytes)
        })
    }

    fn read_archive<T>(
        &self,
        read: impl FnOnce(&ZipArchive<rawzip::FileReader>) -> Result<T>,
    ) -> Result<T> {
        guarded_read(&self.path, "zip", || read(&open(&self.archive, &mut buffer())?))
    }
}

/// The members that an argument names: those of an archive, `data.zip`, of a pattern in it,
/// `data.zip/*.csv`, or a single one. `None` if it is about no archive.
pub(crate) fn members(argument: &Path) -> Result<Option<Vec<Member>>> {
    let Some((archive, within)) = split(argument)? else { return Ok(None) };
    let mut found = list(archive)?;
    let is_meant = |member: &Member| member.path == argument;
    match within.to_str().filter(|within| !within.is_empty()) {
        None => found.retain(|member| !is_hidden(member)),
        Some(_) if found.iter().any(is_meant) => found.retain(is_meant),
        Some(within) => {
            let pattern = glob::Pattern::new(within).map_err(|error| {
                Error::InvalidInput(format!("{}: not a pattern: {error}", argument.display()))
            })?;
            found.retain(|member| {
                let name = member.path.strip_prefix(archive);
                name.is_ok_and(|name| pattern.matches_path_with(name, AS_IN_DIRECTORIES))
            });
        }
    }
    if found.is_empty() {
        let what = match within.display().to_string() {
            all if all.is_empty() => "there are no files in it".to_owned(),
            within => format!("no file {within} in it"),
        };
        return Err(Error::NotFound(format!("{}: {what}", archive.display())));
    }
    Ok(Some(found))
}

/// The member of this path, if it is that of one.
pub(crate) fn find(path: &Path) -> Result<Option<Member>> {
    match split(path)? {
        Some((archive, within)) if within.as_os_str().is_empty() => Err(Error::InvalidInput(
            format!("{} is a zip archive, and not one file", archive.display()),
        )),
        Some(_) => Ok(members(path)?.and_then(|members| members.into_iter().next())),
        None => Ok(None),
    }
}

/// The bytes of a file, or of a member, as they are on disk.
pub(in crate::ingest) fn open_raw(path: &Path) -> Result<Bytes> {
    match find(path)? {
        Some(member) => member.raw(),
        None => Ok(Box::new(File::open(path).with_path(path)?)),
    }
}

/// The archive at the beginning of a path, and the path within it.
fn split(path: &Path) -> Result<Option<(&Path, &Path)>> {
    for archive in path.ancestors() {
        let is_named = archive.extension().is_some_and(|end| end.eq_ignore_ascii_case("zip"));
        if is_named && look_up(archive)?.is_some_and(|found| found.is_file()) {
            let within = path.strip_prefix(archive).unwrap_or(Path::new(""));
            return Ok(Some((archive, within)));
        }
    }
    Ok(None)
}

/// All files of an archive, sorted by name.
fn list(archive: &Path) -> Result<Vec<Member>> {
    guarded_read(archive, "zip", || {
        let mut buffer = buffer();
        let opened = open(archive, &mut buffer)?;
        let mut entries = opened.entries(&mut buffer);
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry().map_err(|e| damaged(archive, e))? {
            let is_link = entry.mode().is_symlink();
            if entry.is_dir() || is_link {
                continue;
            }
            // Some programs of Windows write `\`.
            let name = String::from_utf8_lossy(entry.file_path().as_bytes()).replace('\\', "/");
            found.push(Member {
                archive: archive.to_path_buf(),
                path: archive.join(name.trim_start_matches('/')),
                place: entry.wayfinder(),
                size: entry.compressed_size_hint(),
                method: entry.compression_method(),
                is_encrypted: entry.flags().is_encrypted(),
            });
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some([twice, _]) = found.array_windows().find(|[a, b]| a.path == b.path) {
            let path = twice.path.display();
            let what = format!("{path}: the archive has two files of this name; unpack it");
            return Err(Error::InvalidInput(what));
        }
        Ok(found)
    })
}

/// Whether a member is left out where a whole archive is read, as in a directory: `__MACOSX/…`.
fn is_hidden(member: &Member) -> bool {
    let within = member.path.strip_prefix(&member.archive).unwrap_or(&member.path);
    let is_hidden =
        |part: &OsStr| part != ".." && matches!(part.as_encoded_bytes().first(), Some(b'.' | b'_'));
    within.iter().any(is_hidden)
}

fn buffer() -> Vec<u8> {
    vec![0; RECOMMENDED_BUFFER_SIZE]
}

fn open(archive: &Path, buffer: &mut [u8]) -> Result<ZipArchive<rawzip::FileReader>> {
    let file = File::open(archive).with_path(archive)?;
    ZipArchive::from_file(file, buffer).map_err(|error| damaged(archive, error))
}

#[cold]
fn damaged(name: &Path, error: rawzip::Error) -> Error {
    Error::InvalidInput(format!("{}: cannot be read as zip: {error}", name.display()))
}

#[cfg(test)]
#[path = "zip_tests.rs"]
mod tests;
