//! Short forms of DuckDB and ClickHouse that sqlparser (0.62) does not read, written out in words
//! that it does: `SUMMARIZE t`, `PIVOT t ON a`, `UNPIVOT t ON a, b`, `FROM t WHERE a > 1`,
//! `USING SAMPLE 10%`, `INSERT INTO t BY NAME`, `COPY t TO 'x.csv' (HEADER)`, `quantile(0.9)(x)`,
//! `a ISNULL`, which would be an alias, `a ** b`, `a GLOB 'x*'`, `a JOIN b JOIN c ON … ON …`,
//! `WITH x AS MATERIALIZED (…)`, `lag(f(a) IGNORE NULLS)`, `a IN ((SELECT 1), 3)`,
//! `ROLLUP ((a + 1) * 2, b)`, `TABLE t`, `FROM VALUES (1), (2)`, `TRIM(TRAILING FROM s)`,
//! `[x + 1 FOR x IN l]`.
//!
//! Where this stands on the road of a query: between the tokenizer and the parser. Some become
//! calls of functions whose names begin with `sty__`; later steps put what they mean in their
//! place. The text is walked from its end, so that what is within a form is written out before it.

mod copy;
mod from_first;
mod insert;
mod nested_joins;
mod null_treatment;
mod operators;
mod parametric;
mod parenthesised;
mod pivot;
mod sample;
mod standard_words;
mod summarize;
mod words;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, VisitMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use self::words::{BEFORE_NAMES, Replacement, is_one_of, is_sign, is_word, span_of, words};
use crate::error::{Error, Result};
use crate::sql::walks::visit_expressions_mut;

pub(in crate::sql) use insert::BY_NAME;
pub(in crate::sql) use pivot::{KEYS, ON, PIVOT, UNPIVOT, UNPIVOT_NULLS, USING};
pub(in crate::sql) use summarize::SUMMARIZE;

/// The most short forms of one text: each takes time in proportion to the text.
const MOST: usize = 1_000;
/// The word that stands for ASOF JOIN in the text of a statement.
pub(in crate::sql) const ASOF: &str = "STRAIGHT_JOIN";

/// Makes calls in a parsed statement what they were in its text.
pub(in crate::sql) fn restore_calls(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Expr::Function(call) = expr {
            parametric::restore(call);
            null_treatment::restore(call);
            if let Some(query) = parenthesised::query(call) {
                *expr = query;
            }
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The text with its short forms written out.
pub(in crate::sql) fn write_out(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let tokens = nested_joins::in_parentheses(tokens);
    let is_power = |pair: &[TokenWithSpan]| pair.iter().all(|one| one.token == Token::Mul);
    if !tokens.iter().any(may_be_of_one) && !tokens.windows(2).any(is_power) {
        return Ok(tokens);
    }
    let is_text = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut text: Vec<TokenWithSpan> = tokens.into_iter().filter(is_text).collect();
    let (mut at, mut count) = (text.len(), 0);
    while at > 0 {
        at -= 1;
        let Some((range, words)) = form_at(&text, at)? else { continue };
        count += 1;
        if count > MOST {
            return Err(Error::LimitExceeded(format!(
                "a text has more than {MOST} short forms such as SUMMARIZE, PIVOT and USING SAMPLE"
            )));
        }
        text.splice(range, words);
    }
    Ok(text)
}

/// Whether the text of a statement with such tokens would have words of ours.
pub(in crate::sql) fn may_hide_text(tokens: &[TokenWithSpan]) -> bool {
    const WORDS: [&str; 7] =
        ["SUMMARIZE", "PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER", "NAME", "ASOF"];
    tokens.iter().any(|token| {
        WORDS.iter().any(|word| is_word(Some(token), word)) || parametric::is_name(Some(token))
    })
}

/// Whether a token is in any short form.
fn may_be_of_one(token: &TokenWithSpan) -> bool {
    const WORDS: [&str; 31] = [
        "ASOF",
        "AUTOINCREMENT",
        "AUTO_INCREMENT",
        "EXCLUDE",
        "FOR",
        "GLOB",
        "ISNULL",
        "SUMMARIZE",
        "PIVOT",
        "PIVOT_WIDER",
        "UNPIVOT",
        "PIVOT_LONGER",
        "FROM",
        "SAMPLE",
        "TABLESAMPLE",
        "INSERT",
        "LIMIT",
        "COPY",
        "QUANTILE",
        "TOPK",
        "IGNORE",
        "RESPECT",
        "MATERIALIZED",
        "IN",
        "ROLLUP",
        "CUBE",
        "SETS",
        "STRAIGHT_JOIN",
        "TABLE",
        "TRIM",
        "VALUES",
    ];
    WORDS.iter().any(|word| is_word(Some(token), word)) || parametric::is_name(Some(token))
}

/// `AS MATERIALIZED (` and `AS NOT MATERIALIZED (` of a WITH: a hint, which is left out.
fn materialised(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let not = at.checked_sub(1).filter(|before| is_word(text.get(*before), "NOT"));
    let from = not.unwrap_or(at);
    let is_hint = is_sign(text.get(at + 1), &Token::LParen)
        && from.checked_sub(1).is_some_and(|before| is_word(text.get(before), "AS"));
    is_hint.then(|| (from..at + 1, Vec::new()))
}

/// The short form that begins at a token, written out.
fn form_at(text: &[TokenWithSpan], at: usize) -> Result<Option<Replacement>> {
    let token = text.get(at);
    if is_sign(token, &Token::RParen) {
        return Ok(parametric::written_out(text, at));
    }
    if is_sign(token, &Token::Mul) {
        return Ok(operators::power(text, at));
    }
    if is_sign(token, &Token::LBracket) {
        return Ok(standard_words::comprehension(text, at));
    }
    let Some(Token::Word(word)) = token.map(|token| &token.token) else { return Ok(None) };
    if word.quote_style.is_some() {
        return Ok(None);
    }
    match word.value.to_ascii_uppercase().as_str() {
        "SUMMARIZE" => Ok(summarize::written_out(text, at)),
        "PIVOT" | "PIVOT_WIDER" => pivot::wider(text, at),
        "UNPIVOT" | "PIVOT_LONGER" => pivot::longer(text, at),
        "FROM" if standard_words::is_trimmed(text, at) => Ok(None),
        "FROM" => Ok(from_first::written_out(text, at)),
        "TABLE" => Ok(standard_words::table(text, at)),
        "TRIM" => Ok(standard_words::trim(text, at)),
        "VALUES" => Ok(standard_words::values(text, at)),
        "USING" | "TABLESAMPLE" => sample::written_out(text, at),
        "INSERT" => insert::written_out(text, at),
        "LIMIT" => Ok(operators::percent(text, at)),
        "COPY" => copy::written_out(text, at),
        "ISNULL" => Ok(is_null(text, at)),
        "GLOB" => operators::glob(text, at),
        "IGNORE" | "RESPECT" => Ok(null_treatment::argument(text, at)),
        "MATERIALIZED" => Ok(materialised(text, at)),
        "IN" => Ok(parenthesised::first_value(text, at)),
        "ROLLUP" | "CUBE" | "SETS" => Ok(parenthesised::keys(text, at)),
        "ASOF" => Ok(operators::asof(text, at)),
        "AUTOINCREMENT" | "AUTO_INCREMENT" | "EXCLUDE" | "STRAIGHT_JOIN" => {
            operators::refused(text, at).map(|()| None)
        }
        _ => Ok(None),
    }
}

/// `a ISNULL` is `a IS NULL`; `isNull(a)` is a call.
fn is_null(text: &[TokenWithSpan], at: usize) -> Option<Replacement> {
    let before = text.get(at.checked_sub(1)?);
    if is_sign(text.get(at + 1), &Token::LParen) {
        return None;
    }
    let is_operator = match before.map(|token| &token.token)? {
        Token::Word(word) if word.quote_style.is_none() => !is_one_of(before, &BEFORE_NAMES),
        Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) => true,
        Token::RParen | Token::RBracket => true,
        _ => false,
    };
    is_operator.then(|| (at..at + 1, words("IS NULL", span_of(text, at))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::sql::syntax::dialect::StylobateDialect;

    fn written(sql: &str) -> String {
        let dialect = StylobateDialect::new(sql.len());
        let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().unwrap();
        let words = write_out(tokens).unwrap().into_iter();
        let words = words.filter(|one| !matches!(one.token, Token::Whitespace(_)));
        words.map(|one| one.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn short_forms_are_written_out() {
        for (sql, expected) in [
            ("SUMMARIZE t", "SELECT * FROM ( SELECT * FROM t ) AS sty__summarize"),
            ("SUMMARIZE 'x.csv';", "SELECT * FROM ( SELECT * FROM 'x.csv' ) AS sty__summarize ;"),
            ("FROM (SUMMARIZE SELECT 1)", "FROM ( SELECT * FROM ( SELECT 1 ) AS sty__summarize )"),
            ("FROM t WHERE a > 1", "SELECT * FROM t WHERE a > 1"),
            ("FROM t SELECT a", "FROM t SELECT a"),
            ("SELECT a ISNULL, (b) isnull OR c", "SELECT a IS NULL , ( b ) IS NULL OR c"),
            ("SELECT isnull, isnull(a) AS isnull", "SELECT isnull , isnull ( a ) AS isnull"),
            ("SELECT 2**3, count(*), a**b", "SELECT 2 ^ 3 , count ( * ) , a ^ b"),
            ("SELECT a GLOB 'x?_*'", "SELECT a LIKE 'x_\\_%'"),
            ("SELECT a NOT GLOB '[!a-c].*'", "SELECT a NOT SIMILAR TO '[^a-c].%'"),
            ("SELECT glob FROM glob", "SELECT glob FROM glob"),
            ("SELECT extract(hour FROM t) FROM u", "SELECT extract ( hour FROM t ) FROM u"),
            (
                "SELECT a FROM t x WHERE b USING SAMPLE 10%",
                "SELECT a FROM t x TABLESAMPLE SYSTEM ( 10 PERCENT ) WHERE b",
            ),
            (
                "FROM t USING SAMPLE reservoir(20 ROWS) REPEATABLE (7) ORDER BY a",
                "SELECT * FROM t TABLESAMPLE ROW ( 20 ROWS ) REPEATABLE ( 7 ) ORDER BY a",
            ),
            (
                "SELECT 1 FROM t TABLESAMPLE 5 PERCENT (bernoulli, 3)",
                "SELECT 1 FROM t TABLESAMPLE BERNOULLI ( 5 PERCENT ) REPEATABLE ( 3 )",
            ),
            (
                "SELECT 1 FROM a JOIN b LEFT JOIN c JOIN d ON x ON y ON z JOIN e ON w WHERE v",
                "SELECT 1 FROM a JOIN ( b LEFT JOIN ( c JOIN d ON x ) ON y ) ON z JOIN e ON w \
                 WHERE v",
            ),
            (
                "SELECT 1 FROM a JOIN b CROSS JOIN c NATURAL LEFT JOIN d USING (x), e JOIN f ON y",
                "SELECT 1 FROM a JOIN ( b CROSS JOIN c NATURAL LEFT JOIN d ) USING ( x ) , \
                 e JOIN f ON y",
            ),
            (
                "SELECT 1 FROM a JOIN (SELECT 2 FROM b JOIN c ON x) d ON y JOIN e USING (z)",
                "SELECT 1 FROM a JOIN ( SELECT 2 FROM b JOIN c ON x ) d ON y JOIN e USING ( z )",
            ),
            ("SELECT 1 FROM a JOIN b JOIN c ON x", "SELECT 1 FROM a JOIN b JOIN c ON x"),
            ("SELECT a FROM t JOIN u USING (a)", "SELECT a FROM t JOIN u USING ( a )"),
            ("INSERT INTO t BY NAME SELECT 1", "INSERT INTO t ( sty__by_name ) SELECT 1"),
            ("INSERT INTO t BY POSITION SELECT 1", "INSERT INTO t SELECT 1"),
            (
                "COPY t TO 'x.csv' (HEADER, DELIMITER ';')",
                "COPY t TO 'x.csv' OPTIONS ( 'header' 'true' , 'delimiter' ';' )",
            ),
            (
                "COPY t (a, b) FROM 'x.csv' (DELIMITER ';', HEADER false)",
                "INSERT INTO t ( a , b ) SELECT * FROM read_csv ( 'x.csv' , partition_columns => \
                 false , delimiter => ';' , header => false )",
            ),
            (
                "COPY t FROM 'day=1/x.csv' (SKIP 1)",
                "INSERT INTO t SELECT * FROM read_csv ( 'day=1/x.csv' , partition_columns => \
                 false , skip => 1 )",
            ),
            (
                "SELECT quantile(0.9)(x), topK(2)(y)",
                "SELECT quantile ( sty__parameters ( 0.9 ) , x ) , \
                 topK ( sty__parameters ( 2 ) , y )",
            ),
            (
                "PIVOT t ON a IN (1, 2), b USING sum(c) AS s GROUP BY d ORDER BY d",
                "SELECT * FROM sty__pivot ( ( SELECT * FROM t ) , sty__on ( a , 1 , 2 ) , \
                 sty__on ( b ) , sty__using ( sum ( c ) , 's' ) , sty__keys ( d ) ) ORDER BY d",
            ),
            (
                "UNPIVOT t ON a, b INTO NAME n VALUE v",
                "SELECT * FROM sty__unpivot ( ( SELECT * FROM t ) , sty__on ( a ) , \
                 sty__on ( b ) , sty__using ( n , v ) )",
            ),
            (
                "SELECT a IN ((SELECT 1), 3), b NOT IN ((SELECT 1)), c IN ((1), 2)",
                "SELECT a IN ( sty__one_value ( ( SELECT 1 ) ) , 3 ) , \
                 b NOT IN ( ( SELECT 1 ) ) , c IN ( ( 1 ) , 2 )",
            ),
            (
                "SELECT 1 FROM t GROUP BY ROLLUP ((a + 1) * 2, (b, c)), \
                 GROUPING SETS ((), (a)::int)",
                "SELECT 1 FROM t GROUP BY ROLLUP ( ( ( a + 1 ) * 2 ) , ( b , c ) ) , \
                 GROUPING SETS ( ( ) , ( ( a ) :: int ) )",
            ),
            ("TABLE t ORDER BY a", "SELECT * FROM t ORDER BY a"),
            (
                "SELECT a IN (TABLE t) UNION TABLE u; CREATE TABLE v AS TABLE w",
                "SELECT a IN ( SELECT * FROM t ) UNION SELECT * FROM u ; \
                 CREATE TABLE v AS SELECT * FROM w",
            ),
            ("INSERT INTO t (a) TABLE u", "INSERT INTO t ( a ) SELECT * FROM u"),
            ("CREATE TABLE t (table INT)", "CREATE TABLE t ( table INT )"),
            ("DROP TABLE t; DESCRIBE TABLE t", "DROP TABLE t ; DESCRIBE TABLE t"),
            ("SELECT a AS table FROM t", "SELECT a AS table FROM t"),
            (
                "FROM VALUES (1), (f(2)) t(a) WHERE a > 1",
                "SELECT * FROM ( VALUES ( 1 ) , ( f ( 2 ) ) ) t ( a ) WHERE a > 1",
            ),
            (
                "SELECT 1 FROM VALUES (1), (SELECT 2) x",
                "SELECT 1 FROM ( VALUES ( 1 ) ) , ( SELECT 2 ) x",
            ),
            (
                "SELECT trim(TRAILING FROM s), trim(FROM s), trim(BOTH 'x' FROM s)",
                "SELECT trim ( TRAILING ' ' FROM s ) , trim ( s ) , trim ( BOTH 'x' FROM s )",
            ),
            (
                "SELECT [x + 1 FOR x IN [y FOR y IN l] IF x > 1], [substring(s from 1 for 2)]",
                "SELECT list_transform ( list_filter ( list_transform ( l , y -> ( y ) ) , \
                 x -> ( x > 1 ) ) , x -> ( x + 1 ) ) , [ substring ( s from 1 for 2 ) ]",
            ),
            ("SELECT pivot, summarize FROM t", "SELECT pivot , summarize FROM t"),
            (
                "SELECT asof FROM a asof ASOF JOIN b ON x ASOF LEFT OUTER JOIN c USING (y)",
                "SELECT asof FROM a asof STRAIGHT_JOIN b ON x GLOBAL STRAIGHT_JOIN c USING ( y )",
            ),
            (
                "SELECT a FROM t LIMIT 50% OFFSET 1; SELECT b LIMIT 7 % 2",
                "SELECT a FROM t LIMIT sty__value ( 50 , 'PERCENT' ) OFFSET 1 ; \
                 SELECT b LIMIT 7 % 2",
            ),
            (
                "SELECT (FROM t SELECT count(*) WHERE a)",
                "SELECT ( SELECT count ( * ) FROM t WHERE a )",
            ),
            ("SELECT a AS pivot FROM t JOIN u ON b", "SELECT a AS pivot FROM t JOIN u ON b"),
        ] {
            assert_eq!(written(sql), expected, "{sql}");
        }
    }
}
