//! `TABLESAMPLE` behind a table, as a query of the table with a mark as its condition, which
//! `plan::samples` replaces. DataFusion (55.2) ignores TABLESAMPLE.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SetExpr, Statement, TableAlias, TableFactor, TableSample,
    TableSampleKind, TableSampleMethod, TableSampleUnit, TableWithJoins, Value, ValueWithSpan,
    Visitor, VisitorMut,
};

use crate::error::{Error, Result};
use crate::sql::syntax::marks;
use crate::sql::syntax::sites::{all_of, query};
use crate::sql::walks::{visit, visit_mut};

/// Writes the queries of a statement. A sample of anything but a table of a query is refused: the
/// rows of a DELETE or UPDATE would be all of them.
pub(in crate::sql) fn as_queries(statement: &mut Statement) -> Result<()> {
    if let ControlFlow::Break(error) = visit_mut(statement, &mut Samples) {
        return Err(error);
    }
    match visit(statement, &mut Left) {
        ControlFlow::Break(()) => Err(Error::Unsupported(
            "a sample is one of a table in the FROM of a query, and not of what is changed; use \
             WHERE … IN (SELECT … FROM … TABLESAMPLE 10 PERCENT)"
                .into(),
        )),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Meets the samples that are left.
struct Left;

impl Visitor for Left {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if has_one(table) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Samples;

impl VisitorMut for Samples {
    type Break = Error;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if !select.from.iter().any(any_has_one) {
            return ControlFlow::Continue(());
        }
        let pattern = select.clone();
        for from in &mut select.from {
            if let Err(error) = all_sampled(from, &pattern) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

fn any_has_one(tables: &TableWithJoins) -> bool {
    has_one(&tables.relation) || tables.joins.iter().any(|join| has_one(&join.relation))
}

fn has_one(table: &TableFactor) -> bool {
    match table {
        TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => sample.is_some(),
        TableFactor::NestedJoin { table_with_joins, .. } => any_has_one(table_with_joins),
        TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => has_one(table),
        _ => false,
    }
}

fn all_sampled(tables: &mut TableWithJoins, like: &Select) -> Result<()> {
    sampled(&mut tables.relation, like)?;
    tables.joins.iter_mut().try_for_each(|join| sampled(&mut join.relation, like))
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
        TableFactor::NestedJoin { table_with_joins, .. } => {
            return all_sampled(table_with_joins, like);
        }
        TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => {
            return sampled(table, like);
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
    let from = TableWithJoins { relation: table.clone(), joins: Vec::new() };
    let part = Select { selection: Some(condition(&sample)?), ..all_of(like, vec![from]) };
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
