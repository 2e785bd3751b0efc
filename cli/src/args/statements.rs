//! SQL statements: on the command line, in a file or on stdin.

use std::io::{self, IsTerminal, Read as _};
use std::path::PathBuf;

use clap::Args;

use crate::errors::{Failure, IoResult};

/// The statements of a command.
#[derive(Debug, Args)]
pub(crate) struct StatementArgs {
    /// The statements, or - for stdin [default: stdin]
    #[arg(conflicts_with = "file")]
    sql: Option<String>,
    /// Read the statements from a file, - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl StatementArgs {
    /// Reads the text of the statements. If stdin is a terminal, the help of `command` is printed
    /// instead of waiting for input.
    pub(crate) fn read(&self, command: &'static str) -> Result<String, Failure> {
        match (&self.sql, &self.file) {
            (Some(sql), _) if sql != "-" => Ok(sql.clone()),
            (_, Some(file)) if file.as_os_str() != "-" => {
                std::fs::read_to_string(file).with_path(file)
            }
            _ if io::stdin().is_terminal() => Err(Failure::nothing_to_read(command)),
            _ => {
                let mut text = String::new();
                let read = io::stdin().lock().read_to_string(&mut text);
                read.with_path("stdin")?;
                Ok(text)
            }
        }
    }
}
