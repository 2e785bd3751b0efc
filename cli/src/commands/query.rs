//! `sty query`: runs SQL and prints the results.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use stylobate::Store;

use crate::args::dry_run::DryRunArg;
use crate::args::output::OutputArgs;
use crate::args::session::SessionArgs;
use crate::args::statements::StatementArgs;
use crate::charts::ChartOptions;
use crate::context::Context;
use crate::errors::Failure;
use crate::output::Output;
use crate::page;
use crate::printers::{Format, PagePart, Place, PrintOptions};
use crate::reports::dry_run;
use crate::reports::statement::StatsFormat;
use crate::reports::titles;
use crate::runner::{Runner, Settings};
use crate::units::{show_duration, show_name};
use crate::watch::QueryWatch;

/// Run SQL over the tables of a store, and over files
///
/// All of DataFusion's SQL. Other files are tables by name: FROM 'x.parquet', FROM 'x.csv', and
/// FROM stdin is what is piped in. Several statements are separated by `;` and run in order up to
/// the first error. CREATE TABLE [AS] and INSERT store rows, each statement as one commit; CREATE
/// TABLE also makes a store that does not exist. Without -o, results go to stdout: as a table on a
/// terminal, as CSV otherwise.
///
/// Numbers are printed so that they read back as the same values: integers and decimals exactly,
/// also in JSON beyond 2^53; floats as the shortest text that is the same value; NaN, inf and -inf
/// ("NaN", "Infinity" and "-Infinity" in JSON). In CSV an empty field is null and "" is the empty
/// text.
///
/// Examples:
///   sty query db 'SELECT count(*) FROM trips'
///   sty query db 'FROM trips WHERE fare > $min' -p min=100 -o dear.parquet
///   sty query db 'CREATE TABLE dear AS SELECT * FROM trips WHERE fare > 100'
///   sty query db -f report.sql --format markdown
///   sty query db 'DELETE FROM trips WHERE fare < 0' --dry-run
///   sty query "SELECT city, avg(price) FROM 'sales/*.csv' GROUP BY city"
///   zcat log.gz | sty query - 'FROM stdin LIMIT 5'
///   echo 'SELECT 1 AS one' | sty query --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    statements: StatementArgs,
    /// Format of the results [default: by the name of -o, else table on a terminal, else csv]
    #[arg(long, value_enum, env = "STY_FORMAT", hide_env = true)]
    format: Option<Format>,
    #[command(flatten)]
    output: OutputArgs,
    /// Rows of each result to print at most
    #[arg(long, value_name = "N", env = "STY_MAX_ROWS", hide_env = true)]
    max_rows: Option<u64>,
    /// No line of column names in CSV and TSV
    #[arg(long, env = "STY_NO_HEADER", hide_env = true)]
    no_header: bool,
    /// Say on stderr how long each statement took, from its plan to its last row printed
    #[arg(long, env = "STY_TIMER", hide_env = true)]
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
    session: SessionArgs,
    #[command(flatten)]
    dry_run: DryRunArg,
    #[command(flatten)]
    chart: ChartOptions,
    /// Write one page with a chart and a table of each answer; the same as -o FILE --format html
    ///
    /// Comments before a statement are its title. The page needs no other file and no network.
    #[arg(long, value_name = "FILE", conflicts_with = "output", help_heading = "Charts")]
    html: Option<PathBuf>,
}

impl QueryArgs {
    /// The file of -o or --html.
    fn path(&self) -> Option<&Path> {
        self.html.as_deref().or(self.output.output.as_deref())
    }

    fn page_title(&self, store: Option<&Path>) -> String {
        let answers = || match store {
            Some(store) => format!("Answers of {}", show_name(&store.to_string_lossy())),
            None => "Answers".to_owned(),
        };
        self.chart.title.clone().unwrap_or_else(answers)
    }

    /// The format asked for: options of charts ask for one.
    fn format(&self) -> Result<Option<Format>, Failure> {
        if self.html.is_some() {
            return Ok(Some(Format::Html));
        }
        let named = self.format.or_else(|| Format::of_name(self.path()?));
        if !self.chart.any() {
            return Ok(named);
        }
        match named {
            None => Ok(Some(Format::Chart)),
            Some(format) if format.has_chart() => Ok(named),
            Some(_) => Err(Failure::usage(
                "this format has no chart, which --chart, --x, --y, --hue, \
                --title, --width, --height, --log, --bins and --ascii are about",
            )
            .hint("add --format chart, svg or html")),
        }
    }
}

/// Runs `sty query`.
pub(crate) fn run(args: &QueryArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.session.wait.of(context);
    let asked = args.statements.read("query", context)?;
    let parameters = args.session.parameters()?;
    let session = Arc::new(asked.session(&args.session.options(context)?, context)?);
    let watch = QueryWatch::start(&session, context);
    let statements = session.parse(&asked.sql).map_err(|error| asked.not_parsed(error))?;
    if statements.len() == 1 {
        session.answers_once();
    }
    if let Some(store) = asked.store.as_ref().filter(|_| statements.is_empty())
        && !Store::open(store).exists()?
    {
        let what = format!("there is no store at '{}' and no statement to run", store.display());
        return Err(Failure::usage(what).hint("the store comes first: sty query STORE 'SELECT …'"));
    }
    if let Some(format) = args.dry_run.asked() {
        let mut actions = Vec::new();
        for statement in &statements {
            let planned = session.dry_run(statement, &parameters);
            session.take_notes().iter().for_each(|note| context.note(note));
            let planned = planned.map_err(|error| watch.failure(error))?;
            actions.extend(dry_run::of_statement(&planned, context));
        }
        return dry_run::print(&actions, format.or(args.format), context);
    }
    let (mut output, format, options) =
        context.open_result(args.format()?, args.path(), args.output.force)?;
    let settings = Settings {
        format,
        options: PrintOptions {
            header: !args.no_header,
            max_rows: args.max_rows,
            threads: context.thread_count(),
            chart: args.chart.clone(),
            ..options
        },
        stats: args.stats,
        skip_damaged: args.session.skip_damaged,
    };
    let mut runner = Runner::new(context, session, parameters, watch, settings);
    runner.force = args.output.force;
    let written = if format.has_chart() { titles::written(&asked.sql) } else { Vec::new() };
    let mut title_of_page = Some(args.page_title(asked.store.as_deref()));
    for (at, statement) in statements.iter().enumerate() {
        if format.has_chart() {
            // If the texts could not be told apart, they have no titles.
            let written = written.get(at).filter(|_| written.len() == statements.len()).cloned();
            let (title, sql) = match written {
                Some(written) => (written.title, written.text),
                None => (None, statement.to_string()),
            };
            let options = &mut runner.settings.options;
            options.chart.title = args.chart.title.clone().or_else(|| title.clone());
            let started = Some(Instant::now());
            let place = title_of_page.clone().map_or(Place::Later, Place::First);
            options.part = PagePart { place, title, sql, started };
        }
        let ran;
        (output, ran) = runner.run(statement, output)?;
        title_of_page = title_of_page.filter(|_| ran.rows.is_none());
        if args.timer {
            context.note(&format!("{} in {}", ran.what(), show_duration(ran.time)));
        }
    }
    let ended = if format == Format::Html { end_page(output, title_of_page) } else { Ok(output) };
    let ended = ended.and_then(Output::commit);
    if runner.has_committed() { ended.map_err(Failure::after_commit) } else { ended }
}

/// Writes the end of a page, and its beginning if no statement had an answer.
fn end_page(mut output: Output, title: Option<String>) -> Result<Output, Failure> {
    let head = title.map(|title| page::head(&title) + "<p>no answers</p>\n").unwrap_or_default();
    let end = format!("{head}{}", page::END);
    output.write_all(end.as_bytes()).map_err(|error| output.failure(&error))?;
    Ok(output)
}
