//! The local file system.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, OFlags, access, flock};
use rustix::io::Errno;

use super::{Disk, DiskFile, Entry, Io, Lock, LockMode, LockedFile, Mapped, says_missing};
use crate::error::{Error, IoResult, Result};

/// The local file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealDisk;

#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    file: File,
}

#[derive(Debug)]
struct RealLock {
    path: PathBuf,
    file: File,
}

/// An fsync that reaches the medium: on Apple systems, plain fsync stops at the drive's cache.
fn sync(path: &Path, file: &File) -> Result<()> {
    #[cfg(target_vendor = "apple")]
    if rustix::fs::fcntl_fullfsync(file).is_ok() {
        return Ok(());
    }
    file.sync_all().with_path(path)
}

/// Opens a file of a table to read it. Anything else under its name is damage: opening a pipe must
/// not wait for a writer, and a directory has no bytes.
fn open_regular(path: &Path) -> Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path);
    let file = no_loop(path, file)?;
    regular(path, &file.metadata().with_path(path)?)?;
    Ok(file)
}

fn regular(path: &Path, metadata: &Metadata) -> Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(Error::corrupt(0, "it is no regular file").in_file(path, 0)),
    }
}

fn is_loop(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// What the system says of a path of a table. Links that lead nowhere but back are damage, as
/// missing files are.
fn no_loop<T>(path: &Path, told: std::io::Result<T>) -> Result<T> {
    match told {
        Err(error) if is_loop(&error) => {
            let what = "it is a symbolic link that leads back to itself";
            Err(Error::corrupt(0, what).in_file(path, 0))
        }
        told => told.with_path(path),
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).with_path(path)?;
        Ok(Box::new(RealFile { path: path.to_path_buf(), file }))
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let file = open_regular(path)?;
        let length = file.metadata().with_path(path)?.len();
        if length > limit {
            return Err(too_long(path, length, limit));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        // The file may have grown in the meantime.
        file.take(limit).read_to_end(&mut bytes).with_path(path)?;
        Ok(bytes)
    }

    fn map(&self, path: &Path, io: Io) -> Result<Mapped> {
        Mapped::from_file(path, open_regular(path)?, io)
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).with_path(dir)? {
            let entry = entry.with_path(dir)?;
            if let Ok(name) = entry.file_name().into_string() {
                let kind = entry.file_type().with_path(entry.path())?;
                // A table or a data directory may be a symbolic link.
                let is_dir = match kind.is_symlink() {
                    true => match fs::metadata(entry.path()) {
                        Ok(target) => target.is_dir(),
                        Err(error) => !says_missing(&error),
                    },
                    false => kind.is_dir(),
                };
                entries.push(Entry { name, is_dir });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn len(&self, path: &Path) -> Result<u64> {
        let metadata = no_loop(path, fs::metadata(path))?;
        regular(path, &metadata)?;
        Ok(metadata.len())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match path.try_exists() {
            Err(error) if says_missing(&error) => Ok(false),
            // A link is there, though it leads back to itself.
            Err(error) if is_loop(&error) => Ok(true),
            told => told.with_path(path),
        }
    }

    fn check_writable(&self, path: &Path) -> Result<()> {
        let needed = match path.is_dir() {
            true => Access::WRITE_OK | Access::EXEC_OK,
            false => Access::WRITE_OK,
        };
        access(path, needed).map_err(|error| Error::io(path, error.into()))
    }

    #[expect(clippy::disallowed_methods, reason = "the implementation of Disk::rename")]
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).with_path(from)
    }

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn exchange(&self, one: &Path, other: &Path) -> Result<bool> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
            Err(error) => Err(Error::io(one, error.into())),
        }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn exchange(&self, _: &Path, _: &Path) -> Result<bool> {
        Ok(false)
    }

    #[expect(clippy::disallowed_methods, reason = "the implementation of Disk::remove")]
    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).with_path(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).with_path(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).with_path(path)
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        sync(path, &File::open(path).with_path(path)?)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        sync(dir, &File::open(dir).with_path(dir)?)
    }

    #[cfg(target_os = "linux")]
    fn sync_fs(&self, dir: &Path) -> Result<bool> {
        let handle = File::open(dir).with_path(dir)?;
        rustix::fs::syncfs(&handle).map_err(Into::into).with_path(dir)?;
        Ok(true)
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_fs(&self, _dir: &Path) -> Result<bool> {
        Ok(false)
    }

    fn try_lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>> {
        let (writable, operation) = match mode {
            LockMode::Shared => (false, FlockOperation::NonBlockingLockShared),
            LockMode::Exclusive | LockMode::Create => {
                (true, FlockOperation::NonBlockingLockExclusive)
            }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(writable).create(mode == LockMode::Create);
        // As for `open_regular`.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = no_loop(path, options.open(path))?;
        regular(path, &file.metadata().with_path(path)?)?;
        match retry(|| flock(&file, operation)) {
            Ok(()) => {}
            // On a file system without locks, readers go on unprotected: exclusive locks fail
            // there, so nothing is removed under them.
            Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL)
                if mode == LockMode::Shared => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(Error::io(path, errno.into())),
        }
        Ok(Some(Box::new(RealLock { path: path.to_path_buf(), file })))
    }
}

impl DiskFile for RealFile {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_path(&self.path)
    }

    fn sync(&mut self) -> Result<()> {
        sync(&self.path, &self.file)
    }
}

impl LockedFile for RealLock {
    fn is_linked(&self) -> Result<bool> {
        Ok(self.file.metadata().with_path(&self.path)?.nlink() > 0)
    }

    fn describe(&self, contents: &[u8]) -> Result<()> {
        self.file.set_len(0).with_path(&self.path)?;
        self.file.write_all_at(contents, 0).with_path(&self.path)
    }
}

/// What is at a path, through symbolic links: `None` if nothing is, and an error if the system does
/// not tell.
pub(crate) fn look_up(path: &Path) -> Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Err(error) if says_missing(&error) => Ok(None),
        found => found.map(Some).with_path(path),
    }
}

/// Where a path that may not exist yet leads to: the nearest of its ancestors that exists, without
/// symbolic links.
pub(crate) fn nearest_existing(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).with_path(path)?;
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Err(error) if says_missing(&error) => {}
            found => return found.with_path(ancestor),
        }
    }
    Ok(absolute)
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// The error of [`Disk::read`] for a file that is too long.
pub(super) fn too_long(path: &Path, length: u64, limit: u64) -> Error {
    let what = format!("it has {length} bytes, and at most {limit} are expected");
    Error::corrupt(limit, what).in_file(path, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn a_link_to_itself_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("CURRENT");
        std::os::unix::fs::symlink("CURRENT", &path).unwrap();
        for error in [
            RealDisk.read(&path, 9).unwrap_err(),
            RealDisk.map(&path, Io::Mmap).unwrap_err(),
            RealDisk.map(&path, Io::Read).unwrap_err(),
        ] {
            assert!(error.is_damage() && error.to_string().contains("back to itself"), "{error}");
        }
        for path in [&*path, dir.path()] {
            let error = RealDisk.len(path).unwrap_err();
            assert!(error.is_damage(), "{error}");
        }
        assert!(RealDisk.exists(&path).unwrap());
    }

    #[test]
    fn files_locks_and_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, a, b) = (RealDisk, dir.path().join("a"), dir.path().join("b"));
        let mut file = disk.create(&a).unwrap();
        file.write_all(b"hello").unwrap();
        file.sync().unwrap();
        assert!(disk.create(&a).is_err(), "create never opens an existing file");
        assert_eq!(disk.read(&a, 5).unwrap(), b"hello");
        assert!(disk.read(&a, 4).is_err());
        let mapped = disk.map(&a, Io::Mmap).unwrap();
        assert_eq!(mapped.bytes(0..5, Budget::UNLIMITED).unwrap(), b"hello");
        let shared = disk.try_lock(&a, LockMode::Shared).unwrap().unwrap();
        let other = disk.try_lock(&a, LockMode::Shared).unwrap();
        assert!(other.is_some());
        assert!(disk.try_lock(&a, LockMode::Exclusive).unwrap().is_none());
        disk.rename(&a, &b).unwrap();
        disk.sync_dir(dir.path()).unwrap();
        assert!(disk.sync_fs(dir.path()).is_ok());
        assert!(shared.is_linked().unwrap());
        disk.remove(&b).unwrap();
        assert!(!shared.is_linked().unwrap());
        assert!(super::super::is_missing(&disk.try_lock(&b, LockMode::Exclusive).unwrap_err()));
        let made = disk.try_lock(&b, LockMode::Create).unwrap().unwrap();
        made.describe(b"pid 1").unwrap();
        made.describe(b"x").unwrap();
        assert_eq!(disk.read(&b, 9).unwrap(), b"x");
        let entries = disk.list(dir.path()).unwrap();
        assert_eq!(entries, [Entry { name: "b".into(), is_dir: false }]);
        assert!(!disk.exists(&b.join("below")).unwrap(), "a file has no files");
        std::os::unix::fs::symlink("nowhere", dir.path().join("c")).unwrap();
        std::os::unix::fs::symlink("d", dir.path().join("d")).unwrap();
        let is_dir = disk.list(dir.path()).unwrap().into_iter().map(|entry| entry.is_dir);
        assert_eq!(is_dir.collect::<Vec<_>>(), [false, false, true], "the last leads to itself");
    }
}
