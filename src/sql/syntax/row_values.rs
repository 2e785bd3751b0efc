//! Expands comparisons of rows, `(a, b) = (c, d)` and `(a, b) IN (…)`, and tests of rows for
//! null, to comparisons and tests of their values.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) compares rows as
//! structs, in which null equals null, coerces their values to types in which decimals are not
//! exact, and does not know subqueries of several columns. In SQL, `(a, b) = (c, d)` is `a = c AND
//! b = d`, and `(a, b) IS NOT NULL` is `a IS NOT NULL AND b IS NOT NULL`. `ROW(a, b)` is `(a, b)`.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, UnaryOperator,
    Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{Error, Result};
use crate::sql::syntax::chains::joined;
use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::syntax::volatile;
use crate::sql::walks::{function_call, visit_expressions, visit_expressions_mut, visit_mut};

/// The prefix of the names of subqueries of several columns.
pub(in crate::sql) const ROWS: &str = "sty__rows_";

/// Expands all comparisons of rows in a statement.
pub(in crate::sql) fn expand(statement: &mut Statement) -> Result<()> {
    if let ControlFlow::Break(error) = visit_mut(statement, &mut RowComparisons::default()) {
        return Err(error);
    }
    // The other rows are values. The planner knows only those that begin with a column or literal.
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Tuple(values) = expr
            && !matches!(
                values.first(),
                Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) | None
            )
        {
            *expr = function_call("struct", std::mem::take(values));
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(())
}

#[derive(Default)]
struct RowComparisons {
    /// How many subqueries have been named.
    subqueries: usize,
}

impl VisitorMut for RowComparisons {
    type Break = Error;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // A WHERE does not distinguish null from false.
        if let Some(condition) = &mut select.selection {
            without_unknown(condition);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some((width, other)) = widths_that_differ(expr) {
            return ControlFlow::Break(Error::InvalidInput(format!(
                "a row of {width} values is compared with one of {other}"
            )));
        }
        let expanded = match &*expr {
            Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
                (Some(left), Some(right)) if left.len() == right.len() => {
                    compare(&left, op, &right)
                }
                (Some(row), None) => subquery(right).and_then(|query| {
                    self.with_subquery(&row, query, |row, found| compare(row, op, found))
                }),
                (None, Some(row)) => subquery(left).and_then(|query| {
                    self.with_subquery(&row, query, |row, found| compare(found, op, row))
                }),
                _ => None,
            },
            Expr::AnyOp { left, compare_op, right, .. } => row(left)
                .zip(subquery(right))
                .and_then(|(row, query)| self.any_in(&row, compare_op, query)),
            Expr::AllOp { left, compare_op, right } => {
                row(left).zip(subquery(right)).and_then(|(row, query)| {
                    Some(not(self.any_in(&row, &opposite(compare_op)?, query)?))
                })
            }
            Expr::Between { expr, low, high, negated } => match (row(expr), row(low), row(high)) {
                (Some(values), Some(low), Some(high))
                    if values.len() == low.len() && low.len() == high.len() =>
                {
                    let from = compare(&values, &BinaryOperator::GtEq, &low);
                    let both = from.zip(compare(&values, &BinaryOperator::LtEq, &high));
                    let both = both.map(|(from, to)| binary(&from, &BinaryOperator::And, &to));
                    both.map(|both| if *negated { not(both) } else { both })
                }
                _ => None,
            },
            Expr::InList { expr, list, negated } => {
                row(expr).and_then(|row| in_list(&row, list, *negated))
            }
            Expr::InSubquery { expr, subquery, negated } => {
                row(expr).and_then(|row| self.in_subquery(&row, subquery, *negated))
            }
            Expr::IsNull(operand) => all(operand, Expr::IsNull),
            Expr::IsNotNull(operand) => all(operand, Expr::IsNotNull),
            _ => None,
        };
        if let Some(expanded) = expanded {
            *expr = Expr::Nested(Box::new(expanded));
        }
        ControlFlow::Continue(())
    }
}

/// The values of a row; `None` for an expression that is not a row.
fn row(expr: &Expr) -> Option<Cow<'_, [Expr]>> {
    match expr {
        Expr::Tuple(values) => Some(Cow::Borrowed(values)),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) => called_row(function).map(Cow::Owned),
        _ => None,
    }
}

/// The numbers of values of two rows that an expression compares, if these are known and differ.
fn widths_that_differ(expr: &Expr) -> Option<(usize, usize)> {
    let width = |expr: &Expr| match row(expr) {
        Some(values) => Some(values.len()),
        None => subquery(expr).and_then(width_of),
    };
    let differ = |left: &Expr, other: Option<usize>| {
        let left = row(left)?.len();
        other.filter(|other| *other != left).map(|other| (left, other))
    };
    match expr {
        Expr::BinaryOp { left, op, right } if is_comparison(op) => {
            differ(left, width(right)).or_else(|| differ(right, width(left)))
        }
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => {
            differ(left, subquery(right).and_then(width_of))
        }
        Expr::InSubquery { expr, subquery, .. } => differ(expr, width_of(subquery)),
        Expr::InList { expr, list, .. } => list.iter().find_map(|member| {
            let other = if is_scalar(member) { Some(1) } else { width(member) };
            differ(expr, other)
        }),
        _ => None,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether an expression is a number or text, and so no struct.
fn is_scalar(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Null | Value::Placeholder(_)),
        _ => false,
    }
}

/// How many columns a query has, if it lists them.
fn width_of(query: &Query) -> Option<usize> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_one = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            // `COLUMNS(…)` may be several.
            visit_expressions(expr, |part| match part {
                Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("columns") => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            })
            .is_continue()
        }
        _ => false,
    };
    let items = &select.projection;
    (!items.is_empty() && items.iter().all(is_one)).then_some(items.len())
}

/// The query of an expression that is one.
fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

/// The values of `ROW(…)`.
fn called_row(function: &Function) -> Option<Vec<Expr>> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    if !name.value.eq_ignore_ascii_case("row") {
        return None;
    }
    let values = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    values.collect()
}

/// Whether all values of a row pass a test.
fn all(expr: &Expr, test: fn(Box<Expr>) -> Expr) -> Option<Expr> {
    let values = row(expr)?;
    let each = values.iter().map(|value| test(Box::new(Expr::Nested(Box::new(value.clone())))));
    each.reduce(|all, next| binary(&all, &BinaryOperator::And, &next))
}

fn compare(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let mut each = left.iter().zip(right).map(|(left, right)| binary(left, op, right));
    match op {
        Eq => each.reduce(|all, next| binary(&all, &And, &next)),
        NotEq => each.reduce(|any, next| binary(&any, &Or, &next)),
        Lt | LtEq | Gt | GtEq => {
            // The first pair of values that differ decides.
            let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
            let pairs = left.iter().zip(right).rev().skip(1);
            Some(pairs.fold(each.next_back()?, |rest, (left, right)| {
                let equal = Expr::Nested(Box::new(binary(&binary(left, &Eq, right), &And, &rest)));
                Expr::Nested(Box::new(binary(&binary(left, &strict, right), &Or, &equal)))
            }))
        }
        _ => None,
    }
}

fn binary(left: &Expr, op: &BinaryOperator, right: &Expr) -> Expr {
    let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
    Expr::BinaryOp { left, op: op.clone(), right }
}

/// The comparison that is true where another one is false.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    Some(match op {
        Eq => NotEq,
        NotEq => Eq,
        Lt => GtEq,
        GtEq => Lt,
        Gt => LtEq,
        LtEq => Gt,
        _ => return None,
    })
}

fn in_list(values: &[Expr], list: &[Expr], negated: bool) -> Option<Expr> {
    let equal = |member: &Expr| {
        let member = row(member).filter(|member| member.len() == values.len())?;
        Some(Expr::Nested(Box::new(compare(values, &BinaryOperator::Eq, &member)?)))
    };
    let each = list.iter().map(equal).collect::<Option<Vec<Expr>>>()?;
    let any = joined(each, &|left: Expr, right: Expr| Expr::BinaryOp {
        left: left.into(),
        op: BinaryOperator::Or,
        right: right.into(),
    })?;
    Some(if negated { not(any) } else { any })
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) }
}

impl RowComparisons {
    /// A subquery of one row with the comparison of its columns: null without a row, and an error
    /// with several. A row that may have an aggregate, which belongs to the query around the
    /// subquery, is compared with one subquery for each column.
    fn with_subquery(
        &mut self,
        values: &[Expr],
        subquery: &Query,
        compare: impl Fn(&[Expr], &[Expr]) -> Option<Expr>,
    ) -> Option<Expr> {
        let (template, member) = self.template(values.len())?;
        let query = over(&template, subquery)?;
        let calls_function = |part: &Expr| match part {
            Expr::Function(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let may_aggregate =
            values.iter().any(|value| visit_expressions(value, calls_function).is_break());
        // Each column is computed by itself, which has to give those of one row.
        let is_certain = subquery.limit_clause.is_none()
            && subquery.fetch.is_none()
            && volatile::calls(subquery) == 0;
        if may_aggregate && is_certain {
            let found = member.iter().map(|column| selecting(&query, column.clone()));
            return compare(values, &found.collect::<Option<Vec<Expr>>>()?);
        }
        selecting(&query, compare(values, &member)?)
    }

    fn in_subquery(&mut self, values: &[Expr], subquery: &Query, negated: bool) -> Option<Expr> {
        let is_in = self.any_in(values, &BinaryOperator::Eq, subquery)?;
        Some(if negated { not(is_in) } else { is_in })
    }

    /// True if the subquery has a row for which the comparison is true; otherwise null if it has
    /// one for which it is null.
    fn any_in(&mut self, values: &[Expr], op: &BinaryOperator, subquery: &Query) -> Option<Expr> {
        let (template, member) = self.template(values.len())?;
        let passes = compare(values, op, &member)?;
        let found = exists(&template, subquery, passes.clone())?;
        let unknown =
            exists(&template, subquery, Expr::IsNull(Box::new(Expr::Nested(Box::new(passes)))))?;
        let or_unknown = binary(&unknown, &BinaryOperator::And, &Expr::Value(Value::Null.into()));
        Some(binary(&found, &BinaryOperator::Or, &Expr::Nested(Box::new(or_unknown))))
    }

    /// A query from a subquery that is to be put into it, and the columns of the latter.
    fn template(&mut self, width: usize) -> Option<(Query, Vec<Expr>)> {
        self.subqueries += 1;
        let name = format!("{ROWS}{}", self.subqueries);
        let columns: Vec<String> =
            (0..width).map(|column| format!("sty__{}_{column}", self.subqueries)).collect();
        let text =
            format!("SELECT 1 FROM (SELECT 1) AS \"{name}\" (\"{}\")", columns.join("\", \""));
        let dialect = StylobateDialect::new(text.len());
        let template = Parser::new(&dialect).try_with_sql(&text).ok()?.parse_query().ok()?;
        let member: Vec<Expr> = columns
            .iter()
            .map(|column| Parser::new(&dialect).try_with_sql(&format!("\"{name}\".\"{column}\"")))
            .map(|parser| parser.ok()?.parse_expr().ok())
            .collect::<Option<Vec<Expr>>>()?;
        Some((*template, member))
    }
}

/// Simplifies conditions that must all be true: removes what can only make them null.
fn without_unknown(condition: &mut Expr) {
    let found = match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            without_unknown(left);
            return without_unknown(right);
        }
        Expr::Nested(inner) => return without_unknown(inner),
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            match (left.as_ref(), right.as_ref()) {
                (found @ Expr::Exists { .. }, Expr::Nested(unknown)) if is_and_null(unknown) => {
                    found.clone()
                }
                _ => return,
            }
        }
        _ => return,
    };
    *condition = found;
}

fn is_and_null(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } => {
            matches!(right.as_ref(), Expr::Value(value) if value.value == Value::Null)
        }
        _ => false,
    }
}

/// `EXISTS` over the rows of the subquery that satisfy a condition.
fn exists(template: &Query, subquery: &Query, condition: Expr) -> Option<Expr> {
    let mut query = over(template, subquery)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.selection = Some(condition);
    Some(Expr::Exists { subquery: Box::new(query), negated: false })
}

/// The query with an expression as its only column, as a value.
fn selecting(query: &Query, column: Expr) -> Option<Expr> {
    let mut query = query.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    select.projection = vec![SelectItem::UnnamedExpr(column)];
    Some(Expr::Subquery(Box::new(query)))
}

/// The template with a subquery in its FROM.
fn over(template: &Query, subquery: &Query) -> Option<Query> {
    let mut query = template.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let from = select.from.first_mut()?;
    let TableFactor::Derived { subquery: inner, .. } = &mut from.relation else { return None };
    **inner = subquery.clone();
    Some(query)
}
