//! `sty query`: runs SQL and prints the results.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use stylobate::{BatchStream, Parameters, Session, SessionOptions, Statement, Store};

use crate::args::output::OutputArgs;
use crate::args::permissions::PermissionArgs;
use crate::args::resources::{IoArg, ResourceArgs};
use crate::args::statements::StatementArgs;
use crate::context::Context;
use crate::errors::Failure;
use crate::memory::anonymous_bytes;
use crate::output::Output;
use crate::printers::{Format, PrintOptions, Printer};
use crate::reports::statement::{StatementReport, StatsFormat};
use crate::units::{parse_duration, show_counted, show_duration};
use crate::watch::QueryWatch;

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
    store: PathBuf,
    #[command(flatten)]
    statements: StatementArgs,
    /// Format of the results [default: by the name of -o, else table on a terminal, else csv]
    #[arg(long, value_enum, env = "STY_FORMAT", hide_env = true)]
    format: Option<Format>,
    #[command(flatten)]
    output: OutputArgs,
    /// Rows of each result to print at most
    #[arg(long, value_name = "N")]
    max_rows: Option<u64>,
    /// No line of column names in CSV and TSV
    #[arg(long)]
    no_header: bool,
    /// A value for $NAME in the statements; may be repeated
    #[arg(short, long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Say on stderr how long each statement took, from its plan to its last row printed
    #[arg(long)]
    timer: bool,
    /// Say on stderr what each statement read and what pruned the rest [possible: table, json]
    ///
    /// The plan from its top, with rows and times of each operator, and under the store's own:
    /// segments, blocks and bytes read and pruned, by which statistic; rows into and out of each
    /// step and condition; time of each step, the sum of all threads. A condition that zone maps
    /// prove for a whole block counts as tested first, on all its rows.
    ///
    /// --stats=json is one object a line for each statement: sql, rows, total_ms (with printing),
    /// planning_ms, execution_ms, peak_memory_bytes (as in sty bench), spilled_bytes, spill_files,
    /// operators. docs/reference.md has the rest.
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "table", hide_possible_values = true)]
    stats: Option<StatsFormat>,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    io: IoArg,
    /// Give up after this long, such as 30s or 5m; exit code 5; 0 is no limit
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    #[arg(env = "STY_TIMEOUT", hide_env = true)]
    timeout: Option<Duration>,
    /// Read around damage: verify each table first, and leave out segments with any damage
    ///
    /// What is damaged, and how many rows and segments are left out, is said on stderr. All bytes
    /// of each table that a statement names are read for it.
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// Where sorts and groups spill [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR", env = "STY_TEMP_DIR", hide_env = true)]
    temp_dir: Option<PathBuf>,
}

/// Runs `sty query`.
pub(crate) fn run(args: &QueryArgs, context: &Context) -> Result<(), Failure> {
    let sql = args.statements.read("query")?;
    let mut parameters = Parameters::default();
    for assignment in &args.params {
        parameters.add(assignment).map_err(|e| Failure::usage(e.to_string()))?;
    }
    let options = SessionOptions {
        threads: args.resources.threads.threads,
        memory_limit: args.resources.memory_limit,
        temp_dir: args.temp_dir.clone(),
        io: Some(args.io.io()),
        create: true,
        skip_damaged: args.skip_damaged,
        read_only: args.permissions.read_only,
        no_files: args.permissions.no_files,
    };
    let store = Store::open(&args.store);
    let session = Session::open(&store, &options)?;
    let timeout = args.timeout.filter(|timeout| !timeout.is_zero());
    let watch = QueryWatch::start(&session, timeout, context);
    let statements = session.parse(&sql)?;
    if statements.is_empty() && !store.exists()? {
        let what =
            format!("there is no store at '{}' and no statement to run", args.store.display());
        return Err(Failure::usage(what).hint("the store comes first: sty query STORE 'SELECT …'"));
    }
    let OutputArgs { output: path, force } = &args.output;
    let (mut output, format, options) =
        context.open_result(args.format, path.as_deref(), *force)?;
    let mut runner = Runner {
        args,
        context,
        watch,
        session,
        parameters,
        format,
        options: PrintOptions {
            header: !args.no_header,
            max_rows: args.max_rows,
            threads: args.resources.threads.count(),
            ..options
        },
        memory_before: anonymous_bytes(),
        has_printed: false,
        has_committed: false,
    };
    for statement in &statements {
        output = runner.run(statement, output)?;
    }
    let ended = output.commit();
    if runner.has_committed { ended.map_err(Failure::after_commit) } else { ended }
}

/// Runs statements in order and prints their results to one output.
struct Runner<'a> {
    args: &'a QueryArgs,
    context: &'a Context,
    session: Session,
    parameters: Parameters,
    watch: QueryWatch,
    format: Format,
    options: PrintOptions,
    /// Anonymous memory before the first statement, in bytes.
    memory_before: Option<u64>,
    /// Whether a statement had a result.
    has_printed: bool,
    /// Whether a statement has written.
    has_committed: bool,
}

impl Runner<'_> {
    fn run(&mut self, statement: &Statement, output: Output) -> Result<Output, Failure> {
        let started = Instant::now();
        let report = self.args.stats.map(|format| {
            StatementReport::start(format, statement.to_string(), self.memory_before)
        });
        let stream = match report {
            Some(_) => self.session.execute_timed(statement, &self.parameters),
            None => self.session.execute(statement, &self.parameters),
        };
        for note in self.session.take_notes() {
            match self.args.skip_damaged {
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
            report.into_iter().for_each(|report| report.print(&stream.statistics()));
            self.note_time("done", started);
            return Ok(output);
        }
        self.has_committed |= stream.has_committed();
        let committed = stream.has_committed();
        match self.print(stream, report, started, output) {
            Err(failure) if committed => Err(failure.after_commit()),
            printed => printed,
        }
    }

    /// Prints the answer of a statement.
    fn print(
        &mut self,
        mut stream: BatchStream,
        report: Option<StatementReport>,
        started: Instant,
        output: Output,
    ) -> Result<Output, Failure> {
        self.check_room_for_result()?;
        let mut printer = Printer::new(self.format, &stream.schema(), &self.options, output)?;
        let mut rows = 0;
        for batch in &mut stream {
            let batch = batch.map_err(|error| self.watch.failure(error))?;
            rows += batch.num_rows() as u64;
            if printer.write(&batch)?.is_break() {
                break;
            }
        }
        let statistics = report.is_some().then(|| stream.statistics());
        drop(stream);
        let finished = printer.finish()?;
        if finished.cut {
            let rows = show_counted(finished.rows, "row");
            self.context.note(&format!("cut after {rows} (--max-rows)"));
        }
        self.note_time(&show_counted(rows, "row"), started);
        if let Some((report, statistics)) = report.zip(statistics) {
            report.print(&statistics);
        }
        Ok(finished.output)
    }

    /// Fails for a second result if the format holds only one.
    fn check_room_for_result(&mut self) -> Result<(), Failure> {
        if self.has_printed && !self.format.holds_many() {
            let what = "a second statement has a result, and this format holds only one";
            return Err(Failure::usage(what).hint(
                "use --format jsonl, csv, tsv, markdown or table, or run the statements one by one",
            ));
        }
        self.has_printed = true;
        Ok(())
    }

    /// Says how long a statement took, if `--timer` asks for it.
    fn note_time(&self, what: &str, started: Instant) {
        if self.args.timer {
            self.context.note(&format!("{what} in {}", show_duration(started.elapsed())));
        }
    }
}
