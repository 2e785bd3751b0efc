//! `sty bench`: how long statements take when they run repeatedly in one process, and how much
//! memory they need.
//!
//! A run goes from the text of a statement to its complete answer in Arrow: the statement is parsed
//! and planned again, and all batches are held until the last one is there. [`PeakSampler`] watches
//! the memory in the runs that are not timed. [`answer_hash`] condenses the answer to a number that
//! can be compared between runs.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use clap::{Args, ValueEnum};
use serde_json::json;
use stylobate::{Parameters, Session, SessionOptions};

use crate::args::permissions::PermissionArgs;
use crate::args::resources::IoArg;
use crate::args::statements::StatementArgs;
use crate::context::Context;
use crate::errors::Failure;
use crate::memory::{PeakSampler, anonymous_bytes};
use crate::output::Output;
use crate::printers::{Format, answer_hash};
use crate::units::show_size;
use crate::watch::QueryWatch;

/// Time statements over the tables of a store
///
/// Each statement runs --warm-up times untimed and then --runs times, all in one process. A run is
/// timed from the statement's text to the complete answer in Arrow. Every run parses and plans the
/// statement again; only open files and the system's cache of them are kept between runs:
/// sty.known_rows is off.
/// Statements that are not queries, such as SET and CREATE VIEW, run once, untimed, where they
/// stand. The text that is timed, and shown, is the statement as parsed and written out again.
///
/// Memory is the peak of anonymous resident memory (RssAnon of /proc/self/status: the heap, without
/// the pages of mapped files) beyond what the process held before the first statement. A thread
/// samples it every half millisecond of the warm-up runs, so that the timed ones have the cores to
/// themselves; with --warm-up 0, of the timed ones. Memory that an earlier statement left in the
/// allocator counts: bench one statement to know what it needs alone. Measured on Linux only.
///
/// The hash of the answer does not depend on the order of its rows nor on the names of its columns.
/// Floats count with ten significant digits, so that sums in another order agree.
///
/// Examples:
///   sty bench db 'SELECT count(*) FROM trips'
///   sty bench db -f queries.sql --runs 10 --threads 2 --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    statements: StatementArgs,
    /// Timed runs of each statement
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Runs of each statement before those
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: u32,
    #[command(flatten)]
    io: IoArg,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// Format of the report [default: table on a terminal, else json]
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
}

/// The formats of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For people.
    Table,
    /// `{"statements": [{"sql", "runs", "min_ms", "median_ms", "p90_ms", "rows", "answer_hash",
    /// "peak_memory_bytes"}]}`.
    Json,
}

/// The measurements of one statement.
#[derive(Debug)]
struct Measured {
    sql: String,
    /// The times of the timed runs, in ascending order.
    milliseconds: Vec<f64>,
    rows: u64,
    hash: u64,
    peak_memory: Option<u64>,
}

/// Runs `sty bench`.
pub(crate) fn run(args: &BenchArgs, context: &Context) -> Result<(), Failure> {
    let asked = args.statements.read("bench", context)?;
    let options = SessionOptions {
        threads: context.threads,
        memory_limit: context.memory_limit,
        io: Some(args.io.io()),
        read_only: args.permissions.read_only,
        no_files: args.permissions.no_files,
        ..SessionOptions::default()
    };
    let session = asked.session(&options, context)?;
    let statements = session.parse(&asked.sql).map_err(|error| asked.not_parsed(error))?;
    let watch = QueryWatch::start(&session, context);
    let bench = Bench { session, watch, memory_before: anonymous_bytes() };
    // A run is to be like the first one, but for files that are open.
    bench.run_once("SET sty.known_rows = off")?;
    let mut measured = Vec::new();
    for (number, statement) in (1..).zip(&statements) {
        let sql = statement.to_string();
        let one = if is_query(&sql) {
            bench.measure(sql, args).map(Some)
        } else {
            bench.run_once(&sql).map(|_| None)
        };
        let one = one.map_err(|mut failure| {
            failure.message = format!("statement {number}: {}", failure.message).into();
            failure
        })?;
        measured.extend(one);
    }
    report(&measured, args.format, context)
}

/// Whether a statement only reads, and can therefore run repeatedly. Its text starts with a
/// keyword, since parsing has removed comments.
fn is_query(sql: &str) -> bool {
    const QUERIES: [&str; 8] =
        ["SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN", "SHOW", "DESCRIBE"];
    let word = sql.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    sql.starts_with('(') || QUERIES.iter().any(|query| word.eq_ignore_ascii_case(query))
}

/// Runs and measures statements.
struct Bench {
    session: Session,
    watch: QueryWatch,
    /// Anonymous memory before the first statement, in bytes.
    memory_before: Option<u64>,
}

impl Bench {
    /// Runs a statement from its text to its complete answer.
    fn run_once(&self, sql: &str) -> Result<Vec<RecordBatch>, Failure> {
        let no_parameters = Parameters::default();
        let mut batches = Vec::new();
        for statement in self.session.parse(sql)? {
            let stream = self
                .session
                .execute(&statement, &no_parameters)
                .map_err(|e| self.watch.failure(e))?;
            for batch in stream {
                self.watch.check()?;
                batches.push(batch.map_err(|e| self.watch.failure(e))?);
            }
        }
        Ok(batches)
    }

    fn measure(&self, sql: String, args: &BenchArgs) -> Result<Measured, Failure> {
        let sampler = PeakSampler::start();
        for _ in 0..args.warm_up {
            drop(self.run_once(&sql)?);
        }
        let mut sampler = Some(sampler);
        let mut peak_memory = None;
        if args.warm_up > 0 {
            peak_memory = sampler.take().and_then(PeakSampler::finish);
        }
        let mut milliseconds = Vec::new();
        let mut answer = Vec::new();
        for _ in 0..args.runs {
            drop(answer);
            let started = Instant::now();
            answer = self.run_once(&sql)?;
            milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
        }
        if let Some(sampler) = sampler {
            peak_memory = sampler.finish();
        }
        milliseconds.sort_by(f64::total_cmp);
        let rows = answer.iter().map(|batch| batch.num_rows() as u64).sum();
        let peak_memory =
            peak_memory.zip(self.memory_before).map(|(peak, before)| peak.saturating_sub(before));
        Ok(Measured { sql, milliseconds, rows, hash: answer_hash(&answer)?, peak_memory })
    }
}

impl Measured {
    fn min(&self) -> f64 {
        self.milliseconds.first().copied().unwrap_or_default()
    }

    /// The middle time, or the mean of the two in the middle.
    fn median(&self) -> f64 {
        let at = |index: usize| self.milliseconds.get(index).copied().unwrap_or_default();
        let count = self.milliseconds.len();
        f64::midpoint(at(count.saturating_sub(1) / 2), at(count / 2))
    }

    /// The shortest time that nine tenths of the runs do not exceed.
    fn p90(&self) -> f64 {
        let rank = (self.milliseconds.len() * 9).div_ceil(10);
        self.milliseconds.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Rounds to the microsecond, since more digits are noise.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

fn report(
    measured: &[Measured],
    format: Option<ReportFormat>,
    context: &Context,
) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut output = Output::open(None, false)?;
    let default = || if output.is_terminal() { ReportFormat::Table } else { ReportFormat::Json };
    if format.unwrap_or_else(default) == ReportFormat::Table {
        return context.print_batch(&table(measured)?, Some(Format::Table));
    }
    let statement = |one: &Measured| {
        json!({
            "sql": one.sql,
            "runs": one.milliseconds.len(),
            "min_ms": rounded(one.min()),
            "median_ms": rounded(one.median()),
            "p90_ms": rounded(one.p90()),
            "rows": one.rows,
            "answer_hash": format!("{:016x}", one.hash),
            "peak_memory_bytes": one.peak_memory,
        })
    };
    let report = json!({ "statements": measured.iter().map(statement).collect::<Vec<_>>() });
    writeln!(output, "{report:#}").map_err(|error| output.failure(&error))?;
    output.commit()
}

fn table(measured: &[Measured]) -> Result<RecordBatch, Failure> {
    let times = |time: fn(&Measured) -> f64| -> ArrayRef {
        Arc::new(measured.iter().map(|one| Some(rounded(time(one)))).collect::<Float64Array>())
    };
    let texts = |text: fn(&Measured) -> Option<String>| -> ArrayRef {
        Arc::new(measured.iter().map(text).collect::<StringArray>())
    };
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("min ms", times(Measured::min), false),
        ("median ms", times(Measured::median), false),
        ("p90 ms", times(Measured::p90), false),
        (
            "rows",
            Arc::new(measured.iter().map(|one| Some(one.rows)).collect::<UInt64Array>())
                as ArrayRef,
            false,
        ),
        ("answer", texts(|one| Some(format!("{:016x}", one.hash))), false),
        ("peak memory", texts(|one| one.peak_memory.map(show_size)), true),
        ("statement", texts(|one| Some(one.sql.clone())), false),
    ])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(milliseconds: &[f64]) -> Measured {
        let milliseconds = milliseconds.to_vec();
        Measured { sql: String::new(), milliseconds, rows: 0, hash: 0, peak_memory: None }
    }

    #[test]
    fn times_of_few_and_many_runs() {
        let figures = |one: &Measured| (one.min(), one.median(), one.p90());
        assert_eq!(figures(&measured(&[7.0])), (7.0, 7.0, 7.0));
        assert_eq!(figures(&measured(&[1.0, 2.0])), (1.0, 1.5, 2.0));
        assert_eq!(figures(&measured(&[1.0, 2.0, 4.0])), (1.0, 2.0, 4.0));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(figures(&measured(&ten)), (1.0, 5.5, 9.0));
    }

    #[test]
    fn only_what_reads_runs_more_than_once() {
        for sql in [
            "SELECT 1",
            "with a as (select 1) select * from a",
            "(SELECT 1) UNION (SELECT 2)",
            "FROM t",
        ] {
            assert!(is_query(sql), "{sql}");
        }
        for sql in [
            "SET sty.native = off",
            "CREATE VIEW v AS SELECT 1",
            "INSERT INTO t SELECT 1",
            "COPY t TO 'f'",
        ] {
            assert!(!is_query(sql), "{sql}");
        }
    }
}
