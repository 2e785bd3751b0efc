//! Functions of DuckDB, ClickHouse, PostgreSQL, LocustDB and kdb+ that are expressions of other
//! functions: `countIf(a > 1)` is `count(*) FILTER (WHERE a > 1)`.
//!
//! Where this stands on the road of a query: after parsing, once the columns have their names.
//! Because a call becomes an expression of known functions, it runs wherever these do, in fragments
//! too, and filters on it prune. `table` has those of a fixed number of arguments, as text; what
//! takes any number, or looks at its arguments, is in `special` and `json`.

mod calls;
mod json;
mod named;
mod out;
mod special;
mod symmetric;
mod table;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArgumentClause, FunctionArguments, ObjectNamePart,
    VisitMut,
};

use crate::error::{Error, Result};
use crate::sql::convert::listed;
use crate::sql::syntax::volatile;
use crate::sql::walks::visit_expressions_mut;

pub(in crate::sql) use self::out::takes_rows;

use self::calls::{arguments, parsed, substitute};
use self::table::Macro;

/// Puts expressions in the place of calls.
pub(in crate::sql) fn expand(tree: &mut impl VisitMut) -> Result<()> {
    let mut left = MOST_CALLS;
    match visit_expressions_mut(tree, |expr| expand_one(expr, &mut left)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The names of all macros.
pub(in crate::sql) fn names() -> impl Iterator<Item = &'static str> {
    all()
        .map(|(call, _)| name_and_parameters(call).0)
        .chain(special::NAMES)
        .chain(named::NAMES)
        .chain(json::names())
}

/// The names of all macros with their calls, and the texts that stand for them.
pub(in crate::sql) fn calls() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    all().map(|(call, text)| (name_and_parameters(call).0, *call, *text))
}

fn all() -> impl Iterator<Item = &'static Macro> {
    use table::{CLICKHOUSE, CLICKHOUSE_AGGREGATES, DUCKDB, DUCKDB_AGGREGATES, OTHERS, POSTGRESQL};
    [DUCKDB, DUCKDB_AGGREGATES, CLICKHOUSE, CLICKHOUSE_AGGREGATES, OTHERS, POSTGRESQL]
        .into_iter()
        .flatten()
}

fn expand_one(expr: &mut Expr, left: &mut usize) -> ControlFlow<Error> {
    let (name, expansion) = match &*expr {
        Expr::Function(call) => (Some(&call.name), expanded(call)),
        Expr::Between { .. } => (None, symmetric::expanded(expr)),
        _ => return ControlFlow::Continue(()),
    };
    let name = || name.map_or_else(|| "BETWEEN SYMMETRIC".to_owned(), |name| format!("{name}()"));
    let repeats = |expansion: &Expr| match volatile::calls(&*expr) {
        0 => false,
        once => volatile::calls(expansion) > once,
    };
    match expansion {
        Ok(Some(_)) if *left == 0 => ControlFlow::Break(Error::LimitExceeded(format!(
            "the call of {} is one of too many within each other; compute the inner ones in a \
             subquery",
            name()
        ))),
        Ok(Some(expansion)) if repeats(&expansion) => {
            ControlFlow::Break(volatile::refused(&name()))
        }
        Ok(Some(expansion)) => {
            *left -= 1;
            *expr = expansion;
            ControlFlow::Continue(())
        }
        Ok(None) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// What a call stands for; `None` if it is not one of a macro.
fn expanded(call: &Function) -> Result<Option<Expr>> {
    let [ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return Ok(None) };
    if name.quote_style.is_some() {
        return Ok(None);
    }
    if let Some((expansion, call)) = special::in_own_order(&name.value, call) {
        return carried(expansion, &call, |name| Some(name));
    }
    if let Some(expansion) = json::expanded(&name.value, call)? {
        return carried(expansion, call, |name| Some(name));
    }
    if let Some(expansion) = named::expanded(&name.value, call)? {
        return carried(expansion, call, |name| Some(name));
    }
    if let Some(expansion) = special::expanded(&name.value, call)? {
        return carried(expansion, call, |name| Some(name));
    }
    let known: Vec<&Macro> = all().filter(|known| is_of(known.0, &name.value)).collect();
    if known.is_empty() {
        return Ok(None);
    }
    let Some(arguments) = arguments(call) else { return Ok(None) };
    for (signature, text) in &known {
        let parameters = name_and_parameters(signature).1;
        if parameters.len() == arguments.len() {
            if !call.within_group.is_empty() {
                return Err(Error::InvalidInput(format!(
                    "{} takes no WITHIN GROUP; write its ORDER BY within its parentheses",
                    call.name
                )));
            }
            let filled = filled(text, &parameters, &arguments)?;
            return carried(filled, call, |name| name.strip_prefix(MARK));
        }
    }
    // `string_agg(x, ',')` and the like are DataFusion's own.
    if table::AGGREGATES.contains(&name.value.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let calls = listed(known.iter().map(|(signature, _)| *signature));
    Err(Error::InvalidInput(format!(
        "{} does not take {} arguments; write {calls}",
        name.value,
        arguments.len()
    )))
}

/// Whether a signature begins with this name. Each call of a statement is looked up.
fn is_of(signature: &str, name: &str) -> bool {
    signature.split_at_checked(name.len()).is_some_and(|(own, parameters)| {
        (parameters.is_empty() || parameters.starts_with('(')) && own.eq_ignore_ascii_case(name)
    })
}

/// The name and the parameters of `name(a, b)`.
fn name_and_parameters(signature: &'static str) -> (&'static str, Vec<&'static str>) {
    let (name, parameters) = signature.split_once('(').unwrap_or((signature, ""));
    let parameters = parameters.trim_end_matches(')').split(", ");
    (name, parameters.filter(|parameter| !parameter.is_empty()).collect())
}

/// The expression of a macro's text with these arguments.
fn filled(text: &str, parameters: &[&str], arguments: &[Expr]) -> Result<Expr> {
    let mut expr = parsed(text)?;
    // Macros may name each other.
    expand(&mut expr)?;
    mark_aggregates(&mut expr);
    substitute(&mut expr, parameters, arguments);
    Ok(expr)
}

/// What begins the names of a macro's own aggregates, until they are told from those of its
/// arguments.
const MARK: &str = "\u{1}";

/// The most calls of macros in an expression: a macro may name an argument twice, and the calls in
/// that are doubled.
const MOST_CALLS: usize = 4096;

fn mark_aggregates(expr: &mut Expr) {
    let _ = visit_expressions_mut(expr, |part| {
        if let Expr::Function(function) = part
            && let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice()
            && table::AGGREGATES.contains(&name.value.as_str())
        {
            name.value.insert_str(0, MARK);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Gives the FILTER, OVER, DISTINCT and ORDER BY of a call to the aggregates of its expansion,
/// whose names `own` recognises and returns as they are called. `None` if there are options and no
/// aggregates: DataFusion reports the call.
fn carried(
    mut expansion: Expr,
    call: &Function,
    own: impl Fn(&str) -> Option<&str>,
) -> Result<Option<Expr>> {
    let (distinct, clauses) = match &call.args {
        FunctionArguments::List(list) => (list.duplicate_treatment, list.clauses.clone()),
        _ => (None, Vec::new()),
    };
    let has_options = call.filter.is_some()
        || call.over.is_some()
        || call.null_treatment.is_some()
        || distinct.is_some()
        || !clauses.is_empty();
    let orders = clauses.iter().any(|one| matches!(one, FunctionArgumentClause::OrderBy(_)));
    let (mut found, mut clashes) = (false, false);
    let _ = visit_expressions_mut(&mut expansion, |part| {
        let Expr::Function(function) = part else { return ControlFlow::<()>::Continue(()) };
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_mut_slice() else {
            return ControlFlow::Continue(());
        };
        let called = own(&name.value).map(str::to_owned);
        let Some(called) = called.filter(|name| table::AGGREGATES.contains(&name.as_str())) else {
            return ControlFlow::Continue(());
        };
        name.value = called;
        if !has_options {
            return ControlFlow::Continue(());
        }
        found = true;
        function.filter = both(function.filter.take(), call.filter.clone());
        function.over.clone_from(&call.over);
        function.null_treatment = function.null_treatment.or(call.null_treatment);
        if let FunctionArguments::List(list) = &mut function.args {
            list.duplicate_treatment = list.duplicate_treatment.or(distinct);
            clashes |= orders && !list.clauses.is_empty();
            list.clauses.extend(clauses.iter().cloned());
        }
        ControlFlow::Continue(())
    });
    if clashes {
        return Err(Error::InvalidInput(format!("{} has an order of its own", call.name)));
    }
    Ok((found || !has_options).then_some(expansion))
}

/// The conjunction of two conditions.
fn both(one: Option<Box<Expr>>, other: Option<Box<Expr>>) -> Option<Box<Expr>> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let (left, right) = (Box::new(Expr::Nested(one)), Box::new(Expr::Nested(other)));
            Some(Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right }))
        }
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::sql::sqlparser::ast::Ident;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::sql::syntax::dialect::StylobateDialect;

    fn expression(sql: &str) -> String {
        let dialect = StylobateDialect::new(sql.len());
        let mut expr = Parser::new(&dialect).try_with_sql(sql).unwrap().parse_expr().unwrap();
        expand(&mut expr).unwrap();
        expr.to_string()
    }

    #[test]
    fn every_text_is_an_expression_of_its_parameters() {
        for (signature, text) in all() {
            let parameters = name_and_parameters(signature).1;
            let arguments: Vec<Expr> = (0..parameters.len())
                .map(|at| Expr::Identifier(Ident::new(format!("argument{at}"))))
                .collect();
            let filled = filled(text, &parameters, &arguments).unwrap().to_string();
            for at in 0..parameters.len() {
                assert!(filled.contains(&format!("argument{at}")), "{signature}: {filled}");
            }
        }
    }

    #[test]
    fn every_macro_is_in_the_documentation() {
        let page = include_str!("../../../../docs/sql.md");
        for (name, ..) in calls() {
            let listed = [format!("`{name}(`"), format!("`{name}("), format!("`{name}`")];
            let is_listed = listed.iter().any(|one| page.contains(one.trim_end_matches('`')));
            assert!(is_listed, "docs/sql.md lacks {name}");
        }
    }

    #[test]
    fn options_of_a_call_are_those_of_its_aggregates() {
        for (sql, expected) in [
            ("countIf(a OR b)", "count(*) FILTER (WHERE (a OR b))"),
            ("SUMIF(a, b) FILTER (WHERE c)", "sum(a) FILTER (WHERE (b) AND (c))"),
            ("approx_count_distinct(a) OVER w", "approx_distinct(a) OVER w"),
            ("list(DISTINCT a ORDER BY a)", "array_agg(DISTINCT a ORDER BY a)"),
            ("quantile_disc(a, 0.8 ORDER BY a DESC)", "quantile_disc(a, -(0.8))"),
            ("quantile(a, [0, 0.5] ORDER BY a DESC)", "[max(a), quantile_disc(a, -(0.5))]"),
            ("toYear(a + b)", "date_part('year', (a + b))"),
            ("if(a, b, c)", "CASE WHEN a THEN b ELSE c END"),
            ("multiIf(a, 1, b, 2, 3)", "CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END"),
            ("toYear(t) FILTER (WHERE a)", "toYear(t) FILTER (WHERE a)"),
            ("\"toYear\"(t)", "\"toYear\"(t)"),
        ] {
            assert_eq!(expression(sql), expected);
        }
    }
}
