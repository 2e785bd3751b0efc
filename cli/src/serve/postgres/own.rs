//! Statements that a connection answers by itself: about transactions, settings of PostgreSQL's,
//! prepared statements of the protocol, cursors, and COPY from or to the client.

use super::errors::PgError;
use super::settings::LEVELS;
use super::words::Words;

/// What a statement is to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Own {
    Begin {
        mode: Mode,
    },
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS, which holds for all blocks that follow.
    SetTransaction {
        mode: Mode,
        of_session: bool,
    },
    /// A value of `None` is the default.
    Set {
        name: String,
        value: Option<String>,
        is_local: bool,
    },
    /// A setting is asked for; of all if there is no name.
    Show(Option<String>),
    ResetAll,
    Discard(Discarded),
    /// All if there is no name.
    Deallocate(Option<String>),
    CopyIn(Copy),
    CopyOut(Copy),
    /// A portal is made of a query.
    Declare {
        name: String,
        /// Whether it stays beyond the end of its block.
        is_held: bool,
        query: String,
    },
    /// Rows of a portal are sent, or only counted; 0 means all that are left.
    Fetch {
        name: String,
        rows: usize,
        sends: bool,
    },
    /// A portal is closed; all if there is no name.
    Close(Option<String>),
    /// LISTEN and the like: accepted, and nothing follows from it.
    Nothing(&'static str),
}

/// What DISCARD makes a connection forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discarded {
    /// All that it has made or set.
    All,
    /// Its temporary views.
    Temporary,
    /// What there is nothing of here; this is the tag.
    Nothing(&'static str),
}

impl Discarded {
    pub(super) fn tag(self) -> &'static str {
        match self {
            Discarded::All => "DISCARD ALL",
            Discarded::Temporary => "DISCARD TEMP",
            Discarded::Nothing(tag) => tag,
        }
    }
}

/// What a block may do, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) read_only: Option<bool>,
    /// The level of isolation, in lower case.
    pub(super) isolation: Option<&'static str>,
}

/// A COPY from or to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) source: Source,
    pub(super) options: Options,
}

/// What a COPY fills or reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Table {
        name: String,
        columns: Vec<String>,
    },
    /// The text of a query.
    Query(String),
}

/// How the rows of a COPY are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) format: Format,
    pub(super) delimiter: u8,
    pub(super) null: String,
    pub(super) has_header: bool,
    /// Whether a header has to name the columns, in their order.
    pub(super) matches_header: bool,
    pub(super) quote: u8,
    pub(super) escape: u8,
    /// Whether all values of CSV are in quotes.
    pub(super) quotes_all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Csv,
    Binary,
}

/// Reads a statement; `None` if it is one for the library.
pub(super) fn read(sql: &str) -> Result<Option<Own>, PgError> {
    let mut words = Words::of(sql);
    let Some(first) = words.next() else { return Ok(None) };
    Ok(match first.to_ascii_lowercase().as_str() {
        "begin" => {
            let _ = words.take("transaction") || words.take("work");
            Some(Own::Begin { mode: mode(&mut words) })
        }
        "start" if words.take("transaction") => Some(Own::Begin { mode: mode(&mut words) }),
        "commit" | "end" => Some(end(words, Own::Commit)?),
        "abort" => Some(end(words, Own::Rollback)?),
        "rollback" => {
            let _ = words.take("transaction") || words.take("work");
            match words.take("to") {
                true => words.name_behind("savepoint").map(Own::RollbackTo),
                false => Some(end(words, Own::Rollback)?),
            }
        }
        "savepoint" => words.name().map(Own::Savepoint),
        "release" => words.name_behind("savepoint").map(Own::Release),
        "set" => set(words),
        "reset" if words.take_all("session authorization") => Some(Own::Nothing("RESET")),
        "reset" if words.take_all("time zone") => {
            Some(Own::Set { name: "timezone".to_owned(), value: None, is_local: false })
        }
        "reset" => match words.name() {
            Some(name) if name == "all" => Some(Own::ResetAll),
            Some(name) if name == "role" => Some(Own::Nothing("RESET")),
            Some(name) => pg_name(name).map(|name| Own::Set { name, value: None, is_local: false }),
            None => None,
        },
        "show" => show(words),
        "discard" => discard(words),
        "deallocate" => {
            let _ = words.take("prepare");
            let name = words.name();
            Some(Own::Deallocate(name.filter(|name| name != "all")))
        }
        "listen" => Some(Own::Nothing("LISTEN")),
        "unlisten" => Some(Own::Nothing("UNLISTEN")),
        "notify" => Some(Own::Nothing("NOTIFY")),
        "copy" => copy(words)?,
        "declare" => declare(sql, words),
        "fetch" => Some(fetch(words, true)?),
        "move" => Some(fetch(words, false)?),
        "close" => words.name().map(|name| Own::Close(Some(name).filter(|name| name != "all"))),
        _ => None,
    })
}

/// The end of a block, behind which none begins by itself: `COMMIT [WORK] [AND NO CHAIN]`.
fn end(mut words: Words, own: Own) -> Result<Own, PgError> {
    let _ = words.take("transaction") || words.take("work");
    if words.take_all("and chain") {
        let refusal = PgError::of("0A000", "AND CHAIN is not there: no block follows by itself");
        return Err(refusal.hint("end the block without it, and BEGIN the next"));
    }
    if words.take("prepared") {
        return Err(PgError::of("0A000", "no block is prepared to be ended later"));
    }
    Ok(own)
}

fn discard(mut words: Words) -> Option<Own> {
    Some(Own::Discard(match words.name()?.as_str() {
        "all" => Discarded::All,
        "temp" | "temporary" => Discarded::Temporary,
        "plans" => Discarded::Nothing("DISCARD PLANS"),
        "sequences" => Discarded::Nothing("DISCARD SEQUENCES"),
        _ => return None,
    }))
}

/// `DECLARE name … CURSOR … FOR query`.
fn declare(sql: &str, mut words: Words) -> Option<Own> {
    let name = words.name()?;
    let (mut has_cursor, mut is_held) = (false, false);
    loop {
        has_cursor |= words.take("cursor");
        is_held |= has_cursor && words.take_all("with hold");
        if has_cursor && words.take("for") {
            let query = sql.get(words.begin()?..)?.to_owned();
            return Some(Own::Declare { name, is_held, query });
        }
        words.next()?;
    }
}

/// `FETCH [FORWARD] [n | ALL | NEXT] [FROM | IN] name`.
fn fetch(mut words: Words, sends: bool) -> Result<Own, PgError> {
    let backward = || PgError::of("0A000", "cursors go forward only");
    let is_forward = words.take("forward");
    let rows = match words.peek().unwrap_or_default().to_ascii_lowercase().as_str() {
        "all" => {
            words.next();
            Some(0)
        }
        "next" => {
            words.next();
            Some(1)
        }
        "-" | "backward" | "prior" | "first" | "last" | "absolute" | "relative" => {
            return Err(backward());
        }
        number => match number.parse::<usize>() {
            Ok(0) => return Err(backward()),
            Ok(rows) => {
                words.next();
                Some(rows)
            }
            Err(_) if is_forward => Some(1),
            Err(_) => None,
        },
    };
    let _ = words.take("from") || words.take("in");
    let name = words.name().filter(|_| words.is_at_end());
    let name = name.ok_or_else(|| PgError::of("42601", "FETCH n FROM name is what is read"))?;
    Ok(Own::Fetch { name, rows: rows.unwrap_or(1), sends })
}

/// What a block may do.
fn mode(words: &mut Words) -> Mode {
    let mut mode = Mode::default();
    while words.peek().is_some() {
        if words.take_all("read only") {
            mode.read_only = Some(true);
        } else if words.take_all("read write") {
            mode.read_only = Some(false);
        } else if let Some(level) = LEVELS.into_iter().find(|level| words.take_all(level)) {
            mode.isolation = Some(level);
        } else {
            words.next();
        }
    }
    mode
}

/// A setting's name if it is one of PostgreSQL's, as which it has no points.
fn pg_name(name: String) -> Option<String> {
    super::settings::is_known(&name).then_some(name)
}

fn set(mut words: Words) -> Option<Own> {
    let of_session = words.take_all("session characteristics");
    if of_session || words.take("transaction") {
        return Some(Own::SetTransaction { mode: mode(&mut words), of_session });
    }
    let is_local = words.take("local");
    let _ = !is_local && words.take("session");
    if words.take("transaction") {
        return Some(Own::SetTransaction { mode: mode(&mut words), of_session: false });
    }
    let name = match words.take_all("time zone") {
        true => "timezone".to_owned(),
        false => {
            let name = if words.take("names") {
                "client_encoding".to_owned()
            } else {
                pg_name(words.name()?)?
            };
            let _ = words.take("=") || words.take("to");
            name
        }
    };
    if words.take("default") || (name == "timezone" && words.take("local")) {
        return Some(Own::Set { name, value: None, is_local });
    }
    let mut values = vec![words.value()?];
    while words.take(",") {
        values.push(words.value()?);
    }
    // A number with a point, say.
    while !words.is_at_end() {
        let more = words.value()?;
        values.last_mut()?.push_str(&more);
    }
    Some(Own::Set { name, value: Some(values.join(", ")), is_local })
}

fn show(mut words: Words) -> Option<Own> {
    if words.take_all("transaction isolation level") {
        return Some(Own::Show(Some("transaction_isolation".to_owned())));
    }
    if words.take_all("time zone") {
        return Some(Own::Show(Some("timezone".to_owned())));
    }
    let name = words.name().filter(|_| words.is_at_end())?;
    match name.as_str() {
        "all" => Some(Own::Show(None)),
        _ => pg_name(name).map(|name| Own::Show(Some(name))),
    }
}

fn copy(mut words: Words) -> Result<Option<Own>, PgError> {
    let _ = words.take("binary");
    let source = match words.parentheses() {
        Some(query) => Source::Query(query.to_owned()),
        None => {
            let Some(mut name) = words.name() else { return Ok(None) };
            while words.take(".") {
                let Some(table) = words.name() else { return Ok(None) };
                name = table;
            }
            let mut columns = Vec::new();
            if let Some(names) = words.parentheses() {
                let mut names = Words::of(names);
                while let Some(name) = names.name() {
                    columns.push(name);
                    names.take(",");
                }
            }
            Source::Table { name, columns }
        }
    };
    let is_in = words.take_all("from stdin");
    if !is_in && !words.take_all("to stdout") {
        return Ok(None);
    }
    let options = options(&mut words)?;
    let copy = Copy { source, options };
    match (is_in, &copy.source) {
        (true, Source::Query(_)) => Err(PgError::of("42601", "COPY fills a table, not a query")),
        (false, _) if copy.options.matches_header => {
            Err(PgError::of("0A000", "HEADER MATCH is for COPY FROM"))
        }
        (true, _) => Ok(Some(Own::CopyIn(copy))),
        (false, _) => Ok(Some(Own::CopyOut(copy))),
    }
}

/// The options of a COPY: `WITH (FORMAT csv, HEADER)`, or as they were before, `CSV HEADER`.
fn options(words: &mut Words) -> Result<Options, PgError> {
    let _ = words.take("with");
    let listed = words.parentheses();
    let mut words = listed.map_or_else(|| words.clone(), Words::of);
    let (mut format, mut has_header, mut matches_header) = (Format::Text, false, false);
    let mut quotes_all = false;
    let (mut delimiter, mut null, mut quote, mut escape) = (None, None, None, None);
    while let Some(word) = words.next() {
        let name = word.to_ascii_lowercase();
        let _ = words.take("as");
        match name.as_str() {
            "," => {}
            "format" => {
                let named = words.value().unwrap_or_default().to_ascii_lowercase();
                format = match named.as_str() {
                    "text" => Format::Text,
                    "csv" => Format::Csv,
                    "binary" => Format::Binary,
                    _ => {
                        let what = format!("COPY format '{named}' is not known");
                        return Err(PgError::of("22023", what));
                    }
                };
            }
            "csv" => format = Format::Csv,
            "binary" => format = Format::Binary,
            "header" => {
                let next = words.peek().map(str::to_ascii_lowercase);
                has_header = match next.as_deref() {
                    Some("false" | "off" | "0") => false,
                    Some("true" | "on" | "1" | "match") => {
                        matches_header = next.as_deref() == Some("match");
                        true
                    }
                    _ => {
                        has_header = true;
                        continue;
                    }
                };
                words.next();
            }
            "delimiter" => delimiter = Some(byte(&name, words.value())?),
            "quote" => quote = Some(byte(&name, words.value())?),
            "escape" => escape = Some(byte(&name, words.value())?),
            "null" => null = words.value(),
            "encoding" => {
                let value = words.value().unwrap_or_default();
                if !super::settings::is_utf8(&value) {
                    let what = format!("COPY in encoding {value}; only UTF8 is spoken");
                    return Err(PgError::of("0A000", what));
                }
            }
            "force_quote" if words.take("*") => quotes_all = true,
            "freeze" => {}
            _ => {
                let what = format!("COPY has no option {name}");
                return Err(PgError::of("0A000", what));
            }
        }
    }
    let is_csv = format == Format::Csv;
    let quote = quote.unwrap_or(b'"');
    Ok(Options {
        format,
        delimiter: delimiter.unwrap_or(if is_csv { b',' } else { b'\t' }),
        null: null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() }),
        has_header,
        matches_header,
        quote,
        escape: escape.unwrap_or(quote),
        quotes_all,
    })
}

fn byte(name: &str, value: Option<String>) -> Result<u8, PgError> {
    match value.unwrap_or_default().as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(PgError::of("22023", format!("COPY: {name} is one character of one byte"))),
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
