//! Calls such as `read_csv('x.csv', delimiter => ';')` as requests for files.
//!
//! Where this stands on the road of a query: `syntax::file_functions` has made the call the name of
//! a table. The options are those of `sty ingest`, also under their names in DuckDB.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::ingest::sources::{CsvOptions, Format, TextEncoding};
use crate::ingest::text::layout::DateOrder;
use crate::model::DataType;
use crate::sql::convert::suggestion;
use crate::sql::names::text::TextOptions;
use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::file_functions::is_call;
use crate::sql::syntax::folded;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Parquet,
    Arrow,
    Text,
    /// Compressed Parquet or Arrow, which only ingest can decompress.
    Compressed,
}

/// Files to read, and how.
pub(super) struct FileCall {
    /// The format of the files.
    pub(super) kind: Kind,
    /// Names and patterns; at least one.
    pub(super) names: Vec<String>,
    /// How to read text.
    pub(super) options: TextOptions,
}

/// The options of all calls, each with its other names; those of `read_csv` and `read_json`; and
/// those that hold for CSV alone.
const FILE_OPTIONS: [&[&str]; 2] =
    [&["partition_columns", "hive_partitioning"], &["filename_column", "filename"]];
const OPTIONS: [&[&str]; 5] = [
    &["types", "schema", "dtypes"],
    &["preferred_types"],
    &["columns"],
    &["infer_rows", "sample_size"],
    &["encoding"],
];
const CSV_OPTIONS: [&[&str]; 13] = [
    &["delimiter", "delim", "sep"],
    &["quote"],
    &["header"],
    &["skip"],
    &["null", "nulls", "nullstr"],
    &["empty_is_null"],
    &["names"],
    &["comment"],
    &["escape"],
    &["skip_initial_space"],
    &["decimal", "decimal_separator"],
    &["thousands"],
    &["date_order"],
];

impl FileCall {
    /// Reads a call out of the name of a table; `None` if the name is no call.
    pub(super) fn parse(name: &str) -> Result<Option<FileCall>> {
        if !is_call(name) {
            return Ok(None);
        }
        let dialect = StylobateDialect::new(name.len());
        let parsed = Parser::new(&dialect).try_with_sql(name).and_then(|mut p| p.parse_expr());
        let Ok(Expr::Function(function)) = parsed else {
            return Err(Error::InvalidInput(format!("{name}: the arguments cannot be read")));
        };
        let called = function.name.to_string();
        let mut call = FileCall::empty(&called);
        let arguments = match function.args {
            FunctionArguments::List(list) => list.args,
            _ => Vec::new(),
        };
        for argument in &arguments {
            match named(argument) {
                Some((option, value)) => call.set(&called, &option, value)?,
                None => match value_of(argument).and_then(texts) {
                    Some(names) if call.names.is_empty() => call.names = names,
                    _ => return Err(misplaced(&called, argument)),
                },
            }
        }
        if call.names.is_empty() {
            return Err(Error::InvalidInput(format!(
                "{called} needs the name of a file, as in {called}('data/*.csv'), or a list of \
                 them: {called}(['a.csv', 'b.csv'])"
            )));
        }
        Ok(Some(call))
    }

    fn empty(called: &str) -> FileCall {
        let (kind, format) = match called {
            "read_json" => (Kind::Text, Some(Format::Json)),
            "read_parquet" => (Kind::Parquet, None),
            "read_arrow" => (Kind::Arrow, None),
            _ => (Kind::Text, Some(Format::Csv)),
        };
        let options = TextOptions { format, ..TextOptions::default() };
        FileCall { kind, names: Vec::new(), options }
    }

    /// Sets an option.
    fn set(&mut self, called: &str, option: &str, value: &Expr) -> Result<()> {
        let csv = if self.options.format == Some(Format::Csv) { &CSV_OPTIONS[..] } else { &[] };
        let all = if self.kind == Kind::Text { &OPTIONS[..] } else { &[] };
        let mut known = csv.iter().chain(all).chain(&FILE_OPTIONS);
        let Some(name) = known.find(|names| names.contains(&option)).and_then(|all| all.first())
        else {
            return Err(unknown(called, option, csv, all));
        };
        let wrong = |needed: &str| {
            Error::InvalidInput(format!("{called}: {option} needs {needed}, not {value}"))
        };
        let to = &mut self.options.csv;
        match *name {
            "partition_columns" => {
                let with = boolean(value).ok_or_else(|| wrong("true or false"))?;
                self.options.without_path_columns = !with;
            }
            "filename_column" => {
                self.options.filename_column = match (boolean(value), text(value)) {
                    (Some(with), _) => with.then(|| "filename".to_owned()),
                    (None, Some(name)) => Some(name.to_owned()),
                    (None, None) => return Err(wrong("the name of a column, true or false")),
                }
            }
            "types" | "preferred_types" => {
                let types = types(value)
                    .ok_or_else(|| wrong("names with types, as in {'id': 'bigint'}"))?
                    .into_iter()
                    .map(|(name, text)| Ok((name, text.parse::<DataType>()?)))
                    .collect::<Result<_>>()?;
                *(if *name == "types" { &mut to.schema } else { &mut to.prior }) = types;
            }
            "columns" => {
                self.set(called, "types", value)?;
                let schema = &self.options.csv.schema;
                self.options.csv.names =
                    Some(schema.iter().map(|(name, _)| name.clone()).collect());
            }
            "infer_rows" => {
                to.infer_rows = match number(value) {
                    // DuckDB's way to say all rows.
                    Some(-1) => usize::MAX,
                    rows => rows
                        .and_then(|rows| usize::try_from(rows).ok())
                        .ok_or_else(|| wrong("a number of rows"))?,
                }
            }
            "encoding" => {
                let label = text(value).ok_or_else(|| wrong("the name of an encoding"))?;
                self.options.encoding = Some(label.parse::<TextEncoding>()?);
            }
            "delimiter" => {
                to.delimiter = Some(character(value).ok_or_else(|| wrong("one ASCII character"))?);
            }
            "quote" => {
                to.quote = match text(value) {
                    Some("" | "none") => CsvOptions::NO_QUOTE,
                    _ => character(value)
                        .ok_or_else(|| wrong("one ASCII character, or '' where quotes are text"))?,
                }
            }
            "header" => {
                to.header = Some(boolean(value).ok_or_else(|| wrong("true or false"))?);
            }
            "skip" => {
                to.skip_lines = number(value)
                    .and_then(|lines| u64::try_from(lines).ok())
                    .ok_or_else(|| wrong("a number of lines"))?;
            }
            "null" => {
                to.nulls = texts(value).ok_or_else(|| wrong("a text, or a list of texts"))?;
            }
            "empty_is_null" => {
                to.empty_is_null = boolean(value).ok_or_else(|| wrong("true or false"))?;
            }
            "comment" => {
                to.comment = Some(character(value).ok_or_else(|| wrong("one ASCII character"))?);
            }
            "escape" => {
                to.escape = Some(match text(value) {
                    Some("" | "none") => CsvOptions::NO_ESCAPE,
                    _ => character(value)
                        .ok_or_else(|| wrong("one ASCII character, or '' if there are none"))?,
                });
            }
            "skip_initial_space" => {
                let skip = boolean(value).ok_or_else(|| wrong("true or false"))?;
                to.skip_initial_space = Some(skip);
            }
            "decimal" => {
                to.numbers.decimal =
                    character(value).ok_or_else(|| wrong("one ASCII character"))?;
            }
            "thousands" => {
                to.numbers.thousands =
                    Some(character(value).ok_or_else(|| wrong("one ASCII character"))?);
            }
            "date_order" => {
                to.date_order = Some(match text(value) {
                    Some("dmy") => DateOrder::DayFirst,
                    Some("mdy") => DateOrder::MonthFirst,
                    _ => return Err(wrong("'dmy' or 'mdy'")),
                });
            }
            "names" => {
                to.names = Some(texts(value).ok_or_else(|| wrong("a list of names"))?);
            }
            _ => return Err(unknown(called, option, csv, all)),
        }
        Ok(())
    }
}

fn unknown(called: &str, option: &str, csv: &[&[&str]], all: &[&[&str]]) -> Error {
    let known = csv.iter().chain(all).chain(&FILE_OPTIONS);
    let known: Vec<&str> = known.filter_map(|names| names.first().copied()).collect();
    Error::InvalidInput(match suggestion(option, known.iter().copied()) {
        Some(near) => format!("{called} has no option {option}; did you mean {near}?"),
        None => format!("{called} has no option {option}; there are: {}", known.join(", ")),
    })
}

fn misplaced(called: &str, argument: &FunctionArg) -> Error {
    Error::InvalidInput(format!(
        "{called}: {argument} is neither the name of the file, which comes first, nor an option, \
         as in skip => 1"
    ))
}

/// Name and value of an option, which may be written `a => 1`, `a := 1` or `a = 1`.
fn named(argument: &FunctionArg) -> Option<(String, &Expr)> {
    use datafusion::sql::sqlparser::ast::BinaryOperator;
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Some((folded(name), value))
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        })) => match left.as_ref() {
            Expr::Identifier(name) => Some((folded(name), right)),
            _ => None,
        },
        _ => None,
    }
}

fn value_of(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    }
}

fn text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// One text, or a list of texts.
fn texts(value: &Expr) -> Option<Vec<String>> {
    match value {
        Expr::Array(list) => list.elem.iter().map(|item| text(item).map(str::to_owned)).collect(),
        value => Some(vec![text(value)?.to_owned()]),
    }
}

fn boolean(value: &Expr) -> Option<bool> {
    match value {
        Expr::Value(value) => match value.value {
            Value::Boolean(value) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

fn number(value: &Expr) -> Option<i64> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr)?.checked_neg(),
        _ => None,
    }
}

/// One ASCII character; `tab` and `\t` are the tab.
fn character(value: &Expr) -> Option<u8> {
    match text(value)? {
        "tab" | "\\t" => Some(b'\t'),
        text => match text.as_bytes() {
            [byte] => Some(*byte),
            _ => None,
        },
    }
}

/// Names and values of `{'a': 'int64', 'b': 'date'}`.
fn types(value: &Expr) -> Option<Vec<(String, &str)>> {
    let Expr::Dictionary(fields) = value else { return None };
    fields.iter().map(|field| Some((field.key.value.clone(), text(&field.value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(call: &str) -> Result<FileCall> {
        FileCall::parse(call).map(Option::unwrap)
    }

    #[test]
    fn options_under_their_names() {
        let call = parse(
            "read_csv(['a.csv', 'b.csv'], delim = ';', header => false, skip := 2, quote => '', \
             null => ['NA', '-'], types => {'id': 'bigint', 'it''s': 'decimal(9,2)'}, \
             encoding => 'latin1', sample_size => -1)",
        )
        .unwrap();
        assert_eq!(call.names, ["a.csv", "b.csv"]);
        let csv = &call.options.csv;
        assert_eq!(
            (csv.delimiter, csv.header, csv.skip_lines, csv.quote),
            (Some(b';'), Some(false), 2, CsvOptions::NO_QUOTE)
        );
        assert_eq!(csv.nulls, ["NA", "-"]);
        let decimal = DataType::Decimal { precision: 9, scale: 2 };
        let types = [("id".to_owned(), DataType::Int64), ("it's".to_owned(), decimal)];
        assert_eq!(csv.schema, types);
        assert!(call.options.encoding.is_some() && csv.infer_rows == usize::MAX);
        let call = parse("read_csv('x', columns => {'a': 'int', 'b': 'text'})").unwrap();
        assert_eq!(call.options.csv.names, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert!(FileCall::parse("read_me.csv").unwrap().is_none());
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (call, message) in [
            ("read_csv()", "needs the name of a file"),
            ("read_csv(skip => 1)", "needs the name of a file"),
            ("read_csv('a', 'b')", "'b' is neither"),
            ("read_csv('a', skip => 'x')", "skip needs a number of lines, not 'x'"),
            ("read_csv('a', heder => true)", "did you mean header?"),
            ("read_csv('a', delimiter => ';;')", "one ASCII character"),
            ("read_csv('a', types => {'a': 'int7'})", "unknown type 'int7'"),
            ("read_csv('a' || 'b')", "is neither"),
            ("read_json('a', quote => '')", "read_json has no option quote"),
            ("read_parquet('a', skip => 1)", "no option skip; there are: partition_columns, "),
            ("read_arrow('a', hive_partitioning => 1)", "needs true or false, not 1"),
        ] {
            let error = parse(call).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(message), "{call}: {error}");
        }
    }
}
