//! `FROM t WHERE a > 1` without a SELECT. The parser reads `FROM t` and `FROM t SELECT a`, but no
//! such query as a value: `(FROM t SELECT count(*))` becomes `(SELECT count(*) FROM t)`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{Replacement, begins_query, find, is_one_of, is_sign, is_word, span_of, words};

pub(super) fn written_out(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    const CLAUSES: [&str; 8] =
        ["WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET"];
    if !begins_query(text, at) {
        return None;
    }
    let next = find(text, at + 1, |token| {
        is_one_of(Some(token), &["SELECT", "UNION", "EXCEPT", "INTERSECT"])
            || is_one_of(Some(token), &CLAUSES)
    });
    if is_word(text.get(next), "SELECT")
        && at.checked_sub(1).is_some_and(|open| is_sign(text.get(open), &Token::LParen))
    {
        let end = find(text, next + 1, |token| {
            is_one_of(Some(token), &["UNION", "EXCEPT", "INTERSECT"])
                || is_one_of(Some(token), &CLAUSES)
        });
        let (from, select) = (text.get(at..next)?, text.get(next..end)?);
        return Some((at..end, [select, from].concat()));
    }
    let is_short = is_one_of(text.get(next), &CLAUSES);
    is_short.then(|| (at..at, words("SELECT *", span_of(text, at))))
}
