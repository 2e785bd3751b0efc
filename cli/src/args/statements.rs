//! SQL statements, on the command line, in a file or on stdin, and the store that they are about.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use stylobate::internal::disk::default_limit;
use stylobate::{Error, Session, SessionOptions};

use super::names;
use crate::context::Context;
use crate::errors::{Failure, IoResult};

/// The store and the statements of a command.
#[derive(Debug, Args)]
pub(crate) struct StatementArgs {
    /// The store's directory; - (or only statements) for none
    #[arg(add = names::stores())]
    store: Option<PathBuf>,
    /// The statements, or - for stdin [default: stdin]
    #[arg(conflicts_with = "file", add = names::sql())]
    sql: Option<String>,
    /// Read the statements from a file, - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What a command line asks for.
#[derive(Debug)]
pub(crate) struct Statements {
    /// The store, if one is named.
    pub(crate) store: Option<PathBuf>,
    /// The text of the statements.
    pub(crate) sql: String,
    /// Whether the only argument was taken for statements because there is no such directory.
    guessed: bool,
}

impl StatementArgs {
    /// Finds out which store is meant, and reads the text of the statements. If stdin is a
    /// terminal, the help of `command` is printed instead of waiting for input.
    pub(crate) fn read(
        &self,
        command: &'static str,
        context: &Context,
    ) -> Result<Statements, Failure> {
        let only = self.store.as_deref().filter(|_| self.sql.is_none() && self.file.is_none());
        if let Some(sql) = only.and_then(Path::to_str).filter(|only| is_sql(only)) {
            return Ok(Statements { store: None, sql: sql.to_owned(), guessed: true });
        }
        let sql = match (&self.sql, &self.file) {
            (Some(sql), _) if sql != "-" => sql.clone(),
            (_, Some(file)) if file.as_os_str() != "-" => {
                read_statements(&File::open(file).with_path(file)?, file, context)?
            }
            _ if io::stdin().is_terminal() => return Err(Failure::nothing_to_read(command)),
            _ => read_statements(io::stdin().lock(), Path::new("stdin"), context)?,
        };
        let store = self.store.clone().filter(|store| store.as_os_str() != "-");
        store.as_deref().map_or(Ok(()), check_is_no_file)?;
        Ok(Statements { store, sql, guessed: false })
    }
}

impl Statements {
    /// A session over the store, or over none.
    pub(crate) fn session(
        &self,
        options: &SessionOptions,
        context: &Context,
    ) -> Result<Session, Failure> {
        Ok(match &self.store {
            Some(store) => Session::open(&context.store(store), options)?,
            None => Session::new(options)?,
        })
    }

    /// A failure to parse the statements, which may have been meant as the name of a store.
    pub(crate) fn not_parsed(&self, error: stylobate::Error) -> Failure {
        let failure = Failure::from(error);
        if !self.guessed || failure.hint.is_some() {
            return failure;
        }
        failure.hint(
            "the only argument is read as SQL, since it has a space and there is no directory of \
             this name; a store is followed by its statements, or by - for stdin",
        )
    }
}

/// Reads statements. Texts longer than the memory limit are refused: a session needs several times
/// their length.
pub(crate) fn read_statements(
    source: impl Read,
    name: &Path,
    context: &Context,
) -> Result<String, Failure> {
    let most = context.memory_limit.unwrap_or_else(default_limit);
    let mut text = Vec::new();
    let read = source.take(most.saturating_add(1)).read_to_end(&mut text).with_path(name)?;
    if read as u64 > most {
        return Err(Failure::from(Error::LimitExceeded(format!(
            "{}: statements of more than {most} bytes, the limit of memory: put their rows or \
             values into a file or table (sty ingest)",
            name.display()
        ))));
    }
    // Editors begin files with it.
    let text = text.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(text);
    String::from_utf8(text).map_err(io::Error::other).with_path(name)
}

/// Refuses a file in the place of a store.
pub(crate) fn check_is_no_file(store: &Path) -> Result<(), Failure> {
    if !store.is_file() {
        return Ok(());
    }
    let store = store.display();
    let failure = Failure::usage(format!("{store} is a file, and a store is a directory"));
    Err(failure.hint(format!("a file is queried by its name: sty query \"FROM '{store}'\"")))
}

/// Whether the only argument is statements rather than the name of a store.
fn is_sql(argument: &str) -> bool {
    let has_space = argument.trim().contains(|c: char| c.is_whitespace() || c == ';');
    has_space && Path::new(argument).symlink_metadata().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_spaces_and_does_not_exist_is_sql() {
        assert!(is_sql("SELECT 1") && is_sql("SHOW\nTABLES") && is_sql("FROM 'x.csv';"));
        assert!(!is_sql("db") && !is_sql("../shared/db") && !is_sql(" db "));
        let directory = tempfile::Builder::new().prefix("a store").tempdir().unwrap();
        assert!(!is_sql(directory.path().to_str().unwrap()));
    }
}
