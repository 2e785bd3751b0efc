//! The file of rejected rows: CSV with the columns `file,line,column,reason,raw`.
//!
//! `raw` has the bytes of the row. Where these are not UTF-8, neither is the file: an editor shows
//! them as it shows those of the input, and they are loaded back as they are.
//!
//! It is written under a temporary name, synced before each commit, and renamed right after the
//! first one, so that a load that fails or rejects nothing leaves no file. The temporary name
//! contains the id of the load: a load killed between commit and rename is found again when it
//! resumes, or, if nothing was left to load, when it is begun once more. A killed load may also
//! leave rows after those of its last commit; the load that resumes takes over as many rows as the
//! ledger counts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::rejects::{PriorRejects, Reject};
use super::unpublished::Unpublished;
use crate::disk::temporary::without_path;
use crate::disk::{Disk, RealDisk, durable};
use crate::error::{Error, IoResult, Result};
use crate::store::outside::check_outside_tables;

/// The first line of a rejects file.
pub(super) const HEADER: &str = "file,line,column,reason,raw\n";

/// A rejects file that is being written. It belongs to the user and not to a store, so it does not
/// go through [`Disk`]. Dropped before it is published, it leaves nothing.
#[derive(Debug)]
pub(super) struct RejectsFile {
    writer: BufWriter<File>,
    /// The file until it is published.
    temporary: Option<TempPath>,
    /// What a process that ends itself knows of it until then.
    unpublished: Option<Unpublished>,
    target: PathBuf,
    replace: bool,
    /// The temporary file of the killed load that this one resumes.
    leftover: Option<PathBuf>,
    /// Whether the target is a pipe or a device, to which rows are copied after each commit.
    pub(super) stream: bool,
    /// How many bytes were copied.
    copied: u64,
}

impl RejectsFile {
    /// Creates the file, starting with the rows that this load rejected earlier, wherever they are.
    pub(super) fn create(path: &Path, replace: bool, before: &PriorRejects) -> Result<Self> {
        check_outside_tables(path)?;
        let refused = |what: &str| Err(Error::InvalidInput(format!("{}: {what}", path.display())));
        let taken = "the file for rejected rows exists already; --force replaces it";
        let resumes = before.total() > 0;
        let (target, stream, exists) = match path.metadata() {
            Ok(found) if found.is_dir() => {
                return refused("rejected rows cannot be written to a directory; name a file");
            }
            Ok(found) if !found.is_file() => (path.to_path_buf(), true, true),
            Ok(_) if !replace && !resumes => return refused(taken),
            // Through a symbolic link, so that the link stays.
            Ok(_) => (path.canonicalize().with_path(path)?, false, true),
            Err(_) => (path.to_path_buf(), false, false),
        };
        let directory =
            if stream { std::env::temp_dir() } else { durable::parent(&target).to_path_buf() };
        let load_path = directory.join(temporary_name(before));
        // Others may read the folder of temporary files.
        let mode = if stream { 0o600 } else { 0o666 };
        let mut file = RejectsFile::temporary(&directory, (&load_path, mode), resumes, target)?;
        (file.replace, file.stream) = (replace, stream);
        if resumes && !stream {
            if file.copy_rows(&load_path, before)? {
                if exists && !replace && !file.target_is_of_load(before)? {
                    return refused(taken);
                }
                (file.replace, file.leftover) = (true, Some(load_path));
                return Ok(file);
            }
            let target = file.target.clone();
            if file.copy_rows(&target, before)? {
                file.replace = true;
                return Ok(file);
            }
            if !replace {
                return missing_rows(path, before.total());
            }
        }
        file.writer.write_all(HEADER.as_bytes()).with_path(&file.target)?;
        Ok(file)
    }

    /// An empty file. The first run of a load uses the name that contains the load's id.
    fn temporary(
        directory: &Path,
        (load_path, mode): (&Path, u32),
        resumes: bool,
        target: PathBuf,
    ) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.permissions(std::fs::Permissions::from_mode(mode));
        let name = load_path.file_name().unwrap_or_default();
        let make = || {
            let made = if resumes {
                builder.prefix(".sty-").tempfile_in(directory)
            } else {
                // The load has not committed anything: a leftover file means nothing.
                let _ = RealDisk.remove(load_path);
                builder.prefix(name).rand_bytes(0).tempfile_in(directory)
            };
            made.map_err(without_path).with_path(directory)
        };
        let (made, unpublished) = Unpublished::make(make, NamedTempFile::path)?;
        let (file, temporary) = made.into_parts();
        Ok(RejectsFile {
            writer: BufWriter::with_capacity(1 << 16, file),
            temporary: Some(temporary),
            unpublished: Some(unpublished),
            target,
            replace: false,
            leftover: None,
            stream: false,
            copied: 0,
        })
    }

    /// Copies the prior rows of the load from a file. Returns false, and copies nothing, if some
    /// are missing.
    fn copy_rows(&mut self, from: &Path, before: &PriorRejects) -> Result<bool> {
        if !copy_prior_rows(from, before, &mut io::sink())? {
            return Ok(false);
        }
        copy_prior_rows(from, before, &mut self.writer)
    }

    /// Whether the file at the target belongs to this load.
    fn target_is_of_load(&self, before: &PriorRejects) -> Result<bool> {
        copy_prior_rows(&self.target, before, &mut io::sink())
    }

    pub(super) fn write(&mut self, reject: &Reject) -> Result<()> {
        write_row(&mut self.writer, reject).with_path(&self.target)
    }

    pub(super) fn seal(&mut self) -> Result<()> {
        let sealed = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all());
        sealed.with_path(&self.target)?;
        self.unpublished.iter().for_each(Unpublished::synced);
        // Until it is renamed, it has to be found under its temporary name.
        match self.temporary {
            Some(_) if !self.stream => RealDisk.sync_dir(durable::parent(&self.target)),
            _ => Ok(()),
        }
    }

    /// Renames the file to its target, where it may keep growing.
    pub(super) fn publish(&mut self) -> Result<()> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let target = &self.target;
        if self.stream {
            match copy_after(&temporary, target, self.copied) {
                Ok(copied) => (self.copied, self.temporary) = (copied, Some(temporary)),
                // Whoever reads the rejected rows wants no more of them.
                Err(closed) if closed.kind() == io::ErrorKind::BrokenPipe => {}
                Err(reason) => {
                    self.unpublished = None;
                    return kept_elsewhere(temporary, target, &reason);
                }
            }
            return Ok(());
        }
        self.unpublished = None;
        let kept = if self.replace {
            temporary.persist(target)
        } else {
            temporary.persist_noclobber(target)
        };
        match kept {
            Ok(()) => {
                if let Some(leftover) = self.leftover.take() {
                    // Its rows are in the new file; if it stays, nobody reads it again.
                    let _ = RealDisk.remove(&leftover);
                }
                RealDisk.sync_dir(durable::parent(target))
            }
            Err(failed) => kept_elsewhere(failed.path, target, &failed.error),
        }
    }
}

/// Gives the rejected rows of an ended load their name, where it was killed before it could.
/// Returns whether it did.
pub(super) fn publish_left(target: &Path, ended: &PriorRejects) -> Result<bool> {
    let directory = durable::parent(target);
    let left = directory.join(temporary_name(ended));
    if ended.total() == 0
        || target.symlink_metadata().is_ok()
        || !copy_prior_rows(&left, ended, &mut io::sink())?
    {
        return Ok(false);
    }
    RealDisk.rename(&left, target)?;
    RealDisk.sync_dir(directory).map(|()| true)
}

/// The table was committed without the rows of the file, so they must not be lost.
fn kept_elsewhere(temporary: TempPath, target: &Path, reason: &io::Error) -> Result<()> {
    // Not under the name of the load: when it goes on, it would take the file for its own.
    let mut place = temporary.to_path_buf();
    place.add_extension(format!("{}.csv", std::process::id()));
    if let Err(failed) = temporary.persist_noclobber(&place) {
        place = failed.path.to_path_buf();
        let _ = failed.path.keep();
    }
    let what = format!("{reason}; the rejected rows are in {}", place.display());
    Err(Error::io(target, io::Error::new(reason.kind(), what)))
}

fn missing_rows<T>(path: &Path, before: u64) -> Result<T> {
    Err(Error::InvalidInput(format!(
        "{}: the part of this load that is in the table rejected {before} rows, and the file does \
         not hold them; --force begins a new one",
        path.display()
    )))
}

/// The name of a load's rejects file until its first commit.
fn temporary_name(before: &PriorRejects) -> String {
    use std::fmt::Write as _;
    before.load.iter().fold(String::from(".sty-rejects-"), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Copies the prior rows of a load from a file. Returns whether all are there.
fn copy_prior_rows(path: &Path, before: &PriorRejects, to: &mut impl Write) -> Result<bool> {
    let Ok(file) = File::open(path) else { return Ok(false) };
    copy_rows_from(BufReader::new(file), to, before).with_path(path)
}

/// Copies the header and the prior rows. Returns false if some are missing, counted by input.
fn copy_rows_from(
    mut from: impl BufRead,
    to: &mut impl Write,
    before: &PriorRejects,
) -> io::Result<bool> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut missing: HashMap<String, u64> = HashMap::new();
    for (path, rows) in &before.rejected {
        *missing.entry(name(path)).or_default() += rows;
    }
    let mut row = Vec::new();
    from.read_until(b'\n', &mut row)?;
    if row != HEADER.as_bytes() {
        return Ok(false);
    }
    to.write_all(&row)?;
    for _ in 0..before.total() {
        row.clear();
        let mut quoted = true;
        while quoted {
            if from.read_until(b'\n', &mut row)? == 0 {
                return Ok(false);
            }
            // A row ends where a line ends outside quotes; quotes within a row are doubled.
            quoted = memchr::memchr_iter(b'"', &row).count() % 2 == 1;
        }
        let rows = missing.get_mut(&name(&first_field(&row))).filter(|rows| **rows > 0);
        let Some(rows) = rows.filter(|_| row.ends_with(b"\n")) else { return Ok(false) };
        *rows -= 1;
        to.write_all(&row)?;
    }
    Ok(true)
}

/// The field at the start of a row.
fn first_field(row: &[u8]) -> String {
    let text = String::from_utf8_lossy(row);
    match text.strip_prefix('"') {
        Some(quoted) => {
            let doubled = quoted.replace("\"\"", "\0");
            doubled.split('"').next().unwrap_or_default().replace('\0', "\"")
        }
        None => text.split(',').next().unwrap_or_default().to_owned(),
    }
}

/// Copies the bytes after the first `done`. Returns the new `done`.
fn copy_after(from: &Path, to: &Path, done: u64) -> io::Result<u64> {
    let mut to = std::fs::OpenOptions::new().write(true).open(to)?;
    let mut from = File::open(from)?;
    from.seek(io::SeekFrom::Start(done))?;
    io::copy(&mut from, &mut to).map(|more| done + more)
}

fn write_row(to: &mut impl Write, reject: &Reject) -> io::Result<()> {
    write_field(to, reject.file.to_string_lossy().as_bytes(), b',')?;
    write!(to, "{},", reject.line)?;
    write_field(to, reject.column.as_bytes(), b',')?;
    write_field(to, reject.reason.as_bytes(), b',')?;
    write_field(to, &reject.raw, b'\n')
}

/// Writes a field and the separator after it, with quotes where needed.
fn write_field(to: &mut impl Write, mut bytes: &[u8], end: u8) -> io::Result<()> {
    if !bytes.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        to.write_all(bytes)?;
        return to.write_all(&[end]);
    }
    to.write_all(b"\"")?;
    while let Some(quote) = memchr::memchr(b'"', bytes) {
        let (with_quote, rest) = bytes.split_at((quote + 1).min(bytes.len()));
        to.write_all(with_quote)?;
        to.write_all(b"\"")?;
        bytes = rest;
    }
    to.write_all(bytes)?;
    to.write_all(&[b'"', end])
}
