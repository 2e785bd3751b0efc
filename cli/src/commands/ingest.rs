//! `sty ingest`: rows in.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use std::sync::atomic::Ordering;

use clap::{Args, ValueEnum};
use stylobate::encoding::Profile;
use stylobate::ingest::arrange::Arrange;
use stylobate::ingest::load::{LoadOptions, load, rejected_before};
use stylobate::ingest::rejects::OnError;
use stylobate::ingest::resume::{CommitEvery, IfLoaded};
use stylobate::ingest::sources::csv::INFER_ROWS;
use stylobate::ingest::sources::{CsvOptions, Input, TextEncoding, expand};
use stylobate::model::{DataType, Schema};
use stylobate::sql::SqlExpressions;
use stylobate::store::{Store, TableOptions};

use super::arrange_args::{Expressions, SortList, parse_expressions, parse_sort};
use super::ingest_report::{print_json, tell};
use super::paths::TablePath;
use crate::args::missing_input;
use crate::context::Context;
use crate::errors::Failure;
use crate::output::exists;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::When;
use crate::units::parse_size;

/// Add rows to a table, which is created if it does not exist
///
/// Reads CSV, TSV, JSON (lines, arrays, objects one after the other), Arrow IPC and Parquet, plain
/// or compressed (.gz, .zst, .bz2, .lz4), from files, patterns, directories, pipes and stdin.
/// Compression and format are told by the first bytes, CSV from JSON also by the name. Types are
/// inferred from the first rows and widened when later rows need it; columns are matched by name.
/// Directories called key=value become columns. Either all rows are added or none. A summary goes
/// to stderr: rows, bytes in, bytes stored, ratio, seconds.
///
/// A file that was loaded before is refused, unless --if-loaded says otherwise: the table keeps a
/// ledger of what was loaded. With --commit-every, a long load commits on its way, and the same
/// command goes on after a crash.
///
/// A row that cannot be stored ends the ingest, unless such rows are to be left out: --on-error
/// skip counts them, --rejects FILE keeps them too, and rows read = rows stored + rows rejected. A
/// value that only makes its column's type wider is no error. A stray quote costs its line: reading
/// goes on with the next one.
///
/// Examples:
///   sty ingest db/trips trips-*.csv.gz zcat trips.csv.gz | sty ingest db/trips - sty ingest
///   db/trips --no-header --names id,time,fare --schema fare:decimal(9,2) trips.csv sty ingest
///   db/trips trips.csv --rejects bad.csv --max-errors 1000 sty ingest db/trips 'trips-*.csv.gz'
///   --partition-by 'year(pickup) AS year' --sort-by 'vendor, pickup' sty ingest db/flights
///   flights.parquet curl -s https://example.org/events.jsonl.zst | sty ingest db/events sty ingest
///   db/sales --filename-column file sales/        # sales/year=2015/month=1/x.parquet, …
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct IngestArgs {
    /// The table: a directory in the store's directory
    #[arg(value_name = "STORE/TABLE")]
    pub(crate) table: TablePath,
    /// Files, patterns such as 'trips-*.csv.gz', or - for stdin [default: stdin]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Types of columns that are not to be inferred
    #[arg(long, value_name = "NAME:TYPE,…", value_parser = parse_schema)]
    pub(crate) schema: Option<Types>,
    /// Names of the columns, in order
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) csv: CsvArgs,
    #[command(flatten)]
    pub(crate) errors: ErrorArgs,
    /// Spread the rows of a new table over directories, by SQL over its columns: year(pickup),
    /// vendor_id, expr AS name
    #[arg(long, value_name = "EXPR,…", value_parser = parse_expressions)]
    pub(crate) partition_by: Option<Expressions>,
    /// Sort the rows of each segment of a new table; `sty compact` sorts it as a whole
    #[arg(long, value_name = "COLUMN [DESC],…", value_parser = parse_sort)]
    pub(crate) sort_by: Option<SortList>,
    /// What becomes of files that were loaded before, by path, size and time, or by their bytes
    #[arg(long, value_enum, value_name = "ACTION", default_value_t)]
    pub(crate) if_loaded: IfLoadedArg,
    /// Commit every so many rows (1000000) or bytes of input (10GiB), not only at the end: after a
    /// crash, the same command goes on where the last commit ended
    #[arg(long, value_name = "ROWS|SIZE", value_parser = parse_commit_every)]
    pub(crate) commit_every: Option<CommitEvery>,
    /// Whether time or space matters more [default: the table's; balanced for a new one]
    #[arg(long, value_enum, env = "STY_PROFILE", hide_env = true)]
    pub(crate) profile: Option<ProfileArg>,
    /// How text is written, unless a byte-order mark tells: utf-8, latin1, windows-1252, utf-16le,
    /// shift_jis, …
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    pub(crate) encoding: Option<TextEncoding>,
    /// Add a column of this name that has the path of the file a row comes from
    #[arg(long, value_name = "NAME")]
    pub(crate) filename_column: Option<String>,
    /// Make no columns of directories called key=value
    #[arg(long)]
    pub(crate) no_partition_columns: bool,
    /// Leave out columns of types that cannot be stored (lists, structs, maps)
    #[arg(long)]
    pub(crate) skip_unsupported: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads, env = "STY_THREADS", hide_env = true)]
    pub(crate) threads: Option<usize>,
    /// Memory to use at most, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, env = "STY_MEMORY_LIMIT", hide_env = true)]
    pub(crate) memory_limit: Option<u64>,
    /// A progress bar on stderr; `auto` shows it on a terminal
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) progress: When,
    /// Print what was done to stdout, as one object: rows, bytes, segments, and the same of each
    /// input
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) report: Option<ReportFormat>,
}

/// How CSV input is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "CSV and TSV")]
pub(crate) struct CsvArgs {
    /// The first row has the column names [default: found out]
    #[arg(long, overrides_with = "no_header")]
    header: bool,
    /// The first row is data
    #[arg(long, overrides_with = "header")]
    no_header: bool,
    /// Character between fields; `tab` or '\t' for a tab [default: a tab for .tsv, else a comma, or
    /// the ; tab or | of the first rows where they have no comma]
    #[arg(long, value_name = "CHAR", value_parser = parse_byte)]
    pub(crate) delimiter: Option<u8>,
    /// Character around fields
    #[arg(long, value_name = "CHAR", value_parser = parse_byte, default_value = "\"")]
    pub(crate) quote: u8,
    /// Text that means null; may be repeated [default: the empty field]
    #[arg(long, value_name = "TEXT")]
    pub(crate) null: Vec<String>,
    /// Rows that types are inferred from; of JSON too
    #[arg(long, value_name = "N", default_value_t = INFER_ROWS)]
    pub(crate) infer_rows: usize,
}

/// What becomes of rows that cannot be stored.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows that cannot be stored")]
pub(crate) struct ErrorArgs {
    /// What becomes of them [default: fail; reject with --rejects]
    #[arg(long, value_enum, value_name = "ACTION")]
    on_error: Option<OnErrorArg>,
    /// Write them to this CSV file: file, line, column, reason, raw. It appears when the ingest has
    /// committed, and only if there are any. A load that goes on after a stop adds to the file of
    /// its earlier part
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
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

/// `--report`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One object in one line
    Json,
}

impl ErrorArgs {
    /// What the options ask for together.
    fn on_error(&self) -> Result<OnError, Failure> {
        let on_error = match (self.on_error, &self.rejects) {
            (None | Some(OnErrorArg::Reject), Some(file)) => self.to_file(file)?,
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

    fn to_file(&self, file: &Path) -> Result<OnError, Failure> {
        if file.as_os_str() == "-" {
            return Err(Failure::usage(
                "--rejects needs the name of a file: stdout is not for rows that are left out",
            ));
        }
        Ok(OnError::Reject { file: file.to_path_buf(), replace: self.force })
    }
}

impl CsvArgs {
    /// Whether the first row has the names; `None` where the user did not say.
    pub(crate) fn has_header(&self) -> Option<bool> {
        match (self.header, self.no_header) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// `--if-loaded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfLoadedArg {
    /// They end the ingest before it begins
    #[default]
    Error,
    /// They are left out
    Skip,
    /// They are loaded once more
    Again,
}

impl From<IfLoadedArg> for IfLoaded {
    fn from(arg: IfLoadedArg) -> Self {
        match arg {
            IfLoadedArg::Error => IfLoaded::Error,
            IfLoadedArg::Skip => IfLoaded::Skip,
            IfLoadedArg::Again => IfLoaded::Again,
        }
    }
}

/// A plain number is rows, one with a unit bytes.
fn parse_commit_every(text: &str) -> Result<CommitEvery, String> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    match plain.parse::<u64>() {
        Ok(0) => Err("at least one row is needed".to_owned()),
        Ok(rows) => Ok(CommitEvery::Rows(rows)),
        Err(_) => parse_size(text).map(CommitEvery::Bytes),
    }
}

/// `--profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Fastest to read and write
    Fast,
    /// Small where it costs no query speed
    Balanced,
    /// Smallest
    Small,
}

/// What `--schema` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Types(pub(crate) Vec<(String, DataType)>);

impl IngestArgs {
    /// The inputs; `-` alone for stdin. If that is a terminal, help is printed instead of waiting.
    pub(crate) fn inputs(&self) -> Result<Vec<PathBuf>, Failure> {
        let files =
            if self.files.is_empty() { vec![PathBuf::from("-")] } else { self.files.clone() };
        let stdin = files.iter().filter(|file| file.as_os_str() == "-").count();
        if stdin > 1 {
            return Err(Failure::usage("stdin (-) can be read only once"));
        }
        if stdin == 1 && io::stdin().is_terminal() {
            return Err(missing_input("ingest"));
        }
        Ok(files)
    }
}

/// Runs `sty ingest`.
pub(crate) fn run(args: &IngestArgs, context: &Context) -> Result<(), Failure> {
    let on_error = args.errors.on_error()?;
    let names: Vec<String> =
        args.inputs()?.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let mut inputs = expand(&names)?;
    if let Some(encoding) = args.encoding {
        inputs = inputs.into_iter().map(|input| input.encoded(encoding)).collect();
    }
    let table = Store::open(&args.table.store).table(&args.table.table)?;
    let profile = args.profile.map(Profile::from);
    let options = TableOptions { profile: profile.unwrap_or_default(), ..TableOptions::default() };
    if let OnError::Reject { file, replace: false } = &on_error
        && file.is_file()
        && table.generation()?.is_none()
    {
        // Nothing was loaded before that could go on.
        return Err(exists(file));
    }
    let writer = table.writer(Some((Schema::default(), options)))?;
    if let OnError::Reject { file, replace: false } = &on_error
        && file.is_file()
        && rejected_before(&writer, &inputs, args.if_loaded.into())? == 0
    {
        return Err(exists(file));
    }

    let consumed: Vec<_> = inputs.iter().map(Input::consumed).collect();
    let total: Option<u64> = inputs.iter().map(Input::size).sum();
    let progress = Progress::new(args.progress, context.quiet, total);
    let options = args.load_options(profile, on_error);
    let read = || consumed.iter().map(|c| c.load(Ordering::Relaxed)).sum();
    let report = progress.watch(read, || load(writer, inputs, &options))?;
    tell(&report, args.errors.rejects.as_deref(), context);
    match args.report {
        Some(ReportFormat::Json) => print_json(&args.table.table, &report),
        None => Ok(()),
    }
}

impl IngestArgs {
    fn load_options(&self, profile: Option<Profile>, on_error: OnError) -> LoadOptions {
        let csv = CsvOptions {
            delimiter: self.csv.delimiter,
            quote: self.csv.quote,
            header: self.csv.has_header(),
            nulls: self.csv.null.clone(),
            names: (!self.names.is_empty()).then(|| self.names.clone()),
            schema: self.schema.as_ref().map(|Types(types)| types.clone()).unwrap_or_default(),
            infer_rows: self.csv.infer_rows,
            ..CsvOptions::default()
        };
        let defaults = default_load_options(csv);
        LoadOptions {
            partition_columns: !self.no_partition_columns,
            filename_column: self.filename_column.clone(),
            skip_unsupported: self.skip_unsupported,
            on_error,
            max_errors: self.errors.max_errors,
            if_loaded: self.if_loaded.into(),
            commit_every: self.commit_every,
            arrange: Arrange {
                partition_by: self
                    .partition_by
                    .as_ref()
                    .map(|Expressions(all)| all.clone())
                    .unwrap_or_default(),
                sort_by: self
                    .sort_by
                    .as_ref()
                    .map(|SortList(keys)| keys.clone())
                    .unwrap_or_default(),
                compile: Some(Arc::new(SqlExpressions::default())),
                table: None,
            },
            profile,
            threads: self.threads.unwrap_or(defaults.threads),
            memory_limit: self.memory_limit,
            ..defaults
        }
    }
}

/// All cores, no limit, the table's profile; stopped by Ctrl-C.
pub(crate) fn default_load_options(csv: CsvOptions) -> LoadOptions {
    LoadOptions { csv, cancelled: signals::cancellation(), ..LoadOptions::default() }
}

impl From<ProfileArg> for Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Fast => Profile::Fast,
            ProfileArg::Balanced => Profile::Balanced,
            ProfileArg::Small => Profile::Small,
        }
    }
}

/// Splits `name:type,…`; commas inside parentheses belong to the type, and the name ends at the
/// last colon before the type's parentheses.
pub(crate) fn parse_schema(text: &str) -> Result<Types, String> {
    let mut types = Vec::new();
    for part in split_outside_parentheses(text) {
        let open = part.find('(').unwrap_or(part.len());
        let colon = part.get(..open).and_then(|head| head.rfind(':'));
        let (name, data_type) = colon
            .and_then(|at| Some((part.get(..at)?.trim(), part.get(at + 1..)?)))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| format!("'{part}' is not NAME:TYPE, as in fare:decimal(9,2)"))?;
        if types.iter().any(|(known, _)| known == name) {
            return Err(format!("column '{name}' is named twice"));
        }
        types.push((
            name.to_owned(),
            data_type.parse::<DataType>().map_err(|error| error.to_string())?,
        ));
    }
    Ok(Types(types))
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let at_commas = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(at_commas).map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn parse_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text.eq_ignore_ascii_case("tab") || text == "\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err("one ASCII character is needed; `tab` for a tab".to_owned()),
    }
}

/// An encoding by any of its names.
fn parse_encoding(text: &str) -> Result<TextEncoding, String> {
    text.parse().map_err(|error: stylobate::Error| error.to_string())
}

/// A number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("a number from 1 to 1024 is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas() {
        let shown = |text: &str| {
            let Types(types) = parse_schema(text).unwrap();
            types.iter().map(|(name, data_type)| format!("{name}={data_type}")).collect::<Vec<_>>()
        };
        assert_eq!(shown("id:int64, fare:decimal(9,2)"), ["id=int64", "fare=decimal(9,2)"]);
        assert_eq!(
            shown("a:b:utf8,t:timestamp(us,+02:00),"),
            ["a:b=utf8", "t=timestamp(us,+02:00)"]
        );
        for bad in ["id", ":int64", "id:int7", "a:utf8,a:utf8"] {
            assert!(parse_schema(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn commits_by_rows_or_bytes() {
        assert_eq!(parse_commit_every("1_000_000"), Ok(CommitEvery::Rows(1_000_000)));
        assert_eq!(parse_commit_every("2GiB"), Ok(CommitEvery::Bytes(2 << 30)));
        assert!(parse_commit_every("0").is_err() && parse_commit_every("often").is_err());
    }

    #[test]
    fn delimiters() {
        assert_eq!(parse_byte("tab"), Ok(b'\t'));
        assert_eq!(parse_byte("\\t"), Ok(b'\t'));
        assert_eq!(parse_byte("|"), Ok(b'|'));
        for bad in ["", "ab", "é", "\n"] {
            assert!(parse_byte(bad).is_err(), "{bad}");
        }
    }
}
