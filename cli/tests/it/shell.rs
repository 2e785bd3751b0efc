//! A temporary directory in which commands run, with relative paths, as in a shell.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::sty;

/// What a command said: exit code, stdout, stderr.
pub(crate) type Said = (i32, String, String);

/// A directory that is gone after the test.
pub(crate) struct Shell {
    directory: tempfile::TempDir,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Shell { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file with these bytes.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::File::create_new(self.path(name)).unwrap().write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Runs `sty` with the words of `line`.
    pub(crate) fn run(&self, line: &str) -> Said {
        self.pipe(line, "")
    }

    /// The same, with `input` on stdin.
    pub(crate) fn pipe(&self, line: &str, input: impl Into<Vec<u8>>) -> Said {
        let words: Vec<&str> = line.split_whitespace().collect();
        said(&sty(&words).current_dir(&self.directory).write_stdin(input).output().unwrap())
    }

    /// Runs a line of `sh`, in which `sty` is the command.
    pub(crate) fn sh(&self, line: &str) -> Said {
        let command = Path::new(env!("CARGO_BIN_EXE_sty"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", command.parent().unwrap().display());
        let mut shell = std::process::Command::new("sh");
        said(
            &shell
                .args(["-c", line])
                .env("PATH", path)
                .current_dir(&self.directory)
                .output()
                .unwrap(),
        )
    }

    /// Runs `sty`, which has to succeed, and gives its stdout.
    pub(crate) fn stdout(&self, line: &str) -> String {
        let (code, stdout, stderr) = self.run(line);
        assert_eq!(code, 0, "{line}: {stderr}");
        stdout
    }

    /// The same, with `input` on stdin.
    pub(crate) fn stdout_of(&self, line: &str, input: &str) -> String {
        let (code, stdout, stderr) = self.pipe(line, input);
        assert_eq!(code, 0, "{line}: {stderr}");
        stdout
    }

    /// The files of a directory with this extension.
    pub(crate) fn files(&self, directory: &str, extension: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path(directory)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
    }
}

fn said(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
