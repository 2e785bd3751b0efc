//! Limits how much memory and time a statement takes before it reads a row.
//!
//! Where this stands on the road of a query: before parsing and after it. Each word of a statement
//! takes about a kilobyte when it is planned: a number of an IN list is an expression that
//! DataFusion (55.2) copies and compares, a row of VALUES a row of expressions. Sorts hold all keys
//! of a batch. And `coalesce(a, b)` is simplified to `CASE WHEN a IS NOT NULL THEN a ELSE b END`,
//! which names `a` twice: nested in `a`, it doubles with every level. So do queries of a WITH that
//! name the one before twice, since each name becomes a copy of its query.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, ObjectName, OrderByKind, Query, SetExpr, Statement, Visitor,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Error, Result};
use crate::sql::walks::visit;

/// What a word takes while its statement is planned: measured with rows of VALUES, the most, and
/// with lists of numbers and texts.
const WORD_BYTES: u64 = 1 << 10;

/// What a parsed statement takes: measured with `SELECT 1`.
const STATEMENT_BYTES: u64 = 16 << 10;

/// How many times its own bytes a text takes: measured with a long constant, of which tokens, the
/// statement, its text and plans each have a copy.
const TEXT_COPIES: u64 = 9;

/// What statements may take beyond the memory limit, so that lists of 100,000 values always work.
const FREE_BYTES: u64 = 128 << 20;

/// The most keys of an ORDER BY or GROUP BY.
const MAX_KEYS: usize = 1000;

/// The most sets of keys of a GROUP BY: those of each CUBE, ROLLUP and GROUPING SETS with each of
/// the others.
const MAX_SETS: usize = 4096;

/// The most queries and tables of a statement, those of a WITH counted wherever they are named.
const MAX_EXPANDED: u64 = 4096;

/// How often queries within queries may name a value: a column three times in each of twelve.
const MAX_REPEATS: u64 = 1 << 20;

/// The most queries of a WITH each of which names the one before.
const MAX_LEVELS: u64 = 256;

/// The most parts of an expression, those as often that simplifying repeats.
const MAX_PARTS: u64 = 1 << 18;

/// Refuses a text that is too long for a limit of memory, before it is taken apart.
pub(in crate::sql) fn check_bytes(sql: &str, memory: u64) -> Result<()> {
    let (bytes, most) = (sql.len() as u64, memory.saturating_add(FREE_BYTES) / TEXT_COPIES);
    match bytes > most {
        true => Err(Error::LimitExceeded(format!(
            "a text of statements of {bytes} bytes does not fit into a memory limit of {memory} \
             bytes, which allows {most}: raise --memory-limit, run it in parts, or put its rows or \
             values into a file or table (sty ingest)"
        ))),
        false => Ok(()),
    }
}

/// Refuses a text of more statements, or with a statement of more words, than fit into a limit of
/// memory. Commas and white space do not count.
pub(in crate::sql) fn check_words(tokens: &[TokenWithSpan], memory: u64) -> Result<()> {
    let most = memory.saturating_add(FREE_BYTES) / WORD_BYTES;
    let most_statements = memory.saturating_add(FREE_BYTES) / STATEMENT_BYTES;
    let ends = tokens.iter().filter(|token| token.token == Token::SemiColon).count();
    if ends as u64 > most_statements {
        return Err(Error::LimitExceeded(format!(
            "a text of {ends} statements does not fit into a memory limit of {memory} bytes, which \
             allows {most_statements}: raise --memory-limit, or run it in parts"
        )));
    }
    let mut words = 0_u64;
    for token in tokens {
        match token.token {
            Token::Whitespace(_) | Token::Comma => {}
            Token::SemiColon => words = 0,
            _ => words += 1,
        }
        if words > most {
            return Err(Error::LimitExceeded(format!(
                "a statement of more than {most} words (names, numbers, texts and signs) does not \
                 fit into a memory limit of {memory} bytes: raise --memory-limit, or put its rows \
                 or values into a file or table (sty ingest)"
            )));
        }
    }
    Ok(())
}

/// Refuses a statement that sorts or groups by too many keys, or whose expressions become too large
/// when they are simplified.
pub(in crate::sql) fn check(statement: &Statement) -> Result<()> {
    let mut size = Size { open: vec![Parts::default()], queries: Vec::new() };
    match visit(statement, &mut size) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(what) => Err(Error::LimitExceeded(what)),
    }
}

/// What is within each expression that is open, so far.
struct Size {
    open: Vec<Parts>,
    queries: Vec<OpenQuery>,
}

/// How large a query is once those of its WITH are put in the place of their names.
#[derive(Clone, Copy)]
struct Expanded {
    /// Queries and tables.
    parts: u64,
    levels: u64,
    /// How often a value of the innermost query is named at most, since expressions are put in the
    /// place of their names, too.
    repeats: u64,
}

/// A table, or a query without others.
const ONE: Expanded = Expanded { parts: 1, levels: 0, repeats: 1 };

/// A query around what is visited.
struct OpenQuery {
    expanded: Expanded,
    /// How often one of its own expressions names the same column.
    repeats: u64,
    /// The names in its WITH, the next one last.
    names: Vec<String>,
    known: Vec<(String, Expanded)>,
}

impl Expanded {
    fn add(&mut self, other: Expanded) {
        self.parts = self.parts.saturating_add(other.parts);
        self.levels = self.levels.max(other.levels);
        self.repeats = self.repeats.max(other.repeats);
    }
}

impl Size {
    /// What a name stands for in the queries that are open, the innermost first.
    fn known(&self, name: &ObjectName) -> Option<Expanded> {
        let [part] = name.0.as_slice() else { return None };
        let name = &part.as_ident()?.value;
        let mut all = self.queries.iter().rev().flat_map(|query| query.known.iter().rev());
        all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, expanded)| *expanded)
    }
}

#[derive(Clone, Copy, Default)]
struct Parts {
    /// Of all arguments but the last.
    before: u64,
    last: u64,
    /// How many levels are repeated.
    levels: usize,
}

impl Visitor for Size {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        let order = query.order_by.as_ref().map_or(0, |order| match &order.kind {
            OrderByKind::Expressions(keys) => keys.len(),
            OrderByKind::All(_) => 0,
        });
        let keys = match query.body.as_ref() {
            SetExpr::Select(select) => match &select.group_by {
                GroupByExpr::Expressions(keys, _) => keys.as_slice(),
                GroupByExpr::All(_) => &[],
            },
            _ => &[],
        };
        let sets = keys.iter().map(sets).fold(1, usize::saturating_mul);
        if sets > MAX_SETS {
            return ControlFlow::Break(format!(
                "a query groups by {sets} sets of keys, and at most {MAX_SETS} are allowed"
            ));
        }
        let most = order.max(keys.len());
        if most > MAX_KEYS {
            return ControlFlow::Break(format!(
                "a query sorts or groups by {most} keys, and at most {MAX_KEYS} are allowed"
            ));
        }
        let mut names: Vec<String> = query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .map(|table| table.alias.name.value.clone())
            .collect();
        names.reverse();
        let repeats = most_repeats(&query.body);
        self.queries.push(OpenQuery { expanded: ONE, repeats, names, known: Vec::new() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        let Some(OpenQuery { mut expanded, repeats, .. }) = self.queries.pop() else {
            return ControlFlow::Continue(());
        };
        expanded.repeats = expanded.repeats.saturating_mul(repeats);
        if expanded.repeats > MAX_REPEATS {
            return ControlFlow::Break(format!(
                "queries within queries name a value more than {MAX_REPEATS} times, because each \
                 names the values of the one within several times; CREATE TABLE … AS keeps what \
                 one returns"
            ));
        }
        if expanded.parts > MAX_EXPANDED || expanded.levels > MAX_LEVELS {
            return ControlFlow::Break(format!(
                "a statement has more than {MAX_EXPANDED} queries and tables, or {MAX_LEVELS} \
                 queries on top of each other, once the queries of WITH stand where they are \
                 named; CREATE TABLE … AS keeps what one returns"
            ));
        }
        if let Some(outer) = self.queries.last_mut() {
            match outer.names.pop() {
                Some(name) => {
                    expanded.levels += 1;
                    outer.known.push((name, expanded));
                }
                None => outer.expanded.add(expanded),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<String> {
        let expanded = self.known(relation).unwrap_or(ONE);
        if let Some(query) = self.queries.last_mut() {
            query.expanded.add(expanded);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
        self.open.push(Parts::default());
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let Parts { before, last, levels } = self.open.pop().unwrap_or_default();
        let repeats = is_repeated(expr);
        let parts = before.saturating_mul(1 + u64::from(repeats)).saturating_add(last + 1);
        if repeats && levels > 0 && parts > MAX_PARTS {
            return ControlFlow::Break(format!(
                "coalesce in coalesce: an expression has more than {MAX_PARTS} parts once it is \
                 simplified, which doubles it at each level; coalesce(a, b, c) takes any number \
                 of values"
            ));
        }
        if let Some(outer) = self.open.last_mut() {
            outer.before = outer.before.saturating_add(outer.last);
            outer.last = parts;
            outer.levels = outer.levels.max(levels + usize::from(repeats));
        }
        ControlFlow::Continue(())
    }
}

/// How many sets of keys a key of GROUP BY stands for.
fn sets(key: &Expr) -> usize {
    match key {
        Expr::GroupingSets(sets) => sets.len(),
        Expr::Rollup(parts) => parts.len() + 1,
        Expr::Cube(parts) => u32::try_from(parts.len())
            .ok()
            .and_then(|parts| 1_usize.checked_shl(parts))
            .unwrap_or(usize::MAX),
        _ => 1,
    }
}

/// How often an expression of a query names the same column at most, and at least once.
fn most_repeats(body: &SetExpr) -> u64 {
    match body {
        SetExpr::Select(select) => {
            let repeats = select.projection.iter().map(|item| {
                let mut names = Names::default();
                let _ = visit(item, &mut names);
                names.counts.into_values().max().unwrap_or(1)
            });
            repeats.max().unwrap_or(1)
        }
        SetExpr::SetOperation { left, right, .. } => most_repeats(left).max(most_repeats(right)),
        _ => 1,
    }
}

/// How often each column is named, subqueries aside.
#[derive(Default)]
struct Names {
    counts: HashMap<String, u64>,
    subqueries: usize,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.subqueries = self.subqueries.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let name = match expr {
            _ if self.subqueries > 0 => None,
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        if let Some(name) = name {
            *self.counts.entry(name.value.to_ascii_lowercase()).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression names its arguments twice when it is simplified, but for the last one.
fn is_repeated(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let Some(name) = function.name.0.last().and_then(|name| name.as_ident()) else { return false };
    ["coalesce", "nvl", "ifnull", "nvl2"].iter().any(|known| name.value.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use datafusion::common::config::Dialect;

    use super::*;
    use crate::sql::syntax::parse;

    fn refusal(sql: &str, memory: u64) -> Option<String> {
        match parse::statements(sql, Dialect::Generic, memory) {
            Ok(_) => None,
            Err(Error::LimitExceeded(what)) => Some(what),
            Err(other) => Some(format!("another error: {other}")),
        }
    }

    #[test]
    fn what_programs_write_fits_and_more_is_refused_by_the_memory_limit() {
        let list = |values: usize| {
            let values: Vec<String> = (0..values).map(|value| value.to_string()).collect();
            format!("SELECT * FROM t WHERE x IN ({})", values.join(", "))
        };
        let rows = |rows: usize| {
            let rows = vec!["(1, 'a', 2.5, NULL, 7)"; rows].join(", ");
            format!("INSERT INTO t VALUES {rows}")
        };
        assert_eq!(refusal(&list(100_000), 1 << 20), None);
        assert_eq!(refusal(&rows(10_000), 1 << 20), None);
        assert_eq!(refusal(&vec![rows(10_000); 4].join(";"), 1 << 20), None);
        let text = |bytes: usize| format!("SELECT '{}'", "x".repeat(bytes));
        assert_eq!(refusal(&text(13 << 20), 1 << 20), None);
        assert!(refusal(&text(15 << 20), 1 << 20).unwrap().contains("--memory-limit"));
        assert!(refusal(&list(700_000), 256 << 20).unwrap().contains("--memory-limit"));
        assert_eq!(refusal(&list(700_000), 1 << 30), None);
    }

    #[test]
    fn many_statements_and_sets_of_keys_are_refused() {
        let statements = |count| "SELECT 1;".repeat(count);
        assert_eq!(refusal(&statements(8000), 1 << 20), None);
        assert!(refusal(&statements(9000), 1 << 20).unwrap().contains("run it in parts"));
        assert_eq!(refusal(&statements(9000), 64 << 20), None);
        let cube = |keys: usize| format!("CUBE ({})", vec!["a"; keys].join(", "));
        for (keys, sets) in [
            (cube(12), None),
            (cube(13), Some("8192 sets")),
            (cube(200), Some("sets")),
            (format!("{}, {}", cube(6), cube(7)), Some("8192 sets")),
            (format!("ROLLUP ({})", vec!["a"; 999].join(", ")), None),
            (format!("GROUPING SETS ({})", vec!["(a)"; 4096].join(", ")), None),
            (format!("GROUPING SETS ({})", vec!["(a)"; 4097].join(", ")), Some("4097 sets")),
        ] {
            let refused = refusal(&format!("SELECT 1 FROM t GROUP BY {keys}"), 1 << 30);
            match (sets, &refused) {
                (None, None) => {}
                (Some(sets), Some(refused)) if refused.contains(sets) => {}
                _ => panic!("{keys}: {refused:?}"),
            }
        }
    }

    #[test]
    fn many_keys_and_nested_coalesce_are_refused() {
        let keys = |count: usize| vec!["x"; count].join(", ");
        for by in ["GROUP BY", "ORDER BY"] {
            let sql = |count| format!("SELECT 1 FROM t {by} {}", keys(count));
            assert_eq!(refusal(&sql(1000), 1 << 30), None);
            assert!(refusal(&sql(1001), 1 << 30).unwrap().contains("1001 keys"));
        }
        let nested = |levels: usize| {
            format!("SELECT {}x{}", "coalesce(".repeat(levels), ", 1)".repeat(levels))
        };
        assert_eq!(refusal(&nested(10), 1 << 30), None);
        let last = format!("SELECT {}x{}", "coalesce(1, ".repeat(90), ")".repeat(90));
        assert_eq!(refusal(&last, 1 << 30), None);
        assert!(refusal(&nested(30), 1 << 30).unwrap().contains("coalesce(a, b, c)"));
        let flat = format!("SELECT coalesce({})", keys(50_000));
        assert_eq!(refusal(&flat, 1 << 30), None);
    }

    #[test]
    fn queries_that_name_others_many_times_are_refused() {
        let chain = |levels: usize, next: &str| {
            let tables = (1..levels).map(|level| {
                format!(", t{level} AS ({})", next.replace("t.", &format!("t{} ", level - 1)))
            });
            let tables: String = tables.collect();
            format!("WITH t0 AS (SELECT 1 AS a){tables} SELECT * FROM t{}", levels - 1)
        };
        let (once, twice) = ("SELECT a FROM t.", "SELECT a FROM t. UNION ALL SELECT a FROM t.");
        assert_eq!(refusal(&chain(9, twice), 1 << 30), None);
        assert!(refusal(&chain(30, twice), 1 << 30).unwrap().contains("4096 queries"));
        assert_eq!(refusal(&chain(200, once), 1 << 30), None);
        assert!(refusal(&chain(300, once), 1 << 30).unwrap().contains("256"));
        let thrice = "SELECT CASE WHEN a > 1 THEN a ELSE a END AS a FROM t.";
        assert_eq!(refusal(&chain(12, thrice), 1 << 30), None);
        assert!(refusal(&chain(20, thrice), 1 << 30).unwrap().contains("1048576 times"));
        let within = format!("SELECT (SELECT count(*) FROM ({}) q)", chain(30, twice));
        assert!(refusal(&within, 1 << 30).unwrap().contains("4096 queries"));
        let many = vec!["SELECT a FROM t"; 1000].join(" UNION ALL ");
        assert_eq!(refusal(&many, 1 << 30), None);
    }
}
