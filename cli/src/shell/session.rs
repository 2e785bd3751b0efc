//! Runs what was typed: statements and the shell's own commands, in one session.

#[cfg(feature = "editor")]
use std::io::IsTerminal as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use stylobate::{Parameters, Session, Store};

use super::answers::Answers;
use super::dot::{self, Dot};
use super::known::Known;
use super::lists;
use super::pieces::{Piece, pieces};
use super::place::caret;
use super::plain::{self, Input};
use super::plot;
use crate::charts::ChartOptions;
use crate::context::Context;
use crate::errors::{ErrorFormat, Failure, IoResult as _};
use crate::exit::Exit;
use crate::kept::Kept;
use crate::output::Output;
use crate::printers::{Format, PagePart, PrintOptions, Printer};
use crate::reports::statement::StatsFormat;
use crate::runner::{Ran, Runner, Settings};
use crate::terminal;
use crate::units::{show_counted, show_duration};
use crate::watch::StatementWatch;

/// What a shell is opened with.
pub(crate) struct Opened {
    /// The store, if there is one.
    pub(crate) store: Option<Store>,
    pub(crate) session: Session,
    pub(crate) parameters: Parameters,
    /// The format of answers on the screen.
    pub(crate) format: Format,
    pub(crate) skip_damaged: bool,
    /// Whether files other than those of the store are refused.
    pub(crate) no_files: bool,
}

/// A shell that is open.
struct Shell {
    context: Context,
    store: Option<Store>,
    runner: Runner,
    watch: StatementWatch,
    answers: Answers,
    known: Arc<Mutex<Known>>,
    /// Whether the time of each statement is said.
    is_timed: bool,
    /// Whether a person types what runs.
    is_interactive: bool,
    /// Whether files other than those of the store are refused.
    no_files: bool,
    /// How many files of `.read` are open.
    depth: usize,
}

/// Whether the shell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
}

/// Files of `.read` within each other.
const MOST_DEPTH: usize = 16;

/// Runs a shell on a terminal until the user leaves it.
pub(crate) fn run(opened: Opened, context: &Context) -> Result<(), Failure> {
    terminal::remember_settings();
    let name = name(opened.store.as_ref());
    let mut shell = Shell::new(opened, context, true)?;
    shell.greet();
    let mut lines = Lines::open(&name, &shell);
    let done = loop {
        lock(&shell.known).forget();
        let text = match lines.read().with_path("the terminal") {
            Ok(Input::Text(text)) => text,
            Ok(Input::Cleared) => continue,
            Ok(Input::End) => break Ok(()),
            Err(failure) => break Err(failure),
        };
        match shell.run_text(&text) {
            Ok(Next::GoOn) => {}
            Ok(Next::Leave) => break Ok(()),
            // It has been reported. If the terminal is gone, so is the user.
            Err(_) => {}
        }
    };
    let closed = shell.close();
    done.and(closed)
}

/// Runs a script with commands of the shell in it, up to the first error.
pub(crate) fn run_script(opened: Opened, text: &str, context: &Context) -> Result<(), Failure> {
    let mut shell = Shell::new(opened, context, false)?;
    if pieces(text).iter().all(|piece| matches!(piece, Piece::Sql(_))) {
        // Nobody asks for the last answer.
        shell.runner.kept = None;
    }
    let done = shell.run_text(text);
    // Answers before the first error are whole.
    let closed = shell.close();
    done.and(closed)
}

/// Where lines come from.
enum Lines {
    #[cfg(feature = "editor")]
    Edited(Box<super::editor::Editor>),
    Plain(String),
}

impl Lines {
    fn open(name: &str, shell: &Shell) -> Lines {
        #[cfg(feature = "editor")]
        if io::stdout().is_terminal() && io::stderr().is_terminal() && !terminal::is_dumb() {
            let colors = shell.context.color_stderr();
            let known = Arc::clone(&shell.known);
            let (editor, wrong) = super::editor::Editor::new(name, known, colors);
            wrong.iter().for_each(|wrong| shell.context.note(wrong));
            return Lines::Edited(Box::new(editor));
        }
        let _ = shell;
        Lines::Plain(name.to_owned())
    }

    fn read(&mut self) -> io::Result<Input> {
        match self {
            #[cfg(feature = "editor")]
            Lines::Edited(editor) => editor.read(),
            Lines::Plain(name) => plain::read(name),
        }
    }
}

/// What the prompt calls the store.
fn name(store: Option<&Store>) -> String {
    let path = store.and_then(|store| store.path().canonicalize().ok());
    let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    name.map_or_else(|| "sty".to_owned(), |name| crate::units::show_name(&name).into_owned())
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shell {
    fn new(opened: Opened, context: &Context, is_interactive: bool) -> Result<Shell, Failure> {
        let Opened { store, session, parameters, format, skip_damaged, no_files } = opened;
        let session = Arc::new(session);
        let watch = StatementWatch::start(&session, context)?;
        let answers = Answers::new(format);
        let options = PrintOptions {
            threads: context.thread_count(),
            ..PrintOptions::new(answers.look(context))
        };
        let settings = Settings { format, options, stats: None, skip_damaged };
        let known = Arc::new(Mutex::new(Known::new(Arc::clone(&session))));
        let mut runner = Runner::new(context, session, parameters, watch.of_runner(), settings);
        runner.kept = Some(Kept::default());
        Ok(Shell {
            context: *context,
            store,
            runner,
            watch,
            answers,
            known,
            is_timed: true,
            is_interactive,
            no_files,
            depth: 0,
        })
    }

    fn greet(&self) {
        let version = env!("CARGO_PKG_VERSION");
        let tables = self.runner.session.table_names().len() as u64;
        let store = match &self.store {
            Some(store) => {
                format!("{}: {}", store.path().display(), show_counted(tables, "table"))
            }
            None => "no store; FROM 'file' reads files".to_owned(),
        };
        self.context.note(&format!("sty {version}, {store}. .help lists commands, Ctrl-D leaves."));
    }

    /// Completes the file of `.output`.
    fn close(mut self) -> Result<(), Failure> {
        let closed = self.answers.redirect(None)?;
        closed.iter().for_each(|closed| self.note(closed));
        Ok(())
    }

    /// Runs a text up to the first error, which is reported where a person is there to read it.
    fn run_text(&mut self, text: &str) -> Result<Next, Failure> {
        for piece in pieces(text) {
            let done = match piece {
                Piece::Command(line) => self.run_command(line),
                Piece::Sql(sql) => self.run_sql(sql).map(|()| Next::GoOn),
            };
            match done {
                Ok(Next::GoOn) => {}
                Ok(Next::Leave) => return Ok(Next::Leave),
                Err(failure) => {
                    let sql = if let Piece::Sql(sql) = piece { sql } else { "" };
                    self.report(&failure, sql);
                    return Err(failure);
                }
            }
        }
        Ok(Next::GoOn)
    }

    /// Reports a failure where it happened. A script's is reported by the command at its end.
    fn report(&self, failure: &Failure, sql: &str) {
        // A file of `.read` has reported what went wrong in it.
        if !self.is_interactive || self.depth > 0 {
            return;
        }
        if failure.exit == Exit::Interrupted {
            // The terminal has shown ^C.
            let _ = writeln!(io::stderr().lock());
        }
        if self.context.error_format == ErrorFormat::Human
            && let Some(caret) = caret(sql, &failure.message)
        {
            let _ = writeln!(io::stderr().lock(), "{caret}");
        }
        failure.report(self.context.error_format, self.context.color_stderr());
    }

    fn run_sql(&mut self, sql: &str) -> Result<(), Failure> {
        let statements = self.runner.session.parse(sql)?;
        for statement in &statements {
            self.begin_answer();
            let (output, before) = self.answers.open()?;
            self.runner.settings.format = self.answers.format();
            self.runner.settings.options.look = self.answers.look(&self.context);
            if self.answers.format() == Format::Html {
                let (place, sql) = (self.answers.place(), statement.to_string());
                let started = Some(Instant::now());
                self.runner.settings.options.part = PagePart { place, title: None, sql, started };
            }
            let (watch, runner) = (&self.watch, &mut self.runner);
            let done = watch.over(|| {
                let (output, ran) = runner.run(statement, output)?;
                output.commit()?;
                Ok(ran)
            });
            lock(&self.known).forget();
            match done {
                Ok(ran) => {
                    ran.rows.iter().for_each(|_| self.answers.note_answer());
                    self.note_time(ran);
                }
                // The pager was left, and with it the answer.
                Err(Failure { exit: Exit::Done, .. }) if self.is_interactive => {
                    self.note("stopped");
                }
                Err(failure) => {
                    self.answers.take_back(before);
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// On a screen, each answer stands for itself, in a format that holds only one, too; and a file
    /// has room for the first.
    fn begin_answer(&mut self) {
        let is_alone = self.is_interactive && self.answers.are_on_screen();
        if is_alone || self.answers.begin_file() {
            self.runner.begin_output();
        }
    }

    /// Says how many rows an answer has, and how long it took.
    fn note_time(&self, ran: Ran) {
        if self.is_interactive {
            let time = if self.is_timed {
                format!(", {}", show_duration(ran.time))
            } else {
                String::new()
            };
            self.note(&format!("{}{time}", ran.what()));
        }
    }

    fn note(&self, text: &str) {
        let (dim, reset) = match self.context.color_stderr() {
            true => ("\x1b[2m", "\x1b[0m"),
            false => ("", ""),
        };
        if !self.context.quiet {
            let _ = writeln!(io::stderr().lock(), "{dim}({text}){reset}");
        }
    }

    fn run_command(&mut self, line: &str) -> Result<Next, Failure> {
        match dot::parse(line)? {
            Dot::Help(about) => {
                print_text(self.answers.screen()?, &dot::help(about.as_deref())?)?;
            }
            Dot::Tables(pattern) => {
                let mut known = lock(&self.known);
                let session = &self.runner.session;
                let list = lists::tables(&mut *known, session, pattern.as_deref())?;
                drop(known);
                self.print_list(&list)?;
            }
            Dot::Schema(table) => self.schema(table.as_deref())?,
            Dot::Mode(Some(format)) => self.answers.set_format(format)?,
            Dot::Mode(None) => {
                let name = format!("{:?}\n", self.answers.format()).to_lowercase();
                print_text(self.answers.screen()?, &name)?;
            }
            Dot::Timer(is_on) => self.is_timed = is_on,
            Dot::Stats(is_on) => self.runner.settings.stats = is_on.then_some(StatsFormat::Table),
            Dot::Pager(is_on) => self.answers.is_paged = is_on,
            Dot::Read(_) | Dot::Output(Some(_)) if self.no_files => {
                return Err(Failure::usage("this shell reads and writes no files (--no-files)"));
            }
            Dot::Read(path) => return self.read(&path),
            Dot::Output(path) => self.redirect(path.as_deref())?,
            Dot::Explain(sql) => self.run_sql(&format!("EXPLAIN {sql}"))?,
            Dot::Last => self.last(self.answers.format(), ChartOptions::default())?,
            Dot::Plot(words) => self.plot(&words)?,
            Dot::Quit => return Ok(Next::Leave),
        }
        Ok(Next::GoOn)
    }

    fn redirect(&mut self, path: Option<&Path>) -> Result<(), Failure> {
        let closed = self.answers.redirect(path);
        self.runner.begin_output();
        closed?.iter().for_each(|closed| self.note(closed));
        Ok(())
    }

    /// Runs a file.
    fn read(&mut self, path: &Path) -> Result<Next, Failure> {
        if self.depth >= MOST_DEPTH {
            let what = format!("{}: files read each other too deeply", path.display());
            return Err(Failure::usage(what));
        }
        if !std::fs::metadata(path).with_path(path)?.is_file() {
            return Err(Failure::usage(format!("{}: is not a file", path.display())));
        }
        let text = std::fs::read_to_string(path).with_path(path)?;
        self.depth += 1;
        let done = self.run_text(&text);
        self.depth -= 1;
        done.map_err(|failure| Failure {
            message: format!("{}: {}", path.display(), failure.message).into(),
            ..failure
        })
    }

    /// Prints rows that are there already: lists of the shell, the last answer, charts of it.
    fn print(
        &mut self,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        format: Format,
        chart: ChartOptions,
    ) -> Result<(), Failure> {
        self.begin_answer();
        self.runner.settings.format = format;
        self.runner.check_room_for_result()?;
        let (output, before) = self.answers.open()?;
        let options = PrintOptions {
            look: self.answers.look(&self.context),
            chart,
            ..self.runner.settings.options.clone()
        };
        let (watch, stop) = (&self.watch, &self.runner.watch);
        let printed = watch.over(|| {
            let mut printer = Printer::new(format, schema, &options, output)?;
            for batch in batches {
                stop.check()?;
                if printer.write(batch)?.is_break() {
                    break;
                }
            }
            let finished = printer.finish()?;
            finished.output.commit()?;
            Ok(finished.notes)
        });
        match printed {
            Ok(notes) => {
                self.answers.note_answer();
                notes.iter().for_each(|note| self.context.note(note));
                Ok(())
            }
            Err(failure) => {
                self.answers.take_back(before);
                Err(failure)
            }
        }
    }

    fn print_list(&mut self, list: &RecordBatch) -> Result<(), Failure> {
        let format = self.answers.format();
        self.print(&list.schema(), std::slice::from_ref(list), format, ChartOptions::default())
    }

    /// Lists the columns of a table, or of all.
    fn schema(&mut self, table: Option<&str>) -> Result<(), Failure> {
        let Some(table) = table else {
            let list = lists::columns(&mut *lock(&self.known))?;
            return self.print_list(&list);
        };
        let with_schema = lists::with_schema(table, &*lock(&self.known));
        let name = with_schema.unwrap_or_else(|| lists::quoted(table));
        self.run_sql(&format!("DESCRIBE {name}"))
    }

    /// Shows the last answer again.
    fn last(&mut self, format: Format, chart: ChartOptions) -> Result<(), Failure> {
        let Some(kept) = self.runner.kept.take() else { return Ok(()) };
        let printed = match kept.schema() {
            None => Err(Failure::usage("there is no answer yet")),
            Some(schema) => self.print(&schema, kept.batches(), format, chart),
        };
        if printed.is_ok() && kept.is_cut() {
            let rows = show_counted(kept.rows() as u64, "row");
            self.context.note(&format!("only the first {rows} of the answer were kept"));
        }
        self.runner.kept = Some(kept);
        printed
    }

    /// Draws the last answer.
    fn plot(&mut self, words: &[String]) -> Result<(), Failure> {
        let options = plot::options(words)?;
        let format = match self.answers.format() {
            Format::Svg | Format::Html if !self.answers.are_on_screen() => self.answers.format(),
            format if self.answers.are_on_screen() || format.holds_many() => Format::Chart,
            _ => {
                let what = "the file of .output has a format that holds no chart";
                let hint = ".output leads back to the screen; .svg and .html files hold charts";
                return Err(Failure::usage(what).hint(hint));
            }
        };
        self.last(format, options)
    }
}

fn print_text(mut output: Output, text: &str) -> Result<(), Failure> {
    let written = output.write_all(text.as_bytes());
    written.map_err(|error| output.failure(&error))?;
    output.commit()
}
