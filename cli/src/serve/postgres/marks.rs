//! The tokens of a statement, and what stands around each: for what is put right in its letters.

use super::words::{Kind, Token, text_of};

/// The tokens of a statement.
pub(super) struct Marks<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: &'t [Token],
    /// For each token that opens parentheses, these.
    parentheses: Vec<Option<Parentheses>>,
    /// For each token, the parentheses that it is in.
    within: Vec<Option<usize>>,
    /// For each token, whether it stands among the columns of a SELECT, and not in a call.
    are_columns: Vec<bool>,
    pub(super) is_about_catalogs: bool,
    /// Whether a catalog is named, or a function of them, with its schema or without.
    pub(super) names_catalogs: bool,
}

/// Keywords that may follow a table; any other word is its name.
const BEHIND_TABLES: [&str; 26] = [
    "anti",
    "cross",
    "except",
    "fetch",
    "for",
    "full",
    "group",
    "having",
    "inner",
    "intersect",
    "join",
    "left",
    "limit",
    "natural",
    "offset",
    "on",
    "order",
    "qualify",
    "returning",
    "right",
    "semi",
    "tablesample",
    "union",
    "using",
    "where",
    "window",
];

/// Keywords behind the columns of a SELECT; those of a clause of theirs end them, too.
const BEHIND_COLUMNS: [&str; 13] = [
    "except",
    "fetch",
    "from",
    "group",
    "having",
    "intersect",
    "limit",
    "offset",
    "order",
    "qualify",
    "union",
    "where",
    "window",
];

/// Parentheses that have an end.
#[derive(Clone, Copy)]
struct Parentheses {
    end: usize,
    /// The commas behind their first two arguments, if more follow.
    commas: [Option<usize>; 2],
}

impl<'t> Marks<'t> {
    pub(super) fn new(text: &'t str, tokens: &'t [Token]) -> Marks<'t> {
        let mut parentheses = vec![None; tokens.len()];
        let mut within = Vec::with_capacity(tokens.len());
        let mut open: Vec<(usize, [Option<usize>; 2])> = Vec::new();
        let mut are_columns = Vec::with_capacity(tokens.len());
        // For each parenthesis that is open, whether columns of a SELECT are in it.
        let mut clauses = vec![false];
        for (at, token) in tokens.iter().enumerate() {
            within.push(open.last().map(|(begin, _)| *begin));
            are_columns.push(clauses.last().copied().unwrap_or_default());
            let is = |word: &&str| text[token.range.clone()].eq_ignore_ascii_case(word);
            if let Some(clause) = clauses.last_mut().filter(|_| token.kind == Kind::Word) {
                *clause = (*clause || is(&"select")) && !BEHIND_COLUMNS.iter().any(is);
            }
            match &text[token.range.clone()] {
                "(" => clauses.push(false),
                ")" if clauses.len() > 1 => drop(clauses.pop()),
                _ => {}
            }
            match &text[token.range.clone()] {
                "(" => open.push((at, [None; 2])),
                "," => {
                    let commas = open.last_mut().map(|(_, commas)| commas.iter_mut());
                    if let Some(free) = commas.and_then(|mut all| all.find(|it| it.is_none())) {
                        *free = Some(at);
                    }
                }
                ")" => {
                    if let Some((begin, commas)) = open.pop()
                        && let Some(place) = parentheses.get_mut(begin)
                    {
                        *place = Some(Parentheses { end: at, commas });
                    }
                }
                _ => {}
            }
        }
        let word = |token: Option<&Token>| token.map_or("", |token| &text[token.range.clone()]);
        let is_catalog = |at: usize| {
            let name = word(tokens.get(at)).trim_matches('"');
            name.eq_ignore_ascii_case("pg_catalog") && word(tokens.get(at + 1)) == "."
        };
        let is_about_catalogs = (0..tokens.len()).any(is_catalog);
        let is_theirs = |token: &Token| {
            let begin = text[token.range.clone()].get(..3).unwrap_or_default();
            token.kind == Kind::Word && begin.eq_ignore_ascii_case("pg_")
        };
        let names_catalogs = tokens.iter().any(is_theirs);
        Marks { text, tokens, parentheses, within, are_columns, is_about_catalogs, names_catalogs }
    }

    pub(super) fn word(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| &self.text[token.range.clone()])
    }

    pub(super) fn name_at(&self, at: usize) -> String {
        self.word(at).to_ascii_lowercase()
    }

    /// The next token that is no blank, from here on.
    pub(super) fn after(&self, at: usize) -> &'t str {
        let mut rest = self.tokens.iter().enumerate().skip(at);
        rest.find(|(_, token)| token.kind != Kind::Blank).map_or("", |(at, _)| self.word(at))
    }

    /// The number of tokens of `tableoid`, with the name of its table or without.
    pub(super) fn system_column(&self, at: usize) -> Option<usize> {
        let is_it = |at: usize| self.word(at).eq_ignore_ascii_case("tableoid");
        match self.word(at + 1) {
            "." if is_it(at + 2) => Some(3),
            _ if is_it(at) => Some(1),
            _ => None,
        }
    }

    /// The last token that is no blank, before here.
    pub(super) fn before(&self, at: usize) -> &'t str {
        let mut all = self.tokens.iter().enumerate().take(at);
        let found = all.rfind(|(_, token)| token.kind != Kind::Blank);
        found.map_or("", |(at, _)| self.word(at))
    }

    /// Whether a token stands in the parentheses of a cast.
    pub(super) fn is_in_cast(&self, at: usize) -> bool {
        let begin = self.within.get(at).copied().flatten();
        let of = begin.map_or("", |begin| self.before(begin));
        of.eq_ignore_ascii_case("cast") || of.eq_ignore_ascii_case("try_cast")
    }

    /// The last word in parentheses that begin here.
    pub(super) fn last_within(&self, at: usize) -> &'t str {
        let end = self.parentheses.get(at).copied().flatten().map(|it| it.end);
        end.map_or("", |end| self.before(end))
    }

    /// Whether tokens are a column of an answer by themselves, without a name.
    pub(super) fn is_column(&self, at: usize, length: usize) -> bool {
        self.begins_column(at) && self.ends_column(at + length)
    }

    /// Whether tokens are a column of an answer by themselves, with a name or without.
    pub(super) fn is_column_with_name(&self, at: usize, length: usize) -> bool {
        let is_named = self.after(at + length).eq_ignore_ascii_case("as");
        self.begins_column(at) && (is_named || self.ends_column(at + length))
    }

    fn begins_column(&self, at: usize) -> bool {
        let before = match self.before(at) {
            "." => self.before(at.saturating_sub(2)),
            before => before,
        };
        (before.eq_ignore_ascii_case("select") || before == ",")
            && self.are_columns.get(at).copied().unwrap_or_default()
    }

    fn ends_column(&self, at: usize) -> bool {
        matches!(self.after(at).to_ascii_lowercase().as_str(), "" | "," | "from")
    }

    /// The length of `COLLATE "default"`, which changes nothing.
    pub(super) fn default_collation(&self, at: usize) -> Option<usize> {
        let names = ["default", "\"default\"", "C", "\"C\""];
        for length in 2..=5 {
            let word = self.word(at + length);
            if names.contains(&word) {
                return Some(length + 1);
            }
            if !matches!(word, "." | "pg_catalog" | " ") {
                return None;
            }
        }
        None
    }

    /// The first two arguments in parentheses that begin here, and how many tokens these have.
    pub(super) fn arguments(&self, at: usize) -> Option<(&'t str, Option<&'t str>, usize)> {
        let Parentheses { end, commas: [first, second] } = (*self.parentheses.get(at)?)?;
        let between = |begin: usize, end: usize| {
            let (begin, end) =
                (self.tokens.get(begin)?.range.end, self.tokens.get(end)?.range.start);
            self.text.get(begin..end)
        };
        let other = first.and_then(|first| between(first, second.unwrap_or(end)));
        Some((between(at, first.unwrap_or(end))?, other, end - at + 1))
    }

    /// The name that a name or a keyword here stands for.
    pub(super) fn plain_name(&self, at: usize) -> String {
        let word = self.word(at);
        match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => word.to_ascii_lowercase(),
        }
    }

    /// Whether a name begins here that has this schema.
    pub(super) fn is_in_schema(&self, at: usize, schema: &str) -> bool {
        self.word(at + 1) == "." && self.plain_name(at) == schema
    }

    /// The column with which the value here is compared.
    pub(super) fn compared_with(&self, at: usize) -> Option<&'t str> {
        let is_sign = |token: &&Token| {
            matches!(self.text.get(token.range.clone()), Some("=" | "<" | ">" | "!"))
        };
        let before = || self.tokens.get(..at).unwrap_or_default().iter().rev().take(8);
        let mut rest = before().filter(|token| token.kind != Kind::Blank).peekable();
        rest.peek().filter(|token| is_sign(token))?;
        let column = rest.find(|token| !is_sign(token))?;
        self.text.get(column.range.clone())
    }

    /// The name that a table gets behind here, if its columns get none.
    pub(super) fn alias_at(&self, at: usize) -> Option<String> {
        let is_word = |(_, token): &(usize, &Token)| token.kind != Kind::Blank;
        let mut rest = self.tokens.iter().enumerate().skip(at).filter(is_word);
        let mut next = || Some(rest.next()?.0);
        let name = match next()? {
            at if self.name_at(at) == "as" => next()?,
            at => at,
        };
        let is_alone = self.after(name + 1) != "(" && self.has_alias(name);
        is_alone.then(|| self.plain_name(name))
    }

    /// Whether a table whose name ends before here gets another name.
    pub(super) fn has_alias(&self, at: usize) -> bool {
        let mut rest = self.tokens.iter().skip(at);
        let Some(next) = rest.find(|token| token.kind != Kind::Blank) else { return false };
        let word = self.text.get(next.range.clone()).unwrap_or_default().to_ascii_lowercase();
        match next.kind {
            Kind::Name => true,
            Kind::Word => !BEHIND_TABLES.contains(&word.as_str()),
            _ => false,
        }
    }

    /// The operator in `OPERATOR(pg_catalog.~)`, and the number of tokens.
    pub(super) fn operator(&self, at: usize) -> Option<(&'t str, usize)> {
        if self.word(at + 1) != "(" {
            return None;
        }
        let end = (at + 2..at + 8).find(|end| self.word(*end) == ")")?;
        let begin = (at + 2..end).rfind(|begin| self.word(*begin) == ".")? + 1;
        let begin = self.tokens.get(begin)?.range.start;
        let operator = self.text.get(begin..self.tokens.get(end)?.range.start)?;
        Some((operator, end - at + 1))
    }

    /// Texts and keywords in parentheses that begin here, and how many tokens these have.
    pub(super) fn texts_in_parentheses(&self, at: usize) -> Option<(Vec<String>, usize)> {
        let mut found = Vec::new();
        for (length, token) in self.tokens.iter().skip(at + 1).enumerate() {
            let word = &self.text[token.range.clone()];
            match token.kind {
                Kind::Text => found.push(text_of(word)),
                Kind::Word => found.push(word.to_owned()),
                Kind::Blank => {}
                Kind::Sign if word == "," => {}
                Kind::Sign if word == ")" => return Some((found, length + 2)),
                _ => return None,
            }
        }
        None
    }
}
