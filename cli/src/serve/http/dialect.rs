//! What ClickHouse's statements have and SQL here has not, as far as it can be said in other words.
//!
//! Where this stands on the road of a statement: before `statement` reads it. ENGINE and what stands
//! behind it in CREATE TABLE is checked and left out, because tables here are of one kind; a list
//! behind IN is put in parentheses; and `Int8` is a byte, which it is not in other systems.

use std::borrow::Cow;
use std::ops::Range;

use super::errors::HttpError;
use super::statement::{Kind, Token, tokens};

/// Engines whose tables hold the rows that were put in, as tables here do.
const ENGINES: [&str; 7] = [
    "MergeTree",
    "SharedMergeTree",
    "ReplicatedMergeTree",
    "Memory",
    "Log",
    "TinyLog",
    "StripeLog",
];

/// A statement in words that `statement` reads.
pub(super) fn rewrite(text: &str) -> Result<Cow<'_, str>, HttpError> {
    let first = text.trim_start().get(..6).unwrap_or_default();
    let creates = first.eq_ignore_ascii_case("create");
    // Most statements have nothing of it, and are not taken apart.
    if first.eq_ignore_ascii_case("insert")
        || !(creates || text.contains("Int8") || text.contains('['))
    {
        return Ok(Cow::Borrowed(text));
    }
    let tokens = tokens(text);
    let statement = Statement::new(text, &tokens);
    let mut changes = statement.lists();
    changes.extend(statement.bytes(creates));
    if creates {
        changes.extend(statement.engine()?);
    }
    changes.retain(|(range, _)| !range.is_empty());
    changes.sort_by_key(|(range, _)| range.start);
    let (mut written, mut at) = (String::with_capacity(text.len()), 0);
    for (range, new) in changes {
        // Nothing within what is left out counts.
        if range.start < at {
            continue;
        }
        written.push_str(&text[at..range.start]);
        written.push_str(new);
        at = range.end;
    }
    written.push_str(&text[at..]);
    Ok(Cow::Owned(written))
}

/// A part of the text, and what to put in its place.
type Change = (Range<usize>, &'static str);

/// A statement without its blanks.
struct Statement<'t> {
    text: &'t str,
    marks: Vec<&'t Token>,
}

impl<'t> Statement<'t> {
    fn new(text: &'t str, tokens: &'t [Token]) -> Self {
        let marks = tokens.iter().filter(|token| token.kind != Kind::Blank).collect();
        Statement { text, marks }
    }

    fn word(&self, at: usize) -> &'t str {
        self.marks.get(at).map_or("", |token| &self.text[token.range.clone()])
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.word(at).eq_ignore_ascii_case(word)
    }

    /// The mark before one; the first has none.
    fn before(&self, at: usize) -> &'t str {
        at.checked_sub(1).map_or("", |before| self.word(before))
    }

    /// `IN [1, 2]` → `IN (1, 2)`.
    fn lists(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (at, token) in self.marks.iter().enumerate() {
            if self.word(at) != "[" || !self.before(at).eq_ignore_ascii_case("in") {
                continue;
            }
            let mut depth = 0_usize;
            for (end, last) in self.marks.iter().enumerate().skip(at) {
                match self.word(end) {
                    "[" => depth += 1,
                    "]" => depth -= 1,
                    _ => continue,
                }
                if depth == 0 {
                    changes.push((token.range.clone(), "("));
                    changes.push((last.range.clone(), ")"));
                    break;
                }
            }
        }
        changes
    }

    /// `Int8` where it is a type → TINYINT.
    fn bytes(&self, creates: bool) -> Vec<Change> {
        let is_type = |at: usize| {
            let before = self.before(at);
            let of_column = at > 0
                && matches!(
                    self.marks.get(at - 1).map(|it| it.kind),
                    Some(Kind::Word | Kind::Name)
                );
            before.eq_ignore_ascii_case("as") || matches!(before, ":" | "(") || creates && of_column
        };
        let all = self.marks.iter().enumerate();
        let found = all.filter(|(at, token)| {
            token.kind == Kind::Word && self.word(*at) == "Int8" && is_type(*at)
        });
        found.map(|(_, token)| (token.range.clone(), "TINYINT")).collect()
    }

    /// `ENGINE = …` with what follows it, up to AS or the end.
    fn engine(&self) -> Result<Option<Change>, HttpError> {
        let mut depth = 0_usize;
        let mut begin = None;
        for (at, token) in self.marks.iter().enumerate() {
            match self.word(at) {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > 0 || token.kind == Kind::Text {
                continue;
            }
            match begin {
                None if self.is(at, "engine") => begin = Some(at),
                None if self.is(at, "select") => return Ok(None),
                None => {}
                Some(begin) if self.is(at, "as") || self.word(at) == ";" => {
                    return self.left_out(begin, token.range.start).map(Some);
                }
                Some(_) if self.is(at, "ttl") => {
                    return Err(HttpError::of(48, "rows have no TTL here; leave it out"));
                }
                Some(_) => {}
            }
        }
        begin.map(|begin| self.left_out(begin, self.text.len())).transpose()
    }

    fn left_out(&self, begin: usize, end: usize) -> Result<Change, HttpError> {
        let name = self.word(begin + 1 + usize::from(self.word(begin + 1) == "="));
        if !ENGINES.contains(&name) {
            let what = format!(
                "there is no engine {name}; tables are of one kind here, which ENGINE = MergeTree \
                 stands for"
            );
            return Err(HttpError::of(56, what));
        }
        let start = self.marks.get(begin).map_or(end, |token| token.range.start);
        Ok((start..end, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_left_out() {
        for (text, expected) in [
            (
                "CREATE TABLE t (a UInt8, engine Int8) ENGINE = MergeTree() ORDER BY (a, b)",
                "CREATE TABLE t (a UInt8, engine TINYINT) ",
            ),
            (
                "CREATE TABLE t ENGINE Memory AS SELECT 1 AS engine",
                "CREATE TABLE t AS SELECT 1 AS engine",
            ),
            ("CREATE TABLE t AS SELECT engine FROM u", "CREATE TABLE t AS SELECT engine FROM u"),
            (
                "create table t (a Nullable(Int8)) engine=Log;",
                "create table t (a Nullable(TINYINT)) ;",
            ),
        ] {
            assert_eq!(rewrite(text).unwrap(), expected);
        }
        let code = |text: &str| rewrite(text).unwrap_err().code;
        assert_eq!(code("CREATE TABLE t (a INT) ENGINE = SummingMergeTree ORDER BY a"), 56);
        assert_eq!(code("CREATE TABLE t (a INT) ENGINE = MergeTree ORDER BY a TTL d + 1"), 48);
    }

    #[test]
    fn lists_and_bytes() {
        for (text, expected) in [
            ("SELECT a IN [1, [2][1]], [3]", "SELECT a IN (1, [2][1]), [3]"),
            ("SELECT 'IN [1]', a IN [", "SELECT 'IN [1]', a IN ["),
            (
                "SELECT CAST(1 AS Int8), 1::Int8, \"Int8\" [",
                "SELECT CAST(1 AS TINYINT), 1::TINYINT, \"Int8\" [",
            ),
            ("INSERT INTO t VALUES (1 IN [1])", "INSERT INTO t VALUES (1 IN [1])"),
            ("SELECT a]] IN [1", "SELECT a]] IN [1"),
        ] {
            assert_eq!(rewrite(text).unwrap(), expected);
        }
    }
}
