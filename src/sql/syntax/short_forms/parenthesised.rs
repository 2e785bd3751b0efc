//! Parentheses at the beginning of an element, where the parser takes them for another thing:
//! `IN ((SELECT 1), 3)` begins with a query, and `ROLLUP ((a + 1) * 2, b)` with a row.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{Replacement, find, is_one_of, is_sign, sign, span_of, words};

/// The function that stands around a query, so that it is no more than a value.
const VALUE: &str = "sty__one_value";

/// `IN ((SELECT …), …)`: the first of several values is a query.
pub(super) fn first_value(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let inner = at + 2;
    let is_query = is_sign(text.get(at + 1), &Token::LParen)
        && is_sign(text.get(inner), &Token::LParen)
        && is_one_of(text.get(inner + 1), &["SELECT", "WITH", "VALUES"]);
    if !is_query {
        return None;
    }
    let close = closing(text, inner)?;
    if !is_sign(text.get(close + 1), &Token::Comma) {
        return None;
    }
    let span = span_of(text, inner);
    let mut written = words(&format!("{VALUE} ("), span);
    written.extend(text.get(inner..=close)?.iter().cloned());
    written.push(sign(Token::RParen, span));
    Some((inner..close + 1, written))
}

/// The query in such a call.
pub(super) fn query(call: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(query))] if call.name.to_string() == VALUE => {
            Some(query.clone())
        }
        _ => None,
    }
}

/// `ROLLUP (…)`, `CUBE (…)` and `GROUPING SETS (…)` in which an element only begins with a
/// parenthesis.
pub(super) fn keys(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    if !is_sign(text.get(at + 1), &Token::LParen) {
        return None;
    }
    let end = closing(text, at + 1)?;
    let (mut written, mut changed, mut from) = (Vec::new(), false, at + 2);
    while from < end {
        let to = find(text, from, |token| token.token == Token::Comma).min(end);
        let begins = is_sign(text.get(from), &Token::LParen);
        let only_begins = begins && closing(text, from).is_some_and(|close| close + 1 < to);
        let span = span_of(text, from);
        written.extend(only_begins.then(|| sign(Token::LParen, span)));
        written.extend(text.get(from..to)?.iter().cloned());
        written.extend(only_begins.then(|| sign(Token::RParen, span)));
        written.extend((to < end).then(|| sign(Token::Comma, span)));
        changed |= only_begins;
        from = to + 1;
    }
    changed.then_some((at + 2..end, written))
}

/// The parenthesis that closes one.
fn closing(text: &[TokenWithSpan], open: usize) -> Option<usize> {
    let close = find(text, open + 1, |_| false);
    is_sign(text.get(close), &Token::RParen).then_some(close)
}
