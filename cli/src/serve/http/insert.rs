//! INSERT … FORMAT: rows of a request's body into a table.
//!
//! ClickHouse's own formats become batches by `clickhouse/rows_in`. CSV, JSON, Arrow and Parquet
//! are read by the library, as the standard input of a statement, with the types of the columns.

use std::io::Read;

use stylobate::{Input, Parameters, Schema, Session};

use super::errors::HttpError;
use super::json_envelope::RowsOf;
use super::json_rows::{Heading, ObjectsOf, Wrong};
use crate::errors::Failure;
use crate::serve::clickhouse::rows_in::{BodyFormat, Reader};

/// Bytes of a batch of a binary format, unpacked, at most.
const MOST_BATCH: u64 = 256 << 20;

/// What an INSERT fills.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    schema: Option<String>,
    table: String,
    /// All if there are none.
    columns: Vec<String>,
}

/// Why rows are not stored.
pub(crate) enum NotStored {
    Failure(Failure),
    Here(HttpError),
}

impl From<Failure> for NotStored {
    fn from(failure: Failure) -> NotStored {
        NotStored::Failure(failure)
    }
}

impl From<stylobate::Error> for NotStored {
    fn from(error: stylobate::Error) -> NotStored {
        NotStored::Failure(error.into())
    }
}

/// Stores the rows of a body in the table that `sql`, an INSERT up to its FORMAT, names; returns
/// how many. They are on disk then.
pub(crate) fn run(
    session: &Session,
    sql: &str,
    format: &str,
    revision: u32,
    rows: impl Read + Send + 'static,
) -> Result<u64, NotStored> {
    let target = target(sql).ok_or_else(|| {
        let what = "INSERT INTO table (columns) FORMAT name is what rows can follow";
        NotStored::Here(HttpError::of(62, what))
    })?;
    if let Some(other) = target.schema.as_deref().filter(|schema| *schema != "public") {
        let what = format!("there is no database {other} to insert into");
        return Err(NotStored::Here(HttpError::of(81, what)));
    }
    // Names without quotes are those of any case.
    let (table, schema) = match session.columns_to_write(&target.table) {
        Err(stylobate::Error::NotFound(_)) => {
            session.columns_to_write(&target.table.to_lowercase())?
        }
        found => found?,
    };
    let target = Target { table, ..target };
    let columns: Vec<String> = match target.columns.is_empty() {
        true => schema.columns().iter().map(|column| column.name.to_string()).collect(),
        false => target.columns.iter().map(|name| as_in(&schema, name)).collect(),
    };
    if let Some(format) = BodyFormat::named(format) {
        let declared = declared(&schema, &columns, &target.table)?;
        let mut reader = Reader::new(format, &declared, revision, MOST_BATCH, rows);
        let mut failure = None;
        let batches = std::iter::from_fn(|| match reader.next_batch() {
            Ok(batch) => batch.map(Ok),
            Err(wrong) => {
                let error = stylobate::Error::InvalidInput(wrong.message.to_string());
                failure = Some(wrong);
                Some(Err(error))
            }
        });
        let stored = session.insert(&target.table, &columns, batches);
        return match failure {
            Some(failure) => Err(failure.into()),
            None => Ok(stored?),
        };
    }
    let wrong = Wrong::default();
    let Some((input, query)) = text(format, &target, &columns, &schema, rows, &wrong) else {
        let what = format!("rows of an INSERT cannot be read in a format {format}");
        return Err(NotStored::Here(HttpError::of(73, what)));
    };
    session.feed(Some(input));
    let stored = one_count(session, &query);
    session.feed(None);
    match wrong.get() {
        Some(wrong) => Err(NotStored::Here(HttpError::of(117, wrong.clone()))),
        None => stored,
    }
}

/// Runs a statement whose answer is the number of rows that it has stored.
fn one_count(session: &Session, sql: &str) -> Result<u64, NotStored> {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::UInt64Type;
    let mut stored = 0;
    session.run(sql, &Parameters::default(), |stream| {
        for batch in stream {
            let batch = batch?;
            let counts = batch.columns().first().and_then(|it| it.as_primitive_opt::<UInt64Type>());
            stored += counts.map_or(0, |counts| counts.iter().flatten().sum::<u64>());
        }
        Ok(())
    })?;
    Ok(stored)
}

/// The name of a column as the table spells it, where only its case differs.
fn as_in(schema: &Schema, name: &str) -> String {
    let columns = schema.columns();
    let mut alike = columns.iter().filter(|column| column.name.eq_ignore_ascii_case(name));
    match (columns.iter().any(|column| *column.name == *name), alike.next(), alike.next()) {
        (false, Some(only), None) => only.name.to_string(),
        _ => name.to_owned(),
    }
}

/// The columns to fill as Arrow has them.
fn declared(
    schema: &Schema,
    columns: &[String],
    table: &str,
) -> Result<arrow_schema::SchemaRef, NotStored> {
    let arrow = schema.to_arrow();
    let field = |name: &String| {
        arrow.field_with_name(name).cloned().map_err(|_| {
            NotStored::Here(HttpError::of(16, format!("{table} has no column {name}")))
        })
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(std::sync::Arc::new(arrow_schema::Schema::new(fields)))
}

/// The body as the standard input of a statement that stores it, for formats that the library
/// reads. `wrong` is where it is told what is wrong with the body's rows, if that is found here.
fn text(
    format: &str,
    target: &Target,
    columns: &[String],
    schema: &Schema,
    rows: impl Read + Send + 'static,
    wrong: &Wrong,
) -> Option<(Input, String)> {
    let name = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let names = columns.iter().map(name).collect::<Vec<_>>().join(", ");
    let types =
        schema.columns().iter().filter(|column| columns.iter().any(|it| **it == *column.name));
    let types = types.map(|it| format!("{}: {}", text(&it.name), text(&it.data_type.to_string())));
    let types = format!("{{{}}}", types.collect::<Vec<_>>().join(", "));
    // What comes by name need not have all columns.
    let preferred = format!("preferred_types => {types}");
    let table = name(&target.table);
    let by_position = |options: String| {
        let listed = columns.iter().map(|name| text(name)).collect::<Vec<_>>().join(", ");
        format!(
            "INSERT INTO {table} ({names}) SELECT {names} FROM read_csv('-', header => false, \
             names => [{listed}], types => {types}{options})"
        )
    };
    // Of rows with names, what the statement lists is stored, and else all.
    let by_name = |from: String| match target.columns.is_empty() {
        true => format!("INSERT INTO {table} BY NAME SELECT * FROM {from}"),
        false => format!("INSERT INTO {table} ({names}) SELECT {names} FROM {from}"),
    };
    let csv = ", delimiter => ',', null => '\\N'";
    let lower = format.to_ascii_lowercase();
    Some(match lower.as_str() {
        "csv" => (Input::reader("body.csv", Box::new(rows)), by_position(csv.to_owned())),
        "csvwithnames" => (
            Input::reader("body.csv", Box::new(rows)),
            by_name(format!("read_csv('-', header => true, {preferred}{csv})")),
        ),
        "jsoneachrow" | "jsonlines" | "ndjson" | "json" => {
            let rows: Box<dyn Read + Send> = match lower.as_str() {
                "json" => Box::new(RowsOf::new(rows, false, Wrong::clone(wrong))),
                _ => Box::new(rows),
            };
            // Keys that a row lacks are null, and others are left out.
            let sql = format!(
                "INSERT INTO {table} ({names}) SELECT {names} FROM read_json('-', columns => \
                 {types})"
            );
            (Input::reader("body.jsonl", rows), sql)
        }
        "jsoncompact" => {
            let rows = RowsOf::new(rows, true, Wrong::clone(wrong));
            let rows = ObjectsOf::new(rows, columns, Heading::Names, Wrong::clone(wrong));
            let input = Input::reader("body.jsonl", Box::new(rows));
            (input, by_name(format!("read_json('-', {preferred})")))
        }
        "jsoncompacteachrow"
        | "jsoncompacteachrowwithnames"
        | "jsoncompacteachrowwithnamesandtypes" => {
            let heading = match lower.strip_prefix("jsoncompacteachrow") {
                Some("withnames") => Heading::Names,
                Some("withnamesandtypes") => Heading::NamesAndTypes,
                _ => Heading::None,
            };
            let rows = ObjectsOf::new(rows, columns, heading, Wrong::clone(wrong));
            let input = Input::reader("body.jsonl", Box::new(rows));
            (input, by_name(format!("read_json('-', {preferred})")))
        }
        "arrow" | "arrowstream" => {
            (Input::reader("body.arrow", Box::new(rows)), by_name("'-'".to_owned()))
        }
        "parquet" => (Input::reader("body.parquet", Box::new(rows)), by_name("'-'".to_owned())),
        _ => return None,
    })
}

/// Reads `INSERT INTO [TABLE] name [(columns)]`, in our words.
fn target(sql: &str) -> Option<Target> {
    let mut rest = keyword(keyword(sql.trim(), "insert")?, "into")?;
    if let Some(after) = keyword(rest, "table") {
        rest = after;
    }
    let (mut table, mut rest) = name(rest)?;
    let mut schema = None;
    while let Some(after) = rest.trim_start().strip_prefix('.') {
        if schema.is_some() {
            return None;
        }
        schema = Some(table);
        (table, rest) = name(after.trim_start())?;
    }
    let rest = rest.trim();
    if rest.is_empty() {
        return Some(Target { schema, table, columns: Vec::new() });
    }
    let mut inner = rest.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut columns = Vec::new();
    while !inner.is_empty() {
        let (column, after) = name(inner)?;
        columns.push(column);
        inner = after.trim_start();
        match inner.strip_prefix(',') {
            Some(after) => inner = after.trim_start(),
            None if inner.is_empty() => {}
            None => return None,
        }
    }
    Some(Target { schema, table, columns })
}

/// What follows a keyword.
fn keyword<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = (text.get(..word.len())?, text.get(word.len()..)?);
    let is_word = head.eq_ignore_ascii_case(word) && rest.starts_with(char::is_whitespace);
    is_word.then(|| rest.trim_start())
}

/// A name at the start of a text, and what follows.
fn name(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut at = 0;
    loop {
        let end = at + quoted.get(at..)?.find('"')?;
        match quoted.get(end + 1..)?.starts_with('"') {
            true => at = end + 2,
            false => return Some((quoted[..end].replace("\"\"", "\""), &quoted[end + 1..])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let of = |sql: &str| target(sql).map(|it| (it.table, it.columns.join("|")));
        let is = |table: &str, columns: &str| Some((table.to_owned(), columns.to_owned()));
        assert_eq!(of("INSERT INTO t"), is("t", ""));
        assert_eq!(of("insert into public.\"a \"\"b\" (a, \"b c\") "), is("a \"b", "a|b c"));
        assert_eq!(of("INSERT INTO TABLE t (a)"), is("t", "a"));
        assert_eq!(of("INSERT INTO größe (ä)"), is("größe", "ä"));
        for wrong in ["INSERT t", "INSERT INTO", "INSERT INTO t (a", "INSERT INTO t (a b)", "x"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
