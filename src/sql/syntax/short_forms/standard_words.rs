//! `TABLE t` as a query, `FROM VALUES (1), (2)`, `TRIM(TRAILING FROM s)`, and `[x + 1 FOR x IN l]`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{
    Replacement, begins_query, begins_table, find, is_one_of, is_sign, is_word, opening, sign,
    span_of, text_literal, word, words,
};

/// Words behind which a parenthesis may hold a query. Behind a name it holds columns, of which one
/// may be called `table`.
const BEFORE_QUERIES: [&str; 22] = [
    "ALL",
    "AND",
    "ANY",
    "ARRAY",
    "AS",
    "EXCEPT",
    "EXISTS",
    "FROM",
    "IN",
    "INTERSECT",
    "JOIN",
    "LATERAL",
    "MATERIALIZED",
    "NOT",
    "ON",
    "OR",
    "SELECT",
    "SOME",
    "THEN",
    "UNION",
    "WHEN",
    "WHERE",
];

/// `TABLE t` is `SELECT * FROM t`.
pub(super) fn table(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let next = text.get(at + 1);
    let names_table = begins_table(next) && !is_sign(next, &Token::LParen);
    let is_query = names_table && (is_inserted(text, at) || may_be_query(text, at));
    is_query.then(|| (at..at + 1, words("SELECT * FROM", span_of(text, at))))
}

fn may_be_query(text: &[TokenWithSpan], at: usize) -> bool {
    if !begins_query(text, at) {
        return false;
    }
    let Some(before) = at.checked_sub(1) else { return true };
    let around = before.checked_sub(1).and_then(|around| text.get(around));
    match text.get(before).map(|token| &token.token) {
        Some(Token::LParen) => match around.map(|token| &token.token) {
            Some(Token::Word(_)) => is_one_of(around, &BEFORE_QUERIES),
            _ => true,
        },
        // `DESCRIBE TABLE t` and `ANALYZE TABLE t` are statements of their own.
        Some(Token::Word(_)) if is_word(text.get(before), "DESCRIBE") => false,
        Some(Token::Word(_)) if is_word(text.get(before), "ANALYZE") => is_word(around, "EXPLAIN"),
        _ => true,
    }
}

/// Whether a word stands behind `INSERT INTO t` or `INSERT INTO t (a, b)`.
fn is_inserted(text: &[TokenWithSpan], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return false };
    let name = match is_sign(text.get(before), &Token::RParen) {
        true => opening(text, before).and_then(|open| open.checked_sub(1)),
        false => Some(before),
    };
    let is_name = |at: usize| {
        matches!(text.get(at).map(|token| &token.token), Some(Token::Word(_)))
            && at.checked_sub(1).is_some_and(|into| is_word(text.get(into), "INTO"))
    };
    name.is_some_and(is_name)
}

/// `FROM VALUES (1), (2) t(a)` is `FROM (VALUES (1), (2)) t(a)`.
pub(super) fn values(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    if !is_one_of(before, &["FROM", "JOIN"]) {
        return None;
    }
    let mut end = row_end(text, at + 1)?;
    while is_sign(text.get(end), &Token::Comma)
        && let Some(next) = row_end(text, end + 1)
    {
        end = next;
    }
    let span = span_of(text, at);
    let mut rows = vec![sign(Token::LParen, span)];
    rows.extend_from_slice(text.get(at..end)?);
    rows.push(sign(Token::RParen, span));
    Some((at..end, rows))
}

/// Where a row of values in parentheses ends; `None` if there is none, or a query.
fn row_end(text: &[TokenWithSpan], open: usize) -> Option<usize> {
    const QUERIES: [&str; 5] = ["FROM", "SELECT", "TABLE", "VALUES", "WITH"];
    let is_row =
        is_sign(text.get(open), &Token::LParen) && !is_one_of(text.get(open + 1), &QUERIES);
    let mut depth = 0_usize;
    for (at, token) in text.iter().enumerate().skip(open).take_while(|_| is_row) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            Token::SemiColon | Token::EOF => return None,
            _ => {}
        }
    }
    None
}

/// `TRIM(TRAILING FROM s)` trims blanks, and so does `TRIM(FROM s)`.
pub(super) fn trim(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    if !is_sign(text.get(at + 1), &Token::LParen) {
        return None;
    }
    let side = is_one_of(text.get(at + 2), &["BOTH", "LEADING", "TRAILING"]);
    match side {
        true if is_word(text.get(at + 3), "FROM") => {
            Some((at + 3..at + 3, vec![text_literal(" ", span_of(text, at + 3))]))
        }
        false if is_word(text.get(at + 2), "FROM") => Some((at + 2..at + 3, Vec::new())),
        _ => None,
    }
}

/// Whether a FROM is that of `TRIM(FROM s)`.
pub(super) fn is_trimmed(text: &[TokenWithSpan], at: usize) -> bool {
    let before = |steps| at.checked_sub(steps).and_then(|before| text.get(before));
    is_sign(before(1), &Token::LParen) && is_word(before(2), "TRIM")
}

/// The most tokens of a list comprehension.
const MOST_TOKENS: usize = 1_024;

/// `[e FOR x IN l IF c]` is `list_transform(list_filter(l, x -> (c)), x -> (e))`.
pub(super) fn comprehension(text: &[TokenWithSpan], open: usize) -> Option<Replacement> {
    let text = text.get(..text.len().min(open + MOST_TOKENS))?;
    let of = find(text, open + 1, |token| is_word(Some(token), "FOR"));
    let name = text.get(of + 1).filter(|name| matches!(name.token, Token::Word(_)))?;
    if !is_word(text.get(of), "FOR") || !is_word(text.get(of + 2), "IN") {
        return None;
    }
    let end = find(text, of + 3, |token| is_word(Some(token), "IF"));
    let (list, condition, close) = match is_word(text.get(end), "IF") {
        true => {
            let close = find(text, end + 1, |_| false);
            (text.get(of + 3..end)?, text.get(end + 1..close), close)
        }
        false => (text.get(of + 3..end)?, None, end),
    };
    if !is_sign(text.get(close), &Token::RBracket) {
        return None;
    }
    let span = span_of(text, open);
    let call = |function: &str, list: &[TokenWithSpan], body: &[TokenWithSpan]| {
        let mut call = vec![word(function, span), sign(Token::LParen, span)];
        call.extend_from_slice(list);
        call.extend([sign(Token::Comma, span), name.clone(), sign(Token::Arrow, span)]);
        call.push(sign(Token::LParen, span));
        call.extend_from_slice(body);
        call.extend([sign(Token::RParen, span), sign(Token::RParen, span)]);
        call
    };
    let list = match condition {
        Some(condition) => call("list_filter", list, condition),
        None => list.to_vec(),
    };
    Some((open..close + 1, call("list_transform", &list, text.get(open + 1..of)?)))
}
