//! `sty query`: rows out.

use std::io::{self, IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use stylobate::Error;
use stylobate::sql::{Parameters, Session, SessionOptions};
use stylobate::store::Store;

use super::bench_memory::held;
use super::ingest::parse_threads;
use super::query_stats::{StatsFormat, Watched};
use crate::args::missing_input;
use crate::context::Context;
use crate::errors::Failure;
use crate::printers::{Format, Printer};
use crate::signals;
use crate::units::{parse_duration, parse_size, show_counted, show_duration};

/// Run SQL over the tables of a store
///
/// All of DataFusion's SQL. Other files are tables by name: FROM 'x.parquet', FROM 'x.csv'. Several
/// statements are separated by `;` and run in order up to the first error. CREATE TABLE [AS] and
/// INSERT store rows, each statement as one commit; CREATE TABLE also makes a store that does not
/// exist. Without -o, results go to stdout: as a table on a terminal, as CSV otherwise.
///
/// Numbers are printed so that they read back as the same values: integers and decimals exactly,
/// also in JSON beyond 2^53; floats as the shortest text that is the same value; NaN, inf and -inf
/// ("NaN", "Infinity" and "-Infinity" in JSON). In CSV an empty field is null and "" is the empty
/// text.
///
/// Examples:
///   sty query db 'SELECT count(*) FROM trips'
///   sty query db 'SELECT * FROM trips WHERE fare > $limit' -p limit=100 -o dear.parquet
///   sty query db 'CREATE TABLE dear AS SELECT * FROM trips WHERE fare > 100'
///   sty query db -f report.sql --format markdown
///   echo 'SELECT 1 AS one' | sty query db --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct QueryArgs {
    /// The store's directory
    pub(crate) store: PathBuf,
    /// The statements, or - for stdin [default: stdin]
    #[arg(conflicts_with = "file")]
    sql: Option<String>,
    /// Read the statements from a file, - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the results [default: by the name of -o, else table on a terminal, else csv]
    #[arg(long, value_enum, env = "STY_FORMAT", hide_env = true)]
    pub(crate) format: Option<Format>,
    /// Write to a file, which appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file of -o if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Rows of each result to print at most
    #[arg(long, value_name = "N")]
    pub(crate) max_rows: Option<u64>,
    /// No line of column names in CSV and TSV
    #[arg(long)]
    pub(crate) no_header: bool,
    /// A value for $NAME in the statements; may be repeated
    #[arg(short, long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// Say on stderr how long each statement took, from its plan to its last row printed
    #[arg(long)]
    pub(crate) timer: bool,
    /// Say on stderr what each statement read and what pruned the rest [possible: table, json]
    ///
    /// The plan from its top, with rows and times of each operator, and under the store's own:
    /// segments, blocks and bytes read and pruned, by which statistic; rows into and out of each
    /// step and condition; time of each step, the sum of all threads. A condition that zone maps
    /// prove for a whole block counts as asked first, of all its rows.
    ///
    /// --stats=json is one object a line for each statement: sql, rows, total_ms (with printing),
    /// planning_ms, execution_ms, peak_memory_bytes (as in sty bench), spilled_bytes, spill_files,
    /// operators. docs/reference.md has the rest.
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "table", hide_possible_values = true)]
    pub(crate) stats: Option<StatsFormat>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads, env = "STY_THREADS", hide_env = true)]
    pub(crate) threads: Option<usize>,
    /// Memory to use at most, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, env = "STY_MEMORY_LIMIT", hide_env = true)]
    pub(crate) memory_limit: Option<u64>,
    /// Give up after this long, such as 30s or 5m; exit code 5
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STY_TIMEOUT", hide_env = true)]
    pub(crate) timeout: Option<Duration>,
    /// Where sorts and groups spill [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR", env = "STY_TEMP_DIR", hide_env = true)]
    pub(crate) temp_dir: Option<PathBuf>,
}

impl QueryArgs {
    /// The text of the statements, wherever it comes from.
    pub(crate) fn statements(&self) -> Result<String, Failure> {
        read_statements(self.sql.as_deref(), self.file.as_deref(), "query")
    }
}

/// The text of a command's statements: given, in a file, or on stdin. A terminal as stdin gets help
/// instead of silence.
pub(super) fn read_statements(
    sql: Option<&str>,
    file: Option<&Path>,
    command: &str,
) -> Result<String, Failure> {
    match (sql, file) {
        (Some(sql), _) if sql != "-" => Ok(sql.to_owned()),
        (_, Some(file)) if file.as_os_str() != "-" => {
            std::fs::read_to_string(file).map_err(|error| Failure::io(file, &error))
        }
        _ if io::stdin().is_terminal() => Err(missing_input(command)),
        _ => {
            let mut text = String::new();
            let read = io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| Failure::io(Path::new("stdin"), &error))?;
            Ok(text)
        }
    }
}

/// Runs `sty query`.
pub(crate) fn run(args: &QueryArgs, context: &Context) -> Result<(), Failure> {
    let sql = args.statements()?;
    let mut parameters = Parameters::default();
    for assignment in &args.params {
        parameters.add(assignment).map_err(|e| Failure::usage(e.to_string()))?;
    }
    let options = SessionOptions {
        threads: args.threads,
        memory_limit: args.memory_limit,
        temp_dir: args.temp_dir.clone(),
        create: true,
    };
    let store = Store::open(&args.store);
    let session = Session::open(&store, &options)?;
    let statements = session.parse(&sql)?;
    if statements.is_empty() && !store.exists()? {
        let what =
            format!("there is no store at '{}' and no statement to run", args.store.display());
        return Err(Failure::usage(what).hint("the store comes first: sty query STORE 'SELECT …'"));
    }
    let (mut output, format, mut print) =
        context.open_result(args.format, args.output.as_deref(), args.force)?;
    print.header = !args.no_header;
    print.max_rows = args.max_rows;
    let watch = Watch::start(&session, args.timeout);
    let (mut printed, before) = (false, held());
    for statement in &statements {
        let started = Instant::now();
        let watched =
            args.stats.map(|format| Watched::start(format, statement.to_string(), before));
        let stream = match watched {
            Some(_) => session.execute_timed(statement, &parameters),
            None => session.execute(statement, &parameters),
        };
        session.take_notes().iter().for_each(|note| context.note(note));
        let mut stream = stream.map_err(|e| watch.reason(e))?;
        if stream.schema().fields().is_empty() {
            // CREATE VIEW, SET: nothing to print, not even an empty result.
            for batch in &mut stream {
                batch.map_err(|e| watch.reason(e))?;
            }
            watched.into_iter().for_each(|watched| watched.report(&stream.statistics()));
            if args.timer {
                context.note(&format!("done in {}", show_duration(started.elapsed())));
            }
            continue;
        }
        if printed && !format.holds_many() {
            return Err(Failure::usage(
                "a second statement has a result, and this format holds only one",
            )
            .hint(
                "use --format jsonl, csv, tsv, markdown or table, or run the statements one by one",
            ));
        }
        printed = true;
        let mut printer = Printer::new(format, &stream.schema(), &print, output)?;
        let mut rows = 0;
        for batch in &mut stream {
            watch.check()?;
            let batch = batch.map_err(|e| watch.reason(e))?;
            rows += batch.num_rows() as u64;
            if printer.write(&batch)?.is_break() {
                break;
            }
        }
        let done = watched.is_some().then(|| stream.statistics());
        drop(stream);
        let finished = printer.finish()?;
        if finished.cut {
            context.note(&format!("cut after {} (--max-rows)", show_counted(finished.rows, "row")));
        }
        if args.timer {
            context.note(&format!(
                "{} in {}",
                show_counted(rows, "row"),
                show_duration(started.elapsed())
            ));
        }
        if let (Some(watched), Some(done)) = (watched, done) {
            watched.report(&done);
        }
        output = finished.output;
    }
    output.commit()
}

/// Ends the query on Ctrl-C and at the timeout, also while it is between two batches.
pub(super) struct Watch {
    interrupted: Arc<AtomicBool>,
    timed_out: Arc<AtomicBool>,
    timeout: Option<Duration>,
}

impl Watch {
    pub(super) fn start(session: &Session, timeout: Option<Duration>) -> Watch {
        let watch =
            Watch { interrupted: signals::cancellation(), timed_out: Arc::default(), timeout };
        let (interrupted, timed_out) =
            (Arc::clone(&watch.interrupted), Arc::clone(&watch.timed_out));
        let (canceller, started) = (session.canceller(), Instant::now());
        std::thread::spawn(move || {
            while !interrupted.load(Ordering::Relaxed) {
                if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
                    timed_out.store(true, Ordering::Relaxed);
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            canceller.cancel();
        });
        watch
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        match self.timeout {
            Some(timeout) if self.timed_out.load(Ordering::Relaxed) => {
                Err(Error::LimitExceeded(format!("timeout of {} reached", show_duration(timeout)))
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Why a query was cancelled, or the error itself.
    pub(super) fn reason(&self, error: Error) -> Failure {
        self.check().err().unwrap_or_else(|| error.into())
    }
}
