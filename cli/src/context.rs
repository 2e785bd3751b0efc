//! The options that hold for every command: what is reported, and how.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use stylobate::{LockWait, Store};

use crate::compressed::uncompressed;
use crate::errors::{ErrorFormat, Failure};
use crate::exit::Exit;
use crate::output::Output;
use crate::printers::{Format, PrintOptions, Printer};
use crate::progress::{Progress, Seen, write_stderr};
use crate::signals;
use crate::terminal::{Look, When};
use crate::units::{show_counted, show_name, show_text};

/// The options that all commands share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// How a failure is reported.
    pub(crate) error_format: ErrorFormat,
    /// Whether colours are shown.
    pub(crate) color: When,
    /// Whether it is shown how far a command is.
    pub(crate) progress: When,
    /// Suppresses notes and summaries.
    pub(crate) quiet: bool,
    /// Adds notes, more for a higher number.
    pub(crate) verbose: u8,
    /// Threads to use, if anything is said of them.
    pub(crate) threads: Option<usize>,
    /// Bytes of memory to use at most, if anything is said of them.
    pub(crate) memory_limit: Option<u64>,
    /// How long the command may take.
    pub(crate) timeout: Option<Duration>,
    /// How long to wait for a table that another process writes.
    pub(crate) wait: Duration,
}

impl Context {
    /// The number of threads asked for, or of all cores.
    pub(crate) fn thread_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(cores)
    }

    /// Starts the threads on which a command works by itself: those of `rayon`.
    pub(crate) fn start_threads(&self) -> Result<(), Failure> {
        let started = rayon::ThreadPoolBuilder::new().num_threads(self.thread_count());
        Ok(started.build_global().map_err(stylobate::Error::too_few_threads)?)
    }

    /// The store in a directory, within the limit of memory.
    pub(crate) fn store(&self, path: &Path) -> Store {
        let context = *self;
        let begun = move |busy: &str| context.note(&format!("{busy}; waiting for it"));
        let store = Store::open(path).with_wait(LockWait {
            most: self.wait,
            cancelled: signals::cancellation(),
            begun: Some(Arc::new(begun)),
        });
        match self.memory_limit {
            Some(limit) => store.with_memory_limit(limit),
            None => store,
        }
    }

    /// Whether stderr gets colours.
    pub(crate) fn color_stderr(&self) -> bool {
        self.color.color(io::stderr().is_terminal())
    }

    /// Writes a line for people to stderr, unless `-q` is given.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// Writes a line to stderr that a reader of the answer must not miss, also with `-q`.
    pub(crate) fn warn(&self, text: &str) {
        write_stderr(&format!("{}\n", show_text(text)));
    }

    /// Writes a line for people to stderr if `-v` is given.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose > 0 {
            self.note(text);
        }
    }

    /// Shows how far the command is, until that is dropped.
    pub(crate) fn progress(&self, look: impl Fn() -> Option<Seen> + Send + 'static) -> Progress {
        Progress::start(self.progress, self.quiet, look)
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
        let extension =
            path.map(uncompressed).and_then(Path::extension).filter(|name| *name != "txt");
        if asked.is_none()
            && let Some((path, _)) = path.zip(extension).filter(|_| output.is_file())
            && Format::of_name(path).is_none()
        {
            let path = path.display();
            self.note(&format!("{path} is CSV: the name says no format; --format chooses one"));
        }
        let look = Look::new(self.color, output.is_terminal());
        Ok((output, format, PrintOptions::new(look)))
    }

    /// Prints a list to stdout as a whole result. Names in it have their control characters
    /// escaped, except in formats that only programs read, or that escape them by themselves.
    pub(crate) fn print_batch(
        &self,
        batch: &RecordBatch,
        format: Option<Format>,
    ) -> Result<(), Failure> {
        let (output, format, options) = self.open_result(format, None, false)?;
        let shown = match format {
            Format::Csv | Format::Tsv | Format::Markdown => &with_shown_names(batch)?,
            _ => batch,
        };
        let mut printer = Printer::new(format, &shown.schema(), &options, output)?;
        let _ = printer.write(shown)?;
        let finished = printer.finish()?;
        finished.notes.iter().for_each(|note| self.note(note));
        finished.output.commit()
    }
}

/// A list with the control characters of its texts escaped.
fn with_shown_names(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    let shown = |column: &ArrayRef| match column.as_string_opt::<i32>() {
        Some(texts) => {
            let texts = texts.iter().map(|text| text.map(show_name));
            Arc::new(texts.collect::<StringArray>()) as ArrayRef
        }
        None => Arc::clone(column),
    };
    let columns = batch.columns().iter().map(shown).collect();
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// The failures of a command that goes on with the next table after each.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    /// The exit code to leave with: damage above all else.
    worst: Option<(Exit, &'static str)>,
}

impl Failures {
    /// Reports a failure at once, and goes on; what ends the whole command is returned.
    pub(crate) fn add(&mut self, failure: Failure, context: &Context) -> Result<(), Failure> {
        let failure = self.count(failure)?;
        failure.report(context.error_format, context.color_stderr());
        Ok(())
    }

    /// The same for a failure that is reported in another way.
    pub(crate) fn count(&mut self, failure: Failure) -> Result<Failure, Failure> {
        if matches!(failure.exit, Exit::Interrupted | Exit::Done) {
            return Err(failure);
        }
        self.count += 1;
        if self.worst.is_none() || failure.exit == Exit::Corrupt {
            self.worst = Some((failure.exit, failure.code));
        }
        Ok(failure)
    }

    /// The failure of the whole command, if there was any.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Some((exit, code)) = self.worst else { return Ok(()) };
        let places = show_counted(self.count, "problem");
        Err(Failure::new(exit, code, format!("{places} found, named above")))
    }
}
