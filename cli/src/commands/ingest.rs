//! `sty ingest`: adds rows to a table.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::{Args, ValueEnum};
use stylobate::{
    Arrange, CommitEvery, CsvOptions, DataType, Error, IfLoaded, Input, LoadOptions, OnError,
    Profile, SessionOptions, SqlExpressions, SqlSelect, TableOptions, TextEncoding, expand, load,
    would_load,
};

use crate::args::arrange::{Expressions, SortList, parse_expressions, parse_sort};
use crate::args::choices::{ProfileArg, ReportFormat};
#[cfg(feature = "cluster")]
use crate::args::cluster;
use crate::args::columns::{ColumnTypes, parse_column_types};
use crate::args::commit_every::parse_commit_every;
use crate::args::csv::CsvArgs;
use crate::args::dry_run::DryRunArg;
use crate::args::names;
use crate::args::resources::WaitArg;
use crate::args::table::Destination;
use crate::args::text::parse_encoding;
use crate::config::{InForce, Origin};
use crate::context::Context;
use crate::errors::Failure;
use crate::exit::Exit;
#[cfg(feature = "cluster")]
use crate::loading::cluster::OfCluster;
use crate::loading::{Target, check_not_read};
use crate::progress::{Seen, Unit};
use crate::reports::dry_run;
use crate::reports::load::{of_node, print_for_people, print_json};
use crate::signals;
use crate::watch;

/// Add rows to a table, which is created if it does not exist
///
/// Reads CSV, TSV, JSON (lines, arrays, objects one after the other), Arrow IPC and Parquet, plain
/// or compressed (.gz, .zst, .bz2, .lz4, .zip), from files, patterns, directories, pipes and stdin.
/// Compression and format are detected by the first bytes, and CSV or JSON also by the name. Types
/// are inferred from the first rows and widened when later rows need it; columns are matched by
/// name. Directories called key=value become columns. Either all rows are added or none. A summary
/// goes to stderr: rows, bytes in, bytes stored, ratio, seconds.
///
/// The table remembers which files were loaded into it, and refuses to load one of them again, as
/// it was or changed, unless --if-loaded says otherwise. With --commit-every, a long load commits
/// at intervals; after a crash, the same command resumes it.
///
/// A row that cannot be stored ends the ingest, unless such rows are to be left out: --on-error
/// skip counts them, --rejects FILE keeps them too, and rows read = rows stored + rows rejected. A
/// value that only makes its column's type wider is no error. A stray quote costs its line: reading
/// goes on with the next one.
///
/// Examples:
///   sty ingest db/trips trips-*.csv.gz
///   zcat trips.csv.gz | sty ingest db/trips -
///   sty ingest db/t --names id,fare --schema 'fare:decimal(9,2)' t.csv
///   sty ingest db/trips trips.csv --rejects bad.csv --max-errors 1000
///   sty ingest db/trips --from-rejects bad.csv    # once they are corrected
///   sty ingest db/trips *.csv --partition-by 'year(day)' --sort-by 'vendor, day'
///   sty ingest db/flights flights.parquet
///   sty ingest db/trips trips-*.csv.gz --dry-run    # files, columns, types
///   curl -s https://example.org/events.jsonl.zst | sty ingest db/events
///   tail -F app.jsonl | sty ingest db/log --commit-every 10s --rejects bad.csv -
///   sty ingest db/dear trips.csv --select 'id, fare * 1.1 AS gross'
///   sty ingest db/log log.csv --if-loaded new-rows    # added since
///   sty ingest db/sales --filename-column file sales/    # sales/year=2015/x.csv
///   sty ingest --cluster nodes.toml trips trips-*.csv.gz
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct IngestArgs {
    /// The table: a directory in the store's directory
    ///
    /// With --cluster, the name of a table of the cluster.
    #[arg(value_name = "STORE/TABLE", add = names::tables())]
    table: Destination,
    /// Files, patterns such as 'trips-*.csv.gz', or - for stdin [default: stdin]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What to store of the rows: a query over the table `input`, or a list of expressions
    ///
    /// Each row is taken by itself: expressions, WHERE, and no aggregates, joins or ORDER BY.
    /// --schema, --names, --null and the like are about the input, --sort-by and --partition-by
    /// about what is stored.
    #[arg(long, value_name = "SQL", conflicts_with = "from_rejects", allow_hyphen_values = true)]
    select: Option<String>,
    /// Types of columns that are not to be inferred; timestamp(epoch_s), (epoch_ms), (epoch_us) and
    /// (epoch_ns) are counts since 1970
    #[arg(long, value_name = "NAME:TYPE,…", value_parser = parse_column_types)]
    schema: Option<ColumnTypes>,
    /// Names of the columns, in order
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    names: Vec<String>,
    /// Spread the rows of a new table over directories, by SQL over its columns: year(pickup),
    /// vendor_id, expr AS name
    #[arg(long, value_name = "EXPR,…", value_parser = parse_expressions, add = names::column_lists())]
    partition_by: Option<Expressions>,
    /// Sort the rows of each segment of a new table; `sty compact` sorts it as a whole
    #[arg(long, value_name = "COLUMN [DESC],…", value_parser = parse_sort, add = names::column_lists())]
    sort_by: Option<SortList>,
    /// What becomes of files that were loaded before, by path, size and time or by their bytes, and
    /// of those that have changed since
    #[arg(long, value_enum, value_name = "ACTION", default_value_t)]
    #[arg(env = "STY_IF_LOADED", hide_env = true)]
    if_loaded: IfLoadedArg,
    /// Commit after this many rows (1000000), bytes of input (10GiB) or time (10s), not only at the
    /// end: after a crash, the same command goes on where the last commit ended. With a time, a
    /// pipe may go on for ever, and Ctrl-C or SIGTERM ends the load with what has come. With
    /// --cluster, a commit ends with a file: it has the files up to this size together, or one
    #[arg(long, value_name = "ROWS|SIZE|TIME", value_parser = parse_commit_every)]
    commit_every: Option<CommitEvery>,
    /// Whether time or space matters more [default: the table's; balanced for a new one]
    #[arg(long, value_enum, env = "STY_PROFILE", hide_env = true)]
    profile: Option<ProfileArg>,
    /// The encoding of text without a byte-order mark: utf-8, latin1, windows-1252, utf-16le,
    /// shift_jis, …
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    #[arg(env = "STY_ENCODING", hide_env = true)]
    encoding: Option<TextEncoding>,
    /// Add a column of this name that has the path of the file a row comes from
    #[arg(long, value_name = "NAME")]
    filename_column: Option<String>,
    /// Make no columns of directories called key=value
    #[arg(long)]
    no_partition_columns: bool,
    /// Leave out columns of types that cannot be stored (lists, structs, maps)
    #[arg(long)]
    skip_unsupported: bool,
    /// Make a column of each field within JSON objects, and structs in Parquet and Arrow files, at
    /// any depth: `SELECT geo.lat`. Lists and maps become JSON texts; so does an object whose
    /// column --schema names, as in --schema geo:utf8. A query of --select has structs as they are
    #[arg(long)]
    flatten: bool,
    /// Send each row to its machine: a TOML file of machines and what they have. Partitions of a
    /// table go each to one machine, segments of a table without partitions to all of them in turn
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Where segments wait until all machines of --cluster have them [default: the system's
    /// directory for temporary files]
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "DIR", requires = "cluster")]
    temp_dir: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRunArg,
    #[command(flatten)]
    wait: WaitArg,
    /// Print what was done to stdout, as one object: rows, bytes, segments, and the same of each
    /// input
    #[arg(long, value_enum, value_name = "FORMAT")]
    report: Option<ReportFormat>,
    // A heading holds for everything that follows, so the groups with one come last.
    #[command(flatten)]
    csv: CsvArgs,
    #[command(flatten)]
    errors: ErrorArgs,
    /// The settings in force.
    #[arg(skip)]
    pub(crate) settings: Vec<InForce>,
}

/// Settings that decide which values the text of an input stands for.
const OF_READING: [&str; 6] =
    ["null", "encoding", "decimal", "thousands", "date-order", "infer-rows"];

/// What becomes of rows that cannot be stored.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows that cannot be stored")]
struct ErrorArgs {
    /// What becomes of them [default: fail; reject with --rejects]
    #[arg(long, value_enum, value_name = "ACTION")]
    on_error: Option<OnErrorArg>,
    /// Write them to this CSV file: file, line, column, reason, raw (the bytes of the row). It
    /// appears when the ingest has committed, and only if there are any. A load that goes on after
    /// a stop adds to the file of its earlier part
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// The inputs are files of --rejects, corrected perhaps: each `raw` is a row of the file that
    /// its row names, and is read as that file was, with the same options and its columns. Where
    /// the file is gone, --names says what these are
    #[arg(long)]
    from_rejects: bool,
    /// Replace the file of --rejects if it exists
    #[arg(long, requires = "rejects")]
    force: bool,
    /// Rows that may be left out; one more ends the ingest, with nothing stored and exit code 4
    /// [default: no bound]
    #[arg(long, value_name = "N")]
    max_errors: Option<u64>,
}

/// `--on-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnErrorArg {
    /// The first one ends the ingest, and nothing is stored
    Fail,
    /// They are left out and counted
    Skip,
    /// They are left out, counted and written to the file of --rejects
    Reject,
}

impl ErrorArgs {
    /// Combines the options, and refuses contradictions.
    fn on_error(&self) -> Result<OnError, Failure> {
        let on_error = match (self.on_error, &self.rejects) {
            (None | Some(OnErrorArg::Reject), Some(file)) => self.reject_to(file)?,
            (Some(OnErrorArg::Reject), None) => {
                return Err(Failure::usage(
                    "--on-error reject needs a file for the rows that are left out",
                )
                .hint(
                    "name it with --rejects FILE, or say --on-error skip to have them counted only",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "--rejects is for rows that are rejected, and --on-error says otherwise",
                )
                .hint("leave out --on-error, or say --on-error reject"));
            }
            (Some(OnErrorArg::Skip), None) => OnError::Skip,
            (None | Some(OnErrorArg::Fail), None) => OnError::Fail,
        };
        if self.max_errors.is_some() && on_error == OnError::Fail {
            return Err(Failure::usage("--max-errors is for rows that are left out, and none are")
                .hint("add --on-error skip, or --rejects FILE"));
        }
        Ok(on_error)
    }

    fn reject_to(&self, file: &Path) -> Result<OnError, Failure> {
        if file.as_os_str() == "-" {
            return Err(Failure::usage(
                "--rejects needs the name of a file: stdout is not for rows that are left out",
            ));
        }
        Ok(OnError::Reject { file: file.to_path_buf(), replace: self.force })
    }
}

/// `--if-loaded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum IfLoadedArg {
    /// They end the ingest before it begins
    #[default]
    Error,
    /// They are left out
    Skip,
    /// They are loaded once more
    Again,
    /// The rows are loaded that were added to a CSV or JSON lines file since; others are left out
    NewRows,
}

impl From<IfLoadedArg> for IfLoaded {
    fn from(arg: IfLoadedArg) -> Self {
        match arg {
            IfLoadedArg::Error => IfLoaded::Error,
            IfLoadedArg::Skip => IfLoaded::Skip,
            IfLoadedArg::Again => IfLoaded::Again,
            IfLoadedArg::NewRows => IfLoaded::NewRows,
        }
    }
}

/// Runs `sty ingest`.
pub(crate) fn run(args: &IngestArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.wait.of(context);
    let on_error = args.errors.on_error()?;
    let name = |file: &PathBuf| match file.to_str() {
        Some(name) => Ok(name.to_owned()),
        // Another file could have the name with its bytes replaced.
        None => Err(Failure::usage(format!(
            "{}: the name is not UTF-8; name its directory, or redirect the file: … - < FILE",
            file.display()
        ))),
    };
    args.tell_settings(context);
    let names: Vec<String> = args.inputs()?.iter().map(name).collect::<Result<_, _>>()?;
    let mut inputs = args.expand(&names)?;
    let profile = args.profile.map(Profile::from);
    let options = TableOptions { profile: profile.unwrap_or_default(), ..TableOptions::default() };
    let are_files = inputs.iter().all(|input| input.size().is_some());
    check_not_read(args.errors.rejects.as_deref(), &inputs)?;
    let mut load_options = args.load_options(profile, on_error, context);
    if let Some(sql) = &args.select {
        load_options.select = Some(Arc::new(select(sql, context)?));
    }
    let mut target = args.target(context)?;
    target.check_rejects(&load_options)?;
    if let Some(format) = args.dry_run.asked() {
        let forecast = loop {
            let (table, these) = target.foresee(inputs, options, &load_options, context)?;
            let error = match would_load(table.as_ref(), these, &load_options) {
                Ok(forecast) => break forecast,
                Err(error) => error,
            };
            let found = misguessed(&error, &mut load_options, are_files);
            context.note(&begun_anew(&found.ok_or(error)?, "would begin"));
            inputs = args.expand(&names)?;
        };
        let actions = dry_run::of_load(args.table.name(), &forecast);
        return dry_run::print(&actions, format, context);
    }
    if args.commits_by_time() {
        watch::leave_end_to_command();
    }
    loop {
        let report = loop {
            let (writer, these) = target.begin(inputs, options, &mut load_options)?;
            target.note().into_iter().for_each(|note| context.note(&note));
            load_options.progress = Arc::default();
            let seen = Arc::clone(&load_options.progress);
            let progress = context.progress(move || {
                let (done, total) = (seen.bytes(), seen.total_bytes());
                Some(Seen { done, total, unit: Unit::Bytes, rows: Some(seen.rows()) })
            });
            let loaded = load(writer, these, &load_options);
            drop(progress);
            let error = match loaded {
                Ok(report) => break report,
                Err(error) => error,
            };
            let found = misguessed(&error, &mut load_options, are_files);
            let found = found.filter(|_| target.is_unchanged());
            context.note(&begun_anew(&found.ok_or(error)?, "began"));
            inputs = args.expand(&names)?;
        };
        let stored = target.finish(context.wait)?;
        // The bound is one of all files, also where they are stored one after the other.
        if let Some(most) = &mut load_options.max_errors {
            *most = most.saturating_sub(report.rows_rejected);
        }
        let ended = load_options.end_input.load(Ordering::Relaxed).then(Failure::stopped);
        if let Some(ended) = &ended {
            let by = if ended.exit == Exit::Limit { "its timeout" } else { "a signal" };
            context.note(&format!("ended by {by}: all whole rows that had come are stored"));
        }
        print_for_people(&report, args.errors.rejects.as_deref(), context);
        stored.nodes.iter().for_each(|node| context.note(&of_node(node)));
        if let Some(ReportFormat::Json) = args.report {
            let printed = print_json(args.table.name(), &report, &stored.nodes);
            printed.map_err(Failure::after_commit)?;
        }
        // A signal is the end that was waited for.
        if let Some(ended) = ended.filter(|ended| ended.exit == Exit::Limit) {
            return Err(ended);
        }
        if stored.is_last {
            return Ok(());
        }
        inputs = args.expand(&names)?;
    }
}

/// The query of --select.
fn select(sql: &str, context: &Context) -> Result<SqlSelect, Failure> {
    let memory_limit = context.memory_limit;
    let options = SessionOptions { memory_limit, ..SessionOptions::default() };
    SqlSelect::new(sql, &options).map_err(|error| match error {
        Error::LimitExceeded(_) => error.into(),
        error => Failure::usage(format!("--select: {error}")),
    })
}

/// An error by which later rows have shown that types were guessed wrongly, and what they should
/// be: then all begins anew, unless something was committed or cannot be read again.
struct Misguess(String, Vec<(String, DataType)>);

fn misguessed(error: &Error, options: &mut LoadOptions, are_files: bool) -> Option<Misguess> {
    let found = options.misguesses.take();
    let is_misfit = matches!(error, Error::InvalidInput(_));
    let is_found = !found.is_empty() && is_misfit && are_files;
    is_found.then(|| Misguess(error.to_string(), found))
}

/// Says what the first rows had let expect wrongly.
fn begun_anew(Misguess(error, found): &Misguess, began: &str) -> String {
    // What follows is what to do about it.
    let what = error.split("; ").next().unwrap_or(error);
    let columns: Vec<_> = found.iter().map(|(name, t)| format!("{name} as {t}")).collect();
    format!("{what}; the load {began} anew, with {}", columns.join(", "))
}

impl IngestArgs {
    /// Says which settings decide how the input is read: the same command may store other values
    /// elsewhere.
    fn tell_settings(&self, context: &Context) {
        let is_told = |one: &&InForce| OF_READING.contains(&one.name.as_str());
        for InForce { name, value, origin, .. } in self.settings.iter().filter(is_told) {
            if let Origin::Variable(_) | Origin::File(_) = origin {
                let value = value.as_deref().unwrap_or_default();
                context.note(&format!("{name} = {value}, by {origin}"));
            }
        }
    }

    /// Where the rows go.
    fn target(&self, context: &Context) -> Result<Target, Failure> {
        #[cfg(feature = "cluster")]
        if let Some(file) = &self.cluster {
            let Destination::Name(name) = &self.table else {
                let what = "a table of a cluster has a name alone, and is in no directory";
                return Err(Failure::usage(what).hint("sty ingest --cluster FILE TABLE INPUT…"));
            };
            let temporary = self.temp_dir.as_deref();
            let of_cluster = OfCluster::new(cluster::read(file)?, name, temporary)?;
            return Ok(Target::Cluster(Box::new(of_cluster)));
        }
        match &self.table {
            Destination::Path(path) => Target::table(path.open(context)?),
            Destination::Name(name) => Err(Failure::usage(format!(
                "'{name}' names no table; write STORE/TABLE, for example db/trips"
            ))),
        }
    }

    /// Whether commits come by time, within a file or a pipe: then a signal is the end of the
    /// input.
    fn commits_by_time(&self) -> bool {
        let by_time = matches!(self.commit_every, Some(CommitEvery::Time(_)));
        #[cfg(feature = "cluster")]
        let by_time = by_time && self.cluster.is_none();
        by_time
    }

    /// The files of these names and patterns.
    fn expand(&self, names: &[String]) -> Result<Vec<Input>, Failure> {
        let inputs = expand(names)?;
        Ok(match self.encoding {
            Some(encoding) => inputs.into_iter().map(|input| input.encoded(encoding)).collect(),
            None => inputs,
        })
    }

    /// The inputs, with `-` for stdin. If stdin is a terminal, help is printed instead of waiting.
    fn inputs(&self) -> Result<Vec<PathBuf>, Failure> {
        let files =
            if self.files.is_empty() { vec![PathBuf::from("-")] } else { self.files.clone() };
        let stdin = files.iter().filter(|file| file.as_os_str() == "-").count();
        if stdin > 1 {
            return Err(Failure::usage("stdin (-) can be read only once"));
        }
        if stdin == 1 && io::stdin().is_terminal() {
            return Err(Failure::nothing_to_read("ingest"));
        }
        Ok(files)
    }

    fn load_options(
        &self,
        profile: Option<Profile>,
        on_error: OnError,
        context: &Context,
    ) -> LoadOptions {
        let (end_input, cancelled) = match self.commits_by_time() {
            true => (signals::cancellation(), Arc::default()),
            false => (Arc::default(), signals::cancellation()),
        };
        let ColumnTypes { types, epochs } = self.schema.clone().unwrap_or_default();
        let csv = CsvOptions {
            names: (!self.names.is_empty()).then(|| self.names.clone()),
            schema: types,
            epochs,
            ..self.csv.options()
        };
        let defaults = LoadOptions::default();
        let partition_by = self.partition_by.as_ref().map(|Expressions(all)| all.clone());
        let sort_by = self.sort_by.as_ref().map(|SortList(keys)| keys.clone());
        LoadOptions {
            csv,
            partition_columns: !self.no_partition_columns,
            filename_column: self.filename_column.clone(),
            skip_unsupported: self.skip_unsupported,
            flatten: self.flatten,
            from_rejects: self.errors.from_rejects,
            on_error,
            max_errors: self.errors.max_errors,
            if_loaded: self.if_loaded.into(),
            commit_every: self.commit_every,
            arrange: Arrange {
                partition_by: partition_by.unwrap_or_default(),
                sort_by: sort_by.unwrap_or_default(),
                compile: Some(Arc::new(SqlExpressions::stopped_by(signals::cancellation()))),
                table: None,
            },
            profile,
            threads: context.threads.unwrap_or(defaults.threads),
            memory_limit: context.memory_limit,
            end_input,
            cancelled,
            ..defaults
        }
    }
}
