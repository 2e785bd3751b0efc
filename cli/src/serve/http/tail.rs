//! What stands behind a statement of ClickHouse's: FORMAT and SETTINGS.
//!
//! Where this stands on the road of a statement: within `statement`, before its words are put into
//! ours. FORMAT and SETTINGS come in either order; those of an INSERT stand before its rows or its
//! query, too.

use std::ops::Range;

use super::words::{Kind, ReadStatement, Token};

/// Which tokens of a text are the statement itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Where it ends.
    pub(super) end: usize,
    /// What is left out before that.
    pub(super) left_out: Range<usize>,
}

impl Tail {
    fn at(end: usize) -> Tail {
        Tail { end, left_out: 0..0 }
    }
}

/// A setting with its value.
type Setting = (String, String);

/// Finds where a statement ends, and reads what follows: FORMAT and SETTINGS.
pub(super) fn read(text: &str, tokens: &[Token], is_cut: bool, read: &mut ReadStatement) -> Tail {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    let is = |at: usize, expected: &str| word(at).eq_ignore_ascii_case(expected);
    let is_keyword = |at: usize, expected: &str| {
        tokens.get(at).is_some_and(|token| token.kind == Kind::Word) && is(at, expected)
    };
    let marks: Vec<usize> = marks_of(tokens);
    // Settings of an INSERT stand before this, and what they are of the tokens.
    let (mut from, mut left_out) = (0, 0..0);
    let begins = |at: &&usize| ["format", "values", "select"].iter().any(|it| is_keyword(**at, it));
    if marks.first().is_some_and(|first| is(*first, "insert"))
        && let Some(at) = marks.iter().find(begins).copied()
    {
        if is(at, "values") && is_cut {
            read.format = Some("Values".to_owned());
            read.rows_from = tokens.get(at).map(|token| token.range.end);
            return Tail::at(settings_before(text, tokens, 0..at, read));
        }
        // The rows follow, and are no words of SQL.
        if is(at, "format")
            && let Some(name) = marks.iter().find(|mark| **mark > at)
        {
            read.format = Some(word(*name).to_owned());
            let end = tokens.get(*name).map_or(text.len(), |token| token.range.end);
            read.rows_from = Some(begin_of_rows(text, end));
            return Tail::at(settings_before(text, tokens, 0..at, read));
        }
        from = at;
        left_out = settings_within(text, tokens, &marks, at, read);
    }
    let mut end = marks.len();
    while end > 0 && marks.get(end - 1).is_some_and(|at| word(*at) == ";") {
        end -= 1;
    }
    let mut ends_at = match marks.get(end.wrapping_sub(1)) {
        Some(last) => last + 1,
        None => tokens.len(),
    };
    // FORMAT stands before SETTINGS or behind.
    let mut named = format_before(text, tokens, &marks, ends_at);
    ends_at = named.as_ref().map_or(ends_at, |(_, begin)| *begin);
    let behind = ends_at;
    ends_at = settings_before(text, tokens, from..ends_at, read);
    if named.is_none() && ends_at < behind {
        named = format_before(text, tokens, &marks, ends_at);
        ends_at = named.as_ref().map_or(ends_at, |(_, begin)| *begin);
    }
    read.format = named.map(|(format, _)| format);
    Tail { end: ends_at, left_out }
}

/// The indices of all tokens except blanks and comments.
fn marks_of(tokens: &[Token]) -> Vec<usize> {
    let marks = tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Blank);
    marks.map(|(at, _)| at).collect()
}

/// Reads a `FORMAT name` that ends at `end` and stands behind something; also where it begins.
fn format_before(
    text: &str,
    tokens: &[Token],
    marks: &[usize],
    end: usize,
) -> Option<(String, usize)> {
    let before = marks.get(..marks.partition_point(|mark| *mark < end))?;
    let [_, .., begin, name] = *before else { return None };
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.range.clone()]);
    let is_format = word(begin).eq_ignore_ascii_case("format")
        && tokens.get(name).is_some_and(|token| token.kind == Kind::Word);
    is_format.then(|| (word(name).to_owned(), begin))
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

/// Reads `SETTINGS a = 1, b = 'x'` at the end of a range; returns where it begins.
fn settings_before(
    text: &str,
    tokens: &[Token],
    range: Range<usize>,
    read: &mut ReadStatement,
) -> usize {
    let word = |token: &Token| &text[token.range.clone()];
    let (from, end) = (range.start, range.end);
    let within = tokens.get(range).unwrap_or_default();
    let begin = within.iter().rposition(|token| is_settings(text, token));
    let Some(begin) = begin.map(|begin| from + begin) else { return end };
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
    read.settings.extend(found);
    begin
}

/// Reads SETTINGS of an INSERT, which stand behind its table and columns and before its VALUES or
/// its query, whose first keyword is at `until`; returns what they are of the tokens.
fn settings_within(
    text: &str,
    tokens: &[Token],
    marks: &[usize],
    until: usize,
    read: &mut ReadStatement,
) -> Range<usize> {
    let before = marks.iter().enumerate().take_while(|(_, at)| **at < until);
    let found = before
        .filter(|(_, at)| tokens.get(**at).is_some_and(|token| is_settings(text, token)))
        .find_map(|(begin, from)| {
            let (found, next) = settings(text, tokens, marks, begin + 1)?;
            let to = marks.get(next).filter(|to| **to <= until)?;
            Some((found, *from..*to))
        });
    let Some((found, range)) = found else { return 0..0 };
    read.settings.extend(found);
    range
}

fn is_settings(text: &str, token: &Token) -> bool {
    token.kind == Kind::Word && text[token.range.clone()].eq_ignore_ascii_case("settings")
}

/// Reads `a = 1, b = 'x'` from a mark on, as far as it goes; also the mark behind it.
fn settings(
    text: &str,
    tokens: &[Token],
    marks: &[usize],
    begin: usize,
) -> Option<(Vec<Setting>, usize)> {
    let token = |mark: usize| tokens.get(*marks.get(mark)?);
    let word = |mark: usize| token(mark).map_or("", |token| &text[token.range.clone()]);
    let is_value = |mark: usize| {
        token(mark).is_some_and(|token| matches!(token.kind, Kind::Word | Kind::Text))
    };
    let (mut found, mut at) = (Vec::new(), begin);
    loop {
        let name = word(at);
        let is_name = token(at).is_some_and(|token| token.kind == Kind::Word);
        if !is_name || word(at + 1) != "=" {
            return None;
        }
        at += 2;
        let mut value = String::new();
        if matches!(word(at), "-" | "+") {
            value.push_str(word(at));
            at += 1;
        }
        if !is_value(at) {
            return None;
        }
        value.push_str(word(at));
        at += 1;
        // A number with a point.
        if word(at) == "." && is_value(at + 1) {
            value.extend([".", word(at + 1)]);
            at += 2;
        }
        found.push((name.to_owned(), value.trim_matches('\'').to_owned()));
        if word(at) != "," {
            return Some((found, at));
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::statement::read;

    /// The statement itself, its format, and its settings.
    fn statement(text: &str) -> (String, Option<String>, String) {
        let found = read(text, &HashMap::new(), false).unwrap();
        let settings = found.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let settings = settings.collect::<Vec<_>>().join(" ");
        (found.sql.trim().to_owned(), found.format, settings)
    }

    #[test]
    fn format_and_settings_are_read() {
        let json = Some("JSON");
        for (text, sql, format, settings) in [
            ("SELECT 1 FORMAT JSON ;\n", "SELECT 1", json, ""),
            ("SELECT 1 SETTINGS a = 1, b='x' FORMAT JSON", "SELECT 1", json, "a=1 b=x"),
            ("SELECT 1 FORMAT JSON SETTINGS a = 0.5, b=-1;", "SELECT 1", json, "a=0.5 b=-1"),
            ("SELECT format FROM t", "SELECT format FROM t", None, ""),
            ("SELECT 'x FORMAT JSON'", "SELECT 'x FORMAT JSON'", None, ""),
            ("SELECT settings FROM t WHERE a = 1", "SELECT settings FROM t WHERE a = 1", None, ""),
            ("INSERT INTO t SETTINGS a=1 VALUES (1)", "INSERT INTO t VALUES (1)", None, "a=1"),
            (
                "INSERT INTO t (a, b) SETTINGS x=1, y='z' SELECT 1, 2",
                "INSERT INTO t (a, b) SELECT 1, 2",
                None,
                "x=1 y=z",
            ),
            (
                "INSERT INTO t SETTINGS x=1 WITH q AS (SELECT 1) SELECT * FROM q SETTINGS y=2",
                "INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q",
                None,
                "x=1 y=2",
            ),
            (
                "INSERT INTO settings SETTINGS a=1 VALUES (1)",
                "INSERT INTO settings VALUES (1)",
                None,
                "a=1",
            ),
            ("INSERT INTO settings VALUES (1)", "INSERT INTO settings VALUES (1)", None, ""),
            (
                "INSERT INTO settings (settings) SELECT 1",
                "INSERT INTO settings (settings) SELECT 1",
                None,
                "",
            ),
            ("INSERT INTO t SETTINGS a=1 FORMAT JSON", "INSERT INTO t", json, "a=1"),
        ] {
            let expected = (sql.to_owned(), format.map(str::to_owned), settings.to_owned());
            assert_eq!(statement(text), expected, "{text}");
        }
    }
}
