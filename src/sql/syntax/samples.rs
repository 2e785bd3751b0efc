//! `TABLESAMPLE` behind a table, as a query of a random part of it. DataFusion (55.2) ignores it.
//!
//! Where this stands on the road of a query: after parsing. A share is one of rows, whatever the
//! method; a number of rows is exact.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, LimitClause, ObjectNamePart, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleUnit, TableWithJoins, Value,
    ValueWithSpan, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::sites::query;
use crate::sql::walks::{function_call, visit_mut};

/// Writes the queries of a statement.
pub(in crate::sql) fn as_queries(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Samples) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Samples;

impl VisitorMut for Samples {
    type Break = Error;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let joined = |from: &TableWithJoins| from.joins.iter().any(|join| has_one(&join.relation));
        if !select.from.iter().any(|from| has_one(&from.relation) || joined(from)) {
            return ControlFlow::Continue(());
        }
        let pattern = select.clone();
        for from in &mut select.from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for table in std::iter::once(&mut from.relation).chain(joined) {
                if let Err(error) = sampled(table, &pattern) {
                    return ControlFlow::Break(error);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn has_one(table: &TableFactor) -> bool {
    matches!(
        table,
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. }
    )
}

fn sampled(table: &mut TableFactor, like: &Select) -> Result<()> {
    let (sample, alias, name) = match table {
        TableFactor::Table { sample, alias, name, .. } => {
            let name = match name.0.last() {
                Some(ObjectNamePart::Identifier(name)) => Some(name.clone()),
                _ => None,
            };
            (sample.take(), alias.take(), name)
        }
        TableFactor::Derived { sample, alias, .. } if sample.is_some() => {
            (sample.take(), alias.take(), None)
        }
        _ => return Ok(()),
    };
    let restore = |table: &mut TableFactor, alias| {
        if let TableFactor::Table { alias: to, .. } | TableFactor::Derived { alias: to, .. } = table
        {
            *to = alias;
        }
    };
    let Some(kind) = sample else {
        restore(table, alias);
        return Ok(());
    };
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        kind;
    let (number, unit) = quantity(&sample)?;
    let mut part = Select {
        distinct: None,
        projection: vec![SelectItem::Wildcard(Default::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation: table.clone(), joins: Vec::new() }],
        selection: None,
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        flavor: SelectFlavor::Standard,
        ..like.clone()
    };
    let random = || function_call("random", Vec::new());
    let subquery = match unit {
        TableSampleUnit::Percent => {
            let share = Expr::value(Value::Number((number / 100.0).to_string(), false));
            part.selection = Some(Expr::BinaryOp {
                left: Box::new(random()),
                op: BinaryOperator::Lt,
                right: Box::new(share),
            });
            query(None, SetExpr::Select(Box::new(part)))
        }
        TableSampleUnit::Rows => {
            let limit = Some(Expr::value(Value::Number(number.to_string(), false)));
            let key = OrderByExpr {
                expr: random(),
                options: OrderByOptions { asc: None, nulls_first: None },
                with_fill: None,
            };
            Box::new(Query {
                order_by: Some(OrderBy {
                    kind: OrderByKind::Expressions(vec![key]),
                    interpolate: None,
                }),
                limit_clause: Some(LimitClause::LimitOffset {
                    limit,
                    offset: None,
                    limit_by: Vec::new(),
                }),
                ..*query(None, SetExpr::Select(Box::new(part)))
            })
        }
    };
    let named = |name: Ident| TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let alias = alias.or_else(|| name.map(named));
    *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

/// How much is asked for.
fn quantity(sample: &TableSample) -> Result<(f64, TableSampleUnit)> {
    if sample.seed.is_some() {
        return Err(Error::Unsupported(
            "samples are not repeatable yet; leave out REPEATABLE, or keep a sample in a table: \
             CREATE TABLE s AS SELECT * FROM t USING SAMPLE 10%"
                .into(),
        ));
    }
    let wrong = || {
        Error::InvalidInput(
            "a sample is from 0 to 100 PERCENT, or a number of ROWS: TABLESAMPLE (10 PERCENT)"
                .into(),
        )
    };
    let quantity = sample.quantity.as_ref().ok_or_else(wrong)?;
    let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &quantity.value else {
        return Err(wrong());
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = quantity.unit.unwrap_or(TableSampleUnit::Percent);
    let most = if unit == TableSampleUnit::Percent { 100.0 } else { 9e15 };
    let is_whole = unit == TableSampleUnit::Percent || number.fract() == 0.0;
    match (0.0..=most).contains(&number) && is_whole {
        true => Ok((number, unit)),
        false => Err(wrong()),
    }
}
