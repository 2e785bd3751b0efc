//! `TABLESAMPLE` behind a table, as a query of the table with a mark as its condition, which
//! `plan::samples` replaces. DataFusion (55.2) ignores TABLESAMPLE.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectNamePart, Select, SelectFlavor, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit,
    TableWithJoins, Value, ValueWithSpan, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::marks;
use crate::sql::syntax::sites::query;
use crate::sql::walks::visit_mut;

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
    let part = Select {
        distinct: None,
        projection: vec![SelectItem::Wildcard(Default::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation: table.clone(), joins: Vec::new() }],
        selection: Some(condition(&sample)?),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        flavor: SelectFlavor::Standard,
        ..like.clone()
    };
    let named = |name: Ident| TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let alias = alias.or_else(|| name.map(named));
    let subquery = query(None, SetExpr::Select(Box::new(part)));
    *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

/// The mark of a sample: its method, how much of what, the seed if there is one, and a number that
/// tells it from other samples of the same table.
fn condition(sample: &TableSample) -> Result<Expr> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let wrong = || {
        Error::InvalidInput(
            "a sample is from 0 to 100 PERCENT, or a number of ROWS: TABLESAMPLE (10 PERCENT)"
                .into(),
        )
    };
    let quantity = sample.quantity.as_ref().ok_or_else(wrong)?;
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = &quantity.value else {
        return Err(wrong());
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let (unit, most, is_whole) = match quantity.unit.unwrap_or(TableSampleUnit::Percent) {
        TableSampleUnit::Percent => ("PERCENT", 100.0, true),
        TableSampleUnit::Rows => ("ROWS", 9e15, number.fract() == 0.0),
    };
    if !(0.0..=most).contains(&number) || !is_whole {
        return Err(wrong());
    }
    let method = match sample.name {
        Some(TableSampleMethod::Bernoulli) => "BERNOULLI",
        Some(TableSampleMethod::Row) => "RESERVOIR",
        Some(TableSampleMethod::System | TableSampleMethod::Block) | None => "SYSTEM",
    };
    let seed = match sample.seed.as_ref().map(|seed| &seed.value.value) {
        None => Value::Null,
        Some(Value::Number(digits, _)) if digits.parse::<u64>().is_ok() => {
            Value::SingleQuotedString(digits.clone())
        }
        Some(_) => {
            return Err(Error::InvalidInput(
                "the seed of a sample is a whole number: REPEATABLE (42)".into(),
            ));
        }
    };
    let own = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
    let text = |text: &str| Value::SingleQuotedString(text.into());
    let how = [text(method), text(digits), text(unit), seed, text(&own)];
    Ok(marks::mark_sample(how.into_iter().map(Expr::value).collect()))
}
