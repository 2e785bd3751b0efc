//! Runs statements of a session and prints their answers: what `sty query` and the shell share.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use stylobate::{BatchStream, CopyTarget, Parameters, Session, Statement};

use crate::args::arrange::{Expressions, parse_expressions};
use crate::context::Context;
use crate::errors::Failure;
use crate::kept::Kept;
use crate::memory::anonymous_bytes;
use crate::output::Output;
use crate::partition_files::{Directory, KeyedRows, PartitionFiles};
use crate::printers::{Format, PrintOptions, Printer};
use crate::progress::{Progress, Seen, Unit};
use crate::reports::statement::{StatementReport, StatsFormat};
use crate::units::show_counted;
use crate::watch::QueryWatch;

/// How answers look, and what is said about them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The format of the answers.
    pub(crate) format: Format,
    /// How they are printed.
    pub(crate) options: PrintOptions,
    /// How to say what each statement has read, if at all.
    pub(crate) stats: Option<StatsFormat>,
    /// Whether notes of the session are about missing rows, which `-q` must not hide.
    pub(crate) skip_damaged: bool,
}

/// Runs statements in order and prints their results to one output after the other.
pub(crate) struct Runner {
    pub(crate) context: Context,
    pub(crate) session: Arc<Session>,
    pub(crate) parameters: Parameters,
    pub(crate) watch: QueryWatch,
    pub(crate) settings: Settings,
    /// Keeps the last answer, if anyone may ask for it.
    pub(crate) kept: Option<Kept>,
    /// Whether a COPY … TO may replace a file.
    pub(crate) force: bool,
    /// Anonymous memory before the first statement, in bytes.
    memory_before: Option<u64>,
    /// Whether a statement had a result.
    has_printed: bool,
    /// Whether a statement has written.
    has_committed: bool,
}

/// What a statement has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// Rows of the answer, if it has columns.
    pub(crate) rows: Option<u64>,
    /// From the plan to the last row printed.
    pub(crate) time: Duration,
}

impl Ran {
    /// What it was, for people.
    pub(crate) fn what(self) -> String {
        self.rows.map_or_else(|| "done".to_owned(), |rows| show_counted(rows, "row"))
    }
}

impl Runner {
    /// A runner of a session's statements.
    pub(crate) fn new(
        context: &Context,
        session: Arc<Session>,
        parameters: Parameters,
        watch: QueryWatch,
        settings: Settings,
    ) -> Runner {
        Runner {
            context: *context,
            session,
            parameters,
            watch,
            settings,
            kept: None,
            force: false,
            memory_before: anonymous_bytes(),
            has_printed: false,
            has_committed: false,
        }
    }

    /// Whether a statement has written.
    pub(crate) fn has_committed(&self) -> bool {
        self.has_committed
    }

    /// From now on, answers go to another output.
    pub(crate) fn begin_output(&mut self) {
        self.has_printed = false;
    }

    /// Runs a statement. Its answer is printed, and the output is not yet complete.
    pub(crate) fn run(
        &mut self,
        statement: &Statement,
        output: Output,
    ) -> Result<(Output, Ran), Failure> {
        let started = Instant::now();
        let progress = self.progress();
        let report = self.settings.stats.map(|format| {
            StatementReport::start(format, statement.to_string(), self.memory_before)
        });
        let stream = match report {
            Some(_) => self.session.execute_timed(statement, &self.parameters),
            None => self.session.execute(statement, &self.parameters),
        };
        for note in self.session.take_notes() {
            match self.settings.skip_damaged {
                true => self.context.warn(&note),
                false => self.context.note(&note),
            }
        }
        let mut stream = stream.map_err(|error| self.watch.failure(error))?;
        if stream.schema().fields().is_empty() {
            // CREATE VIEW and SET have nothing to print, not even an empty result.
            for batch in &mut stream {
                batch.map_err(|error| self.watch.failure(error))?;
            }
            drop(progress);
            report.into_iter().for_each(|report| report.print(&stream.statistics()));
            return Ok((output, Ran { rows: None, time: started.elapsed() }));
        }
        if let Some(copy) = statement.copy_target() {
            let ran = self.copy(copy, stream, report, started, progress)?;
            return Ok((output, ran));
        }
        self.has_committed |= stream.has_committed();
        let committed = stream.has_committed();
        match self.print(stream, report, started, progress, output) {
            Err(failure) if committed => Err(failure.after_commit()),
            printed => printed,
        }
    }

    /// Writes the rows of a COPY … TO to its file.
    fn copy(
        &mut self,
        copy: &CopyTarget,
        stream: BatchStream,
        report: Option<StatementReport>,
        started: Instant,
        progress: Progress,
    ) -> Result<Ran, Failure> {
        let path = Path::new(&copy.file);
        let asked = CopyOptions::parse(copy, &self.settings.options)?;
        if !asked.partition_by.is_empty() {
            return self.copy_to_directory(path, &asked, stream, report, started, progress);
        }
        let output = Output::open(Some(path), self.force)?;
        let (format, options) = (asked.format(path, &output), asked.options);
        let printer = Printer::new(format, &stream.schema(), &options, output)?;
        // What is kept is what people see.
        let kept = self.kept.take();
        let written = self.write(printer, stream, report, started, progress);
        self.kept = kept;
        let (output, ran) = written?;
        output.commit()?;
        self.context.note(&format!("{} in {}", ran.what(), path.display()));
        Ok(Ran { rows: None, ..ran })
    }

    /// Writes the rows of a COPY … TO with PARTITION_BY to files in directories.
    fn copy_to_directory(
        &mut self,
        path: &Path,
        asked: &CopyOptions,
        mut stream: BatchStream,
        report: Option<StatementReport>,
        started: Instant,
        progress: Progress,
    ) -> Result<Ran, Failure> {
        let format = asked.with_tabs(asked.format.unwrap_or(Format::Csv));
        // There are as many printers as partitions.
        let options = PrintOptions { threads: 1, ..asked.options.clone() };
        let directory = Directory::new(path, format, options, self.force)?;
        let columns = stream.schema();
        let mut keyed = KeyedRows::new(&columns, &asked.partition_by, asked.with_keys)?;
        directory.make()?;
        let mut files = PartitionFiles::new(&directory, 0, keyed.file_schema(&columns)?);
        let mut rows = 0;
        for batch in &mut stream {
            let batch = batch.map_err(|error| self.watch.failure(error))?;
            rows += batch.num_rows() as u64;
            keyed.write(&batch, &mut files)?;
        }
        let statistics = report.is_some().then(|| stream.statistics());
        drop(stream);
        let files = show_counted(files.finish()?, "file");
        drop(progress);
        let ran = Ran { rows: Some(rows), time: started.elapsed() };
        if let Some((report, statistics)) = report.zip(statistics) {
            report.print(&statistics);
        }
        let what = format!("{} in {files} in {}", ran.what(), path.display());
        self.context.note(&what);
        Ok(Ran { rows: None, ..ran })
    }

    /// Shows how far the statement is.
    fn progress(&self) -> Progress {
        let statement = self.session.progress();
        self.context.progress(move || {
            let read = statement.now()?;
            Some(match read.bytes {
                Some((done, total)) => {
                    let rows = Some(read.rows);
                    Seen { done, total: Some(total), unit: Unit::Bytes, rows }
                }
                None => {
                    let (done, total) = (read.rows, read.total_rows);
                    Seen { done, total, unit: Unit::Rows, rows: None }
                }
            })
        })
    }

    /// Prints the answer of a statement.
    fn print(
        &mut self,
        stream: BatchStream,
        report: Option<StatementReport>,
        started: Instant,
        progress: Progress,
        output: Output,
    ) -> Result<(Output, Ran), Failure> {
        self.check_room_for_result()?;
        let (format, options) = (self.settings.format, &self.settings.options);
        let printer = Printer::new(format, &stream.schema(), options, output)?;
        if let Some(kept) = &mut self.kept {
            kept.begin(stream.schema());
        }
        self.write(printer, stream, report, started, progress)
    }

    /// Writes all rows of an answer.
    fn write(
        &mut self,
        mut printer: Printer,
        mut stream: BatchStream,
        report: Option<StatementReport>,
        started: Instant,
        progress: Progress,
    ) -> Result<(Output, Ran), Failure> {
        let (mut rows, mut has_ended) = (0, true);
        for batch in &mut stream {
            let batch = batch.map_err(|error| self.watch.failure(error))?;
            rows += batch.num_rows() as u64;
            if let Some(kept) = &mut self.kept {
                kept.add(&batch);
            }
            if printer.write(&batch)?.is_break() {
                has_ended = false;
                break;
            }
        }
        if let Some(kept) = self.kept.as_mut().filter(|_| has_ended) {
            kept.end();
        }
        let statistics = report.is_some().then(|| stream.statistics());
        drop(stream);
        let finished = printer.finish()?;
        drop(progress);
        if finished.cut {
            let rows = show_counted(finished.rows, "row");
            self.context.note(&format!("cut after {rows} (--max-rows)"));
        }
        for note in &finished.notes {
            self.context.note(note);
        }
        let time = started.elapsed().saturating_sub(finished.output.waited());
        if let Some((report, statistics)) = report.zip(statistics) {
            report.print(&statistics);
        }
        Ok((finished.output, Ran { rows: Some(rows), time }))
    }

    /// Fails for a second result if the format holds only one.
    pub(crate) fn check_room_for_result(&mut self) -> Result<(), Failure> {
        if self.has_printed && !self.settings.format.holds_many() {
            let what = "a second statement has a result, and this format holds only one";
            return Err(Failure::usage(what).hint(
                "use --format jsonl, csv, tsv, markdown or table, or run the statements one by one",
            ));
        }
        self.has_printed = true;
        Ok(())
    }
}

/// What the options of a COPY … TO say.
struct CopyOptions {
    format: Option<Format>,
    tabs: bool,
    options: PrintOptions,
    /// The keys of the directories that rows are spread over.
    partition_by: Vec<String>,
    /// Whether columns that are keys are in the files, too.
    with_keys: bool,
}

impl CopyOptions {
    fn parse(copy: &CopyTarget, options: &PrintOptions) -> Result<CopyOptions, Failure> {
        let options = PrintOptions { header: true, max_rows: None, ..options.clone() };
        let mut asked = CopyOptions {
            format: None,
            tabs: false,
            options,
            partition_by: Vec::new(),
            with_keys: false,
        };
        for (name, value) in &copy.options {
            let wrong = || {
                Failure::failed(format!(
                    "COPY … TO does not know {name} '{value}'; it knows FORMAT (csv, tsv, json, \
                     jsonl, markdown, arrow, parquet), HEADER (true, false), DELIMITER (',', \
                     '\\t'), PARTITION_BY (column, …) and WRITE_PARTITION_COLUMNS (true, false), \
                     and compresses a file that is named so (.gz, .zst)"
                ))
            };
            match (name.trim_start_matches("format."), value.to_ascii_lowercase().as_str()) {
                ("format", format) => {
                    asked.format = Some(Format::from_str(format, true).map_err(|_| wrong())?);
                }
                ("header" | "has_header", "true" | "1" | "on") => asked.options.header = true,
                ("header" | "has_header", "false" | "0" | "off") => asked.options.header = false,
                ("delimiter" | "delim" | "sep", ",") => asked.tabs = false,
                ("delimiter" | "delim" | "sep", "\t" | "\\t" | "tab") => asked.tabs = true,
                ("partition_by", _) => {
                    asked.partition_by = partition_list(value).ok_or_else(wrong)?;
                }
                ("write_partition_columns", "true" | "1" | "on" | "") => asked.with_keys = true,
                ("write_partition_columns", "false" | "0" | "off") => asked.with_keys = false,
                _ => return Err(wrong()),
            }
        }
        Ok(asked)
    }

    /// The format, by these or by the name of the file.
    fn format(&self, path: &Path, output: &Output) -> Format {
        match Format::choose(self.format, Some(path), output) {
            Format::Table if self.format.is_none() => Format::Csv,
            format => self.with_tabs(format),
        }
    }

    /// CSV with tabs between the fields is another format.
    fn with_tabs(&self, format: Format) -> Format {
        if self.tabs && matches!(format, Format::Csv) { Format::Tsv } else { format }
    }
}

/// The keys of PARTITION_BY: `(a, year(b))`, or one without parentheses. A text is the name of a
/// column.
fn partition_list(value: &str) -> Option<Vec<String>> {
    let inner = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(value);
    let Expressions(keys) = parse_expressions(inner).ok()?;
    let named = |key: String| match key.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')) {
        Some(name) => format!("\"{}\"", name.replace("\'\'", "'").replace('"', "\"\"")),
        None => key,
    };
    Some(keys.into_iter().map(named).collect())
}
