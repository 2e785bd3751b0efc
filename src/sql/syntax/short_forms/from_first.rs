//! `FROM t WHERE a > 1` without a SELECT. The parser reads `FROM t` and `FROM t SELECT a`.

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::words::{Replacement, begins_query, find, is_one_of, span_of, words};

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
    let is_short = is_one_of(text.get(next), &CLAUSES);
    is_short.then(|| (at..at, words("SELECT *", span_of(text, at))))
}
