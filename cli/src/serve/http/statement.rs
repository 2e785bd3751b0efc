//! From a statement as ClickHouse's clients write it to one of ours.
//!
//! What differs in the letters is put right here: texts with backslashes, names in backticks,
//! `{name:Type}` for values that come beside the statement, the database `default`, and what stands
//! behind a statement, FORMAT and SETTINGS (`tail`). What a statement means is not looked at.

use std::collections::HashMap;

use super::errors::HttpError;
use super::system;
use super::tail::{self, Tail};
use super::words::{Kind, ReadStatement, Token, is_word, tokens};
use crate::errors::Failure;
use crate::serve::clickhouse::rows_in;
use crate::serve::clickhouse::types::Type;
use crate::serve::query_log;

/// Reads a statement. `values` are those of its parameters, by name. If the text is cut, it is too
/// long for a statement, and what follows the VALUES of an INSERT are rows, as behind a FORMAT.
pub(crate) fn read(
    text: &str,
    values: &HashMap<String, String>,
    is_cut: bool,
) -> Result<ReadStatement, HttpError> {
    let tokens = tokens(text, is_cut);
    let mut read = ReadStatement::default();
    let Tail { end, left_out: settings } = tail::read(text, &tokens, is_cut, &mut read);
    let rows = values_of_insert(text, &tokens);
    let mut left_out = 0;
    for (at, token) in tokens.iter().take(end).enumerate() {
        let word = &text[token.range.clone()];
        if at < left_out || settings.contains(&at) {
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
            // The parser reads the escapes of these, which are others.
            Kind::Text if has_prefix(text, &tokens, at) => read.sql.push_str(word),
            Kind::Text => push_text(&unescaped(&word[1..word.len() - 1], b'\'')?, &mut read.sql),
            Kind::Name => push_name(word, &mut read.sql)?,
            Kind::Parameter => push_parameter(word, values, &mut read)?,
            Kind::Word if is_own_database(text, &tokens, at) => read.sql.push_str("public"),
            Kind::Word if rows.is_some_and(|rows| at > rows) && is_no_number(word) => {
                read.sql.push_str(&format!("CAST('{word}' AS DOUBLE)"));
            }
            Kind::Blank if word.starts_with('#') => read.sql.push('\n'),
            Kind::Word | Kind::Blank | Kind::Sign => read.sql.push_str(word),
        }
    }
    Ok(read)
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

/// Whether a text has `E` or `U&` before it.
fn has_prefix(text: &str, tokens: &[Token], at: usize) -> bool {
    let before = |places: usize| {
        let token = at.checked_sub(places).and_then(|at| tokens.get(at));
        token.map_or("", |token| &text[token.range.clone()])
    };
    match before(1) {
        "e" | "E" => true,
        "&" => matches!(before(2), "u" | "U"),
        _ => false,
    }
}

/// Whether a word is the name of the database before that of a table.
fn is_own_database(text: &str, tokens: &[Token], at: usize) -> bool {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    let after_period = at > 0 && word(at - 1) == ".";
    word(at) == "default" && word(at + 1) == "." && !after_period
}

/// The place of VALUES in an INSERT, behind which there are no columns.
fn values_of_insert(text: &str, tokens: &[Token]) -> Option<usize> {
    let is = |token: &Token, word: &str| text[token.range.clone()].eq_ignore_ascii_case(word);
    let mut marks = tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Blank);
    marks.next().filter(|(_, first)| is(first, "insert"))?;
    let (at, found) = marks.find(|(_, token)| is(token, "values") || is(token, "select"))?;
    is(found, "values").then_some(at)
}

/// Whether a word is a literal of ClickHouse's for a float that no digits spell.
fn is_no_number(word: &str) -> bool {
    ["inf", "infinity", "nan"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn push_text(text: &str, sql: &mut String) {
    sql.push('\'');
    sql.push_str(&text.replace('\'', "''"));
    sql.push('\'');
}

fn push_name(word: &str, sql: &mut String) -> Result<(), HttpError> {
    let quote = if word.starts_with('`') { b'`' } else { b'"' };
    let name = unescaped(&word[1..word.len() - 1], quote)?;
    match name.as_str() {
        "default" if quote == b'`' => sql.push_str("public"),
        _ => {
            sql.push('"');
            sql.push_str(&name.replace('"', "\"\""));
            sql.push('"');
        }
    }
    Ok(())
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
        return push_name(&format!("\"{}\"", value.replace('"', "\"\"")), &mut read.sql);
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

/// A text without the escapes of ClickHouse: backslashes, and quotes that are doubled.
fn unescaped(text: &str, quote: u8) -> Result<String, HttpError> {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b'\\' => at = rows_in::unescape(bytes, at, &mut plain),
            byte => {
                plain.push(byte);
                // The second of two quotes is left out.
                at += if byte == quote { 2 } else { 1 };
            }
        }
    }
    let wrong =
        |_| HttpError::of(36, format!("the escapes of '{text}' are bytes that are no UTF-8"));
    String::from_utf8(plain).map_err(wrong)
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
            ("SELECT 'a\\\nb\\\tc\\d'", "SELECT 'a\nb\tc\\d'"),
            ("SELECT `a b`, \"c\", `x\\`y`", "SELECT \"a b\", \"c\", \"x`y\""),
            ("SELECT * FROM default.t, `default`.`t`", "SELECT * FROM public.t, public.\"t\""),
            ("SELECT a.default.b", "SELECT a.default.b"),
            ("SELECT 1 -- 'x\n, 2", "SELECT 1 -- 'x\n, 2"),
            ("SELECT 1 # it's\n, 2", "SELECT 1 \n\n, 2"),
            ("SELECT 'open", "SELECT 'open"),
            (r"SELECT E'a\\n\'', 'a\\'", r"SELECT E'a\\n\'', 'a\'"),
            (r"SELECT '\x41\xc3\xa9\x4', 'a\=b'", r"SELECT 'Aé\x4', 'a=b'"),
            ("SELECT inf FROM nan", "SELECT inf FROM nan"),
            (
                "insert into t (nan) values (inf, -NaN), ('inf', 1)",
                "insert into t (nan) values (CAST('inf' AS DOUBLE), -CAST('NaN' AS DOUBLE)), \
                 ('inf', 1)",
            ),
            (r"SELECT U&'\0041', u &'\\'", r"SELECT U&'\0041', u &'\'"),
            ("SELECT 1 /* /* 'x */ ' */, 2", "SELECT 1 /* /* 'x */ ' */, 2"),
            ("SELECT 1 /* /* 'x */ ' */", "SELECT 1"),
            ("SELECT {a: 1}", "SELECT {a: 1}"),
            ("SELECT 'grün' AS größe;", "SELECT 'grün' AS größe"),
        ] {
            assert_eq!(sql(theirs), ours, "{theirs}");
        }
        let error = read(r"SELECT 'a\xff'", &HashMap::new(), false).unwrap_err();
        assert!(error.message.contains("no UTF-8"), "{}", error.message);
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
        let wrong = read("SELECT {n:UUID}", &values, false).unwrap_err();
        assert!(wrong.code == 36 && wrong.message.contains("is no UUID"), "{}", wrong.message);
        assert!(read("SELECT {n:Array(", &values, false).unwrap().sql.contains("{n:Array("));
    }
}
