//! Limits how deep expressions are, and joins the terms of long chains of AND and OR in pairs.
//!
//! Where this stands on the road of a query: after parsing, before anything else looks at the
//! statement. The parser makes a tree of `a OR b OR c …` that is as deep as it has terms, and so is
//! what DataFusion makes of AND and OR: it compares, copies and drops expressions by recursion, and
//! asks each level for its type, which takes time that grows with the square of the depth. Here `n`
//! terms become a tree of log `n` levels with the same order, since both operators are associative
//! under nulls, too. Whatever else is deep is refused beyond a limit, as in DuckDB.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, Statement, Value, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Result};
use crate::sql::walks::{visit, visit_mut};

/// How deeply expressions may be nested.
const MAX_DEPTH: usize = 1000;

/// The most terms that AND or OR may join.
pub(in crate::sql) const MAX_TERMS: usize = 10_000;

/// Shorter chains stay as they are.
const LONG: usize = 16;

/// The most tokens between two that end an expression. The parser makes trees that are at most as
/// deep.
const MAX_TOKENS: usize = 250_000;

/// How many queries a statement may join by UNION, EXCEPT and INTERSECT.
const MAX_QUERIES: usize = 1000;

/// What one of them takes of the stack, in levels of expressions: visits, copies and drops each go
/// through several functions, whose frames are large without optimisation.
const QUERY_LEVELS: usize = 16;

/// How deeply types may be nested, EXPLAIN in EXPLAIN, and INTERVAL in INTERVAL.
const MAX_WRAPPED: usize = 64;

/// At most how many levels deep the tree of some tokens is, as the parser makes it.
pub(in crate::sql) fn most_levels(tokens: &[TokenWithSpan]) -> Result<usize> {
    check_wrapped(tokens)?;
    let (mut most, mut queries, mut most_queries) = (0, 0_usize, 0);
    // Tokens since an expression began: now, and in each bracket or CASE around.
    let (mut count, mut around) = (0_usize, Vec::new());
    for token in tokens {
        let word = match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        count += 1;
        match (&token.token, word) {
            (Token::LParen | Token::LBracket | Token::LBrace, _) => around.push((count, false)),
            (_, Keyword::CASE) => around.push((count, true)),
            (Token::RParen | Token::RBracket | Token::RBrace, _) => {
                around.truncate(around.iter().rposition(|(_, case)| !case).map_or(0, |at| at + 1));
                count = around.pop().map_or(count, |(outer, _)| outer);
                continue;
            }
            (_, Keyword::END) => {
                count = around.pop_if(|(_, case)| *case).map_or(count, |(outer, _)| outer);
                continue;
            }
            (Token::SemiColon, _) => queries = 0,
            (Token::Comma, _) | (_, Keyword::WHEN | Keyword::THEN | Keyword::ELSE) => {}
            (_, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => {
                queries += 1;
                most_queries = most_queries.max(queries);
                continue;
            }
            _ => {
                most = most.max(count);
                continue;
            }
        }
        count = 0;
    }
    if most_queries > MAX_QUERIES {
        return Err(Error::LimitExceeded(format!(
            "a statement joins {most_queries} queries by UNION, EXCEPT or INTERSECT, and at most \
             {MAX_QUERIES} are allowed; rows of constants can be VALUES"
        )));
    }
    if most > MAX_TOKENS {
        return Err(Error::LimitExceeded(format!(
            "a statement has an expression of more than {MAX_TOKENS} words"
        )));
    }
    // A token is an eighth of a level.
    Ok(most + most_queries * QUERY_LEVELS * 8)
}

/// Refuses EXPLAIN of EXPLAIN, INTERVAL of INTERVAL, which sqlparser (0.62) does not count, and
/// types of types beyond what recursion can follow: `ARRAY<ARRAY<…`, `INT[][]…`.
fn check_wrapped(tokens: &[TokenWithSpan]) -> Result<()> {
    let tokens = tokens.iter().map(|token| &token.token);
    let shown = tokens.filter(|token| !matches!(token, Token::Whitespace(_)));
    let (mut repeated, mut brackets, mut open) = (0_usize, 0_usize, 0_usize);
    let (mut before, mut names_types) = (&Token::EOF, false);
    for token in shown {
        let keyword = |token: &Token| match token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let is_repeated = matches!(keyword(token), Keyword::EXPLAIN | Keyword::INTERVAL);
        repeated = if is_repeated { repeated + 1 } else { 0 };
        match token {
            Token::LBracket if *before == Token::RBracket => brackets += 1,
            Token::LBracket | Token::RBracket => {}
            Token::Number(..) if *before == Token::LBracket => {}
            Token::Lt
                if matches!(keyword(before), Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP) =>
            {
                open += 1;
            }
            Token::Gt => open = open.saturating_sub(1),
            Token::ShiftRight => open = open.saturating_sub(2),
            Token::SemiColon => (brackets, open, names_types) = (0, 0, false),
            // Its types are texts, as in `arrow_cast(a, 'List(Int8)')`.
            Token::Word(word) if word.value.to_ascii_lowercase().starts_with("arrow_") => {
                names_types = true;
            }
            Token::SingleQuotedString(text) if names_types => {
                open = open.max(text.matches('(').count());
            }
            _ => brackets = 0,
        }
        if repeated.max(brackets).max(open) > MAX_WRAPPED {
            return Err(Error::LimitExceeded(format!(
                "types, EXPLAIN or INTERVAL are nested more than {MAX_WRAPPED} levels deep"
            )));
        }
        before = token;
    }
    Ok(())
}

/// Joins the terms of long chains in pairs, and refuses what is too deep. Returns how many levels
/// deep an expression of the statement may become when it is planned.
pub(in crate::sql) fn limit(statement: &mut Statement) -> Result<usize> {
    let mut chains = Chains { longest: 0 };
    let _ = visit_mut(statement, &mut chains);
    if chains.longest > MAX_TERMS {
        return Err(Error::LimitExceeded(format!(
            "{} terms are joined by AND or OR, and at most {MAX_TERMS} may be; \
             values to compare with can be a list (IN) or rows of a table",
            chains.longest
        )));
    }
    let mut depth = Depth { now: 0, most: 0 };
    match visit(statement, &mut depth) {
        ControlFlow::Continue(()) => Ok(depth.most.max(chains.longest)),
        ControlFlow::Break(()) => Err(Error::LimitExceeded(format!(
            "an expression is nested more than {MAX_DEPTH} levels deep; \
             parts of it can be columns of a subquery"
        ))),
    }
}

struct Chains {
    /// Terms of the longest chain.
    longest: usize,
}

impl VisitorMut for Chains {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            let count = count_terms(expr, &op);
            self.longest = self.longest.max(count);
            if count > LONG {
                let null = Expr::value(Value::Null);
                let join = |left: Expr, right: Expr| {
                    let (left, right) = (left.into(), right.into());
                    Expr::BinaryOp { left, op: op.clone(), right }
                };
                if let Some(joined) = joined(terms(std::mem::replace(expr, null), &op), &join) {
                    *expr = joined;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// How many terms a chain has. The parser nests them to the left.
fn count_terms(mut expr: &Expr, chained: &BinaryOperator) -> usize {
    let mut count = 1;
    while let Expr::BinaryOp { left, op, .. } = expr
        && op == chained
    {
        count += 1;
        expr = left;
    }
    count
}

/// The terms of a chain, in order.
fn terms(mut expr: Expr, chained: &BinaryOperator) -> Vec<Expr> {
    let mut terms = Vec::new();
    loop {
        match expr {
            Expr::BinaryOp { left, op, right } if op == *chained => {
                terms.push(*right);
                expr = *left;
            }
            first => {
                terms.push(first);
                terms.reverse();
                return terms;
            }
        }
    }
}

/// The terms as one tree, in order: a short chain nests to the left, as the parser makes it, and a
/// long one is as flat as it can be.
pub(in crate::sql) fn joined<T>(terms: Vec<T>, join: &impl Fn(T, T) -> T) -> Option<T> {
    let count = terms.len();
    let mut terms = terms.into_iter();
    if count <= LONG { terms.reduce(join) } else { in_pairs(&mut terms, count, join) }
}

/// The next `count` terms, joined in pairs.
fn in_pairs<T>(
    terms: &mut impl Iterator<Item = T>,
    count: usize,
    join: &impl Fn(T, T) -> T,
) -> Option<T> {
    if count <= 1 {
        return terms.next();
    }
    let left = in_pairs(terms, count / 2, join)?;
    let right = in_pairs(terms, count - count / 2, join)?;
    Some(join(left, right))
}

struct Depth {
    now: usize,
    most: usize,
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        // The tree of a chain of UNION is as deep as it has queries.
        let (mut body, mut queries) = (&*query.body, 0);
        while let SetExpr::SetOperation { left, .. } = body {
            (body, queries) = (left, queries + 1);
        }
        self.most = self.most.max(queries * QUERY_LEVELS);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.now += 1;
        self.most = self.most.max(self.now);
        if self.now > MAX_DEPTH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.now -= 1;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::config::Dialect;

    use super::*;
    use crate::sql::syntax::{parse, sql_of};

    fn limited(sql: &str) -> Result<(String, usize)> {
        let mut statements = parse::statements(sql, Dialect::Generic, 1 << 34)?;
        let parsed = statements.first_mut().unwrap();
        Ok((sql_of(&mut parsed.statement).unwrap().to_string(), parsed.levels))
    }

    fn chain(word: &str, terms: usize) -> String {
        let terms: Vec<String> = (0..terms).map(|at| format!("a = {at}")).collect();
        format!("SELECT {}", terms.join(word))
    }

    #[test]
    fn chains_keep_their_terms_in_order() {
        for word in [" AND ", " OR "] {
            for terms in [2, 16, 17, 100, 1000] {
                let sql = format!("{} AS x", chain(word, terms));
                let (shown, levels) = limited(&sql).unwrap();
                assert_eq!(shown, sql);
                assert!((terms..terms + 3).contains(&levels), "{terms}: {levels}");
            }
        }
        let mixed = format!("{} AND ({}) AS x", chain(" AND ", 40), &chain(" OR ", 50)[7..]);
        assert_eq!(limited(&mixed).unwrap(), (mixed, 50));
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        let plus = |levels: usize| format!("SELECT 1{} AS x", " + 1".repeat(levels));
        assert_eq!(limited(&plus(900)).unwrap(), (plus(900), 901));
        for sql in [
            plus(1000),
            plus(20_000),
            format!("SELECT x{}", "::int".repeat(10_000)),
            format!("SELECT x{}", " IS NULL".repeat(10_000)),
            chain(" OR ", 10_001),
            // A text that is too long for any stack.
            plus(1_000_000),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1001)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(65)),
            format!("SELECT CAST(NULL AS INT{})", "[]".repeat(1000)),
            format!("SELECT CAST(NULL AS {}INT{})", "ARRAY<".repeat(66), ">".repeat(66)),
            format!("SELECT arrow_cast(1, '{}Int8{}')", "List(".repeat(66), ")".repeat(66)),
        ] {
            let error = limited(&sql).unwrap_err();
            assert!(matches!(error, Error::LimitExceeded(_)), "{error}");
        }
        let unions = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1000));
        assert_eq!(limited(&unions).unwrap().1, 1000 * QUERY_LEVELS);
        assert!(limited(&format!("{unions}; {unions}")).is_ok());
        assert!(limited("SELECT CAST(NULL AS INT[][]), a[1][2], 1 < 2").is_ok());
        // Long, but not deep.
        let rows = vec!["(1, -2.5, 'a' || 'b')"; 20_000].join(", ");
        let insert = format!("INSERT INTO t VALUES {rows}");
        assert_eq!(limited(&insert).unwrap().1, 2);
    }
}
