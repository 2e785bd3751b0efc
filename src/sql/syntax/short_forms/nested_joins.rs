//! `a JOIN b JOIN c ON … ON …` as `a JOIN (b JOIN c ON …) ON …`: as in the standard, a condition
//! belongs to the last JOIN before it that has none yet.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_one_of, is_word, sign};

/// A JOIN whose condition is still to come.
struct Open {
    /// Where its right side begins.
    right: usize,
    /// Whether there are other joins in its right side.
    is_nested: bool,
}

/// Words that end what is joined.
const ENDS: [&str; 14] = [
    "EXCEPT",
    "FETCH",
    "FROM",
    "GROUP",
    "HAVING",
    "INTERSECT",
    "LIMIT",
    "OFFSET",
    "ORDER",
    "QUALIFY",
    "SELECT",
    "SET",
    "UNION",
    "WHERE",
];

/// The text with joins in the right sides of others in parentheses.
pub(super) fn in_parentheses(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let joins = tokens.iter().filter(|token| is_word(Some(token), "JOIN"));
    if joins.take(2).count() < 2 {
        return tokens;
    }
    let mut added = parentheses(&tokens);
    if added.is_empty() {
        return tokens;
    }
    added.sort_unstable_by_key(|(at, _)| *at);
    let mut added = added.into_iter().peekable();
    let mut text = Vec::with_capacity(tokens.len() + added.len());
    for (at, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        while let Some((_, parenthesis)) = added.next_if(|(place, _)| *place == at) {
            text.push(sign(parenthesis, span));
        }
        text.push(token);
    }
    text
}

/// The parentheses that are missing, each before a token.
fn parentheses(tokens: &[TokenWithSpan]) -> Vec<(usize, Token)> {
    let mut added = Vec::new();
    // The joins that wait, for each level of parentheses.
    let mut levels: Vec<Vec<Open>> = vec![Vec::new()];
    // Whether the next JOIN has no condition.
    let mut has_none = false;
    let is_blank = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| !is_blank(token)) {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => levels.push(Vec::new()),
            Token::RParen | Token::RBracket | Token::RBrace if levels.len() > 1 => {
                levels.pop();
            }
            _ => {}
        }
        let Some(open) = levels.last_mut() else { continue };
        let token = Some(token);
        if is_word(token, "JOIN") {
            if let Some(around) = open.last_mut() {
                around.is_nested = true;
            }
            if !std::mem::take(&mut has_none) {
                open.push(Open { right: at + 1, is_nested: false });
            }
        } else if is_one_of(token, &["CROSS", "NATURAL", "ARRAY"]) {
            has_none = true;
        } else if is_one_of(token, &["ON", "USING"]) {
            if let Some(Open { right, is_nested: true }) = open.pop() {
                added.push((right, Token::LParen));
                added.push((at, Token::RParen));
            }
        } else if is_one_of(token, &ENDS)
            || matches!(tokens.get(at).map(|one| &one.token), Some(Token::Comma | Token::SemiColon))
        {
            open.clear();
            has_none = false;
        }
    }
    added
}
