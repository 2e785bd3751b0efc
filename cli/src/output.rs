//! The destination of results: stdout, or a file that gets its name only when it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stylobate::internal::disk::without_path;
use stylobate::internal::store::check_outside_tables;
use tempfile::NamedTempFile;

use crate::compressed::{ResultFile, check_name};
use crate::errors::{Failure, IoResult};
use crate::pager::Pager;
use crate::progress::{erase, make_room};

/// What a pipe holds: the most that Linux grants to everybody.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

/// Files under temporary names, for a process that ends before they are complete.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// An open destination of results.
#[derive(Debug)]
pub(crate) enum Output {
    /// The process's stdout without the line buffer of the standard library, or a pipe or device
    /// that was opened by name.
    Stream(File),
    /// The screen, or a pager if the answer does not fit on it.
    Screen(Pager),
    /// A file under a temporary name beside its target.
    File {
        /// What is being written, and what it is written through.
        temporary: NamedTempFile,
        file: ResultFile,
        /// The name it gets at the end.
        target: PathBuf,
        /// Whether it may replace an existing file.
        force: bool,
    },
    /// Such a file for one of several answers in it; somebody else completes it.
    Part {
        file: ResultFile,
        /// The name it gets at the end.
        target: PathBuf,
    },
}

impl Output {
    /// The process's stdout.
    pub(crate) fn stdout() -> Result<Self, Failure> {
        let owned = io::stdout().as_fd().try_clone_to_owned();
        let file = File::from(owned.with_path("stdout")?);
        widen(&file);
        Ok(Output::Stream(file))
    }

    /// Opens the file of `-o`, or stdout if there is none or it is `-`. Without `force`, an
    /// existing file is refused, before any work is done. A file is compressed as its name says.
    /// Pipes and devices are written as they are.
    pub(crate) fn open(path: Option<&Path>, force: bool) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Output::stdout();
        };
        check_outside_tables(path)?;
        check_name(path)?;
        let target = match path.metadata() {
            Ok(found) if found.is_dir() => {
                return Err(Failure::usage(format!(
                    "{}: is a directory; name a file",
                    path.display()
                )));
            }
            Ok(found) if !found.is_file() => {
                let device = OpenOptions::new().write(true).open(path).with_path(path)?;
                widen(&device);
                return Ok(Output::Stream(device));
            }
            Ok(_) if !force => return Err(already_exists(path)),
            // A symbolic link stays, and its target is replaced.
            Ok(_) => path.canonicalize().with_path(path)?,
            Err(_) => path.to_path_buf(),
        };
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let temporary = tempfile::Builder::new()
            .prefix(".sty-")
            .permissions(std::fs::Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(without_path)
            .with_path(path)?;
        unfinished().push(temporary.path().to_path_buf());
        let same = temporary.as_file().try_clone().with_path(path)?;
        let file = ResultFile::new(same, path).with_path(path)?;
        Ok(Output::File { temporary, file, target, force })
    }

    /// Writes an object for programs on one line.
    pub(crate) fn print_line(mut self, object: &serde_json::Value) -> Result<(), Failure> {
        self.write_all(format!("{object}\n").as_bytes()).map_err(|error| self.failure(&error))
    }

    /// Whether a person reads it.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Output::Stream(file) => file.is_terminal(),
            Output::Screen(_) => true,
            Output::File { .. } | Output::Part { .. } => false,
        }
    }

    /// Whether it is a file with a name, rather than a stream.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Output::File { .. } | Output::Part { .. })
    }

    /// Whether its bytes are compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        match self {
            Output::File { file, .. } | Output::Part { file, .. } => file.is_compressed(),
            Output::Stream(_) | Output::Screen(_) => false,
        }
    }

    /// Completes the output. A file gets its name, or one beside it if there is a file of that name
    /// by now.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        let (temporary, target, force) = match self {
            Output::File { temporary, file, target, force } => {
                file.finish().with_path(&target)?;
                (temporary, target, force)
            }
            Output::Screen(mut pager) => {
                return pager.finish().map_err(|error| Failure::io(Path::new("stdout"), &error));
            }
            Output::Part { file, target } => return file.finish().with_path(&target),
            Output::Stream(_) => return Ok(()),
        };
        if force {
            let kept = temporary.persist(&target);
            return kept.map(|_| ()).map_err(|failed| Failure::io(&target, &failed.error));
        }
        let (mut temporary, mut name) = (temporary, target.clone());
        for number in 2.. {
            match temporary.persist_noclobber(&name) {
                Ok(_) => break,
                Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
                    (temporary, name) = (failed.file, beside(&target, number));
                }
                Err(failed) => return Err(Failure::io(&name, &failed.error)),
            }
        }
        if name == target {
            return Ok(());
        }
        let hint = format!("what was written to it is complete in {}", name.display());
        Err(already_exists(&target).hint(hint))
    }

    /// How long a reader of the screen has kept the result waiting.
    pub(crate) fn waited(&self) -> Duration {
        match self {
            Output::Screen(pager) => pager.waited(),
            Output::Stream(_) | Output::File { .. } | Output::Part { .. } => Duration::ZERO,
        }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Output::Stream(_) | Output::Screen(_) => Path::new("stdout"),
            Output::File { target, .. } | Output::Part { target, .. } => target,
        }
    }

    /// The failure for an I/O error of this destination.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::io(self.name(), error)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stream(file) => {
                make_room(file);
                file.write(bytes)
            }
            Output::Screen(pager) => {
                erase();
                pager.write(bytes)
            }
            Output::File { file, .. } | Output::Part { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets a pipe hold more than the usual 64 KiB, after which its two ends take turns: rows come out
/// a fifth faster. Nothing else is one, and where the system refuses it, all works as usual.
fn widen(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(file, PIPE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Another name for a file: `x-2.csv` for `x.csv`.
fn beside(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that are not complete, where nothing else will.
#[expect(clippy::disallowed_methods, reason = "an output of the command, not a file of a store")]
pub(crate) fn remove_unfinished() {
    for path in unfinished().drain(..) {
        // A complete one has another name by now.
        let _ = std::fs::remove_file(path);
    }
}

/// The failure for a file that exists and must not be replaced.
pub(crate) fn already_exists(path: &Path) -> Failure {
    Failure::usage(format!("{}: exists already", path.display())).hint("add --force to replace it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_file_appears_only_when_complete_and_is_replaced_only_by_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        let mut output = Output::open(Some(&path), false).unwrap();
        output.write_all(b"one").unwrap();
        assert!(!path.exists());
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");

        assert_eq!(Output::open(Some(&path), false).unwrap_err().exit, Exit::Usage);
        let mut output = Output::open(Some(&path), true).unwrap();
        output.write_all(b"two").unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"one", "an abandoned output changes nothing");
        let mut output = Output::open(Some(&path), true).unwrap();
        output.write_all(b"two").unwrap();
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn nothing_is_lost_to_a_file_that_appears_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        for text in ["one", "two", "three"] {
            let mut output = Output::open(Some(&path), true).unwrap();
            if let Output::File { force, .. } = &mut output {
                *force = false;
            }
            output.write_all(text.as_bytes()).unwrap();
            let committed = output.commit();
            assert_eq!(committed.is_ok(), text == "one");
        }
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(
            [read("out.csv"), read("out-2.csv"), read("out-3.csv")],
            ["one", "two", "three"]
        );
    }

    #[test]
    fn a_directory_and_a_missing_one_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Output::open(Some(directory.path()), true).unwrap_err().exit, Exit::Usage);
        let missing = directory.path().join("no/such/out.csv");
        assert_eq!(Output::open(Some(&missing), false).unwrap_err().exit, Exit::NotFound);
        assert!(!Output::open(Some(Path::new("/dev/null")), false).unwrap().is_file());
    }
}
