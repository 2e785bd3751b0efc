//! The options that hold for every command: what is reported, and how.

use std::io::{self, IsTerminal, Write as _};
use std::path::Path;

use arrow_array::RecordBatch;

use crate::errors::{ErrorFormat, Failure};
use crate::output::Output;
use crate::printers::{Format, PrintOptions, Printer};
use crate::terminal::{Look, When};

/// The options that all commands share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// How a failure is reported.
    pub(crate) error_format: ErrorFormat,
    /// Whether colours are shown.
    pub(crate) color: When,
    /// Suppresses notes and summaries.
    pub(crate) quiet: bool,
    /// Adds notes, more for a higher number.
    pub(crate) verbose: u8,
}

impl Context {
    /// Whether stderr gets colours.
    pub(crate) fn color_stderr(&self) -> bool {
        self.color.color(io::stderr().is_terminal())
    }

    /// Writes a line for people to stderr, unless `-q` is given.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // If stderr is closed, nobody is left to tell.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Writes a line for people to stderr if `-v` is given.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose > 0 {
            self.note(text);
        }
    }

    /// Opens the destination of a result and decides on its format.
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

    /// Prints one batch to stdout as a whole result.
    pub(crate) fn print_batch(
        &self,
        batch: &RecordBatch,
        format: Option<Format>,
    ) -> Result<(), Failure> {
        let (output, format, options) = self.open_result(format, None, false)?;
        let mut printer = Printer::new(format, &batch.schema(), &options, output)?;
        let _ = printer.write(batch)?;
        printer.finish()?.output.commit()
    }
}
