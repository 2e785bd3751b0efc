//! `sty query`: rows out.

use std::io::{self, IsTerminal, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use super::ingest::parse_threads;
use crate::args::missing_input;
use crate::errors::Failure;
use crate::printers::Format;
use crate::units::parse_size;

/// Run SQL over the tables of a store
///
/// All of DataFusion's SQL. Other files are tables by name: FROM 'x.parquet', FROM 'x.csv'. Several statements are
/// separated by `;` and run in order up to the first error. Without -o, results go to stdout: as a table on a
/// terminal, as CSV otherwise.
///
/// Numbers are printed so that they read back as the same values: integers and decimals exactly, also in JSON beyond
/// 2^53; floats as the shortest text that is the same value; NaN, inf and -inf ("NaN", "Infinity" and "-Infinity" in
/// JSON). In CSV an empty field is null and "" is the empty text.
///
/// Examples:
///   sty query db 'SELECT count(*) FROM trips'
///   sty query db 'SELECT * FROM trips WHERE fare > $limit' -p limit=100 -o dear.parquet
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
    pub(crate) params: Vec<Parameter>,
    /// Say on stderr how long each statement took
    #[arg(long)]
    pub(crate) timer: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads, env = "STY_THREADS", hide_env = true)]
    pub(crate) threads: Option<usize>,
    /// Memory to use at most, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, env = "STY_MEMORY_LIMIT", hide_env = true)]
    pub(crate) memory_limit: Option<u64>,
}

impl QueryArgs {
    /// The text of the statements, wherever it comes from. A terminal as stdin gets help instead of silence.
    pub(crate) fn statements(&self) -> Result<String, Failure> {
        match (self.sql.as_deref(), self.file.as_deref()) {
            (Some(sql), _) if sql != "-" => Ok(sql.to_owned()),
            (_, Some(file)) if file.as_os_str() != "-" => {
                std::fs::read_to_string(file).map_err(|error| Failure::io(file, &error))
            }
            _ if io::stdin().is_terminal() => Err(missing_input("query")),
            _ => {
                let mut text = String::new();
                let read = io::stdin().lock().read_to_string(&mut text);
                read.map_err(|error| Failure::io(Path::new("stdin"), &error))?;
                Ok(text)
            }
        }
    }
}

/// A named value of `-p`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    /// The name, without `$`.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: ParameterValue,
}

/// A value, typed by its look as a literal in SQL would be; `'quotes'` make anything a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParameterValue {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// Digits.
    Int(i64),
    /// Digits with a point or an exponent.
    Float(f64),
    /// Anything else.
    Text(String),
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        let name = name.trim().trim_start_matches('$');
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return Err(format!("'{name}' is no name of a parameter; letters, digits and _ are"));
        }
        Ok(Parameter { name: name.to_owned(), value: ParameterValue::of(value) })
    }
}

impl ParameterValue {
    fn of(text: &str) -> Self {
        if let Some(inner) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            return ParameterValue::Text(inner.replace("''", "'"));
        }
        match text.to_ascii_lowercase().as_str() {
            "null" => return ParameterValue::Null,
            "true" => return ParameterValue::Bool(true),
            "false" => return ParameterValue::Bool(false),
            _ => {}
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        // `007` is text, as in ingest, and so are `inf` and `nan`.
        let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
        if padded || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return ParameterValue::Text(text.to_owned());
        }
        if let Ok(value) = text.parse() {
            return ParameterValue::Int(value);
        }
        text.parse().map_or_else(|_| ParameterValue::Text(text.to_owned()), ParameterValue::Float)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_typed_by_their_look() {
        use ParameterValue::{Bool, Float, Int, Null, Text};
        for (text, value) in [
            ("5", Int(5)),
            ("-5", Int(-5)),
            ("0", Int(0)),
            ("0.5", Float(0.5)),
            ("1e3", Float(1000.0)),
            ("99999999999999999999", Float(1e20)),
            ("TRUE", Bool(true)),
            ("null", Null),
            ("007", Text("007".into())),
            ("'5'", Text("5".into())),
            ("'it''s'", Text("it's".into())),
            ("2015-07-01", Text("2015-07-01".into())),
            ("inf", Text("inf".into())),
            ("", Text(String::new())),
            ("a=b", Text("a=b".into())),
        ] {
            let parameter: Parameter = format!("$x={text}").parse().unwrap();
            assert_eq!(parameter, Parameter { name: "x".into(), value });
        }
        for bad in ["x", "=5", "a b=5"] {
            assert!(bad.parse::<Parameter>().is_err(), "{bad}");
        }
    }
}
