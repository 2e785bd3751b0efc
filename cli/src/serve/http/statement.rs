//! From a statement as ClickHouse's clients write it to one of ours.
//!
//! What differs in the letters is put right here: texts with backslashes, names in backticks,
//! `{name:Type}` for values that come beside the statement, the database `default`, and what stands
//! behind a statement, FORMAT and SETTINGS. What a statement means is not looked at.

use std::collections::HashMap;
use std::ops::Range;

use stylobate::Parameters;

use super::errors::HttpError;
use super::system;
use crate::errors::Failure;
use crate::serve::clickhouse::rows_in;
use crate::serve::clickhouse::types::Type;
use crate::serve::query_log;

/// A statement of a client, in our words.
#[derive(Debug, Default)]
pub(crate) struct ReadStatement {
    pub(crate) sql: String,
    /// The format after FORMAT.
    pub(crate) format: Option<String>,
    /// The values of `{name:Type}`.
    pub(crate) parameters: Parameters,
    /// Settings after SETTINGS.
    pub(crate) settings: Vec<(String, String)>,
    /// An INSERT whose rows follow its FORMAT: where they begin in the text.
    pub(crate) rows_from: Option<usize>,
    /// Tables of the database `system` that it reads; in `sql`, they have a prefix.
    pub(crate) system: Vec<String>,
}

/// A word of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    /// In single quotes.
    Text,
    /// In double quotes or backticks.
    Name,
    /// `{name:Type}`.
    Parameter,
    /// A blank or a comment.
    Blank,
    Sign,
}

/// Reads a statement. `values` are those of its parameters, by name. If the text is cut, it is too
/// long for a statement, and what follows the VALUES of an INSERT are rows, as behind a FORMAT.
pub(crate) fn read(
    text: &str,
    values: &HashMap<String, String>,
    is_cut: bool,
) -> Result<ReadStatement, HttpError> {
    let tokens = tokens(text, is_cut);
    let mut read = ReadStatement::default();
    let end = tail(text, &tokens, is_cut, &mut read);
    let mut left_out = 0;
    for (at, token) in tokens.iter().take(end).enumerate() {
        let word = &text[token.range.clone()];
        if at < left_out {
            continue;
        }
        if let Some((known, length)) = system_table(text, &tokens, at) {
            left_out = at + length;
            read.sql.push_str(&system::place_of(known));
            read.system.extend((known != query_log::TABLE).then(|| known.to_owned()));
            continue;
        }
        if let Some(value) = of_server(text, &tokens, at) {
            push_text(value, &mut read.sql);
            left_out = at + 3;
            continue;
        }
        match token.kind {
            Kind::Text => {
                push_text(&unescaped(&word[1..word.len() - 1], Some('\'')), &mut read.sql)
            }
            Kind::Name => push_name(word, &mut read.sql),
            Kind::Parameter => push_parameter(word, values, &mut read)?,
            Kind::Word if is_own_database(text, &tokens, at) => read.sql.push_str("public"),
            Kind::Blank if word.starts_with('#') => read.sql.push('\n'),
            Kind::Word | Kind::Blank | Kind::Sign => read.sql.push_str(word),
        }
    }
    Ok(read)
}

/// Where the statement itself ends, before FORMAT and SETTINGS, which are read.
fn tail(text: &str, tokens: &[Token], is_cut: bool, read: &mut ReadStatement) -> usize {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    let is = |at: usize, expected: &str| word(at).eq_ignore_ascii_case(expected);
    let mut marks = tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Blank);
    let inserts = marks.clone().next().is_some_and(|(at, _)| is(at, "insert"));
    if inserts {
        // The rows follow, and are no words of SQL.
        let format = marks.clone().find(|(at, token)| {
            token.kind == Kind::Word
                && ["format", "values", "select"].iter().any(|end| is(*at, end))
        });
        if let Some((at, token)) = format.filter(|(at, _)| is_cut && is(*at, "values")) {
            read.format = Some("Values".to_owned());
            read.rows_from = Some(token.range.end);
            return settings_before(text, tokens, at, read);
        }
        if let Some((at, _)) = format.filter(|(at, _)| is(*at, "format"))
            && let Some((name, token)) = marks.find(|(next, _)| *next > at)
        {
            read.format = Some(word(name).to_owned());
            read.rows_from = Some(begin_of_rows(text, token.range.end));
            return settings_before(text, tokens, at, read);
        }
    }
    let significant: Vec<usize> = marks_of(tokens);
    let mut end = significant.len();
    while end > 0 && significant.get(end - 1).is_some_and(|at| word(*at) == ";") {
        end -= 1;
    }
    let mut ends_at = match significant.get(end.wrapping_sub(1)) {
        Some(last) => last + 1,
        None => tokens.len(),
    };
    if end >= 3
        && let [.., before, name] = significant[..end]
        && is(before, "format")
        && tokens[name].kind == Kind::Word
    {
        read.format = Some(word(name).to_owned());
        ends_at = before;
    }
    settings_before(text, tokens, ends_at, read)
}

/// Where rows begin behind the name of their format: after blanks, and a line break.
fn begin_of_rows(text: &str, end: usize) -> usize {
    let bytes = text.as_bytes();
    let blanks = |at: usize| bytes.get(at).is_some_and(|byte| b" \t\x0c".contains(byte));
    let mut at = end;
    while blanks(at) {
        at += 1;
    }
    at += usize::from(bytes.get(at) == Some(&b'\r'));
    at + usize::from(bytes.get(at) == Some(&b'\n'))
}

/// The places of the tokens that are no blanks.
fn marks_of(tokens: &[Token]) -> Vec<usize> {
    let marks = tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Blank);
    marks.map(|(at, _)| at).collect()
}

/// Reads `SETTINGS a = 1, b = 'x'` that ends at `end`; returns where it begins.
fn settings_before(text: &str, tokens: &[Token], end: usize, read: &mut ReadStatement) -> usize {
    let word = |token: &Token| &text[token.range.clone()];
    let begin = tokens.iter().take(end).rposition(|token| {
        token.kind == Kind::Word && word(token).eq_ignore_ascii_case("settings")
    });
    let Some(begin) = begin else { return end };
    let marks: Vec<&Token> = tokens.get(begin + 1..end).unwrap_or_default().iter().collect();
    let marks: Vec<&Token> = marks.into_iter().filter(|token| token.kind != Kind::Blank).collect();
    let mut found = Vec::new();
    for setting in marks.split(|token| word(token) == ",") {
        match setting {
            [name, equals, value @ ..]
                if name.kind == Kind::Word && word(equals) == "=" && !value.is_empty() =>
            {
                let value: String = value.iter().map(|token| word(token)).collect();
                found.push((word(name).to_owned(), value.trim_matches('\'').to_owned()));
            }
            // A column of this name, or something else that only looks like it.
            _ => return end,
        }
    }
    read.settings = found;
    begin
}

/// A table of the database `system` that begins here, and how many tokens its name has.
fn system_table<'t>(text: &'t str, tokens: &[Token], at: usize) -> Option<(&'t str, usize)> {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    let bare = |at: usize| word(at).trim_matches(['"', '`']);
    let after_period = at > 0 && word(at - 1) == ".";
    let is_table = bare(at) == "system" && word(at + 1) == "." && !after_period;
    let name = bare(at + 2);
    (is_table && name.bytes().all(|byte| is_word(&byte)) && !name.is_empty()).then_some((name, 3))
}

/// What a function without arguments tells of the server.
fn of_server(text: &str, tokens: &[Token], at: usize) -> Option<&'static str> {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    if word(at + 1) != "(" || word(at + 2) != ")" {
        return None;
    }
    Some(match word(at) {
        "version" => system::VERSION,
        "revision" => system::REVISION,
        "timezone" | "serverTimezone" | "serverTimeZone" | "timeZone" => "UTC",
        "displayName" | "hostName" | "hostname" => system::NAME,
        "currentDatabase" => "default",
        _ => return None,
    })
}

/// Whether a word is the name of the database before that of a table.
fn is_own_database(text: &str, tokens: &[Token], at: usize) -> bool {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    let after_period = at > 0 && word(at - 1) == ".";
    word(at) == "default" && word(at + 1) == "." && !after_period
}

fn push_text(text: &str, sql: &mut String) {
    sql.push('\'');
    sql.push_str(&text.replace('\'', "''"));
    sql.push('\'');
}

fn push_name(word: &str, sql: &mut String) {
    let quote = if word.starts_with('`') { '`' } else { '"' };
    let name = unescaped(&word[1..word.len() - 1], Some(quote));
    match name.as_str() {
        "default" if quote == '`' => sql.push_str("public"),
        _ => {
            sql.push('"');
            sql.push_str(&name.replace('"', "\"\""));
            sql.push('"');
        }
    }
}

/// `{name:Type}` as a parameter, whose value has that type.
fn push_parameter(
    word: &str,
    values: &HashMap<String, String>,
    read: &mut ReadStatement,
) -> Result<(), HttpError> {
    let inner = word.trim_start_matches('{').trim_end_matches('}');
    let (name, data_type) = inner.split_once(':').unwrap_or((inner, "String"));
    let (name, data_type) = (name.trim(), data_type.trim());
    let value = values.get(name).ok_or_else(|| {
        HttpError::of(456, format!("{{{name}:{data_type}}} has no value; add param_{name}=…"))
    })?;
    if data_type == "Identifier" {
        push_name(&format!("\"{}\"", value.replace('"', "\"\"")), &mut read.sql);
        return Ok(());
    }
    let refused = |failure: Failure| {
        let code = if failure.code == "unsupported" { 50 } else { 36 };
        HttpError::of(code, format!("parameter {name}: {}", failure.message))
    };
    let data_type = Type::parse(data_type).map_err(refused)?;
    let value = rows_in::parameter(&data_type, value.as_bytes()).map_err(refused)?;
    let added = read.parameters.set_first_of(name, &value);
    added.map_err(|error| HttpError::of(36, error.to_string()))?;
    read.sql.push_str(&format!("${name}"));
    Ok(())
}

/// A text without the escapes of ClickHouse: backslashes, and quotes that are doubled, if it was in
/// quotes.
fn unescaped(text: &str, quote: Option<char>) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('r') => plain.push('\r'),
                Some('b') => plain.push('\u{8}'),
                Some('f') => plain.push('\u{c}'),
                Some('0') => plain.push('\0'),
                Some('a') => plain.push('\u{7}'),
                Some('v') => plain.push('\u{b}'),
                Some(other @ ('\\' | '\'' | '"' | '`' | '/' | '=')) => plain.push(other),
                // ClickHouse keeps the backslash before what it does not know.
                Some(other) => plain.extend(['\\', other]),
                None => plain.push('\\'),
            },
            c if Some(c) == quote => {
                plain.push(c);
                // The second of two.
                rest.next();
            }
            c => plain.push(c),
        }
    }
    plain
}

/// The most bytes of a parameter with its type.
const MOST_PARAMETER: usize = 1024;

/// The words of a statement; together they are the text.
pub(super) fn tokens(text: &str, is_cut: bool) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::<Token>::new(), 0);
    // Rows follow the FORMAT of an INSERT, and are no words.
    let mut insert = Insert::Unknown;
    // What begins with a quote that has no end is looked for once.
    let mut unclosed = Vec::new();
    let mut ends = |rest: &[u8], quote: u8| match unclosed.contains(&quote) {
        true => None,
        false => quoted(rest, quote).or_else(|| {
            unclosed.push(quote);
            None
        }),
    };
    while let Some(first) = bytes.get(at).filter(|_| insert != Insert::Rows) {
        let rest = &bytes[at..];
        let (kind, length) = match first {
            b'\'' => ends(rest, b'\'').map_or((Kind::Sign, 1), |length| (Kind::Text, length)),
            b'`' | b'"' => ends(rest, *first).map_or((Kind::Sign, 1), |it| (Kind::Name, it)),
            b'-' if rest.starts_with(b"--") => (Kind::Blank, line(rest)),
            b'#' if rest.starts_with(b"# ") || rest.starts_with(b"#!") => (Kind::Blank, line(rest)),
            b'/' if rest.starts_with(b"/*") => (Kind::Blank, comment(rest)),
            b'{' => parameter(rest).map_or((Kind::Sign, 1), |it| (Kind::Parameter, it)),
            byte if byte.is_ascii_whitespace() => (Kind::Blank, run(rest, u8::is_ascii_whitespace)),
            byte if is_word(byte) => (Kind::Word, run(rest, is_word)),
            _ => (Kind::Sign, 1),
        };
        if kind != Kind::Blank {
            insert = insert.after(&text[at..at + length], is_cut);
        }
        found.push(Token { kind, range: at..at + length });
        at += length;
    }
    found
}

/// How far the words of an INSERT have come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Insert {
    Unknown,
    /// It is another statement, or one whose rows are SQL.
    No,
    Begun,
    Format,
    Rows,
}

impl Insert {
    fn after(self, word: &str, is_cut: bool) -> Insert {
        let is = |expected: &str| word.eq_ignore_ascii_case(expected);
        match self {
            Insert::Unknown if is("insert") => Insert::Begun,
            Insert::Unknown => Insert::No,
            Insert::Begun if is("format") => Insert::Format,
            Insert::Begun if is("values") && is_cut => Insert::Rows,
            Insert::Begun if is("values") || is("select") => Insert::No,
            Insert::Format => Insert::Rows,
            as_it_was => as_it_was,
        }
    }
}

/// Letters, digits, underscores, and all that is not ASCII.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80
}

fn run(bytes: &[u8], holds: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| holds(byte)).count()
}

fn line(bytes: &[u8]) -> usize {
    run(bytes, |byte| *byte != b'\n')
}

fn comment(bytes: &[u8]) -> usize {
    let end = bytes.windows(2).skip(2).position(|pair| pair == b"*/");
    end.map_or(bytes.len(), |end| end + 4)
}

/// The length of something in quotes; `None` if it has no end.
fn quoted(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            byte if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The length of `{name:Type}`, in which there is no other brace.
fn parameter(bytes: &[u8]) -> Option<usize> {
    let mut within = bytes.iter().take(MOST_PARAMETER).skip(1);
    let end = within.position(|byte| matches!(byte, b'{' | b'}'))? + 1;
    if bytes.get(end) != Some(&b'}') {
        return None;
    }
    let inner = std::str::from_utf8(bytes.get(1..end)?).ok()?;
    let (name, data_type) = inner.split_once(':')?;
    let name = name.trim();
    let is_type = |c: char| c.is_ascii_alphanumeric() || " _(),'\"/".contains(c);
    let is_parameter = !name.is_empty()
        && name.bytes().all(|byte| is_word(&byte))
        && data_type.trim().starts_with(|c: char| c.is_ascii_alphabetic())
        && data_type.chars().all(is_type);
    is_parameter.then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(text: &str) -> String {
        read(text, &HashMap::new(), false).unwrap().sql
    }

    #[test]
    fn letters_are_put_right() {
        for (theirs, ours) in [
            ("SELECT 'it\\'s', 'a''b', '\\\\', '\\n'", "SELECT 'it''s', 'a''b', '\\', '\n'"),
            ("SELECT `a b`, \"c\", `x\\`y`", "SELECT \"a b\", \"c\", \"x`y\""),
            ("SELECT * FROM default.t, `default`.`t`", "SELECT * FROM public.t, public.\"t\""),
            ("SELECT a.default.b", "SELECT a.default.b"),
            ("SELECT 1 -- 'x\n, 2", "SELECT 1 -- 'x\n, 2"),
            ("SELECT 1 # it's\n, 2", "SELECT 1 \n\n, 2"),
            ("SELECT 'open", "SELECT 'open"),
            ("SELECT {a: 1}", "SELECT {a: 1}"),
            ("SELECT 'grün' AS größe;", "SELECT 'grün' AS größe"),
        ] {
            assert_eq!(sql(theirs), ours, "{theirs}");
        }
    }

    #[test]
    fn what_is_asked_of_the_server_is_found() {
        let text = "SELECT version(), name FROM system.tables";
        let found = read(text, &HashMap::new(), false).unwrap();
        assert_eq!(found.sql, "SELECT '24.8.1.1', name FROM sty__system_tables");
        assert_eq!(found.system, ["tables"]);
        assert_eq!(sql("SELECT a.system.b, version (x)"), "SELECT a.system.b, version (x)");
        assert_eq!(sql("SELECT 1 FROM system.query_log"), "SELECT 1 FROM public.query_log");
    }

    #[test]
    fn format_and_settings_are_read() {
        let statement = |text: &str| {
            read(text, &HashMap::new(), false).map(|it| (it.sql, it.format, it.settings))
        };
        let settings = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let native = Some("Native".to_owned());
        let (sql, format, found) = statement("SELECT 1 FORMAT Native ;\n").unwrap();
        assert_eq!((sql.trim(), format, found), ("SELECT 1", native.clone(), Vec::new()));
        let (sql, format, found) =
            statement("SELECT 1 SETTINGS a = 1, b='x' FORMAT Native").unwrap();
        assert_eq!(sql.trim(), "SELECT 1");
        assert_eq!((format, found), (native, settings(&[("a", "1"), ("b", "x")])));
        let (sql, format, _) = statement("SELECT format FROM t").unwrap();
        assert_eq!((sql.as_str(), format), ("SELECT format FROM t", None));
        let (sql, format, _) = statement("SELECT 'x FORMAT JSON'").unwrap();
        assert_eq!((sql.as_str(), format), ("SELECT 'x FORMAT JSON'", None));
        let (sql, _, found) = statement("SELECT settings FROM t WHERE a = 1").unwrap();
        assert_eq!((sql.as_str(), found), ("SELECT settings FROM t WHERE a = 1", Vec::new()));
    }

    #[test]
    fn rows_follow_an_insert() {
        let text = "INSERT INTO t (a, b) FORMAT TSV\n1\t2\n";
        let found = read(text, &HashMap::new(), false).unwrap();
        let expected = ("INSERT INTO t (a, b)", Some("TSV"));
        assert_eq!((found.sql.trim(), found.format.as_deref()), expected);
        assert_eq!(&text[found.rows_from.unwrap()..], "1\t2\n");
        let found = read("INSERT INTO t VALUES (1, 'FORMAT x')", &HashMap::new(), false).unwrap();
        assert_eq!(
            (found.sql.as_str(), found.rows_from),
            ("INSERT INTO t VALUES (1, 'FORMAT x')", None)
        );
        let found = read("INSERT INTO t SELECT 1 FORMAT Native", &HashMap::new(), false).unwrap();
        assert_eq!((found.sql.trim(), found.rows_from), ("INSERT INTO t SELECT 1", None));
    }

    #[test]
    fn parameters_are_values_of_their_type() {
        let values = [("n", "5"), ("s", "it's\\tso"), ("t", "trips"), ("z", "\\N")];
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let values: HashMap<String, String> = values.collect();
        let text = "SELECT {n:UInt8}, {s:String}, {z:Nullable(Int32)} FROM {t:Identifier}";
        let found = read(text, &values, false).unwrap();
        assert_eq!(found.sql, "SELECT $n, $s, $z FROM \"trips\"");
        let error = read("SELECT {x:Int8}", &values, false).unwrap_err();
        assert!(error.message.contains("param_x"), "{}", error.message);
        assert!(read("SELECT {n:Array(Int8)}", &values, false).is_err());
        assert!(read("SELECT {n:Array(", &values, false).unwrap().sql.contains("{n:Array("));
    }
}
