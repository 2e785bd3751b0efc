//! Rewrites `VALUES ((SELECT 1), 2)` as `SELECT (SELECT 1) AS column1, 2 AS column2`, and gives
//! texts the type of the column that they are in: `VALUES (DATE '2020-01-01'), ('2021-01-01')`.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) plans subqueries in
//! VALUES, and columns of the query around them, and then fails on them; and it refuses VALUES as
//! the subquery of IN. Several rows become a UNION ALL in the same order. Beside a date, a time, an
//! interval or a cast, a literal in quotes is one of that type, as in PostgreSQL; DataFusion
//! refuses it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier,
    Statement, TableFactor, Value, ValueWithSpan, Values, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::sql::syntax::dialect::StylobateDialect;
use crate::sql::walks::{visit, visit_mut};

/// The column that rows are sorted by.
const ROW: &str = "sty__row";

/// Rewrites all VALUES that contain a subquery or a column, or are the subquery of an IN.
pub(in crate::sql) fn as_selects(statement: &mut Statement) {
    // The values of an INSERT get the types of the table's columns.
    let are_inserted = matches!(statement, Statement::Insert(_));
    let _ = visit_mut(statement, &mut AsSelects { are_inserted });
}

struct AsSelects {
    /// Whether the next query is that of an INSERT.
    are_inserted: bool,
}

impl VisitorMut for AsSelects {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !std::mem::take(&mut self.are_inserted) {
            type_texts_in(&mut query.body);
        }
        if let SetExpr::Values(values) = query.body.as_ref()
            && must_be_selected(values)
            && let [_, _, ..] = values.rows.as_slice()
        {
            let _ = rewrite_ordered(query);
        } else {
            rewrite_operands(&mut query.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { subquery, .. } = expr
            && let SetExpr::Values(values) = subquery.body.as_ref()
            && !must_be_selected(values)
            && let Some(mut query) = select_from(values)
            && replace_source(&mut query, subquery.body.clone())
        {
            subquery.body = query.body;
        }
        ControlFlow::Continue(())
    }
}

/// Types the texts in VALUES, also among the operands of UNION and the like.
fn type_texts_in(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) => type_texts(values),
        SetExpr::SetOperation { left, right, .. } => {
            type_texts_in(left);
            type_texts_in(right);
        }
        _ => {}
    }
}

/// Casts the texts of each column to the type that another row says.
fn type_texts(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let is_text = |value: &Expr| {
        matches!(value, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
    };
    for column in 0..width {
        let mut all = values.rows.iter().filter_map(|row| row.content.get(column));
        let Some(data_type) = all.find_map(said_type) else { continue };
        let all = values.rows.iter_mut().filter_map(|row| row.content.get_mut(column));
        for text in all.filter(|value| is_text(value)) {
            *text = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(text.clone()),
                data_type: data_type.clone(),
                array: false,
                format: None,
            };
        }
    }
}

/// The type that a value itself says.
fn said_type(value: &Expr) -> Option<DataType> {
    match value {
        Expr::TypedString(typed) => Some(typed.data_type.clone()),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, .. } => {
            Some(data_type.clone())
        }
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        Expr::Nested(inner) => said_type(inner),
        _ => None,
    }
}

/// Rewrites several rows, sorted by their numbers unless the query has an ORDER BY of its own.
fn rewrite_ordered(query: &mut Query) -> Option<()> {
    let SetExpr::Values(values) = query.body.as_ref() else { return None };
    let mut outer = select_from(values)?;
    if !replace_source(&mut outer, Box::new(union(values, true)?)) {
        return None;
    }
    query.body = outer.body;
    if query.order_by.is_none() {
        query.order_by = outer.order_by;
    }
    Some(())
}

/// Rewrites VALUES among the operands of UNION and the like.
fn rewrite_operands(expr: &mut SetExpr) {
    match expr {
        SetExpr::SetOperation { left, right, .. } => {
            rewrite_operands(left);
            rewrite_operands(right);
        }
        SetExpr::Values(values) if must_be_selected(values) => {
            if let Some(union) = union(values, false) {
                *expr = union;
            }
        }
        _ => {}
    }
}

/// Whether there is a subquery, or a column, which can only be one of the query around.
fn must_be_selected(values: &Values) -> bool {
    struct Reads;
    impl Visitor for Reads {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                Expr::Identifier(name) if !name.value.eq_ignore_ascii_case("default") => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    values.rows.iter().any(|row| visit(&row.content, &mut Reads).is_break())
}

/// `SELECT column1, … FROM (SELECT 1) ORDER BY` the row's number.
fn select_from(values: &Values) -> Option<Query> {
    let count = values.rows.first()?.content.len();
    let names: Vec<String> = (1..=count).map(|number| format!("column{number}")).collect();
    parsed(&format!("SELECT {} FROM (SELECT 1) AS sty__values ORDER BY {ROW}", names.join(", ")))
}

fn parsed(sql: &str) -> Option<Query> {
    let dialect = StylobateDialect::new(sql.len());
    Parser::new(&dialect).try_with_sql(sql).ok()?.parse_query().ok().map(|query| *query)
}

/// Replaces the rows that a query reads.
fn replace_source(query: &mut Query, rows: Box<SetExpr>) -> bool {
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        subquery.body = rows;
        return true;
    }
    false
}

/// One SELECT for each row, with or without the row's number.
fn union(values: &Values, numbered: bool) -> Option<SetExpr> {
    let rows = values
        .rows
        .iter()
        .enumerate()
        .map(|(index, row)| select(&row.content, numbered.then_some(index)));
    union_all(rows.collect::<Option<Vec<_>>>()?)
}

/// A UNION ALL of the rows as a balanced tree.
fn union_all(mut rows: Vec<SetExpr>) -> Option<SetExpr> {
    if rows.len() < 2 {
        return rows.pop();
    }
    let right = rows.split_off(rows.len() / 2);
    Some(SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(union_all(rows)?),
        right: Box::new(union_all(right)?),
    })
}

fn select(row: &[Expr], number: Option<usize>) -> Option<SetExpr> {
    let mut query = parsed("SELECT 1")?;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let named =
        |expr: Expr, name: String| SelectItem::ExprWithAlias { expr, alias: Ident::new(name) };
    select.projection = row
        .iter()
        .enumerate()
        .map(|(index, value)| named(value.clone(), format!("column{}", index + 1)))
        .collect();
    if let Some(number) = number {
        let number = Expr::Value(Value::Number(number.to_string(), false).into());
        select.projection.push(named(number, ROW.to_owned()));
    }
    Some(*query.body)
}
