//! Converts DataFusion's errors to ours, and back: the kinds of errors survive the way through its
//! operators, and messages have the location in the statement but none of the wrapping.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use crate::error::Error;
use crate::ingest::sources::foreign::no_thread;
use crate::sql::convert::advice;

/// One of our errors on its way through DataFusion's operators.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// The error of a statement as one of our kinds.
impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        from_datafusion(error)
    }
}

fn from_datafusion(error: DataFusionError) -> Error {
    use DataFusionError as D;
    match error {
        D::External(inner) => from_boxed(inner),
        D::ArrowError(inner, _) => from_arrow(*inner),
        D::Diagnostic(diagnostic, inner) => with_location(from_datafusion(*inner), &diagnostic),
        D::Context(_, inner) => from_datafusion(*inner),
        D::Collection(all) => match all.into_iter().next() {
            Some(first) => from_datafusion(first),
            None => Error::InvalidInput("the statement failed".into()),
        },
        D::Shared(inner) => match Arc::try_unwrap(inner) {
            Ok(inner) => from_datafusion(inner),
            Err(inner) => from_shared(&inner),
        },
        other => from_leaf(&other),
    }
}

fn from_boxed(inner: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let inner = match inner.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(inner) => inner,
    };
    let inner = match inner.downcast::<DataFusionError>() {
        Ok(theirs) => return from_datafusion(*theirs),
        Err(inner) => inner,
    };
    match inner.downcast::<ArrowError>() {
        Ok(arrow) => from_arrow(*arrow),
        Err(inner) => {
            let message = inner.to_string();
            match inner.is::<tokio::task::JoinError>() {
                true => engine_failed(&message),
                false => Error::InvalidInput(regex_message(&message).unwrap_or(message)),
            }
        }
    }
}

/// What Arrow refused while a statement ran, as one of our kinds.
pub(crate) fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => from_boxed(inner),
        ArrowError::IoError(_, source) => from_io(&source),
        ArrowError::MemoryError(what) => Error::LimitExceeded(what),
        ArrowError::OffsetOverflowError(bytes) => Error::LimitExceeded(format!(
            "texts or lists of {bytes} bytes or items in a batch, and at most 2147483647 are \
             possible; SET datafusion.execution.batch_size to fewer rows before the statement"
        )),
        ArrowError::NotYetImplemented(what) => Error::Unsupported(what),
        other => {
            let message = arrow_message(&other);
            Error::InvalidInput(regex_message(&message).unwrap_or(message))
        }
    }
}

/// Copies an error that several streams share.
fn from_shared(error: &DataFusionError) -> Error {
    let mut current: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = current {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            return copied(ours);
        }
        current = inner.source();
    }
    from_leaf(error.find_root())
}

/// The same error, for several callers.
pub(crate) fn copied(error: &Error) -> Error {
    match error {
        Error::Io { path, source } => Error::Io {
            path: path.clone(),
            source: std::io::Error::new(source.kind(), source.to_string()),
        },
        Error::Corrupt { file, offset, what } => {
            Error::Corrupt { file: file.clone(), offset: *offset, what: what.clone() }
        }
        Error::Unsupported(what) => Error::Unsupported(what.clone()),
        Error::InvalidInput(what) => Error::InvalidInput(what.clone()),
        Error::Busy(what) => Error::Busy(what.clone()),
        Error::NotFound(what) => Error::NotFound(what.clone()),
        Error::LimitExceeded(what) => Error::LimitExceeded(what.clone()),
        Error::Rejected { rejected, allowed, details } => {
            Error::Rejected { rejected: *rejected, allowed: *allowed, details: details.clone() }
        }
        Error::Unconfirmed { generation, current, source } => Error::Unconfirmed {
            generation: *generation,
            current: current.clone(),
            source: Box::new(copied(source)),
        },
        Error::Unreported { generation, source } => {
            Error::Unreported { generation: *generation, source: Box::new(copied(source)) }
        }
        Error::Unreachable(what) => Error::Unreachable(what.clone()),
        Error::PartlyStored(what) => Error::PartlyStored(what.clone()),
        Error::Cancelled => Error::Cancelled,
    }
}

/// The error for a statement in which the query engine gave up.
pub(crate) fn engine_failed(what: &str) -> Error {
    let failed = || format!("the query engine failed on this statement: {}", one_line(what));
    no_thread(what).unwrap_or_else(|| Error::Unsupported(failed()))
}

/// An error that wraps no other one worth unwrapping.
fn from_leaf(error: &DataFusionError) -> Error {
    use DataFusionError as D;
    let message = || one_line(error.strip_backtrace().trim_start_matches(&prefix(error)));
    match error {
        D::SQL(parser, _) => from_parser(parser),
        D::SchemaError(schema, _) => schema_error(schema),
        D::NotImplemented(_) => {
            let message = message();
            let ours = advice::instead(&message);
            Error::Unsupported(ours.unwrap_or_else(|| type_names(without_tree(&message))))
        }
        D::ResourcesExhausted(_) => Error::LimitExceeded(memory_message(&message())),
        D::IoError(source) => from_io(source),
        D::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::IoError(_, source) => from_io(source),
            inner => Error::InvalidInput(arrow_message(inner)),
        },
        D::Internal(_) | D::ExecutionJoin(_) => {
            let message = message();
            // What follows asks for a report to DataFusion.
            let what = message.split("This issue was likely caused by").next().unwrap_or_default();
            engine_failed(what.trim_end_matches(['.', ' ', '\n']))
        }
        D::Plan(what) => {
            let ours = condition_message(what)
                .or_else(|| signature_message(what))
                .or_else(|| grouping_message(what))
                .or_else(|| advice::advice(what));
            Error::InvalidInput(type_names(&ours.unwrap_or_else(message)))
        }
        _ => {
            let message = message();
            let ours = advice::advice(&message).or_else(|| regex_message(&message));
            Error::InvalidInput(ours.unwrap_or_else(|| type_names(&message)))
        }
    }
}

/// What is wrong with a regular expression, in one line.
fn regex_message(message: &str) -> Option<String> {
    let Some((_, rest)) = message.split_once("regex parse error:\n") else {
        let (_, pattern) = message.split_once("Regular expression did not compile: ")?;
        return Some(format!("the regular expression {pattern} is wrong, or too large"));
    };
    let (pattern, why) = rest.split_once("\nerror: ")?;
    let pattern = pattern.lines().next()?.trim();
    Some(format!("the regular expression {pattern} is wrong: {}", why.lines().next()?))
}

/// The error of the operating system: writers of temporary files wrap it in others, whose kind and
/// message do not say that a disk is full.
fn from_io(source: &std::io::Error) -> Error {
    let mut system = source;
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(source);
    while let Some(error) = next {
        next = match error.downcast_ref::<std::io::Error>() {
            Some(error) => {
                system = error;
                // Its own `source` leaves out what it wraps.
                error.get_ref().map(|wrapped| wrapped as _)
            }
            None => error.source(),
        };
    }
    let source = std::io::Error::new(system.kind(), system.to_string());
    Error::Io { path: PathBuf::from("query"), source }
}

/// A message in one line: DataFusion gives each function that a call might mean a line of its own.
/// Line breaks in names stay, by which these are found.
fn one_line(message: &str) -> String {
    let message = message.replace(".\nDid you mean", ". Did you mean");
    let head = message.replace(".\n\t", ". ").replace(":\n\t", ": ").replace(".\nThis ", ". This ");
    head.replace("\n\t", ", ")
}

/// Advice for a condition that is not a boolean, as in `WHERE 1`.
fn condition_message(what: &str) -> Option<String> {
    let rest = what.strip_prefix("Cannot create filter with non-boolean predicate '")?;
    let (condition, data_type) = rest.rsplit_once("' returning ")?;
    Some(format!(
        "a condition must be true or false, but {condition} has type {data_type}; \
         compare it with a value, as in `x <> 0`"
    ))
}

/// What is left of the message about a function that does not take such arguments: DataFusion lists
/// each attempt, and calls some of them internal errors.
fn signature_message(what: &str) -> Option<String> {
    let (_, rest) = what.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once("'. You might need to add explicit type casts.")?;
    let (_, candidates) = rest.split_once("Candidate functions:")?;
    let candidates: Vec<&str> =
        candidates.split(['\n', '\t']).map(str::trim).filter(|one| !one.is_empty()).collect();
    if candidates.iter().any(|one| one.contains("UserDefined")) {
        return Some(format!(
            "there is no function {call}: these types do not go together here; a cast may help, \
             as in `x::text`"
        ));
    }
    Some(format!(
        "there is no function {call}; there are: {}. A cast may help, as in `x::double`",
        candidates.join(", ")
    ))
}

/// Advice for a column that is neither grouped by nor aggregated.
fn grouping_message(what: &str) -> Option<String> {
    let rest =
        what.strip_prefix("Column in SELECT must be in GROUP BY or an aggregate function")?;
    let (_, rest) = rest.split_once("column \"")?;
    let (column, _) = rest.split_once("\" must appear")?;
    Some(format!(
        "column {column} must be among the keys of GROUP BY or within an aggregate function, such \
         as min({column}) or first_value({column})"
    ))
}

/// A message without the syntax tree that the planner writes behind it.
fn without_tree(message: &str) -> &str {
    match message.contains("Span(Location") {
        true => message.split([':', '{', '(']).next().unwrap_or(message).trim_end(),
        false => message,
    }
}

/// A message with the names that types have in a table's schema.
fn type_names(message: &str) -> String {
    let mut named = String::with_capacity(message.len());
    let mut rest = message;
    while !rest.is_empty() {
        // What is quoted is a value.
        if rest.starts_with('\'') {
            let end = rest
                .get(1..)
                .and_then(|quoted| quoted.find('\''))
                .map_or(rest.len(), |end| end + 2);
            let (value, after) = rest.split_at(end);
            named.push_str(value);
            rest = after;
            continue;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        named.push_str(match word {
            "Utf8" | "LargeUtf8" | "Utf8View" => "utf8",
            "Binary" | "LargeBinary" | "BinaryView" => "binary",
            "Boolean" => "bool",
            "Date" | "Date32" | "Date64" => "date",
            "Int8" => "int8",
            "Int16" => "int16",
            "Int32" => "int32",
            "Int64" => "int64",
            "UInt8" => "uint8",
            "UInt16" => "uint16",
            "UInt32" => "uint32",
            "UInt64" => "uint64",
            "Float32" => "float32",
            "Float64" => "float64",
            "Timestamp" => "timestamp",
            "Time32" | "Time64" => "time",
            "Interval" | "Duration" => "interval",
            "List" | "LargeList" | "FixedSizeList" => "list",
            "Struct" => "struct",
            "Map" => "map",
            "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "decimal",
            word => word,
        });
        let next = after.find(|c| is_word(c) || c == '\'').unwrap_or(after.len());
        let (between, after) = after.split_at(next);
        named.push_str(&between.replace("(µ", "(u"));
        rest = after;
    }
    named
}

fn prefix(error: &DataFusionError) -> String {
    let (full, message) = (error.to_string(), error.message());
    full.strip_suffix(&*message).map(str::to_owned).unwrap_or_default()
}

/// Advice, followed by the last line of the message, which is the pool's and says who asked for how
/// much. Operators put lines of their own before it.
fn memory_message(message: &str) -> String {
    let lines = message.trim_end();
    let asked = lines.rsplit_once('\n').map_or(lines, |(_, asked)| asked);
    format!("memory: a larger --memory-limit or fewer --threads may do ({asked})")
}

fn from_parser(error: &ParserError) -> Error {
    match error {
        ParserError::TokenizerError(what) | ParserError::ParserError(what) => {
            Error::InvalidInput(parser_message(what))
        }
        ParserError::RecursionLimitExceeded => Error::LimitExceeded(
            "the statement is nested too deeply, or can be read in too many ways".into(),
        ),
    }
}

/// A message of the parser: it writes a location in words of its own, and gives none at the end.
fn parser_message(what: &str) -> String {
    if let Some(head) = what.strip_suffix("found: EOF") {
        return format!("{head}found: the end of the statement");
    }
    let location = what.rsplit_once(" at Line: ");
    match location.and_then(|(head, place)| Some((head, place.split_once(", Column: ")?))) {
        Some((head, (line, column))) => format!("{head} (line {line}, column {column})"),
        None => what.to_owned(),
    }
}

fn arrow_message(error: &ArrowError) -> String {
    match error {
        ArrowError::CastError(what)
        | ArrowError::ParseError(what)
        | ArrowError::ComputeError(what)
        | ArrowError::SchemaError(what)
        | ArrowError::ArithmeticOverflow(what)
        | ArrowError::InvalidArgumentError(what) => type_names(what),
        ArrowError::DivideByZero => "division by zero".into(),
        other => other.to_string(),
    }
}

/// For an unknown column, the message suggests the nearest name, or lists those there are.
fn schema_error(error: &SchemaError) -> Error {
    let SchemaError::FieldNotFound { field, valid_fields } = error else {
        let message = error.to_string();
        return Error::InvalidInput(advice::names(&message).unwrap_or(message));
    };
    let name = field.flat_name();
    let plain: Vec<&str> = valid_fields.iter().map(|valid| valid.name()).collect();
    let hint = match suggestion(field.name(), plain.iter().copied()) {
        Some(near) if near.eq_ignore_ascii_case(field.name()) && near != field.name() => {
            format!("; did you mean \"{near}\"? Names with upper-case letters go in double quotes")
        }
        Some(near) => format!("; did you mean {near}?"),
        None if plain.is_empty() => String::new(),
        None => format!("; there are: {}", listed(plain.iter().copied())),
    };
    Error::InvalidInput(format!("no column {name}{hint}"))
}

/// A list of up to a dozen names, without repetitions.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    // A sort may see a column under two names of its table.
    let mut names: Vec<&str> = names.collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    let shown = names.iter().take(12).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 12 { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}

/// The name nearest to `wanted`, if one is near enough.
pub(crate) fn suggestion<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = wanted.to_lowercase();
    let near = |name: &&str| edit_distance(&lower, &name.to_lowercase());
    names.min_by_key(near).filter(|name| near(name) <= (wanted.chars().count() / 3).max(1))
}

/// The edit distance of two short texts.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = row.get(j).copied().unwrap_or(0) + usize::from(x != *y);
            let deleted = row.get(j + 1).copied().unwrap_or(0) + 1;
            let inserted = next.last().copied().unwrap_or(0) + 1;
            next.push(replaced.min(deleted).min(inserted));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// Adds the location in the statement, unless the message has it.
fn with_location(error: Error, diagnostic: &Diagnostic) -> Error {
    match (error, diagnostic.span) {
        (Error::InvalidInput(what), Some(span)) if !what.contains("(line ") => Error::InvalidInput(
            format!("{what} (line {}, column {})", span.start.line, span.start.column),
        ),
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_found_whatever_wraps_it() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let wrapped = || io::Error::other(DataFusionError::IoError(io::Error::other(full())));
        let in_arrow = ArrowError::IoError("writing".into(), wrapped());
        for error in [
            DataFusionError::IoError(full()),
            DataFusionError::IoError(wrapped()),
            DataFusionError::ArrowError(Box::new(in_arrow), None),
        ] {
            let error = Error::from(error);
            let Error::Io { source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            assert_eq!(source.to_string(), full().to_string());
        }
    }
}
