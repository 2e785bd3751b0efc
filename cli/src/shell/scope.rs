//! Which tables a statement names, and which of them can be meant where the cursor stands. This
//! is found out from the words, since a statement that is being typed cannot be parsed.

use stylobate::internal::sql::{Lexeme, LexemeKind};

use super::keywords::is_keyword;

/// What stands between two queries of which each has its own tables.
const SET_OPERATIONS: [&str; 3] = ["UNION", "EXCEPT", "INTERSECT"];

/// A table that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The schema before it, in lower case.
    pub(super) schema: Option<String>,
    /// The table, or the path of a file.
    pub(super) table: String,
    /// What the statement calls it.
    pub(super) alias: Option<String>,
    /// Whether it stands in quotes, so that its case counts.
    pub(super) is_quoted: bool,
}

impl Named {
    /// Whether a qualifier means this table.
    pub(super) fn is_called(&self, qualifier: &str) -> bool {
        let name = self.alias.as_deref().unwrap_or(&self.table);
        name.eq_ignore_ascii_case(qualifier)
    }
}

/// A word of a statement, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Word<'a> {
    pub(super) kind: LexemeKind,
    pub(super) text: &'a str,
    pub(super) start: usize,
    /// The parentheses around it, from the outermost, each by its number; and at last the number
    /// of the query among those that UNION and the like join there.
    path: Vec<usize>,
}

impl Word<'_> {
    /// Whether it is this keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.kind == LexemeKind::Word && self.text.eq_ignore_ascii_case(keyword)
    }

    /// Whether it is one of these keywords.
    pub(super) fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }
}

/// The words of the statement around `at`, without blanks and comments.
pub(super) fn words_around<'a>(text: &'a str, lexemes: &[Lexeme], at: usize) -> Vec<Word<'a>> {
    let is_end = |word: &&Lexeme| word.kind == LexemeKind::Semicolon;
    let before = lexemes.iter().filter(|word| word.range.end <= at).rfind(is_end);
    let start = before.map_or(0, |word| word.range.end);
    let after = lexemes.iter().filter(|word| word.range.start >= at).find(is_end);
    let end = after.map_or(text.len(), |word| word.range.start);
    let (mut path, mut count, mut words) = (vec![0], 0, Vec::new());
    for lexeme in lexemes.iter().filter(|word| word.range.start >= start && word.range.end <= end) {
        if matches!(lexeme.kind, LexemeKind::Blank | LexemeKind::Comment) {
            continue;
        }
        if lexeme.kind == LexemeKind::Close && path.len() > 1 {
            path.pop();
        }
        let word = Word {
            kind: lexeme.kind,
            text: text.get(lexeme.range.clone()).unwrap_or_default(),
            start: lexeme.range.start,
            path: path.clone(),
        };
        if word.is_any(&SET_OPERATIONS) {
            count += 1;
            path.pop();
            path.push(count);
        }
        if lexeme.kind == LexemeKind::Open {
            count += 1;
            path.push(count);
        }
        words.push(word);
    }
    words
}

/// The path of the query in which the cursor stands.
fn path_at(words: &[Word<'_>], at: usize) -> Vec<usize> {
    let Some(index) = words.iter().rposition(|word| word.start < at) else { return vec![0] };
    let Some(before) = words.get(index) else { return vec![0] };
    let next = words.get(index + 1).filter(|next| next.kind != LexemeKind::Close);
    let is_open = before.kind == LexemeKind::Open;
    match next {
        Some(next) if is_open || before.is_any(&SET_OPERATIONS) => next.path.clone(),
        _ if is_open => [before.path.as_slice(), &[usize::MAX]].concat(),
        _ => before.path.clone(),
    }
}

/// The tables that can be meant at `at`: those of the query around it first, then those of the
/// queries around that one.
pub(super) fn tables_at(words: &[Word<'_>], at: usize) -> Vec<Named> {
    let here = path_at(words, at);
    let mut found: Vec<(usize, Named)> = Vec::new();
    for index in 0..words.len() {
        let Some(word) = words.get(index) else { break };
        let begins = word.is_any(&["FROM", "JOIN", "INTO", "UPDATE", "DESCRIBE", "SUMMARIZE"]);
        if !begins || !here.starts_with(&word.path) {
            continue;
        }
        let mut next = index + 1;
        while let Some((named, after)) = table_from(words, next) {
            if !named.table.is_empty() {
                found.push((word.path.len(), named));
            }
            next = after;
            let is_comma = |word: &Word<'_>| word.kind == LexemeKind::Comma;
            if !word.is("FROM") || !words.get(next).is_some_and(is_comma) {
                break;
            }
            next += 1;
        }
    }
    found.sort_by_key(|(depth, _)| usize::MAX - depth);
    found.into_iter().map(|(_, named)| named).collect()
}

/// The table that begins at a word, and what follows it. A subquery has no name of a table.
fn table_from(words: &[Word<'_>], mut at: usize) -> Option<(Named, usize)> {
    while words.get(at)?.is_any(&["ONLY", "LATERAL", "TABLE", "OR", "REPLACE"]) {
        at += 1;
    }
    let first = words.get(at)?;
    let (table, is_quoted) = match first.kind {
        LexemeKind::Word if !is_keyword(first.text) => (first.text.to_owned(), false),
        LexemeKind::QuotedName => (unquoted(first.text, '"'), true),
        LexemeKind::Text => (unquoted(first.text, '\''), true),
        LexemeKind::Open => {
            let is_close =
                |word: &Word<'_>| word.kind == LexemeKind::Close && word.path == first.path;
            at += 1 + words.get(at + 1..)?.iter().position(is_close)?;
            (String::new(), false)
        }
        _ => return None,
    };
    at += 1;
    let mut table = table;
    let mut is_quoted = is_quoted;
    // Of `o.trips`, the last part names the table.
    let mut schema = None;
    while words.get(at).is_some_and(|word| word.kind == LexemeKind::Period) {
        let Some(part) = words.get(at + 1) else { break };
        let (last, quoted) = match part.kind {
            LexemeKind::QuotedName => (unquoted(part.text, '"'), true),
            LexemeKind::Word => (part.text.to_owned(), false),
            _ => break,
        };
        schema = Some(std::mem::replace(&mut table, last).to_lowercase());
        is_quoted = quoted;
        at += 2;
    }
    if words.get(at).is_some_and(|word| word.is("AS")) {
        at += 1;
    }
    let alias = words.get(at).and_then(|word| match word.kind {
        LexemeKind::Word if !is_keyword(word.text) => Some(word.text.to_owned()),
        LexemeKind::QuotedName => Some(unquoted(word.text, '"')),
        _ => None,
    });
    at += usize::from(alias.is_some());
    Some((Named { schema, table, alias, is_quoted }, at))
}

/// Names of queries that WITH defines.
pub(super) fn queries(words: &[Word<'_>]) -> Vec<String> {
    let named = |window: &[Word<'_>]| match window {
        [name, is, open] if is.is("AS") && open.kind == LexemeKind::Open => {
            (name.kind == LexemeKind::Word).then(|| name.text.to_owned())
        }
        _ => None,
    };
    match words.first().is_some_and(|word| word.is("WITH")) {
        true => words.windows(3).filter_map(named).collect(),
        false => Vec::new(),
    }
}

/// A name or text without its quotes.
pub(super) fn unquoted(text: &str, quote: char) -> String {
    let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).unwrap_or(text);
    inner.replace(&format!("{quote}{quote}"), &quote.to_string())
}

#[cfg(test)]
mod tests {
    use stylobate::internal::sql::lexemes;

    use super::*;

    /// The tables that can be meant at the `|` of a text.
    fn at_bar(text: &str) -> Vec<String> {
        let at = text.find('|').unwrap();
        let text = text.replace('|', "");
        let words = words_around(&text, &lexemes(&text), at);
        let show = |named: Named| match named.alias {
            Some(alias) => format!("{} {alias}", named.table),
            None => named.table,
        };
        tables_at(&words, at).into_iter().map(show).collect()
    }

    #[test]
    fn tables_are_found_before_and_after_the_cursor() {
        assert_eq!(at_bar("SELECT | FROM trips"), ["trips"]);
        assert_eq!(at_bar("SELECT a FROM trips t WHERE |"), ["trips t"]);
        assert_eq!(at_bar("SELECT | FROM a AS x, b y JOIN c ON TRUE"), ["a x", "b y", "c"]);
        assert_eq!(at_bar("SELECT | FROM \"My T\" AS \"m\", 'x.csv' f"), ["My T m", "x.csv f"]);
        assert_eq!(at_bar("FROM public.trips SELECT |"), ["trips"]);
        assert_eq!(at_bar("INSERT INTO t (|"), ["t"]);
        assert_eq!(at_bar("UPDATE t SET |"), ["t"]);
        assert_eq!(at_bar("SELECT 1 FROM a; SELECT | FROM b; SELECT 1 FROM c"), ["b"]);
        assert!(at_bar("SELECT |").is_empty());
    }

    #[test]
    fn only_queries_around_the_cursor_count() {
        assert_eq!(
            at_bar("SELECT a FROM t WHERE x IN (SELECT | FROM u) AND y IN (SELECT b FROM v)"),
            ["u", "t"]
        );
        assert_eq!(at_bar("SELECT | FROM (SELECT a FROM u) s, t"), ["t"]);
        assert_eq!(at_bar("SELECT a FROM t UNION SELECT | FROM u"), ["u"]);
        assert_eq!(at_bar("SELECT a FROM t WHERE x IN (SELECT |"), ["t"]);
    }

    #[test]
    fn queries_of_with_have_names() {
        let text = "WITH a AS (SELECT 1), b AS (SELECT 2) SELECT * FROM ";
        assert_eq!(queries(&words_around(text, &lexemes(text), text.len())), ["a", "b"]);
    }
}
