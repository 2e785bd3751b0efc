//! The words of a text and where they stand, for programs that show or complete statements while
//! they are typed: the tokenizer is the one that statements are parsed with.

use std::ops::Range;

use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use crate::sql::syntax::dialect::StylobateDialect;

/// What a word of a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexemeKind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in double quotes.
    QuotedName,
    /// A number.
    Number,
    /// A literal in quotes of any kind.
    Text,
    /// A comment.
    Comment,
    /// White space.
    Blank,
    /// `;`.
    Semicolon,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `.`.
    Period,
    /// `,`.
    Comma,
    /// A parameter: `$name`.
    Parameter,
    /// Another operator or sign.
    Sign,
    /// A text, name or comment that has no end.
    Unfinished,
    /// What is no word of SQL, and all after it.
    Wrong,
}

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexeme {
    /// What it is.
    pub kind: LexemeKind,
    /// Its bytes.
    pub range: Range<usize>,
}

/// The words of a text. Together they are the whole text.
pub fn lexemes(sql: &str) -> Vec<Lexeme> {
    let dialect = StylobateDialect::new(sql.len());
    let mut tokens = Vec::new();
    let read = Tokenizer::new(&dialect, sql).tokenize_with_location_into_buf(&mut tokens);
    let mut found = Vec::with_capacity(tokens.len());
    let (mut start, mut line, mut column) = (0, 1, 1);
    let mut characters = sql.char_indices().peekable();
    for token in &tokens {
        let end = token.span.end;
        let mut at = start;
        while let Some((place, c)) = characters.peek().copied() {
            at = place;
            if (line, column) >= (end.line, end.column) {
                break;
            }
            characters.next();
            at = place + c.len_utf8();
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        if at > start {
            found.push(Lexeme { kind: kind_of(&token.token), range: start..at });
        }
        start = at;
    }
    if start < sql.len() {
        let unfinished = |text: String| {
            ["Unterminated", "Unexpected EOF", "before EOF"]
                .iter()
                .any(|words| text.contains(words))
        };
        let kind = match read {
            Err(error) if unfinished(error.to_string()) => LexemeKind::Unfinished,
            _ => LexemeKind::Wrong,
        };
        found.push(Lexeme { kind, range: start..sql.len() });
    }
    found
}

/// What a single literal in quotes stands for, also one with escapes (`E'…'`, `U&'…'`); `None` if
/// it is none, or has an escape that stands for nothing.
pub fn text_of_literal(literal: &str) -> Option<String> {
    let dialect = StylobateDialect::new(literal.len());
    match Tokenizer::new(&dialect, literal).tokenize().ok()?.as_slice() {
        [
            Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::UnicodeStringLiteral(text),
        ] => Some(text.clone()),
        _ => None,
    }
}

fn kind_of(token: &Token) -> LexemeKind {
    match token {
        Token::Word(word) if word.quote_style.is_some() => LexemeKind::QuotedName,
        Token::Word(_) => LexemeKind::Word,
        Token::Number(..) => LexemeKind::Number,
        Token::Whitespace(Whitespace::Space | Whitespace::Newline | Whitespace::Tab) => {
            LexemeKind::Blank
        }
        Token::Whitespace(_) => LexemeKind::Comment,
        Token::SemiColon => LexemeKind::Semicolon,
        Token::LParen => LexemeKind::Open,
        Token::RParen => LexemeKind::Close,
        Token::Period => LexemeKind::Period,
        Token::Comma => LexemeKind::Comma,
        Token::Placeholder(_) => LexemeKind::Parameter,
        Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::TripleSingleQuotedString(_)
        | Token::TripleDoubleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::SingleQuotedByteStringLiteral(_)
        | Token::DoubleQuotedByteStringLiteral(_)
        | Token::TripleSingleQuotedByteStringLiteral(_)
        | Token::TripleDoubleQuotedByteStringLiteral(_)
        | Token::SingleQuotedRawStringLiteral(_)
        | Token::DoubleQuotedRawStringLiteral(_)
        | Token::TripleSingleQuotedRawStringLiteral(_)
        | Token::TripleDoubleQuotedRawStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::QuoteDelimitedStringLiteral(_)
        | Token::NationalQuoteDelimitedStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_) => LexemeKind::Text,
        _ => LexemeKind::Sign,
    }
}

/// Longer and deeper texts are not parsed to find out whether they are complete.
const MAX_PARSED: usize = 64 << 10;
const MAX_NESTING: usize = 50;

/// Whether a text is nothing but whole statements, each with its `;`. A statement that cannot be
/// parsed is whole, unless it is its end that is missing.
pub fn is_complete(sql: &str) -> bool {
    let found = lexemes(sql);
    let mut words = found
        .iter()
        .rev()
        .filter(|word| !matches!(word.kind, LexemeKind::Blank | LexemeKind::Comment));
    match words.next().map(|word| word.kind) {
        None | Some(LexemeKind::Wrong) => return true,
        Some(LexemeKind::Semicolon) => {}
        Some(_) => return false,
    }
    if sql.len() > MAX_PARSED {
        return true;
    }
    let dialect = StylobateDialect::new(sql.len());
    let parsed = DFParserBuilder::new(sql)
        .with_dialect(&dialect)
        .with_recursion_limit(MAX_NESTING)
        .build()
        .and_then(|mut parser| parser.parse_statements());
    // Within a block, a `;` ends no statement, and the parser looks for the end of the block.
    !parsed.is_err_and(|error| error.to_string().contains("found: EOF"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn words_are_the_whole_text() {
        for sql in [
            "",
            "SELECT a, \"B c\" FROM 'x.csv' WHERE n >= 1.5e3 -- why\n/* é */ AND t.x = $p;",
            "SELECT 'é\n\n', $$a;b$$ ;\r\n\tFROM t",
            "SELECT 'open",
            "x /* open",
            "a \"open",
        ] {
            let found = lexemes(sql);
            let whole: String = found.iter().map(|word| &sql[word.range.clone()]).collect();
            assert_eq!(whole, sql);
        }
        let sql = "SELECT é, 'ü;' FROM t -- x\n;";
        let kinds: Vec<(LexemeKind, &str)> = lexemes(sql)
            .into_iter()
            .filter(|word| word.kind != LexemeKind::Blank)
            .map(|word| (word.kind, &sql[word.range]))
            .collect();
        assert_eq!(kinds[1], (LexemeKind::Word, "é"));
        assert_eq!(kinds[3], (LexemeKind::Text, "'ü;'"));
        assert_eq!(kinds[6].0, LexemeKind::Comment);
        assert_eq!(kinds[7], (LexemeKind::Semicolon, ";"));
    }

    #[test]
    fn a_statement_is_complete_with_its_semicolon() {
        for complete in [
            "",
            "SELECT 1;",
            "SELECT 1; -- and so\n",
            "SELECT ';';",
            "SELECT 1; SELECT 2;",
            "BEGIN;",
            "SELECT (1;",
            "SELEC 1;",
            "SELECT CASE WHEN a THEN 1 END;",
        ] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in [
            "SELECT 1",
            "SELECT ';",
            "SELECT 1 -- ;",
            "SELECT 1 /* ;",
            "SELECT $$ ;",
            "SELECT \"a;",
            "SELECT 1; SELECT 2",
            "IF a THEN SELECT 1;",
            "CASE a WHEN 1 THEN SELECT 1;",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }
}
