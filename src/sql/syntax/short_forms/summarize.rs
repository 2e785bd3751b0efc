//! `SUMMARIZE t` and `SUMMARIZE SELECT …`: a query in a FROM with a name that the planner knows.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{
    Replacement, begins_query, begins_table, find, is_one_of, is_sign, span_of, words,
};

/// The name of the query that is summarized.
pub(in crate::sql) const SUMMARIZE: &str = "sty__summarize";

/// Whether a token is the first column of a CREATE TABLE.
fn declares_column(text: &[TokenWithSpan], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).and_then(|at| text.get(at));
    if !is_sign(before(1), &Token::LParen) {
        return false;
    }
    let mut name = 2;
    while is_sign(before(name + 1), &Token::Period) {
        name += 2;
    }
    is_one_of(before(name + 1), &["TABLE", "EXISTS"])
}

pub(super) fn written_out(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let first = text.get(at + 1);
    let is_from = is_one_of(first, &["FROM"]);
    // `SELECT k AS summarize FROM t` names a column.
    let is_name =
        is_from && is_one_of(at.checked_sub(1).and_then(|before| text.get(before)), &["AS"]);
    if is_name
        || declares_column(text, at)
        || !begins_query(text, at)
        || !(begins_table(first) || is_from)
    {
        return None;
    }
    let end = find(text, at + 1, |_| false);
    let span = span_of(text, at);
    let mut written = words("SELECT * FROM (", span);
    let queries = ["SELECT", "FROM", "WITH", "VALUES", "DESCRIBE", "SHOW"];
    if !is_one_of(first, &queries) && !is_sign(first, &Token::LParen) {
        written.extend(words("SELECT * FROM", span));
    }
    written.extend(text.get(at + 1..end)?.iter().cloned());
    written.extend(words(") AS", span));
    written.extend(words(SUMMARIZE, span));
    Some((at..end, written))
}
