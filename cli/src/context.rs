//! What holds for every command: how to report, and how much.

use std::io::{self, IsTerminal, Write as _};
use std::path::Path;

use crate::errors::{ErrorFormat, Failure};
use crate::output::Output;
use crate::printers::{Format, PrintOptions};
use crate::terminal::{Look, When};

/// The options that all commands share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// How a failure is reported.
    pub(crate) error_format: ErrorFormat,
    /// Whether colours are used.
    pub(crate) color: When,
    /// No notes and summaries.
    pub(crate) quiet: bool,
    /// More of them.
    pub(crate) verbose: u8,
}

impl Context {
    /// Whether stderr gets colours.
    pub(crate) fn color_stderr(&self) -> bool {
        self.color.color(io::stderr().is_terminal())
    }

    /// A line for people on stderr, unless `-q`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // Nobody is left to hear that stderr is closed.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// A line for people on stderr with `-v`.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose > 0 {
            self.note(text);
        }
    }

    /// Opens the destination of a result and settles its format.
    pub(crate) fn open_result(
        &self,
        asked: Option<Format>,
        path: Option<&Path>,
        force: bool,
    ) -> Result<(Output, Format, PrintOptions), Failure> {
        let output = Output::open(path, force)?;
        let format = Format::choose(asked, path, &output);
        let look = Look::new(self.color, output.is_terminal());
        Ok((output, format, PrintOptions { header: true, max_rows: None, look }))
    }
}
