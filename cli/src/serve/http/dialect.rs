//! What ClickHouse's statements have and SQL here has not, as far as it can be said in other words.
//!
//! Where this stands on the road of a statement: before `statement` reads it. ENGINE and what
//! stands behind it in CREATE TABLE is checked and left out, because tables here are of one kind;
//! a list behind IN is put in parentheses, and an array that comes beside the statement is compared
//! item by item; what says when a dropped table goes is left out; `Nullable(…)` and
//! `LowCardinality(…)` are what is inside them, because any value may be null; `Int8` is a byte,
//! which it is not in other systems; and the names that AS gives to columns keep their letters.

use std::borrow::Cow;
use std::ops::Range;

use super::errors::HttpError;
use super::system;
use super::words::{Kind, Token, tokens};

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
    let may_have = |part: &&str| text.contains(part);
    let drops = first.get(..4).is_some_and(|first| first.eq_ignore_ascii_case("drop"));
    if first.eq_ignore_ascii_case("insert")
        || !(creates
            || drops
            || ["[", "Int8", "Nullable(", "LowCardinality(", "revision(", "Array("]
                .iter()
                .any(may_have)
            || may_have_aliases(text))
    {
        return Ok(Cow::Borrowed(text));
    }
    let tokens = tokens(text, false);
    let statement = Statement::new(text, &tokens);
    let mut changes = statement.lists();
    changes.extend(statement.arrays());
    changes.extend(statement.bytes(creates));
    changes.extend(statement.wrappers());
    changes.extend(statement.aliases());
    changes.extend(statement.revision());
    if creates {
        changes.extend(statement.engine()?);
        changes.extend(statement.own_database());
    }
    if drops {
        changes.extend(statement.when_dropped());
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
        written.push_str(&new);
        at = range.end;
    }
    written.push_str(&text[at..]);
    Ok(Cow::Owned(written))
}

/// Whether a capital letter may stand in the name that AS gives to something.
fn may_have_aliases(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    while words.by_ref().any(|word| word.eq_ignore_ascii_case("as")) {
        let name = words.clone().next().unwrap_or_default();
        if name.contains(char::is_uppercase) {
            return true;
        }
    }
    false
}

/// A part of the text, and what to put in its place.
type Change = (Range<usize>, Cow<'static, str>);

/// A statement without its blanks.
struct Statement<'t> {
    text: &'t str,
    marks: Vec<&'t Token>,
    /// For each mark that opens a parenthesis or a bracket, the one that closes it.
    ends: Vec<Option<usize>>,
}

impl<'t> Statement<'t> {
    fn new(text: &'t str, tokens: &'t [Token]) -> Self {
        let marks: Vec<&Token> = tokens.iter().filter(|it| it.kind != Kind::Blank).collect();
        let mut ends = vec![None; marks.len()];
        let (mut parentheses, mut brackets) = (Vec::new(), Vec::new());
        for (at, token) in marks.iter().enumerate() {
            let begin = match &text[token.range.clone()] {
                "(" => {
                    parentheses.push(at);
                    None
                }
                "[" => {
                    brackets.push(at);
                    None
                }
                ")" => parentheses.pop(),
                "]" => brackets.pop(),
                _ => None,
            };
            if let Some(begin) = begin {
                ends[begin] = Some(at);
            }
        }
        Statement { text, marks, ends }
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

    /// The mark that closes what one opens.
    fn end_of(&self, begin: usize) -> Option<usize> {
        self.ends.get(begin).copied().flatten()
    }

    fn range(&self, at: usize) -> Range<usize> {
        self.marks.get(at).map_or(0..0, |token| token.range.clone())
    }

    /// `IN [1, 2]` and `IN ([1, 2])` → `IN (1, 2)`.
    fn lists(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for begin in (0..self.marks.len()).filter(|at| self.word(*at) == "[") {
            let Some(end) = self.end_of(begin) else { continue };
            let before = self.before(begin);
            let new = match before {
                "(" if begin > 1
                    && self.before(begin - 1).eq_ignore_ascii_case("in")
                    && self.word(end + 1) == ")" =>
                {
                    ["", ""]
                }
                _ if before.eq_ignore_ascii_case("in") => ["(", ")"],
                _ => continue,
            };
            changes.push((self.range(begin), new[0].into()));
            changes.push((self.range(end), new[1].into()));
        }
        changes
    }

    /// `IN {x:Array(T)}`, also with parentheses → `= ANY({x:Array(T)})`; NOT IN → `<> ALL(…)`.
    fn arrays(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (at, token) in self.marks.iter().enumerate() {
            let data_type = self.word(at).split_once(':').map_or("", |(_, it)| it.trim_start());
            if token.kind != Kind::Parameter || !data_type.starts_with("Array(") {
                continue;
            }
            let has_parentheses = self.before(at) == "(" && self.word(at + 1) == ")";
            let operator = at.checked_sub(1 + usize::from(has_parentheses));
            let Some(operator) = operator.filter(|at| self.is(*at, "in")) else { continue };
            let (begin, new) = match self.before(operator).eq_ignore_ascii_case("not") {
                true => (operator - 1, "<> ALL"),
                false => (operator, "= ANY"),
            };
            changes.push((self.range(begin).start..self.range(operator).end, new.into()));
            if !has_parentheses {
                changes.push((self.range(at), format!("({})", self.word(at)).into()));
            }
        }
        changes
    }

    /// `CREATE DATABASE … default` → `public`, its name here.
    fn own_database(&self) -> Option<Change> {
        let last = (0..self.marks.len()).rfind(|at| self.word(*at) != ";")?;
        let is_default = self.word(last).trim_matches(['`', '"']) == "default";
        (self.is(1, "database") && is_default).then(|| (self.range(last), "public".into()))
    }

    /// `SYNC` or `NO DELAY` at the end of DROP: a table is gone at once in any case.
    fn when_dropped(&self) -> Option<Change> {
        let end = (0..self.marks.len()).rfind(|at| self.word(*at) != ";")?;
        let begin = match self.is(end, "delay") && self.before(end).eq_ignore_ascii_case("no") {
            true => end.checked_sub(1)?,
            false if self.is(end, "sync") => end,
            false => return None,
        };
        // It may be the name of the table.
        let is_name = ["table", "view", "exists", ".", ","]
            .iter()
            .any(|before| self.before(begin).eq_ignore_ascii_case(before));
        (!is_name).then(|| (self.range(begin).start..self.range(end).end, "".into()))
    }

    /// `revision()`, which clients read as a number of this type.
    fn revision(&self) -> Vec<Change> {
        let is_call = |at: &usize| {
            self.word(*at) == "revision" && self.word(at + 1) == "(" && self.word(at + 2) == ")"
        };
        let number = || format!("CAST({} AS UINTEGER)", system::REVISION).into();
        let calls = (0..self.marks.len()).filter(is_call);
        calls.map(|at| (self.range(at).start..self.range(at + 2).end, number())).collect()
    }

    /// `Nullable(T)` → `T`.
    fn wrappers(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for at in 0..self.marks.len() {
            let is_wrapper = matches!(self.word(at), "Nullable" | "LowCardinality");
            if !is_wrapper || self.word(at + 1) != "(" {
                continue;
            }
            if let Some(end) = self.end_of(at + 1) {
                changes.extend([at, at + 1, end].map(|at| (self.range(at), "".into())));
            }
        }
        changes
    }

    /// `AS Name` of a column → `AS "Name"`: its name in the answer is in these letters, which SQL
    /// elsewhere does not keep.
    fn aliases(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        // For each parenthesis that is open, whether the columns of a SELECT are in it. The type of
        // a CAST is in one of its own.
        let mut are_columns = vec![false];
        for (at, token) in self.marks.iter().enumerate() {
            match self.word(at) {
                "(" => are_columns.push(false),
                ")" if are_columns.len() > 1 => drop(are_columns.pop()),
                _ if token.kind != Kind::Word => {}
                _ => {
                    let Some(are_columns) = are_columns.last_mut() else { continue };
                    *are_columns = (*are_columns || self.is(at, "select")) && !self.is(at, "from");
                    let next = self.marks.get(at + 1);
                    let name = self.word(at + 1);
                    if *are_columns
                        && self.is(at, "as")
                        && next.is_some_and(|next| next.kind == Kind::Word)
                        && name.contains(char::is_uppercase)
                    {
                        changes.push((self.range(at + 1), format!("\"{name}\"").into()));
                    }
                }
            }
        }
        changes
    }

    /// `Int8` where it is a type → TINYINT.
    fn bytes(&self, creates: bool) -> Vec<Change> {
        let is_type = |at: usize| {
            let Some(last) = at.checked_sub(1) else { return false };
            let of_column = || {
                let kind = self.marks.get(last).map(|token| token.kind);
                creates && matches!(kind, Some(Kind::Word | Kind::Name))
            };
            match self.word(last) {
                ":" => self.before(last) == ":",
                "(" => matches!(self.before(last), "Nullable" | "LowCardinality"),
                word if word.eq_ignore_ascii_case("as") => self.word(at + 1) == ")",
                _ => of_column(),
            }
        };
        let all = self.marks.iter().enumerate();
        let found = all.filter(|(at, token)| {
            token.kind == Kind::Word && self.word(*at) == "Int8" && is_type(*at)
        });
        found.map(|(_, token)| (token.range.clone(), "TINYINT".into())).collect()
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
        Ok((start..end, "".into()))
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
            ("create table t (a Nullable(Int8)) engine=Log;", "create table t (a TINYINT) ;"),
            ("CREATE DATABASE IF NOT EXISTS `default`", "CREATE DATABASE IF NOT EXISTS public"),
        ] {
            assert_eq!(rewrite(text).unwrap(), expected);
        }
        let code = |text: &str| rewrite(text).unwrap_err().code;
        assert_eq!(code("CREATE TABLE t (a INT) ENGINE = SummingMergeTree ORDER BY a"), 56);
        assert_eq!(code("CREATE TABLE t (a INT) ENGINE = MergeTree ORDER BY a TTL d + 1"), 48);
    }

    #[test]
    fn lists_types_and_names() {
        for (text, expected) in [
            ("SELECT a IN [1, [2][1]], [3]", "SELECT a IN (1, [2][1]), [3]"),
            ("SELECT a IN ([1, 2]), b IN ([1], 2)", "SELECT a IN (1, 2), b IN ([1], 2)"),
            (
                "SELECT CAST(NULL AS LowCardinality(Nullable(String))), 'Nullable(x)'",
                "SELECT CAST(NULL AS String), 'Nullable(x)'",
            ),
            (
                "SELECT a AS userId, CAST(a AS String), (SELECT 1 AS B) FROM t AS T WHERE userId",
                "SELECT a AS \"userId\", CAST(a AS String), (SELECT 1 AS \"B\") FROM t AS T WHERE \
                 userId",
            ),
            ("SELECT 'IN [1]', a IN [", "SELECT 'IN [1]', a IN ["),
            (
                "SELECT CAST(1 AS Int8), 1::Int8, \"Int8\" [",
                "SELECT CAST(1 AS TINYINT), 1::TINYINT, \"Int8\" [",
            ),
            ("INSERT INTO t VALUES (1 IN [1])", "INSERT INTO t VALUES (1 IN [1])"),
            ("SELECT a]] IN [1", "SELECT a]] IN [1"),
            (
                "SELECT a FROM t WHERE a IN {x:Array(Int32)} AND b not in ({y: Array(String)})",
                "SELECT a FROM t WHERE a = ANY ({x:Array(Int32)}) AND b <> ALL ({y: Array(String)})",
            ),
            (
                "SELECT a IN ({x:Array(Int32)}, 1), {in:Array(Int32)}",
                "SELECT a IN ({x:Array(Int32)}, 1), {in:Array(Int32)}",
            ),
            ("DROP TABLE IF EXISTS t SYNC;", "DROP TABLE IF EXISTS t ;"),
            ("drop view v no delay", "drop view v "),
            ("DROP TABLE sync", "DROP TABLE sync"),
            ("DROP TABLE IF EXISTS default.sync", "DROP TABLE IF EXISTS default.sync"),
        ] {
            assert_eq!(rewrite(text).unwrap(), expected);
        }
    }

    #[test]
    fn a_statement_of_any_depth_is_read_in_little_time() {
        for part in ["[", "IN [", "Nullable(", "(", "Nullable(a) [1] AS B, "] {
            let text = format!("SELECT {}", part.repeat(100_000));
            assert!(rewrite(&text).unwrap().len() >= 100_000);
        }
    }
}
