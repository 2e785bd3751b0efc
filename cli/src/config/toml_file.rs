//! TOML files, and places in them: config files, and those of `--users` and `--cluster`.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::DeTable;

use crate::errors::{Failure, IoResult as _};
use crate::exit::Exit;

/// A file and its text.
#[derive(Debug)]
pub(crate) struct TomlFile {
    path: Arc<Path>,
    text: String,
}

impl TomlFile {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<TomlFile, Failure> {
        TomlFile::of(path, std::fs::read(path).with_path(path)?)
    }

    /// The file with these bytes; an error if they are not UTF-8.
    pub(super) fn of(path: &Path, bytes: Vec<u8>) -> Result<TomlFile, Failure> {
        let path: Arc<Path> = path.into();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(TomlFile { path, text }),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let at = error.utf8_error().valid_up_to();
                Err(TomlFile { path, text }.place(at..at).failure("these bytes are not UTF-8"))
            }
        }
    }

    /// Parses it.
    pub(crate) fn table(&self) -> Result<Spanned<DeTable<'_>>, Failure> {
        DeTable::parse(&self.text).map_err(|error| {
            self.place(error.span().unwrap_or_default()).failure(error.message().trim_end())
        })
    }

    /// Where something stands, by its bytes.
    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        let offset = self.text.floor_char_boundary(span.start);
        let before = self.text.get(..offset).unwrap_or_default();
        let (line, rest) = match before.rfind('\n') {
            Some(end) => (before.matches('\n').count() + 1, before.get(end + 1..)),
            None => (1, Some(before)),
        };
        let column = rest.unwrap_or_default().chars().count() + 1;
        Place { file: Arc::clone(&self.path), line, column, offset: offset as u64 }
    }

    /// A failure about the file as a whole.
    pub(crate) fn failure(&self, what: &str) -> Failure {
        let message = format!("{}: {what}", self.path.display());
        let mut failure = Failure::new(Exit::Usage, "config", message);
        failure.file = Some(self.path.to_path_buf());
        failure
    }
}

/// Where something stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: Arc<Path>,
    line: usize,
    pub(super) column: usize,
    pub(super) offset: u64,
}

impl Place {
    /// A failure about what stands there.
    pub(crate) fn failure(&self, what: &str) -> Failure {
        let message = format!("{self}:{}: {what}", self.column);
        let mut failure = Failure::new(Exit::Usage, "config", message);
        failure.file = Some(self.file.to_path_buf());
        failure.offset = Some(self.offset);
        failure
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}
