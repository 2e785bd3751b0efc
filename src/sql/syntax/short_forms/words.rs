//! What the short forms need of a text of tokens without blanks.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

/// A part of the text, and what is to stand in its place.
pub(super) type Replacement = (std::ops::Range<usize>, Vec<TokenWithSpan>);

/// Words after which a word such as `isnull` is a name, and no operator.
pub(super) const BEFORE_NAMES: [&str; 28] = [
    "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "COLUMN", "DESCRIBE", "DISTINCT", "ELSE",
    "EXISTS", "FROM", "HAVING", "IN", "INTO", "JOIN", "LIKE", "NOT", "ON", "OR", "QUALIFY",
    "SELECT", "SET", "TABLE", "THEN", "UPDATE", "WHEN", "WHERE",
];

/// Whether a token is this word, unquoted, in any case.
pub(super) fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    unquoted(token).is_some_and(|value| value.eq_ignore_ascii_case(word))
}

/// Whether a token is one of these words.
pub(super) fn is_one_of(token: Option<&TokenWithSpan>, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

/// The text of a token that is an unquoted word.
pub(super) fn unquoted(token: Option<&TokenWithSpan>) -> Option<&str> {
    match token.map(|token| &token.token) {
        Some(Token::Word(Word { value, quote_style: None, .. })) => Some(value),
        _ => None,
    }
}

/// Whether a token is this sign.
pub(super) fn is_sign(token: Option<&TokenWithSpan>, sign: &Token) -> bool {
    token.is_some_and(|token| token.token == *sign)
}

/// A word of ours, at a place of the statement.
pub(super) fn word(value: &str, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(Token::make_word(value, None), span)
}

/// A sign of ours.
pub(super) fn sign(sign: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(sign, span)
}

/// A text in single quotes.
pub(super) fn text_literal(value: &str, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(Token::SingleQuotedString(value.to_owned()), span)
}

/// Words and signs of ours, written with blanks between them.
pub(super) fn words(text: &str, span: Span) -> Vec<TokenWithSpan> {
    let one = |part: &str| match part {
        "(" => sign(Token::LParen, span),
        ")" => sign(Token::RParen, span),
        "," => sign(Token::Comma, span),
        "*" => sign(Token::Mul, span),
        "=>" => sign(Token::RArrow, span),
        other => word(other, span),
    };
    text.split(' ').map(one).collect()
}

/// The place of a token.
pub(super) fn span_of(text: &[TokenWithSpan], at: usize) -> Span {
    text.get(at).map_or(Span::empty(), |token| token.span)
}

/// The first token from `from` on, at the same depth of parentheses, for which `ends` is true; or
/// the parenthesis that closes around it, the end of the statement, or the end of the text.
pub(super) fn find(
    text: &[TokenWithSpan],
    from: usize,
    ends: impl Fn(&TokenWithSpan) -> bool,
) -> usize {
    let mut depth = 0_usize;
    for (at, token) in text.iter().enumerate().skip(from) {
        match token.token {
            _ if depth == 0 && ends(token) => return at,
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return at,
            },
            Token::SemiColon | Token::EOF if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The parenthesis that belongs to a closing one.
pub(super) fn opening(text: &[TokenWithSpan], closing: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..=closing).rev() {
        match text.get(at)?.token {
            Token::RParen => depth += 1,
            Token::LParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a query may begin at a token.
pub(super) fn begins_query(text: &[TokenWithSpan], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    let token = text.get(before);
    match token.map(|token| &token.token) {
        Some(Token::SemiColon | Token::LParen) => true,
        // The end of a WITH query.
        Some(Token::RParen) => {
            let around = opening(text, before).and_then(|open| open.checked_sub(1));
            around.is_some_and(|at| is_one_of(text.get(at), &["AS", "MATERIALIZED"]))
        }
        _ => is_one_of(
            token,
            &[
                "AS",
                "UNION",
                "ALL",
                "EXCEPT",
                "INTERSECT",
                "EXPLAIN",
                "ANALYZE",
                "VERBOSE",
                "DESCRIBE",
                "MATERIALIZED",
            ],
        ),
    }
}

/// Whether a statement begins at a token.
pub(super) fn begins_statement(text: &[TokenWithSpan], at: usize) -> bool {
    at.checked_sub(1).is_none_or(|before| {
        is_sign(text.get(before), &Token::SemiColon)
            || is_one_of(text.get(before), &["EXPLAIN", "ANALYZE"])
    })
}

/// Whether a token can begin the name of a table, or a query in parentheses.
pub(super) fn begins_table(token: Option<&TokenWithSpan>) -> bool {
    const OTHERS: [&str; 18] = [
        "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "AND", "OR", "IS", "IN", "NOT",
        "LIKE", "BETWEEN", "AS", "ON", "USING", "UNION", "END",
    ];
    match token.map(|token| &token.token) {
        Some(Token::Word(_)) => !is_one_of(token, &OTHERS),
        Some(Token::SingleQuotedString(_) | Token::LParen) => true,
        _ => false,
    }
}

/// The parts of a text between commas at its depth.
pub(super) fn split(text: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let (mut parts, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let to = find(text, from, |token| token.token == Token::Comma).max(from);
        parts.push(text.get(from..to).unwrap_or_default());
        from = to + 1;
    }
    parts
}
