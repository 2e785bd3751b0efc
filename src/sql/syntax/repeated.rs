//! Removes repeated keys from `DISTINCT ON (a, a)` and from the ORDER BY of a DISTINCT ON and of a
//! function, and the ORDER BY of aggregates for which any order is as good, such as `count`.
//!
//! Neither has an effect. DataFusion (55.2) counts repeated keys differently in two places, and
//! hands keys of order to accumulators of groups that take none; it fails at both.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArgumentClause, FunctionArguments, OrderByKind, Query, Statement,
    VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::walks::{for_each_select, visit_mut};

/// Removes repeated keys from every query and function of a statement.
pub(in crate::sql) fn remove(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Repeated);
}

struct Repeated;

impl VisitorMut for Repeated {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut is_found = false;
        for_each_select(&mut query.body, &mut |select| {
            if let Some(Distinct::On(keys)) = &mut select.distinct {
                keep_first(keys, |key| key);
                is_found = true;
            }
        });
        if is_found
            && let Some(OrderByKind::Expressions(keys)) =
                query.order_by.as_mut().map(|order| &mut order.kind)
        {
            keep_first(keys, |key| &key.expr);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
            if name.is_some_and(|name| takes_any_order(&name)) {
                let is_order = |clause: &FunctionArgumentClause| {
                    matches!(clause, FunctionArgumentClause::OrderBy(_))
                };
                list.clauses.retain(|clause| !is_order(clause));
            }
            for clause in &mut list.clauses {
                if let FunctionArgumentClause::OrderBy(keys) = clause {
                    keep_first(keys, |key| &key.expr);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether an aggregate answers alike in whichever order the rows come.
fn takes_any_order(name: &str) -> bool {
    const NAMES: [&str; 33] = [
        "approx_count_distinct",
        "approx_distinct",
        "approx_median",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "corr",
        "count",
        "count_if",
        "covar",
        "covar_pop",
        "covar_samp",
        "every",
        "kurtosis",
        "max",
        "mean",
        "median",
        "min",
        "product",
        "skewness",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "sum",
        "var",
        "var_pop",
        "var_population",
        "var_samp",
        "var_sample",
        "variance",
    ];
    NAMES.contains(&name) || name.starts_with("regr_")
}

fn keep_first<T>(keys: &mut Vec<T>, expr: impl Fn(&T) -> &Expr) {
    let mut known: Vec<Expr> = Vec::new();
    keys.retain(|key| {
        let new = !known.contains(expr(key));
        if new {
            known.push(expr(key).clone());
        }
        new
    });
}
