//! Reduces a failing statement to a smaller one that still fails, for a person to read.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::SQLiteDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The most statements that are tried.
const TRIES: usize = 1500;

/// The smallest statement found for which `fails` is true.
pub(super) fn smaller(sql: &str, fails: &impl Fn(&str) -> bool) -> String {
    let Ok(mut parsed) = Parser::parse_sql(&SQLiteDialect {}, sql) else { return sql.to_owned() };
    let Some(mut best) = parsed.pop() else { return sql.to_owned() };
    if !fails(&best.to_string()) {
        return sql.to_owned();
    }
    let mut tries = 0;
    let mut at = 0;
    loop {
        let mut cuts = 0;
        let mut found = false;
        for way in 0.. {
            let mut smaller = best.clone();
            let mut cut = Cut { place: at, way, seen: 0, cuts: 0 };
            let _ = smaller.visit(&mut cut);
            cuts = cut.seen;
            if way >= cut.cuts || tries >= TRIES {
                break;
            }
            tries += 1;
            let text = smaller.to_string();
            if text.len() < best.to_string().len() && fails(&text) {
                best = smaller;
                found = true;
                break;
            }
        }
        if tries >= TRIES {
            return best.to_string();
        }
        match (found, at + 1 < cuts) {
            (true, _) => {}
            (false, true) => at += 1,
            (false, false) => break,
        }
    }
    // Parts that could not be removed at first may be removable now.
    let text = best.to_string();
    if text.len() < sql.len() { smaller(&text, fails) } else { text }
}

/// Removes something at one place, in one of several ways.
struct Cut {
    place: usize,
    way: usize,
    /// The places met so far.
    seen: usize,
    /// The number of ways at the place.
    cuts: usize,
}

impl Cut {
    fn is_here(&mut self) -> bool {
        self.seen += 1;
        self.seen == self.place + 1
    }

    fn choose<T: Clone>(&mut self, place: &mut T, ways: Vec<T>) {
        self.cuts = ways.len();
        if let Some(way) = ways.into_iter().nth(self.way) {
            *place = way;
        }
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.into(), false).into())
}

impl VisitorMut for Cut {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !self.is_here() {
            return ControlFlow::Continue(());
        }
        let mut ways = Vec::new();
        let mut without = |change: &dyn Fn(&mut Query)| {
            let mut other = query.clone();
            change(&mut other);
            if other != *query {
                ways.push(other);
            }
        };
        without(&|query| query.with = None);
        without(&|query| query.limit_clause = None);
        without(&|query| {
            query.limit_clause = None;
            query.order_by = None;
        });
        if let SetExpr::SetOperation { left, right, .. } = query.body.as_ref() {
            without(&|query| query.body = left.clone());
            without(&|query| query.body = right.clone());
        }
        self.choose(query, ways);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !self.is_here() {
            return ControlFlow::Continue(());
        }
        let mut ways = Vec::new();
        let mut without = |change: &dyn Fn(&mut Select)| {
            let mut other = select.clone();
            change(&mut other);
            if other != *select {
                ways.push(other);
            }
        };
        without(&|select| select.selection = None);
        without(&|select| select.having = None);
        without(&|select| select.distinct = None);
        if select.projection.len() > 1 {
            for at in 0..select.projection.len() {
                without(&|select| drop(select.projection.remove(at)));
            }
        }
        if select.from.len() > 1 {
            for at in 0..select.from.len() {
                without(&|select| drop(select.from.remove(at)));
            }
        }
        for from in 0..select.from.len() {
            for join in 0..select.from[from].joins.len() {
                without(&|select| drop(select.from[from].joins.remove(join)));
                without(&|select| {
                    let relation = select.from[from].joins.remove(join).relation;
                    select.from[from].relation = relation;
                });
            }
        }
        self.choose(select, ways);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if !self.is_here() {
            return ControlFlow::Continue(());
        }
        let TableFactor::Derived { subquery, alias, .. } = factor else {
            return ControlFlow::Continue(());
        };
        // A derived table over one table becomes that table.
        let SetExpr::Select(select) = subquery.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let mut ways = Vec::new();
        if let Some(TableFactor::Table { .. }) = select.from.first().map(|from| &from.relation) {
            let mut table = select.from[0].relation.clone();
            if let TableFactor::Table { alias: other, .. } = &mut table {
                *other = alias.clone();
            }
            ways.push(table);
        }
        self.choose(factor, ways);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if !self.is_here() {
            return ControlFlow::Continue(());
        }
        let mut ways = parts(expr);
        if !matches!(expr, Expr::Value(_)) {
            ways.extend([
                null(),
                number("1"),
                Expr::Value(Value::SingleQuotedString("a".into()).into()),
            ]);
            let truth = Expr::BinaryOp {
                left: Box::new(number("1")),
                op: datafusion::sql::sqlparser::ast::BinaryOperator::Eq,
                right: Box::new(number("1")),
            };
            ways.push(truth);
        }
        self.choose(expr, ways);
        ControlFlow::Continue(())
    }
}

/// The operands of an expression.
fn parts(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::BinaryOp { left, right, .. } => vec![(**left).clone(), (**right).clone()],
        Expr::Nested(inner)
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner) => vec![(**inner).clone()],
        Expr::Case { conditions, else_result, .. } => {
            let mut all: Vec<Expr> =
                conditions.iter().flat_map(|w| [w.condition.clone(), w.result.clone()]).collect();
            all.extend(else_result.as_deref().cloned());
            all
        }
        Expr::InList { expr, list, .. } => {
            std::iter::once((**expr).clone()).chain(list.iter().cloned()).collect()
        }
        Expr::Function(function) => {
            use datafusion::sql::sqlparser::ast::{
                FunctionArg, FunctionArgExpr, FunctionArguments,
            };
            let FunctionArguments::List(list) = &function.args else { return Vec::new() };
            let argument = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().filter_map(argument).collect()
        }
        _ => Vec::new(),
    }
}
