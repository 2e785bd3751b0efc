//! Options that say how CSV and TSV are read. Some of them also apply to JSON.

use clap::{Args, ValueEnum};
use stylobate::internal::ingest::csv::INFER_ROWS;
use stylobate::{CsvOptions, DateOrder, NumberFormat};

use super::text::{parse_byte, parse_escape, parse_quote};

/// How CSV input is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "CSV and TSV")]
pub(crate) struct CsvArgs {
    /// The first row has the column names [default: detected]
    #[arg(long, overrides_with = "no_header")]
    header: bool,
    /// The first row is data
    #[arg(long, overrides_with = "header")]
    no_header: bool,
    /// Character between fields; `tab` or '\t' for a tab [default: a tab for .tsv, else a comma, or
    /// the ; tab or | of the first rows where they have no comma]
    #[arg(long, value_name = "CHAR", value_parser = parse_byte)]
    delimiter: Option<u8>,
    /// Character around fields; `none` if quotes are text
    #[arg(long, value_name = "CHAR", value_parser = parse_quote, default_value = "\"")]
    quote: u8,
    /// Lines before the first row that are passed over
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Text that means null, in all columns; may be repeated [default: the empty field, and NA,
    /// N/A, null, None, nan, -, ?, \N where all other values of a column are numbers, dates, times
    /// or booleans]
    #[arg(long, value_name = "TEXT", env = "STY_NULL", hide_env = true)]
    null: Vec<String>,
    /// Lines that start with this character are no rows
    #[arg(long, value_name = "CHAR", value_parser = parse_byte)]
    comment: Option<u8>,
    /// Character that makes a quote in a quoted field text; `none` for none [default: \ where the
    /// first rows make no sense without]
    #[arg(long, value_name = "CHAR", value_parser = parse_escape)]
    escape: Option<u8>,
    /// Leave out blanks before fields [default: if the first rows have quotes after blanks]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    skip_initial_space: Option<bool>,
    /// The decimal point
    #[arg(long, value_name = "CHAR", value_parser = parse_byte, default_value = ".",
          visible_alias = "decimal-separator", env = "STY_DECIMAL", hide_env = true)]
    decimal: u8,
    /// Character between the thousands of numbers
    #[arg(long, value_name = "CHAR", value_parser = parse_byte)]
    #[arg(env = "STY_THOUSANDS", hide_env = true)]
    thousands: Option<u8>,
    /// Whether 01/02/2020 is 1 February (dmy) or 2 January (mdy) [default: what the other dates of
    /// the column leave; else the column is text]
    #[arg(long, value_enum, value_name = "ORDER", env = "STY_DATE_ORDER", hide_env = true)]
    date_order: Option<DateOrderArg>,
    /// Rows that types are inferred from; of JSON too
    #[arg(long, value_name = "N", default_value_t = INFER_ROWS)]
    #[arg(env = "STY_INFER_ROWS", hide_env = true)]
    infer_rows: usize,
}

/// `--date-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DateOrderArg {
    /// The day comes first
    Dmy,
    /// The month comes first
    Mdy,
}

impl From<DateOrderArg> for DateOrder {
    fn from(arg: DateOrderArg) -> Self {
        match arg {
            DateOrderArg::Dmy => DateOrder::DayFirst,
            DateOrderArg::Mdy => DateOrder::MonthFirst,
        }
    }
}

impl CsvArgs {
    /// Whether the first row has the names, or `None` if neither option is given.
    fn has_header(&self) -> Option<bool> {
        match (self.header, self.no_header) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// The options that these say.
    pub(crate) fn options(&self) -> CsvOptions {
        CsvOptions {
            delimiter: self.delimiter,
            quote: self.quote,
            skip_lines: self.skip,
            header: self.has_header(),
            nulls: self.null.clone(),
            comment: self.comment,
            escape: self.escape,
            skip_initial_space: self.skip_initial_space,
            numbers: NumberFormat { decimal: self.decimal, thousands: self.thousands },
            date_order: self.date_order.map(DateOrder::from),
            infer_rows: self.infer_rows,
            ..CsvOptions::default()
        }
    }
}
