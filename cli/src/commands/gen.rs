//! `sty gen`: makes test data of any size.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use stylobate::Error;
use stylobate::internal::store::check_outside_tables;
use stylobate_gen::Generator;

use crate::context::Context;
use crate::errors::{Failure, IoResult};
use crate::signals;
use crate::units::show_counted;
use crate::watch;

/// Make test data of any size
///
/// Examples:
///   sty gen trips --rows 1000000 -o taxi --format csv.gz
///   sty gen trips --rows 10000 --header -o - | sty ingest db/trips
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, disable_help_subcommand = true)]
pub(crate) struct GenArgs {
    #[command(subcommand)]
    data: Data,
}

#[derive(Debug, Subcommand)]
enum Data {
    /// Taxi trips in 51 columns, as in the public billion-ride benchmark
    ///
    /// Examples:
    ///   sty gen trips --rows 1000000 -o taxi --format csv.gz
    #[command(verbatim_doc_comment)]
    Trips(TripsArgs),
}

#[derive(Debug, Args)]
struct TripsArgs {
    /// Rows in all.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Files to spread them over, each a contiguous range of time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=9_999))]
    files: u64,
    /// How they are written.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Another seed gives other trips; the same seed the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Begin each CSV file with the names of the columns.
    #[arg(long)]
    header: bool,
    /// Directory to write into, or - for CSV on stdout.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text.
    Csv,
    /// Text, gzip.
    #[value(name = "csv.gz")]
    CsvGz,
    /// Parquet with zstd.
    Parquet,
}

impl From<Format> for stylobate_gen::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Csv => stylobate_gen::Format::Csv,
            Format::CsvGz => stylobate_gen::Format::CsvGz,
            Format::Parquet => stylobate_gen::Format::Parquet,
        }
    }
}

/// Runs `sty gen`.
pub(crate) fn run(args: &GenArgs, context: &Context) -> Result<(), Failure> {
    match &args.data {
        Data::Trips(trips) => run_trips(trips, context),
    }
}

fn run_trips(args: &TripsArgs, context: &Context) -> Result<(), Failure> {
    let started = Instant::now();
    context.start_threads()?;
    let generator = Generator::new(args.seed, args.rows, args.files);
    if args.output == Path::new("-") {
        if args.format != Format::Csv {
            let message = "only --format csv can be written to stdout".to_owned();
            return Err(Error::InvalidInput(message).into());
        }
        let mut out = std::io::stdout().lock();
        let written = stylobate_gen::write_stream(&generator, args.header, &mut out)
            .and_then(|()| out.flush());
        return match written {
            // The reader has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.with_path("<stdout>"),
        };
    }
    check_outside_tables(&args.output)?;
    let cancelled = signals::cancellation();
    let (paths, bytes) = stylobate_gen::write(
        &generator,
        args.format.into(),
        args.header,
        &args.output,
        watch::remove_directory_at_end,
        &cancelled,
    )?;
    let seconds = started.elapsed().as_secs_f64();
    context.note(&format!(
        "{} in {}, {bytes} bytes, in {seconds:.2} s ({:.0} rows/s)",
        show_counted(args.rows, "row"),
        show_counted(paths.len() as u64, "file"),
        args.rows as f64 / seconds
    ));
    Ok(())
}
