//! The words of a statement as ClickHouse's clients write it, and what is read of it.

use std::ops::Range;

use stylobate::Parameters;

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
pub(super) fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80
}

fn run(bytes: &[u8], holds: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| holds(byte)).count()
}

fn line(bytes: &[u8]) -> usize {
    run(bytes, |byte| *byte != b'\n')
}

/// The length of a comment, in which there may be others.
fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0_usize, 0_usize);
    while let Some(pair) = bytes.get(at..at + 2) {
        match pair {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    bytes.len()
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
