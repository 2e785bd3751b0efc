//! What ClickHouse's clients ask about a server: its databases, tables and columns, what runs, and
//! how to end it.
//!
//! Tables of the database `system` become tables of the session for one statement, under names
//! that `statement` has put in their place. SHOW, DESCRIBE, EXISTS, USE and KILL are answered here.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt8Array, UInt64Array};
use stylobate::{Parameters, Session};

use super::errors::HttpError;
use crate::errors::Failure;
use crate::serve::clickhouse::types::Type;
use crate::serve::query_log;
use crate::serve::running::Ended;
use crate::serve::server::Server;
use crate::serve::users::User;

/// What the server is called.
pub(crate) const NAME: &str = "stylobate";
/// The version of ClickHouse whose interface this is: clients choose by it what they ask.
pub(crate) const VERSION: &str = "24.8.1.1";
/// The revision of its protocol.
pub(crate) const REVISION: &str = "54460";
/// The one database of a store.
const DATABASE: &str = "default";
/// How the names of tables begin that stand for those of `system`.
pub(super) const PREFIX: &str = "sty__system_";

/// What stands for a table of `system` in our words: the query log is a table of the store.
pub(super) fn place_of(name: &str) -> String {
    match name == query_log::TABLE {
        true => format!("public.{name}"),
        false => format!("{PREFIX}{name}"),
    }
}

type Answer = Result<RecordBatch, HttpError>;

/// The answer to a statement about the server; `None` for all others.
pub(super) fn answer(
    sql: &str,
    session: &Session,
    server: &Server,
    user: &User,
) -> Result<Option<RecordBatch>, HttpError> {
    let words: Vec<&str> = sql.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let answer = match lower.as_slice() {
        ["show", "databases" | "schemas", rest @ ..] => {
            list("name", like(&words, rest.len(), [DATABASE.to_owned(), "system".to_owned()]))
        }
        ["show", "tables", rest @ ..] | ["show", "full", "tables", rest @ ..] => {
            let named = rest.iter().position(|word| matches!(*word, "from" | "in"));
            let at = named.and_then(|at| words.get(words.len() - rest.len() + at + 1));
            let own = at.is_none_or(|name| is_own_database(name));
            let names = if own { table_names(session) } else { Vec::new() };
            list("name", like(&words, rest.len(), names))
        }
        ["show", "processlist"] => processes(server, user),
        ["describe" | "desc", "table", _] | ["describe" | "desc", _] => {
            described(session, words.last().copied().unwrap_or_default())
        }
        ["exists", "table", _] | ["exists", _] => {
            let (_, name) = split_name(words.last().copied().unwrap_or_default());
            let found = table_names(session).contains(&name);
            batch(vec![("result", Arc::new(UInt8Array::from(vec![u8::from(found)])))])
        }
        ["kill", "query", "where", ..] => kill(sql, server, user),
        ["use", name] if is_own_database(name) => nothing(),
        ["set", rest @ ..] if is_setting_of_theirs(rest) => nothing(),
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// Whether a SET is about a setting that ClickHouse has and we do not: it changes nothing here.
fn is_setting_of_theirs(rest: &[&str]) -> bool {
    let name = rest.first().and_then(|word| word.split('=').next()).unwrap_or_default();
    !name.contains('.') && name.contains('_')
}

/// Whether a name is that of the one database.
fn is_own_database(name: &str) -> bool {
    matches!(name.trim_matches(['"', '`', '\'']), "default" | "public")
}

/// The names that fit the pattern after LIKE, or all.
fn like(words: &[&str], rest: usize, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let rest = words.get(words.len() - rest..).unwrap_or_default();
    let pattern = rest.iter().position(|word| word.eq_ignore_ascii_case("like"));
    let pattern = pattern.and_then(|at| rest.get(at + 1)).map(|word| word.trim_matches('\''));
    let fits = |name: &String| pattern.is_none_or(|pattern| fits(name, pattern));
    names.into_iter().filter(fits).collect()
}

/// Whether a text fits a pattern of LIKE. After a mismatch, only the last `%` takes a letter more.
fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut place) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        match (text.get(at), pattern.get(place)) {
            (_, Some('%')) => {
                place += 1;
                again = Some((at, place));
            }
            (Some(c), Some(p)) if *p == '_' || p == c => (at, place) = (at + 1, place + 1),
            (None, None) => return true,
            (c, _) => match again.filter(|_| c.is_some() || pattern.len() > place) {
                Some((from, behind)) if from < text.len() => {
                    again = Some((from + 1, behind));
                    (at, place) = (from + 1, behind);
                }
                _ => return false,
            },
        }
    }
}

/// A schema and a name, of which either may be quoted.
fn split_name(word: &str) -> (Option<String>, String) {
    let bare = |part: &str| part.trim_matches('"').replace("\"\"", "\"");
    match word.split_once('.') {
        Some((schema, name)) => (Some(bare(schema)), bare(name)),
        None => (None, bare(word)),
    }
}

/// DESCRIBE TABLE, in the seven columns that clients expect.
fn described(session: &Session, word: &str) -> Answer {
    let (schema, name) = split_name(word);
    let system = schema.as_deref() == Some("system");
    let (names, types): (Vec<_>, Vec<_>) = match system && name != query_log::TABLE {
        true => return Err(HttpError::of(60, format!("there is no table {word}"))),
        false => columns_of(session, &name)?.into_iter().unzip(),
    };
    let empty = || texts(vec![""; names.len()]);
    let (name, data_type) = (texts(names.iter()), texts(types));
    batch(vec![
        ("name", name),
        ("type", data_type),
        ("default_type", empty()),
        ("default_expression", empty()),
        ("comment", empty()),
        ("codec_expression", empty()),
        ("ttl_expression", empty()),
    ])
}

/// The columns of a table and their types, in ClickHouse's words.
fn columns_of(session: &Session, table: &str) -> Result<Vec<(String, String)>, HttpError> {
    let failed = |error: stylobate::Error| HttpError::of_statement(&error.into(), None);
    let sql = format!("SELECT * FROM public.\"{}\" LIMIT 0", table.replace('"', "\"\""));
    let mut columns = Vec::new();
    session
        .run(&sql, &Parameters::default(), |stream| {
            let schema = stream.schema();
            let described = schema
                .fields()
                .iter()
                .map(|field| (field.name().clone(), Type::of_field(field).to_string()));
            columns.extend(described);
            Ok(())
        })
        .map_err(failed)?;
    Ok(columns)
}

/// The statements that a user may see: all of those who may see all tables.
fn processes(server: &Server, user: &User) -> Answer {
    let mut all = server.running.list();
    all.retain(|statement| user.tables.is_none() || statement.user == user.name);
    let seconds = all.iter().map(|statement| statement.started.elapsed().as_secs_f64());
    let read = all.iter().map(|statement| statement.progress.now().map_or(0, |read| read.rows));
    batch(vec![
        ("query_id", texts(all.iter().map(|statement| &statement.id))),
        ("user", texts(all.iter().map(|statement| &statement.user))),
        ("interface", texts(all.iter().map(|statement| statement.protocol))),
        ("elapsed", Arc::new(Float64Array::from_iter_values(seconds))),
        ("read_rows", Arc::new(UInt64Array::from_iter_values(read))),
        ("query", texts(all.iter().map(|statement| &statement.sql))),
    ])
}

/// KILL QUERY WHERE query_id = '…'. A user ends statements of its own; one that sees all tables and
/// may write, those of others.
fn kill(sql: &str, server: &Server, user: &User) -> Answer {
    let condition = sql.split_once(['w', 'W']).map_or("", |(_, rest)| rest);
    let id = condition
        .to_ascii_lowercase()
        .find("query_id")
        .and_then(|at| condition.get(at + "query_id".len()..))
        .and_then(|rest| rest.trim_start().strip_prefix('='))
        .and_then(|rest| quoted(rest.trim_start()));
    let Some(id) = id else {
        let what = "KILL QUERY WHERE query_id = '…' names what to end";
        return Err(HttpError::of(62, what));
    };
    let may_end_all = user.tables.is_none() && !user.read_only;
    let mut ended = server.running.list();
    ended.retain(|statement| statement.id == id && (may_end_all || statement.user == user.name));
    ended.iter().for_each(|statement| statement.end(Ended::Killed));
    batch(vec![
        ("kill_status", texts(ended.iter().map(|_| "waiting"))),
        ("query_id", texts(ended.iter().map(|statement| &statement.id))),
        ("user", texts(ended.iter().map(|statement| &statement.user))),
        ("query", texts(ended.iter().map(|statement| &statement.sql))),
    ])
}

/// The text of a literal at the beginning of `sql`, in which `''` stands for a quote.
fn quoted(sql: &str) -> Option<String> {
    let (mut text, mut rest) = (String::new(), sql.strip_prefix('\'')?);
    loop {
        let (part, after) = rest.split_once('\'')?;
        text.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => (text, rest) = (text + "'", more),
            None => return Some(text),
        }
    }
}

/// A table of the database `system`; `None` if there is none of this name.
pub(super) fn table(
    name: &str,
    session: &Session,
    server: &Server,
    user: &User,
) -> Result<Option<RecordBatch>, HttpError> {
    let table = match name {
        "one" => batch(vec![("dummy", Arc::new(UInt8Array::from(vec![0])))]),
        "databases" => batch(vec![
            ("name", texts([DATABASE, "system"])),
            ("engine", texts(["Atomic", "Atomic"])),
            ("comment", texts(["", ""])),
        ]),
        "tables" => tables(session),
        "columns" => columns(session),
        "functions" => functions(session),
        "processes" => processes(server, user),
        // What there is to set is set by SQL (SET sty.…), and by the URL.
        "settings" => batch(vec![
            ("name", texts::<&str>([])),
            ("value", texts::<&str>([])),
            ("readonly", Arc::new(UInt8Array::from(Vec::<u8>::new()))),
        ]),
        _ => return Ok(None),
    };
    table.map(Some)
}

/// The tables and views of a session, but for those that stand for tables of `system`.
fn table_names(session: &Session) -> Vec<String> {
    let mut names = session.table_names();
    names.retain(|name| !name.starts_with(PREFIX));
    names
}

fn tables(session: &Session) -> Answer {
    let names = table_names(session);
    let sizes: Vec<_> = names.iter().map(|name| session.stored_size(None, name)).collect();
    let kind = |size: &Option<(u64, u64)>| if size.is_some() { "MergeTree" } else { "View" };
    let rows = sizes.iter().map(|size| size.map(|(rows, _)| rows));
    let empty = || texts(vec![""; names.len()]);
    batch(vec![
        ("database", texts(names.iter().map(|_| DATABASE))),
        ("name", texts(names.iter())),
        ("engine", texts(sizes.iter().map(kind))),
        ("is_temporary", Arc::new(UInt8Array::from(vec![0; names.len()]))),
        ("total_rows", Arc::new(UInt64Array::from_iter(rows))),
        ("total_bytes", Arc::new(UInt64Array::new_null(names.len()))),
        ("engine_full", texts(sizes.iter().map(kind))),
        ("partition_key", empty()),
        ("sorting_key", empty()),
        ("primary_key", empty()),
        ("sampling_key", empty()),
        ("comment", empty()),
    ])
}

fn columns(session: &Session) -> Answer {
    let (mut of, mut names, mut types, mut places) = (vec![], vec![], vec![], vec![]);
    for table in table_names(session) {
        // A table that is damaged, or has gone meanwhile, has no columns to show.
        for (place, (name, data_type)) in (1..).zip(columns_of(session, &table).unwrap_or_default())
        {
            of.push(table.clone());
            names.push(name);
            types.push(data_type);
            places.push(place);
        }
    }
    let no_key = || -> ArrayRef { Arc::new(UInt8Array::from(vec![0; of.len()])) };
    batch(vec![
        ("database", texts(of.iter().map(|_| DATABASE))),
        ("table", texts(of.iter())),
        ("name", texts(names.iter())),
        ("type", texts(types.iter())),
        ("position", Arc::new(UInt64Array::from(places))),
        ("default_kind", texts(of.iter().map(|_| ""))),
        ("default_expression", texts(of.iter().map(|_| ""))),
        ("comment", texts(of.iter().map(|_| ""))),
        ("is_in_partition_key", no_key()),
        ("is_in_sorting_key", no_key()),
        ("is_in_primary_key", no_key()),
        ("is_in_sampling_key", no_key()),
        ("compression_codec", texts(of.iter().map(|_| ""))),
    ])
}

fn functions(session: &Session) -> Answer {
    let functions = session.functions();
    batch(vec![
        ("name", texts(functions.iter().map(|function| &function.name))),
        ("is_aggregate", Arc::new(UInt8Array::from(vec![0; functions.len()]))),
        ("syntax", texts(functions.iter().map(|function| &function.signature))),
        ("description", texts(functions.iter().map(|function| &function.description))),
        ("origin", texts(functions.iter().map(|_| "System"))),
    ])
}

fn list(name: &'static str, values: Vec<String>) -> Answer {
    batch(vec![(name, texts(values))])
}

/// The answer of what has none.
fn nothing() -> Answer {
    Ok(RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty())))
}

fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Answer {
    // Only the sizes of tables may be unknown.
    let may_be_null = |name: &str| matches!(name, "total_rows" | "total_bytes");
    let columns = columns.into_iter().map(|(name, values)| (name, values, may_be_null(name)));
    RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|error| HttpError::of_statement(&Failure::from(error), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit() {
        for (text, pattern, expected) in [
            ("trips", "%", true),
            ("trips", "tr%s", true),
            ("trips", "_rips", true),
            ("trips", "rips", false),
            ("größe", "gr_ße", true),
            ("", "", true),
            ("a", "", false),
            ("aab", "%ab", true),
            ("abab", "%ab%", true),
            ("aba", "%ab", false),
            (&"a".repeat(60), "%a%a%a%a%a%a%a%a%a%a%a%a%b", false),
        ] {
            assert_eq!(fits(text, pattern), expected, "{text} {pattern}");
        }
    }
}
