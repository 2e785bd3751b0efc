//! A temporary directory in which commands run with relative paths, as in a shell.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::sty;

/// The exit code, stdout and stderr of a command.
pub(crate) type Outcome = (i32, String, String);

/// A directory that is removed after the test.
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

    /// Makes a file with these bytes.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::File::create_new(self.path(name)).unwrap().write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Makes a file with these bytes in place of another.
    pub(crate) fn rewrite(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).truncate(true).open(self.path(name)).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Runs `sty` with the words of `line`.
    pub(crate) fn run(&self, line: &str) -> Outcome {
        self.pipe(line, "")
    }

    /// Runs `sty` with `input` on stdin.
    pub(crate) fn pipe(&self, line: &str, input: impl Into<Vec<u8>>) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        outcome(&sty(&words).current_dir(&self.directory).write_stdin(input).output().unwrap())
    }

    /// Runs a line of `sh`, in which `sty` is the command.
    pub(crate) fn sh(&self, line: &str) -> Outcome {
        let command = Path::new(env!("CARGO_BIN_EXE_sty"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", command.parent().unwrap().display());
        let mut shell = std::process::Command::new("sh");
        outcome(
            &shell
                .args(["-c", line])
                .env("PATH", path)
                .env("STY_CONFIG", std::env::var_os("STY_CONFIG").unwrap_or_default())
                .current_dir(&self.directory)
                .output()
                .unwrap(),
        )
    }

    /// Whether a program is installed.
    pub(crate) fn has(program: &str) -> bool {
        let mut shell = std::process::Command::new("sh");
        let found = shell.args(["-c", "command -v \"$0\"", program]).output().unwrap();
        found.status.success()
    }

    /// Runs `sty`, which must succeed, and returns its stdout.
    pub(crate) fn stdout(&self, line: &str) -> String {
        let (code, stdout, stderr) = self.run(line);
        assert_eq!(code, 0, "{line}: {stderr}");
        stdout
    }

    /// Runs `sty` with `input` on stdin. It must succeed, and its stdout is returned.
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

fn outcome(output: &Output) -> Outcome {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
