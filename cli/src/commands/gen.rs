//! `sty gen`: test data at any size, from the project's own generator.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use stylobate::error::{Error, Result};

use crate::r#gen::files::{self, Format};
use crate::r#gen::trips::Generator;
use crate::units::show_counted;

/// Make test data of any size.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    data: Data,
}

#[derive(Debug, clap::Subcommand)]
enum Data {
    /// Taxi trips in 51 columns, as in the public billion-ride benchmark.
    Trips(Trips),
}

#[derive(Debug, clap::Args)]
struct Trips {
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

/// Runs `sty gen`.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.data {
        Data::Trips(trips) => run_trips(trips),
    }
}

fn run_trips(args: &Trips) -> Result<()> {
    let started = Instant::now();
    let generator = Generator::new(args.seed, args.rows, args.files);
    if args.output == Path::new("-") {
        if args.format != Format::Csv {
            return Err(Error::InvalidInput(String::from(
                "only --format csv can be written to stdout",
            )));
        }
        let mut out = std::io::stdout().lock();
        let written =
            files::write_stream(&generator, args.header, &mut out).and_then(|()| out.flush());
        return match written {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| Error::io("<stdout>", error)),
        };
    }
    let (paths, bytes) = files::write(&generator, args.format, args.header, &args.output)?;
    let seconds = started.elapsed().as_secs_f64();
    eprintln!(
        "{} in {}, {bytes} bytes, in {seconds:.2} s ({:.0} rows/s)",
        show_counted(args.rows, "row"),
        show_counted(paths.len() as u64, "file"),
        args.rows as f64 / seconds
    );
    Ok(())
}
